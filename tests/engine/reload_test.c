/* SPDX-License-Identifier: Apache-2.0
 *
 * reload_test.c - another text of the job takes over where a restart could, and what may change
 * then; draining; waiting for several sources. */
#include <poll.h>
#include <sys/eventfd.h>

#include "saves.h"

#define HASH_2 "2222222222222222222222222222222222222222222222222222222222222222"
#define SHAPE(topic, columns, sink)                                                                \
    "{\"sources\":[{\"name\":\"numbers\",\"format\":\"numbers\",\"options\":{\"subscribe\":"       \
    "\"" topic "\"}}],\"sink\":{\"identity\":\"" sink "\",\"columns\":\"" columns "\"}}"

static enum mt_status saves_a(struct mt_run *run, struct mt_error *err)
{
    enum mt_status status = count_rows(run, err);
    return status == MT_OK ? save(run, "a", 0, (int32_t)run->inputs[0].array.length, err) : status;
}

static enum mt_status saves_b(struct mt_run *run, struct mt_error *err)
{
    enum mt_status status = count_rows(run, err);
    return status == MT_OK ? save(run, "b", 0, (int32_t)run->inputs[0].array.length, err) : status;
}

static enum mt_status saves_a_and_b(struct mt_run *run, struct mt_error *err)
{
    enum mt_status status = save(run, "a", 0, 3, err);
    return status == MT_OK ? save(run, "b", 3, 7, err) : status;
}

/* Settings of a second text of the job; its source is told. */
static struct mt_query_settings second_text(const struct bench *bench, struct script *script,
                                            struct numbers **source)
{
    struct mt_query_settings settings = bench->settings;
    *source = new_numbers(bench->source);
    settings.sources = mt_alloc(sizeof *settings.sources);
    settings.sources[0] = &(*source)->base;
    settings.job = (struct mt_job){script, script_run, script_reset, script_replay};
    settings.bundle_hash = HASH_2;
    settings.bundle = "{\"files\":[2]}";
    return settings;
}

static enum mt_turn step(struct bench *bench)
{
    enum mt_turn turn;
    int64_t at_ms;
    if (mt_query_step(bench->query, bench->now_ms, &turn, &at_ms, &bench->err) != MT_OK)
        fail_msg("%s", bench->err.text);
    if (turn == MT_TURN_WAIT)
        bench->now_ms = at_ms;
    return turn;
}

static void step_to_a_wait(struct bench *bench)
{
    while (step(bench) == MT_TURN_AGAIN)
        continue;
}

static void step_to_the_first_save(struct bench *bench)
{
    while (vault_of("vault a")->n == 0)
        step(bench);
}

/* As soon as it is the time. */
static enum mt_reload reload(struct bench *bench, const struct mt_query_settings *settings)
{
    enum mt_reload answer;
    while ((answer = mt_query_reload(bench->query, settings, &bench->err)) == MT_RELOAD_NOT_NOW)
        step(bench);
    return answer;
}

static void run_to_the_end(struct bench *bench)
{
    if (bench_run(bench) != MT_OK)
        fail_msg("%s", bench->err.text);
}

static void test_between_batches_another_text_takes_over_and_the_source_stays(void **state)
{
    (void)state;
    struct bench bench;
    struct script first, second = {.today = saves_b};
    struct numbers *source;
    saves_init(&bench, &first, saves_a, 30);
    assert_int_equal(saves_open(&bench, &first), MT_OK);
    step_to_the_first_save(&bench);
    struct mt_query_settings settings = second_text(&bench, &second, &source);
    assert_int_equal(reload(&bench, &settings), MT_RELOAD_TAKEN);
    int runs = first.runs, asked = bench.source->asked;
    run_to_the_end(&bench);
    assert_int_equal(first.runs, runs);
    assert_true(bench.source->asked > asked); /* the same source, still open */
    expect_stored("vault a", 1, 10);
    expect_stored("vault b", 2, 20);
    assert_string_equal(vault_of("vault b")->batches[0].bundle, HASH_2);
    bench_close(&bench);
    assert_int_equal(state_rows(&bench), 30);
    saves_deinit(&bench);
}

