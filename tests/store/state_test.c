/* SPDX-License-Identifier: Apache-2.0
 *
 * state_test.c - keyed state: changes are seen at once, last when their batch is committed, and
 * are gone with a batch that fails. */
#include "store_util.h"

#include <signal.h>
#include <sys/resource.h>

#include "store/store_int.h"

/* A new checkpoint in its first batch. */
static struct mt_store *open_batch(void)
{
    struct mt_store *store = open_store();
    expect_ok(put_plan(store, 0, HASH_A, "script"));
    return store;
}

static void put(struct mt_store *store, const char *key, const char *value)
{
    expect_ok(mt_state_put(mt_store_state(store), key, strlen(key), value, strlen(value), &err));
}

static void del(struct mt_store *store, const char *key)
{
    expect_ok(mt_state_delete(mt_store_state(store), key, strlen(key), &err));
}

static void expect(struct mt_store *store, const char *key, const char *wanted)
{
    const void *value;
    size_t len;
    expect_ok(mt_state_get(mt_store_state(store), key, strlen(key), &value, &len, &err));
    if (!wanted) {
        assert_null(value);
        return;
    }
    assert_non_null(value);
    assert_int_equal(len, strlen(wanted));
    assert_memory_equal(value, wanted, len);
}

/* "a=1 b=2 ": what a walk over prefix gives. */
static char *walk(struct mt_store *store, const char *prefix)
{
    struct mt_buf text = {0};
    const void *key = NULL, *value;
    size_t key_len = 0, len;
    mt_buf_adds(&text, "");
    for (;;) {
        expect_ok(mt_state_next(mt_store_state(store), prefix, strlen(prefix), key, key_len, &key,
                                &key_len, &value, &len, &err));
        if (!key)
            return text.data;
        mt_buf_addf(&text, "%.*s=%.*s ", (int)key_len, (const char *)key, (int)len,
                    (const char *)value);
    }
}

static void expect_walk(struct mt_store *store, const char *prefix, const char *wanted)
{
    char *text = walk(store, prefix);
    assert_string_equal(text, wanted);
    free(text);
}

static int64_t count(struct mt_store *store)
{
    return mt_state_count(mt_store_state(store));
}

static void what_is_put_is_seen_at_once_and_lasts_when_committed(void **unused)
{
    (void)unused;
    struct mt_store *store = open_batch();
    put(store, "b", "2");
    put(store, "a", "1");
    put(store, "a", "one");
    put(store, "empty", "");
    put(store, "gone", "x");
    del(store, "gone");
    del(store, "never there");
    expect(store, "a", "one");
    expect(store, "empty", "");
    expect(store, "gone", NULL);
    assert_int_equal(count(store), 3);
    expect_ok(put_commit(store, 0));
    expect(store, "a", "one");
    mt_store_close(store);
    store = open_store();
    assert_int_equal(count(store), 3);
    expect_walk(store, "", "a=one b=2 empty= ");
    mt_store_close(store);
}

static void what_is_discarded_was_never_there(void **unused)
{
    (void)unused;
    struct mt_store *store = open_batch();
    put(store, "a", "1");
    put(store, "b", "2");
    expect_ok(put_commit(store, 0));
    put(store, "a", "changed");
    put(store, "c", "new");
    del(store, "b");
    assert_int_equal(count(store), 2);
    expect_walk(store, "", "a=changed c=new ");
    mt_state_discard(mt_store_state(store));
    assert_int_equal(count(store), 2);
    expect_walk(store, "", "a=1 b=2 ");
    run_batch(store, 1);
    expect_walk(store, "", "a=1 b=2 ");
    mt_store_close(store);
}

static void a_walk_keeps_to_its_prefix_and_sees_changes_on_the_way(void **unused)
{
    (void)unused;
    struct mt_store *store = open_batch();
    put(store, "user/1", "a");
    put(store, "user/3", "c");
    put(store, "z", "z");
    put(store, "usa", "x");
    expect_ok(put_commit(store, 0));
    put(store, "user/2", "b");
    put(store, "user/4", "d");
    expect_walk(store, "user/", "user/1=a user/2=b user/3=c user/4=d ");
    expect_walk(store, "user/9", "");
    const void *key = NULL, *value;
    size_t key_len = 0, len;
    struct mt_state *state = mt_store_state(store);
    expect_ok(mt_state_next(state, "user/", 5, key, key_len, &key, &key_len, &value, &len, &err));
    assert_memory_equal(key, "user/1", 6);
    del(store, "user/1");
    del(store, "user/2");
    put(store, "user/3", "new");
    put(store, "user/2b", "between");
    expect_ok(mt_state_next(state, "user/", 5, "user/1", 6, &key, &key_len, &value, &len, &err));
    assert_memory_equal(key, "user/2b", key_len);
    expect_walk(store, "user/", "user/2b=between user/3=new user/4=d ");
    mt_store_close(store);
}

