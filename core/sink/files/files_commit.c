/* SPDX-License-Identifier: Apache-2.0
 *
 * files_commit.c - making a batch visible: everything that the log's entry names is
 * durable before the entry is, and what could be seen before the entry is listed for
 * the next start (files_pending.c) before it can be seen. */
#include <errno.h>
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

static enum mt_status rename_file(const struct files_sink *files, const struct files_data *data,
                                  const char *path, struct mt_error *err)
{
    int error = mt_step_fails("file.rename", files->given.batch_id);
    if (!error && rename(data->temporary, path) != 0)
        error = errno;
    if (error)
        return files_fail(err, error, "renaming to", path);
    mt_step("file.rename", files->given.batch_id);
    return MT_OK;
}

static enum mt_status rename_files(const struct files_sink *files, struct mt_error *err)
{
    enum mt_status status = MT_OK;
    for (int64_t i = 0; status == MT_OK && i < files->n_files; i++) {
        char *path = mt_format("%s/%s", files->base.path, files->files[i].name);
        status = rename_file(files, &files->files[i], path, err);
        free(path);
    }
    return status;
}

/* The folder of name and those between it and the table, from below; what `before` (the
 * file synced last) shares with it is done already. */
static enum mt_status sync_folders_of(const struct files_sink *files, const char *name,
                                      const char *before, struct mt_error *err)
{
    char *folder = mt_strdup(name);
    enum mt_status status = MT_OK;
    for (char *slash; status == MT_OK && (slash = strrchr(folder, '/'));) {
        slash[1] = '\0';
        bool done = before && strncmp(before, folder, strlen(folder)) == 0;
        *slash = '\0';
        char *path = mt_format("%s/%s", files->base.path, folder);
        if (!done)
            status = files_sync_folder(path, files->given.batch_id, err);
        free(path);
    }
    free(folder);
    return status;
}

/* Every folder that a rename touched, those above it up to the table, and the table. */
static enum mt_status sync_folders(const struct files_sink *files, struct mt_error *err)
{
    enum mt_status status = MT_OK;
    for (int64_t i = 0; status == MT_OK && i < files->n_files; i++)
        status =
            sync_folders_of(files, files->files[i].name, i ? files->files[i - 1].name : NULL, err);
    return status == MT_OK ? files_sync_folder(files->base.path, files->given.batch_id, err)
                           : status;
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
        status = rename_files(files, err);
    if (status == MT_OK)
        status = sync_folders(files, err);
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
