/* SPDX-License-Identifier: Apache-2.0
 *
 * store_env.c - LMDB environments and the transactions in them.
 *
 * The flags are LMDB's slow ones on purpose. WRITEMAP turns a full disk into a SIGBUS
 * and a stray pointer into damage; NOSYNC makes "committed" a wish. A transaction here
 * is short: copy in or copy out, never held over a call of anyone else, so that the map
 * can always be grown and no reader keeps old pages from being used again.
 *
 * A map has a size and LMDB will not grow it. Growing needs that this process has no
 * transaction open, and nobody can know the right size beforehand, so: the write that
 * finds the map full is given up, the map doubled, the same write done again. Address
 * space is what that costs, not disk. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/step.h"
#include "store/store_int.h"

enum { MAP_FIRST = 16 << 20, SNAPSHOT_TRIES = 1000 };

const char *const mt_store_names[STORE_DATABASES] = {"meta",    "plans",   "calls",
                                                     "commits", "bundles", "state"};

static struct store_env *open_envs;
static pthread_mutex_t open_envs_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- words */

static enum mt_status fail_machine(const char *dir, const char *doing, const char *what,
                                   struct mt_error *err)
{
    return mt_fail(
        err, MT_FATAL, MT_CLASS_MACHINE,
        "checkpoint %s: %s failed: %s. Nothing is lost, the last commit stands: make room "
        "and start again",
        dir, doing, what);
}

enum mt_status mt_store_fail(const char *dir, int code, const char *doing, struct mt_error *err)
{
    switch (code) {
    case 0:
        return MT_OK;
    case STORE_REFUSED:
        return MT_FATAL;
    case EIO:
        return fail_machine(dir, doing, "input/output error (a full or a failing disk)", err);
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
        return fail_machine(dir, doing, "no space left on the disk", err);
    case ENOMEM:
        return fail_machine(dir, doing, "out of memory or address space", err);
    case MDB_PANIC:
        return fail_machine(dir, doing, "an earlier write failed", err);
    case EMFILE:
    case ENFILE:
    case ENOLCK:
    case MDB_READERS_FULL:
    case MDB_TXN_FULL:
        return fail_machine(dir, doing, mdb_strerror(code), err);
    case MDB_CORRUPTED:
    case MDB_PAGE_NOTFOUND:
    case MDB_INVALID:
    case MDB_VERSION_MISMATCH:
        return mt_store_damaged(dir, err, "%s: %s", doing, mdb_strerror(code));
    default:
        return mt_fail(err, MT_FATAL, MT_CLASS_CHECKPOINT, "checkpoint %s: %s failed: %s", dir,
                       doing, mdb_strerror(code));
    }
}

/* ---- growing */

void mt_store_drop_dead_readers(struct store_env *env)
{
    int dead = 0;
    mdb_reader_check(env->lmdb, &dead);
    if (dead > 0)
        mt_log(MT_INFO, "checkpoint %s: %d readers died while reading; their pages are free again",
               env->dir, dead);
}

int mt_store_grow(struct store_env *env)
{
    MDB_envinfo info;
    pthread_rwlock_wrlock(&env->lock);
    mt_store_drop_dead_readers(env);
    mdb_env_info(env->lmdb, &info);
    /* a size below what another process grew it to is raised to that by LMDB */
    int code = info.me_mapsize > SIZE_MAX / 4 ? ENOMEM
                                              : mdb_env_set_mapsize(env->lmdb, info.me_mapsize * 2);
    pthread_rwlock_unlock(&env->lock);
    return code;
}

/* ---- transactions */

static int attempt(struct store_env *env, const char *step, int64_t id, store_fn fn, void *ctx,
                   struct mt_error *err)
{
    MDB_txn *txn;
    pthread_rwlock_rdlock(&env->lock);
    int code = mdb_txn_begin(env->lmdb, NULL, step ? 0 : MDB_RDONLY, &txn);
    if (code != 0)
        goto done;
    code = fn(env, txn, ctx, err);
    if (code == 0 && step) {
        mt_step(step, id);
        code = mt_step_fails(step, id);
    }
    if (code == 0 && step)
        code = mdb_txn_commit(txn);
    else
        mdb_txn_abort(txn);
done:
    pthread_rwlock_unlock(&env->lock);
    return code;
}

