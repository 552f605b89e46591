/* SPDX-License-Identifier: Apache-2.0
 *
 * odbc_sink.c - a table of a database, each batch in it exactly once.
 *
 * One transaction a batch, with the ledger's row in it (odbc_ledger.c):
 *
 *   begin    ledger's row: the first statement, and the decision
 *   write    what the mode and the user want before the rows; the rows
 *   commit   what the user wants behind them; the ledger's row corrected, old ones gone; is this
 *            still the transaction that began? -> COMMIT
 *
 * Tables are made before, in transactions of their own. After any error the transaction is rolled
 * back and the whole batch is done again, or, when a row can never be stored, that row is looked
 * for and named. A COMMIT without an answer is RETRY: the next begin asks the ledger.
 *
 * The tests' named steps: odbc.ledger (the ledger's row is sent), odbc.insert (a statement's rows
 * are sent), odbc.rows (all are), odbc.commit (committed), and the calls of these names that can
 * fail. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/step.h"
#include "sink/odbc/odbc_int.h"

static void forget(struct odbc_sink *odbc)
{
    odbc_table_deinit(&odbc->table);
    free(odbc->text), free(odbc->keys), free(odbc->cells);
}

static enum mt_status odbc_open(struct mt_sink *sink, struct mt_error *err)
{
    struct odbc_sink *odbc = (struct odbc_sink *)sink;
    enum mt_status status = odbc_options_check(odbc, err);
    if (status == MT_OK)
        status = odbc_table_check_types(odbc, err);
    if (status != MT_OK)
        forget(odbc);
    return status;
}

static void odbc_close(struct mt_sink *sink)
{
    struct odbc_sink *odbc = (struct odbc_sink *)sink;
    sink->type->abort(sink);
    odbc_insert_forget(odbc);
    if (odbc->connection)
        odbc_connection_leave(odbc->connection);
    forget(odbc);
}

/* The thread's connection, connected; the ledger is there. */
static enum mt_status get_ready(struct odbc_sink *odbc, struct mt_error *err)
{
    if (!odbc->connection)
        odbc->connection = odbc_connection_use(odbc->text);
    struct odbc_connection *connection = odbc->connection;
    if (connection->owner && connection->owner != odbc)
        return mt_fail(err, MT_FATAL, MT_CLASS_JOB,
                       "%s: another transaction is open on the connection to %s: end it before "
                       "save()",
                       odbc->base.identity, connection->place);
    enum mt_status status = odbc_connect(connection, err);
    connection->timeout_s = odbc->query_timeout_ms / 1000;
    return status == MT_OK ? odbc_ledger_make(connection, err) : status;
}

/* Transactions leave nothing behind. */
static enum mt_status odbc_recover(struct mt_sink *sink, const char *query_id, struct mt_error *err)
{
    (void)query_id, (void)err;
    sink->type->abort(sink);
    return MT_OK;
}

/* ---- begin */

static enum mt_status answer_stored(struct odbc_sink *odbc, const struct mt_sink_batch *batch,
                                    enum mt_sink_answer *answer, struct mt_sink_record *record,
                                    struct mt_error *err)
{
    struct mt_sink_record held;
    bool found;
    enum mt_status status =
        odbc_ledger_find(odbc->connection, batch->query_id, odbc->base.marker_identity,
                         batch->batch_id, &held, &found, err);
    if (status != MT_OK)
        return status;
    if (!found)
        return mt_fail(err, MT_RETRY, MT_CLASS_SINK,
                       "%s: another process stored batch %" PRId64 " and took it back",
                       odbc->base.identity, batch->batch_id);
    if (strcmp(held.digest, batch->digest) == 0) {
        *answer = MT_SINK_STORED;
        *record = held;
        return MT_OK;
    }
    *answer = MT_SINK_CONFLICT;
    return mt_fail(
        err, MT_OK, MT_CLASS_CHECKPOINT,
        "%s holds it with other contents (digest %.12s, now %.12s): this checkpoint is "
        "older than the destination, or two processes run it. Put back the checkpoint of "
        "the last run, or use a new checkpoint and a new table",
        odbc->base.identity, held.digest, batch->digest);
}

