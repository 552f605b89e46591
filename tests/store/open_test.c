/* SPDX-License-Identifier: Apache-2.0
 *
 * open_test.c - new, existing, owned, damaged and foreign folders. */
#include "store_util.h"

#include <errno.h>
#include <signal.h>
#include <sys/file.h>

#include "store/store_int.h"

static void a_new_checkpoint_keeps_its_query_id(void **unused)
{
    (void)unused;
    struct mt_store *store;
    bool fresh = false;
    char id[37];
    expect_ok(try_open(0, 0, &store, &fresh));
    assert_true(fresh);
    snprintf(id, sizeof id, "%s", mt_store_query_id(store));
    assert_int_equal(strlen(id), 36);
    expect_last(store, -1, -1);
    mt_store_close(store);
    expect_ok(try_open(0, 0, &store, &fresh));
    assert_false(fresh);
    assert_string_equal(mt_store_query_id(store), id);
    mt_store_close(store);
}

static void folders_above_are_made_and_an_empty_folder_is_used(void **unused)
{
    (void)unused;
    snprintf(dir, sizeof dir, "%s/a/b/c/", root);
    mt_store_close(open_store());
    assert_true(exists(in_dir("data.mdb")));
    snprintf(dir, sizeof dir, "%s/empty", root);
    assert_int_equal(mkdir(dir, 0755), 0);
    mt_store_close(open_store());
    assert_true(exists(in_dir("data.mdb")));
}

static void a_folder_with_other_files_is_refused_and_left_alone(void **unused)
{
    (void)unused;
    struct mt_store *store;
    bool fresh;
    mkdir(dir, 0755);
    write_file(in_dir("orders.csv"), "1,2\n", 4);
    expect_fatal(try_open(0, 0, &store, &fresh), MT_CLASS_CHECKPOINT, "put back a copy");
    assert_false(exists(in_dir("data.mdb")));
    assert_false(exists(in_dir("owner")));
    expect_fatal(mt_store_open_read(dir, &store, &err), MT_CLASS_CHECKPOINT, "not a checkpoint");
}

static void a_checkpoint_without_its_data_file_is_never_begun_anew(void **unused)
{
    (void)unused;
    struct mt_store *store = open_store();
    bool fresh;
    run_batch(store, 0);
    mt_store_close(store);
    assert_int_equal(unlink(in_dir("data.mdb")), 0);
    expect_fatal(try_open(0, 0, &store, &fresh), MT_CLASS_CHECKPOINT, "its data is gone");
}

static void a_plain_file_and_a_missing_folder_are_refused(void **unused)
{
    (void)unused;
    struct mt_store *store;
    bool fresh;
    expect_fatal(mt_store_open_read(dir, &store, &err), MT_CLASS_CHECKPOINT, "no checkpoint");
    assert_false(exists(dir));
    write_file(dir, "x", 1);
    expect_fatal(try_open(0, 0, &store, &fresh), MT_CLASS_CHECKPOINT, "Not a directory");
}

static void object_stores_and_network_disks_are_refused_by_name(void **unused)
{
    (void)unused;
    struct mt_store *store;
    bool fresh;
    snprintf(dir, sizeof dir, "s3://bucket/checkpoint");
    expect_fatal(try_open(0, 0, &store, &fresh), MT_CLASS_CHECKPOINT, "local disk");
    assert_non_null(strstr(err.text, "can be copied elsewhere"));
    assert_string_equal(mt_store_network_name(0x6969), "NFS");
    assert_string_equal(mt_store_network_name(0xff534d42), "CIFS");
    assert_string_equal(mt_store_network_name(0xffffffffff534d42), "CIFS");
    assert_string_equal(mt_store_network_name(0xfe534d42), "SMB");
    assert_string_equal(mt_store_network_name(0x65735546), "FUSE");
    assert_null(mt_store_network_name(0xef53));     /* ext4 */
    assert_null(mt_store_network_name(0x58465342)); /* xfs */
    assert_null(mt_store_network_name(0x9123683e)); /* btrfs */
    assert_null(mt_store_network_name(0x01021994)); /* tmpfs */
}

static void another_format_is_refused_with_its_version(void **unused)
{
    (void)unused;
    struct mt_store *store = open_store();
    bool fresh;
    expect_ok(mt_store_meta_put(store, "format", "2", &err));
    expect_ok(mt_store_meta_put(store, "version", "9.9.9", &err));
    mt_store_close(store);
    expect_fatal(try_open(0, 0, &store, &fresh), MT_CLASS_CHECKPOINT, "Moontide 9.9.9");
}

