/* SPDX-License-Identifier: Apache-2.0
 *
 * odbc_table.c - the table that rows go to: is it there, what are its columns, making it.
 *
 * All of this comes before a batch's transaction: in some databases CREATE TABLE commits what is
 * open. Names are quoted, so a table is found under exactly the name that it has; columns are
 * matched by name, exactly or else without case, and the table's spelling is used. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "sink/odbc/odbc_int.h"

/* ---- its name */

/* The next part of a name: up to a dot that is not in quotes. NULL: it cannot be read. */
static char *next_part(const char **at)
{
    const char *s = *at;
    char quote = *s == '"' || *s == '`' ? *s : '\0';
    struct mt_buf part = {0};
    mt_buf_adds(&part, "");
    if (!quote) {
        size_t len = strcspn(s, ".");
        mt_buf_add(&part, s, len);
        *at = s + len;
        return part.data;
    }
    for (s++; *s && (*s != quote || s[1] == quote); s += *s == quote ? 2 : 1)
        mt_buf_add(&part, s, 1);
    *at = s + (*s == quote);
    if (*s == quote)
        return part.data;
    mt_buf_free(&part);
    return NULL;
}

enum mt_status odbc_table_init(struct odbc_table *table, const char *name, struct mt_error *err)
{
    const char *at = name;
    table->name = mt_strdup(name);
    table->parts = mt_alloc((strlen(name) + 2) * sizeof *table->parts);
    for (bool more = true; more; at += more) {
        char *part = next_part(&at);
        table->parts[table->n_parts] = part;
        table->n_parts += part != NULL;
        more = *at == '.';
        if (part && *part && (more || !*at))
            continue;
        snprintf(err->option, sizeof err->option, "table");
        return mt_fail(err, MT_FATAL, MT_CLASS_JOB,
                       "odbc: \"%s\" is no table's name: write orders, or sales.orders, and "
                       "\"odd.name\" in quotes of its own",
                       name);
    }
    return MT_OK;
}

static void forget_columns(struct odbc_table *table)
{
    for (int64_t i = 0; i < table->n_columns; i++)
        free(table->columns[i]);
    free(table->columns);
    table->columns = NULL;
    table->n_columns = 0;
    table->generation = 0;
}

void odbc_table_deinit(struct odbc_table *table)
{
    forget_columns(table);
    for (int64_t i = 0; i < table->n_parts; i++)
        free(table->parts[i]);
    free(table->parts), free(table->name);
}

void odbc_table_quote(const struct odbc_connection *connection, const struct odbc_table *table,
                      struct mt_buf *sql)
{
    for (int64_t i = 0; i < table->n_parts; i++) {
        if (i > 0)
            mt_buf_adds(sql, ".");
        odbc_quote(connection, table->parts[i], sql);
    }
}

/* ---- its columns */

struct columns {
    char **names; /* ends with NULL */
    int64_t n;
};

static void columns_free(struct columns *columns)
{
    for (int64_t i = 0; i < columns->n; i++)
        free(columns->names[i]);
    free(columns->names);
}

static SQLRETURN column_name(const struct odbc_connection *connection, SQLHSTMT statement, int i,
                             char **out)
{
    SQLWCHAR wide[300] = {0};
    SQLCHAR plain[300] = "";
    SQLSMALLINT len = 0, type, digits, nullable;
    SQLULEN size;
    struct mt_buf name = {0};
    SQLRETURN rc = connection->is_plain ? SQLDescribeCol(statement, (SQLUSMALLINT)i, plain, 300,
                                                         &len, &type, &size, &digits, &nullable)
                                        : SQLDescribeColW(statement, (SQLUSMALLINT)i, wide, 300,
                                                          &len, &type, &size, &digits, &nullable);
    mt_buf_adds(&name, (char *)plain);
    if (!connection->is_plain)
        odbc_narrow(wide, len < 299 ? len : 299, &name);
    *out = name.data;
    return rc;
}

