/* SPDX-License-Identifier: Apache-2.0
 *
 * files_sink.c - a table of files on a local disk, each batch in it exactly once.
 *
 * A batch becomes visible by one atomic act, the link of its entry into the table's log
 * (files_log.c), and everything that the entry names is durable before:
 *
 *   write    temporary files, synced, each in its folder
 *   commit   pending list, synced -> renames -> folders, synced -> log entry, synced,
 *            linked -> log's folder, synced -> pending list gone
 *
 * A crash before the link leaves files that the next start deletes (recover: pending
 * list, temporary names); one after it leaves a stored batch, which begin finds in the
 * log. A batch without rows writes nothing, and is NEW again when it is replayed.
 *
 * The tests' named steps say what was just done: file.write (a file's bytes handed to
 * the system), file.fsync, file.pending, file.rename (after each), file.log (entry
 * written, not yet visible), file.link (visible, its folder not yet synced), file.done. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sink/files/files_int.h"

/* ---- open, close */

static int write_nowhere(void *ctx, const void *bytes, size_t len)
{
    (void)ctx, (void)bytes, (void)len;
    return 0;
}

/* What the encoder refuses is told when the job is declared. */
static enum mt_status try_encoder(struct files_sink *files, struct mt_error *err)
{
    struct mt_file_writer *writer;
    files->file.keep_null_fields = !files->ignore_null_fields;
    files->file.bare_quotes = !files->escape_quotes;
    files->file.keep_blanks_before = !files->trim_before;
    files->file.keep_blanks_behind = !files->trim_behind;
    enum mt_status status = mt_file_writer_new(files->format->file, &files->layout.data,
                                               &files->file, write_nowhere, NULL, &writer, err);
    if (status == MT_OK)
        mt_file_discard(writer);
    return status;
}

enum mt_status files_open(struct mt_sink *sink, struct mt_error *err)
{
    struct files_sink *files = (struct files_sink *)sink;
    files->pending.fd = -1;
    files->format = files_format_of(sink->type->name);
    enum mt_status status = files_check_name(sink, err);
    if (status == MT_OK)
        status = files_layout_init(&files->layout, sink, err);
    if (status != MT_OK)
        return status;
    status = try_encoder(files, err);
    if (status != MT_OK)
        files_layout_deinit(&files->layout);
    return status;
}

void files_forget_attempt(struct files_sink *files)
{
    for (int64_t i = 0; i < files->n_files; i++)
        files_data_clear(&files->files[i]);
    free(files->files);
    files->files = NULL;
    files->n_files = 0;
    mt_pairs_free(&files->provenance);
    files->open = false;
}

void files_close(struct mt_sink *sink)
{
    struct files_sink *files = (struct files_sink *)sink;
    sink->type->abort(sink);
    files_forget_query(files);
    files_layout_deinit(&files->layout);
}

/* ---- begin */

static enum mt_status answer_conflict(const struct files_sink *files,
                                      const struct mt_sink_batch *batch, struct mt_error *err)
{
    const struct mt_sink_record *held = &files->log.record;
    char what[128];
    if (held->batch_id > batch->batch_id)
        snprintf(what, sizeof what, "holds batch %" PRId64 " already", held->batch_id);
    else
        snprintf(what, sizeof what, "holds it with other contents (digest %.12s, now %.12s)",
                 held->digest, batch->digest);
    return mt_fail(err, MT_OK, MT_CLASS_CHECKPOINT,
                   "%s %s: this checkpoint is older than the destination, or two processes run "
                   "it. Put back the checkpoint of the last run, or use a new checkpoint and a "
                   "new path",
                   files->base.path, what);
}