static enum mt_status check_later(struct odbc_sink *odbc, const struct mt_sink_batch *batch,
                                  enum mt_sink_answer *answer, struct mt_error *err)
{
    int64_t last;
    enum mt_status status =
        odbc_ledger_last(odbc->connection, batch->query_id, odbc->base.marker_identity, &last, err);
    if (status != MT_OK || last <= batch->batch_id)
        return status;
    *answer = MT_SINK_CONFLICT;
    return mt_fail(err, MT_OK, MT_CLASS_CHECKPOINT,
                   "%s holds batch %" PRId64 " already: this checkpoint is older than the "
                   "destination, or two processes run it. Put back the checkpoint of the last run, "
                   "or use a new checkpoint and a new table",
                   odbc->base.identity, last);
}

/* A table that is new to the query and in which another one has batches. */
static enum mt_status warn_of_strangers(struct odbc_sink *odbc, const struct mt_sink_batch *batch,
                                        struct mt_error *err)
{
    char *other = NULL;
    enum mt_status status = MT_OK;
    if (batch->batch_id == 0)
        status = odbc_ledger_strangers(odbc, batch->query_id, &other, err);
    if (other)
        mt_log(MT_WARN,
               "%s holds batches of another query, %s; if that was this one with another "
               "checkpoint, its rows come twice now",
               odbc->base.identity, other);
    free(other);
    return status;
}

static bool needs_table(const struct odbc_sink *odbc, const struct mt_sink_batch *batch)
{
    return batch->rows > 0 || odbc->mode == ODBC_OVERWRITE || odbc->pre_actions ||
           odbc->post_actions;
}

/* The ledger's row, in a new transaction. Rows need a table: it is made before, where that is not
 * done yet and the batch is not there. */
static enum mt_status ask_ledger(struct odbc_sink *odbc, const struct mt_sink_batch *batch,
                                 bool *there, struct mt_error *err)
{
    struct odbc_connection *connection = odbc->connection;
    enum mt_status status = odbc_begin(connection, odbc, odbc->isolation, err);
    if (status == MT_OK)
        status = odbc_ledger_add(odbc, batch, there, err);
    if (status != MT_OK || *there || !needs_table(odbc, batch) ||
        odbc->table.generation == connection->generation)
        return status;
    odbc_rollback(connection, odbc);
    status = odbc_table_prepare(odbc, batch->query_id, err);
    if (status == MT_OK)
        status = odbc_begin(connection, odbc, odbc->isolation, err);
    return status == MT_OK ? odbc_ledger_add(odbc, batch, there, err) : status;
}

/* A connection that lay idle may have been lost long ago: once more, on a new one. */
static enum mt_status ask_again(struct odbc_sink *odbc, const struct mt_sink_batch *batch,
                                bool *there, struct mt_error *err)
{
    int64_t before = odbc->connection ? odbc->connection->generation : 0;
    enum mt_status status = get_ready(odbc, err);
    bool idle = odbc->connection->generation == before;
    if (status == MT_OK)
        status = ask_ledger(odbc, batch, there, err);
    if (status != MT_RETRY || !idle || odbc->connection->fault.trouble != ODBC_LOST)
        return status;
    odbc_rollback(odbc->connection, odbc);
    status = get_ready(odbc, err);
    return status == MT_OK ? ask_ledger(odbc, batch, there, err) : status;
}