static enum mt_status describe(struct odbc_connection *connection, SQLHSTMT statement,
                               struct columns *columns, struct mt_error *err)
{
    SQLSMALLINT n = 0;
    SQLRETURN rc = SQLNumResultCols(statement, &n);
    columns->names = mt_alloc((size_t)(n + 1) * sizeof *columns->names);
    for (SQLSMALLINT i = 1; SQL_SUCCEEDED(rc) && i <= n; i++)
        rc = column_name(connection, statement, i, &columns->names[columns->n++]);
    return SQL_SUCCEEDED(rc) ? MT_OK
                             : odbc_failed(connection, SQL_HANDLE_STMT, statement,
                                           "reading the table's columns", err);
}

/* *there false: there is no such table. */
static enum mt_status look(struct odbc_sink *odbc, struct columns *columns, bool *there,
                           struct mt_error *err)
{
    struct odbc_connection *connection = odbc->connection;
    struct mt_buf sql = {0};
    SQLHSTMT statement;
    *columns = (struct columns){0};
    mt_buf_adds(&sql, "SELECT * FROM ");
    odbc_table_quote(connection, &odbc->table, &sql);
    mt_buf_adds(&sql, " WHERE 1 = 0");
    enum mt_status status = odbc_statement(connection, &statement, err);
    if (status == MT_OK && !SQL_SUCCEEDED(odbc_execute(connection, statement, sql.data)))
        status = odbc_failed(connection, SQL_HANDLE_STMT, statement, odbc->base.identity, err);
    *there = status == MT_OK;
    if (status == MT_OK)
        status = describe(connection, statement, columns, err);
    else if (status == MT_FATAL && connection->fault.trouble == ODBC_NO_TABLE)
        status = MT_OK;
    odbc_statement_free(statement);
    mt_buf_free(&sql);
    return status;
}

static const char *find_column(const struct columns *columns, const char *name)
{
    for (int64_t i = 0; i < columns->n; i++)
        if (strcmp(columns->names[i], name) == 0)
            return columns->names[i];
    for (int64_t i = 0; i < columns->n; i++)
        if (strcasecmp(columns->names[i], name) == 0)
            return columns->names[i];
    return NULL;
}

static enum mt_status no_column(const struct odbc_sink *odbc, const struct columns *columns,
                                const char *name, struct mt_error *err)
{
    struct mt_buf all = {0};
    const char *near = mt_suggest(name, (const char *const *)columns->names);
    for (int64_t i = 0; i < columns->n; i++)
        mt_buf_addf(&all, "%s%s", i ? ", " : "", columns->names[i]);
    mt_fail(err, MT_FATAL, MT_CLASS_SINK,
            "%s: the table has no column \"%s\"%s%s%s; it has: %s. Rename the column "
            "(withColumnRenamed), drop it, or add it to the table",
            odbc->base.identity, name, near ? "; did you mean \"" : "", near ? near : "",
            near ? "\"?" : "", all.data ? all.data : "none");
    mt_buf_free(&all);
    return MT_FATAL;
}

static enum mt_status match(struct odbc_sink *odbc, const struct columns *columns,
                            struct mt_error *err)
{
    const struct ArrowSchema *schema = odbc->base.schema;
    struct odbc_table *table = &odbc->table;
    forget_columns(table);
    table->columns = mt_alloc((size_t)schema->n_children * sizeof *table->columns);
    for (int64_t i = 0; i < schema->n_children; i++) {
        const char *name = find_column(columns, schema->children[i]->name);
        if (!name)
            return no_column(odbc, columns, schema->children[i]->name, err);
        for (int64_t k = 0; k < i; k++)
            if (strcmp(table->columns[k], name) == 0)
                return mt_fail(err, MT_FATAL, MT_CLASS_SINK,
                               "%s: two columns of the rows, \"%s\" and \"%s\", are the table's "
                               "\"%s\"",
                               odbc->base.identity, schema->children[k]->name,
                               schema->children[i]->name, name);
        table->columns[table->n_columns++] = mt_strdup(name);
    }
    return MT_OK;
}

/* ---- making it */