/* An entry that a crash left visible may not be durable yet, and STORED says it is. */
static enum mt_status answer(struct files_sink *files, const struct mt_sink_batch *batch,
                             enum mt_sink_answer *answer, struct mt_sink_record *record,
                             struct mt_error *err)
{
    const struct mt_sink_record *held = &files->log.record;
    *answer = MT_SINK_NEW;
    if (!files->log.holds || held->batch_id < batch->batch_id)
        return MT_OK;
    if (held->batch_id == batch->batch_id && strcmp(held->digest, batch->digest) == 0) {
        *answer = MT_SINK_STORED;
        *record = *held;
        return files_sync_folder(files->log.dir, batch->batch_id, err);
    }
    *answer = MT_SINK_CONFLICT;
    return answer_conflict(files, batch, err);
}

enum mt_status files_begin(struct mt_sink *sink, const struct mt_sink_batch *batch,
                           enum mt_sink_answer *out, struct mt_sink_record *record,
                           struct mt_error *err)
{
    struct files_sink *files = (struct files_sink *)sink;
    sink->type->abort(sink);
    if (!files->log.dir || strcmp(files->log.query, batch->query_id) != 0)
        files_set_query(files, batch->query_id);
    enum mt_status status = files_log_refresh(&files->log, err);
    if (status == MT_OK)
        status = files_pending_settle(&files->pending, sink->path, files_logged, &files->log, err);
    if (status == MT_OK)
        status = answer(files, batch, out, record, err);
    if (status != MT_OK || *out != MT_SINK_NEW)
        return status;
    files->open = true;
    files->given = sink_record_of(batch);
    files->rows_expected = batch->rows;
    files->planned_ms = batch->planned_us / 1000;
    files->row_bytes = 0;
    mt_uuid(files->attempt);
    files_provenance_add(&files->provenance, batch);
    return MT_OK;
}

/* ---- write */

enum { SAMPLE_ROWS = 10000 }; /* by which the bytes of a row are judged */

static enum mt_status write_file(struct files_sink *files,
                                 const struct files_data_settings *settings,
                                 const struct mt_batch *rows, const struct files_group *part,
                                 struct mt_error *err)
{
    size_t n = (size_t)files->n_files + 1;
    files->files = mt_realloc(files->files, n * sizeof *files->files);
    struct files_data *data = &files->files[files->n_files];
    enum mt_status status = files_data_write(settings, files->n_files, rows, part, data, err);
    files->n_files++; /* on failure too: abort deletes what is there */
    if (status == MT_OK && data->rows >= SAMPLE_ROWS)
        files->row_bytes = (double)data->size / (double)data->rows;
    return status;
}

/* How many of a group's rows fit the next file. The first rows of a batch are encoded to
 * see what they take, later files go by the one before: the same rows make the same files. */
static enum mt_status rows_of_file(struct files_sink *files,
                                   const struct files_data_settings *settings,
                                   const struct mt_batch *rows, const struct files_group *rest,
                                   int64_t *n, struct mt_error *err)
{
    *n = rest->n_rows;
    if (files->max_records > 0 && *n > files->max_records)
        *n = files->max_records;
    if (files->target_bytes <= 0)
        return MT_OK;
    int64_t sample = rest->n_rows < SAMPLE_ROWS ? rest->n_rows : SAMPLE_ROWS, bytes = 0;
    if (files->row_bytes == 0) {
        enum mt_status status = files_data_measure(settings, rows, rest, sample, &bytes, err);
        if (status != MT_OK)
            return status;
        files->row_bytes = (double)bytes / (double)sample;
    }
    int64_t fit = (int64_t)((double)files->target_bytes / files->row_bytes);
    fit = fit < 1 ? 1 : fit;
    *n = *n < fit ? *n : fit;
    return MT_OK;
}

static enum mt_status write_group(struct files_sink *files,
                                  const struct files_data_settings *settings,
                                  const struct mt_batch *rows, const struct files_group *group,
                                  struct mt_error *err)
{
    struct files_group rest = *group;
    enum mt_status status = MT_OK;
    while (status == MT_OK && rest.n_rows > 0) {
        int64_t n;
        status = rows_of_file(files, settings, rows, &rest, &n, err);
        struct files_group part = {rest.folder, rest.rows, rest.first, n};
        if (status == MT_OK)
            status = write_file(files, settings, rows, &part, err);
        rest.rows = rest.rows ? rest.rows + n : NULL;
        rest.first += n;
        rest.n_rows -= n;
    }
    return status;
}

