/* SPDX-License-Identifier: Apache-2.0
 *
 * job_test.c - a job file as the engine sees it: run, again, and from a fresh state. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "script/script_int.h"
#include "sink/sink.h"
#include "source/source.h"

/* Numbers its rows by a variable of the script, which lives as long as its state. */
static const char COUNTING[] = "local mt = require 'moontide'\n"
                               "local seen = 0\n"
                               "local numbers = mt.memoryStream 'n BIGINT'\n"
                               "numbers:addData { { n = 7 }, { n = 8 } }\n"
                               "return numbers:map('n BIGINT, seen BIGINT', function(row)\n"
                               "  seen = seen + 1\n"
                               "  return { n = row.n, seen = seen }\n"
                               "end).writeStream:format 'noop':queryName 'counting'\n";

static char dir[] = "/tmp/moontide-job-XXXXXX", file[64];
static struct mt_pairs set;
static struct mt_watch watch;
static struct mt_script_job *job;
static struct mt_query_settings settings;
static struct mt_step_count steps[8];
static struct mt_batch input;
static struct mt_error err;

static void write_job(const char *text)
{
    FILE *out = fopen(file, "w");
    assert_non_null(out);
    fputs(text, out);
    fclose(out);
}

static void read_rows(void)
{
    struct mt_source *source = settings.sources[0];
    struct mt_ends ends = {0};
    char *start;
    assert_int_equal(source->type->resolve_start(source, 0, &start, &err), MT_OK);
    assert_int_equal(source->type->available(source, start, MT_REACH_LATEST, 0, &ends, &err),
                     MT_OK);
    assert_int_equal(source->type->read(source, start, ends.end, NULL, 0, &input, &err), MT_OK);
    mt_ends_clear(&ends);
    free(start);
}

static void load(const char *text)
{
    write_job(text);
    if (mt_script_job_open(file, 1, &set, &watch, &job, &err) != MT_OK)
        fail_msg("%s", err.text);
    mt_script_job_settings(job, &settings);
    read_rows();
}

static enum mt_status run(struct mt_batch *output)
{
    struct mt_run batch = {
        .inputs = &input, .n_inputs = 1, .steps = steps, .max_steps = settings.max_steps};
    enum mt_status status = settings.job.run(settings.job.self, &batch, &err);
    *output = batch.output;
    return status;
}

/* What the script numbered the last row. */
static int64_t run_and_ask_seen(void)
{
    struct mt_batch output;
    if (run(&output) != MT_OK)
        fail_msg("%s", err.text);
    assert_int_equal(output.array.length, 2);
    const int64_t *seen = output.array.children[1]->buffers[1];
    int64_t last = seen[1];
    mt_batch_release(&output);
    return last;
}

static int set_up(void **state)
{
    (void)state;
    strcpy(dir + strlen(dir) - 6, "XXXXXX");
    assert_non_null(mkdtemp(dir));
    snprintf(file, sizeof file, "%s/job.lua", dir);
    mt_watch_init(&watch);
    err = (struct mt_error){0};
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    mt_batch_release(&input);
    mt_source_free(settings.sources[0]);
    mt_sink_free(settings.sink);
    free(settings.sources);
    mt_script_job_close(job);
    mt_watch_deinit(&watch);
    unlink(file);
    rmdir(dir);
    return 0;
}

static void plan_says_what_the_job_declared(void **state)
{
    (void)state;
    load(COUNTING);
    assert_string_equal(settings.name, "counting");
    assert_string_equal(settings.sink->type->name, "noop");
    assert_null(settings.checkpoint);
    assert_int_equal(settings.max_steps, 1);
    assert_int_equal(settings.trigger.kind, MT_TRIGGER_DEFAULT);
    assert_non_null(strstr(settings.bundle, "seen = seen + 1"));
    char hash[65];
    mt_sha256_hex(settings.bundle, strlen(settings.bundle), hash);
    assert_string_equal(settings.bundle_hash, hash);
}

static void variables_outlive_a_batch_but_not_a_reset(void **state)
{
    (void)state;
    load(COUNTING);
    assert_int_equal(run_and_ask_seen(), 2);
    assert_int_equal(run_and_ask_seen(), 4);
    assert_int_equal(settings.job.reset(settings.job.self, &err), MT_OK);
    assert_int_equal(run_and_ask_seen(), 2);
    assert_int_equal(settings.job.reset(settings.job.self, &err), MT_OK);
    assert_int_equal(run_and_ask_seen(), 2);
    assert_int_equal(mt_script_job_rows(job), 8);
}

