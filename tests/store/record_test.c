/* SPDX-License-Identifier: Apache-2.0
 *
 * record_test.c - plans, calls, commits, bundles and facts: what may be written when,
 * what is kept, and what a kill in between leaves. */
#include "store_util.h"

#include <endian.h>
#include <errno.h>
#include <signal.h>
#include <time.h>

#include "store/store_int.h"

static void facts_are_kept_replaced_and_told_from_missing_ones(void **unused)
{
    (void)unused;
    struct mt_store *store = open_store();
    struct mt_buf value = {0};
    bool found = true;
    expect_ok(mt_store_meta_get(store, "start.0", &value, &found, &err));
    assert_false(found);
    expect_ok(mt_store_meta_put(store, "start.0", "{\"orders\":{\"0\":1}}", &err));
    expect_ok(mt_store_meta_put(store, "start.0", "", &err));
    mt_store_close(store);
    store = open_store();
    expect_ok(mt_store_meta_get(store, "start.0", &value, &found, &err));
    assert_true(found);
    assert_string_equal(value.data, "");
    expect_ok(mt_store_meta_put(store, "start.0", "new", &err));
    mt_buf_adds(&value, "value: ");
    expect_ok(mt_store_meta_get(store, "start.0", &value, &found, &err));
    assert_string_equal(value.data, "value: new");
    mt_buf_free(&value);
    mt_store_close(store);
}

static void a_fact_has_a_name_of_possible_length(void **unused)
{
    (void)unused;
    struct mt_store *store = open_store();
    char name[600];
    memset(name, 'n', sizeof name);
    name[500] = '\0';
    expect_ok(mt_store_meta_put(store, name, "x", &err));
    name[500] = 'n', name[501] = '\0';
    expect_fatal(mt_store_meta_put(store, name, "x", &err), MT_CLASS_INTERNAL, "501 bytes");
    expect_fatal(mt_store_meta_put(store, "", "x", &err), MT_CLASS_INTERNAL, "0 bytes");
    mt_store_close(store);
}

static void a_batch_is_a_plan_then_calls_then_a_commit(void **unused)
{
    (void)unused;
    struct mt_store *store = open_store();
    expect_last(store, -1, -1);
    expect_ok(put_plan(store, 0, HASH_A, "the script"));
    expect_last(store, 0, -1);
    expect_ok(mt_store_calls_put(store, 0, "[1]", &err));
    expect_ok(mt_store_calls_put(store, 0, "[1,2]", &err));
    expect_ok(put_commit(store, 0));
    expect_last(store, 0, 0);
    expect_ok(put_plan(store, 1, HASH_A, "the script"));
    mt_store_close(store);
    store = open_store();
    expect_last(store, 1, 0);
    char *calls = get(store, MT_RECORD_CALLS, 0), *commit = get(store, MT_RECORD_COMMIT, 0);
    assert_string_equal(calls, "[1,2]");
    assert_string_equal(commit, "{\"commit\":0}");
    assert_false(has(store, MT_RECORD_CALLS, 1));
    assert_false(has(store, MT_RECORD_PLAN, -1));
    free(calls), free(commit);
    mt_store_close(store);
}

static void what_is_out_of_order_is_refused_and_changes_nothing(void **unused)
{
    (void)unused;
    struct mt_store *store = open_store();
    expect_fatal(put_plan(store, 1, HASH_A, "s"), MT_CLASS_INTERNAL, "plan 1 cannot be stored");
    expect_fatal(put_commit(store, 0), MT_CLASS_INTERNAL, "commit 0 cannot be stored");
    expect_fatal(mt_store_calls_put(store, 0, "[]", &err), MT_CLASS_INTERNAL, "calls 0");
    run_batch(store, 0);
    expect_fatal(put_commit(store, 0), MT_CLASS_INTERNAL, "the last commit 0");
    expect_fatal(put_plan(store, 0, HASH_A, "s"), MT_CLASS_INTERNAL, "plan 0");
    expect_fatal(put_plan(store, 2, HASH_A, "s"), MT_CLASS_INTERNAL, "plan 2");
    expect_fatal(mt_store_calls_put(store, 0, "[]", &err), MT_CLASS_INTERNAL, "calls 0");
    expect_ok(put_plan(store, 1, HASH_A, "s"));
    expect_fatal(put_plan(store, 2, HASH_A, "s"), MT_CLASS_INTERNAL, "plan 2");
    expect_last(store, 1, 0);
    mt_store_close(store);
}