/* "name VARCHAR(64), note CHAR(8)": the entry at *at, which moves behind its comma. */
static bool next_type(const char **at, char **name, char **type)
{
    const char *s = *at + strspn(*at, ", \t\n"), *end = s;
    int depth = 0;
    if (!*s)
        return false;
    for (; *end && (depth > 0 || *end != ','); end++)
        depth += (*end == '(') - (*end == ')');
    size_t quoted = *s == '`' || *s == '"';
    size_t len = quoted ? strcspn(s + 1, "`\"") : strcspn(s, " \t\n,");
    *name = mt_strndup(s + quoted, len);
    const char *rest = s + len + 2 * quoted;
    rest = rest < end ? rest + strspn(rest, " \t\n") : end;
    *type = mt_strndup(rest, (size_t)(end - rest));
    *at = end;
    return true;
}

enum mt_status odbc_table_check_types(const struct odbc_sink *odbc, struct mt_error *err)
{
    const struct ArrowSchema *schema = odbc->base.schema;
    const char *at = odbc->column_types ? odbc->column_types : "";
    enum mt_status status = MT_OK;
    for (char *name, *type; status == MT_OK && next_type(&at, &name, &type);
         free(name), free(type)) {
        bool known = false;
        for (int64_t i = 0; i < schema->n_children; i++)
            known = known || strcasecmp(schema->children[i]->name, name) == 0;
        if (known && *type)
            continue;
        snprintf(err->option, sizeof err->option, "createTableColumnTypes");
        status = mt_fail(err, MT_FATAL, MT_CLASS_JOB,
                         known ? "odbc: createTableColumnTypes: column \"%s\" is given no type"
                               : "odbc: createTableColumnTypes: there is no column \"%s\"",
                         name);
    }
    return status;
}

/* The type that the user gave a column; NULL: none. */
static char *given_type(const struct odbc_sink *odbc, const char *column)
{
    const char *at = odbc->column_types ? odbc->column_types : "";
    char *found = NULL;
    for (char *name, *type; !found && next_type(&at, &name, &type); free(name), free(type))
        if (strcasecmp(name, column) == 0)
            found = mt_strdup(type);
    return found;
}

static bool is_key(const struct odbc_sink *odbc, int64_t column)
{
    for (int64_t i = 0; i < odbc->n_keys; i++)
        if (odbc->keys[i] == column)
            return true;
    return false;
}

static void add_type(const struct odbc_sink *odbc, int64_t column, struct mt_buf *sql)
{
    const struct odbc_dialect *dialect = odbc->connection->dialect;
    const struct ArrowSchema *field = odbc->base.schema->children[column];
    enum mt_type type = mt_schema_type(field);
    char *given = given_type(odbc, field->name);
    const char *name = given                                       ? given
                       : type == MT_STRING && is_key(odbc, column) ? dialect->key_text
                                                                   : dialect->types[type];
    const char *numbers = given ? NULL : strstr(name, "(%d,%d)");
    if (numbers) {
        int32_t precision, scale;
        mt_schema_decimal(field, &precision, &scale);
        mt_buf_add(sql, name, (size_t)(numbers - name));
        mt_buf_addf(sql, "(%d,%d)", precision, scale);
    } else {
        mt_buf_adds(sql, name);
    }
    free(given);
    if (!(field->flags & ARROW_FLAG_NULLABLE) || is_key(odbc, column))
        mt_buf_adds(sql, " NOT NULL");
}

static enum mt_status make(struct odbc_sink *odbc, struct mt_error *err)
{
    struct odbc_connection *connection = odbc->connection;
    const struct ArrowSchema *schema = odbc->base.schema;
    struct mt_buf sql = {0};
    mt_buf_adds(&sql, "CREATE TABLE ");
    odbc_table_quote(connection, &odbc->table, &sql);
    for (int64_t i = 0; i < schema->n_children; i++) {
        mt_buf_adds(&sql, i ? ", " : " (");
        odbc_quote(connection, schema->children[i]->name, &sql);
        mt_buf_adds(&sql, " ");
        add_type(odbc, i, &sql);
    }
    for (int64_t i = 0; i < odbc->n_keys; i++) {
        mt_buf_adds(&sql, i ? ", " : ", PRIMARY KEY (");
        odbc_quote(connection, schema->children[odbc->keys[i]]->name, &sql);
    }
    mt_buf_addf(&sql, "%s)%s", odbc->n_keys ? ")" : "", connection->dialect->table_ending);
    enum mt_status status = odbc_run(connection, "making the table", sql.data, NULL, err);
    if (status != MT_OK)
        mt_fail_within(err, status, "%s: %s: ", odbc->base.identity, sql.data);
    mt_buf_free(&sql);
    return status;
}