static void a_calls_record_in_the_batch_does_not_disturb_what_was_read(void **unused)
{
    (void)unused;
    struct mt_store *store = open_batch();
    put(store, "a", "1");
    put(store, "b", "2");
    expect_ok(put_commit(store, 0));
    expect_ok(put_plan(store, 1, HASH_A, "script"));
    const void *value;
    size_t len;
    expect_ok(mt_state_get(mt_store_state(store), "a", 1, &value, &len, &err));
    put(store, "c", "3");
    expect_ok(mt_store_calls_put(store, 1, "{\"lines\":[]}", &err));
    assert_memory_equal(value, "1", 1);
    expect_walk(store, "", "a=1 b=2 c=3 ");
    expect_ok(put_commit(store, 1));
    expect_walk(store, "", "a=1 b=2 c=3 ");
    mt_store_close(store);
}

static void keys_of_no_length_and_longer_ones_than_fit_are_refused(void **unused)
{
    (void)unused;
    char key[MT_STATE_KEY_MAX + 1] = {0};
    struct mt_store *store = open_batch();
    struct mt_state *state = mt_store_state(store);
    assert_int_equal(mt_state_put(state, key, sizeof key, "x", 1, &err), MT_REJECT);
    assert_non_null(strstr(err.text, "this has 502"));
    assert_int_equal(mt_state_delete(state, "", 0, &err), MT_REJECT);
    memset(key, 255, sizeof key);
    expect_ok(mt_state_put(state, key, MT_STATE_KEY_MAX, "x", 1, &err));
    expect_ok(put_commit(store, 0));
    const void *value;
    size_t len;
    expect_ok(mt_state_get(state, key, MT_STATE_KEY_MAX, &value, &len, &err));
    assert_int_equal(len, 1);
    mt_store_close(store);
}

/* ---- against a plain model: a value for each of a few keys, or none */

enum { KEYS = 97, CHANGES = 400, BATCHES = 60 };

struct model {
    int64_t values[KEYS]; /* 0: none */
};

static uint64_t seed;

static uint64_t chance(uint64_t below)
{
    seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
    return seed % below;
}

/* Of several lengths, so that one is the beginning of another. */
static size_t model_key(int i, char out[32])
{
    return (size_t)snprintf(out, 32, "%.*s%d", i % 5, "kkkkk", i / 5);
}

static void expect_model(struct mt_store *store, const struct model *model)
{
    int64_t there = 0, walked = 0;
    char last[32] = "";
    const void *key = NULL, *value;
    size_t key_len = 0, len;
    struct mt_state *state = mt_store_state(store);
    for (int i = 0; i < KEYS; i++) {
        char name[32];
        size_t name_len = model_key(i, name);
        expect_ok(mt_state_get(state, name, name_len, &value, &len, &err));
        assert_int_equal(value != NULL, model->values[i] != 0);
        if (value)
            assert_memory_equal(value, &model->values[i], sizeof model->values[i]);
        there += value != NULL;
    }
    assert_int_equal(mt_state_count(state), there);
    for (;; walked++) {
        expect_ok(mt_state_next(state, NULL, 0, key, key_len, &key, &key_len, &value, &len, &err));
        if (!key)
            break;
        char now[32] = {0};
        memcpy(now, key, key_len);
        assert_true(strcmp(last, now) < 0);
        memcpy(last, now, sizeof last);
    }
    assert_int_equal(walked, there);
}

static void change(struct mt_store *store, struct model *model)
{
    char key[32];
    int i = (int)chance(KEYS);
    size_t len = model_key(i, key);
    model->values[i] = chance(3) ? (int64_t)chance(1000000) + 1 : 0;
    if (model->values[i])
        expect_ok(mt_state_put(mt_store_state(store), key, len, &model->values[i],
                               sizeof model->values[i], &err));
    else
        expect_ok(mt_state_delete(mt_store_state(store), key, len, &err));
}

