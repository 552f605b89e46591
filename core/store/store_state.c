/* SPDX-License-Identifier: Apache-2.0
 *
 * store_state.c - keyed state: what the last commit holds, and this batch's changes over it.
 *
 * Changes stay in memory until the batch's commit, because a batch that fails must leave nothing
 * and a write transaction may not be open while a script runs. So memory is bounded by what one
 * batch changes, not by what the state holds: reads are never kept. At the commit the changes go
 * into LMDB in the order of their keys, by plain puts: neighbours land in one page, which is copied
 * once.
 *
 *   slots    hash of the key -> entry                 get, put, delete
 *   entries  in the order in which keys were changed
 *   order    the first n_ordered entries by key       next, commit
 *
 * A walk sees changes that are made on the way, and most walks change what they see. Entries behind
 * n_ordered are looked through one by one until there are TAIL of them, then sorted in: that is
 * cheap where nobody walks, and where every step adds a key.
 *
 * Between commits nobody else writes, so one read transaction serves all reads of a batch. It is
 * given up before every write of this store, which may have to grow the map.
 *
 * How many keys there are is LMDB's own count of the tree's entries, which it keeps within each
 * transaction, and which opening compares with the pages. */
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "store/store_int.h"

enum { FIRST_SLOTS = 64, TAIL = 256 };
#define VALUE_MAX ((size_t)1 << 30)

struct entry {
    char *bytes; /* the key, then the value */
    uint32_t key_len;
    bool deleted;
    bool counted; /* in mt_state.more */
    size_t len, cap;
};

struct mt_state {
    struct mt_store *store;
    struct entry *entries;
    size_t n, cap;
    uint32_t *slots; /* index of an entry + 1, or 0 */
    size_t n_slots;  /* a power of two */
    uint32_t *order;
    size_t n_ordered;
    size_t n_counted; /* entries before it are */
    int64_t more;     /* keys that these add to the last commit's */
    struct mt_buf key, value;
    MDB_txn *txn; /* snapshot of the last commit, or NULL */
    MDB_cursor *cursor;
};

struct mt_state *mt_store_state_new(struct mt_store *store)
{
    struct mt_state *state = mt_alloc(sizeof *state);
    state->store = store;
    return state;
}

/* ---- the last commit */

void mt_store_state_rest(struct mt_state *state)
{
    if (!state->txn)
        return;
    mdb_cursor_close(state->cursor);
    mdb_txn_abort(state->txn);
    state->txn = NULL;
    pthread_rwlock_unlock(&state->store->env->lock);
}

static enum mt_status fail_reading(const struct mt_state *state, int code, struct mt_error *err)
{
    return mt_store_fail(state->store->dir, code, "reading the state", err);
}

static enum mt_status look_in(struct mt_state *state, struct mt_error *err)
{
    struct store_env *env = state->store->env;
    if (state->txn)
        return MT_OK;
    pthread_rwlock_rdlock(&env->lock);
    int code = mdb_txn_begin(env->lmdb, NULL, MDB_RDONLY, &state->txn);
    if (code == 0) {
        code = mdb_cursor_open(state->txn, env->dbis[STORE_STATE], &state->cursor);
        if (code != 0)
            mdb_txn_abort(state->txn);
    }
    if (code != 0) {
        state->txn = NULL;
        pthread_rwlock_unlock(&env->lock);
    }
    return fail_reading(state, code, err);
}

/* *value: points into the map; mv_data NULL: there is none. */
static enum mt_status get_stored(struct mt_state *state, const char *key, size_t key_len,
                                 MDB_val *value, struct mt_error *err)
{
    MDB_val wanted = {key_len, (void *)key};
    *value = (MDB_val){0};
    enum mt_status status = look_in(state, err);
    if (status != MT_OK)
        return status;
    int code = mt_store_value_get(state->store->env, state->txn, STORE_STATE, &wanted, value, err);
    if (code == MDB_NOTFOUND)
        *value = (MDB_val){0};
    return fail_reading(state, code == MDB_NOTFOUND ? 0 : code, err);
}

/* ---- this batch's changes */

static int compare(const char *a, size_t a_len, const char *b, size_t b_len)
{
    int order = memcmp(a, b, a_len < b_len ? a_len : b_len);
    return order ? order : (a_len > b_len) - (a_len < b_len);
}

static uint32_t *slot_of(const struct mt_state *state, const char *key, size_t key_len)
{
    size_t at = XXH3_64bits(key, key_len) & (state->n_slots - 1);
    for (;; at = (at + 1) & (state->n_slots - 1)) {
        uint32_t *slot = &state->slots[at];
        const struct entry *entry = *slot ? &state->entries[*slot - 1] : NULL;
        if (!entry || (entry->key_len == key_len && memcmp(entry->bytes, key, key_len) == 0))
            return slot;
    }
}