static void a_plan_names_the_bundle_that_comes_with_it(void **unused)
{
    (void)unused;
    struct mt_store *store = open_store();
    expect_fatal(mt_store_plan_put(store, 0, "{}", HASH_A, "s", 1, &err), MT_CLASS_INTERNAL,
                 HASH_A);
    expect_fatal(mt_store_plan_put(store, 0, "no json", HASH_A, "s", 1, &err), MT_CLASS_INTERNAL,
                 "names bundle");
    expect_last(store, -1, -1);
    mt_store_close(store);
}

static void a_plan_without_commit_can_be_replaced_with_its_bundle(void **unused)
{
    (void)unused;
    struct mt_store *store = open_store();
    struct mt_buf bundle = {0};
    bool found;
    expect_ok(put_plan(store, 0, HASH_A, "script a"));
    expect_ok(put_plan(store, 0, HASH_B, "script b"));
    assert_false(has_bundle(store, HASH_A));
    expect_ok(mt_store_bundle_get(store, HASH_B, &bundle, &found, &err));
    assert_string_equal(bundle.data, "script b");
    mt_buf_free(&bundle);
    expect_ok(put_plan(store, 0, HASH_B, "script b")); /* the same once more */
    assert_true(has_bundle(store, HASH_B));
    mt_store_close(store);
}

static void a_bundle_is_kept_while_a_kept_plan_names_it(void **unused)
{
    (void)unused;
    struct mt_store *store = open_sized(1 << 20, 3);
    run_batch(store, 0);
    for (int64_t id = 1; id <= 5; id++) {
        expect_ok(put_plan(store, id, id == 2 ? HASH_A : HASH_B, "text"));
        expect_ok(put_commit(store, id));
        assert_int_equal(has_bundle(store, HASH_A), id < 5); /* plan 2 goes with commit 5 */
        assert_true(has_bundle(store, HASH_B));
    }
    mt_store_close(store);
}

static void the_last_hundred_are_kept_and_older_ones_go(void **unused)
{
    (void)unused;
    struct mt_store *store = open_store();
    for (int64_t id = 0; id < 130; id++) {
        expect_ok(put_plan(store, id, HASH_A, "the script"));
        if (id % 3 == 0)
            expect_ok(mt_store_calls_put(store, id, "[]", &err));
        expect_ok(put_commit(store, id));
    }
    expect_last(store, 129, 129);
    for (int64_t id = 0; id < 130; id++) {
        assert_int_equal(has(store, MT_RECORD_PLAN, id), id >= 30);
        assert_int_equal(has(store, MT_RECORD_COMMIT, id), id >= 30);
        assert_int_equal(has(store, MT_RECORD_CALLS, id), id >= 30 && id % 3 == 0);
    }
    char *text = mt_store_describe(store);
    assert_non_null(strstr(text, "\"plans\":100,"));
    assert_non_null(strstr(text, "\"bundles\":1"));
    free(text);
    mt_store_close(store);
}

static void keeping_fewer_or_more_takes_effect_without_a_fault(void **unused)
{
    (void)unused;
    struct mt_store *store = open_sized(1 << 20, 10);
    for (int64_t id = 0; id < 20; id++)
        run_batch(store, id);
    mt_store_close(store);
    store = open_sized(1 << 20, 2);
    run_batch(store, 20);
    assert_false(has(store, MT_RECORD_PLAN, 18));
    mt_store_close(store);
    store = open_sized(1 << 20, 50);
    run_batch(store, 21);
    expect_last(store, 21, 21);
    assert_true(has(store, MT_RECORD_PLAN, 19));
    mt_store_close(store);
}

/* ---- records that do not fit together */