static void test_between_plan_and_commit_no_text_takes_over(void **state)
{
    (void)state;
    struct bench bench;
    struct script first, second = {.today = saves_b};
    struct numbers *source;
    saves_init(&bench, &first, saves_a, 10);
    assert_int_equal(saves_open(&bench, &first), MT_OK);
    struct mt_query_settings settings = second_text(&bench, &second, &source);
    while (strcmp(mt_query_status(bench.query), "Writing offsets to log") != 0)
        step(&bench);
    assert_int_equal(mt_query_reload(bench.query, &settings, &bench.err), MT_RELOAD_NOT_NOW);
    assert_int_equal(reload(&bench, &settings), MT_RELOAD_TAKEN);
    run_to_the_end(&bench);
    expect_stored("vault a", 1, 10);
    expect_stored("vault b", 0, 0);
    saves_deinit(&bench);
}

static void test_while_its_source_is_away_after_the_plan_another_text_takes_over(void **state)
{
    (void)state;
    struct bench bench;
    struct script first, second = {.today = saves_b};
    struct numbers *source;
    saves_init(&bench, &first, saves_a, 10);
    bench.source->read_retries = 100;
    assert_int_equal(saves_open(&bench, &first), MT_OK);
    struct mt_query_settings settings = second_text(&bench, &second, &source);
    step_to_a_wait(&bench); /* planned, being read */
    assert_int_equal(mt_query_reload(bench.query, &settings, &bench.err), MT_RELOAD_TAKEN);
    bench.source->read_retries = 0;
    run_to_the_end(&bench);
    assert_int_equal(first.runs, 0);
    expect_stored("vault b", 1, 10);
    assert_string_equal(vault_of("vault b")->batches[0].bundle, HASH_2);
    saves_deinit(&bench);
}

static struct mt_sink *new_vault(struct vault *vault)
{
    struct vault_sink *sink = mt_alloc(sizeof *sink);
    sink->base = (struct mt_sink){.type = &vault_type,
                                  .identity = mt_strdup("vault"),
                                  .marker_identity = mt_strdup("vault#1")};
    sink->vault = vault;
    return &sink->base;
}

static void test_a_sink_that_is_away_is_not_taken_for_a_batch_under_way(void **state)
{
    (void)state;
    struct bench bench;
    struct script first;
    struct numbers *source;
    static struct vault vault;
    saves_init(&bench, &first, saves_a, 30);
    assert_int_equal(saves_open(&bench, &first), MT_OK);
    step_to_the_first_save(&bench);
    struct mt_query_settings settings = second_text(&bench, &first, &source);
    settings.sink = new_vault(&vault);
    settings.job = (struct mt_job){&bench.job, keep_evens, count_reset, NULL};
    vault_recover_retries = 2;
    assert_int_equal(reload(&bench, &settings), MT_RELOAD_AWAY);
    assert_non_null(strstr(bench.err.text, "the vault is away"));
    assert_int_equal(mt_query_reload(bench.query, &settings, &bench.err), MT_RELOAD_AWAY);
    assert_int_equal(mt_query_reload(bench.query, &settings, &bench.err), MT_RELOAD_TAKEN);
    run_to_the_end(&bench);
    assert_int_equal(vault.n, 2);
    bench_close(&bench);
    free(bench.job.name);
    bench.job.name = NULL;
    saves_deinit(&bench);
}

static void test_while_its_source_is_away_at_the_start_another_text_takes_over(void **state)
{
    (void)state;
    struct bench bench;
    struct script first, second = {.today = saves_b};
    struct numbers *source;
    saves_init(&bench, &first, saves_a, 10);
    bench.source->start_retries = 100;
    assert_int_equal(saves_open(&bench, &first), MT_OK);
    struct mt_query_settings settings = second_text(&bench, &second, &source);
    step_to_a_wait(&bench);
    assert_int_equal(mt_query_reload(bench.query, &settings, &bench.err), MT_RELOAD_TAKEN);
    bench.source->start_retries = 0;
    run_to_the_end(&bench);
    expect_stored("vault a", 0, 0);
    expect_stored("vault b", 1, 10);
    saves_deinit(&bench);
}

