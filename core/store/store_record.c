/* SPDX-License-Identifier: Apache-2.0
 *
 * store_record.c - plans, calls, commits and bundles.
 *
 * Each is one value under one key, and each write one transaction, because a batch is
 * recovered from which of them are there: a plan without its commit is a batch in
 * doubt. The order that makes this true (plan N after commit N-1, commit N after plan
 * N) is checked inside the write, so a bug of ours stops before it is durable. */
#include <endian.h>
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/store_int.h"

enum { READER_CHECK_EVERY = 100 };

/* ---- keys that are batch ids */

struct id_key {
    uint64_t bytes;
    MDB_val key;
};

/* In place, since key points into it. */
static const MDB_val *id_key(struct id_key *key, int64_t id)
{
    key->bytes = htobe64((uint64_t)id);
    key->key = (MDB_val){sizeof key->bytes, &key->bytes};
    return &key->key;
}

static int id_of(const MDB_val *key, int64_t *id)
{
    uint64_t bytes;
    if (key->mv_size != sizeof bytes)
        return MDB_CORRUPTED;
    memcpy(&bytes, key->mv_data, sizeof bytes);
    *id = (int64_t)be64toh(bytes);
    return 0;
}

static int last_id(struct store_env *env, MDB_txn *txn, int database, int64_t *id)
{
    MDB_cursor *cursor;
    MDB_val key, value;
    *id = -1;
    int code = mdb_cursor_open(txn, env->dbis[database], &cursor);
    if (code != 0)
        return code;
    code = mdb_cursor_get(cursor, &key, &value, MDB_LAST);
    if (code == 0)
        code = id_of(&key, id);
    mdb_cursor_close(cursor);
    return code == MDB_NOTFOUND ? 0 : code;
}

static int database_of(enum mt_record kind)
{
    return kind == MT_RECORD_PLAN    ? STORE_PLANS
           : kind == MT_RECORD_CALLS ? STORE_CALLS
                                     : STORE_COMMITS;
}

enum mt_status mt_store_get(struct mt_store *store, enum mt_record kind, int64_t id,
                            struct mt_buf *value, bool *found, struct mt_error *err)
{
    struct id_key key;
    struct store_get get = {database_of(kind), *id_key(&key, id), value, found};
    return mt_store_get_value(store, get, err);
}

enum mt_status mt_store_bundle_get(struct mt_store *store, const char *hash, struct mt_buf *value,
                                   bool *found, struct mt_error *err)
{
    struct store_get get = {STORE_BUNDLES, {strlen(hash), (void *)hash}, value, found};
    return mt_store_get_value(store, get, err);
}

/* ---- which batches are there */

struct ids {
    int64_t *items;
    size_t n;
};

static int ids_in(struct store_env *env, MDB_txn *txn, int database, struct ids *ids)
{
    MDB_cursor *cursor;
    MDB_val key, value;
    int code = mdb_cursor_open(txn, env->dbis[database], &cursor);
    if (code != 0)
        return code;
    for (MDB_cursor_op op = MDB_FIRST; (code = mdb_cursor_get(cursor, &key, &value, op)) == 0;
         op = MDB_NEXT) {
        ids->items = mt_realloc(ids->items, (ids->n + 1) * sizeof *ids->items);
        code = id_of(&key, &ids->items[ids->n++]);
        if (code != 0)
            break;
    }
    mdb_cursor_close(cursor);
    return code == MDB_NOTFOUND ? 0 : code;
}

struct entries {
    struct ids plans, calls, commits;
};

static int entries_in(struct store_env *env, MDB_txn *txn, void *ctx, struct mt_error *err)
{
    struct entries *entries = ctx;
    (void)err;
    int code = ids_in(env, txn, STORE_PLANS, &entries->plans);
    if (code == 0)
        code = ids_in(env, txn, STORE_CALLS, &entries->calls);
    return code ? code : ids_in(env, txn, STORE_COMMITS, &entries->commits);
}

/* "0-3, 5" */
static void add_ids(struct mt_buf *text, const char *what, const struct ids *ids)
{
    mt_buf_addf(text, "%s ", what);
    if (ids->n == 0)
        mt_buf_adds(text, "none");
    for (size_t i = 0, j; i < ids->n; i = j) {
        for (j = i + 1; j < ids->n && ids->items[j] == ids->items[j - 1] + 1;)
            j++;
        mt_buf_addf(text, "%s%" PRId64, i ? ", " : "", ids->items[i]);
        if (j > i + 1)
            mt_buf_addf(text, "-%" PRId64, ids->items[j - 1]);
    }
}