static struct entry *find(const struct mt_state *state, const char *key, size_t key_len)
{
    uint32_t *slot = state->n_slots ? slot_of(state, key, key_len) : NULL;
    return slot && *slot ? &state->entries[*slot - 1] : NULL;
}

static void grow_slots(struct mt_state *state)
{
    state->n_slots = state->n_slots ? state->n_slots * 2 : FIRST_SLOTS;
    free(state->slots);
    state->slots = mt_alloc(state->n_slots * sizeof *state->slots);
    for (size_t i = 0; i < state->n; i++)
        *slot_of(state, state->entries[i].bytes, state->entries[i].key_len) = (uint32_t)i + 1;
}

static struct entry *find_or_add(struct mt_state *state, const char *key, size_t key_len)
{
    struct entry *entry = find(state, key, key_len);
    if (entry)
        return entry;
    if (state->n == state->cap) {
        state->cap = state->cap ? state->cap * 2 : FIRST_SLOTS / 2;
        state->entries = mt_realloc(state->entries, state->cap * sizeof *state->entries);
    }
    if (2 * state->n >= state->n_slots)
        grow_slots(state);
    entry = &state->entries[state->n++];
    *entry =
        (struct entry){.bytes = mt_alloc(key_len), .key_len = (uint32_t)key_len, .deleted = true};
    memcpy(entry->bytes, key, key_len);
    *slot_of(state, key, key_len) = (uint32_t)state->n;
    return entry;
}

static void set_value(struct entry *entry, const void *value, size_t len)
{
    if (len > entry->cap) {
        entry->cap = len;
        entry->bytes = mt_realloc(entry->bytes, entry->key_len + len);
    }
    if (len)
        memcpy(entry->bytes + entry->key_len, value, len);
    entry->len = len;
}

static void set_deleted(struct mt_state *state, struct entry *entry, bool deleted)
{
    if (entry->counted)
        state->more += (int64_t)entry->deleted - (int64_t)deleted;
    entry->deleted = deleted;
}

void mt_state_discard(struct mt_state *state)
{
    mt_store_state_rest(state);
    for (size_t i = 0; i < state->n; i++)
        free(state->entries[i].bytes);
    free(state->entries), free(state->slots), free(state->order);
    mt_buf_free(&state->key), mt_buf_free(&state->value);
    *state = (struct mt_state){.store = state->store};
}

void mt_store_state_free(struct mt_state *state)
{
    if (!state)
        return;
    mt_state_discard(state);
    free(state);
}

/* ---- order */

static int by_key(const void *a, const void *b, void *ctx)
{
    const struct mt_state *state = ctx;
    const struct entry *x = &state->entries[*(const uint32_t *)a];
    const struct entry *y = &state->entries[*(const uint32_t *)b];
    return compare(x->bytes, x->key_len, y->bytes, y->key_len);
}

/* Sorts what came since, and merges it with what is in order. */
static void put_in_order(struct mt_state *state)
{
    size_t old = state->n_ordered, i = 0, j = old;
    uint32_t *all = mt_alloc((state->n + 1) * sizeof *all);
    uint32_t *tail = mt_alloc((state->n - old + 1) * sizeof *tail);
    for (size_t k = old; k < state->n; k++)
        tail[k - old] = (uint32_t)k;
    qsort_r(tail, state->n - old, sizeof *tail, by_key, state);
    for (size_t k = 0; k < state->n; k++)
        if (j == state->n || (i < old && by_key(&state->order[i], &tail[j - old], state) < 0))
            all[k] = state->order[i++];
        else
            all[k] = tail[j++ - old];
    free(tail), free(state->order);
    state->order = all;
    state->n_ordered = state->n;
}

/* Where a walk goes on: at keys above this one, or from it on. */
struct bound {
    const char *key;
    size_t len;
    bool from;
};

static bool is_behind(const struct bound *bound, const char *key, size_t key_len)
{
    int order = compare(key, key_len, bound->key, bound->len);
    return order > 0 || (order == 0 && bound->from);
}

static bool is_entry_behind(const struct bound *bound, const struct entry *entry)
{
    return is_behind(bound, entry->bytes, entry->key_len);
}

