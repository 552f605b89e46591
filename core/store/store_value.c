/* SPDX-License-Identifier: Apache-2.0
 *
 * store_value.c - values as LMDB holds them, and the text facts, which are no more than that.
 *
 * A value carries a hash over its database, its key and itself. LMDB has no checksum,
 * and a record that is whole but under another's key is as wrong as a torn one. */
#include <string.h>
#include <xxhash.h>

#include "store/store_int.h"

enum { HASH_BYTES = 8, META_KEY_MOST = 500 };

/* ---- values */

uint64_t mt_store_hash(const char *database, const void *key, size_t key_len, const void *rest,
                       size_t len)
{
    uint64_t seed = XXH3_64bits(database, strlen(database));
    seed = XXH3_64bits_withSeed(key, key_len, seed);
    return XXH3_64bits_withSeed(rest, len, seed);
}

const char *mt_store_unwrap(const char *database, const void *key, size_t key_len,
                            const void *bytes, size_t len, size_t *rest)
{
    uint64_t stored;
    if (len < HASH_BYTES)
        return NULL;
    const char *value = (const char *)bytes + HASH_BYTES;
    *rest = len - HASH_BYTES;
    memcpy(&stored, bytes, sizeof stored);
    return stored == mt_store_hash(database, key, key_len, value, *rest) ? value : NULL;
}

int mt_store_value_check(struct store_env *env, int database, const MDB_val *key, MDB_val *value,
                         struct mt_error *err)
{
    const char *name = mt_store_names[database];
    value->mv_data = (void *)mt_store_unwrap(name, key->mv_data, key->mv_size, value->mv_data,
                                             value->mv_size, &value->mv_size);
    if (value->mv_data)
        return 0;
    mt_store_damaged(env->dir, err, "a record of \"%s\" does not match its hash", name);
    return STORE_REFUSED;
}

int mt_store_value_get(struct store_env *env, MDB_txn *txn, int database, const MDB_val *key,
                       MDB_val *rest, struct mt_error *err)
{
    int code = mdb_get(txn, env->dbis[database], (MDB_val *)key, rest);
    return code ? code : mt_store_value_check(env, database, key, rest, err);
}

int mt_store_value_put(struct store_env *env, MDB_txn *txn, int database, const MDB_val *key,
                       const char *rest, size_t len)
{
    MDB_val stored = {.mv_size = HASH_BYTES + len};
    uint64_t hash = mt_store_hash(mt_store_names[database], key->mv_data, key->mv_size, rest, len);
    int code = mdb_put(txn, env->dbis[database], (MDB_val *)key, &stored, MDB_RESERVE);
    if (code != 0)
        return code;
    memcpy(stored.mv_data, &hash, HASH_BYTES);
    memcpy((char *)stored.mv_data + HASH_BYTES, rest, len);
    return 0;
}

static int get_in(struct store_env *env, MDB_txn *txn, void *ctx, struct mt_error *err)
{
    struct store_get *get = ctx;
    MDB_val rest;
    int code = mt_store_value_get(env, txn, get->database, &get->key, &rest, err);
    *get->found = code == 0;
    if (code == 0)
        mt_buf_add(get->value, rest.mv_data, rest.mv_size);
    return code == MDB_NOTFOUND ? 0 : code;
}

enum mt_status mt_store_get_value(struct mt_store *store, struct store_get get,
                                  struct mt_error *err)
{
    *get.found = false;
    return mt_store_fail(store->dir, mt_store_read(store->env, get_in, &get, err),
                         "reading a record", err);
}

/* ---- text facts */

struct put_text {
    MDB_val key;
    const char *value;
};

static int put_text_in(struct store_env *env, MDB_txn *txn, void *ctx, struct mt_error *err)
{
    const struct put_text *put = ctx;
    (void)err;
    return mt_store_value_put(env, txn, STORE_META, &put->key, put->value, strlen(put->value));
}

enum mt_status mt_store_meta_put(struct mt_store *store, const char *key, const char *value,
                                 struct mt_error *err)
{
    struct put_text put = {{strlen(key), (void *)key}, value};
    if (put.key.mv_size < 1 || put.key.mv_size > META_KEY_MOST)
        return mt_fail(err, MT_FATAL, MT_CLASS_INTERNAL,
                       "checkpoint %s: the key of a fact has %zu bytes; 1 to %d are possible",
                       store->dir, put.key.mv_size, META_KEY_MOST);
    mt_store_state_rest(store->state);
    int code = mt_store_write(store->env, "store.meta", -1, put_text_in, &put, err);
    return mt_store_fail(store->dir, code, "writing a fact", err);
}

enum mt_status mt_store_meta_get(struct mt_store *store, const char *key, struct mt_buf *value,
                                 bool *found, struct mt_error *err)
{
    struct store_get get = {STORE_META, {strlen(key), (void *)key}, value, found};
    return mt_store_get_value(store, get, err);
}