static int transact(struct store_env *env, const char *step, int64_t id, store_fn fn, void *ctx,
                    struct mt_error *err)
{
    int code;
    while ((code = attempt(env, step, id, fn, ctx, err)) == MDB_MAP_FULL ||
           code == MDB_MAP_RESIZED) {
        code = mt_store_grow(env);
        if (code != 0)
            break;
    }
    return code;
}

int mt_store_read(struct store_env *env, store_fn fn, void *ctx, struct mt_error *err)
{
    return transact(env, NULL, -1, fn, ctx, err);
}

int mt_store_write(struct store_env *env, const char *step, int64_t id, store_fn fn, void *ctx,
                   struct mt_error *err)
{
    return transact(env, step, id, fn, ctx, err);
}

/* ---- opening */

/* flags: 0 or MDB_CREATE */
static int open_databases(struct store_env *env, MDB_txn *txn, unsigned flags)
{
    int code = 0;
    for (int i = 0; i < STORE_DATABASES && code == 0; i++)
        code = mdb_dbi_open(txn, mt_store_names[i], flags, &env->dbis[i]);
    return code;
}

static int create_databases(struct store_env *env)
{
    MDB_txn *txn;
    int code = mdb_txn_begin(env->lmdb, NULL, 0, &txn);
    if (code != 0)
        return code;
    code = open_databases(env, txn, MDB_CREATE);
    if (code == 0)
        return mdb_txn_commit(txn);
    mdb_txn_abort(txn);
    return code;
}

/* Whether it is whole and has no state: checkpoints had none at first. Any other database that is
 * missing, or is called otherwise, was found when the pages were checked. */
static bool is_before_state(struct store_env *env, MDB_txn *txn)
{
    return mdb_dbi_open(txn, mt_store_names[STORE_STATE], 0, &env->dbis[STORE_STATE]) ==
           MDB_NOTFOUND;
}

/* Ends txn. A reader changes nothing. */
static enum mt_status add_state(struct store_env *env, MDB_txn *txn, struct mt_error *err)
{
    mdb_txn_abort(txn);
    if (env->read_only)
        return mt_fail(
            err, MT_FATAL, MT_CLASS_CHECKPOINT,
            "checkpoint %s is of a Moontide that kept no state: it can be looked at once "
            "its job has run under this one",
            env->dir);
    return mt_store_fail(env->dir, create_databases(env), "adding its state", err);
}

/* Checks one snapshot whole, holding it, and opens the databases in it. *gone: a writer
 * went past it before we found where it starts. */
static enum mt_status check_snapshot(struct store_env *env, bool *gone, struct mt_error *err)
{
    MDB_txn *txn;
    int fd, code = mdb_txn_begin(env->lmdb, NULL, MDB_RDONLY, &txn);
    *gone = code == MDB_MAP_RESIZED;
    if (*gone)
        code = mt_store_grow(env);
    if (code != 0 || *gone)
        return mt_store_fail(env->dir, code, "opening", err);
    mdb_env_get_fd(env->lmdb, &fd);
    enum mt_status status = mt_store_check_pages(env->dir, fd, mdb_txn_id(txn), gone, err);
    if (status == MT_OK && !*gone && is_before_state(env, txn))
        return add_state(env, txn, err);
    if (status == MT_OK && !*gone)
        status = mt_store_fail(env->dir, open_databases(env, txn, 0), "opening its databases", err);
    if (status == MT_OK && !*gone)
        return mt_store_fail(env->dir, mdb_txn_commit(txn), "opening its databases", err);
    mdb_txn_abort(txn);
    return status;
}

static enum mt_status check_all(struct store_env *env, struct mt_error *err)
{
    bool gone = true;
    enum mt_status status = MT_OK;
    for (int i = 0; i < SNAPSHOT_TRIES && status == MT_OK && gone; i++)
        status = check_snapshot(env, &gone, err);
    if (status == MT_OK && gone)
        return mt_fail(err, MT_FATAL, MT_CLASS_CHECKPOINT,
                       "checkpoint %s is written to faster than it can be read; try again",
                       env->dir);
    return status;
}

