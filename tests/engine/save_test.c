/* SPDX-License-Identifier: Apache-2.0
 *
 * save_test.c - foreachBatch: any number of saves and a state, each batch once in all of them. */
#include <signal.h>
#include <sys/wait.h>

#include "engine/engine_int.h"
#include "saves.h"

#define HASH_1 "1111111111111111111111111111111111111111111111111111111111111111"
#define HASH_2 "2222222222222222222222222222222222222222222222222222222222222222"

static enum mt_status two_sinks_and_state(struct mt_run *run, struct mt_error *err)
{
    enum mt_status status = save(run, "a", 0, 6, err);
    if (status == MT_OK)
        status = save(run, "b", 6, 4, err);
    return status == MT_OK ? count_rows(run, err) : status;
}

static void test_each_save_and_the_state_have_each_batch_once(void **state)
{
    (void)state;
    struct bench bench;
    struct script script;
    saves_init(&bench, &script, two_sinks_and_state, 30);
    saves_run_ok(&bench, &script);
    assert_int_equal(sinks_made, 2); /* and kept for all batches */
    expect_stored("vault a", 3, 18);
    expect_stored("vault b", 3, 12);
    assert_int_equal(state_rows(&bench), 30);
    expect_shown(&bench, "\"sinks\":[{\"sink\":\"vault a\",\"given\":6,\"stored\":6,");
    assert_non_null(strstr(bench.last_json,
                           "\"sink\":{\"description\":\"ForeachBatchSink\",\"numOutputRows\":-1}"));
    expect_shown(&bench, "{\"sink\":\"vault b\",\"columns\":\"n BIGINT\",\"attempt\":1,\"rows\":4,"
                         "\"about\":{\"description\":\"Vault\"");
    expect_shown(&bench, "\"state\":[{\"name\":\"foreachBatch\",\"keys\":1,\"bytes\":4096}]");
    saves_deinit(&bench);
}

static int durable_writes_of(script_fn fn, int64_t batches)
{
    struct bench bench;
    struct script script;
    saves_init(&bench, &script, fn, 10 * batches);
    durable_writes = 0;
    saves_run_ok(&bench, &script);
    saves_deinit(&bench);
    return durable_writes;
}

/* Plan and commit, which holds the state; and what each save is about to store. */
static void test_a_batch_makes_two_durable_writes_and_one_for_each_save(void **state)
{
    (void)state;
    int of_state = durable_writes_of(count_rows, 5) - durable_writes_of(count_rows, 1);
    assert_int_equal(of_state, 4 * 2);
    int of_saves =
        durable_writes_of(two_sinks_and_state, 5) - durable_writes_of(two_sinks_and_state, 1);
    assert_int_equal(of_saves, 4 * (2 + 2));
}

/* ---- secrets */

static const char *password, *kept_as; /* of a save, and what its record may hold */
static bool secret_is_gone;

static enum mt_status secret_of(void *self, const char *name, char **value, struct mt_error *err)
{
    (void)self;
    if (secret_is_gone)
        return mt_fail(err, MT_FATAL, MT_CLASS_JOB, "mt.secret \"%s\" is not set", name);
    *value = mt_strdup(strcmp(name, "PW") == 0 ? "hunter2222" : "wrong");
    return MT_OK;
}

static enum mt_status save_with_password(struct mt_run *run, const char *path, struct mt_error *err)
{
    struct mt_sink_settings settings = {.format = "vault", .path = path};
    struct mt_sink_record stored;
    mt_pairs_add(&settings.options, "user", "me");
    mt_pairs_add_secret(&settings.options, "password", password, kept_as);
    enum mt_status status = mt_run_save(run, &settings, &run->inputs[0], &stored, err);
    mt_pairs_free(&settings.options);
    return status;
}

static int failures; /* still to come */

static enum mt_status two_with_a_password(struct mt_run *run, struct mt_error *err)
{
    enum mt_status status = save_with_password(run, "a", err);
    if (status == MT_OK && failures > 0 && failures--)
        return raise_error(err);
    return status == MT_OK ? save_with_password(run, "b", err) : status;
}

static void password_init(struct bench *bench, struct script *script)
{
    saves_init(bench, script, two_with_a_password, 20);
    bench->settings.secrets.get = secret_of;
    password = "hunter2222";
    kept_as = "{\"secret\":\"PW\"}";
    secret_is_gone = false;
    failures = 0;
}

