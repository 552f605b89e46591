/* SPDX-License-Identifier: Apache-2.0
 *
 * store.h - the checkpoint: one LMDB environment on a local disk, owned by one
 * process. The only room that knows lmdb.h. It keeps bytes and ids and knows
 * nothing of what a plan says, except its "bundle" field (for keeping bundles).
 *
 * Databases: meta (text keys), plans, calls, commits (8-byte big-endian batch
 * ids), bundles (hash), state (the job's own keys). Every value is xxh3-64 of database, key and
 * rest, then the rest: a record found under another key is as damaged as a changed one. Opening
 * checks every page and every value (store_check.c). */
#ifndef MT_STORE_H
#define MT_STORE_H

#include "base/base.h"

/* ---- keyed state: what the last commit holds, with this batch's changes over it. Changes are
 * written by the batch's commit, or discarded. Keys are bytes, 1 to 501 of them, values are
 * bytes; order is that of the keys' bytes. Bytes handed out are good until the next call that
 * takes this state. */
struct mt_state;

enum { MT_STATE_KEY_MAX = 501 }; /* a tag and 500 bytes; LMDB takes 511 */

/* *value NULL: there is none. */
enum mt_status mt_state_get(struct mt_state *state, const void *key, size_t key_len,
                            const void **value, size_t *len, struct mt_error *err) MT_NODISCARD;
enum mt_status mt_state_put(struct mt_state *state, const void *key, size_t key_len,
                            const void *value, size_t len, struct mt_error *err) MT_NODISCARD;
enum mt_status mt_state_delete(struct mt_state *state, const void *key, size_t key_len,
                               struct mt_error *err) MT_NODISCARD;
/* The first key behind `after` (NULL: the first there is) that begins with prefix; *key NULL: the
 * last was seen. Puts and deletes between two calls are seen. */
enum mt_status mt_state_next(struct mt_state *state, const void *prefix, size_t prefix_len,
                             const void *after, size_t after_len, const void **key, size_t *key_len,
                             const void **value, size_t *len, struct mt_error *err) MT_NODISCARD;
int64_t mt_state_count(struct mt_state *state); /* -1: cannot be read, the log says why */

/* Reads the checkpoint in dir as a start would, whole, also beside its owner; changes nothing.
 * OK where none is yet. */
enum mt_status mt_store_verify(const char *dir, struct mt_error *err) MT_NODISCARD;

#ifndef MT_CDEF
struct mt_store;

enum mt_record { MT_RECORD_PLAN, MT_RECORD_CALLS, MT_RECORD_COMMIT };

struct mt_store_options {
    const char *dir;    /* absolute */
    const char *run_id; /* for the owner file's message */
    int64_t map_bytes;  /* first map size; 0: 16 MiB */
    int64_t keep;       /* plans and commits kept; 0: 100 */
};

/* Opens a checkpoint to own it, or makes a new one (built in DIR.new, first
 * transaction with query id and format durable, then renamed; *fresh = true).
 * FATAL, MT_CLASS_CHECKPOINT: owned by another process (names host, pid, start);
 * a directory without a readable query id (never initialised over); damage; a
 * network file system; s3://. */
enum mt_status mt_store_open(const struct mt_store_options *options, struct mt_store **out,
                             bool *fresh, struct mt_error *err) MT_NODISCARD;
/* Opens to read while an owner may run. Takes no lock, writes nothing. */
enum mt_status mt_store_open_read(const char *dir, struct mt_store **out,
                                  struct mt_error *err) MT_NODISCARD;
void mt_store_close(struct mt_store *store); /* NULL is fine */

const char *mt_store_query_id(const struct mt_store *store);

/* Text facts beside the batches: "start.<source>", "options", "marker". Durable on return;
 * an older value is replaced.
 * get: *found false when there is none; value is NUL-terminated in *value (appended). */
enum mt_status mt_store_meta_put(struct mt_store *store, const char *key, const char *value,
                                 struct mt_error *err) MT_NODISCARD;
enum mt_status mt_store_meta_get(struct mt_store *store, const char *key, struct mt_buf *value,
                                 bool *found, struct mt_error *err) MT_NODISCARD;

/* Highest ids, -1 for none. FATAL when plans and commits do not fit together
 * (commit without plan, a gap): the message lists which entries exist. */
enum mt_status mt_store_last(struct mt_store *store, int64_t *plan, int64_t *commit,
                             struct mt_error *err) MT_NODISCARD;
enum mt_status mt_store_get(struct mt_store *store, enum mt_record kind, int64_t id,
                            struct mt_buf *value, bool *found, struct mt_error *err) MT_NODISCARD;

/* One durable transaction each. A full map is grown (readers closed first) and the
 * same write done again. RETRY never; MT_CLASS_MACHINE FATAL when the disk is full.
 * plan_put takes the batch after the last commit and replaces a plan of the same id,
 * which has no commit; its JSON names the bundle. The bundle is stored if its hash is
 * new, and dropped when no kept plan names it. calls_put replaces calls of its id. */
enum mt_status mt_store_plan_put(struct mt_store *store, int64_t id, const char *json,
                                 const char *bundle_hash, const char *bundle, size_t bundle_len,
                                 struct mt_error *err) MT_NODISCARD;
enum mt_status mt_store_calls_put(struct mt_store *store, int64_t id, const char *json,
                                  struct mt_error *err) MT_NODISCARD;
/* FATAL when plan `id` is not there or a commit `id` is. Trims to `keep`. */
enum mt_status mt_store_commit_put(struct mt_store *store, int64_t id, const char *json,
                                   struct mt_error *err) MT_NODISCARD;
/* The state of this store, borrowed. commit_put writes its changes in the same transaction. */
struct mt_state *mt_store_state(struct mt_store *store);
void mt_state_discard(struct mt_state *state); /* this batch's changes */
/* A consistent copy of the checkpoint as a folder's data file, also while its owner writes:
 * FILE must not exist; it is durable on return. */
enum mt_status mt_store_backup(const char *dir, const char *file,
                               struct mt_error *err) MT_NODISCARD;
enum mt_status mt_store_bundle_get(struct mt_store *store, const char *hash, struct mt_buf *value,
                                   bool *found, struct mt_error *err) MT_NODISCARD;

/* Before a plan: free disk and free map must exceed twice the bytes of the last
 * commit. Grows the map if that helps; FATAL MT_CLASS_MACHINE when the disk is short. */
enum mt_status mt_store_ensure_space(struct mt_store *store, struct mt_error *err) MT_NODISCARD;
/* {"bytes":…,"mapBytes":…,"owner":"…","running":true|false,…} for ckpt show; caller frees. */
char *mt_store_describe(struct mt_store *store);
/* Checks one value (hash, then rest) stored under key in database ("plans", ...): the
 * reader of outside bytes. NULL when damaged, else the rest and its length. */
const char *mt_store_unwrap(const char *database, const void *key, size_t key_len,
                            const void *bytes, size_t len, size_t *rest);
const char *mt_lmdb_version(void);
#endif
#endif