/* ---- may rows go there? */

static enum mt_status expect_own(struct odbc_sink *odbc, const char *query_id, struct mt_error *err)
{
    int64_t last;
    enum mt_status status =
        odbc_ledger_last(odbc->connection, query_id, odbc->base.marker_identity, &last, err);
    if (status != MT_OK || last != ODBC_NO_BATCH)
        return status;
    return mt_fail(err, MT_FATAL, MT_CLASS_SINK,
                   "%s: the table is there already, and mode is \"error\": choose another table, "
                   "or mode \"append\" to add to it",
                   odbc->base.identity);
}

/* A MyISAM table keeps its rows when the transaction is rolled back. */
static enum mt_status expect_transactions(struct odbc_sink *odbc, struct mt_error *err)
{
    struct odbc_connection *connection = odbc->connection;
    const struct odbc_table *table = &odbc->table;
    char *cells[2];
    if (connection->dialect->upsert != ODBC_ON_DUPLICATE_KEY)
        return MT_OK;
    const char *args[] = {table->parts[table->n_parts - 1],
                          table->n_parts > 1 ? table->parts[table->n_parts - 2] : NULL, NULL};
    char *sql = mt_format("SELECT e.ENGINE, e.TRANSACTIONS FROM information_schema.TABLES t JOIN "
                          "information_schema.ENGINES e ON e.ENGINE = t.ENGINE WHERE t.TABLE_NAME "
                          "= ? AND t.TABLE_SCHEMA = %s",
                          args[1] ? "?" : "DATABASE()");
    enum mt_status status = odbc_ask(connection, "asking for its engine", sql, args, cells, 2, err);
    free(sql);
    if (status == MT_OK && cells[0] && !(cells[1] && strcmp(cells[1], "YES") == 0))
        status = mt_fail(err, MT_FATAL, MT_CLASS_SINK,
                         "%s: the table's engine is %s, which has no transactions: rows of a batch "
                         "that fails would stay. ALTER TABLE … ENGINE=InnoDB",
                         odbc->base.identity, cells[0]);
    free(cells[0]), free(cells[1]);
    return status;
}

static enum mt_status look_or_make(struct odbc_sink *odbc, const char *query_id,
                                   struct columns *columns, struct mt_error *err)
{
    bool there;
    enum mt_status status = look(odbc, columns, &there, err);
    if (status != MT_OK)
        return status;
    if (there)
        return odbc->mode == ODBC_ERROR ? expect_own(odbc, query_id, err) : MT_OK;
    if (!odbc->create_table)
        return mt_fail(err, MT_FATAL, MT_CLASS_SINK,
                       "%s: there is no such table, and createTable is false; names are taken as "
                       "they are written, with their case",
                       odbc->base.identity);
    if (odbc->mode == ODBC_ERROR)
        status = odbc_ledger_claim(odbc, query_id, err);
    if (status == MT_OK)
        status = make(odbc, err);
    columns_free(columns);
    struct mt_error why = *err;
    enum mt_status again = status == MT_RETRY ? status : look(odbc, columns, &there, err);
    if (status != MT_OK && !(again == MT_OK && there)) /* else another process made it */
        *err = why;
    else
        status = again;
    return status;
}

enum mt_status odbc_table_prepare(struct odbc_sink *odbc, const char *query_id,
                                  struct mt_error *err)
{
    struct columns columns;
    if (odbc->table.generation == odbc->connection->generation)
        return MT_OK;
    enum mt_status status = look_or_make(odbc, query_id, &columns, err);
    if (status == MT_OK)
        status = match(odbc, &columns, err);
    columns_free(&columns);
    if (status == MT_OK)
        status = expect_transactions(odbc, err);
    if (status == MT_OK)
        odbc->table.generation = odbc->connection->generation;
    return status;
}
