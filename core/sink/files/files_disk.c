/* SPDX-License-Identifier: Apache-2.0
 *
 * files_disk.c - writing to a local disk so that a power cut takes nothing back.
 *
 * A file is durable when its bytes are synced, its name when the folder is, the
 * folder's own name when the one above is. Arrow's file system does none of this, and
 * its rename replaces; hence these calls of our own. When fsync fails, the kernel may
 * have dropped the bytes and marked the pages clean: a second fsync would say yes to
 * nothing, so the file is given up. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/step.h"
#include "sink/files/files_int.h"

enum { BUFFER_BYTES = 256 * 1024 };

enum mt_status files_fail(struct mt_error *err, int error, const char *doing, const char *path)
{
    enum mt_class class_ = MT_CLASS_SINK;
    const char *cure = "";
    if (error == ENOSPC || error == EDQUOT) {
        class_ = MT_CLASS_MACHINE;
        cure = "; make room and start again: nothing is lost or doubled";
    } else if (error == EMFILE || error == ENFILE) {
        class_ = MT_CLASS_MACHINE;
        cure = "; raise the limit of open files (ulimit -n) and start again";
    } else if (error == EIO) {
        class_ = MT_CLASS_MACHINE;
        cure = "; look at the disk before starting again";
    } else if (error == EACCES || error == EPERM || error == EROFS) {
        cure = "; the user who runs the job must be able to write there";
    } else if (error == ENOTDIR || error == EEXIST) {
        cure = "; a file stands where a folder is expected";
    }
    return mt_fail(err, MT_FATAL, class_, "%s %s: %s%s", doing, path, strerror(error), cure);
}

static char *folder_above(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == path ? mt_strdup("/") : mt_strndup(path, (size_t)(slash - path));
}

enum mt_status files_sync_folder(const char *path, int64_t batch, struct mt_error *err)
{
    int error = mt_step_fails("file.folder", batch);
    int fd = error ? -1 : open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (!error && (fd < 0 || fsync(fd) != 0))
        error = errno;
    if (fd >= 0)
        close(fd);
    return error ? files_fail(err, error, "making the folder durable:", path) : MT_OK;
}

enum mt_status files_make_folder(const char *path, struct mt_error *err)
{
    if (mkdir(path, 0777) == 0 || errno == EEXIST)
        return MT_OK;
    if (errno != ENOENT)
        return files_fail(err, errno, "making the folder", path);
    char *above = folder_above(path);
    enum mt_status status = files_make_folder(above, err);
    free(above);
    if (status == MT_OK && mkdir(path, 0777) != 0 && errno != EEXIST)
        status = files_fail(err, errno, "making the folder", path);
    return status;
}

/* Above the table there may be folders that only root opens and read-only mounts. */
static bool may_be_skipped(int error)
{
    return error == EACCES || error == EROFS || error == EINVAL;
}

/* One step of files_sync_upwards: *device is 0 at first; *done at another file system. */
static int sync_one(const char *path, dev_t *device, bool *done)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return errno;
    struct stat info;
    int error = fstat(fd, &info) != 0 ? errno : 0;
    *done = !error && *device && info.st_dev != *device;
    *device = info.st_dev;
    if (!error && !*done && fsync(fd) != 0)
        error = errno;
    close(fd);
    return error;
}

enum mt_status files_sync_upwards(const char *path, int64_t batch, struct mt_error *err)
{
    enum mt_status status = files_sync_folder(path, batch, err);
    char *folder = folder_above(path);
    dev_t device = 0;
    for (bool done = false; status == MT_OK && !done;) {
        int error = sync_one(folder, &device, &done);
        if (error && !may_be_skipped(error))
            status = files_fail(err, error, "making the folder durable:", folder);
        done = done || strcmp(folder, "/") == 0;
        char *above = folder_above(folder);
        free(folder);
        folder = above;
    }
    free(folder);
    return status;
}

enum mt_status files_unlink(const char *path, struct mt_error *err)
{
    if (unlink(path) != 0 && errno != ENOENT)
        return files_fail(err, errno, "deleting", path);
    return MT_OK;
}

/* ---- files through a buffer */

enum mt_status files_out_open(struct files_out *out, const char *path, int how, const char *step,
                              int64_t batch, struct mt_error *err)
{
    *out = (struct files_out){.fd = -1, .step = step, .batch = batch, .path = mt_strdup(path)};
    out->error = mt_step_fails("file.open", batch);
    if (!out->error)
        out->fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | how, 0666);
    if (!out->error && out->fd < 0)
        out->error = errno;
    return out->error ? files_fail(err, out->error, "creating", path) : MT_OK;
}

static int flush(struct files_out *out)
{
    out->error = mt_step_fails(out->step, out->batch);
    for (size_t done = 0; !out->error && done < out->buf.len;) {
        ssize_t n = write(out->fd, out->buf.data + done, out->buf.len - done);
        if (n > 0)
            done += (size_t)n;
        else if (n == 0 || errno != EINTR)
            out->error = n == 0 ? EIO : errno;
    }
    out->buf.len = 0;
    return out->error;
}

int files_out_add(void *ctx, const void *bytes, size_t len)
{
    struct files_out *out = ctx;
    if (out->error)
        return out->error;
    mt_buf_add(&out->buf, bytes, len);
    return out->buf.len >= BUFFER_BYTES ? flush(out) : 0;
}

enum mt_status files_out_sync(struct files_out *out, const char *sync_step, int64_t *size,
                              int64_t *mtime_ms, struct mt_error *err)
{
    struct stat info = {0};
    if (out->error || flush(out))
        return files_fail(err, out->error, "writing", out->path);
    out->error = mt_step_fails(sync_step, out->batch);
    if (!out->error && (fsync(out->fd) != 0 || fstat(out->fd, &info) != 0))
        out->error = errno;
    if (out->error)
        return files_fail(err, out->error, "making durable", out->path);
    *size = info.st_size;
    *mtime_ms = (int64_t)info.st_mtim.tv_sec * 1000 + info.st_mtim.tv_nsec / 1000000;
    return MT_OK;
}

void files_out_close(struct files_out *out)
{
    if (out->fd >= 0)
        close(out->fd);
    mt_buf_free(&out->buf);
    free(out->path);
    *out = (struct files_out){.fd = -1};
}
