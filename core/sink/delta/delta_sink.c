/* SPDX-License-Identifier: Apache-2.0
 *
 * delta_sink.c - a Delta table on a local disk, each batch in it exactly once.
 *
 * Only appends: an upsert or a MERGE rewrites files that other writers may rewrite at the
 * same time, which is the work of an engine that can read them back. A batch is one
 * version of the table, and becomes visible by the link of that version's file:
 *
 *   write    temporary files, synced, each in its folder
 *   commit   pending list, synced -> renames -> folders, synced -> version, synced,
 *            linked -> log's folder, synced -> pending list gone
 *
 * A crash before the link leaves files that no version names and that the next start
 * deletes; one after it leaves a stored batch, which begin finds by its txn action. A
 * batch without rows writes nothing, and is NEW again when it is replayed.
 *
 * The tests' named steps: those of files (file.write ... file.rename), then delta.log
 * (version written, not yet visible), delta.link (visible, its folder not yet synced),
 * delta.done. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sink/delta/delta_int.h"

static const struct mt_option delta_options[] = {
    {"path", MT_OPT_STRING, NULL, offsetof(struct delta_sink, path_option), NULL,
     "folder of the table"},
    {"compression", MT_OPT_STRING, "snappy", offsetof(struct delta_sink, compression),
     "none|uncompressed|snappy|gzip|zstd|lz4", "codec of the columns"},
    {"allowOtherQueries", MT_OPT_BOOL, "false", offsetof(struct delta_sink, allow_other_queries),
     NULL, "write into a table that another query of Moontide wrote to"},
    {0},
};

static const char *const delta_not_yet[] = {
    "mergeSchema", "overwriteSchema", "replaceWhere", "partitionOverwriteMode", "txnAppId",
    "txnVersion",  "userMetadata",    "dataChange",   "optimizeWrite",          "maxRecordsPerFile",
    NULL};

/* ---- open, close */

static enum mt_status delta_open(struct mt_sink *sink, struct mt_error *err)
{
    struct delta_sink *delta = (struct delta_sink *)sink;
    delta->pending.fd = -1;
    enum mt_status status = files_check_name(sink, err);
    if (status == MT_OK)
        status = delta_check_names(sink->schema, err);
    return status == MT_OK ? files_layout_init(&delta->layout, sink, err) : status;
}

void delta_forget_attempt(struct delta_sink *delta)
{
    for (int64_t i = 0; i < delta->n_files; i++) {
        files_data_clear(&delta->files[i]);
        free(delta->partitions[i]);
    }
    free(delta->files), free(delta->partitions);
    delta->files = NULL;
    delta->partitions = NULL;
    delta->n_files = 0;
    mt_pairs_free(&delta->provenance);
    delta->open = false;
}

static void forget_query(struct delta_sink *delta)
{
    if (!delta->log.dir)
        return;
    files_pending_deinit(&delta->pending);
    delta_log_deinit(&delta->log);
}

static void set_query(struct delta_sink *delta, const char *query_id)
{
    const char *sink = delta->base.marker_identity;
    forget_query(delta);
    files_tag_of(query_id, sink, delta->tag);
    delta_log_init(&delta->log, delta->base.path, query_id, sink);
    files_pending_init(&delta->pending, delta->log.dir, query_id, sink);
}

static void delta_close(struct mt_sink *sink)
{
    struct delta_sink *delta = (struct delta_sink *)sink;
    sink->type->abort(sink);
    forget_query(delta);
    files_layout_deinit(&delta->layout);
}

/* ---- recover */

static enum mt_status settle(struct delta_sink *delta, struct mt_error *err)
{
    enum mt_status status = delta_log_refresh(&delta->log, err);
    return status == MT_OK ? files_pending_settle(&delta->pending, delta->base.path, delta_logged,
                                                  &delta->log, err)
                           : status;
}

/* Delta tables have many writers, and rows of theirs are no reason to stop. But where another
 * query of ours wrote and this one never did, mostly the checkpoint was lost or changed. */
static enum mt_status check_strangers(const struct delta_sink *delta, struct mt_error *err)
{
    const char *path = delta->base.path, *stranger = delta->log.state.stranger;
    bool data = false;
    if (delta->log.last < 0) {
        enum mt_status status = files_find_data(path, &data, err);
        if (status != MT_OK || !data)
            return status;
        return mt_fail(err, MT_FATAL, MT_CLASS_SINK,
                       "path %s holds files and no Delta table: choose another path, or make a "
                       "table of them first",
                       path);
    }
    if (!stranger)
        return MT_OK;
    if (!delta->allow_other_queries)
        return mt_fail(err, MT_FATAL, MT_CLASS_SINK,
                       "the Delta table %s holds data of query %s, and nothing of this query yet "
                       "(with a new checkpoint it would double the table): choose another path, "
                       "or set allowOtherQueries=true to add to it",
                       path, stranger);
    mt_log(MT_WARN,
           "the Delta table %s holds data of query %s; writing there too, as "
           "allowOtherQueries says",
           path, stranger);
    return MT_OK;
}