struct removal {
    int database;
    int64_t id;
};

static int remove_in_txn(struct store_env *env, MDB_txn *txn, void *ctx, struct mt_error *unused)
{
    (void)unused;
    struct removal *removal = ctx;
    uint64_t bytes = htobe64((uint64_t)removal->id);
    MDB_val key = {sizeof bytes, &bytes};
    return mdb_del(txn, env->dbis[removal->database], &key, NULL);
}

static void expect_misfit(int database, int64_t id, const char *what, const char *entries)
{
    struct mt_store *store = open_store();
    struct removal removal = {database, id};
    int64_t plan, commit;
    for (int64_t i = 0; i < 4; i++) {
        expect_ok(put_plan(store, i, HASH_A, "s"));
        if (i == 3)
            expect_ok(mt_store_calls_put(store, i, "[]", &err));
        expect_ok(put_commit(store, i));
    }
    expect_ok(put_plan(store, 4, HASH_A, "s"));
    assert_int_equal(mt_store_write(store->env, "test", -1, remove_in_txn, &removal, &err), 0);
    expect_fatal(mt_store_last(store, &plan, &commit, &err), MT_CLASS_CHECKPOINT, what);
    if (!strstr(err.text, entries))
        fail_msg("%s lacks \"%s\"", err.text, entries);
    mt_store_close(store);
    assert_int_equal(nftw(dir, remove_entry, 8, FTW_DEPTH | FTW_PHYS), 0);
}

static void entries_that_do_not_fit_are_listed(void **unused)
{
    (void)unused;
    expect_misfit(STORE_PLANS, 2, "a plan is missing", "plans 0-1, 3-4; calls 3; commits 0-3");
    expect_misfit(STORE_COMMITS, 1, "a commit is missing", "commits 0, 2-3");
    expect_misfit(STORE_PLANS, 0, "a commit has no plan", "plans 1-4");
    expect_misfit(STORE_COMMITS, 0, "an old plan has no commit", "commits 1-3");
    expect_misfit(STORE_COMMITS, 3, "more than one plan", "commits 0-2");
}

/* ---- a kill or a full disk in the middle */

static void write_batch_1(void *ctx)
{
    (void)ctx;
    struct mt_store *store = open_store();
    run_batch(store, 1);
    mt_store_close(store);
}

static void a_kill_before_a_write_is_durable_leaves_the_state_before_it(void **unused)
{
    (void)unused;
    mt_store_close(open_store());
    struct mt_store *store = open_store();
    run_batch(store, 0);
    mt_store_close(store);
    setenv("MOONTIDE_KILL", "store.plan:1", 1);
    int status = in_child(write_batch_1, NULL);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    unsetenv("MOONTIDE_KILL");
    store = open_store();
    expect_last(store, 0, 0);
    mt_store_close(store);
    setenv("MOONTIDE_KILL", "store.commit:1", 1);
    status = in_child(write_batch_1, NULL);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    unsetenv("MOONTIDE_KILL");
    store = open_store();
    expect_last(store, 1, 0);
    run_batch(store, 1);
    mt_store_close(store);
}

static void write_for_ever(void *ctx)
{
    int fd = *(int *)ctx;
    struct mt_store *store = open_store();
    int64_t plan, commit;
    expect_ok(mt_store_last(store, &plan, &commit, &err));
    for (int64_t id = commit + 1;; id++) {
        run_batch(store, id);
        if (write(fd, &id, sizeof id) != sizeof id)
            _exit(1);
    }
}

