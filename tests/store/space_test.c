/* SPDX-License-Identifier: Apache-2.0
 *
 * space_test.c - a full map grows, a full disk is told, and neither readers that died
 * nor years of batches make the file grow. */
#include "store_util.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>

#include "store/store_int.h"

static int64_t map_bytes(struct mt_store *store)
{
    MDB_envinfo info;
    mdb_env_info(store->env->lmdb, &info);
    return (int64_t)info.me_mapsize;
}

static void put_padded(struct mt_store *store, int64_t id, size_t padding)
{
    char *json = plan_json(id, HASH_A, padding);
    expect_ok(mt_store_plan_put(store, id, json, HASH_A, "script", 6, &err));
    expect_ok(mt_store_commit_put(store, id, json, &err));
    free(json);
}

static void a_full_map_grows_and_the_same_write_is_done_again(void **unused)
{
    (void)unused;
    struct mt_store *store = open_sized(1 << 20, 0);
    assert_int_equal(map_bytes(store), 1 << 20);
    for (int64_t id = 0; id < 4; id++)
        put_padded(store, id, 2 << 20); /* each twice as large as the first map */
    assert_true(map_bytes(store) >= 16 << 20);
    mt_store_close(store);
    store = open_sized(1 << 20, 0);
    expect_last(store, 3, 3);
    char *plan = get(store, MT_RECORD_PLAN, 2), *wanted = plan_json(2, HASH_A, 2 << 20);
    assert_string_equal(plan, wanted);
    free(plan), free(wanted);
    put_padded(store, 4, 100);
    mt_store_close(store);
}

/* Old records go as new ones come, at close to the size of the map: free pages must be
 * used again, in pieces of different sizes, or the map would grow for ever. */
static void years_of_batches_do_not_grow_the_file(void **unused)
{
    (void)unused;
    struct mt_store *store = open_sized(1 << 20, 5);
    for (int64_t id = 0; id < 500; id++)
        put_padded(store, id, (size_t)(id * 7919 % 80000));
    int64_t settled = size_of(in_dir("data.mdb"));
    for (int64_t id = 500; id < 1500; id++)
        put_padded(store, id, (size_t)(id * 7919 % 80000));
    assert_true(map_bytes(store) <= 8 << 20);
    assert_true(size_of(in_dir("data.mdb")) <= settled + settled / 2);
    mt_store_close(store);
    mt_store_close(open_sized(1 << 20, 5)); /* and is sound */
}

static void room_for_the_next_batch_is_made_before_it_is_planned(void **unused)
{
    (void)unused;
    struct mt_store *store = open_sized(1 << 20, 0);
    put_padded(store, 0, 300000);
    int64_t before = map_bytes(store);
    assert_true(before < 2 * 2 * 300000 + size_of(in_dir("data.mdb")));
    expect_ok(mt_store_ensure_space(store, &err));
    int64_t after = map_bytes(store);
    assert_true(after >= 2 * 2 * 300000 + size_of(in_dir("data.mdb")));
    expect_ok(mt_store_ensure_space(store, &err));
    assert_int_equal(map_bytes(store), after);
    mt_store_close(store);
}

static void a_short_disk_stops_before_the_plan(void **unused)
{
    (void)unused;
    struct mt_store *store = open_store();
    run_batch(store, 0);
    setenv("MOONTIDE_FAIL", "store.space", 1);
    expect_fatal(mt_store_ensure_space(store, &err), MT_CLASS_MACHINE, "No batch was begun");
    unsetenv("MOONTIDE_FAIL");
    expect_ok(mt_store_ensure_space(store, &err));
    mt_store_close(store);
}

