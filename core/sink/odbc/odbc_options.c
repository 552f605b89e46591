/* SPDX-License-Identifier: Apache-2.0
 *
 * odbc_options.c - what a job says of a table in a database, checked before anything is touched. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "sink/odbc/odbc_int.h"

enum { LONGEST_NAME = 250 }; /* characters of a sink's name in the ledger */

const struct mt_option odbc_options[] = {
    {"table", MT_OPT_STRING, NULL, offsetof(struct odbc_sink, table_option), NULL,
     "table, with its schema where it has one: sales.orders"},
    {"dsn", MT_OPT_STRING, NULL, offsetof(struct odbc_sink, dsn), NULL,
     "data source of odbc.ini; this or connection"},
    {"connection", MT_OPT_STRING, NULL, offsetof(struct odbc_sink, connection_option), NULL,
     "connection text: Driver=…;Server=…;Port=…;Database=…"},
    {"user", MT_OPT_STRING, NULL, offsetof(struct odbc_sink, user), NULL, "user of the database"},
    {"password", MT_OPT_SECRET, NULL, offsetof(struct odbc_sink, password), NULL,
     "the user's password, by mt.secret"},
    {"mode", MT_OPT_STRING, "append", offsetof(struct odbc_sink, mode_option),
     "append|upsert|overwrite|ignore|error|errorifexists",
     "append rows; upsert by key; overwrite the table in each batch; ignore rows whose key is "
     "there; error when the table is there before the query's first batch"},
    {"key", MT_OPT_STRING, NULL, offsetof(struct odbc_sink, key_option), NULL,
     "columns, separated by commas, by which upsert finds rows; of a table that is made: its "
     "primary key"},
    {"createTable", MT_OPT_BOOL, "true", offsetof(struct odbc_sink, create_table), NULL,
     "make the table when it is not there"},
    {"createTableColumnTypes", MT_OPT_STRING, NULL, offsetof(struct odbc_sink, column_types), NULL,
     "types of the database for columns of a table that is made: name VARCHAR(64), note CHAR(8)"},
    {"batchsize", MT_OPT_INT, "200", offsetof(struct odbc_sink, batch_size), NULL,
     "rows a statement has at most"},
    {"isolationLevel", MT_OPT_STRING, NULL, offsetof(struct odbc_sink, isolation_option),
     "READ_UNCOMMITTED|READ_COMMITTED|REPEATABLE_READ|SERIALIZABLE",
     "of the batch's transaction; without it the database's own"},
    {"queryTimeout", MT_OPT_DURATION, NULL, offsetof(struct odbc_sink, query_timeout_ms), NULL,
     "longest time a statement may take, in whole seconds; 0: any"},
    {"preActions", MT_OPT_STRING, NULL, offsetof(struct odbc_sink, pre_actions), NULL,
     "statements, separated by semicolons, before a batch's rows and in their transaction"},
    {"postActions", MT_OPT_STRING, NULL, offsetof(struct odbc_sink, post_actions), NULL,
     "the same behind them"},
    {0},
};

const char *const odbc_not_yet[] = {"url",
                                    "dbtable",
                                    "query",
                                    "driver",
                                    "prepareQuery",
                                    "partitionColumn",
                                    "lowerBound",
                                    "upperBound",
                                    "numPartitions",
                                    "fetchsize",
                                    "sessionInitStatement",
                                    "truncate",
                                    "cascadeTruncate",
                                    "createTableOptions",
                                    "customSchema",
                                    "pushDownPredicate",
                                    "pushDownAggregate",
                                    "pushDownLimit",
                                    "pushDownOffset",
                                    "pushDownTableSample",
                                    "keytab",
                                    "principal",
                                    "refreshKrb5Config",
                                    "connectionProvider",
                                    "preferTimestampNTZ",
                                    "hint",
                                    NULL};

static enum mt_status wrong(struct mt_error *err, const char *option, const char *fmt, ...)
    MT_PRINTF(3, 4);