static enum mt_status odbc_begin_batch(struct mt_sink *sink, const struct mt_sink_batch *batch,
                                       enum mt_sink_answer *answer, struct mt_sink_record *record,
                                       struct mt_error *err)
{
    struct odbc_sink *odbc = (struct odbc_sink *)sink;
    bool there = false;
    sink->type->abort(sink);
    snprintf(odbc->query_id, sizeof odbc->query_id, "%s", batch->query_id);
    odbc->given = sink_record_of(batch);
    *answer = MT_SINK_NEW;
    enum mt_status status = ask_again(odbc, batch, &there, err);
    if (status == MT_OK && there) /* and the transaction is at its end */
        odbc_rollback(odbc->connection, odbc);
    if (status == MT_OK)
        status = check_later(odbc, batch, answer, err);
    if (there && status == MT_OK && *answer == MT_SINK_NEW)
        return answer_stored(odbc, batch, answer, record, err);
    if (status == MT_OK && *answer == MT_SINK_NEW)
        status = warn_of_strangers(odbc, batch, err);
    odbc->open = status == MT_OK && *answer == MT_SINK_NEW;
    odbc->acted = false;
    if (odbc->open)
        mt_step("odbc.ledger", batch->batch_id);
    else if (odbc->connection)
        odbc_rollback(odbc->connection, odbc);
    return status;
}

/* ---- write */

static enum mt_status empty_table(struct odbc_sink *odbc, struct mt_error *err)
{
    struct mt_buf sql = {0};
    mt_buf_adds(&sql, "DELETE FROM ");
    odbc_table_quote(odbc->connection, &odbc->table, &sql);
    enum mt_status status = odbc_run(odbc->connection, "emptying the table", sql.data, NULL, err);
    mt_buf_free(&sql);
    return status == MT_REJECT ? MT_FATAL : status; /* a foreign key: no row's fault */
}

enum mt_status odbc_before_rows(struct odbc_sink *odbc, struct mt_error *err)
{
    enum mt_status status = odbc_actions_run(odbc, "preActions", odbc->pre_actions, err);
    if (status == MT_OK && odbc->mode == ODBC_OVERWRITE)
        status = empty_table(odbc, err);
    odbc->acted = status == MT_OK;
    return status;
}

static enum mt_status store(struct odbc_sink *odbc, const struct mt_batch *batch,
                            struct mt_error *err)
{
    struct odbc_rows rows = {.batch = batch};
    int32_t *picked;
    int64_t at = 0, behind = 0;
    enum mt_status status = odbc_merge(odbc, batch, &picked, &rows.n, err);
    rows.picked = picked;
    if (status == MT_OK) {
        status = odbc_insert_rows(odbc, &rows, 0, rows.n, &at, &behind, err);
        if (status == MT_REJECT)
            status = odbc_guilty(odbc, &rows, at, behind, err);
    }
    odbc->given.merged += batch->array.length - rows.n;
    free(picked);
    return status;
}

static enum mt_status odbc_write(struct mt_sink *sink, const struct mt_batch *batch,
                                 struct mt_error *err)
{
    struct odbc_sink *odbc = (struct odbc_sink *)sink;
    if (!odbc->open)
        return sink_not_open(sink, "write", err);
    enum mt_status status = MT_OK;
    if (odbc->table.generation != odbc->connection->generation)
        status = mt_fail(err, MT_FATAL, MT_CLASS_INTERNAL,
                         "%s: rows of a batch that was begun as an empty one", sink->identity);
    if (status == MT_OK && !odbc->acted)
        status = odbc_before_rows(odbc, err);
    if (status == MT_OK)
        status = store(odbc, batch, err);
    odbc->open = status == MT_OK;
    if (!odbc->open)
        odbc_rollback(odbc->connection, odbc);
    else
        mt_step("odbc.rows", odbc->given.batch_id);
    return status;
}

/* ---- commit, abort */

static enum mt_status finish(struct odbc_sink *odbc, struct mt_error *err)
{
    enum mt_status status = MT_OK;
    if (!odbc->acted)
        status = odbc_before_rows(odbc, err);
    if (status == MT_OK)
        status = odbc_actions_run(odbc, "postActions", odbc->post_actions, err);
    if (status == MT_OK)
        status = odbc_ledger_close(odbc, err);
    if (status == MT_OK)
        status = odbc_step_fails(odbc->connection, "odbc.commit", odbc->given.batch_id, err);
    return status == MT_OK ? odbc_commit(odbc->connection, err) : status;
}