static void test_a_batch_that_no_sink_holds_is_retried_by_the_new_text(void **state)
{
    (void)state;
    struct bench bench;
    struct script first, second = {.today = saves_b};
    struct numbers *source;
    saves_init(&bench, &first, saves_a, 10);
    vault_of("vault a")->commit_retries = 100;
    assert_int_equal(saves_open(&bench, &first), MT_OK);
    struct mt_query_settings settings = second_text(&bench, &second, &source);
    step_to_a_wait(&bench);
    assert_int_equal(mt_query_reload(bench.query, &settings, &bench.err), MT_RELOAD_TAKEN);
    run_to_the_end(&bench);
    expect_stored("vault a", 0, 0);
    expect_stored("vault b", 1, 10);
    assert_int_equal(second.replays, 0);
    bench_close(&bench);
    assert_int_equal(state_rows(&bench), 10);
    saves_deinit(&bench);
}

static void test_a_batch_that_a_sink_holds_a_part_of_is_ended_by_the_old_text(void **state)
{
    (void)state;
    struct bench bench;
    struct script first, second = {.today = saves_b, .planned = saves_a_and_b};
    struct numbers *source;
    saves_init(&bench, &first, saves_a_and_b, 20);
    vault_of("vault a"), vault_of("vault b")->commit_retries = 1;
    assert_int_equal(saves_open(&bench, &first), MT_OK);
    struct mt_query_settings settings = second_text(&bench, &second, &source);
    step_to_a_wait(&bench);
    assert_int_equal(mt_query_reload(bench.query, &settings, &bench.err), MT_RELOAD_TAKEN);
    run_to_the_end(&bench);
    assert_int_equal(second.replays, 1);
    assert_string_equal(second.bundle, "{\"files\":[]}");
    expect_stored("vault a", 1, 3);
    expect_stored("vault b", 2, 7 + 10);
    saves_deinit(&bench);
}

/* A second text with a declared sink of its own. */
static struct mt_query_settings another_declared(struct bench *bench, struct vault *vault)
{
    struct numbers *source;
    struct mt_query_settings settings = second_text(bench, NULL, &source);
    settings.sink = new_vault(vault);
    free(settings.sink->identity);
    settings.sink->identity = mt_strdup("vault of another");
    settings.job = (struct mt_job){&bench->job, keep_evens, count_reset, NULL};
    return settings;
}

static void
test_a_batch_that_the_old_sink_may_hold_is_asked_after_before_another_gets_it(void **state)
{
    (void)state;
    struct bench bench;
    struct vault second = {0};
    struct mt_query_settings settings;
    bench_init(&bench, 20);
    bench.source->most_a_batch = 10;
    bench.vault.lost_answers = 1;
    assert_int_equal(bench_open(&bench), MT_OK);
    step_to_a_wait(&bench);
    settings = another_declared(&bench, &second);
    bench.vault.begin_fails = MT_RETRY;
    assert_int_equal(mt_query_reload(bench.query, &settings, &bench.err), MT_RELOAD_NOT_NOW);
    step_to_a_wait(&bench);
    assert_int_equal(mt_query_reload(bench.query, &settings, &bench.err), MT_RELOAD_NOT_NOW);
    bench.vault.begin_fails = MT_OK;
    assert_int_equal(reload(&bench, &settings), MT_RELOAD_TAKEN);
    run_to_the_end(&bench);
    assert_int_equal(bench.vault.n, 1);
    assert_int_equal(second.n, 1);
    assert_int_equal(second.batches[0].id, 1);
    bench_deinit(&bench);
}

static void test_a_batch_that_the_old_sink_does_not_hold_goes_to_the_new_one(void **state)
{
    (void)state;
    struct bench bench;
    struct vault second = {0};
    bench_init(&bench, 20);
    bench.source->most_a_batch = 10;
    bench.vault.commit_retries = 1000;
    assert_int_equal(bench_open(&bench), MT_OK);
    step_to_a_wait(&bench);
    struct mt_query_settings settings = another_declared(&bench, &second);
    assert_int_equal(mt_query_reload(bench.query, &settings, &bench.err), MT_RELOAD_NOT_NOW);
    assert_int_equal(reload(&bench, &settings), MT_RELOAD_TAKEN);
    run_to_the_end(&bench);
    assert_int_equal(bench.vault.n, 0);
    assert_int_equal(second.n, 2);
    bench_deinit(&bench);
}