/* The checkpoint's raw bytes. */
static bool is_in_the_checkpoint(const struct bench *bench, const char *word)
{
    char path[128];
    snprintf(path, sizeof path, "%s/ckpt/data.mdb", bench->dir);
    FILE *in = fopen(path, "r");
    assert_non_null(in);
    struct mt_buf bytes = {0};
    mt_buf_reserve(&bytes, 16 << 20);
    bytes.len = fread(bytes.data, 1, 16 << 20, in);
    fclose(in);
    bool found = memmem(bytes.data, bytes.len, word, strlen(word)) != NULL;
    mt_buf_free(&bytes);
    return found;
}

static void test_a_secret_of_a_save_is_in_no_record(void **state)
{
    (void)state;
    struct bench bench;
    struct script script;
    password_init(&bench, &script);
    saves_run_ok(&bench, &script);
    expect_stored("vault b", 2, 20);
    assert_false(is_in_the_checkpoint(&bench, "hunter"));
    assert_true(is_in_the_checkpoint(&bench, "[\"password\",{\"secret\":\"PW\"}]"));
    saves_deinit(&bench);
}

static void test_a_sink_that_is_asked_after_a_crash_is_given_todays_secret(void **state)
{
    (void)state;
    struct bench bench;
    struct script script;
    password_init(&bench, &script);
    password = "Pwd=hunter2222;Uid=me";
    kept_as = "[\"Pwd=\",{\"secret\":\"PW\"},\";Uid=me\"]";
    failures = 1;
    saves_run_fails(&bench, &script, "amount is null here");
    assert_false(is_in_the_checkpoint(&bench, "hunter"));
    given_password[0] = '\0';
    assert_int_equal(saves_open(&bench, &script), MT_OK);
    enum mt_turn turn;
    int64_t at_ms;
    for (int i = 0; i < 2; i++) /* open, recover */
        assert_int_equal(mt_query_step(bench.query, bench.now_ms, &turn, &at_ms, &bench.err),
                         MT_OK);
    assert_string_equal(given_password, password);
    assert_int_equal(bench_run(&bench), MT_OK);
    bench_close(&bench);
    expect_stored("vault a", 2, 20);
    expect_stored("vault b", 2, 20);
    assert_false(is_in_the_checkpoint(&bench, "hunter"));
    saves_deinit(&bench);
}

static void test_a_secret_that_is_gone_is_named_where_a_sink_must_be_asked(void **state)
{
    (void)state;
    struct bench bench;
    struct script script;
    password_init(&bench, &script);
    failures = 1;
    saves_run_fails(&bench, &script, "amount is null here");
    secret_is_gone = true;
    saves_run_fails(&bench, &script,
                    "asking vault a whether it holds it: mt.secret \"PW\" is not set");
    secret_is_gone = false;
    saves_run_ok(&bench, &script);
    expect_stored("vault b", 2, 20);
    saves_deinit(&bench);
}

static enum mt_status another_password_each_batch(struct mt_run *run, struct mt_error *err)
{
    password = run->batch_id == 1 ? "second one" : "first one";
    return save_with_password(run, "a", err);
}

static void test_another_secret_of_the_same_name_makes_the_sink_anew(void **state)
{
    (void)state;
    struct bench bench;
    struct script script;
    password_init(&bench, &script);
    script.today = another_password_each_batch;
    saves_run_ok(&bench, &script);
    assert_int_equal(sinks_made, 2);
    assert_string_equal(given_password, "second one");
    expect_stored("vault a", 2, 20);
    saves_deinit(&bench);
}

/* ---- identities */

static enum mt_status twice_to_one_path(struct mt_run *run, struct mt_error *err)
{
    enum mt_status status = save(run, "a", 0, 6, err);
    return status == MT_OK ? save(run, "a", 6, 4, err) : status;
}

static void test_two_saves_to_one_path_are_two_sinks(void **state)
{
    (void)state;
    struct bench bench;
    struct script script;
    saves_init(&bench, &script, twice_to_one_path, 20);
    saves_run_ok(&bench, &script);
    expect_stored("vault a", 2, 12);
    expect_stored("vault a #2", 2, 8);
    saves_deinit(&bench);
}

static enum mt_status one_name_twice(struct mt_run *run, struct mt_error *err)
{
    enum mt_status status = save_of(run, "vault", "a", "mine", 0, 6, err);
    return status == MT_OK ? save_of(run, "vault", "b", "mine", 6, 4, err) : status;
}

