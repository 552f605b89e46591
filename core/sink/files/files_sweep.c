/* SPDX-License-Identifier: Apache-2.0
 *
 * files_sweep.c - going through a table's folders: for data of others, and for the
 * temporary files that an attempt of ours left when it died. Those are known by the tag
 * in their names, never by their age. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "sink/files/files_int.h"

enum { LONGEST_NAME = 180 }; /* bytes of a sink's name: file names have 255 */

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

static bool find_data(void *ctx, const char *path, const char *name)
{
    (void)path;
    bool *found = ctx;
    *found = name[0] != '.' && name[0] != '_';
    return !*found;
}

enum mt_status files_find_data(const char *table, bool *found, struct mt_error *err)
{
    *found = false;
    return walk_table(table, find_data, found, err);
}

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

enum mt_status files_sweep(const char *table, const char *tag, struct mt_error *err)
{
    struct sweep sweep = {.err = err};
    snprintf(sweep.ending, sizeof sweep.ending, ".%s.tmp", tag);
    enum mt_status status = walk_table(table, sweep_file, &sweep, err);
    return status == MT_OK ? sweep.status : status;
}

void files_tag_of(const char *query, const char *sink, char tag[FILES_TAG])
{
    char hex[65];
    char *name = mt_format("%s %s", query, sink);
    mt_sha256_hex(name, strlen(name), hex);
    free(name);
    memcpy(tag, hex, FILES_TAG - 1);
    tag[FILES_TAG - 1] = '\0';
}

enum mt_status files_check_name(const struct mt_sink *sink, struct mt_error *err)
{
    struct mt_buf escaped = {0};
    files_escape(sink->marker_identity, strlen(sink->marker_identity), &escaped);
    size_t len = escaped.len;
    mt_buf_free(&escaped);
    if (len <= LONGEST_NAME)
        return MT_OK;
    return mt_fail(err, MT_FATAL, MT_CLASS_JOB,
                   "the sink's name has %zu bytes (escaped as in a file's name) and may have %d",
                   len, LONGEST_NAME);
}
