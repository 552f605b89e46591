/* SPDX-License-Identifier: Apache-2.0
 *
 * query_test.c - the order of a batch: each number once, whatever went wrong. */
#include <signal.h>
#include <sys/wait.h>

#include "parts.h"

static void run_ok(struct bench *bench)
{
    assert_int_equal(bench_open(bench), MT_OK);
    if (bench_run(bench) != MT_OK)
        fail_msg("%s", bench->err.text);
}

static void expect_all(const struct bench *bench, int64_t total)
{
    int64_t evens = (total + 1) / 2;
    assert_int_equal(vault_rows(&bench->vault), evens);
    assert_int_equal(vault_sum(&bench->vault), evens * (evens - 1));
}

static void test_available_now_reads_within_its_limit_and_ends(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench, 95);
    bench.source->most_a_batch = 10;
    run_ok(&bench);
    assert_int_equal(bench.vault.n, 10);
    assert_int_equal(bench.source->committed, 95);
    expect_all(&bench, 95);
    bench_deinit(&bench);
}

static int durable_writes_of(int64_t batches)
{
    struct bench bench;
    bench_init(&bench, 10 * batches);
    bench.source->most_a_batch = 10;
    durable_writes = 0;
    run_ok(&bench);
    assert_int_equal(bench.vault.n, batches);
    bench_deinit(&bench);
    return durable_writes;
}

/* Its plan and its commit. */
static void test_a_batch_makes_two_durable_writes(void **state)
{
    (void)state;
    int of_one = durable_writes_of(1);
    assert_int_equal(durable_writes_of(21) - of_one, 40);
}

static void test_once_ignores_the_limit(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench, 95);
    bench.source->most_a_batch = 10;
    bench.settings.trigger.kind = MT_TRIGGER_ONCE;
    run_ok(&bench);
    assert_int_equal(bench.vault.n, 1);
    expect_all(&bench, 95);
    bench_deinit(&bench);
}

static void test_once_goes_on_where_a_batch_cannot_hold_all(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench, 95);
    bench.source->most_at_all = 40;
    bench.settings.trigger.kind = MT_TRIGGER_ONCE;
    run_ok(&bench);
    assert_int_equal(bench.vault.n, 3);
    expect_all(&bench, 95);
    bench_deinit(&bench);
}

static void test_once_only_finishes_the_batch_that_was_left(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench, 30);
    bench.settings.trigger.kind = MT_TRIGGER_ONCE;
    bench.job.fails = 1;
    assert_int_equal(bench_open(&bench), MT_OK);
    assert_int_equal(bench_run(&bench), MT_FATAL);
    bench_close(&bench);
    bench.source->total = 90;
    run_ok(&bench);
    expect_all(&bench, 30);
    bench_deinit(&bench);
}

static void test_a_second_run_without_new_data_does_nothing(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench, 20);
    run_ok(&bench);
    bench_close(&bench);
    int begins = bench.vault.begins;
    run_ok(&bench);
    assert_int_equal(bench.vault.begins, begins);
    expect_all(&bench, 20);
    bench_deinit(&bench);
}

static void test_a_restart_goes_on_where_the_last_commit_was(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench, 20);
    run_ok(&bench);
    bench_close(&bench);
    bench.source->total = 50;
    run_ok(&bench);
    assert_int_equal(bench.vault.batches[bench.vault.n - 1].id, 1);
    expect_all(&bench, 50);
    bench_deinit(&bench);
}

static void test_origin_away_at_every_stage_is_waited_for(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench, 30);
    bench.source->start_retries = 3;
    bench.source->ends_retries = 4;
    bench.source->read_retries = 5;
    run_ok(&bench);
    expect_all(&bench, 30);
    assert_int_equal(bench.job.runs, 1);
    bench_deinit(&bench);
}

static void test_a_source_that_told_its_ends_is_not_asked_again_for_another(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench, 30);
    struct numbers *second = new_numbers(&(struct numbers){.ends_retries = 3});
    bench.source->ends_retries = 2;
    assert_int_equal(bench_open_two(&bench, second), MT_OK);
    if (bench_run(&bench) != MT_OK)
        fail_msg("%s", bench.err.text);
    assert_int_equal(bench.source->asked, 3);
    assert_int_equal(second->asked, 4);
    expect_all(&bench, 30);
    bench_deinit(&bench);
}

/* Even numbers below total. */
static int64_t n_evens(int64_t total)
{
    return (total + 1) / 2;
}

