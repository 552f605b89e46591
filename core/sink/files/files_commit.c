/* SPDX-License-Identifier: Apache-2.0
 *
 * files_commit.c - making a batch visible: everything that the log's entry names is
 * durable before the entry is, and what could be seen before the entry is listed for
 * the next start (files_pending.c) before it can be seen. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/step.h"
#include "sink/files/files_int.h"

static enum mt_status check_rows(const struct files_sink *files, struct mt_error *err)
{
    int64_t footers = 0;
    for (int64_t i = 0; i < files->n_files; i++)
        footers += files->files[i].rows;
    if (footers == files->given.rows && footers == files->rows_expected)
        return MT_OK;
    return mt_fail(err, MT_FATAL, MT_CLASS_INTERNAL,
                   "%s: batch %" PRId64 " was said to have %" PRId64 " rows, %" PRId64
                   " were written and the files' footers count %" PRId64
                   ": a fault in Moontide; nothing is stored",
                   files->base.identity, files->given.batch_id, files->rows_expected,
                   files->given.rows, footers);
}

static void print_entries(struct files_sink *files, struct mt_buf *text)
{
    for (int64_t i = 0; i < files->n_files; i++) {
        const struct files_data *data = &files->files[i];
        struct files_entry entry = {
            .path = mt_format("%s/%s", files->base.path, data->name),
            .size = data->size,
            .mtime_ms = data->mtime_ms,
            .ours = true,
            .query = files->log.query,
            .sink = files->log.sink,
            .record = files->given,
        };
        mt_buf_adds(text, "\n");
        files_entry_print(&entry, text);
        free(entry.path);
        files->given.bytes += data->size;
    }
}

static enum mt_status append_entry(struct files_sink *files, struct mt_error *err)
{
    struct mt_buf text = {0};
    bool lost = false;
    print_entries(files, &text);
    if (files->retention_ms > 0)
        files->log.forget_ms = files->planned_ms - files->retention_ms;
    enum mt_status status = files_log_append(&files->log, &files->given, &text, &lost, err);
    mt_buf_free(&text);
    if (status == MT_OK && lost)
        return mt_fail(err, MT_FATAL, MT_CLASS_CHECKPOINT,
                       "batch %" PRId64 ": another process stored batch %" PRId64
                       " into %s meanwhile: two processes run this query, perhaps with a copied "
                       "checkpoint; stop one",
                       files->given.batch_id, files->log.record.batch_id, files->base.path);
    return status;
}

/* The log's folder and all above it. They change only when they are made, maybe by a
 * run that died right then: so once a run, and before anything in them counts. */
static enum mt_status make_log_folder(struct files_sink *files, struct mt_error *err)
{
    if (files->log_folder_made)
        return MT_OK;
    enum mt_status status = files_make_folder(files->log.dir, err);
    if (status == MT_OK)
        status = files_sync_upwards(files->base.path, files->given.batch_id, err);
    files->log_folder_made = status == MT_OK;
    return status;
}

static enum mt_status store(struct files_sink *files, struct mt_error *err)
{
    enum mt_status status = make_log_folder(files, err);
    if (status == MT_OK)
        status = files_pending_put(&files->pending, &files->given, files->attempt, files->files,
                                   files->n_files, err);
    if (status == MT_OK)
        status = files_rename(files->base.path, files->given.batch_id, files->files, files->n_files,
                              err);
    if (status == MT_OK)
        status = append_entry(files, err);
    if (status == MT_OK)
        status = files_pending_remove(&files->pending, err);
    if (status == MT_OK)
        mt_step("file.done", files->given.batch_id);
    return status;
}

enum mt_status files_commit(struct mt_sink *sink, struct mt_sink_record *record,
                            struct mt_error *err)
{
    struct files_sink *files = (struct files_sink *)sink;
    if (!files->open)
        return sink_not_open(sink, "commit", err);
    files->open = false;
    enum mt_status status = check_rows(files, err);
    if (status == MT_OK && files->n_files > 0)
        status = store(files, err);
    if (status != MT_OK)
        return status;
    *record = files->given;
    files_forget_attempt(files);
    return MT_OK;
}