static void test_two_saves_of_one_name_are_refused(void **state)
{
    (void)state;
    struct bench bench;
    struct script script;
    saves_init(&bench, &script, one_name_twice, 20);
    saves_run_fails(&bench, &script, "a second save is named \"mine\" in this batch");
    saves_deinit(&bench);
}

static enum mt_status by_turns(struct mt_run *run, struct mt_error *err)
{
    bool even = run->batch_id % 2 == 0;
    enum mt_status status = even ? MT_OK : save(run, "a", 0, 2, err);
    if (status == MT_OK)
        status = save(run, even ? "b" : "c", 2, 3, err);
    return status == MT_OK ? save(run, even ? "c" : "b", 5, 5, err) : status;
}

static void test_saves_under_conditions_and_in_other_order_keep_their_sinks(void **state)
{
    (void)state;
    struct bench bench;
    struct script script;
    saves_init(&bench, &script, by_turns, 40);
    saves_run_ok(&bench, &script);
    expect_stored("vault a", 2, 4);
    expect_stored("vault b", 4, 16);
    expect_stored("vault c", 4, 16);
    saves_deinit(&bench);
}

/* ---- a script that fails */

static enum mt_status fails_between(struct mt_run *run, struct mt_error *err)
{
    enum mt_status status = count_rows(run, err);
    if (status == MT_OK)
        status = save(run, "a", 0, 6, err);
    if (status == MT_OK && failures > 0 && failures--)
        return raise_error(err);
    return status == MT_OK ? save(run, "b", 6, 4, err) : status;
}

static void test_what_one_sink_holds_is_skipped_when_the_batch_runs_again(void **state)
{
    (void)state;
    struct bench bench;
    struct script script;
    saves_init(&bench, &script, fails_between, 20);
    failures = 1;
    saves_run_fails(&bench, &script, "batch 0: job.lua:7: amount is null here");
    assert_int_equal(state_rows(&bench), 0);
    saves_run_ok(&bench, &script);
    assert_int_equal(script.replays, 0); /* it is the script that began the batch */
    assert_int_equal(vault_of("vault a")->commits, 2);
    expect_stored("vault a", 2, 12);
    expect_stored("vault b", 2, 8);
    assert_int_equal(state_rows(&bench), 20);
    saves_deinit(&bench);
}

static enum mt_status fails_before(struct mt_run *run, struct mt_error *err)
{
    enum mt_status status = count_rows(run, err);
    (void)run;
    return status == MT_OK ? raise_error(err) : status;
}

static enum mt_status mended(struct mt_run *run, struct mt_error *err)
{
    enum mt_status status = count_rows(run, err);
    return status == MT_OK ? save(run, "mended", 0, 10, err) : status;
}

static void test_a_script_mended_before_any_save_runs_the_batch(void **state)
{
    (void)state;
    struct bench bench;
    struct script script;
    saves_init(&bench, &script, fails_before, 20);
    saves_run_fails(&bench, &script, "amount is null here");
    script.today = mended;
    bench.settings.bundle_hash = HASH_2;
    saves_run_ok(&bench, &script);
    assert_int_equal(script.replays, 0);
    expect_stored("vault mended", 2, 20);
    assert_string_equal(vault_of("vault mended")->batches[0].bundle, HASH_2);
    assert_int_equal(state_rows(&bench), 20);
    saves_deinit(&bench);
}

static void test_a_script_mended_after_a_save_waits_for_the_next_batch(void **state)
{
    (void)state;
    struct bench bench;
    struct script script;
    saves_init(&bench, &script, fails_between, 20);
    failures = 1;
    saves_run_fails(&bench, &script, "amount is null here");
    script.planned = fails_between;
    script.today = mended;
    bench.settings.bundle_hash = HASH_2;
    bench.settings.bundle = "{\"files\":[2]}";
    saves_run_ok(&bench, &script);
    assert_int_equal(script.replays, 1);
    assert_string_equal(script.bundle, "{\"files\":[]}");
    expect_stored("vault a", 1, 6);
    expect_stored("vault b", 1, 4);
    assert_string_equal(vault_of("vault b")->batches[0].bundle, HASH_1);
    expect_stored("vault mended", 1, 10);
    assert_string_equal(vault_of("vault mended")->batches[0].bundle, HASH_2);
    assert_int_equal(state_rows(&bench), 20);
    saves_deinit(&bench);
}