/* ---- owner */

struct holder {
    int ready[2], leave[2];
    pid_t pid;
};

static void hold(struct holder *holder)
{
    char byte = 1;
    assert_int_equal(pipe(holder->ready), 0);
    assert_int_equal(pipe(holder->leave), 0);
    holder->pid = fork();
    if (holder->pid == 0) {
        close(holder->leave[1]); /* else we never see the parent close it */
        struct mt_store *store;
        bool fresh;
        byte = try_open(0, 0, &store, &fresh) == MT_OK;
        if (write(holder->ready[1], &byte, 1) == 1 && read(holder->leave[0], &byte, 1) == 0)
            mt_store_close(store);
        _exit(0);
    }
    close(holder->ready[1]);
    close(holder->leave[0]);
    assert_int_equal(read(holder->ready[0], &byte, 1), 1);
    assert_int_equal(byte, 1);
}

static void let_go(struct holder *holder)
{
    int status;
    close(holder->leave[1]);
    close(holder->ready[0]);
    assert_int_equal(waitpid(holder->pid, &status, 0), holder->pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void a_second_process_is_refused_by_name(void **unused)
{
    (void)unused;
    struct mt_store *store;
    struct holder holder;
    bool fresh;
    char pid[40], host[100] = "";
    hold(&holder);
    snprintf(pid, sizeof pid, "pid %d on ", (int)holder.pid);
    gethostname(host, sizeof host - 1);
    expect_fatal(try_open(0, 0, &store, &fresh), MT_CLASS_CHECKPOINT, pid);
    assert_non_null(strstr(err.text, host));
    assert_non_null(strstr(err.text, "run run-1"));
    let_go(&holder);
    mt_store_close(open_store());
}

static void a_killed_owner_leaves_nothing_behind(void **unused)
{
    (void)unused;
    struct holder holder;
    int status;
    hold(&holder);
    kill(holder.pid, SIGKILL);
    waitpid(holder.pid, &status, 0);
    close(holder.leave[1]);
    close(holder.ready[0]);
    mt_store_close(open_store());
}

static void the_same_process_is_refused_too(void **unused)
{
    (void)unused;
    struct mt_store *store = open_store(), *second;
    bool fresh;
    expect_fatal(try_open(0, 0, &second, &fresh), MT_CLASS_CHECKPOINT, "in use by pid");
    run_batch(store, 0);
    mt_store_close(store);
}

static void a_program_started_by_the_owner_does_not_keep_the_lock(void **unused)
{
    (void)unused;
    struct mt_store *store = open_store();
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[0], STDIN_FILENO);
        close(ends[1]);
        execlp("cat", "cat", (char *)NULL); /* lives until the pipe is closed */
        _exit(1);
    }
    close(ends[0]);
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/exe", (int)pid);
    char exe[200];
    ssize_t len;
    do /* until exec has closed what it must */
        len = readlink(path, exe, sizeof exe - 1);
    while (len > 0 && (exe[len] = '\0', strstr(exe, "store_open") != NULL));
    mt_store_close(store);
    mt_store_close(open_store());
    close(ends[1]);
    waitpid(pid, NULL, 0);
}

static void of_many_who_make_it_at_once_one_owns_it(void **unused)
{
    (void)unused;
    enum { N = 8 };
    int go[2], done[2], stay[2], owners = 0;
    char ids[N][37], first[37] = "";
    pid_t pids[N];
    assert_int_equal(pipe(go) | pipe(done) | pipe(stay), 0);
    for (int i = 0; i < N; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            struct mt_store *store;
            bool fresh;
            char byte, id[37] = "";
            close(go[1]), close(stay[1]);
            if (read(go[0], &byte, 1) == 0 && try_open(0, 0, &store, &fresh) == MT_OK)
                snprintf(id, sizeof id, "%s", mt_store_query_id(store));
            else if (!strstr(err.text, "in use by"))
                snprintf(id, sizeof id, "%.36s", err.text);
            if (write(done[1], id, sizeof id) != sizeof id || read(stay[0], &byte, 1) != 0)
                _exit(1);
            _exit(0);
        }
    }
    close(go[1]);
    for (int i = 0; i < N; i++) {
        assert_int_equal(read(done[0], ids[i], 37), 37);
        if (ids[i][0]) {
            owners++;
            memcpy(first, ids[i], 37);
        }
    }
    close(stay[1]);
    for (int i = 0; i < N; i++)
        waitpid(pids[i], NULL, 0);
    assert_int_equal(owners, 1);
    struct mt_store *store = open_store();
    assert_string_equal(mt_store_query_id(store), first);
    mt_store_close(store);
    close(go[0]), close(done[0]), close(done[1]), close(stay[0]);
}