/* A real failing write: the kernel refuses to let the file grow. */
static void grow_under_a_limit(void *ctx)
{
    (void)ctx;
    struct mt_store *store = open_store();
    struct rlimit limit = {(rlim_t)size_of(in_dir("data.mdb")), RLIM_INFINITY};
    signal(SIGXFSZ, SIG_IGN);
    expect_ok(put_plan(store, 1, HASH_A, "the script"));
    setrlimit(RLIMIT_FSIZE, &limit);
    char *json = plan_json(1, HASH_A, 3 << 20);
    expect_fatal(mt_store_commit_put(store, 1, json, &err), MT_CLASS_MACHINE, "Nothing is lost");
    free(json);
    mt_store_close(store);
}

static void a_disk_that_fills_in_a_commit_keeps_the_state_before_it(void **unused)
{
    (void)unused;
    struct mt_store *store = open_store();
    run_batch(store, 0);
    mt_store_close(store);
    assert_int_equal(in_child(grow_under_a_limit, NULL), 0);
    store = open_store();
    expect_last(store, 1, 0);
    expect_ok(put_commit(store, 1));
    mt_store_close(store);
}

/* ---- readers */

/* Dies with a transaction open, which pins every page of its snapshot. */
static void die_reading(void *ctx)
{
    (void)ctx;
    struct mt_store *reader;
    MDB_txn *txn;
    expect_ok(mt_store_open_read(dir, &reader, &err));
    if (mdb_txn_begin(reader->env->lmdb, NULL, MDB_RDONLY, &txn) != 0)
        _exit(1);
    raise(SIGKILL);
}

static void a_reader_that_died_does_not_keep_old_pages(void **unused)
{
    (void)unused;
    struct mt_store *store = open_sized(64 << 20, 5); /* never full: growing looks too */
    for (int64_t id = 0; id < 200; id++)
        put_padded(store, id, 20000);
    int64_t before = size_of(in_dir("data.mdb"));
    int status = in_child(die_reading, NULL);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    for (int64_t id = 200; id < 320; id++) /* past the next look for the dead */
        put_padded(store, id, 20000);
    int64_t after_look = size_of(in_dir("data.mdb"));
    for (int64_t id = 320; id < 700; id++)
        put_padded(store, id, 20000);
    assert_true(size_of(in_dir("data.mdb")) <= after_look + before);
    mt_store_close(store);
}

static void an_owner_that_starts_frees_what_dead_readers_held(void **unused)
{
    (void)unused;
    struct mt_store *store = open_sized(1 << 20, 5);
    put_padded(store, 0, 20000);
    in_child(die_reading, NULL);
    mt_store_close(store);
    store = open_sized(1 << 20, 5);
    MDB_envinfo info;
    int dead = -1;
    assert_int_equal(mdb_reader_check(store->env->lmdb, &dead), 0);
    assert_int_equal(dead, 0);
    mdb_env_info(store->env->lmdb, &info);
    assert_true(info.me_numreaders <= 1);
    mt_store_close(store);
}

struct talk {
    int go[2], done[2];
};

static void read_twice(struct talk *talk)
{
    struct mt_store *reader;
    char byte = 1;
    expect_ok(mt_store_open_read(dir, &reader, &err));
    expect_last(reader, 0, 0);
    if (write(talk->done[1], &byte, 1) != 1 || read(talk->go[0], &byte, 1) != 1)
        _exit(1);
    expect_last(reader, 3, 3); /* past the end of the map that we opened */
    char *plan = get(reader, MT_RECORD_PLAN, 3), *wanted = plan_json(3, HASH_A, 3 << 20);
    assert_string_equal(plan, wanted);
    free(plan), free(wanted);
    mt_store_close(reader);
    _exit(0);
}

static void a_reader_follows_a_map_that_its_owner_grows(void **unused)
{
    (void)unused;
    struct talk talk;
    char byte = 1;
    int status;
    struct mt_store *store = open_sized(1 << 20, 0);
    put_padded(store, 0, 100);
    assert_int_equal(pipe(talk.go) | pipe(talk.done), 0);
    pid_t pid = fork();
    if (pid == 0)
        read_twice(&talk);
    assert_int_equal(read(talk.done[0], &byte, 1), 1);
    for (int64_t id = 1; id < 4; id++)
        put_padded(store, id, 3 << 20);
    assert_true(map_bytes(store) > 16 << 20);
    assert_int_equal(write(talk.go[1], &byte, 1), 1);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    mt_store_close(store);
    close(talk.go[0]), close(talk.go[1]), close(talk.done[0]), close(talk.done[1]);
}

