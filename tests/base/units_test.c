/* SPDX-License-Identifier: Apache-2.0
 *
 * units_test.c - durations and byte counts: what is read, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"

static struct mt_error err;

static void duration(const char *text, int64_t expected)
{
    int64_t ms;
    if (mt_parse_duration(text, &ms, &err) != MT_OK)
        fail_msg("\"%s\": %s", text, err.text);
    assert_int_equal(ms, expected);
}

static void durations_need_a_unit_and_may_have_several_parts(void **state)
{
    (void)state;
    duration("10 seconds", 10000);
    duration("1 second", 1000);
    duration("500ms", 500);
    duration("0 seconds", 0);
    duration(" 1 minute 30 seconds ", 90000);
    duration("1h30m", 5400000);
    duration("2 DAYS", 2 * 86400000);
    duration("1 week", 7 * 86400000);
}

static void what_is_no_duration_is_refused_with_an_example(void **state)
{
    (void)state;
    static const char *const texts[] = {"",
                                        " ",
                                        "10",
                                        "seconds",
                                        "-1 second",
                                        "1.5 seconds",
                                        "1 month",
                                        "10 secondz",
                                        "1 s 2",
                                        "9223372036854775808 ms",
                                        "9223372036854775807 s",
                                        "1 s,",
                                        "s 1"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        int64_t ms;
        if (mt_parse_duration(texts[i], &ms, &err) == MT_OK)
            fail_msg("\"%s\" is read", texts[i]);
        assert_int_equal(err.class_, MT_CLASS_JOB);
        assert_non_null(strstr(err.text, "as in \"10 seconds\""));
    }
}

static void bytes_are_powers_of_1024(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t bytes;
    } good[] = {{"1024", 1024},    {"64m", 64 << 20},        {"1g", 1 << 30}, {"1G", 1 << 30},
                {"5 kb", 5 << 10}, {"2t", INT64_C(2) << 40}, {"7b", 7},       {"0", 0}};
    static const char *const bad[] = {
        "", "m", "-1", "1.5g", "64q", "1g 1m", "9223372036854775807k"};
    int64_t bytes;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(mt_parse_bytes(good[i].text, &bytes, &err), MT_OK);
        assert_int_equal(bytes, good[i].bytes);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (mt_parse_bytes(bad[i], &bytes, &err) == MT_OK)
            fail_msg("\"%s\" is read", bad[i]);
        assert_non_null(strstr(err.text, "\"64m\""));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(durations_need_a_unit_and_may_have_several_parts),
        cmocka_unit_test(what_is_no_duration_is_refused_with_an_example),
        cmocka_unit_test(bytes_are_powers_of_1024),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