static void test_a_planned_script_that_fails_again_stops_and_todays_may_finish(void **state)
{
    (void)state;
    struct bench bench;
    struct script script;
    saves_init(&bench, &script, fails_between, 20);
    failures = 2;
    saves_run_fails(&bench, &script, "amount is null here");
    script.planned = fails_between;
    script.today = mended;
    bench.settings.bundle_hash = HASH_2;
    saves_run_fails(&bench, &script, "Of this batch vault a holds it (6 rows)");
    assert_non_null(strstr(bench.err.text, "amount is null here"));
    assert_non_null(strstr(bench.err.text, "--finish-with-new-script"));
    bench.settings.finish_with_new_script = true;
    setenv("MOONTIDE_FAIL", "store.commit:0", 1); /* and once said, it holds for a restart */
    saves_run_fails(&bench, &script, "no space left");
    unsetenv("MOONTIDE_FAIL");
    bench.settings.finish_with_new_script = false;
    saves_run_ok(&bench, &script);
    expect_stored("vault a", 1, 6);
    expect_stored("vault mended", 2, 20);
    assert_int_equal(vault_of("vault mended")->commits, 2);
    assert_int_equal(state_rows(&bench), 20);
    saves_deinit(&bench);
}

/* ---- a script that does something else the second time */

static const char *second_path;
static int32_t first_rows, second_rows;

static enum mt_status two_saves(struct mt_run *run, struct mt_error *err)
{
    enum mt_status status = save(run, "a", 0, first_rows, err);
    if (status == MT_OK && failures > 0 && failures--)
        return raise_error(err);
    return status == MT_OK && second_path ? save(run, second_path, 0, second_rows, err) : status;
}

/* Leaves batch 0 with `a` stored and, by a kill between intent and commit, `b` intended. */
static void leave_half(struct bench *bench, struct script *script)
{
    saves_init(bench, script, two_saves, 20);
    failures = 0;
    second_path = "b";
    first_rows = 6;
    second_rows = 4;
    vault_of("vault a");
    setenv("MOONTIDE_KILL", "calls.after:0#2", 1);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (saves_open(bench, script) == MT_OK)
            bench_run(bench);
        _exit(3);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    unsetenv("MOONTIDE_KILL");
    expect_stored("vault a", 1, 6);
    expect_stored("vault b", 0, 0);
}

static void test_other_sinks_the_second_time_stop_the_query(void **state)
{
    (void)state;
    struct bench bench;
    struct script script;
    leave_half(&bench, &script);
    second_path = "c";
    saves_run_fails(&bench, &script, "saves to vault c where it saved to vault b");
    assert_non_null(strstr(bench.err.text, "vault a holds it (6 rows), vault b does not"));
    assert_non_null(strstr(bench.err.text, "--accept-replay 0"));
    expect_stored("vault c", 0, 0);
    bench.settings.accept_replay = 0;
    bench.settings.max_batches = 1;
    saves_run_ok(&bench, &script);
    expect_shown(&bench, "{\"sink\":\"vault a\",\"given\":6,\"stored\":6,");
    expect_shown(&bench, "{\"sink\":\"vault c\",\"given\":4,\"stored\":4,");
    bench.settings.max_batches = 0;
    saves_run_ok(&bench, &script);
    expect_stored("vault a", 2, 12);
    expect_stored("vault b", 0, 0);
    expect_stored("vault c", 2, 8);
    saves_deinit(&bench);
}

static void test_other_rows_the_second_time_stop_the_query(void **state)
{
    (void)state;
    struct bench bench;
    struct script script;
    leave_half(&bench, &script);
    first_rows = 5;
    saves_run_fails(&bench, &script, "gives vault a 5 rows where it gave 6");
    bench.settings.accept_replay = 0;
    saves_run_ok(&bench, &script);
    expect_stored("vault a", 2, 6 + 5);
    expect_stored("vault b", 2, 8);
    saves_deinit(&bench);
}

static void test_fewer_saves_the_second_time_stop_the_query(void **state)
{
    (void)state;
    struct bench bench;
    struct script script;
    leave_half(&bench, &script);
    second_path = NULL;
    saves_run_fails(&bench, &script, "ends before it saves to vault b");
    second_path = "b";
    saves_run_ok(&bench, &script);
    expect_stored("vault b", 2, 8);
    saves_deinit(&bench);
}

/* ---- sinks in trouble */