static void test_saves_that_may_hold_a_batch_are_asked_before_a_declared_sink_gets_it(void **state)
{
    (void)state;
    struct bench bench;
    struct script first;
    struct vault second = {0};
    saves_init(&bench, &first, saves_a, 20);
    vault_of("vault a")->lost_answers = 1;
    assert_int_equal(saves_open(&bench, &first), MT_OK);
    step_to_a_wait(&bench);
    struct mt_query_settings settings = another_declared(&bench, &second);
    assert_int_equal(mt_query_reload(bench.query, &settings, &bench.err), MT_RELOAD_NOT_NOW);
    assert_int_equal(reload(&bench, &settings), MT_RELOAD_TAKEN);
    run_to_the_end(&bench);
    expect_stored("vault a", 1, 10);
    assert_int_equal(second.n, 1);
    saves_deinit(&bench);
}

static void test_what_a_restart_would_refuse_is_refused_and_the_old_text_goes_on(void **state)
{
    (void)state;
    struct bench bench;
    struct script first, second = {.today = saves_b};
    struct numbers *source;
    saves_init(&bench, &first, saves_a, 30);
    assert_int_equal(saves_open(&bench, &first), MT_OK);
    step_to_the_first_save(&bench);
    struct mt_query_settings settings = second_text(&bench, &second, &source);
    settings.shape = "{\"sources\":[{\"name\":\"numbers\",\"format\":\"letters\"}],\"sink\":{"
                     "\"identity\":\"foreachBatch\"}}";
    assert_int_equal(reload(&bench, &settings), MT_RELOAD_REFUSED);
    assert_non_null(strstr(bench.err.text, "it was numbers and is now letters"));
    assert_non_null(strstr(bench.err.text, "use a new checkpoint"));
    run_to_the_end(&bench);
    expect_stored("vault a", 3, 30);
    assert_int_equal(second.runs, 0);
    saves_deinit(&bench);
}

static void test_a_topic_that_goes_is_refused_where_data_may_not_be_lost(void **state)
{
    (void)state;
    struct bench bench;
    struct script first, second = {.today = saves_b};
    struct numbers *source;
    saves_init(&bench, &first, saves_a, 20);
    bench.settings.shape = SHAPE("t, u", "", "foreachBatch");
    assert_int_equal(saves_open(&bench, &first), MT_OK);
    step_to_the_first_save(&bench);
    struct mt_query_settings settings = second_text(&bench, &second, &source);
    settings.shape = SHAPE("u ,v", "", "foreachBatch");
    assert_int_equal(reload(&bench, &settings), MT_RELOAD_REFUSED);
    assert_non_null(strstr(bench.err.text, "topic t is not subscribed to any more"));
    settings = second_text(&bench, &second, &source);
    settings.shape = SHAPE("u\",\"failondataloss\":\"false", "", "foreachBatch");
    assert_int_equal(reload(&bench, &settings), MT_RELOAD_TAKEN);
    bench.source = source;
    run_to_the_end(&bench);
    saves_deinit(&bench);
}

#define ASSIGNED(topics)                                                                           \
    "{\"sources\":[{\"name\":\"numbers\",\"format\":\"numbers\",\"options\":{\"assign\":"          \
    "\"{" topics "}\"}}],\"sink\":{\"identity\":\"foreachBatch\"}}"