static void open_and_look(void *ctx)
{
    (void)ctx;
    struct mt_store *reader;
    int64_t plan, commit;
    for (int i = 0; i < 100; i++) {
        expect_ok(mt_store_open_read(dir, &reader, &err));
        expect_ok(mt_store_last(reader, &plan, &commit, &err));
        mt_store_close(reader);
    }
}

/* Its check of the whole file never takes a page in motion for damage. */
static void readers_come_and_go_while_the_owner_writes(void **unused)
{
    (void)unused;
    int status;
    struct mt_store *store = open_sized(1 << 20, 5);
    put_padded(store, 0, 100);
    pid_t pid = fork();
    if (pid == 0) {
        open_and_look(NULL);
        _exit(0);
    }
    for (int64_t id = 1; waitpid(pid, &status, WNOHANG) == 0; id++)
        put_padded(store, id, (size_t)(id * 7919 % 30000));
    assert_int_equal(status, 0);
    mt_store_close(store);
}

/* ---- threads of one process */

static void *look_around(void *ctx)
{
    atomic_bool *stop = ctx;
    struct mt_error error;
    intptr_t faults = 0;
    while (!atomic_load(stop)) {
        struct mt_store *reader;
        int64_t plan, commit;
        if (mt_store_open_read(dir, &reader, &error) != MT_OK)
            return (void *)(intptr_t)1;
        faults += mt_store_last(reader, &plan, &commit, &error) != MT_OK;
        mt_store_close(reader);
    }
    return (void *)faults;
}

static void a_thread_reads_while_another_writes_and_grows(void **unused)
{
    (void)unused;
    pthread_t thread;
    atomic_bool stop = false;
    void *faults;
    struct mt_store *store = open_sized(1 << 20, 0);
    put_padded(store, 0, 100);
    assert_int_equal(pthread_create(&thread, NULL, look_around, &stop), 0);
    for (int64_t id = 1; id < 60; id++)
        put_padded(store, id, (size_t)id * 20000);
    atomic_store(&stop, true);
    pthread_join(thread, &faults);
    assert_null(faults);
    mt_store_close(store);
}

static void *look_once(void *store)
{
    struct mt_error error;
    int64_t plan, commit;
    return (void *)(intptr_t)(mt_store_last(store, &plan, &commit, &error) != MT_OK);
}

static void thousands_of_threads_leave_no_readers(void **unused)
{
    (void)unused;
    struct mt_store *store = open_store();
    run_batch(store, 0);
    for (int i = 0; i < 2000; i++) {
        pthread_t thread;
        void *fault;
        assert_int_equal(pthread_create(&thread, NULL, look_once, store), 0);
        pthread_join(thread, &fault);
        assert_null(fault);
    }
    MDB_envinfo info;
    mdb_env_info(store->env->lmdb, &info);
    assert_true(info.me_numreaders <= 2);
    mt_store_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        store_test(a_full_map_grows_and_the_same_write_is_done_again),
        store_test(years_of_batches_do_not_grow_the_file),
        store_test(room_for_the_next_batch_is_made_before_it_is_planned),
        store_test(a_short_disk_stops_before_the_plan),
        store_test(a_disk_that_fills_in_a_commit_keeps_the_state_before_it),
        store_test(a_reader_that_died_does_not_keep_old_pages),
        store_test(an_owner_that_starts_frees_what_dead_readers_held),
        store_test(a_reader_follows_a_map_that_its_owner_grows),
        store_test(readers_come_and_go_while_the_owner_writes),
        store_test(a_thread_reads_while_another_writes_and_grows),
        store_test(thousands_of_threads_leave_no_readers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