static enum mt_status catches_all(struct mt_run *run, struct mt_error *err)
{
    struct mt_error caught;
    enum mt_status status = count_rows(run, err), first = save(run, "a", 0, 6, &caught);
    enum mt_status second = save(run, "b", 6, 4, &caught);
    if (first == MT_RETRY || first == MT_FATAL) {
        assert_int_equal(second, first);
        assert_int_equal(vault_of("vault b")->begins, 0);
    }
    return status;
}

static void
test_a_save_that_may_have_stored_dooms_the_batch_whatever_the_script_makes_of_it(void **state)
{
    (void)state;
    struct bench bench;
    struct script script;
    saves_init(&bench, &script, catches_all, 10);
    vault_of("vault a")->commit_retries = 3;
    saves_run_ok(&bench, &script);
    assert_int_equal(script.resets, 3);
    expect_stored("vault a", 1, 6);
    expect_stored("vault b", 1, 4);
    assert_int_equal(state_rows(&bench), 10); /* not forty: state is that of the last commit */
    saves_deinit(&bench);
}

static void fail_making(enum mt_status status, enum mt_class class_, int times)
{
    making_fails = status;
    making_class = class_;
    making_failures = times;
}

static void test_a_destination_that_is_away_while_its_sink_is_made_is_retried(void **state)
{
    (void)state;
    struct bench bench;
    struct script script;
    saves_init(&bench, &script, catches_all, 10);
    fail_making(MT_RETRY, MT_CLASS_SINK, 2);
    saves_run_ok(&bench, &script);
    assert_int_equal(script.resets, 2);
    expect_stored("vault a", 1, 6);
    expect_stored("vault b", 1, 4);
    assert_int_equal(state_rows(&bench), 10);
    saves_deinit(&bench);
}

static void
test_a_sink_that_cannot_be_made_dooms_the_batch_whatever_the_script_makes_of_it(void **state)
{
    (void)state;
    struct bench bench;
    struct script script;
    saves_init(&bench, &script, catches_all, 10);
    fail_making(MT_FATAL, MT_CLASS_SINK, 1);
    saves_run_fails(&bench, &script, "the vault's door is shut");
    expect_stored("vault b", 0, 0);
    saves_run_ok(&bench, &script);
    expect_stored("vault a", 1, 6);
    saves_deinit(&bench);
}

static void test_settings_that_are_wrong_are_the_scripts_to_handle(void **state)
{
    (void)state;
    struct bench bench;
    struct script script;
    saves_init(&bench, &script, catches_all, 10);
    fail_making(MT_FATAL, MT_CLASS_JOB, 1);
    saves_run_ok(&bench, &script);
    expect_stored("vault a", 0, 0);
    expect_stored("vault b", 1, 4);
    saves_deinit(&bench);
}

static void
test_at_a_start_the_sinks_of_the_last_commit_settle_before_anything_is_read(void **state)
{
    (void)state;
    struct bench bench;
    struct script script;
    saves_init(&bench, &script, two_sinks_and_state, 20);
    saves_run_ok(&bench, &script);
    vaults_recovered = 0;
    vault_recover_retries = 2;
    bench.source->total = 30;
    saves_run_ok(&bench, &script);
    assert_int_equal(vaults_recovered, 2 + 2);
    expect_stored("vault a", 3, 18);
    making_failures = 0;
    fail_making(MT_FATAL, MT_CLASS_SINK, 1); /* and one that is no more holds nothing up */
    saves_run_ok(&bench, &script);
    saves_deinit(&bench);
}

static void test_a_lost_answer_is_settled_by_begin_and_the_save_is_not_committed_twice(void **state)
{
    (void)state;
    struct bench bench;
    struct script script;
    saves_init(&bench, &script, catches_all, 10);
    vault_of("vault a")->lost_answers = 1;
    saves_run_ok(&bench, &script);
    assert_int_equal(vault_of("vault a")->commits, 1);
    expect_stored("vault a", 1, 6);
    expect_stored("vault b", 1, 4);
    assert_int_equal(state_rows(&bench), 10);
    expect_shown(&bench, "\"sinks\":[{\"sink\":\"vault a\",\"given\":6,\"stored\":6,");
    saves_deinit(&bench);
}

static void test_a_rejected_save_is_the_scripts_to_handle(void **state)
{
    (void)state;
    struct bench bench;
    struct script script;
    saves_init(&bench, &script, catches_all, 10);
    vault_of("vault a")->begin_fails = MT_REJECT;
    saves_run_ok(&bench, &script);
    assert_int_equal(script.resets, 0);
    expect_stored("vault a", 0, 0);
    expect_stored("vault b", 1, 4);
    saves_deinit(&bench);
}