static void test_the_same_topic_by_another_option_is_not_one_that_goes(void **state)
{
    (void)state;
    struct bench bench;
    struct script first, second = {.today = saves_b};
    struct numbers *source;
    saves_init(&bench, &first, saves_a, 20);
    bench.settings.shape = SHAPE("t", "", "foreachBatch");
    assert_int_equal(saves_open(&bench, &first), MT_OK);
    step_to_the_first_save(&bench);
    struct mt_query_settings settings = second_text(&bench, &second, &source);
    settings.shape = ASSIGNED("\\\"u\\\":[0]");
    assert_int_equal(reload(&bench, &settings), MT_RELOAD_REFUSED);
    assert_non_null(strstr(bench.err.text, "topic t is not subscribed to any more"));
    settings = second_text(&bench, &second, &source);
    settings.shape = ASSIGNED("\\\"t\\\":[0,1]");
    assert_int_equal(reload(&bench, &settings), MT_RELOAD_TAKEN);
    bench.source = source;
    run_to_the_end(&bench);
    saves_deinit(&bench);
}

static void test_a_source_with_other_options_is_another_source(void **state)
{
    (void)state;
    struct bench bench;
    struct script first, second = {.today = saves_b};
    struct numbers *source;
    saves_init(&bench, &first, saves_a, 30);
    bench.settings.shape = SHAPE("t", "", "foreachBatch");
    assert_int_equal(saves_open(&bench, &first), MT_OK);
    step_to_the_first_save(&bench);
    struct mt_query_settings settings = second_text(&bench, &second, &source);
    settings.shape = SHAPE("t,u", "", "foreachBatch");
    assert_int_equal(reload(&bench, &settings), MT_RELOAD_TAKEN);
    bench.source = source;
    run_to_the_end(&bench);
    assert_int_equal(source->asked, 2);
    expect_stored("vault b", 2, 20);
    saves_deinit(&bench);
}

/* ---- at a restart: the same rules */

static void restart(struct bench *bench, struct script *script, const char *shape,
                    const char *refused)
{
    bench->settings.shape = shape;
    if (!refused) {
        saves_run_ok(bench, script);
        return;
    }
    struct numbers kept = *bench->source;
    assert_int_equal(saves_open(bench, script), MT_FATAL);
    if (!strstr(bench->err.text, refused))
        fail_msg("\"%s\" is not in: %s", refused, bench->err.text);
    bench->source = mt_alloc(sizeof kept);
    *bench->source = kept;
}

static void test_a_restart_refuses_other_sources_and_tells_the_rest(void **state)
{
    (void)state;
    struct bench bench;
    struct script script;
    saves_init(&bench, &script, saves_a, 30);
    restart(&bench, &script, SHAPE("t", "n BIGINT", "parquet /a"), NULL);
    restart(&bench, &script, SHAPE("t,u", "n BIGINT", "parquet /b"), NULL); /* told */
    restart(&bench, &script, SHAPE("t,u", "n INT", "parquet /b"), NULL);    /* told */
    restart(&bench, &script, "{\"sources\":[],\"sink\":{\"identity\":\"parquet /b\"}}",
            "the number of sources cannot change: it was 1 and is now 0");
    restart(&bench, &script, SHAPE("t,u", "n INT", "parquet /b"), NULL);
    saves_deinit(&bench);
}

static bool keeps_shape(const struct bench *bench, const char *shape)
{
    char checkpoint[96];
    struct mt_store *store;
    struct mt_error err;
    struct mt_buf kept = {0};
    bool found;
    snprintf(checkpoint, sizeof checkpoint, "%s/ckpt", bench->dir);
    assert_int_equal(mt_store_open_read(checkpoint, &store, &err), MT_OK);
    assert_int_equal(mt_store_meta_get(store, "shape", &kept, &found, &err), MT_OK);
    bool same = found && strcmp(kept.data, shape) == 0;
    mt_buf_free(&kept);
    mt_store_close(store);
    return same;
}

static void test_a_start_that_planned_nothing_is_not_what_the_next_is_compared_with(void **state)
{
    (void)state;
    struct bench bench;
    struct script script;
    saves_init(&bench, &script, saves_a, 10);
    restart(&bench, &script, SHAPE("t", "", "foreachBatch"), NULL);
    assert_true(keeps_shape(&bench, SHAPE("t", "", "foreachBatch")));
    restart(&bench, &script, SHAPE("u", "", "foreachBatch"), NULL); /* nothing to read */
    assert_true(keeps_shape(&bench, SHAPE("t", "", "foreachBatch")));
    bench.source->total = 20;
    restart(&bench, &script, SHAPE("u", "", "foreachBatch"), NULL);
    assert_true(keeps_shape(&bench, SHAPE("u", "", "foreachBatch")));
    saves_deinit(&bench);
}

