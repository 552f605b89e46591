/* SPDX-License-Identifier: Apache-2.0
 *
 * store_int.h - what the files of store/ share. */
#ifndef MT_STORE_INT_H
#define MT_STORE_INT_H

#include <lmdb.h>
#include <pthread.h>
#include <sys/types.h>

#include "store/store.h"

enum {
    STORE_META,
    STORE_PLANS,
    STORE_CALLS,
    STORE_COMMITS,
    STORE_BUNDLES,
    STORE_STATE,
    STORE_DATABASES
};
extern const char *const mt_store_names[STORE_DATABASES];

/* Returned inside a transaction, beside errno and LMDB's codes: err has the words. */
enum { STORE_REFUSED = 1 << 20 };

/* An LMDB environment of this process. LMDB forbids to open one file twice in a process
 * (closing one handle drops the locks of the other), so stores of one file share it. */
struct store_env {
    MDB_env *lmdb;
    MDB_dbi dbis[STORE_DATABASES];
    pthread_rwlock_t lock; /* shared: a transaction is open; alone: the map is being grown */
    char *dir;
    bool read_only;
    dev_t device;
    ino_t inode;
    pid_t pid; /* a fork's copy is not the child's to use */
    int refs;
    struct store_env *next;
};

struct mt_store {
    char *dir;
    struct store_env *env;
    int owner_fd; /* holds the lock; -1: a reader */
    char query_id[37];
    char bundle[65]; /* of the newest plan, if this process wrote it; else "" */
    struct mt_state *state;
    int64_t keep;
    int64_t commits;                       /* of this process */
    int64_t batch_bytes, last_batch_bytes; /* written since the last commit, and for it */
};

/* ---- store_owner.c */

/* Locks DIR/owner and writes who we are. FATAL with the owner's words when it is taken.
 * *fd is -1 with MT_OK when the folder went away meanwhile: look again. */
enum mt_status mt_store_owner_lock(const char *dir, const char *run_id, int *fd,
                                   struct mt_error *err) MT_NODISCARD;
/* The owner file's line (caller frees), and whether a living process holds the lock.
 * Looks without taking. */
char *mt_store_owner_read(const char *dir, bool *running);
/* Refuses what is no local disk, judged by the nearest folder that exists. */
enum mt_status mt_store_local_disk(const char *dir, struct mt_error *err) MT_NODISCARD;
/* "NFS", "FUSE", ... for a file system type of statfs(2) that is refused, else NULL. */
const char *mt_store_network_name(unsigned long type);

/* ---- store_check.c: our own reading of LMDB's file */

/* Both meta pages of data.mdb, before LMDB maps it. */
enum mt_status mt_store_check_head(const char *dir, struct mt_error *err) MT_NODISCARD;
/* Every page and value that the snapshot of transaction `txnid` reaches; a transaction of
 * that snapshot must be open. *gone: the snapshot's meta page was written over, take a
 * newer one. */
enum mt_status mt_store_check_pages(const char *dir, int fd, size_t txnid, bool *gone,
                                    struct mt_error *err) MT_NODISCARD;
/* "checkpoint DIR is damaged: ..." and what to do. */
enum mt_status mt_store_damaged(const char *dir, struct mt_error *err, const char *fmt, ...)
    MT_PRINTF(3, 4);

/* ---- store_env.c */

/* Opens what is there after checking all of it, or (create) a new, empty environment. */
enum mt_status mt_store_env_open(const char *dir, bool read_only, bool create, int64_t map_bytes,
                                 struct store_env **out, struct mt_error *err) MT_NODISCARD;
void mt_store_env_close(struct store_env *env);
/* Runs fn inside one transaction. Returns 0, an errno, an LMDB code or STORE_REFUSED;
 * mt_store_fail turns it into words. A write that finds the map full is done again in a
 * larger one; `step` names its commit for tests. */
typedef int (*store_fn)(struct store_env *env, MDB_txn *txn, void *ctx, struct mt_error *err);
int mt_store_read(struct store_env *env, store_fn fn, void *ctx, struct mt_error *err);
int mt_store_write(struct store_env *env, const char *step, int64_t id, store_fn fn, void *ctx,
                   struct mt_error *err);
/* Doubles the map. No transaction of the caller may be open. */
int mt_store_grow(struct store_env *env);
void mt_store_drop_dead_readers(struct store_env *env);
enum mt_status mt_store_fail(const char *dir, int code, const char *doing, struct mt_error *err);

/* ---- store_create.c */

enum { STORE_FORMAT = 1 };

/* DIR is made of DIR.new. *owner: the lock on it. *again: another process came in between. */
enum mt_status mt_store_create(const struct mt_store_options *options, const char *dir, int *owner,
                               bool *again, struct mt_error *err) MT_NODISCARD;
/* A DIR.new beside a whole DIR: left by a crash before DIR came from elsewhere. */
void mt_store_remove_leftover(const char *dir);
/* What was made in a folder or renamed there stays; an errno. */
int mt_store_sync_parent(const char *path);

/* ---- store_value.c: values with their hash */
uint64_t mt_store_hash(const char *database, const void *key, size_t key_len, const void *rest,
                       size_t len);
int mt_store_value_get(struct store_env *env, MDB_txn *txn, int database, const MDB_val *key,
                       MDB_val *rest, struct mt_error *err);
int mt_store_value_put(struct store_env *env, MDB_txn *txn, int database, const MDB_val *key,
                       const char *rest, size_t len);
/* A value as LMDB holds it becomes its rest. */
int mt_store_value_check(struct store_env *env, int database, const MDB_val *key, MDB_val *value,
                         struct mt_error *err);

/* One value, in a transaction of its own. */
struct store_get {
    int database;
    MDB_val key;
    struct mt_buf *value; /* appended */
    bool *found;
};
enum mt_status mt_store_get_value(struct mt_store *store, struct store_get get,
                                  struct mt_error *err) MT_NODISCARD;

/* ---- store_state.c */
struct mt_state *mt_store_state_new(struct mt_store *store);
void mt_store_state_free(struct mt_state *state); /* NULL is fine */
/* Ends the read transaction: before every write and every growing of this store. */
void mt_store_state_rest(struct mt_state *state);
/* Before a commit: rests, and sorts the changes. */
void mt_store_state_ready(struct mt_state *state);
/* Puts the changes, which stay; an LMDB code. */
int mt_store_state_write(struct mt_state *state, MDB_txn *txn);
/* What writing them may take; stat: of the state's tree. */
int64_t mt_store_state_bytes(const struct mt_state *state, const MDB_stat *stat);
#endif