static void test_of_two_sources_one_may_be_behind_and_no_row_is_lost_over_a_restart(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench, 30);
    struct numbers *second = new_numbers(
        &(struct numbers){.total = 100, .most_a_batch = 10, .ends_retries = 4, .read_retries = 2});
    bench.vault.lost_answers = 1;
    bench.settings.max_batches = 4;
    assert_int_equal(bench_open_two(&bench, second), MT_OK);
    assert_int_equal(bench_run(&bench), MT_OK);
    assert_int_equal(bench.vault.n, 4);
    assert_int_equal(vault_rows(&bench.vault), n_evens(30) + n_evens(40));
    assert_int_equal(second->committed, 40);
    assert_non_null(strstr(bench.last_json, "\"numInputRows\":0,"));
    assert_non_null(strstr(bench.last_json, "\"numInputRows\":10,"));
    bench_close(&bench);
    bench.settings.max_batches = 0;
    second = new_numbers(&(struct numbers){.total = 100});
    assert_int_equal(bench_open_two(&bench, second), MT_OK);
    assert_int_equal(bench_run(&bench), MT_OK);
    assert_int_equal(bench.vault.n, 5);
    assert_int_equal(vault_rows(&bench.vault), n_evens(30) + n_evens(100));
    assert_int_equal(vault_sum(&bench.vault), 210 + 2450);
    bench_deinit(&bench);
}

static void test_rows_of_a_source_that_no_step_takes_stop_the_query(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench, 30);
    bench.job.ignores_second = true;
    struct numbers *second = new_numbers(&(struct numbers){.total = 5});
    assert_int_equal(bench_open_two(&bench, second), MT_OK);
    assert_int_equal(bench_run(&bench), MT_FATAL);
    assert_non_null(strstr(bench.err.text, "does not add up at numbers"));
    assert_int_equal(bench.vault.commits, 0);
    bench_deinit(&bench);
}

/* Steps until the query wants to wait. */
static void step_to_a_wait(struct bench *bench)
{
    enum mt_turn turn = MT_TURN_AGAIN;
    int64_t at_ms;
    while (turn == MT_TURN_AGAIN)
        assert_int_equal(mt_query_step(bench->query, bench->now_ms, &turn, &at_ms, &bench->err),
                         MT_OK);
    assert_int_equal(turn, MT_TURN_WAIT);
}

/* Who sleeps on it would else be woken by rows that wait for the next tick, all the time. */
static void test_a_source_wakes_only_a_wait_that_it_can_end(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench, 30);
    bench.settings.trigger = (struct mt_trigger){MT_TRIGGER_PROCESSING, 10000};
    bench.source->ends_retries = 1;
    assert_int_equal(bench_open(&bench), MT_OK);
    bench.source->base.wake_fd = 0;
    step_to_a_wait(&bench);
    assert_int_equal(mt_query_wake_fd(bench.query), 0); /* for ends */
    step_to_a_wait(&bench);
    assert_int_equal(bench.vault.n, 1);
    assert_int_equal(mt_query_wake_fd(bench.query), -1); /* for the tick */
    bench_deinit(&bench);
}

static void test_rows_wake_a_query_that_has_none(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench, 30);
    bench.settings.trigger.kind = MT_TRIGGER_DEFAULT;
    assert_int_equal(bench_open(&bench), MT_OK);
    bench.source->base.wake_fd = 0;
    step_to_a_wait(&bench);
    assert_int_equal(bench.vault.n, 1);
    assert_int_equal(mt_query_wake_fd(bench.query), 0);
    bench_deinit(&bench);
}

static void test_a_source_does_not_wake_a_query_whose_sink_is_away(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench, 30);
    bench.vault.commit_retries = 1;
    assert_int_equal(bench_open(&bench), MT_OK);
    bench.source->base.wake_fd = 0;
    step_to_a_wait(&bench);
    assert_int_equal(bench.vault.commits, 1);
    assert_int_equal(mt_query_wake_fd(bench.query), -1);
    bench_deinit(&bench);
}

static void test_script_error_leaves_the_batch_uncommitted_and_a_restart_runs_it(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench, 30);
    bench.job.fails = 1;
    assert_int_equal(bench_open(&bench), MT_OK);
    assert_int_equal(bench_run(&bench), MT_FATAL);
    assert_int_equal(bench.err.class_, MT_CLASS_SCRIPT);
    assert_non_null(strstr(bench.err.text, "batch 0: job.lua:3: amount is null here"));
    assert_int_equal(bench.vault.n, 0);
    bench_close(&bench);
    bench.source->total = 90; /* what came meanwhile is not part of the planned batch */
    bench.settings.bundle_hash = "2222222222222222222222222222222222222222222222222222222222222222";
    run_ok(&bench);
    assert_int_equal(bench.vault.batches[0].rows, 15);
    assert_string_equal(bench.vault.batches[0].bundle, bench.settings.bundle_hash);
    expect_all(&bench, 90);
    bench_deinit(&bench);
}