/* ---- crashes while it is made */

static void open_and_exit(void *ctx)
{
    (void)ctx;
    struct mt_store *store;
    bool fresh;
    if (try_open(0, 0, &store, &fresh) != MT_OK)
        _exit(1);
    mt_store_close(store);
}

static void a_kill_while_it_is_made_leaves_a_new_or_no_checkpoint(void **unused)
{
    (void)unused;
    const char *const steps[] = {"store.first", "store.built", "store.renamed"};
    for (size_t i = 0; i < 3; i++) {
        struct mt_store *store;
        bool fresh;
        snprintf(dir, sizeof dir, "%s/kill-%zu", root, i);
        setenv("MOONTIDE_KILL", steps[i], 1);
        int status = in_child(open_and_exit, NULL);
        unsetenv("MOONTIDE_KILL");
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        assert_int_equal(exists(dir), i == 2);
        expect_ok(try_open(0, 0, &store, &fresh));
        assert_int_equal(fresh, i < 2);
        run_batch(store, 0);
        mt_store_close(store);
        char building[100];
        snprintf(building, sizeof building, "%s.new", dir);
        assert_false(exists(building));
    }
}

static void a_leftover_beside_a_whole_checkpoint_is_removed(void **unused)
{
    (void)unused;
    char building[100];
    mt_store_close(open_store());
    snprintf(building, sizeof building, "%s.new", dir);
    mkdir(building, 0755);
    char path[120];
    snprintf(path, sizeof path, "%s/data.mdb", building);
    write_file(path, "half", 4);
    mt_store_close(open_store());
    assert_false(exists(building));
}

static void a_users_folder_of_that_name_is_not_touched(void **unused)
{
    (void)unused;
    char building[100], path[120];
    struct mt_store *store;
    bool fresh;
    snprintf(building, sizeof building, "%s.new", dir);
    snprintf(path, sizeof path, "%s/thesis.tex", building);
    mkdir(building, 0755);
    write_file(path, "x", 1);
    expect_fatal(try_open(0, 0, &store, &fresh), MT_CLASS_CHECKPOINT, "other files");
    assert_true(exists(path));
}

static void a_full_disk_while_it_is_made_is_told_and_mended(void **unused)
{
    (void)unused;
    struct mt_store *store;
    bool fresh;
    setenv("MOONTIDE_FAIL", "store.first=28", 1); /* ENOSPC */
    expect_fatal(try_open(0, 0, &store, &fresh), MT_CLASS_MACHINE, "no space left");
    assert_false(exists(dir));
    unsetenv("MOONTIDE_FAIL");
    mt_store_close(open_store());
}

/* ---- readers */

static void a_reader_looks_beside_the_owner_and_changes_nothing(void **unused)
{
    (void)unused;
    struct mt_store *owner = open_store(), *reader;
    run_batch(owner, 0);
    expect_ok(mt_store_open_read(dir, &reader, &err));
    assert_string_equal(mt_store_query_id(reader), mt_store_query_id(owner));
    expect_last(reader, 0, 0);
    run_batch(owner, 1);
    expect_last(reader, 1, 1);
    mt_store_close(reader);
    run_batch(owner, 2);
    expect_last(owner, 2, 2);
    mt_store_close(owner);
}

static void read_in_child(void *ctx)
{
    struct mt_store *reader;
    char *text;
    int64_t plan, commit;
    bool running = ctx != NULL;
    if (mt_store_open_read(dir, &reader, &err) != MT_OK ||
        mt_store_last(reader, &plan, &commit, &err) != MT_OK || plan != 1 || commit != 0)
        _exit(1);
    text = mt_store_describe(reader);
    if (!strstr(text, running ? "\"running\":true" : "\"running\":false") ||
        !strstr(text, "\"owner\":\"pid ") || !strstr(text, "\"plans\":2") ||
        !strstr(text, "\"mapBytes\":"))
        _exit(2);
    free(text);
    mt_store_close(reader);
}

