/* SPDX-License-Identifier: Apache-2.0
 *
 * delta_log.c - _delta_log, the table's versions 0, 1, 2, ...: the one place where a
 * batch becomes visible.
 *
 * Whoever creates a version first has it (link(2) never replaces); the others read what he
 * wrote and try the next one. The versions' own files are read from the first on, then
 * those that are new: what a checkpoint says is in them too. A table whose first versions
 * were cleaned away has it in a checkpoint alone, and is refused. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/step.h"
#include "sink/delta/delta_int.h"

void delta_log_init(struct delta_log *log, const char *table, const char *query, const char *sink)
{
    *log = (struct delta_log){.last = -1};
    log->dir = mt_format("%s/" DELTA_LOG_FOLDER, table);
    log->state.query = mt_strdup(query);
    log->state.sink = mt_strdup(sink);
    log->state.app = mt_format(DELTA_APP "%s %s", query, sink);
}

void delta_log_deinit(struct delta_log *log)
{
    delta_state_deinit(&log->state);
    free(log->dir);
    *log = (struct delta_log){0};
}

static char *name_of(const struct delta_log *log, int64_t version)
{
    return mt_format("%s/%020" PRId64 ".json", log->dir, version);
}

char *delta_log_temporary(const struct delta_log *log)
{
    return files_own_name(log->dir, log->state.query, log->state.sink, "version.tmp");
}

/* ---- reading */

typedef enum mt_status (*line_fn)(void *ctx, const char *line, size_t len, struct mt_error *err);

static enum mt_status damaged(enum mt_status status, const char *path, int64_t line,
                              struct mt_error *err)
{
    char reason[sizeof err->text];
    if (status != MT_REJECT)
        return status;
    strcpy(reason, err->text);
    return mt_fail(err, MT_FATAL, MT_CLASS_SINK,
                   "the table's log is damaged: %s, line %" PRId64 ": %s; put the file back from a "
                   "backup, or write to a new path with a new checkpoint",
                   path, line, reason);
}

static enum mt_status read_lines(FILE *file, const char *path, line_fn take, void *ctx,
                                 struct mt_error *err)
{
    char *line = NULL;
    size_t cap = 0;
    enum mt_status status = MT_OK;
    int64_t at = 1;
    for (ssize_t len; status == MT_OK && (errno = 0, len = getline(&line, &cap, file)) >= 0; at++) {
        if (len > 0 && line[len - 1] == '\n')
            line[--len] = '\0';
        if (len > 0)
            status = damaged(take(ctx, line, (size_t)len, err), path, at, err);
    }
    if (status == MT_OK && ferror(file))
        status = files_fail(err, errno, "reading", path);
    free(line);
    return status;
}

/* *there: false when no such version is there. */
static enum mt_status read_version(const struct delta_log *log, int64_t version, line_fn take,
                                   void *ctx, bool *there, struct mt_error *err)
{
    char *path = name_of(log, version);
    FILE *file = fopen(path, "re");
    enum mt_status status = MT_OK;
    *there = file != NULL;
    if (file)
        status = read_lines(file, path, take, ctx, err);
    else if (errno != ENOENT)
        status = files_fail(err, errno, "reading", path);
    if (file)
        fclose(file);
    free(path);
    return status;
}

struct taking {
    struct delta_state *state;
    struct delta_version version;
};

static enum mt_status take_line(void *ctx, const char *line, size_t len, struct mt_error *err)
{
    struct taking *taking = ctx;
    return delta_state_take(taking->state, &taking->version, line, len, err);
}

static enum mt_status take_version(struct delta_log *log, int64_t version, bool *there,
                                   struct mt_error *err)
{
    struct taking taking = {.state = &log->state, .version.txn = -1};
    enum mt_status status = read_version(log, version, take_line, &taking, there, err);
    if (status == MT_OK && *there) {
        char *path = name_of(log, version);
        status = damaged(delta_state_end(&log->state, &taking.version, err), path, 1, err);
        free(path);
    }
    json_decref(taking.version.ours);
    return status;
}

/* The highest version that the folder has in any form, -1 for none. */
static enum mt_status find_highest(const struct delta_log *log, int64_t *highest,
                                   struct mt_error *err)
{
    *highest = -1;
    DIR *dir = opendir(log->dir);
    if (!dir)
        return errno == ENOENT ? MT_OK : files_fail(err, errno, "listing", log->dir);
    for (struct dirent *entry; (errno = 0, entry = readdir(dir));) {
        if (strspn(entry->d_name, "0123456789") != 20 || entry->d_name[20] != '.')
            continue;
        int64_t version = strtoll(entry->d_name, NULL, 10);
        *highest = version > *highest ? version : *highest;
    }
    int error = errno;
    closedir(dir);
    return error ? files_fail(err, error, "listing", log->dir) : MT_OK;
}