static int64_t last_of(const struct ids *ids)
{
    return ids->n ? ids->items[ids->n - 1] : -1;
}

static bool has_gap(const struct ids *ids)
{
    return ids->n && last_of(ids) - ids->items[0] != (int64_t)ids->n - 1;
}

static const char *misfit(const struct entries *entries)
{
    const struct ids *plans = &entries->plans, *calls = &entries->calls,
                     *commits = &entries->commits;
    if (has_gap(plans))
        return "a plan is missing";
    if (has_gap(commits))
        return "a commit is missing";
    if (commits->n &&
        (!plans->n || commits->items[0] < plans->items[0] || last_of(commits) > last_of(plans)))
        return "a commit has no plan";
    if (last_of(plans) - last_of(commits) > 1)
        return "more than one plan has no commit";
    if (commits->n && commits->items[0] > plans->items[0])
        return "an old plan has no commit";
    if (calls->n &&
        (!plans->n || calls->items[0] < plans->items[0] || last_of(calls) > last_of(plans)))
        return "calls have no plan";
    return NULL;
}

static enum mt_status fail_misfit(const char *dir, const char *what, const struct entries *entries,
                                  struct mt_error *err)
{
    struct mt_buf text = {0};
    add_ids(&text, "plans", &entries->plans);
    add_ids(&text, "; calls", &entries->calls);
    add_ids(&text, "; commits", &entries->commits);
    mt_fail(err, MT_FATAL, MT_CLASS_CHECKPOINT,
            "checkpoint %s: its records do not fit together: %s. It holds %s. Put back a copy: "
            "of the folder, or what `moontide ckpt backup` made as its data.mdb (one that is too "
            "old is noticed by the destination's own record of batches); or use a new checkpoint "
            "and a new path",
            dir, what, text.data);
    mt_buf_free(&text);
    return MT_FATAL;
}

enum mt_status mt_store_last(struct mt_store *store, int64_t *plan, int64_t *commit,
                             struct mt_error *err)
{
    struct entries entries = {0};
    *plan = *commit = -1;
    int code = mt_store_read(store->env, entries_in, &entries, err);
    enum mt_status status = mt_store_fail(store->dir, code, "reading its records", err);
    const char *what = status == MT_OK ? misfit(&entries) : NULL;
    if (what)
        status = fail_misfit(store->dir, what, &entries, err);
    if (status == MT_OK) {
        *plan = last_of(&entries.plans);
        *commit = last_of(&entries.commits);
    }
    free(entries.plans.items), free(entries.calls.items), free(entries.commits.items);
    return status;
}

/* ---- bundles: kept while a plan names them */

/* Whether a plan names this bundle, without reading its JSON, which would take longer than writing
 * it: plans have no blanks, and a quote inside a text of theirs is escaped. False: perhaps. */
static bool surely_names(const char *json, size_t len, const char *hash)
{
    char member[80];
    int n = snprintf(member, sizeof member, "\"bundle\":\"%s\"", hash);
    return hash[0] && memmem(json, len, member, (size_t)n) != NULL;
}

/* The "bundle" of a plan's JSON into out (cap 65); "" when it has none. */
static void bundle_of(const char *json, size_t len, char out[65])
{
    json_t *plan = json_loadb(json, len, 0, NULL);
    const char *hash = json_string_value(json_object_get(plan, "bundle"));
    snprintf(out, 65, "%s", hash ? hash : "");
    json_decref(plan);
}

/* Newest first: that is nearly always the one. */
static int is_named(struct store_env *env, MDB_txn *txn, const char *hash, bool *named,
                    struct mt_error *err)
{
    MDB_cursor *cursor;
    MDB_val key, value;
    *named = false;
    int code = mdb_cursor_open(txn, env->dbis[STORE_PLANS], &cursor);
    if (code != 0)
        return code;
    for (MDB_cursor_op op = MDB_LAST;
         !*named && (code = mdb_cursor_get(cursor, &key, &value, op)) == 0; op = MDB_PREV) {
        char other[65];
        code = mt_store_value_get(env, txn, STORE_PLANS, &key, &value, err);
        if (code != 0)
            break;
        bundle_of(value.mv_data, value.mv_size, other);
        *named = strcmp(other, hash) == 0;
    }
    mdb_cursor_close(cursor);
    return code == MDB_NOTFOUND ? 0 : code;
}