/* The first changed key behind bound, deleted ones too; NULL: none. */
static const struct entry *next_changed(struct mt_state *state, const struct bound *bound)
{
    if (state->n - state->n_ordered >= TAIL)
        put_in_order(state);
    size_t low = 0, high = state->n_ordered;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (is_entry_behind(bound, &state->entries[state->order[middle]]))
            high = middle;
        else
            low = middle + 1;
    }
    const struct entry *best = low < state->n_ordered ? &state->entries[state->order[low]] : NULL;
    for (size_t i = state->n_ordered; i < state->n; i++) {
        const struct entry *entry = &state->entries[i];
        if (is_entry_behind(bound, entry) &&
            (!best || compare(entry->bytes, entry->key_len, best->bytes, best->key_len) < 0))
            best = entry;
    }
    return best;
}

/* Moves the cursor to the first key of the last commit behind bound; key->mv_data NULL: none. A
 * cursor that stands at the bound goes one on, which is what nearly every step of a walk needs. */
static enum mt_status next_stored(struct mt_state *state, const struct bound *bound, MDB_val *key,
                                  struct mt_error *err)
{
    MDB_val value;
    enum mt_status status = look_in(state, err);
    if (status != MT_OK)
        return status;
    bool there = mdb_cursor_get(state->cursor, key, &value, MDB_GET_CURRENT) == 0 &&
                 compare(key->mv_data, key->mv_size, bound->key, bound->len) == 0;
    int code = 0;
    if (!there) {
        *key = (MDB_val){bound->len, (void *)bound->key};
        code = bound->len ? mdb_cursor_get(state->cursor, key, &value, MDB_SET_RANGE)
                          : mdb_cursor_get(state->cursor, key, &value, MDB_FIRST);
    }
    if (code == 0 && !is_behind(bound, key->mv_data, key->mv_size))
        code = mdb_cursor_get(state->cursor, key, &value, MDB_NEXT);
    if (code == MDB_NOTFOUND)
        *key = (MDB_val){0};
    return fail_reading(state, code == MDB_NOTFOUND ? 0 : code, err);
}

static enum mt_status value_at_cursor(struct mt_state *state, MDB_val *value, struct mt_error *err)
{
    MDB_val key;
    int code = mdb_cursor_get(state->cursor, &key, value, MDB_GET_CURRENT);
    if (code == 0)
        code = mt_store_value_check(state->store->env, STORE_STATE, &key, value, err);
    return fail_reading(state, code, err);
}

/* ---- the face */

static enum mt_status check_key(size_t key_len, struct mt_error *err)
{
    if (key_len >= 1 && key_len <= MT_STATE_KEY_MAX)
        return MT_OK;
    return mt_fail(err, MT_REJECT, MT_CLASS_SCRIPT, "state: a key has 1 to %d bytes, this has %zu",
                   MT_STATE_KEY_MAX, key_len);
}

/* Hands bytes out that would move with the next change of the map. */
static const void *lend(struct mt_buf *buf, const void *bytes, size_t len)
{
    buf->len = 0;
    mt_buf_add(buf, bytes, len);
    return buf->data;
}

enum mt_status mt_state_get(struct mt_state *state, const void *key, size_t key_len,
                            const void **value, size_t *len, struct mt_error *err)
{
    *value = NULL;
    *len = 0;
    enum mt_status status = check_key(key_len, err);
    if (status != MT_OK)
        return status;
    const struct entry *entry = find(state, key, key_len);
    MDB_val stored = {0};
    if (!entry)
        status = get_stored(state, key, key_len, &stored, err);
    else if (!entry->deleted)
        stored = (MDB_val){entry->len, entry->bytes + entry->key_len};
    if (status == MT_OK && stored.mv_data) {
        *value = lend(&state->value, stored.mv_data, stored.mv_size);
        *len = stored.mv_size;
    }
    return status;
}

enum mt_status mt_state_put(struct mt_state *state, const void *key, size_t key_len,
                            const void *value, size_t len, struct mt_error *err)
{
    enum mt_status status = check_key(key_len, err);
    if (status != MT_OK)
        return status;
    if (len > VALUE_MAX)
        return mt_fail(err, MT_REJECT, MT_CLASS_SCRIPT,
                       "state: a value has at most %zu bytes, this has %zu", VALUE_MAX, len);
    struct entry *entry = find_or_add(state, key, key_len);
    set_value(entry, value, len);
    set_deleted(state, entry, false);
    return MT_OK;
}

enum mt_status mt_state_delete(struct mt_state *state, const void *key, size_t key_len,
                               struct mt_error *err)
{
    enum mt_status status = check_key(key_len, err);
    if (status != MT_OK)
        return status;
    struct entry *entry = find_or_add(state, key, key_len);
    set_value(entry, NULL, 0);
    set_deleted(state, entry, true);
    return MT_OK;
}

