/* SPDX-License-Identifier: Apache-2.0
 *
 * files_pending.c - what an attempt is about to make visible, so that the next start
 * can take it back.
 *
 * Files get their final names before the log names them. Who reads the log never sees
 * them early, but who lists the folder does; and if the process dies in between, they
 * would stay for good and be doubled by the replay. So the names are durable in a list
 * of the query's own before the first rename, and the list goes last. Whoever finds a
 * list deletes what it names, unless the log has it.
 *
 * The list is locked (flock) while its attempt lives: a second process with the same
 * checkpoint copied would else delete files that the first is about to log. Spark reads
 * only numbered entries in that folder and does not mind the list. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/step.h"
#include "sink/files/files_int.h"

char *files_own_name(const char *folder, const char *query, const char *sink, const char *what)
{
    struct mt_buf escaped = {0};
    files_escape(sink, strlen(sink), &escaped);
    char *name = mt_format("%s/.mt-%s-%s.%s", folder, query, escaped.data, what);
    mt_buf_free(&escaped);
    return name;
}

void files_pending_init(struct files_pending *pending, const char *folder, const char *query,
                        const char *sink)
{
    pending->path = files_own_name(folder, query, sink, "pending");
    pending->fd = -1;
}

void files_pending_release(struct files_pending *pending)
{
    if (pending->fd >= 0)
        close(pending->fd);
    pending->fd = -1;
}

void files_pending_deinit(struct files_pending *pending)
{
    files_pending_release(pending);
    free(pending->path);
    pending->path = NULL;
}

static enum mt_status fail_two(const struct files_pending *pending, struct mt_error *err)
{
    return mt_fail(err, MT_FATAL, MT_CLASS_CHECKPOINT,
                   "another process is storing a batch of this query right now (%s is in use): two "
                   "processes run it, perhaps with a copied checkpoint; stop one",
                   pending->path);
}

/* ---- writing it */

static void print_list(const struct mt_sink_record *record, const char *attempt,
                       const struct files_data *files, int64_t n, struct mt_buf *buf)
{
    mt_buf_addf(buf, "{\"batch\":%" PRId64 ",\"digest\":\"%s\",\"attempt\":\"%s\",\"files\":[",
                record->batch_id, record->digest, attempt);
    for (int64_t i = 0; i < n; i++) {
        mt_buf_adds(buf, i ? "," : "");
        mt_buf_add_json(buf, files[i].name, strlen(files[i].name));
    }
    mt_buf_adds(buf, "]}\n");
}

/* Ours, and still the file of that name: one may have taken it for a dead one's. */
static bool take_lock(int fd)
{
    struct stat info;
    return flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &info) == 0 && info.st_nlink > 0;
}

static enum mt_status write_list(struct files_pending *pending, struct files_out *out,
                                 const struct mt_buf *text, struct mt_error *err)
{
    int64_t size, mtime_ms;
    if (!take_lock(out->fd))
        return fail_two(pending, err);
    files_out_add(out, text->data, text->len);
    enum mt_status status = files_out_sync(out, "file.pending", &size, &mtime_ms, err);
    pending->fd = out->fd; /* keeps the lock */
    out->fd = -1;
    return status;
}

enum mt_status files_pending_put(struct files_pending *pending, const struct mt_sink_record *record,
                                 const char *attempt, const struct files_data *files, int64_t n,
                                 struct mt_error *err)
{
    struct mt_buf text = {0};
    struct files_out out;
    char *folder = mt_strndup(pending->path, (size_t)(strrchr(pending->path, '/') - pending->path));
    print_list(record, attempt, files, n, &text);
    enum mt_status status =
        files_out_open(&out, pending->path, O_EXCL, "file.pending", record->batch_id, err);
    if (out.error == EEXIST)
        status = fail_two(pending, err);
    if (status == MT_OK)
        status = write_list(pending, &out, &text, err);
    files_out_close(&out);
    if (status == MT_OK)
        status = files_sync_folder(folder, record->batch_id, err);
    if (status == MT_OK)
        mt_step("file.pending", record->batch_id);
    mt_buf_free(&text);
    free(folder);
    return status;
}

enum mt_status files_pending_remove(struct files_pending *pending, struct mt_error *err)
{
    enum mt_status status = files_unlink(pending->path, err);
    files_pending_release(pending);
    return status;
}

/* ---- settling one that was left */

/* A list comes from the disk: it may only name files of its attempt inside the table. */
static bool is_file_of(const char *name, const char *attempt)
{
    const char *slash = strrchr(name, '/');
    const char *base = slash ? slash + 1 : name;
    bool inside = *name != '/' && strncmp(name, "../", 3) != 0 && !strstr(name, "/../");
    return inside && strncmp(base, "part-", 5) == 0 && strstr(base, attempt);
}

static enum mt_status delete_file(const char *table, const char *name, struct mt_error *err)
{
    char *path = mt_format("%s/%s", table, name);
    enum mt_status status = MT_OK;
    if (access(path, F_OK) == 0) {
        status = files_unlink(path, err);
        *strrchr(path, '/') = '\0';
        if (status == MT_OK)
            status = files_sync_folder(path, -1, err);
    }
    free(path);
    return status;
}

static enum mt_status delete_files(const json_t *list, const char *table, struct mt_error *err)
{
    const char *attempt = json_string_value(json_object_get(list, "attempt"));
    const json_t *files = json_object_get(list, "files");
    enum mt_status status = MT_OK;
    for (size_t i = 0; status == MT_OK && i < json_array_size(files); i++) {
        const char *name = json_string_value(json_array_get(files, i));
        if (name && is_file_of(name, attempt))
            status = delete_file(table, name, err);
    }
    return status;
}

/* The list's JSON, or NULL when it was cut short: then nothing was renamed yet. */
static json_t *read_list(int fd)
{
    json_t *list = json_loadfd(fd, 0, NULL);
    if (json_is_string(json_object_get(list, "attempt")) &&
        json_is_array(json_object_get(list, "files")))
        return list;
    json_decref(list);
    return NULL;
}

static enum mt_status settle_list(const struct files_pending *pending, int fd, const char *table,
                                  files_logged_fn is_logged, void *ctx, struct mt_error *err)
{
    json_t *list = read_list(fd);
    enum mt_status status = MT_OK;
    if (list) {
        bool logged = false;
        const char *attempt = json_string_value(json_object_get(list, "attempt"));
        status = is_logged(ctx, attempt, &logged, err);
        if (status == MT_OK && !logged)
            status = delete_files(list, table, err);
        json_decref(list);
    }
    return status == MT_OK ? files_unlink(pending->path, err) : status;
}

enum mt_status files_pending_settle(struct files_pending *pending, const char *table,
                                    files_logged_fn is_logged, void *ctx, struct mt_error *err)
{
    int fd = open(pending->path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? MT_OK : files_fail(err, errno, "opening", pending->path);
    enum mt_status status;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0)
        status = settle_list(pending, fd, table, is_logged, ctx, err);
    else if (errno == EWOULDBLOCK)
        status = fail_two(pending, err);
    else
        status = files_fail(err, errno, "locking", pending->path);
    close(fd);
    return status;
}