static int drop_unnamed(struct store_env *env, MDB_txn *txn, const char *hash, struct mt_error *err)
{
    bool named;
    MDB_val key = {strlen(hash), (void *)hash};
    if (!hash[0])
        return 0;
    int code = is_named(env, txn, hash, &named, err);
    if (code == 0 && !named)
        code = mdb_del(txn, env->dbis[STORE_BUNDLES], &key, NULL);
    return code == MDB_NOTFOUND ? 0 : code;
}

static int put_bundle(struct store_env *env, MDB_txn *txn, const char *hash, const char *bundle,
                      size_t len)
{
    MDB_val key = {strlen(hash), (void *)hash}, value;
    int code = mdb_get(txn, env->dbis[STORE_BUNDLES], &key, &value);
    if (code == MDB_NOTFOUND)
        code = mt_store_value_put(env, txn, STORE_BUNDLES, &key, bundle, len);
    return code;
}

/* ---- plan, calls, commit */

struct put {
    struct mt_store *store;
    int64_t id;
    const char *json, *hash, *bundle;
    size_t bundle_len;
    int64_t state_bytes; /* a commit's answer */
};

/* Our own bug, stopped before it is durable. */
static int out_of_order(const struct put *put, const char *what, int64_t plan, int64_t commit,
                        struct mt_error *err)
{
    mt_fail(err, MT_FATAL, MT_CLASS_INTERNAL,
            "checkpoint %s: %s %" PRId64 " cannot be stored: the last plan is %" PRId64
            " and the last commit %" PRId64 " (-1: none). Nothing was changed; this is a bug of "
            "Moontide, please report it",
            put->store->dir, what, put->id, plan, commit);
    return STORE_REFUSED;
}

static int last_ids(struct store_env *env, MDB_txn *txn, int64_t *plan, int64_t *commit)
{
    int code = last_id(env, txn, STORE_PLANS, plan);
    return code ? code : last_id(env, txn, STORE_COMMITS, commit);
}

static int put_plan_in(struct store_env *env, MDB_txn *txn, void *ctx, struct mt_error *err)
{
    const struct put *put = ctx;
    struct id_key key;
    MDB_val old;
    int64_t plan, commit;
    char replaced[65] = "";
    int code = last_ids(env, txn, &plan, &commit);
    if (code != 0)
        return code;
    if (put->id != commit + 1)
        return out_of_order(put, "plan", plan, commit, err);
    code = mt_store_value_get(env, txn, STORE_PLANS, id_key(&key, put->id), &old, err);
    if (code == 0)
        bundle_of(old.mv_data, old.mv_size, replaced);
    else if (code != MDB_NOTFOUND)
        return code;
    code = mt_store_value_put(env, txn, STORE_PLANS, &key.key, put->json, strlen(put->json));
    if (code == 0)
        code = put_bundle(env, txn, put->hash, put->bundle, put->bundle_len);
    return code ? code : drop_unnamed(env, txn, replaced, err);
}

static int put_calls_in(struct store_env *env, MDB_txn *txn, void *ctx, struct mt_error *err)
{
    const struct put *put = ctx;
    struct id_key key;
    int64_t plan, commit;
    int code = last_ids(env, txn, &plan, &commit);
    if (code != 0)
        return code;
    if (put->id != plan || put->id != commit + 1)
        return out_of_order(put, "calls", plan, commit, err);
    return mt_store_value_put(env, txn, STORE_CALLS, id_key(&key, put->id), put->json,
                              strlen(put->json));
}

/* Deletes ids up to `last`, lowest first. The bundle of each deleted plan goes if it
 * has become unnamed; `newest` is that of a plan that stays, or "". */
