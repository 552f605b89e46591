/* SPDX-License-Identifier: Apache-2.0
 *
 * run_test.c - several queries of one job file, each on its thread (also under TSan). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "script/script_run.h"

#define HEAD                                                                                       \
    "local mt = require 'moontide'\n"                                                              \
    "local s = mt.memoryStream 'n BIGINT'\n"                                                       \
    "s:addData { { n = 1 }, { n = 2 }, { n = 3 } }\n"                                              \
    "local now = { availableNow = true }\n"

static char dir[] = "/tmp/moontide-run-XXXXXX", file[64];
static struct mt_run_answer answer;

static void run(const char *text)
{
    FILE *out = fopen(file, "w");
    assert_non_null(out);
    fputs(text, out);
    fclose(out);
    struct mt_run_request request = {
        .file = file, .json = true, .interval_ms = -1, .accept_replay = -1, .said_batch = -1};
    mt_script_run(&request, &answer);
}

static int set_up(void **state)
{
    (void)state;
    strcpy(dir + strlen(dir) - 6, "XXXXXX");
    assert_non_null(mkdtemp(dir));
    snprintf(file, sizeof file, "%s/job.lua", dir);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    mt_run_answer_clear(&answer);
    unlink(file);
    rmdir(dir);
    return 0;
}

static void each_query_runs_to_its_end(void **state)
{
    (void)state;
    run(HEAD "return { s.writeStream:format 'noop':queryName 'a':trigger(now),\n"
             "  s:filter(function(row) return row.n > 1 end).writeStream:format 'memory'\n"
             "    :queryName 'b':trigger(now),\n"
             "  s.writeStream:format 'noop':queryName 'c':trigger(now) }\n");
    assert_string_equal(answer.error.text, "");
    assert_int_equal(answer.code, 0);
    assert_int_equal(answer.rows, 3);
    assert_int_equal(answer.n_sinks, 3);
    assert_string_equal(answer.sinks[1].format, "memory");
}

static void one_that_fails_stops_those_that_would_wait_for_ever(void **state)
{
    (void)state;
    run(HEAD
        "return { s.writeStream:format 'noop':queryName 'a',\n"
        "  s.writeStream:format 'noop':queryName 'b':trigger { processingTime = '1 hour' },\n"
        "  s:filter(function(row) error 'no' end).writeStream:format 'noop':queryName 'c' }\n");
    assert_int_equal(answer.code, MT_CLASS_SCRIPT);
    assert_non_null(strstr(answer.error.text, "c: batch 0: "));
}

static void none_starts_when_one_does_not_load(void **state)
{
    (void)state;
    run(HEAD "return { s.writeStream:format 'noop':queryName 'a',\n"
             "  s.writeStream:format 'noop':option('x', 1):queryName 'b' }\n");
    assert_int_equal(answer.code, MT_CLASS_JOB);
    assert_int_equal(answer.rows, 0);
}

/* The first text writes the second, which ends. */
static void edited_file_is_loaded_beside_its_query_and_takes_over(void **state)
{
    (void)state;
    char text[1024];
    snprintf(text, sizeof text,
             "local mt = require 'moontide'\n"
             "local trigger = { processingTime = '0 seconds' }\n"
             "local s = mt.memoryStream 'n BIGINT'\n"
             "s:addData { { n = 1 } }\n"
             "local path = '%s'\n"
             "local function edit()\n"
             "  local file = io.open(path)\n"
             "  local text = file:read '*a'\n"
             "  file:close()\n"
             "  file = io.open(path, 'w')\n"
             "  file:write((text:gsub('processingTime = .0 seconds.', 'availableNow = true', 1)))\n"
             "  file:close()\n"
             "end\n"
             "return s:filter(function(row) edit() return true end)\n"
             "  .writeStream:format 'noop':trigger(trigger)\n",
             file);
    run(text);
    assert_string_equal(answer.error.text, "");
    assert_int_equal(answer.code, 0);
    assert_int_equal(answer.rows, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_query_runs_to_its_end, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_that_fails_stops_those_that_would_wait_for_ever, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(edited_file_is_loaded_beside_its_query_and_takes_over,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(none_starts_when_one_does_not_load, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