static void test_a_sink_that_lies_by_one_row_stops_the_batch(void **state)
{
    (void)state;
    struct bench bench;
    struct script script;
    saves_init(&bench, &script, catches_all, 10);
    vault_of("vault a")->lies = 1;
    saves_run_fails(&bench, &script, "was given 6 rows and says it stored 7");
    vault_of("vault a")->lies = 0;
    expect_stored("vault b", 0, 0);
    assert_int_equal(state_rows(&bench), 0);
    saves_deinit(&bench);
}

static enum mt_status passes_it_on(struct mt_run *run, struct mt_error *err)
{
    enum mt_status status = save(run, "a", 0, 6, err);
    err->class_ = MT_CLASS_SCRIPT; /* as an error is that went through Lua */
    return status == MT_OK ? MT_OK : mt_fail_within(err, MT_REJECT, "job.lua:3: ");
}

static void test_a_sinks_trouble_is_not_said_to_be_the_scripts(void **state)
{
    (void)state;
    struct bench bench;
    struct script script;
    saves_init(&bench, &script, passes_it_on, 10);
    vault_of("vault a")->begin_fails = MT_FATAL;
    saves_run_fails(&bench, &script, "batch 0: job.lua:3: the vault is away");
    assert_int_equal(bench.err.class_, MT_CLASS_SINK);
    saves_deinit(&bench);
}

static void test_a_batch_another_query_holds_is_fatal(void **state)
{
    (void)state;
    struct bench bench;
    struct script script;
    saves_init(&bench, &script, catches_all, 10);
    vault_of("vault a")->batches[0] = (struct vault_batch){.id = 0, .digest = "other"};
    vault_of("vault a")->n = 1;
    saves_run_fails(&bench, &script, "under another digest");
    saves_deinit(&bench);
}

/* ---- sinks without a memory */

static enum mt_status tells_and_saves(struct mt_run *run, struct mt_error *err)
{
    enum mt_status status = save_of(run, "forgetful", "screen", NULL, 0, 10, err);
    if (status == MT_OK)
        status = save(run, "a", 0, first_rows, err);
    if (status == MT_OK)
        status = save_of(run, "forgetful", "screen", NULL, 0, 1, err);
    if (status == MT_OK && failures > 0 && failures--)
        return raise_error(err);
    return status;
}

static void test_a_sink_without_a_memory_is_given_its_rows_again(void **state)
{
    (void)state;
    struct bench bench;
    struct script script;
    saves_init(&bench, &script, tells_and_saves, 10);
    failures = 1;
    first_rows = 4;
    saves_run_fails(&bench, &script, "amount is null here");
    saves_run_ok(&bench, &script);
    expect_stored("vault a", 1, 4);
    assert_int_equal(vault_of("forgetful screen")->commits, 2);
    assert_int_equal(vault_of("forgetful screen #2")->commits, 2);
    saves_deinit(&bench);
}

/* ---- killed at every step */

static const char *const kill_steps[] = {
    "plan.after:1",   "read.after:1",     "sink.written:1",   "sink.written:1#2",
    "calls.before:1", "calls.before:1#2", "calls.after:1",    "calls.after:1#2",
    "store.calls:1",  "store.calls:1#2",  "sink.committed:1", "sink.committed:1#2",
    "run.after:1",    "commit.before:1",  "store.commit:1",   "commit.after:1",
};

static void
test_killed_at_every_step_each_sink_has_each_batch_once_and_the_state_counts_right(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof kill_steps / sizeof *kill_steps; i++) {
        struct bench bench;
        struct script script;
        saves_init(&bench, &script, two_sinks_and_state, 30);
        vault_of("vault a"), vault_of("vault b");
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            setenv("MOONTIDE_KILL", kill_steps[i], 1);
            if (saves_open(&bench, &script) == MT_OK)
                bench_run(&bench);
            _exit(3);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
            fail_msg("no kill at %s", kill_steps[i]);
        saves_run_ok(&bench, &script);
        expect_stored("vault a", 3, 18);
        expect_stored("vault b", 3, 12);
        assert_int_equal(state_rows(&bench), 30);
        saves_deinit(&bench);
    }
}

/* ---- the same with real files: two saves to one path, and one to another */

static char table[128], other_table[128];