static int trim(struct store_env *env, MDB_txn *txn, int database, int64_t last, const char *newest,
                struct mt_error *err)
{
    for (;;) {
        MDB_cursor *cursor;
        MDB_val key, value;
        int64_t id = INT64_MAX;
        char bundle[65] = "";
        int code = mdb_cursor_open(txn, env->dbis[database], &cursor);
        if (code != 0)
            return code;
        code = mdb_cursor_get(cursor, &key, &value, MDB_FIRST);
        if (code == 0)
            code = id_of(&key, &id);
        if (code == 0 && id <= last && database == STORE_PLANS) {
            code = mt_store_value_get(env, txn, STORE_PLANS, &key, &value, err);
            if (code == 0 && !surely_names(value.mv_data, value.mv_size, newest))
                bundle_of(value.mv_data, value.mv_size, bundle);
        }
        if (code == 0 && id <= last)
            code = mdb_cursor_del(cursor, 0);
        mdb_cursor_close(cursor);
        if (code == 0)
            code = drop_unnamed(env, txn, bundle, err);
        if (code != 0 || id > last)
            return code == MDB_NOTFOUND ? 0 : code;
    }
}

static int put_commit_in(struct store_env *env, MDB_txn *txn, void *ctx, struct mt_error *err)
{
    struct put *put = ctx;
    struct id_key key;
    MDB_stat stat;
    int64_t plan, commit, last = put->id - put->store->keep;
    int code = last_ids(env, txn, &plan, &commit);
    if (code == 0)
        code = mdb_stat(txn, env->dbis[STORE_STATE], &stat);
    if (code != 0)
        return code;
    if (put->id != plan || put->id != commit + 1)
        return out_of_order(put, "commit", plan, commit, err);
    put->state_bytes = mt_store_state_bytes(put->store->state, &stat);
    code = mt_store_value_put(env, txn, STORE_COMMITS, id_key(&key, put->id), put->json,
                              strlen(put->json));
    if (code == 0)
        code = mt_store_state_write(put->store->state, txn);
    if (code == 0)
        code = trim(env, txn, STORE_COMMITS, last, "", err);
    if (code == 0)
        code = trim(env, txn, STORE_CALLS, last, "", err);
    return code ? code : trim(env, txn, STORE_PLANS, last, put->store->bundle, err);
}

enum mt_status mt_store_plan_put(struct mt_store *store, int64_t id, const char *json,
                                 const char *bundle_hash, const char *bundle, size_t bundle_len,
                                 struct mt_error *err)
{
    struct put put = {store, id, json, bundle_hash, bundle, bundle_len, 0};
    char named[65];
    snprintf(named, sizeof named, "%s", bundle_hash);
    if (!surely_names(json, strlen(json), bundle_hash))
        bundle_of(json, strlen(json), named);
    if (strcmp(named, bundle_hash) != 0 || !named[0])
        return mt_fail(err, MT_FATAL, MT_CLASS_INTERNAL,
                       "checkpoint %s: plan %" PRId64 " names bundle \"%s\" and comes with \"%s\"",
                       store->dir, id, named, bundle_hash);
    mt_store_state_rest(store->state);
    int code = mt_store_write(store->env, "store.plan", id, put_plan_in, &put, err);
    if (code == 0) {
        store->batch_bytes += (int64_t)(strlen(json) + bundle_len);
        memcpy(store->bundle, named, sizeof store->bundle);
    }
    return mt_store_fail(store->dir, code, "writing a plan", err);
}

enum mt_status mt_store_calls_put(struct mt_store *store, int64_t id, const char *json,
                                  struct mt_error *err)
{
    struct put put = {.store = store, .id = id, .json = json};
    mt_store_state_rest(store->state);
    int code = mt_store_write(store->env, "store.calls", id, put_calls_in, &put, err);
    if (code == 0)
        store->batch_bytes += (int64_t)strlen(json);
    return mt_store_fail(store->dir, code, "writing calls", err);
}

enum mt_status mt_store_commit_put(struct mt_store *store, int64_t id, const char *json,
                                   struct mt_error *err)
{
    struct put put = {.store = store, .id = id, .json = json};
    mt_store_state_ready(store->state);
    int code = mt_store_write(store->env, "store.commit", id, put_commit_in, &put, err);
    if (code != 0)
        return mt_store_fail(store->dir, code, "committing a batch", err);
    mt_state_discard(store->state); /* it is the last commit's now */
    store->last_batch_bytes = store->batch_bytes + (int64_t)strlen(json) + put.state_bytes;
    store->batch_bytes = 0;
    if (++store->commits % READER_CHECK_EVERY == 0)
        mt_store_drop_dead_readers(store->env);
    return MT_OK;
}