static enum mt_status odbc_commit_batch(struct mt_sink *sink, struct mt_sink_record *record,
                                        struct mt_error *err)
{
    struct odbc_sink *odbc = (struct odbc_sink *)sink;
    if (!odbc->open)
        return sink_not_open(sink, "commit", err);
    odbc->open = false;
    enum mt_status status = finish(odbc, err);
    if (status != MT_OK) {
        odbc_rollback(odbc->connection, odbc);
        return status;
    }
    mt_step("odbc.commit", odbc->given.batch_id);
    *record = odbc->given;
    return MT_OK;
}

static void odbc_abort(struct mt_sink *sink)
{
    struct odbc_sink *odbc = (struct odbc_sink *)sink;
    odbc->open = false;
    if (odbc->connection)
        odbc_rollback(odbc->connection, odbc);
}

/* ---- describe */

static void print_marker(const struct mt_sink_record *record, struct mt_buf *json)
{
    mt_buf_addf(json,
                "{\"batch\":%" PRId64 ",\"digest\":\"%s\",\"rows\":%" PRId64 ",\"merged\":%" PRId64
                ",\"ignored\":%" PRId64 ",\"fingerprint\":\"%016" PRIx64 "\",\"bundle\":\"%s\"}",
                record->batch_id, record->digest, record->rows, record->merged, record->ignored,
                record->fingerprint, record->bundle);
}

/* Reads only: no ledger is made for it. */
static enum mt_status find_marker(struct odbc_connection *connection, const struct mt_sink *sink,
                                  const char *query_id, struct mt_sink_record *record, bool *found,
                                  struct mt_error *err)
{
    int64_t last = ODBC_NO_BATCH;
    *found = false;
    enum mt_status status = odbc_connect(connection, err);
    if (status != MT_OK)
        return status;
    status = odbc_ledger_last(connection, query_id, sink->marker_identity, &last, err);
    if (status == MT_FATAL && connection->fault.trouble == ODBC_NO_TABLE)
        return MT_OK;
    if (status != MT_OK || last < 0)
        return status;
    return odbc_ledger_find(connection, query_id, sink->marker_identity, last, record, found, err);
}

static void describe_marker(const struct mt_sink *sink, const char *query_id, struct mt_buf *json)
{
    const struct odbc_sink *odbc = (const struct odbc_sink *)sink;
    struct odbc_connection *connection = odbc_connection_use(odbc->text);
    struct mt_sink_record record;
    struct mt_error err;
    bool found;
    enum mt_status status = find_marker(connection, sink, query_id, &record, &found, &err);
    if (status == MT_OK && found)
        print_marker(&record, json);
    else
        mt_buf_adds(json, "null");
    if (status != MT_OK) {
        mt_buf_adds(json, ",\"error\":");
        mt_buf_add_json(json, err.text, strlen(err.text));
    }
    odbc_connection_leave(connection);
}

static void odbc_describe(struct mt_sink *sink, const char *query_id, struct mt_buf *json)
{
    char *place, *inside;
    odbc_names(sink, &place, &inside);
    char *text = mt_format("OdbcSink[%s]", place);
    mt_buf_adds(json, "{\"description\":");
    mt_buf_add_json(json, text, strlen(text));
    mt_buf_adds(json, ",\"guarantee\":\"exactly once\",\"marker\":");
    free(text), free(place), free(inside);
    if (query_id)
        describe_marker(sink, query_id, json);
    else
        mt_buf_adds(json, "null");
    mt_buf_adds(json, "}");
}

const struct mt_sink_type sink_odbc = {
    .name = "odbc",
    .alias = "jdbc",
    .help = "a table of a database, through its ODBC driver",
    .options = odbc_options,
    .not_yet = odbc_not_yet,
    .size = sizeof(struct odbc_sink),
    .exactly_once = true,
    .needs_checkpoint = true,
    .names = odbc_names,
    .open = odbc_open,
    .recover = odbc_recover,
    .begin = odbc_begin_batch,
    .write = odbc_write,
    .commit = odbc_commit_batch,
    .abort = odbc_abort,
    .describe = odbc_describe,
    .close = odbc_close,
};