static enum mt_status three_tables(struct mt_run *run, struct mt_error *err)
{
    enum mt_status status = save_of(run, "parquet", table, NULL, 0, 5, err);
    if (status == MT_OK)
        status = save_of(run, "parquet", table, NULL, 5, 3, err);
    if (status == MT_OK)
        status = save_of(run, "parquet", other_table, NULL, 8, 2, err);
    return status == MT_OK ? count_rows(run, err) : status;
}

/* Files of the table whose names match. */
static int files_like(const char *path, const char *pattern)
{
    char command[256];
    int n = -1;
    snprintf(command, sizeof command, "find %s -name '%s' | wc -l", path, pattern);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    assert_int_equal(fscanf(pipe, "%d", &n), 1);
    pclose(pipe);
    return n;
}

static void tables_init(struct bench *bench, struct script *script)
{
    saves_init(bench, script, three_tables, 30);
    snprintf(table, sizeof table, "%s/table", bench->dir);
    snprintf(other_table, sizeof other_table, "%s/other", bench->dir);
}

static void expect_tables(const struct bench *bench)
{
    char part[200];
    assert_int_equal(files_like(table, "*.parquet"), 6); /* one a save */
    assert_int_equal(files_like(other_table, "*.parquet"), 3);
    assert_int_equal(files_like(table, "*.tmp") + files_like(other_table, "*.tmp"), 0);
    assert_int_equal(files_like(table, "[0-9]") + files_like(other_table, "[0-9]"), 9); /* log */
    snprintf(part, sizeof part, "{\"sink\":\"parquet %s #2\",\"columns\":\"n BIGINT\"", table);
    expect_shown(bench, part);
    expect_shown(bench, "\"marker\":{\"batch\":2,\"digest\":");
    assert_int_equal(state_rows(bench), 30);
}

static const char *const file_steps[] = {
    "file.write:1",     "file.write:1#2", "file.fsync:1#2",  "file.pending:1",
    "file.pending:1#2", "file.rename:1",  "file.rename:1#2", "file.log:1#2",
    "file.link:1",      "file.link:1#2",  "file.link:1#3",   "file.done:1",
    "file.done:1#2",    "file.done:1#3",  "calls.after:1#3", "store.calls:1#3",
};

static void test_parquet_tables_have_each_batch_once_wherever_it_is_killed(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof file_steps / sizeof *file_steps; i++) {
        struct bench bench;
        struct script script;
        tables_init(&bench, &script);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            setenv("MOONTIDE_KILL", file_steps[i], 1);
            if (saves_open(&bench, &script) == MT_OK)
                bench_run(&bench);
            fprintf(stderr, "%s: %s\n", file_steps[i], bench.err.text);
            _exit(3);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
            fail_msg("no kill at %s", file_steps[i]);
        saves_run_ok(&bench, &script);
        expect_tables(&bench);
        saves_deinit(&bench);
    }
}

static void test_a_backup_that_is_older_than_its_tables_is_noticed(void **state)
{
    (void)state;
    struct bench bench;
    struct script script;
    char checkpoint[96], backup[96], data[128];
    tables_init(&bench, &script);
    snprintf(checkpoint, sizeof checkpoint, "%s/ckpt", bench.dir);
    snprintf(backup, sizeof backup, "%s/backup", bench.dir);
    snprintf(data, sizeof data, "%s/data.mdb", checkpoint);
    bench.settings.max_batches = 1;
    saves_run_ok(&bench, &script);
    assert_int_equal(mt_store_backup(checkpoint, backup, &bench.err), MT_OK);
    bench.settings.max_batches = 0;
    saves_run_ok(&bench, &script);
    assert_int_equal(rename(backup, data), 0);
    saves_run_fails(&bench, &script, "this checkpoint is older than the destination");
    assert_int_equal(bench.err.class_, MT_CLASS_CHECKPOINT);
    assert_int_equal(files_like(table, "*.parquet"), 6);
    saves_deinit(&bench);
}

static void test_a_disk_that_fails_in_the_second_save_leaves_each_batch_once(void **state)
{
    (void)state;
    static const char *const steps[] = {"store.calls:1", "file.pending:1", "file.link:1"};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        struct bench bench;
        struct script script;
        tables_init(&bench, &script);
        setenv("MOONTIDE_FAIL", steps[i], 1);
        assert_int_equal(saves_run(&bench, &script), MT_FATAL);
        assert_int_equal(bench.err.class_, MT_CLASS_MACHINE);
        unsetenv("MOONTIDE_FAIL");
        bench_close(&bench);
        saves_run_ok(&bench, &script);
        expect_tables(&bench);
        saves_deinit(&bench);
    }
}

