/* SPDX-License-Identifier: Apache-2.0
 *
 * store.c - opening a checkpoint: new, existing, owned by another, not one at all.
 *
 * The query id decides everything later: by it destinations know which batches they
 * hold. A checkpoint that silently became a new one would write every row again. So a
 * folder is initialised only when it is empty or not there (store_create.c). */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/step.h"
#include "store/store_int.h"

enum { KEEP = 100, TRIES = 10 };
enum { SPACE_LEAST = 64 << 10 }; /* LMDB copies every page on the way to a changed one */

enum found { FOUND_NOTHING, FOUND_EMPTY, FOUND_FILES, FOUND_DATA };

/* ---- folders */

static enum mt_status look(const char *dir, enum found *found, struct mt_error *err)
{
    *found = FOUND_NOTHING;
    DIR *entries = opendir(dir);
    if (!entries)
        return errno == ENOENT ? MT_OK : mt_store_fail(dir, errno, "opening the folder", err);
    *found = FOUND_EMPTY;
    for (struct dirent *entry; (entry = readdir(entries));) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (strcmp(entry->d_name, "data.mdb") == 0)
            *found = FOUND_DATA;
        else if (*found == FOUND_EMPTY)
            *found = FOUND_FILES;
    }
    closedir(entries);
    return MT_OK;
}

/* ---- an existing one */

static enum mt_status fact(struct mt_store *store, const char *key, char *out, size_t cap,
                           struct mt_error *err)
{
    struct mt_buf value = {0};
    bool found;
    enum mt_status status = mt_store_meta_get(store, key, &value, &found, err);
    if (status == MT_OK && (!found || value.len >= cap))
        status = mt_store_damaged(store->dir, err, "it has no readable \"%s\"", key);
    if (status == MT_OK)
        snprintf(out, cap, "%s", value.data);
    mt_buf_free(&value);
    return status;
}

static enum mt_status read_identity(struct mt_store *store, struct mt_error *err)
{
    char format[12], version[32];
    if (fact(store, "format", format, sizeof format, err) != MT_OK ||
        fact(store, "version", version, sizeof version, err) != MT_OK ||
        fact(store, "query.id", store->query_id, sizeof store->query_id, err) != MT_OK)
        return MT_FATAL;
    if (atoi(format) != STORE_FORMAT)
        return mt_fail(
            err, MT_FATAL, MT_CLASS_CHECKPOINT,
            "checkpoint %s has format %s, made by Moontide %s; this is Moontide %s, which "
            "reads format %d: use the version that made it",
            store->dir, format, version, MT_VERSION, STORE_FORMAT);
    if (strlen(store->query_id) != 36)
        return mt_store_damaged(store->dir, err, "its query id is not one");
    return MT_OK;
}

/* Takes owner_fd (-1: a reader), on failure too. */
static enum mt_status open_data(const char *dir, const struct mt_store_options *options,
                                int owner_fd, struct mt_store **out, struct mt_error *err)
{
    struct mt_store *store = mt_alloc(sizeof *store);
    store->dir = mt_strdup(dir);
    store->owner_fd = owner_fd;
    store->keep = options->keep > 0 ? options->keep : KEEP;
    store->state = mt_store_state_new(store);
    enum mt_status status =
        mt_store_env_open(dir, owner_fd < 0, false, options->map_bytes, &store->env, err);
    if (status == MT_OK)
        status = read_identity(store, err);
    if (status == MT_OK)
        *out = store;
    else
        mt_store_close(store);
    return status;
}

static enum mt_status not_a_checkpoint(const char *dir, struct mt_error *err)
{
    return mt_fail(
        err, MT_FATAL, MT_CLASS_CHECKPOINT,
        "%s holds files and no data.mdb: it is not a checkpoint, or its data is gone. It is "
        "left as it is, since beginning anew would write every row again. Give "
        "checkpointLocation an empty or a new folder, or put back a copy of "
        "what was there",
        dir);
}

/* One look and what follows from it. *again: the folder changed meanwhile. */
static enum mt_status open_once(const struct mt_store_options *options, const char *dir,
                                struct mt_store **out, bool *fresh, bool *again,
                                struct mt_error *err)
{
    enum found found;
    int owner;
    *again = false;
    if (look(dir, &found, err) != MT_OK)
        return MT_FATAL;
    if (found == FOUND_FILES)
        return not_a_checkpoint(dir, err);
    *fresh = found != FOUND_DATA;
    enum mt_status status = *fresh ? mt_store_create(options, dir, &owner, again, err)
                                   : mt_store_owner_lock(dir, options->run_id, &owner, err);
    if (status != MT_OK)
        return status;
    *again |= owner < 0;
    if (*again)
        return MT_OK;
    if (!*fresh)
        mt_store_remove_leftover(dir);
    return open_data(dir, options, owner, out, err);
}

