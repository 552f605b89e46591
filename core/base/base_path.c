/* SPDX-License-Identifier: Apache-2.0
 *
 * base_path.c - one name for one folder.
 *
 * "out", "./out", "file:/srv/out" and a link to it must be the same destination, also
 * after the job is started from elsewhere. The folder may not exist yet, so the links
 * of the part that does are resolved and the rest is put behind it. A percent sign in
 * a file: form stands for itself, as in Hadoop's paths. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/base.h"

/* Length of "s3:" of "s3://bucket" and of "file:", 0 for a path. */
static size_t scheme_len(const char *path)
{
    size_t n = strspn(path, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-.");
    if (strncasecmp(path, "file:", 5) == 0)
        return 5;
    return n > 1 && path[n] == ':' && path[n + 1] == '/' ? n + 1 : 0;
}

/* The path behind "file:", "file://" or "file://localhost"; NULL for another host. */
static const char *behind_file(const char *rest)
{
    if (strncmp(rest, "//", 2) != 0)
        return rest;
    rest += 2;
    if (strncasecmp(rest, "localhost/", 10) == 0)
        rest += 9;
    return *rest == '/' ? rest : NULL;
}

static enum mt_status local_part(const char *path, const char **local, struct mt_error *err)
{
    size_t scheme = scheme_len(path);
    *local = path;
    if (strncasecmp(path, "file:", 5) == 0)
        *local = behind_file(path + scheme);
    else if (scheme)
        return mt_fail(err, MT_FATAL, MT_CLASS_JOB,
                       "path \"%s\": %.*s// is not here yet, only local paths are", path,
                       (int)scheme, path);
    if (!*local)
        return mt_fail(err, MT_FATAL, MT_CLASS_JOB,
                       "path \"%s\" names another host: write file:/path or the path alone", path);
    if (!**local)
        return mt_fail(err, MT_FATAL, MT_CLASS_JOB, "the path is empty");
    return MT_OK;
}

/* Puts the parts of rest behind base: "." and empty ones drop out, ".." takes one back. */
static void append_parts(struct mt_buf *base, const char *rest)
{
    while (*rest) {
        size_t n = strcspn(rest, "/");
        if (n == 2 && memcmp(rest, "..", 2) == 0) {
            char *slash = strrchr(base->data, '/');
            base->len = slash ? (size_t)(slash - base->data) : 0;
            base->data[base->len] = '\0';
        } else if (n > 0 && !(n == 1 && *rest == '.')) {
            mt_buf_adds(base, "/");
            mt_buf_add(base, rest, n);
        }
        rest += n + (rest[n] == '/');
    }
}

/* Resolves the longest part of `full` that exists; returns what is behind it. */
static const char *resolve(char *full, char resolved[PATH_MAX], int *error)
{
    size_t len = strlen(full);
    for (size_t cut = len;;) {
        char kept = full[cut];
        full[cut] = '\0';
        bool found = realpath(cut ? full : "/", resolved) != NULL;
        *error = found ? 0 : errno;
        full[cut] = kept;
        if (found || *error != ENOENT)
            return full + cut;
        while (cut > 0 && full[--cut] != '/')
            ;
    }
}

enum mt_status mt_path_absolute(const char *path, char **out, struct mt_error *err)
{
    const char *local;
    enum mt_status status = local_part(path, &local, err);
    if (status != MT_OK)
        return status;
    char here[PATH_MAX], resolved[PATH_MAX];
    int error = *local == '/' || getcwd(here, sizeof here) ? 0 : errno;
    if (error)
        return mt_fail(err, MT_FATAL, MT_CLASS_MACHINE, "the working directory: %s",
                       strerror(error));
    char *full = *local == '/' ? mt_strdup(local) : mt_format("%s/%s", here, local);
    const char *rest = resolve(full, resolved, &error);
    struct mt_buf result = {0};
    mt_buf_adds(&result, error || strcmp(resolved, "/") == 0 ? "" : resolved);
    append_parts(&result, rest);
    if (result.len == 0)
        mt_buf_adds(&result, "/");
    if (error)
        status = mt_fail(err, MT_FATAL, MT_CLASS_SINK, "path %s: %s", full, strerror(error));
    else if (!mt_utf8_valid(result.data, result.len))
        status = mt_fail(err, MT_FATAL, MT_CLASS_JOB,
                         "the path is not UTF-8: a table's log names its files in JSON, which is");
    free(full);
    if (status == MT_OK)
        *out = result.data;
    else
        mt_buf_free(&result);
    return status;
}