static void test_a_record_that_makes_no_sense_is_told_and_not_followed(void **state)
{
    (void)state;
    static const char *const settings[] = {
        "{\"format\":\"noop\",\"options\":[[\"a\",1]],\"partitionBy\":[]}",
        "{\"format\":\"noop\",\"options\":[1],\"partitionBy\":[]}",
        "{\"format\":\"noop\",\"options\":[],\"partitionBy\":[null]}",
        "{\"format\":\"noop\",\"options\":{},\"partitionBy\":[]}",
        "{\"format\":1,\"options\":[],\"partitionBy\":[]}",
        "nonsense",
    };
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        char *text = mt_strdup(settings[i]), identity[] = "noop", columns[] = "n INT";
        struct call call = {.identity = identity, .settings = text, .columns = columns};
        json_t *about = call_describe(&call, "id", NULL);
        const char *words = json_string_value(json_object_get(about, "error"));
        assert_non_null(words);
        assert_non_null(strstr(words, "the settings of noop"));
        json_decref(about);
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_save_and_the_state_have_each_batch_once),
        cmocka_unit_test(test_a_batch_makes_two_durable_writes_and_one_for_each_save),
        cmocka_unit_test(test_a_secret_of_a_save_is_in_no_record),
        cmocka_unit_test(test_a_sink_that_is_asked_after_a_crash_is_given_todays_secret),
        cmocka_unit_test(test_a_secret_that_is_gone_is_named_where_a_sink_must_be_asked),
        cmocka_unit_test(test_another_secret_of_the_same_name_makes_the_sink_anew),
        cmocka_unit_test(test_two_saves_to_one_path_are_two_sinks),
        cmocka_unit_test(test_two_saves_of_one_name_are_refused),
        cmocka_unit_test(test_saves_under_conditions_and_in_other_order_keep_their_sinks),
        cmocka_unit_test(test_what_one_sink_holds_is_skipped_when_the_batch_runs_again),
        cmocka_unit_test(test_a_script_mended_before_any_save_runs_the_batch),
        cmocka_unit_test(test_a_script_mended_after_a_save_waits_for_the_next_batch),
        cmocka_unit_test(test_a_planned_script_that_fails_again_stops_and_todays_may_finish),
        cmocka_unit_test(test_other_sinks_the_second_time_stop_the_query),
        cmocka_unit_test(test_other_rows_the_second_time_stop_the_query),
        cmocka_unit_test(test_fewer_saves_the_second_time_stop_the_query),
        cmocka_unit_test(
            test_a_save_that_may_have_stored_dooms_the_batch_whatever_the_script_makes_of_it),
        cmocka_unit_test(
            test_a_lost_answer_is_settled_by_begin_and_the_save_is_not_committed_twice),
        cmocka_unit_test(test_a_rejected_save_is_the_scripts_to_handle),
        cmocka_unit_test(test_a_destination_that_is_away_while_its_sink_is_made_is_retried),
        cmocka_unit_test(
            test_a_sink_that_cannot_be_made_dooms_the_batch_whatever_the_script_makes_of_it),
        cmocka_unit_test(test_settings_that_are_wrong_are_the_scripts_to_handle),
        cmocka_unit_test(
            test_at_a_start_the_sinks_of_the_last_commit_settle_before_anything_is_read),
        cmocka_unit_test(test_a_sink_that_lies_by_one_row_stops_the_batch),
        cmocka_unit_test(test_a_sinks_trouble_is_not_said_to_be_the_scripts),
        cmocka_unit_test(test_a_batch_another_query_holds_is_fatal),
        cmocka_unit_test(test_a_sink_without_a_memory_is_given_its_rows_again),
        cmocka_unit_test(test_parquet_tables_have_each_batch_once_wherever_it_is_killed),
        cmocka_unit_test(test_a_disk_that_fails_in_the_second_save_leaves_each_batch_once),
        cmocka_unit_test(test_a_backup_that_is_older_than_its_tables_is_noticed),
        cmocka_unit_test(test_a_record_that_makes_no_sense_is_told_and_not_followed),
        cmocka_unit_test(
            test_killed_at_every_step_each_sink_has_each_batch_once_and_the_state_counts_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