/* What was said to be committed before a kill is there after it, at any moment. */
static void kills_at_any_moment_keep_what_was_committed(void **unused)
{
    (void)unused;
    mt_store_close(open_store());
    unsigned wait_us = 1;
    for (int round = 0; round < 25; round++) {
        int ends[2], status;
        int64_t id, committed = -1, plan, commit;
        assert_int_equal(pipe(ends), 0);
        pid_t pid = fork();
        if (pid == 0)
            write_for_ever(&ends[1]);
        close(ends[1]);
        /* some batches, then any moment: the wait only spreads the kills */
        for (int i = 0; i < 1 + round % 4; i++) {
            assert_int_equal(read(ends[0], &id, sizeof id), sizeof id);
            committed = id;
        }
        wait_us = wait_us * 1103515245u + 12345u;
        nanosleep(&(struct timespec){0, (long)(wait_us >> 16) % 2000 * 1000}, NULL);
        kill(pid, SIGKILL);
        waitpid(pid, &status, 0);
        while (read(ends[0], &id, sizeof id) == sizeof id)
            committed = id;
        close(ends[0]);
        struct mt_store *store = open_store();
        expect_ok(mt_store_last(store, &plan, &commit, &err));
        assert_true(commit >= committed && commit <= committed + 1);
        mt_store_close(store);
    }
}

static void a_failed_write_says_so_and_leaves_the_state_before_it(void **unused)
{
    (void)unused;
    struct mt_store *store = open_store();
    char rule[40];
    run_batch(store, 0);
    expect_ok(put_plan(store, 1, HASH_A, "the script"));
    const int codes[] = {ENOSPC, EIO, EDQUOT, ENOMEM};
    for (size_t i = 0; i < 4; i++) {
        snprintf(rule, sizeof rule, "store.commit:1=%d", codes[i]);
        setenv("MOONTIDE_FAIL", rule, 1);
        expect_fatal(put_commit(store, 1), MT_CLASS_MACHINE, "Nothing is lost");
        expect_last(store, 1, 0);
    }
    setenv("MOONTIDE_FAIL", "store.plan:2", 1);
    expect_ok(put_commit(store, 1));
    expect_fatal(put_plan(store, 2, HASH_A, "the script"), MT_CLASS_MACHINE, "no space left");
    unsetenv("MOONTIDE_FAIL");
    mt_store_close(store);
    store = open_store();
    expect_last(store, 1, 1);
    run_batch(store, 2);
    mt_store_close(store);
}

/* ---- values */

static void a_value_is_whole_only_under_its_own_key(void **unused)
{
    (void)unused;
    char value[8 + 5];
    uint64_t hash = mt_store_hash("plans", "key", 3, "hello", 5);
    size_t rest;
    memcpy(value, &hash, 8);
    memcpy(value + 8, "hello", 5);
    const char *text = mt_store_unwrap("plans", "key", 3, value, sizeof value, &rest);
    assert_ptr_equal(text, value + 8);
    assert_int_equal(rest, 5);
    assert_null(mt_store_unwrap("plans", "kex", 3, value, sizeof value, &rest));
    assert_null(mt_store_unwrap("calls", "key", 3, value, sizeof value, &rest));
    for (size_t len = 0; len < sizeof value; len++)
        assert_null(mt_store_unwrap("plans", "key", 3, value, len, &rest));
    for (size_t bit = 0; bit < 8 * sizeof value; bit++) {
        value[bit / 8] ^= (char)(1 << bit % 8);
        assert_null(mt_store_unwrap("plans", "key", 3, value, sizeof value, &rest));
        value[bit / 8] ^= (char)(1 << bit % 8);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        store_test(facts_are_kept_replaced_and_told_from_missing_ones),
        store_test(a_fact_has_a_name_of_possible_length),
        store_test(a_batch_is_a_plan_then_calls_then_a_commit),
        store_test(what_is_out_of_order_is_refused_and_changes_nothing),
        store_test(a_plan_names_the_bundle_that_comes_with_it),
        store_test(a_plan_without_commit_can_be_replaced_with_its_bundle),
        store_test(a_bundle_is_kept_while_a_kept_plan_names_it),
        store_test(the_last_hundred_are_kept_and_older_ones_go),
        store_test(keeping_fewer_or_more_takes_effect_without_a_fault),
        store_test(entries_that_do_not_fit_are_listed),
        store_test(a_kill_before_a_write_is_durable_leaves_the_state_before_it),
        store_test(kills_at_any_moment_keep_what_was_committed),
        store_test(a_failed_write_says_so_and_leaves_the_state_before_it),
        store_test(a_value_is_whole_only_under_its_own_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