/* The next key that is there. Sets *key, *value to bytes of the map or of an entry. */
static enum mt_status step(struct mt_state *state, struct bound bound, MDB_val *key, MDB_val *value,
                           struct mt_error *err)
{
    for (;;) {
        const struct entry *changed = next_changed(state, &bound);
        enum mt_status status = next_stored(state, &bound, key, err);
        if (status != MT_OK || (!changed && !key->mv_data))
            return status;
        int order = !changed ? 1
                    : key->mv_data
                        ? compare(changed->bytes, changed->key_len, key->mv_data, key->mv_size)
                        : -1;
        if (order > 0)
            return value_at_cursor(state, value, err);
        *key = (MDB_val){changed->key_len, changed->bytes};
        *value = (MDB_val){changed->len, changed->bytes + changed->key_len};
        if (!changed->deleted)
            return MT_OK;
        bound = (struct bound){changed->bytes, changed->key_len, false};
    }
}

enum mt_status mt_state_next(struct mt_state *state, const void *prefix, size_t prefix_len,
                             const void *after, size_t after_len, const void **key, size_t *key_len,
                             const void **value, size_t *len, struct mt_error *err)
{
    struct bound bound = {prefix_len ? prefix : "", prefix_len, true};
    MDB_val found = {0}, stored = {0};
    *key = *value = NULL;
    *key_len = *len = 0;
    if (after && compare(after, after_len, bound.key, bound.len) >= 0)
        bound = (struct bound){after, after_len, false};
    enum mt_status status = step(state, bound, &found, &stored, err);
    bool inside = found.mv_data && found.mv_size >= prefix_len &&
                  (!prefix_len || memcmp(found.mv_data, prefix, prefix_len) == 0);
    if (status != MT_OK || !inside)
        return status;
    *key_len = found.mv_size;
    *len = stored.mv_size;
    *value = lend(&state->value, stored.mv_data, stored.mv_size);
    *key = lend(&state->key, found.mv_data, found.mv_size);
    return MT_OK;
}

static enum mt_status count_stored(struct mt_state *state, int64_t *n, struct mt_error *err)
{
    MDB_stat stat = {0};
    enum mt_status status = look_in(state, err);
    if (status != MT_OK)
        return status;
    int code = mdb_stat(state->txn, state->store->env->dbis[STORE_STATE], &stat);
    *n = (int64_t)stat.ms_entries;
    return fail_reading(state, code, err);
}

/* Which changed keys are new is looked up once each, and only where somebody counts. */
static enum mt_status count(struct mt_state *state, int64_t *n, struct mt_error *err)
{
    enum mt_status status = count_stored(state, n, err);
    for (; status == MT_OK && state->n_counted < state->n; state->n_counted++) {
        struct entry *entry = &state->entries[state->n_counted];
        MDB_val stored;
        status = get_stored(state, entry->bytes, entry->key_len, &stored, err);
        if (status != MT_OK)
            return status;
        entry->counted = true;
        state->more += (int64_t)!entry->deleted - (stored.mv_data != NULL);
    }
    *n += state->more;
    return status;
}

int64_t mt_state_count(struct mt_state *state)
{
    struct mt_error err;
    int64_t n;
    if (count(state, &n, &err) == MT_OK)
        return n;
    mt_log(MT_ERROR, "%s", err.text);
    return -1;
}

/* ---- commit */

int mt_store_state_write(struct mt_state *state, MDB_txn *txn)
{
    struct store_env *env = state->store->env;
    int code = 0;
    for (size_t i = 0; i < state->n_ordered && code == 0; i++) {
        const struct entry *entry = &state->entries[state->order[i]];
        MDB_val key = {entry->key_len, entry->bytes};
        if (!entry->deleted)
            code = mt_store_value_put(env, txn, STORE_STATE, &key, entry->bytes + entry->key_len,
                                      entry->len);
        else if ((code = mdb_del(txn, env->dbis[STORE_STATE], &key, NULL)) == MDB_NOTFOUND)
            code = 0;
    }
    return code;
}

void mt_store_state_ready(struct mt_state *state)
{
    mt_store_state_rest(state);
    if (state->n_ordered < state->n)
        put_in_order(state);
}

/* LMDB copies each page that it changes and those above it, so keys that lie apart cost a page
 * each, but never more than there are. */
int64_t mt_store_state_bytes(const struct mt_state *state, const MDB_stat *stat)
{
    size_t pages = state->n, all = stat->ms_leaf_pages + stat->ms_branch_pages, bytes = 0;
    for (size_t i = 0; i < state->n; i++)
        bytes += state->entries[i].key_len + state->entries[i].len;
    return (int64_t)(bytes + (pages < all ? pages : all) * stat->ms_psize);
}
