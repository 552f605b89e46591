/* SPDX-License-Identifier: Apache-2.0
 *
 * watch_test.c - who is told about a script that does not come back, and when. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "script/script_int.h"

static struct mt_watch watch;
static struct mt_step_count steps[] = {{.name = "fromJson"}, {.name = "filter"}};
static struct mt_run run = {.batch_id = 41, .steps = steps, .n_steps = 2, .max_steps = 2};
static char text[512];

static int init(void **state)
{
    (void)state;
    mt_watch_init(&watch);
    return 0;
}

static int deinit(void **state)
{
    (void)state;
    mt_watch_deinit(&watch);
    return 0;
}

static bool ask(int64_t now_ms)
{
    return mt_watch_ask(&watch, now_ms, text, sizeof text);
}

static void tells_after_ten_seconds_and_once(void **state)
{
    (void)state;
    mt_watch_enter(&watch, "paid", &run, 1000);
    assert_false(ask(10999));
    assert_true(ask(11000));
    assert_non_null(strstr(text, "paid: batch 41"));
    assert_non_null(strstr(text, "10 s"));
    assert_non_null(strstr(text, "filter"));
    assert_false(ask(60000));
}

static void says_nothing_outside(void **state)
{
    (void)state;
    assert_false(ask(60000));
    mt_watch_enter(&watch, "paid", &run, 1000);
    mt_watch_leave(&watch);
    assert_false(ask(60000));
}

static void tells_again_for_another_batch(void **state)
{
    (void)state;
    mt_watch_enter(&watch, "paid", &run, 1000);
    assert_true(ask(20000));
    mt_watch_leave(&watch);
    mt_watch_enter(&watch, "paid", &run, 30000);
    assert_false(ask(39999));
    assert_true(ask(40000));
}

static void tells_of_a_job_file_that_loads_for_ever(void **state)
{
    (void)state;
    mt_watch_enter(&watch, NULL, NULL, 1000);
    assert_true(ask(13000));
    assert_non_null(strstr(text, "loading for 12 s"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(tells_after_ten_seconds_and_once, init, deinit),
        cmocka_unit_test_setup_teardown(says_nothing_outside, init, deinit),
        cmocka_unit_test_setup_teardown(tells_again_for_another_batch, init, deinit),
        cmocka_unit_test_setup_teardown(tells_of_a_job_file_that_loads_for_ever, init, deinit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