static void retry_runs_the_text_that_was_loaded_whatever_the_file_is_now(void **state)
{
    (void)state;
    load(COUNTING);
    write_job("return = 1\n");
    assert_int_equal(run_and_ask_seen(), 2);
    if (settings.job.reset(settings.job.self, &err) != MT_OK)
        fail_msg("%s", err.text);
    assert_int_equal(run_and_ask_seen(), 2);
}

static void replay_runs_another_script_until_the_next_reset(void **state)
{
    (void)state;
    load(COUNTING);
    char *now = mt_strdup(settings.bundle);
    struct mt_buf bundle = {0};
    const char *at = strstr(now, "seen = 0");
    mt_buf_addf(&bundle, "%.*sseen = 5%s", (int)(at - now), now, at + 8);
    mt_buf_adds(&bundle, "more than len");
    if (settings.job.replay(settings.job.self, bundle.data, strlen(now), &err) != MT_OK)
        fail_msg("%s", err.text);
    assert_int_equal(run_and_ask_seen(), 7);
    assert_int_equal(settings.job.reset(settings.job.self, &err), MT_OK);
    assert_int_equal(run_and_ask_seen(), 2);
    mt_buf_free(&bundle);
    free(now);
}

static void replay_of_a_script_without_the_query_is_told(void **state)
{
    (void)state;
    load(COUNTING);
    static const char other[] =
        "{\"conf\":{},\"main\":\"job.lua\",\"files\":[{\"name\":\"job.lua\","
        "\"text\":\"return require 'moontide'.memoryStream 'n INT'"
        ".writeStream:format 'noop'\"}]}";
    assert_int_equal(settings.job.replay(settings.job.self, other, sizeof other - 1, &err),
                     MT_FATAL);
    assert_int_equal(err.class_, MT_CLASS_JOB);
    assert_non_null(strstr(err.text, "the script that its batch was made by: "));
    assert_non_null(strstr(err.text, "the file has no query \"counting\""));
}

/* As if it had been written then. */
static void set_age(const char *path, int64_t s)
{
    struct timespec at = {.tv_sec = mt_clock_ms() / 1000 - s};
    assert_int_equal(utimensat(AT_FDCWD, path, (struct timespec[]){at, at}, 0), 0);
}

static void load_old(const char *text)
{
    write_job(text);
    set_age(file, 3600);
    if (mt_script_job_open(file, 1, &set, &watch, &job, &err) != MT_OK)
        fail_msg("%s", err.text);
    mt_script_job_settings(job, &settings);
    read_rows();
}

static void written_file_is_noticed_once(void **state)
{
    (void)state;
    load_old(COUNTING);
    assert_false(mt_script_job_changed(job, false));
    write_job(COUNTING);
    set_age(file, 1800);
    assert_true(mt_script_job_changed(job, false));
    assert_false(mt_script_job_changed(job, false));
    unlink(file); /* an editor is about to put another there */
    assert_false(mt_script_job_changed(job, false));
    set_age(dir, 900);
    assert_true(mt_script_job_changed(job, true));
    assert_false(mt_script_job_changed(job, true));
}

static void file_written_while_it_was_loaded_is_noticed(void **state)
{
    (void)state;
    struct stat before;
    load(COUNTING);
    assert_int_equal(stat(file, &before), 0);
    char *text = mt_strdup(COUNTING);
    memcpy(strstr(text, "seen = 0"), "seen = 5", 8);
    write_job(text);
    free(text);
    struct timespec times[] = {before.st_atim, before.st_mtim}; /* within the same tick */
    assert_int_equal(utimensat(AT_FDCWD, file, times, 0), 0);
    assert_true(mt_script_job_changed(job, false));
    assert_false(mt_script_job_changed(job, false));
}

static void file_saved_just_before_it_was_loaded_is_not_another(void **state)
{
    (void)state;
    load(COUNTING);
    assert_false(mt_script_job_changed(job, false));
}

static enum mt_status load_again(struct mt_script_job **out)
{
    struct mt_script_job *next = mt_script_job_next(job);
    bool same;
    enum mt_status status = mt_script_job_load(next, &watch, &same, &err);
    *out = status == MT_OK && !same ? next : NULL;
    if (!*out)
        mt_script_job_close(next);
    return status;
}