static enum mt_status wrong(struct mt_error *err, const char *option, const char *fmt, ...)
{
    char text[600];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    mt_fail(err, MT_FATAL, MT_CLASS_JOB, "odbc: %s", text);
    snprintf(err->option, sizeof err->option, "%s", option);
    return MT_FATAL;
}

/* ---- names */

static char *connection_base(const struct odbc_sink *odbc)
{
    if (odbc->dsn)
        return mt_format("DSN=%s", odbc->dsn);
    return mt_strdup(odbc->connection_option ? odbc->connection_option : "");
}

void odbc_names(const struct mt_sink *sink, char **place, char **inside)
{
    const struct odbc_sink *odbc = (const struct odbc_sink *)sink;
    char *base = connection_base(odbc), *where = odbc_place_of(base);
    const char *table = odbc->table_option ? odbc->table_option : "";
    *place = mt_format("%s at %s", table, where);
    *inside = mt_strdup(table);
    free(base), free(where);
}

/* ---- checks */

/* ;KEY={value}, braces doubled inside: a password may have any character. */
static void add_keyword(struct mt_buf *text, const char *key, const char *value)
{
    mt_buf_addf(text, ";%s=", key);
    bool plain = value[strspn(value, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                     "0123456789_-.")] == '\0';
    if (!plain)
        mt_buf_adds(text, "{");
    for (; *value; value++)
        mt_buf_add(text, *value == '}' ? "}}" : value, *value == '}' ? 2 : 1);
    if (!plain)
        mt_buf_adds(text, "}");
}

static enum mt_status set_text(struct odbc_sink *odbc, struct mt_error *err)
{
    if (!odbc->dsn == !odbc->connection_option)
        return wrong(err, odbc->dsn ? "connection" : "dsn",
                     "%s: add :option(\"connection\", \"Driver=…;Server=…;Database=…\") or "
                     ":option(\"dsn\", \"…\"), one of the two",
                     odbc->dsn ? "two places are given" : "it is not said which database");
    char *base = connection_base(odbc);
    struct mt_buf text = {0};
    size_t len = strlen(base);
    while (len > 0 && (base[len - 1] == ';' || base[len - 1] == ' '))
        len--;
    mt_buf_add(&text, base, len);
    if (odbc->user)
        add_keyword(&text, "UID", odbc->user);
    if (odbc->password)
        add_keyword(&text, "PWD", odbc->password);
    free(base);
    odbc->text = text.data;
    return MT_OK;
}

static enum mt_status set_mode(struct odbc_sink *odbc, struct mt_error *err)
{
    static const char *const words[] = {"append", "upsert", "overwrite", "ignore", "error"};
    odbc->mode = ODBC_ERROR; /* errorifexists is the same */
    for (int i = 0; i < 5; i++)
        if (strcmp(odbc->mode_option, words[i]) == 0)
            odbc->mode = (enum odbc_mode)i;
    if (odbc->mode == ODBC_UPSERT && odbc->n_keys == 0)
        return wrong(err, "mode",
                     "mode \"upsert\" finds rows by their key: add :option(\"key\", \"…\")");
    return MT_OK;
}

static enum mt_status set_isolation(struct odbc_sink *odbc, struct mt_error *err)
{
    static const struct {
        const char *word;
        SQLUINTEGER value;
    } levels[] = {{"READ_UNCOMMITTED", SQL_TXN_READ_UNCOMMITTED},
                  {"READ_COMMITTED", SQL_TXN_READ_COMMITTED},
                  {"REPEATABLE_READ", SQL_TXN_REPEATABLE_READ},
                  {"SERIALIZABLE", SQL_TXN_SERIALIZABLE}};
    for (size_t i = 0; odbc->isolation_option && i < 4; i++)
        if (strcasecmp(levels[i].word, odbc->isolation_option) == 0)
            odbc->isolation = levels[i].value;
    if (odbc->batch_size < 1)
        return wrong(err, "batchsize", "batchsize is at least 1");
    if (odbc->query_timeout_ms % 1000 != 0)
        return wrong(err, "queryTimeout", "queryTimeout is in whole seconds");
    return MT_OK;
}

