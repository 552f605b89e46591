/* SPDX-License-Identifier: Apache-2.0
 *
 * odbc_ledger.c - moontide_ledger: which batches the database holds.
 *
 * Its row is the first statement of a batch's transaction, and the decision: the primary key
 * (query, sink, batch) lets one transaction of all have it. So a replay, a second process on a
 * copied checkpoint and a COMMIT whose answer was lost are one question with one answer; who comes
 * second waits until the first one's transaction has ended and is told of the duplicate.
 *
 * A sink that was found to make its table says so in a row of batch -1, before the table is there:
 * mode "error" knows by it, after a crash, that the table is the query's own. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sink/odbc/odbc_int.h"

#define LEDGER "moontide_ledger"
enum { KEPT = 1000, N_CELLS = 7 };

static void add_name(const struct odbc_connection *connection, const char *before, const char *name,
                     struct mt_buf *sql)
{
    mt_buf_adds(sql, before);
    odbc_quote(connection, name, sql);
}

/* "query" = ? AND "sink" = ?, for parameters */
static void add_whose(const struct odbc_connection *connection, struct mt_buf *sql)
{
    add_name(connection, " FROM ", LEDGER, sql);
    add_name(connection, " WHERE ", "query", sql);
    add_name(connection, " = ? AND ", "sink", sql);
    add_name(connection, " = ? AND ", "batch", sql);
}

static enum mt_status within(enum mt_status status, struct mt_error *err)
{
    return status == MT_OK ? MT_OK
                           : mt_fail_within(err, status == MT_REJECT ? MT_FATAL : status,
                                            "the ledger of batches (%s): ", LEDGER);
}

/* ---- the table */

static const struct {
    const char *name;
    int length; /* of text; 0: a BIGINT */
} columns[] = {
    {"query", 64}, {"sink", 255},  {"batch", 0},        {"digest", 64}, {"rows", 0},
    {"merged", 0}, {"ignored", 0}, {"fingerprint", 16}, {"bundle", 64}, {"time", 32},
};
enum { N_COLUMNS = sizeof columns / sizeof *columns };

static char *create_sql(const struct odbc_connection *connection)
{
    struct mt_buf sql = {0};
    const char *const text = connection->dialect->ledger_text;
    add_name(connection, "CREATE TABLE ", LEDGER, &sql);
    for (int i = 0; i < N_COLUMNS; i++) {
        add_name(connection, i ? ", " : " (", columns[i].name, &sql);
        mt_buf_adds(&sql, " ");
        for (const char *at = columns[i].length ? text : "BIGINT"; *at; at++) {
            bool length = strncmp(at, "%d", 2) == 0;
            if (length)
                mt_buf_addf(&sql, "%d", columns[i].length);
            else
                mt_buf_add(&sql, at, 1);
            at += length;
        }
        mt_buf_adds(&sql, " NOT NULL");
    }
    add_name(connection, ", PRIMARY KEY (", "query", &sql);
    add_name(connection, ", ", "sink", &sql);
    add_name(connection, ", ", "batch", &sql);
    mt_buf_addf(&sql, "))%s", connection->dialect->table_ending);
    return sql.data;
}

static enum mt_status is_there(struct odbc_connection *connection, bool *there,
                               struct mt_error *err)
{
    struct mt_buf sql = {0};
    char *cell;
    add_name(connection, "SELECT COUNT(*) FROM ", LEDGER, &sql);
    mt_buf_adds(&sql, " WHERE 1 = 0");
    enum mt_status status = odbc_ask(connection, "reading it", sql.data, NULL, &cell, 1, err);
    mt_buf_free(&sql);
    free(cell);
    *there = status == MT_OK;
    return status == MT_FATAL && connection->fault.trouble == ODBC_NO_TABLE ? MT_OK : status;
}

/* Another process may make it at the same time: then it is there at the second look. */
enum mt_status odbc_ledger_make(struct odbc_connection *connection, struct mt_error *err)
{
    bool there;
    if (connection->ledger_generation == connection->generation)
        return MT_OK;
    enum mt_status status = is_there(connection, &there, err);
    if (status == MT_OK && !there) {
        struct mt_error again;
        char *sql = create_sql(connection);
        status = odbc_run(connection, "making it", sql, NULL, err);
        free(sql);
        if (status != MT_OK && status != MT_RETRY &&
            is_there(connection, &there, &again) == MT_OK && there)
            status = MT_OK;
    }
    if (status == MT_OK)
        connection->ledger_generation = connection->generation;
    return within(status, err);
}

/* ---- reading */