/* ---- draining */

static void test_draining_reads_all_there_is_whatever_the_trigger_says(void **state)
{
    (void)state;
    struct bench bench;
    struct script script;
    saves_init(&bench, &script, saves_a, 10);
    bench.settings.trigger = (struct mt_trigger){MT_TRIGGER_PROCESSING, 3600000};
    assert_int_equal(saves_open(&bench, &script), MT_OK);
    step_to_a_wait(&bench); /* for the next hour */
    int64_t now_ms = bench.now_ms = 1000000 + 5;
    bench.source->total = 35;
    assert_false(mt_query_drained(bench.query));
    mt_query_drain(bench.query);
    while (!mt_query_drained(bench.query))
        step(&bench);
    assert_true(bench.now_ms - now_ms < 60000);
    expect_stored("vault a", 4, 35);
    assert_int_equal(strlen(mt_query_id(bench.query)), 36);
    assert_int_equal(strlen(mt_query_run_id(bench.query)), 36);
    saves_deinit(&bench);
}

/* ---- several sources */

static void test_rows_of_any_source_wake_a_query_over_several(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench, 10);
    bench.settings.trigger.kind = MT_TRIGGER_DEFAULT;
    struct numbers *second = new_numbers(&(struct numbers){.total = 0});
    int fd = eventfd(0, EFD_NONBLOCK), second_fd = eventfd(0, EFD_NONBLOCK);
    second->base.wake_fd = second_fd;
    bench.wake_fd = fd;
    assert_int_equal(bench_open_two(&bench, second), MT_OK);
    step_to_a_wait(&bench);
    struct pollfd wait = {.fd = mt_query_wake_fd(bench.query), .events = POLLIN};
    assert_true(wait.fd >= 0 && wait.fd != fd && wait.fd != second_fd);
    assert_int_equal(poll(&wait, 1, 0), 0);
    assert_int_equal(eventfd_write(second_fd, 1), 0);
    assert_int_equal(poll(&wait, 1, 0), 1);
    bench_deinit(&bench);
    close(fd), close(second_fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_between_batches_another_text_takes_over_and_the_source_stays),
        cmocka_unit_test(test_between_plan_and_commit_no_text_takes_over),
        cmocka_unit_test(test_while_its_source_is_away_after_the_plan_another_text_takes_over),
        cmocka_unit_test(test_a_sink_that_is_away_is_not_taken_for_a_batch_under_way),
        cmocka_unit_test(test_the_same_topic_by_another_option_is_not_one_that_goes),
        cmocka_unit_test(test_a_start_that_planned_nothing_is_not_what_the_next_is_compared_with),
        cmocka_unit_test(test_while_its_source_is_away_at_the_start_another_text_takes_over),
        cmocka_unit_test(test_a_batch_that_no_sink_holds_is_retried_by_the_new_text),
        cmocka_unit_test(test_a_batch_that_a_sink_holds_a_part_of_is_ended_by_the_old_text),
        cmocka_unit_test(
            test_a_batch_that_the_old_sink_may_hold_is_asked_after_before_another_gets_it),
        cmocka_unit_test(test_a_batch_that_the_old_sink_does_not_hold_goes_to_the_new_one),
        cmocka_unit_test(test_saves_that_may_hold_a_batch_are_asked_before_a_declared_sink_gets_it),
        cmocka_unit_test(test_what_a_restart_would_refuse_is_refused_and_the_old_text_goes_on),
        cmocka_unit_test(test_a_topic_that_goes_is_refused_where_data_may_not_be_lost),
        cmocka_unit_test(test_a_source_with_other_options_is_another_source),
        cmocka_unit_test(test_a_restart_refuses_other_sources_and_tells_the_rest),
        cmocka_unit_test(test_draining_reads_all_there_is_whatever_the_trigger_says),
        cmocka_unit_test(test_rows_of_any_source_wake_a_query_over_several),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
