/* SPDX-License-Identifier: Apache-2.0
 *
 * delta_commit.c - making a batch visible: everything that its version names is durable
 * before the version is, and listed for the next start (files_pending.c) before it has
 * its name.
 *
 * Another writer may take the version that was meant. What he wrote is read first: it may
 * be this very attempt (an answer was lost), this query run twice, a change of the table
 * that the rows no longer fit, or only more rows; then the next version is tried. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/step.h"
#include "sink/delta/delta_int.h"

static enum mt_status check_rows(const struct delta_sink *delta, struct mt_error *err)
{
    int64_t footers = 0;
    for (int64_t i = 0; i < delta->n_files; i++)
        footers += delta->files[i].rows;
    if (footers == delta->given.rows && footers == delta->rows_expected)
        return MT_OK;
    return mt_fail(err, MT_FATAL, MT_CLASS_INTERNAL,
                   "%s: batch %" PRId64 " was said to have %" PRId64 " rows, %" PRId64
                   " were written and the files' footers count %" PRId64
                   ": a fault in Moontide; nothing is stored",
                   delta->base.identity, delta->given.batch_id, delta->rows_expected,
                   delta->given.rows, footers);
}

/* Whether the batch is in already: as this attempt (*done), else by a second process. */
static enum mt_status check_held(const struct delta_sink *delta, bool *done, struct mt_error *err)
{
    const struct delta_state *state = &delta->log.state;
    *done = false;
    if (!state->holds || state->record.batch_id < delta->given.batch_id)
        return MT_OK;
    *done = state->known && strcmp(state->nonce, delta->attempt) == 0;
    return *done ? MT_OK
                 : mt_fail(err, MT_FATAL, MT_CLASS_CHECKPOINT,
                           "batch %" PRId64 ": another process stored batch %" PRId64
                           " into %s meanwhile: two processes run this query, perhaps with a "
                           "copied checkpoint; stop one",
                           delta->given.batch_id, state->record.batch_id, delta->base.path);
}

static enum mt_status append(struct delta_sink *delta, struct mt_error *err)
{
    bool taken = true, done = false;
    enum mt_status status = MT_OK;
    while (status == MT_OK && taken && !done) {
        status = delta_log_refresh(&delta->log, err);
        if (status == MT_OK)
            status = check_held(delta, &done, err);
        if (status == MT_OK && !done)
            status = delta_fits(delta, err);
        if (status != MT_OK || done)
            break;
        struct mt_buf text = {0};
        delta_version_print(delta, &text);
        status = delta_log_append(&delta->log, &text, delta->given.batch_id, &taken, err);
        mt_buf_free(&text);
    }
    return status;
}

/* As the file sink has it: the log's folder and all above it, once a run. */
static enum mt_status make_log_folder(struct delta_sink *delta, struct mt_error *err)
{
    if (delta->log_folder_made)
        return MT_OK;
    enum mt_status status = files_make_folder(delta->log.dir, err);
    if (status == MT_OK)
        status = files_sync_upwards(delta->base.path, delta->given.batch_id, err);
    delta->log_folder_made = status == MT_OK;
    return status;
}

static enum mt_status store(struct delta_sink *delta, struct mt_error *err)
{
    enum mt_status status = make_log_folder(delta, err);
    for (int64_t i = 0; i < delta->n_files; i++)
        delta->given.bytes += delta->files[i].size;
    if (status == MT_OK)
        status = files_pending_put(&delta->pending, &delta->given, delta->attempt, delta->files,
                                   delta->n_files, err);
    if (status == MT_OK)
        status = files_rename(delta->base.path, delta->given.batch_id, delta->files, delta->n_files,
                              err);
    if (status == MT_OK)
        status = append(delta, err);
    if (status == MT_OK)
        status = files_pending_remove(&delta->pending, err);
    if (status == MT_OK)
        mt_step("delta.done", delta->given.batch_id);
    return status;
}

enum mt_status delta_commit(struct mt_sink *sink, struct mt_sink_record *record,
                            struct mt_error *err)
{
    struct delta_sink *delta = (struct delta_sink *)sink;
    if (!delta->open)
        return sink_not_open(sink, "commit", err);
    delta->open = false;
    enum mt_status status = check_rows(delta, err);
    if (status == MT_OK && delta->n_files > 0)
        status = store(delta, err);
    if (status != MT_OK)
        return status;
    *record = delta->given;
    delta_forget_attempt(delta);
    return MT_OK;
}