static enum mt_status check_whole(const struct delta_log *log, struct mt_error *err)
{
    int64_t highest;
    enum mt_status status = find_highest(log, &highest, err);
    if (status != MT_OK || (highest <= log->last && (log->last < 0 || log->state.schema)))
        return status;
    if (highest <= log->last)
        return mt_fail(err, MT_FATAL, MT_CLASS_SINK, "the table's log %s has no metaData",
                       log->dir);
    return mt_fail(err, MT_FATAL, MT_CLASS_SINK,
                   "the table's log %s goes up to %" PRId64 " and %020" PRId64 ".json is missing: "
                   "versions that were cleaned away are not read from a checkpoint here yet; "
                   "write to another table",
                   log->dir, highest, log->last + 1);
}

/* A table that was taken away under us, and perhaps made anew. */
static enum mt_status check_last(const struct delta_log *log, struct mt_error *err)
{
    char *path = name_of(log, log->last);
    enum mt_status status = MT_OK;
    if (log->last >= 0 && access(path, F_OK) != 0)
        status = mt_fail(err, MT_FATAL, MT_CLASS_SINK,
                         "%s is gone: the table was deleted or replaced while the query ran; put "
                         "it back, or start anew with a new path and a new checkpoint",
                         path);
    free(path);
    return status;
}

enum mt_status delta_log_refresh(struct delta_log *log, struct mt_error *err)
{
    bool there = true, first = log->last < 0;
    enum mt_status status = check_last(log, err);
    while (status == MT_OK && there) {
        status = take_version(log, log->last + 1, &there, err);
        log->last += status == MT_OK && there;
    }
    return status == MT_OK && first ? check_whole(log, err) : status;
}

struct search {
    const char *word;
    bool found;
};

static enum mt_status search_line(void *ctx, const char *line, size_t len, struct mt_error *err)
{
    (void)len, (void)err;
    struct search *search = ctx;
    search->found = search->found || strstr(line, search->word);
    return MT_OK;
}

enum mt_status delta_logged(void *ctx, const char *attempt, bool *logged, struct mt_error *err)
{
    const struct delta_log *log = ctx;
    struct search search = {.word = attempt};
    enum mt_status status = MT_OK;
    bool there;
    for (int64_t n = log->last; status == MT_OK && n >= 0 && !search.found; n--)
        status = read_version(log, n, search_line, &search, &there, err);
    *logged = search.found;
    return status;
}

/* ---- writing */

static enum mt_status write_version(const char *temporary, const struct mt_buf *text, int64_t batch,
                                    struct mt_error *err)
{
    struct files_out out;
    int64_t size, mtime_ms;
    enum mt_status status = files_out_open(&out, temporary, O_TRUNC, "delta.log", batch, err);
    if (status == MT_OK) {
        files_out_add(&out, text->data, text->len); /* an error is kept until the sync */
        status = files_out_sync(&out, "delta.log", &size, &mtime_ms, err);
    }
    files_out_close(&out);
    return status;
}

static enum mt_status link_version(const struct delta_log *log, const char *temporary,
                                   int64_t batch, bool *taken, struct mt_error *err)
{
    char *name = name_of(log, log->last + 1);
    int error = mt_step_fails("delta.link", batch);
    if (!error && link(temporary, name) != 0)
        error = errno;
    *taken = error == EEXIST;
    enum mt_status status = MT_OK;
    if (error && !*taken)
        status = files_fail(err, error, "linking (the file system must have hard links)", name);
    if (!error) {
        mt_step("delta.link", batch);
        error = mt_step_fails("delta.linked", batch);
        status = error ? files_fail(err, error, "making the folder durable:", log->dir)
                       : files_sync_folder(log->dir, batch, err);
    }
    free(name);
    return status;
}

enum mt_status delta_log_append(struct delta_log *log, const struct mt_buf *text, int64_t batch,
                                bool *taken, struct mt_error *err)
{
    char *temporary = delta_log_temporary(log);
    *taken = false;
    enum mt_status status = write_version(temporary, text, batch, err);
    if (status == MT_OK) {
        mt_step("delta.log", batch);
        status = link_version(log, temporary, batch, taken, err);
    }
    if (unlink(temporary) != 0 && errno != ENOENT && status == MT_OK && !*taken)
        mt_log(MT_WARN, "deleting %s: %s", temporary, strerror(errno));
    free(temporary);
    return status;
}
