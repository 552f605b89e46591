/* SPDX-License-Identifier: Apache-2.0
 *
 * files_recover.c - what a start finds in the table, and whether it may go on there.
 *
 * Leftovers of this query are known by name, never by age: the pending list names the
 * files that may have got their names, the tag in temporary names the rest. Another
 * query may be in the middle of a batch in the same folders. */
#include <stdlib.h>
#include <string.h>

#include "sink/files/files_int.h"

void files_forget_query(struct files_sink *files)
{
    if (!files->log.dir)
        return;
    files_pending_deinit(&files->pending);
    files_log_deinit(&files->log);
}

void files_set_query(struct files_sink *files, const char *query_id)
{
    const char *sink = files->base.marker_identity;
    files_tag_of(query_id, sink, files->tag);
    files_forget_query(files);
    files_log_init(&files->log, files->base.path, query_id, sink);
    files_pending_init(&files->pending, files->log.dir, query_id, sink);
}

/* ---- strangers */

/* What is in the path that this query did not put there, in words; *words NULL: nothing. */
static enum mt_status find_stranger(const struct files_sink *files, char **words,
                                    struct mt_error *err)
{
    bool data = false;
    *words = NULL;
    if (files->log.stranger) {
        *words = mt_format("data of %s", files->log.stranger);
        return MT_OK;
    }
    if (files->log.last >= 0)
        return MT_OK;
    enum mt_status status = files_find_data(files->base.path, &data, err);
    if (data)
        *words = mt_strdup("files and no log: readers of the log that is begun there now will not "
                           "see them");
    return status;
}

/* A path that is new to this query and not empty: mostly the checkpoint was lost or
 * changed, and going on would put the same rows into the table again. */
static enum mt_status check_strangers(const struct files_sink *files, struct mt_error *err)
{
    char *words;
    enum mt_status status = find_stranger(files, &words, err);
    if (status == MT_OK && words && files->allow_other_queries)
        mt_log(MT_WARN, "path %s holds %s; writing there too, as allowOtherQueries says",
               files->base.path, words);
    else if (status == MT_OK && words)
        status =
            mt_fail(err, MT_FATAL, MT_CLASS_SINK,
                    "path %s holds %s, and nothing of this query yet (with a new checkpoint it "
                    "would double the table): choose another path, or set "
                    "allowOtherQueries=true to add to it",
                    files->base.path, words);
    free(words);
    return status;
}

/* ---- leftovers */

/* Temporary files of an earlier run of this query, in whatever folder. */
static enum mt_status sweep_table(const struct files_sink *files, struct mt_error *err)
{
    enum mt_status status = files_sweep(files->base.path, files->tag, err);
    char *entry = files_log_temporary(&files->log);
    if (status == MT_OK)
        status = files_unlink(entry, err);
    free(entry);
    return status;
}

enum mt_status files_recover(struct mt_sink *sink, const char *query_id, struct mt_error *err)
{
    struct files_sink *files = (struct files_sink *)sink;
    sink->type->abort(sink);
    files_set_query(files, query_id);
    enum mt_status status = files_log_refresh(&files->log, err);
    if (status == MT_OK)
        status = files_pending_settle(&files->pending, sink->path, files_logged, &files->log, err);
    if (status == MT_OK && !files->log.holds)
        status = check_strangers(files, err);
    if (status == MT_OK)
        status = sweep_table(files, err);
    return status;
}