static void fill(char *const *cells, struct mt_sink_record *record)
{
    *record = (struct mt_sink_record){
        .batch_id = strtoll(cells[0], NULL, 10),
        .rows = strtoll(cells[2], NULL, 10),
        .merged = strtoll(cells[3], NULL, 10),
        .ignored = strtoll(cells[4], NULL, 10),
        .fingerprint = strtoull(cells[5], NULL, 16),
    };
    snprintf(record->digest, sizeof record->digest, "%s", cells[1]);
    snprintf(record->bundle, sizeof record->bundle, "%s", cells[6]);
}

static char *find_sql(const struct odbc_connection *connection, int64_t batch)
{
    static const char *const names[N_CELLS] = {"batch",   "digest",      "rows",  "merged",
                                               "ignored", "fingerprint", "bundle"};
    struct mt_buf sql = {0};
    for (int i = 0; i < N_CELLS; i++)
        add_name(connection, i ? ", " : "SELECT ", names[i], &sql);
    add_whose(connection, &sql);
    mt_buf_addf(&sql, " = %" PRId64, batch);
    return sql.data;
}

enum mt_status odbc_ledger_find(struct odbc_connection *connection, const char *query_id,
                                const char *sink, int64_t batch, struct mt_sink_record *record,
                                bool *found, struct mt_error *err)
{
    char *cells[N_CELLS], *sql = find_sql(connection, batch);
    const char *const args[] = {query_id, sink, NULL};
    enum mt_status status = odbc_ask(connection, "reading it", sql, args, cells, N_CELLS, err);
    free(sql);
    *found = status == MT_OK && cells[0];
    if (*found)
        fill(cells, record);
    for (int i = 0; i < N_CELLS; i++)
        free(cells[i]);
    return within(status, err);
}

enum mt_status odbc_ledger_last(struct odbc_connection *connection, const char *query_id,
                                const char *sink, int64_t *last, struct mt_error *err)
{
    struct mt_buf sql = {0};
    char *cell;
    const char *const args[] = {query_id, sink, NULL};
    add_name(connection, "SELECT MAX(", "batch", &sql);
    mt_buf_adds(&sql, ")");
    add_whose(connection, &sql);
    mt_buf_addf(&sql, " >= %d", ODBC_CLAIM);
    enum mt_status status = odbc_ask(connection, "reading it", sql.data, args, &cell, 1, err);
    mt_buf_free(&sql);
    *last = cell ? strtoll(cell, NULL, 10) : ODBC_NO_BATCH;
    free(cell);
    return within(status, err);
}

enum mt_status odbc_ledger_strangers(struct odbc_sink *odbc, const char *query_id, char **words,
                                     struct mt_error *err)
{
    const struct odbc_connection *connection = odbc->connection;
    struct mt_buf sql = {0};
    const char *const args[] = {odbc->base.marker_identity, query_id, NULL};
    add_name(connection, "SELECT MAX(", "query", &sql);
    add_name(connection, ") FROM ", LEDGER, &sql);
    add_name(connection, " WHERE ", "sink", &sql);
    add_name(connection, " = ? AND ", "query", &sql);
    mt_buf_adds(&sql, " <> ?");
    enum mt_status status = odbc_ask(odbc->connection, "reading it", sql.data, args, words, 1, err);
    mt_buf_free(&sql);
    return within(status, err);
}

/* ---- a row */

static char *insert_sql(const struct odbc_connection *connection, int64_t batch, int64_t rows)
{
    struct mt_buf sql = {0};
    add_name(connection, "INSERT INTO ", LEDGER, &sql);
    for (int i = 0; i < N_COLUMNS; i++)
        add_name(connection, i ? ", " : " (", columns[i].name, &sql);
    mt_buf_addf(&sql, ") VALUES (?, ?, %" PRId64 ", ?, %" PRId64 ", 0, 0, ?, ?, ?)", batch, rows);
    return sql.data;
}

static enum mt_status insert(struct odbc_sink *odbc, const char *query_id,
                             const struct mt_sink_record *record, int64_t at_us,
                             struct mt_error *err)
{
    char fingerprint[17], time[48];
    snprintf(fingerprint, sizeof fingerprint, "%016" PRIx64, record->fingerprint);
    time[mt_timestamp_print_iso(at_us, time)] = '\0';
    const char *const args[] = {
        query_id, odbc->base.marker_identity, record->digest, fingerprint, record->bundle, time,
        NULL};
    char *sql = insert_sql(odbc->connection, record->batch_id, record->rows);
    enum mt_status status = odbc_run(odbc->connection, "adding a batch", sql, args, err);
    free(sql);
    return status;
}

enum mt_status odbc_ledger_add(struct odbc_sink *odbc, const struct mt_sink_batch *batch,
                               bool *there, struct mt_error *err)
{
    struct mt_sink_record record = sink_record_of(batch);
    record.rows = batch->rows;
    enum mt_status status = odbc_step_fails(odbc->connection, "odbc.ledger", batch->batch_id, err);
    if (status == MT_OK)
        status = insert(odbc, batch->query_id, &record, batch->planned_us, err);
    *there = status == MT_REJECT && odbc->connection->fault.trouble == ODBC_DUPLICATE;
    return *there ? MT_OK : within(status, err);
}

