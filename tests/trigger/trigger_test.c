/* SPDX-License-Identifier: Apache-2.0
 *
 * trigger_test.c - when batches start, over a clock that is a number. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "trigger/trigger.h"

static const struct mt_trigger every_10_s = {MT_TRIGGER_PROCESSING, 10000};

static enum mt_trigger_answer ask(const struct mt_trigger *trigger,
                                  const struct mt_trigger_state *state, int64_t now)
{
    int64_t at;
    return mt_trigger_ask(trigger, state, now, &at);
}

static int64_t next_start(const struct mt_trigger *trigger, const struct mt_trigger_state *state,
                          int64_t now)
{
    int64_t at;
    enum mt_trigger_answer answer = mt_trigger_ask(trigger, state, now, &at);
    assert_int_not_equal(answer, MT_TRIGGER_END);
    if (answer == MT_TRIGGER_FIRE)
        return now;
    assert_true(at > now);
    assert_int_equal(ask(trigger, state, at - 1), MT_TRIGGER_WAIT);
    assert_int_equal(ask(trigger, state, at), MT_TRIGGER_FIRE);
    return at;
}

static void the_default_fires_whenever_it_is_asked(void **unused)
{
    (void)unused;
    struct mt_trigger trigger = {0}, zero = {MT_TRIGGER_PROCESSING, 0};
    struct mt_trigger_state state = {0};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(ask(&trigger, &state, 1000), MT_TRIGGER_FIRE);
        assert_int_equal(ask(&zero, &state, 1000), MT_TRIGGER_FIRE);
        mt_trigger_started(&trigger, &state, 1000);
    }
}

static void processing_time_fires_at_once_then_on_the_grid_from_1970(void **unused)
{
    (void)unused;
    struct mt_trigger_state state = {0};
    assert_int_equal(next_start(&every_10_s, &state, 1234567), 1234567);
    mt_trigger_started(&every_10_s, &state, 1234567);
    assert_int_equal(next_start(&every_10_s, &state, 1234567), 1240000);
    assert_int_equal(next_start(&every_10_s, &state, 1239999), 1240000);
}

static void a_start_on_a_tick_waits_for_the_next_tick(void **unused)
{
    (void)unused;
    struct mt_trigger_state state = {0};
    mt_trigger_started(&every_10_s, &state, 20000);
    assert_int_equal(next_start(&every_10_s, &state, 20000), 30000);
}

/* Spark's own example: 10 s, work from 0:00 for 14 s, next at 0:14, then 0:20. */
static void a_late_batch_is_followed_at_once_by_one_and_then_the_grid(void **unused)
{
    (void)unused;
    struct mt_trigger_state state = {0};
    mt_trigger_started(&every_10_s, &state, 0);
    assert_int_equal(next_start(&every_10_s, &state, 4000), 10000);
    assert_int_equal(next_start(&every_10_s, &state, 14000), 14000);
    mt_trigger_started(&every_10_s, &state, 14000);
    assert_int_equal(next_start(&every_10_s, &state, 15000), 20000);
    assert_int_equal(next_start(&every_10_s, &state, 95000), 95000);
    mt_trigger_started(&every_10_s, &state, 95000);
    assert_int_equal(next_start(&every_10_s, &state, 95001), 100000);
}

static void a_batch_cut_by_our_limit_goes_on_at_once_and_only_once(void **unused)
{
    (void)unused;
    struct mt_trigger_state state = {0};
    mt_trigger_started(&every_10_s, &state, 0);
    state.more = true;
    assert_int_equal(next_start(&every_10_s, &state, 100), 100);
    mt_trigger_started(&every_10_s, &state, 100);
    assert_false(state.more);
    assert_int_equal(next_start(&every_10_s, &state, 200), 10000);
}

static void available_now_and_once_end_when_drained(void **unused)
{
    (void)unused;
    const enum mt_trigger_kind kinds[] = {MT_TRIGGER_AVAILABLE_NOW, MT_TRIGGER_ONCE};
    for (size_t i = 0; i < 2; i++) {
        struct mt_trigger trigger = {kinds[i], 0};
        struct mt_trigger_state state = {0};
        assert_int_equal(ask(&trigger, &state, 5), MT_TRIGGER_FIRE);
        mt_trigger_started(&trigger, &state, 5);
        assert_int_equal(ask(&trigger, &state, 6), MT_TRIGGER_FIRE);
        state.drained = true;
        assert_int_equal(ask(&trigger, &state, 7), MT_TRIGGER_END);
        assert_int_equal(ask(&trigger, &state, 8), MT_TRIGGER_END);
    }
}