static void another_process_reads_while_it_runs_and_after(void **unused)
{
    (void)unused;
    struct mt_store *owner = open_store();
    run_batch(owner, 0);
    expect_ok(put_plan(owner, 1, HASH_A, "the script"));
    assert_int_equal(in_child(read_in_child, "running"), 0);
    run_batch(owner, 1);
    mt_store_close(owner);
    owner = open_store();
    expect_ok(put_plan(owner, 2, HASH_A, "the script"));
    mt_store_close(owner);
}

/* As it was made before there was a state. */
static void drop_state(void)
{
    MDB_env *env;
    MDB_txn *txn;
    MDB_dbi dbi;
    assert_int_equal(mdb_env_create(&env), 0);
    assert_int_equal(mdb_env_set_maxdbs(env, STORE_DATABASES), 0);
    assert_int_equal(mdb_env_open(env, dir, 0, 0644), 0);
    assert_int_equal(mdb_txn_begin(env, NULL, 0, &txn), 0);
    assert_int_equal(mdb_dbi_open(txn, "state", 0, &dbi), 0);
    assert_int_equal(mdb_drop(txn, dbi, 1), 0);
    assert_int_equal(mdb_txn_commit(txn), 0);
    mdb_env_close(env);
}

static void a_checkpoint_from_before_there_was_state_gets_one(void **unused)
{
    (void)unused;
    struct mt_store *store = open_store();
    char id[37];
    const void *value;
    size_t len;
    snprintf(id, sizeof id, "%s", mt_store_query_id(store));
    mt_store_close(store);
    drop_state();
    expect_fatal(mt_store_open_read(dir, &store, &err), MT_CLASS_CHECKPOINT,
                 "it can be looked at once its job has run");
    store = open_store();
    assert_string_equal(mt_store_query_id(store), id);
    assert_int_equal(mt_state_count(mt_store_state(store)), 0);
    expect_ok(mt_state_get(mt_store_state(store), "a", 1, &value, &len, &err));
    assert_null(value);
    mt_store_close(store);
    expect_ok(mt_store_open_read(dir, &store, &err));
    mt_store_close(store);
}

static void a_reader_alone_leaves_the_data_as_it_was(void **unused)
{
    (void)unused;
    struct mt_store *owner = open_store();
    run_batch(owner, 0);
    expect_ok(put_plan(owner, 1, HASH_A, "the script"));
    mt_store_close(owner);
    struct stat before, after;
    stat(in_dir("data.mdb"), &before);
    assert_int_equal(in_child(read_in_child, NULL), 0);
    stat(in_dir("data.mdb"), &after);
    assert_int_equal(before.st_mtim.tv_sec, after.st_mtim.tv_sec);
    assert_int_equal(before.st_mtim.tv_nsec, after.st_mtim.tv_nsec);
    assert_int_equal(before.st_size, after.st_size);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        store_test(a_new_checkpoint_keeps_its_query_id),
        store_test(folders_above_are_made_and_an_empty_folder_is_used),
        store_test(a_folder_with_other_files_is_refused_and_left_alone),
        store_test(a_checkpoint_without_its_data_file_is_never_begun_anew),
        store_test(a_plain_file_and_a_missing_folder_are_refused),
        store_test(object_stores_and_network_disks_are_refused_by_name),
        store_test(another_format_is_refused_with_its_version),
        store_test(a_second_process_is_refused_by_name),
        store_test(a_killed_owner_leaves_nothing_behind),
        store_test(the_same_process_is_refused_too),
        store_test(a_program_started_by_the_owner_does_not_keep_the_lock),
        store_test(of_many_who_make_it_at_once_one_owns_it),
        store_test(a_kill_while_it_is_made_leaves_a_new_or_no_checkpoint),
        store_test(a_leftover_beside_a_whole_checkpoint_is_removed),
        store_test(a_users_folder_of_that_name_is_not_touched),
        store_test(a_full_disk_while_it_is_made_is_told_and_mended),
        store_test(a_reader_looks_beside_the_owner_and_changes_nothing),
        store_test(another_process_reads_while_it_runs_and_after),
        store_test(a_reader_alone_leaves_the_data_as_it_was),
        store_test(a_checkpoint_from_before_there_was_state_gets_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