static char *without_slash(const char *dir)
{
    size_t len = strlen(dir);
    while (len > 1 && dir[len - 1] == '/')
        len--;
    return mt_strndup(dir, len);
}

enum mt_status mt_store_open(const struct mt_store_options *options, struct mt_store **out,
                             bool *fresh, struct mt_error *err)
{
    char *dir = without_slash(options->dir);
    bool again = true;
    enum mt_status status = mt_store_local_disk(dir, err);
    for (int i = 0; i < TRIES && status == MT_OK && again; i++)
        status = open_once(options, dir, out, fresh, &again, err);
    if (status == MT_OK && again)
        status = mt_fail(err, MT_FATAL, MT_CLASS_CHECKPOINT,
                         "checkpoint %s is made and removed by other processes; try again", dir);
    free(dir);
    return status;
}

enum mt_status mt_store_open_read(const char *dir, struct mt_store **out, struct mt_error *err)
{
    struct mt_store_options options = {0};
    char *plain = without_slash(dir);
    enum found found;
    enum mt_status status = look(plain, &found, err);
    if (status == MT_OK && found == FOUND_FILES)
        status = not_a_checkpoint(plain, err);
    else if (status == MT_OK && found != FOUND_DATA)
        status = mt_fail(err, MT_FATAL, MT_CLASS_CHECKPOINT, "there is no checkpoint in %s", plain);
    if (status == MT_OK)
        status = open_data(plain, &options, -1, out, err);
    free(plain);
    return status;
}

enum mt_status mt_store_verify(const char *dir, struct mt_error *err)
{
    struct mt_store *store = NULL;
    enum found found;
    int64_t plan, commit;
    enum mt_status status = mt_store_local_disk(dir, err);
    if (status == MT_OK)
        status = look(dir, &found, err);
    if (status != MT_OK || found == FOUND_NOTHING || found == FOUND_EMPTY)
        return status;
    status = mt_store_open_read(dir, &store, err);
    if (status == MT_OK)
        status = mt_store_last(store, &plan, &commit, err);
    mt_store_close(store);
    return status;
}

void mt_store_close(struct mt_store *store)
{
    if (!store)
        return;
    mt_store_state_free(store->state);
    if (store->env)
        mt_store_env_close(store->env);
    if (store->owner_fd >= 0)
        close(store->owner_fd); /* last: it lets the next owner in */
    free(store->dir);
    free(store);
}

const char *mt_store_query_id(const struct mt_store *store)
{
    return store->query_id;
}

struct mt_state *mt_store_state(struct mt_store *store)
{
    return store->state;
}

/* ---- room */

static int64_t needed_bytes(const struct mt_store *store)
{
    return 2 * (store->last_batch_bytes + SPACE_LEAST);
}

static int64_t free_map(const struct mt_store *store)
{
    MDB_envinfo info;
    MDB_stat stat;
    mdb_env_info(store->env->lmdb, &info);
    mdb_env_stat(store->env->lmdb, &stat);
    return (int64_t)info.me_mapsize - (int64_t)(info.me_last_pgno + 1) * stat.ms_psize;
}

enum mt_status mt_store_ensure_space(struct mt_store *store, struct mt_error *err)
{
    struct statvfs fs;
    int64_t needed = needed_bytes(store);
    mt_store_state_rest(store->state);
    while (free_map(store) < needed) {
        int code = mt_store_grow(store->env);
        if (code != 0)
            return mt_store_fail(store->dir, code, "growing its map", err);
    }
    if (statvfs(store->dir, &fs) != 0)
        return mt_store_fail(store->dir, errno, "asking for free space", err);
    int64_t there = (int64_t)fs.f_bavail * (int64_t)fs.f_frsize;
    if (mt_step_fails("store.space", -1))
        there = 0;
    if (there < needed)
        return mt_fail(err, MT_FATAL, MT_CLASS_MACHINE,
                       "checkpoint %s: its disk has %" PRId64 " bytes left and the next batch may "
                       "need %" PRId64
                       ". No batch was begun, the last commit stands: make room and "
                       "start again",
                       store->dir, there, needed);
    return MT_OK;
}