static void changed_file_is_loaded_again_and_says_what_changed(void **state)
{
    (void)state;
    load_old(COUNTING);
    struct mt_script_job *next;
    char *text = mt_strdup(COUNTING);
    memcpy(strstr(text, "seen = 0"), "seen = 5", 8);
    write_job(text);
    free(text);
    if (load_again(&next) != MT_OK)
        fail_msg("%s", err.text);
    assert_non_null(next);
    assert_string_equal(mt_script_job_changes(next), "job.lua");
    mt_script_job_close(next);
}

static void file_that_does_not_load_or_has_other_queries_leaves_the_old_one(void **state)
{
    (void)state;
    load_old(COUNTING);
    struct mt_script_job *next;
    write_job("return = 1\n");
    assert_int_equal(load_again(&next), MT_FATAL);
    assert_non_null(strstr(err.text, "job.lua:1: "));
    assert_null(next);
    write_job("local s = require 'moontide'.memoryStream 'n BIGINT'\n"
              "return { s.writeStream:format 'noop':queryName 'counting',\n"
              "  s.writeStream:format 'noop':queryName 'other' }\n");
    assert_int_equal(load_again(&next), MT_FATAL);
    assert_non_null(strstr(err.text, "the file adds query \"other\""));
    assert_int_equal(run_and_ask_seen(), 2);
}

/* ---- a Lua state that gets so much memory and no more */

static size_t memory_left = SIZE_MAX;
static lua_Alloc ample;

lua_State *__real_luaL_newstate(void);
lua_State *__wrap_luaL_newstate(void);

static void *limited(void *ud, void *p, size_t old, size_t size)
{
    if (size > old && size - old > memory_left)
        return NULL;
    if (size > old)
        memory_left -= size - old;
    return ample(ud, p, old, size);
}

lua_State *__wrap_luaL_newstate(void)
{
    void *ud;
    lua_State *L = memory_left == 0 ? NULL : __real_luaL_newstate();
    if (!L || memory_left == SIZE_MAX)
        return L;
    ample = lua_getallocf(L, &ud);
    lua_setallocf(L, limited, ud);
    return L;
}

static void a_want_of_memory_while_it_is_loaded_again_is_an_error_wherever_it_comes(void **state)
{
    (void)state;
    load_old(COUNTING);
    struct mt_script_job *next = NULL;
    int failed = 0;
    for (size_t most = 0;; most += 50021) {
        memory_left = most;
        enum mt_status status = load_again(&next);
        assert_null(next);
        if (status == MT_OK)
            break;
        failed++;
        if (err.class_ != MT_CLASS_MACHINE || !strstr(err.text, "memory"))
            fail_msg("with %zu bytes: %s", most, err.text);
    }
    memory_left = SIZE_MAX;
    assert_true(failed > 10);
    assert_int_equal(run_and_ask_seen(), 2);
}

static void failing_function_has_its_class_and_its_row(void **state)
{
    (void)state;
    load("local mt = require 'moontide'\n"
         "local numbers = mt.memoryStream 'n BIGINT'\n"
         "numbers:addData { { n = 7 }, { n = 8 } }\n"
         "return numbers:filter(function(row)\n"
         "  if row.n == 8 then error 'eight' end\n"
         "  return true\n"
         "end).writeStream:format 'noop'\n");
    struct mt_batch output;
    assert_int_not_equal(run(&output), MT_OK);
    assert_int_equal(err.class_, MT_CLASS_SCRIPT);
    assert_non_null(strstr(err.text, "job.lua:5"));
    assert_non_null(strstr(err.text, "eight"));
    assert_null(output.array.release);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(plan_says_what_the_job_declared, set_up, tear_down),
        cmocka_unit_test_setup_teardown(variables_outlive_a_batch_but_not_a_reset, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(
            retry_runs_the_text_that_was_loaded_whatever_the_file_is_now, set_up, tear_down),
        cmocka_unit_test_setup_teardown(replay_runs_another_script_until_the_next_reset, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(replay_of_a_script_without_the_query_is_told, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(written_file_is_noticed_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(file_written_while_it_was_loaded_is_noticed, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(file_saved_just_before_it_was_loaded_is_not_another, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(changed_file_is_loaded_again_and_says_what_changed, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(
            file_that_does_not_load_or_has_other_queries_leaves_the_old_one, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            a_want_of_memory_while_it_is_loaded_again_is_an_error_wherever_it_comes, set_up,
            tear_down),
        cmocka_unit_test_setup_teardown(failing_function_has_its_class_and_its_row, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