static enum mt_status write_groups(struct files_sink *files, const struct mt_batch *rows,
                                   const struct files_groups *groups, struct mt_error *err)
{
    struct files_data_settings settings = {
        .layout = &files->layout,
        .format = files->format,
        .file = files->file,
        .table = files->base.path,
        .attempt = files->attempt,
        .tag = files->tag,
        .batch = files->given.batch_id,
    };
    settings.file.metadata = &files->provenance;
    enum mt_status status = MT_OK;
    for (int64_t i = 0; status == MT_OK && i < groups->n; i++)
        status = write_group(files, &settings, rows, &groups->items[i], err);
    return status;
}

enum mt_status files_write(struct mt_sink *sink, const struct mt_batch *rows, struct mt_error *err)
{
    struct files_sink *files = (struct files_sink *)sink;
    if (!files->open)
        return sink_not_open(sink, "write", err);
    struct files_groups groups;
    enum mt_status status = files_group(&files->layout, rows, &groups, err);
    if (status == MT_OK && groups.n > 0) {
        files_spread(sink, rows, &groups);
        status = write_groups(files, rows, &groups, err);
    }
    files_groups_clear(&groups);
    files->given.rows += rows->array.length;
    files->open = status == MT_OK;
    return status;
}

/* ---- abort: nothing of the attempt stays, unless its entry is in the log already */

static enum mt_status clear_up(struct files_sink *files, struct mt_error *err)
{
    enum mt_status status = MT_OK;
    for (int64_t i = 0; status == MT_OK && i < files->n_files; i++)
        status = files_unlink(files->files[i].temporary, err);
    if (files->pending.fd < 0 || status != MT_OK)
        return status;
    files_pending_release(&files->pending);
    status = files_log_refresh(&files->log, err);
    if (status == MT_OK)
        status =
            files_pending_settle(&files->pending, files->base.path, files_logged, &files->log, err);
    return status;
}

void files_abort(struct mt_sink *sink)
{
    struct files_sink *files = (struct files_sink *)sink;
    struct mt_error err;
    if (clear_up(files, &err) != MT_OK)
        mt_log(MT_WARN, "%s: clearing up after a failed batch: %s; the next start does it",
               sink->identity, err.text);
    files_forget_attempt(files);
}

/* ---- describe */

static void print_marker(const struct mt_sink_record *record, struct mt_buf *json)
{
    mt_buf_addf(json,
                "{\"batch\":%" PRId64 ",\"digest\":\"%s\",\"rows\":%" PRId64 ",\"bytes\":%" PRId64
                ",\"fingerprint\":\"%016" PRIx64 "\",\"bundle\":\"%s\"}",
                record->batch_id, record->digest, record->rows, record->bytes, record->fingerprint,
                record->bundle);
}

/* The marker, read anew: ckpt show asks a sink that was never recovered. */
static void describe_marker(const struct mt_sink *sink, const char *query_id, struct mt_buf *json)
{
    struct files_log log;
    struct mt_error err;
    files_log_init(&log, sink->path, query_id, sink->marker_identity);
    enum mt_status status = files_log_refresh(&log, &err);
    if (status == MT_OK && log.holds)
        print_marker(&log.record, json);
    else
        mt_buf_adds(json, "null");
    if (status != MT_OK) {
        mt_buf_adds(json, ",\"error\":");
        mt_buf_add_json(json, err.text, strlen(err.text));
    }
    files_log_deinit(&log);
}

void files_describe(struct mt_sink *sink, const char *query_id, struct mt_buf *json)
{
    char *text = mt_format("FileSink[%s]", sink->path);
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
