/* SPDX-License-Identifier: Apache-2.0
 *
 * files_recover.c - what a start finds in the table, and whether it may go on there.
 *
 * Leftovers of this query are known by name, never by age: the pending list names the
 * files that may have got their names, the tag in temporary names the rest. Another
 * query may be in the middle of a batch in the same folders. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

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
    char hex[65];
    char *name = mt_format("%s %s", query_id, files->base.marker_identity);
    mt_sha256_hex(name, strlen(name), hex);
    free(name);
    memcpy(files->tag, hex, 16);
    files->tag[16] = '\0';
    files_forget_query(files);
    files_log_init(&files->log, files->base.path, query_id, files->base.marker_identity);
    files_pending_init(&files->pending, &files->log);
}

/* ---- walking through a table */

typedef bool (*visit_fn)(void *ctx, const char *path, const char *name);

static bool is_folder(const char *path, const struct dirent *entry)
{
    struct stat info;
    if (entry->d_type != DT_UNKNOWN)
        return entry->d_type == DT_DIR;
    return lstat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

/* MT_RETRY: visit wants no more. */
static enum mt_status walk(const char *folder, visit_fn visit, void *ctx, struct mt_error *err)
{
    DIR *dir = opendir(folder);
    if (!dir)
        return errno == ENOENT ? MT_OK : files_fail(err, errno, "listing", folder);
    enum mt_status status = MT_OK;
    for (struct dirent *entry; status == MT_OK && (errno = 0, entry = readdir(dir));) {
        char *path = mt_format("%s/%s", folder, entry->d_name);
        if (!is_folder(path, entry))
            status = visit(ctx, path, entry->d_name) ? MT_OK : MT_RETRY;
        else if (strchr(entry->d_name, '='))
            status = walk(path, visit, ctx, err);
        free(path);
        errno = 0;
    }
    if (status == MT_OK && errno)
        status = files_fail(err, errno, "listing", folder);
    closedir(dir);
    return status;
}

/* Every file in the table's folder and those under it named column=value. visit gets the
 * path and its last part; it returns false to stop. */
static enum mt_status walk_table(const char *table, visit_fn visit, void *ctx, struct mt_error *err)
{
    enum mt_status status = walk(table, visit, ctx, err);
    return status == MT_RETRY ? MT_OK : status;
}

/* ---- strangers */

static bool find_data(void *ctx, const char *path, const char *name)
{
    (void)path;
    bool *found = ctx;
    *found = name[0] != '.' && name[0] != '_';
    return !*found;
}

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
    enum mt_status status = walk_table(files->base.path, find_data, &data, err);
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

struct sweep {
    char ending[32]; /* ".<tag>.tmp" */
    struct mt_error *err;
    enum mt_status status;
};

static bool sweep_file(void *ctx, const char *path, const char *name)
{
    struct sweep *sweep = ctx;
    size_t len = strlen(name), end = strlen(sweep->ending);
    if (len > end && strncmp(name, ".part-", 6) == 0 &&
        strcmp(name + len - end, sweep->ending) == 0)
        sweep->status = files_unlink(path, sweep->err);
    return sweep->status == MT_OK;
}

/* Temporary files of an earlier run of this query, in whatever folder. */
static enum mt_status sweep_table(const struct files_sink *files, struct mt_error *err)
{
    struct sweep sweep = {.err = err};
    snprintf(sweep.ending, sizeof sweep.ending, ".%s.tmp", files->tag);
    enum mt_status status = walk_table(files->base.path, sweep_file, &sweep, err);
    char *entry = files_log_temporary(&files->log);
    if (status == MT_OK)
        status = sweep.status;
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
        status = files_pending_settle(&files->pending, &files->log, sink->path, err);
    if (status == MT_OK && !files->log.holds)
        status = check_strangers(files, err);
    if (status == MT_OK)
        status = sweep_table(files, err);
    return status;
}