static void test_sink_away_is_retried_with_a_fresh_script(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench, 30);
    bench.vault.commit_retries = 3;
    run_ok(&bench);
    assert_int_equal(bench.job.resets, 3);
    assert_int_equal(bench.vault.n, 1);
    expect_all(&bench, 30);
    bench_deinit(&bench);
}

static void test_lost_answer_to_commit_is_settled_by_begin(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench, 30);
    bench.vault.lost_answers = 1;
    run_ok(&bench);
    assert_int_equal(bench.vault.commits, 1);
    assert_int_equal(bench.vault.n, 1);
    assert_non_null(strstr(bench.last_line, "already stored"));
    expect_all(&bench, 30);
    bench_deinit(&bench);
}

static void expect_shown(const struct bench *bench, const char *part)
{
    char *json, checkpoint[96];
    struct mt_error err;
    snprintf(checkpoint, sizeof checkpoint, "%s/ckpt", bench->dir);
    assert_int_equal(mt_checkpoint_show(checkpoint, NULL, &json, &err), MT_OK);
    if (!strstr(json, part))
        fail_msg("no %s in %s", part, json);
    free(json);
}

static void test_lost_answer_after_other_tries_is_committed_without_their_steps(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench, 30);
    bench.vault.commit_retries = 1;
    bench.vault.lost_answers = 1;
    run_ok(&bench);
    assert_int_equal(bench.job.resets, 2);
    expect_all(&bench, 30);
    bench_close(&bench);
    expect_shown(&bench, "\"steps\":null,\"rowsRead\":30");
    bench_deinit(&bench);
}

static void test_what_nobody_read_again_is_not_said_to_be_no_rows(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench, 30);
    bench.vault.lost_answers = 1;
    assert_int_equal(bench_open(&bench), MT_OK);
    step_to_a_wait(&bench);
    bench_close(&bench);
    run_ok(&bench);
    assert_int_equal(bench.vault.n, 1);
    assert_non_null(strstr(bench.last_line, "  - rows in        15 out"));
    bench_close(&bench);
    expect_shown(&bench, "\"steps\":null,\"rowsRead\":null");
    bench_deinit(&bench);
}

static void test_sink_that_lies_by_one_row_stops_the_batch(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench, 30);
    bench.vault.lies = 1;
    assert_int_equal(bench_open(&bench), MT_OK);
    assert_int_equal(bench_run(&bench), MT_FATAL);
    assert_int_equal(bench.err.class_, MT_CLASS_INTERNAL);
    assert_non_null(strstr(bench.err.text, "given 15 rows and says it stored 16"));
    bench_deinit(&bench);
}

static void test_account_that_does_not_add_up_stops_before_the_sink(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench, 30);
    bench.job.miscounts = 1;
    assert_int_equal(bench_open(&bench), MT_OK);
    assert_int_equal(bench_run(&bench), MT_FATAL);
    assert_non_null(strstr(bench.err.text, "does not add up at filter (filter: in 30, out 15"));
    assert_int_equal(bench.vault.begins, 0);
    bench_deinit(&bench);
}

static void test_other_digest_in_the_sink_is_fatal(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench, 30);
    bench.vault.batches[0] = (struct vault_batch){.id = 0, .digest = "other"};
    bench.vault.n = 1;
    assert_int_equal(bench_open(&bench), MT_OK);
    assert_int_equal(bench_run(&bench), MT_FATAL);
    assert_int_equal(bench.err.class_, MT_CLASS_CHECKPOINT);
    bench_deinit(&bench);
}

static void test_stop_while_waiting_ends_at_once(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench, 30);
    bench.source->read_retries = 1000000;
    assert_int_equal(bench_open(&bench), MT_OK);
    enum mt_turn turn = MT_TURN_AGAIN;
    int64_t at_ms;
    while (turn != MT_TURN_WAIT)
        assert_int_equal(mt_query_step(bench.query, bench.now_ms, &turn, &at_ms, &bench.err),
                         MT_OK);
    mt_query_stop(bench.query);
    assert_int_equal(mt_query_step(bench.query, at_ms, &turn, &at_ms, &bench.err), MT_OK);
    assert_int_equal(turn, MT_TURN_ENDED);
    assert_int_equal(bench.vault.n, 0);
    bench.source->read_retries = 0;
    bench_close(&bench);
    run_ok(&bench);
    expect_all(&bench, 30);
    bench_deinit(&bench);
}