/* Room for twice the file, so that an open is not followed by growing at once. */
static size_t map_size(int64_t wanted, int64_t file_bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t size = (size_t)(wanted > 0 ? wanted : MAP_FIRST);
    if (size < 2 * (size_t)file_bytes)
        size = 2 * (size_t)file_bytes;
    return (size + page - 1) / page * page;
}

static void env_free(struct store_env *env)
{
    mdb_env_close(env->lmdb);
    pthread_rwlock_destroy(&env->lock);
    free(env->dir);
    free(env);
}

/* file: the data file's; of size 0 when it is to be created. */
static enum mt_status env_new(const char *dir, bool read_only, bool create, size_t map_bytes,
                              struct store_env **out, struct mt_error *err)
{
    struct store_env *env = mt_alloc(sizeof *env);
    env->dir = mt_strdup(dir);
    env->read_only = read_only;
    env->pid = getpid();
    env->refs = 1;
    pthread_rwlock_init(&env->lock, NULL);
    enum mt_status status;
    int code = mdb_env_create(&env->lmdb);
    if (code == 0)
        code = mdb_env_set_maxdbs(env->lmdb, STORE_DATABASES);
    if (code == 0)
        code = mdb_env_set_mapsize(env->lmdb, map_bytes);
    if (code == 0)
        code = mdb_env_open(env->lmdb, dir, MDB_NOTLS | (read_only ? MDB_RDONLY : 0), 0644);
    if (code == 0)
        mt_store_drop_dead_readers(env);
    if (code == 0 && create)
        code = create_databases(env);
    status = mt_store_fail(dir, code, "opening", err);
    if (status == MT_OK && !create)
        status = check_all(env, err);
    if (status == MT_OK)
        *out = env;
    else
        env_free(env);
    return status;
}

static struct store_env *find_open(const struct stat *file)
{
    struct store_env *env = open_envs;
    while (env &&
           (env->device != file->st_dev || env->inode != file->st_ino || env->pid != getpid()))
        env = env->next;
    return env;
}

static enum mt_status share(struct store_env *env, bool read_only, struct store_env **out,
                            struct mt_error *err)
{
    if (env->read_only && !read_only)
        return mt_fail(err, MT_FATAL, MT_CLASS_CHECKPOINT,
                       "checkpoint %s is open for reading in this process; close that first",
                       env->dir);
    env->refs++;
    *out = env;
    return MT_OK;
}

static enum mt_status open_file(const char *dir, const char *path, bool read_only, bool create,
                                int64_t map_bytes, struct store_env **out, struct mt_error *err)
{
    struct stat file = {0};
    if (!create && stat(path, &file) != 0)
        return mt_store_fail(dir, errno, "opening data.mdb", err);
    struct store_env *env = create ? NULL : find_open(&file);
    if (env)
        return share(env, read_only, out, err);
    if (!create && mt_store_check_head(dir, err) != MT_OK)
        return MT_FATAL;
    enum mt_status status =
        env_new(dir, read_only, create, map_size(map_bytes, file.st_size), out, err);
    if (status != MT_OK)
        return status;
    if (stat(path, &file) != 0) {
        env_free(*out);
        return mt_store_fail(dir, errno, "opening data.mdb", err);
    }
    (*out)->device = file.st_dev;
    (*out)->inode = file.st_ino;
    (*out)->next = open_envs;
    open_envs = *out;
    return MT_OK;
}

enum mt_status mt_store_env_open(const char *dir, bool read_only, bool create, int64_t map_bytes,
                                 struct store_env **out, struct mt_error *err)
{
    char *path = mt_format("%s/data.mdb", dir);
    pthread_mutex_lock(&open_envs_lock);
    enum mt_status status = open_file(dir, path, read_only, create, map_bytes, out, err);
    pthread_mutex_unlock(&open_envs_lock);
    free(path);
    return status;
}

void mt_store_env_close(struct store_env *env)
{
    pthread_mutex_lock(&open_envs_lock);
    if (--env->refs == 0) {
        struct store_env **link = &open_envs;
        while (*link != env)
            link = &(*link)->next;
        *link = env->next;
        env_free(env);
    }
    pthread_mutex_unlock(&open_envs_lock);
}