static enum mt_status delta_recover(struct mt_sink *sink, const char *query_id,
                                    struct mt_error *err)
{
    struct delta_sink *delta = (struct delta_sink *)sink;
    sink->type->abort(sink);
    set_query(delta, query_id);
    enum mt_status status = settle(delta, err);
    if (status == MT_OK && !delta->log.state.holds)
        status = check_strangers(delta, err);
    if (status == MT_OK)
        status = files_sweep(sink->path, delta->tag, err);
    char *version = delta_log_temporary(&delta->log);
    if (status == MT_OK)
        status = files_unlink(version, err);
    free(version);
    return status;
}

/* ---- begin */

static enum mt_status answer_conflict(const struct delta_sink *delta,
                                      const struct mt_sink_batch *batch, struct mt_error *err)
{
    const struct delta_state *state = &delta->log.state;
    char what[128];
    if (state->record.batch_id > batch->batch_id)
        snprintf(what, sizeof what, "holds batch %" PRId64 " already", state->record.batch_id);
    else if (!state->known)
        snprintf(what, sizeof what, "holds it, and the commitInfo that says which is not there");
    else
        snprintf(what, sizeof what, "holds it with other contents (digest %.12s, now %.12s)",
                 state->record.digest, batch->digest);
    return mt_fail(err, MT_OK, MT_CLASS_CHECKPOINT,
                   "%s %s: this checkpoint is older than the destination, or two processes run "
                   "it. Put back the checkpoint of the last run, or use a new checkpoint and a "
                   "new path",
                   delta->base.path, what);
}

/* A version that a crash left visible may not be durable yet, and STORED says it is. */
static enum mt_status answer(struct delta_sink *delta, const struct mt_sink_batch *batch,
                             enum mt_sink_answer *answer, struct mt_sink_record *record,
                             struct mt_error *err)
{
    const struct delta_state *state = &delta->log.state;
    *answer = MT_SINK_NEW;
    if (!state->holds || state->record.batch_id < batch->batch_id)
        return delta_fits(delta, err);
    if (state->record.batch_id == batch->batch_id && state->known &&
        strcmp(state->record.digest, batch->digest) == 0) {
        *answer = MT_SINK_STORED;
        *record = state->record;
        return files_sync_folder(delta->log.dir, batch->batch_id, err);
    }
    *answer = MT_SINK_CONFLICT;
    return answer_conflict(delta, batch, err);
}

static enum mt_status delta_begin(struct mt_sink *sink, const struct mt_sink_batch *batch,
                                  enum mt_sink_answer *out, struct mt_sink_record *record,
                                  struct mt_error *err)
{
    struct delta_sink *delta = (struct delta_sink *)sink;
    sink->type->abort(sink);
    if (!delta->log.dir || strcmp(delta->log.state.query, batch->query_id) != 0)
        set_query(delta, batch->query_id);
    enum mt_status status = settle(delta, err);
    if (status == MT_OK)
        status = answer(delta, batch, out, record, err);
    if (status != MT_OK || *out != MT_SINK_NEW)
        return status;
    delta->open = true;
    delta->given = sink_record_of(batch);
    delta->rows_expected = batch->rows;
    mt_uuid(delta->attempt);
    files_provenance_add(&delta->provenance, batch);
    return MT_OK;
}

/* ---- write */

static enum mt_status refuse_null(const struct mt_batch *rows, int64_t row, const char *column,
                                  struct mt_error *err)
{
    char where[160];
    return mt_fail(err, MT_REJECT, MT_CLASS_DATA,
                   "%s: column \"%s\" is null, and NOT NULL in the "
                   "table",
                   mt_batch_where(rows, row, where, sizeof where), column);
}

static enum mt_status check_nulls(const struct delta_sink *delta, const struct mt_batch *rows,
                                  struct mt_error *err)
{
    const json_t *table = delta->log.state.schema;
    for (int64_t i = 0; table && i < rows->array.n_children; i++) {
        const char *column = delta->base.schema->children[i]->name;
        if (!delta_schema_requires(table, column))
            continue;
        for (int64_t row = 0; row < rows->array.length; row++)
            if (mt_array_is_null(rows->array.children[i], rows->array.offset + row))
                return refuse_null(rows, row, column, err);
    }
    return MT_OK;
}