/* ---- a copy */

static int copy_to(struct store_env *env, int fd)
{
    pthread_rwlock_rdlock(&env->lock);
    int code = mdb_env_copyfd2(env->lmdb, fd, MDB_CP_COMPACT);
    pthread_rwlock_unlock(&env->lock);
    return code != 0 || fsync(fd) == 0 ? code : errno;
}

static enum mt_status fail_backup(const char *file, int code, struct mt_error *err)
{
    enum mt_class class_ = code == ENOSPC || code == EDQUOT || code == EIO || code == EMFILE
                               ? MT_CLASS_MACHINE
                               : MT_CLASS_CHECKPOINT;
    if (code == EEXIST)
        return mt_fail(err, MT_FATAL, class_,
                       "%s is there already, and a backup replaces nothing: give another name",
                       file);
    return mt_fail(err, MT_FATAL, class_, "writing the backup %s failed: %s; there is none", file,
                   mdb_strerror(code));
}

/* LMDB copies one snapshot, page by page as they are used, while the owner goes on. */
static enum mt_status copy_store(struct mt_store *store, const char *file, struct mt_error *err)
{
    char *path;
    enum mt_status status = mt_path_absolute(file, &path, err);
    if (status != MT_OK)
        return status;
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    int code = fd < 0 ? errno : copy_to(store->env, fd);
    if (fd >= 0 && close(fd) != 0 && code == 0)
        code = errno;
    if (code == 0)
        code = mt_store_sync_parent(path);
    if (code != 0) {
        status = fail_backup(file, code, err);
        if (fd >= 0)
            unlink(path);
    }
    free(path);
    return status;
}

enum mt_status mt_store_backup(const char *dir, const char *file, struct mt_error *err)
{
    struct mt_store *store;
    enum mt_status status = mt_store_open_read(dir, &store, err);
    if (status != MT_OK)
        return status;
    status = copy_store(store, file, err);
    mt_store_close(store);
    return status;
}

/* ---- what it is, for people */

static int64_t file_bytes(const struct mt_store *store)
{
    struct stat st;
    char *path = mt_format("%s/data.mdb", store->dir);
    int64_t bytes = stat(path, &st) == 0 ? (int64_t)st.st_size : 0;
    free(path);
    return bytes;
}

static int count_in(struct store_env *env, MDB_txn *txn, void *ctx, struct mt_error *err)
{
    MDB_stat *stats = ctx;
    int code = 0;
    (void)err;
    for (int i = 0; i < STORE_DATABASES && code == 0; i++)
        code = mdb_stat(txn, env->dbis[i], &stats[i]);
    return code;
}

static void add_fact(struct mt_buf *json, struct mt_store *store, const char *name, const char *key)
{
    struct mt_error ignored;
    char value[64] = "";
    if (fact(store, key, value, sizeof value, &ignored) != MT_OK)
        value[0] = '\0';
    mt_buf_addf(json, ",\"%s\":", name);
    mt_buf_add_json(json, value, strlen(value));
}

char *mt_store_describe(struct mt_store *store)
{
    struct mt_buf json = {0};
    struct mt_error ignored;
    MDB_envinfo info;
    MDB_stat stats[STORE_DATABASES] = {0}, *state = &stats[STORE_STATE];
    bool running;
    char *owner = mt_store_owner_read(store->dir, &running);
    mdb_env_info(store->env->lmdb, &info);
    mt_store_read(store->env, count_in, stats, &ignored);
    mt_buf_addf(&json, "{\"bytes\":%" PRId64 ",\"mapBytes\":%zu,\"owner\":", file_bytes(store),
                info.me_mapsize);
    mt_buf_add_json(&json, owner, strlen(owner));
    mt_buf_addf(&json, ",\"running\":%s", running || store->owner_fd >= 0 ? "true" : "false");
    add_fact(&json, store, "created", "created");
    add_fact(&json, store, "createdBy", "version");
    for (int i = STORE_PLANS; i < STORE_DATABASES; i++)
        mt_buf_addf(&json, ",\"%s\":%zu", mt_store_names[i], stats[i].ms_entries);
    mt_buf_addf(&json, ",\"stateBytes\":%zu}",
                (state->ms_branch_pages + state->ms_leaf_pages + state->ms_overflow_pages) *
                    state->ms_psize);
    free(owner);
    return json.data;
}