static void it_is_what_a_plain_table_would_be_through_commits_and_failures(void **unused)
{
    (void)unused;
    const char *given = getenv("MOONTIDE_SEED");
    seed = given ? strtoull(given, NULL, 10) : (uint64_t)getpid() * 2654435761u + 1;
    print_message("MOONTIDE_SEED=%llu\n", (unsigned long long)seed);
    struct model committed = {0}, now = {0};
    struct mt_store *store = open_sized(1 << 20, 5);
    for (int64_t batch = 0; batch < BATCHES;) {
        expect_ok(put_plan(store, batch, HASH_A, "script"));
        uint64_t n = chance(CHANGES);
        for (uint64_t i = 0; i < n; i++) {
            change(store, &now);
            if (chance(100) == 0)
                expect_model(store, &now);
        }
        if (chance(3) == 0) {
            mt_state_discard(mt_store_state(store));
            now = committed;
        } else {
            expect_ok(put_commit(store, batch++));
            committed = now;
        }
        if (chance(8) == 0) {
            mt_store_close(store);
            store = open_sized(1 << 20, 5);
            now = committed;
        }
        expect_model(store, &now);
    }
    mt_store_close(store);
}

/* A walk that changes what it sees, over more keys than are looked through one by one. */
static void a_long_walk_that_adds_and_deletes_sees_each_key_once(void **unused)
{
    (void)unused;
    enum { MANY = 3000 };
    char name[32];
    struct mt_store *store = open_batch();
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "k%05d", i * 2);
        put(store, name, "v");
    }
    expect_ok(put_commit(store, 0));
    const void *key = NULL, *value;
    size_t key_len = 0, len;
    int seen = 0, added = 0;
    for (;;) {
        expect_ok(mt_state_next(mt_store_state(store), "k", 1, key, key_len, &key, &key_len, &value,
                                &len, &err));
        if (!key)
            break;
        int i = atoi((const char *)key + 1);
        seen += i % 2 == 0;
        added += i % 2;
        if (i % 2 == 0) {
            snprintf(name, sizeof name, "k%05d", i + 1);
            put(store, name, "added");
            snprintf(name, sizeof name, "k%05d", i);
            del(store, name);
        }
        key_len = (size_t)snprintf(name, sizeof name, "k%05d", i);
        key = name;
    }
    assert_int_equal(seen, MANY);
    assert_int_equal(added, MANY);
    assert_int_equal(count(store), MANY);
    mt_store_close(store);
}

/* ---- trouble in the commit */

static void fill(struct mt_store *store, int n, size_t bytes)
{
    char name[32], *value = mt_alloc(bytes);
    memset(value, 'v', bytes);
    for (int i = 0; i < n; i++) {
        int len = snprintf(name, sizeof name, "key%d", i);
        expect_ok(mt_state_put(mt_store_state(store), name, (size_t)len, value, bytes, &err));
    }
    free(value);
}

static void a_map_that_is_full_grows_and_all_changes_are_written(void **unused)
{
    (void)unused;
    struct mt_store *store = open_sized(1 << 20, 0);
    expect_ok(put_plan(store, 0, HASH_A, "script"));
    put(store, "first", "1");
    expect(store, "first", "1"); /* with the state's transaction open */
    assert_int_equal(count(store), 1);
    fill(store, 4000, 2000);
    expect_ok(put_commit(store, 0));
    assert_int_equal(count(store), 4001);
    mt_store_close(store);
    store = open_store();
    assert_int_equal(count(store), 4001);
    expect(store, "first", "1");
    mt_store_close(store);
}

static void commit_under_a_limit(void *ctx)
{
    (void)ctx;
    struct mt_store *store = open_store();
    struct rlimit limit = {(rlim_t)size_of(in_dir("data.mdb")), RLIM_INFINITY};
    signal(SIGXFSZ, SIG_IGN);
    expect_ok(put_plan(store, 1, HASH_A, "script"));
    setrlimit(RLIMIT_FSIZE, &limit);
    put(store, "a", "changed");
    fill(store, 1000, 2000);
    expect_fatal(put_commit(store, 1), MT_CLASS_MACHINE, "Nothing is lost");
    mt_store_close(store);
}

static void a_disk_that_is_full_stops_the_batch_and_keeps_the_state_before_it(void **unused)
{
    (void)unused;
    struct mt_store *store = open_batch();
    put(store, "a", "1");
    expect_ok(put_commit(store, 0));
    mt_store_close(store);
    assert_int_equal(in_child(commit_under_a_limit, NULL), 0);
    store = open_store();
    expect_last(store, 1, 0);
    expect_walk(store, "", "a=1 ");
    mt_store_close(store);
}