static void open_is_refused(struct bench *bench, const char *words)
{
    struct numbers kept = *bench->source;
    assert_int_equal(bench_open(bench), MT_FATAL);
    assert_int_equal(bench->err.class_, MT_CLASS_CHECKPOINT);
    if (!strstr(bench->err.text, words))
        fail_msg("\"%s\" is not in: %s", words, bench->err.text);
    bench->source = mt_alloc(sizeof kept);
    *bench->source = kept;
}

static void run_fails(struct bench *bench, enum mt_class class_)
{
    assert_int_equal(bench_open(bench), MT_OK);
    assert_int_equal(bench_run(bench), MT_FATAL);
    assert_int_equal(bench->err.class_, class_);
    bench_close(bench);
}

static void test_a_batch_that_its_sink_never_began_is_any_other_sinks(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench, 30);
    bench.job.fails = 1;
    run_fails(&bench, MT_CLASS_SCRIPT);
    bench.sink_name = "other";
    bench.vault.begin_fails = MT_FATAL;
    run_fails(&bench, MT_CLASS_SINK);
    run_fails(&bench, MT_CLASS_SINK); /* again as it was: still nobody's */
    bench.sink_name = "third";
    bench.vault.begin_fails = MT_OK;
    run_ok(&bench);
    expect_all(&bench, 30);
    bench_deinit(&bench);
}

static void test_a_stop_while_its_sink_is_away_leaves_a_batch_to_any_other_sink(void **state)
{
    (void)state;
    struct bench bench;
    enum mt_turn turn = MT_TURN_AGAIN;
    int64_t at_ms;
    bench_init(&bench, 30);
    bench.vault.begin_fails = MT_RETRY;
    assert_int_equal(bench_open(&bench), MT_OK);
    while (turn != MT_TURN_WAIT)
        assert_int_equal(mt_query_step(bench.query, bench.now_ms, &turn, &at_ms, &bench.err),
                         MT_OK);
    bench_close(&bench); /* as if killed */
    bench.vault.begin_fails = MT_OK;
    bench.sink_name = "other";
    run_ok(&bench);
    expect_all(&bench, 30);
    bench_deinit(&bench);
}

static void test_by_the_users_word_another_sink_gets_a_batch_that_the_old_one_may_hold(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench, 30);
    bench.vault.lies = 1;
    run_fails(&bench, MT_CLASS_INTERNAL);
    bench.vault = (struct vault){0};
    bench.sink_name = "other";
    open_is_refused(&bench, "with --finish-with-new-script: the new sink gets the batch");
    bench.settings.finish_with_new_script = true;
    run_ok(&bench);
    expect_all(&bench, 30);
    bench_deinit(&bench);
}

static void test_sink_may_change_between_batches_and_not_within_one(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench, 30);
    run_ok(&bench);
    bench_close(&bench);
    bench.sink_name = "other";
    bench.source->total = 60;
    bench.vault.lies = 1;
    assert_int_equal(bench_open(&bench), MT_OK);
    assert_int_equal(bench_run(&bench), MT_FATAL); /* batch 1 is planned for the other sink */
    assert_int_equal(bench.err.class_, MT_CLASS_INTERNAL);
    bench_close(&bench);
    bench.sink_name = "third";
    open_is_refused(&bench, "was planned for other");
    bench.sink_name = "other";
    run_ok(&bench);
    expect_all(&bench, 60);
    bench_deinit(&bench);
}

static void test_max_batches_ends_the_run(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench, 95);
    bench.source->most_a_batch = 10;
    bench.settings.max_batches = 3;
    run_ok(&bench);
    assert_int_equal(bench.vault.n, 3);
    assert_non_null(strstr(bench.last_line, "lag 65"));
    bench_deinit(&bench);
}

static void test_starting_options_count_once(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench, 10);
    bench.settings.start_options = "{\"startingOffsets\":\"earliest\"}";
    run_ok(&bench);
    bench_close(&bench);
    bench.settings.start_options = "{\"startingOffsets\":\"latest\"}";
    run_ok(&bench); /* the warning is on standard error */
    expect_all(&bench, 10);
    bench_deinit(&bench);
}

/* Dies at `step` in a child, then finishes in this process. The vault is shared memory's
 * stand-in: the child reports what it stored through its exit, so it keeps a file. */
struct kill_case {
    const char *step;
    bool stored; /* the sink holds batch 1 when the process dies */
};