static void a_clock_that_was_set_back_does_not_stop_the_query(void **unused)
{
    (void)unused;
    struct mt_trigger_state state = {0};
    mt_trigger_started(&every_10_s, &state, 86400000);
    assert_int_equal(next_start(&every_10_s, &state, 60003), 60003);
    mt_trigger_started(&every_10_s, &state, 60003);
    assert_int_equal(next_start(&every_10_s, &state, 60004), 70000);
}

static uint64_t seed = 88172645463325252u;

static int64_t random_below(int64_t limit)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (int64_t)(seed % (uint64_t)limit);
}

/* Any interval, any work: a start is at once or on the grid, the grid's next tick after
 * the last start is never skipped by more than the work itself, and time never goes back. */
static void any_run_starts_on_the_grid_or_late(void **unused)
{
    (void)unused;
    for (int run = 0; run < 2000; run++) {
        struct mt_trigger trigger = {MT_TRIGGER_PROCESSING, 1 + random_below(100000)};
        struct mt_trigger_state state = {0};
        int64_t now = random_below(INT64_C(4000000000000)) - INT64_C(1000000000000);
        int64_t start = now;
        mt_trigger_started(&trigger, &state, now);
        for (int batch = 0; batch < 20; batch++) {
            now += random_below(3 * trigger.interval_ms);
            int64_t next = next_start(&trigger, &state, now);
            int64_t tick =
                start -
                ((start % trigger.interval_ms) + trigger.interval_ms) % trigger.interval_ms +
                trigger.interval_ms;
            assert_true(next >= now && next > start - (start == now));
            assert_int_equal(next, now > tick ? now : tick);
            start = now = next;
            mt_trigger_started(&trigger, &state, now);
        }
    }
}

static void no_interval_or_time_overflows(void **unused)
{
    (void)unused;
    const int64_t extremes[] = {INT64_MIN, INT64_MIN + 1, -1, 0, 1, INT64_MAX - 1, INT64_MAX};
    for (size_t i = 0; i < 7; i++)
        for (size_t j = 3; j < 7; j++) {
            struct mt_trigger trigger = {MT_TRIGGER_PROCESSING, extremes[j]};
            struct mt_trigger_state state = {0};
            int64_t at;
            mt_trigger_started(&trigger, &state, extremes[i]);
            for (size_t k = 0; k < 7; k++)
                if (mt_trigger_ask(&trigger, &state, extremes[k], &at) == MT_TRIGGER_WAIT)
                    assert_true(at > extremes[k]);
        }
}

static void falling_behind_says_what_spark_says(void **unused)
{
    (void)unused;
    char text[200] = "";
    struct mt_trigger other = {0};
    assert_false(mt_trigger_behind(&every_10_s, 10000, text, sizeof text));
    assert_false(mt_trigger_behind(&other, 10000, text, sizeof text));
    assert_true(mt_trigger_behind(&every_10_s, 10001, text, sizeof text));
    assert_string_equal(text, "Current batch is falling behind. The trigger interval is 10000 "
                              "milliseconds, but spent 10001 milliseconds");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_default_fires_whenever_it_is_asked),
        cmocka_unit_test(processing_time_fires_at_once_then_on_the_grid_from_1970),
        cmocka_unit_test(a_start_on_a_tick_waits_for_the_next_tick),
        cmocka_unit_test(a_late_batch_is_followed_at_once_by_one_and_then_the_grid),
        cmocka_unit_test(a_batch_cut_by_our_limit_goes_on_at_once_and_only_once),
        cmocka_unit_test(available_now_and_once_end_when_drained),
        cmocka_unit_test(a_clock_that_was_set_back_does_not_stop_the_query),
        cmocka_unit_test(any_run_starts_on_the_grid_or_late),
        cmocka_unit_test(no_interval_or_time_overflows),
        cmocka_unit_test(falling_behind_says_what_spark_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