static void room_for_twice_the_changes_is_asked_before_the_next_plan(void **unused)
{
    (void)unused;
    MDB_envinfo info;
    struct mt_store *store = open_sized(1 << 20, 0);
    expect_ok(put_plan(store, 0, HASH_A, "script"));
    fill(store, 500, 4000);
    expect_ok(put_commit(store, 0));
    expect_ok(mt_store_ensure_space(store, &err));
    mdb_env_info(store->env->lmdb, &info);
    assert_true((int64_t)info.me_mapsize >= 3 * 500 * 4000);
    mt_store_close(store);
}

/* ---- a backup */

/* Makes a checkpoint of the file alone, and opens that one. */
static struct mt_store *restore(const char *file)
{
    char folder[120], data[140];
    snprintf(folder, sizeof folder, "%s/restored", root);
    snprintf(data, sizeof data, "%s/data.mdb", folder);
    assert_int_equal(mkdir(folder, 0777), 0);
    assert_int_equal(rename(file, data), 0);
    struct mt_store_options options = {folder, "run-2", 1 << 20, 0};
    struct mt_store *store;
    bool fresh;
    expect_ok(mt_store_open(&options, &store, &fresh, &err));
    assert_false(fresh);
    return store;
}

static void back_up(void *file)
{
    expect_ok(mt_store_backup(dir, file, &err));
}

static void a_backup_of_a_running_query_is_a_checkpoint(void **unused)
{
    (void)unused;
    char file[120];
    snprintf(file, sizeof file, "%s/backup", root);
    struct mt_store *store = open_batch();
    fill(store, 3000, 100);
    expect_ok(put_commit(store, 0));
    expect_ok(put_plan(store, 1, HASH_A, "script"));
    put(store, "not committed", "x");
    assert_int_equal(in_child(back_up, file), 0); /* by another process */
    assert_int_equal(mt_store_backup(dir, file, &err), MT_FATAL);
    assert_non_null(strstr(err.text, "is there already"));
    expect_ok(put_commit(store, 1));
    struct mt_store *copy = restore(file);
    assert_string_equal(mt_store_query_id(copy), mt_store_query_id(store));
    expect_last(copy, 1, 0);
    assert_int_equal(count(copy), 3000);
    expect(copy, "not committed", NULL);
    expect_ok(put_commit(copy, 1)); /* and it goes on */
    mt_store_close(copy);
    mt_store_close(store);
}

static void a_backup_within_the_process_of_its_owner_is_one_too(void **unused)
{
    (void)unused;
    char file[120];
    snprintf(file, sizeof file, "%s/backup", root);
    struct mt_store *store = open_store();
    run_batch(store, 0);
    expect_ok(mt_store_backup(dir, file, &err));
    run_batch(store, 1);
    mt_store_close(store);
    store = restore(file);
    expect_last(store, 0, 0);
    mt_store_close(store);
}

static void back_up_under_a_limit(void *file)
{
    struct rlimit limit = {20000, RLIM_INFINITY};
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
    if (mt_store_backup(dir, file, &err) == MT_OK || !strstr(err.text, "there is none"))
        _exit(1);
}

static void a_backup_that_fails_leaves_no_file(void **unused)
{
    (void)unused;
    char file[120];
    snprintf(file, sizeof file, "%s/backup", root);
    struct mt_store *store = open_batch();
    fill(store, 3000, 100);
    expect_ok(put_commit(store, 0));
    assert_int_equal(in_child(back_up_under_a_limit, file), 0);
    assert_false(exists(file));
    assert_int_equal(mt_store_backup("/nowhere", file, &err), MT_FATAL);
    assert_non_null(strstr(err.text, "there is no checkpoint in /nowhere"));
    mt_store_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        store_test(what_is_put_is_seen_at_once_and_lasts_when_committed),
        store_test(what_is_discarded_was_never_there),
        store_test(a_walk_keeps_to_its_prefix_and_sees_changes_on_the_way),
        store_test(a_calls_record_in_the_batch_does_not_disturb_what_was_read),
        store_test(keys_of_no_length_and_longer_ones_than_fit_are_refused),
        store_test(it_is_what_a_plain_table_would_be_through_commits_and_failures),
        store_test(a_long_walk_that_adds_and_deletes_sees_each_key_once),
        store_test(a_map_that_is_full_grows_and_all_changes_are_written),
        store_test(a_disk_that_is_full_stops_the_batch_and_keeps_the_state_before_it),
        store_test(room_for_twice_the_changes_is_asked_before_the_next_plan),
        store_test(a_backup_of_a_running_query_is_a_checkpoint),
        store_test(a_backup_within_the_process_of_its_owner_is_one_too),
        store_test(a_backup_that_fails_leaves_no_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