static enum mt_status add_key(struct odbc_sink *odbc, const char *name, struct mt_error *err)
{
    const struct ArrowSchema *schema = odbc->base.schema;
    const char **names = mt_alloc((size_t)(schema->n_children + 1) * sizeof *names);
    int64_t found = -1;
    for (int64_t i = 0; i < schema->n_children; i++) {
        names[i] = schema->children[i]->name;
        if (found < 0 && strcmp(names[i], name) == 0)
            found = i;
    }
    for (int64_t i = 0; found < 0 && i < schema->n_children; i++)
        if (strcasecmp(names[i], name) == 0)
            found = i;
    const char *near = found < 0 ? mt_suggest(name, names) : NULL;
    free(names);
    if (found < 0 && near)
        return wrong(err, "key", "key: there is no column \"%s\"; did you mean \"%s\"?", name,
                     near);
    if (found < 0)
        return wrong(err, "key", "key: there is no column \"%s\"", name);
    odbc->keys[odbc->n_keys++] = (int32_t)found;
    return MT_OK;
}

static enum mt_status set_keys(struct odbc_sink *odbc, struct mt_error *err)
{
    enum mt_status status = MT_OK;
    char *copy = mt_strdup(odbc->key_option ? odbc->key_option : ""), *rest = copy, *name;
    odbc->keys = mt_alloc((strlen(copy) + 1) * sizeof *odbc->keys);
    while (status == MT_OK && (name = strsep(&rest, ","))) {
        name += strspn(name, " ");
        size_t len = strlen(name);
        while (len > 0 && name[len - 1] == ' ')
            name[--len] = '\0';
        if (len > 0)
            status = add_key(odbc, name, err);
    }
    free(copy);
    return status;
}

static enum mt_status check_types(const struct mt_sink *sink, struct mt_error *err)
{
    for (int64_t i = 0; i < sink->schema->n_children; i++) {
        const struct ArrowSchema *field = sink->schema->children[i];
        enum mt_type type = mt_schema_type(field);
        if (type != MT_ARRAY && type != MT_STRUCT && type != MT_MAP)
            continue;
        char *name = mt_schema_type_name(field);
        mt_fail(err, MT_REJECT, MT_CLASS_JOB,
                "odbc: column \"%s\" is %s, and a database's column holds one value: select its "
                "fields, or write it as text with mt.json.encode",
                field->name, name);
        mt_free(name);
        return MT_REJECT;
    }
    return MT_OK;
}

static enum mt_status check_name(const struct mt_sink *sink, struct mt_error *err)
{
    size_t len = strlen(sink->marker_identity);
    if (len <= LONGEST_NAME)
        return MT_OK;
    return mt_fail(err, MT_FATAL, MT_CLASS_JOB,
                   "the sink's name has %zu bytes and may have %d in the database", len,
                   LONGEST_NAME);
}

enum mt_status odbc_options_check(struct odbc_sink *odbc, struct mt_error *err)
{
    if (!odbc->table_option)
        return wrong(err, "table", "it is not said which table: add :option(\"table\", \"…\")");
    enum mt_status status = odbc_table_init(&odbc->table, odbc->table_option, err);
    if (status == MT_OK)
        status = set_text(odbc, err);
    if (status == MT_OK)
        status = check_types(&odbc->base, err);
    if (status == MT_OK)
        status = set_keys(odbc, err);
    if (status == MT_OK)
        status = set_mode(odbc, err);
    if (status == MT_OK)
        status = set_isolation(odbc, err);
    if (status == MT_OK)
        status = odbc_actions_check("preActions", odbc->pre_actions, err);
    if (status == MT_OK)
        status = odbc_actions_check("postActions", odbc->post_actions, err);
    return status == MT_OK ? check_name(&odbc->base, err) : status;
}