enum mt_status odbc_ledger_claim(struct odbc_sink *odbc, const char *query_id, struct mt_error *err)
{
    struct mt_sink_record record = {.batch_id = ODBC_CLAIM};
    enum mt_status status = insert(odbc, query_id, &record, 0, err);
    bool there = status == MT_REJECT && odbc->connection->fault.trouble == ODBC_DUPLICATE;
    return there ? MT_OK : within(status, err);
}

/* ---- the end of a transaction */

/* Whether a question's answer is 1. */
static enum mt_status is_one(struct odbc_sink *odbc, const char *sql, const char *const *args,
                             bool *yes, struct mt_error *err)
{
    char *cell;
    enum mt_status status = odbc_ask(odbc->connection, "reading it", sql, args, &cell, 1, err);
    *yes = cell && strcmp(cell, "1") == 0;
    free(cell);
    return status;
}

/* Two questions: reading a table may itself begin a transaction. */
enum mt_status odbc_ledger_expect_open(struct odbc_sink *odbc, const char *after,
                                       struct mt_error *err)
{
    struct odbc_connection *connection = odbc->connection;
    struct mt_buf sql = {0};
    const char *const args[] = {odbc->query_id, odbc->base.marker_identity, NULL};
    bool open = true;
    enum mt_status status = MT_OK;
    mt_buf_addf(&sql, "SELECT %s", connection->dialect->is_open);
    if (strcmp(connection->dialect->is_open, "1") != 0)
        status = is_one(odbc, sql.data, NULL, &open, err);
    sql.len = 0;
    mt_buf_adds(&sql, "SELECT COUNT(*)");
    add_whose(connection, &sql);
    mt_buf_addf(&sql, " = %" PRId64, odbc->given.batch_id);
    if (status == MT_OK && open)
        status = is_one(odbc, sql.data, args, &open, err);
    mt_buf_free(&sql);
    if (status != MT_OK || open)
        return within(status, err);
    connection->failed = true;
    return mt_fail(
        err, MT_FATAL, MT_CLASS_SINK,
        "%s: the batch's transaction is not open any more after %s: what ends a "
        "transaction (here, CREATE, DROP, TRUNCATE and the like may) cannot be a part of "
        "a batch. Look into the table before the query is started again",
        odbc->base.identity, after);
}

/* Rows that were merged or ignored are known only now. */
static enum mt_status correct(struct odbc_sink *odbc, struct mt_error *err)
{
    const struct mt_sink_record *given = &odbc->given;
    struct odbc_connection *connection = odbc->connection;
    struct mt_buf sql = {0};
    if (given->merged == 0 && given->ignored == 0)
        return MT_OK;
    add_name(connection, "UPDATE ", LEDGER, &sql);
    add_name(connection, " SET ", "rows", &sql);
    mt_buf_addf(&sql, " = %" PRId64, given->rows);
    add_name(connection, ", ", "merged", &sql);
    mt_buf_addf(&sql, " = %" PRId64, given->merged);
    add_name(connection, ", ", "ignored", &sql);
    mt_buf_addf(&sql, " = %" PRId64, given->ignored);
    add_name(connection, " WHERE ", "query", &sql);
    add_name(connection, " = ? AND ", "sink", &sql);
    add_name(connection, " = ? AND ", "batch", &sql);
    mt_buf_addf(&sql, " = %" PRId64, given->batch_id);
    const char *const args[] = {odbc->query_id, odbc->base.marker_identity, NULL};
    enum mt_status status = odbc_run(connection, "counting", sql.data, args, err);
    mt_buf_free(&sql);
    return status;
}

static enum mt_status trim(struct odbc_sink *odbc, struct mt_error *err)
{
    struct mt_buf sql = {0};
    if (odbc->given.batch_id < KEPT)
        return MT_OK;
    mt_buf_adds(&sql, "DELETE");
    add_whose(odbc->connection, &sql);
    mt_buf_addf(&sql, " <= %" PRId64, odbc->given.batch_id - KEPT);
    const char *const args[] = {odbc->query_id, odbc->base.marker_identity, NULL};
    enum mt_status status = odbc_run(odbc->connection, "trimming it", sql.data, args, err);
    mt_buf_free(&sql);
    return status;
}

enum mt_status odbc_ledger_close(struct odbc_sink *odbc, struct mt_error *err)
{
    enum mt_status status = correct(odbc, err);
    if (status == MT_OK)
        status = trim(odbc, err);
    if (status != MT_OK)
        return within(status, err);
    return odbc_ledger_expect_open(odbc, "its rows were written", err);
}