static enum mt_status write_groups(struct delta_sink *delta, const struct mt_batch *rows,
                                   const struct files_groups *groups, struct mt_error *err)
{
    struct files_data_settings settings = {
        .layout = &delta->layout,
        .format = files_format_of("parquet"),
        .file = {.compression = delta->compression, .metadata = &delta->provenance},
        .table = delta->base.path,
        .attempt = delta->attempt,
        .tag = delta->tag,
        .batch = delta->given.batch_id,
    };
    size_t n = (size_t)(delta->n_files + groups->n);
    delta->files = mt_realloc(delta->files, n * sizeof *delta->files);
    delta->partitions = mt_realloc(delta->partitions, n * sizeof *delta->partitions);
    enum mt_status status = MT_OK;
    for (int64_t i = 0; status == MT_OK && i < groups->n; i++) {
        const struct files_group *group = &groups->items[i];
        struct mt_buf values = {0};
        delta_partition_print(&delta->layout, rows, group->rows ? group->rows[0] : group->first,
                              &values);
        delta->partitions[delta->n_files] = values.data;
        status = files_data_write(&settings, delta->n_files, rows, group,
                                  &delta->files[delta->n_files], err);
        delta->n_files++; /* on failure too: abort deletes what is there */
    }
    return status;
}

static enum mt_status delta_write(struct mt_sink *sink, const struct mt_batch *rows,
                                  struct mt_error *err)
{
    struct delta_sink *delta = (struct delta_sink *)sink;
    if (!delta->open)
        return sink_not_open(sink, "write", err);
    struct files_groups groups = {0};
    enum mt_status status = check_nulls(delta, rows, err);
    if (status == MT_OK)
        status = files_group(&delta->layout, rows, &groups, err);
    if (status == MT_OK && groups.n > 0) {
        files_spread(sink, rows, &groups);
        status = write_groups(delta, rows, &groups, err);
    }
    files_groups_clear(&groups);
    delta->given.rows += rows->array.length;
    delta->open = status == MT_OK;
    return status;
}

/* ---- abort: nothing of the attempt stays, unless its version is in the log already */

static enum mt_status clear_up(struct delta_sink *delta, struct mt_error *err)
{
    enum mt_status status = MT_OK;
    for (int64_t i = 0; status == MT_OK && i < delta->n_files; i++)
        status = files_unlink(delta->files[i].temporary, err);
    if (delta->pending.fd < 0 || status != MT_OK)
        return status;
    files_pending_release(&delta->pending);
    return settle(delta, err);
}

static void delta_abort(struct mt_sink *sink)
{
    struct delta_sink *delta = (struct delta_sink *)sink;
    struct mt_error err;
    if (clear_up(delta, &err) != MT_OK)
        mt_log(MT_WARN, "%s: clearing up after a failed batch: %s; the next start does it",
               sink->identity, err.text);
    delta_forget_attempt(delta);
}

/* ---- describe */

/* The marker, read anew: ckpt show asks a sink that was never recovered. */
static void describe_marker(const struct mt_sink *sink, const char *query_id, struct mt_buf *json)
{
    struct delta_log log;
    struct mt_error err;
    delta_log_init(&log, sink->path, query_id, sink->marker_identity);
    enum mt_status status = delta_log_refresh(&log, &err);
    const struct mt_sink_record *record = &log.state.record;
    if (status == MT_OK && log.state.holds)
        mt_buf_addf(json,
                    "{\"batch\":%" PRId64 ",\"digest\":\"%s\",\"rows\":%" PRId64
                    ",\"bytes\":%" PRId64 ",\"fingerprint\":\"%016" PRIx64 "\",\"bundle\":\"%s\"}",
                    record->batch_id, record->digest, record->rows, record->bytes,
                    record->fingerprint, record->bundle);
    else
        mt_buf_adds(json, "null");
    if (status != MT_OK) {
        mt_buf_adds(json, ",\"error\":");
        mt_buf_add_json(json, err.text, strlen(err.text));
    }
    delta_log_deinit(&log);
}

static void delta_describe(struct mt_sink *sink, const char *query_id, struct mt_buf *json)
{
    char *text = mt_format("DeltaSink[%s]", sink->path);
    mt_buf_adds(json, "{\"description\":");
    mt_buf_add_json(json, text, strlen(text));
    mt_buf_adds(json, ",\"guarantee\":\"exactly once\",\"marker\":");
    free(text);
    if (query_id)
        describe_marker(sink, query_id, json);
    else
        mt_buf_adds(json, "null");
    mt_buf_adds(json, "}");
}

const struct mt_sink_type sink_delta = {
    .name = "delta",
    .help = "a Delta Lake table on a local disk, appended to",
    .options = delta_options,
    .not_yet = delta_not_yet,
    .size = sizeof(struct delta_sink),
    .exactly_once = true,
    .needs_path = true,
    .needs_checkpoint = true,
    .partitions = true,
    .open = delta_open,
    .recover = delta_recover,
    .begin = delta_begin,
    .write = delta_write,
    .commit = delta_commit,
    .abort = delta_abort,
    .describe = delta_describe,
    .close = delta_close,
};