static const struct kill_case kill_cases[] = {
    {"start.before", false},   {"start.after", false},     {"plan.before:1", false},
    {"plan.after:1", false},   {"read.after:1", false},    {"run.after:1", false},
    {"sink.written:1", false}, {"sink.committed:1", true}, {"commit.before:1", true},
    {"commit.after:1", true},
};

static void save_vault(const struct bench *bench)
{
    char path[128];
    snprintf(path, sizeof path, "%s/vault", bench->dir);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(&bench->vault, sizeof bench->vault, 1, file), 1);
    fclose(file);
}

static void load_vault(struct bench *bench)
{
    char path[128];
    snprintf(path, sizeof path, "%s/vault", bench->dir);
    FILE *file = fopen(path, "rb");
    if (!file)
        return;
    assert_int_equal(fread(&bench->vault, sizeof bench->vault, 1, file), 1);
    fclose(file);
}

static struct bench *child_bench;

static enum mt_status commit_to_disk(struct mt_sink *sink, struct mt_sink_record *record,
                                     struct mt_error *err)
{
    enum mt_status status = vault_commit(sink, record, err);
    save_vault(child_bench);
    return status;
}

static void test_killed_at_every_step_each_number_is_stored_once(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof kill_cases / sizeof *kill_cases; i++) {
        struct bench bench;
        bench_init(&bench, 40);
        bench.source->most_a_batch = 10;
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            child_bench = &bench;
            vault_type.commit = commit_to_disk;
            setenv("MOONTIDE_KILL", kill_cases[i].step, 1);
            if (bench_open(&bench) == MT_OK)
                bench_run(&bench);
            _exit(3);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        load_vault(&bench);
        bool stored = false;
        for (int b = 0; b < bench.vault.n; b++)
            stored |= bench.vault.batches[b].id == 1;
        assert_int_equal(stored, kill_cases[i].stored);
        run_ok(&bench);
        expect_all(&bench, 40);
        for (int b = 0; b < bench.vault.n; b++)
            assert_int_equal(bench.vault.batches[b].id, b);
        bench_deinit(&bench);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_available_now_reads_within_its_limit_and_ends),
        cmocka_unit_test(test_a_batch_makes_two_durable_writes),
        cmocka_unit_test(test_once_ignores_the_limit),
        cmocka_unit_test(test_a_second_run_without_new_data_does_nothing),
        cmocka_unit_test(test_a_restart_goes_on_where_the_last_commit_was),
        cmocka_unit_test(test_origin_away_at_every_stage_is_waited_for),
        cmocka_unit_test(test_script_error_leaves_the_batch_uncommitted_and_a_restart_runs_it),
        cmocka_unit_test(test_sink_away_is_retried_with_a_fresh_script),
        cmocka_unit_test(test_lost_answer_to_commit_is_settled_by_begin),
        cmocka_unit_test(test_sink_that_lies_by_one_row_stops_the_batch),
        cmocka_unit_test(test_account_that_does_not_add_up_stops_before_the_sink),
        cmocka_unit_test(test_other_digest_in_the_sink_is_fatal),
        cmocka_unit_test(test_stop_while_waiting_ends_at_once),
        cmocka_unit_test(test_a_batch_that_its_sink_never_began_is_any_other_sinks),
        cmocka_unit_test(test_a_stop_while_its_sink_is_away_leaves_a_batch_to_any_other_sink),
        cmocka_unit_test(
            test_by_the_users_word_another_sink_gets_a_batch_that_the_old_one_may_hold),
        cmocka_unit_test(test_sink_may_change_between_batches_and_not_within_one),
        cmocka_unit_test(test_max_batches_ends_the_run),
        cmocka_unit_test(test_once_goes_on_where_a_batch_cannot_hold_all),
        cmocka_unit_test(test_once_only_finishes_the_batch_that_was_left),
        cmocka_unit_test(test_what_nobody_read_again_is_not_said_to_be_no_rows),
        cmocka_unit_test(test_lost_answer_after_other_tries_is_committed_without_their_steps),
        cmocka_unit_test(test_a_source_that_told_its_ends_is_not_asked_again_for_another),
        cmocka_unit_test(test_of_two_sources_one_may_be_behind_and_no_row_is_lost_over_a_restart),
        cmocka_unit_test(test_rows_of_a_source_that_no_step_takes_stop_the_query),
        cmocka_unit_test(test_a_source_wakes_only_a_wait_that_it_can_end),
        cmocka_unit_test(test_rows_wake_a_query_that_has_none),
        cmocka_unit_test(test_a_source_does_not_wake_a_query_whose_sink_is_away),
        cmocka_unit_test(test_starting_options_count_once),
        cmocka_unit_test(test_killed_at_every_step_each_number_is_stored_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
