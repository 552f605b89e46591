/* SPDX-License-Identifier: Apache-2.0
 *
 * store_owner.c - one checkpoint, one process, one local disk.
 *
 * The lock is flock on a file beside the data: it goes with the process however that
 * ends, so nothing is ever stale and no pid is compared. It must be opened O_CLOEXEC:
 * a child that a job starts would keep the lock of its dead parent. The text in the
 * file is for people only.
 *
 * `ckpt show` says whether the owner lives. Looking by flock would hold the lock for a
 * moment and refuse an owner that starts in it, so the owner also takes a lock of the
 * other kind (open file description), which can be looked at without taking it.
 *
 * Network file systems are refused: their locks and mapped pages are promises between
 * machines that LMDB does not survive when broken. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "store/store_int.h"

static char *owner_path(const char *dir)
{
    return mt_format("%s/owner", dir);
}

static char *owner_words(const char *run_id)
{
    char host[256] = "", since[32];
    time_t now = (time_t)(mt_clock_ms() / 1000);
    struct tm utc;
    gethostname(host, sizeof host - 1);
    gmtime_r(&now, &utc);
    strftime(since, sizeof since, "%Y-%m-%dT%H:%M:%SZ", &utc);
    return mt_format("pid %ld on %s since %s, run %s\n", (long)getpid(), host, since, run_id);
}

static int write_words(int fd, const char *run_id)
{
    char *words = owner_words(run_id);
    ssize_t len = (ssize_t)strlen(words);
    int code = 0;
    if (ftruncate(fd, 0) != 0)
        code = errno;
    else if (pwrite(fd, words, (size_t)len, 0) != len)
        code = errno ? errno : EIO;
    free(words);
    return code;
}

/* False when path names another file by now: it was moved or removed before our lock. */
static bool is_at(int fd, const char *path)
{
    struct stat here, there;
    return fstat(fd, &here) == 0 && stat(path, &there) == 0 && here.st_dev == there.st_dev &&
           here.st_ino == there.st_ino;
}

static enum mt_status refuse_taken(const char *dir, struct mt_error *err)
{
    bool running;
    char *owner = mt_store_owner_read(dir, &running);
    mt_fail(err, MT_FATAL, MT_CLASS_CHECKPOINT,
            "checkpoint %s is in use by %s. A checkpoint has one owner: stop that process, or "
            "give this query a checkpointLocation of its own",
            dir, owner[0] ? owner : "another process");
    free(owner);
    return MT_FATAL;
}

enum mt_status mt_store_owner_lock(const char *dir, const char *run_id, int *fd,
                                   struct mt_error *err)
{
    enum mt_status status = MT_OK;
    char *path = owner_path(dir);
    int code = 0;
    *fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (*fd < 0) {
        if (errno != ENOENT)
            status = mt_store_fail(dir, errno, "opening the file \"owner\"", err);
        goto done;
    }
    if (flock(*fd, LOCK_EX | LOCK_NB) != 0) {
        code = errno;
        status = code == EWOULDBLOCK ? refuse_taken(dir, err)
                                     : mt_store_fail(dir, code, "locking the file \"owner\"", err);
        goto fail;
    }
    if (!is_at(*fd, path))
        goto fail;
    struct flock look = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    fcntl(*fd, F_OFD_SETLK, &look);
    code = write_words(*fd, run_id);
    if (code == 0)
        goto done;
    status = mt_store_fail(dir, code, "writing the file \"owner\"", err);
fail:
    close(*fd);
    *fd = -1;
done:
    free(path);
    return status;
}

char *mt_store_owner_read(const char *dir, bool *running)
{
    char words[600] = "", *path = owner_path(dir);
    struct flock look = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    *running = fd >= 0 && fcntl(fd, F_OFD_GETLK, &look) == 0 && look.l_type != F_UNLCK;
    if (fd >= 0) {
        ssize_t len = pread(fd, words, sizeof words - 1, 0);
        words[len > 0 ? len : 0] = '\0';
        words[strcspn(words, "\n")] = '\0';
        close(fd);
    }
    free(path);
    char quoted[600];
    return mt_strdup(mt_quote(words, strlen(words), quoted, sizeof quoted));
}

const char *mt_store_network_name(unsigned long type)
{
    static const struct {
        uint32_t type;
        const char *name;
    } refused[] = {
        {0x00006969, "NFS"},    {0x0000517b, "SMB"},
        {0xff534d42, "CIFS"},   {0xfe534d42, "SMB"},
        {0x65735546, "FUSE"},   {0x00c36400, "Ceph"},
        {0x5346414f, "AFS"},    {0x6b414653, "AFS"},
        {0x73757245, "Coda"},   {0x0000564c, "NCP"},
        {0x0bd00bd0, "Lustre"}, {0x47504653, "GPFS"},
        {0x19830326, "BeeGFS"}, {0x786f4256, "VirtualBox shared folder"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        if (refused[i].type == (uint32_t)type)
            return refused[i].name;
    return NULL;
}

/* statfs of path or of the nearest folder above it that exists. */
static int statfs_above(const char *path, struct statfs *fs)
{
    char *at = mt_strdup(path), *slash;
    int code;
    while ((code = statfs(at, fs) == 0 ? 0 : errno) == ENOENT && (slash = strrchr(at, '/'))) {
        if (slash == at)
            slash++;
        if (!*slash)
            break;
        *slash = '\0';
    }
    free(at);
    return code;
}

enum mt_status mt_store_local_disk(const char *dir, struct mt_error *err)
{
    struct statfs fs;
    if (strstr(dir, "://"))
        return mt_fail(
            err, MT_FATAL, MT_CLASS_CHECKPOINT,
            "checkpoint %s: a checkpoint lives on a local disk, because a batch is "
            "committed by a write that is durable at once and by one process alone. Give "
            "checkpointLocation a local folder; while the query is stopped, that folder can be "
            "copied elsewhere",
            dir);
    int code = statfs_above(dir, &fs);
    if (code != 0)
        return mt_store_fail(dir, code, "asking for its file system", err);
    const char *name = mt_store_network_name((unsigned long)fs.f_type);
    if (name)
        return mt_fail(err, MT_FATAL, MT_CLASS_CHECKPOINT,
                       "checkpoint %s is on a network file system (%s), where locks and mapped "
                       "files are not safe. Give checkpointLocation a folder on a local disk; "
                       "while the query is stopped, it can be copied elsewhere",
                       dir, name);
    return MT_OK;
}
