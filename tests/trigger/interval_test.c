/* SPDX-License-Identifier: Apache-2.0
 *
 * interval_test.c - Spark's interval text: what is read, and what is refused with words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "trigger/trigger.h"

static struct mt_error err;

static int64_t read_ms(const char *text)
{
    int64_t ms = -1;
    if (mt_trigger_parse_interval(text, &ms, &err) != MT_OK)
        fail_msg("\"%s\": %s", text, err.text);
    return ms;
}

static void refused(const char *text, const char *word)
{
    int64_t ms = -1;
    assert_int_equal(mt_trigger_parse_interval(text, &ms, &err), MT_FATAL);
    assert_int_equal(err.class_, MT_CLASS_JOB);
    if (!strstr(err.text, word))
        fail_msg("\"%s\" is refused by \"%s\", which lacks \"%s\"", text, err.text, word);
}

static void reads_what_spark_reads(void **unused)
{
    (void)unused;
    assert_int_equal(read_ms("10 seconds"), 10000);
    assert_int_equal(read_ms("1 minute"), 60000);
    assert_int_equal(read_ms("500 milliseconds"), 500);
    assert_int_equal(read_ms("2 hours 5 minutes"), 7500000);
    assert_int_equal(read_ms("1 day"), 86400000);
    assert_int_equal(read_ms("2 weeks"), 14 * INT64_C(86400000));
    assert_int_equal(read_ms("0 seconds"), 0);
    assert_int_equal(read_ms("5000 microseconds"), 5);
    assert_int_equal(read_ms("  Interval 1 MINUTE\t30  second "), 90000);
    assert_int_equal(read_ms("+3 seconds"), 3000);
    assert_int_equal(read_ms("1.5 seconds"), 1500);
    assert_int_equal(read_ms(".25 seconds"), 250);
    assert_int_equal(read_ms("1.500000000 seconds"), 1500);
}

static void refuses_by_name(void **unused)
{
    (void)unused;
    refused("-1 seconds", "negative");
    refused("1 minute -30 seconds", "negative");
    refused("1 month", "months and years");
    refused("2 years", "months and years");
    refused("1.5 minutes", "only seconds");
    refused("500 microseconds", "whole number of milliseconds");
    refused("1.0005 seconds", "whole number of milliseconds");
    refused("9223372036854775807 seconds", "longer than");
    refused("9000000000000 seconds 9000000000000 seconds", "longer than");
}

static void refuses_garbage(void **unused)
{
    (void)unused;
    const char *const garbage[] = {
        "",
        " ",
        "interval",
        "interval ",
        "10",
        "seconds",
        "10seconds",
        "10s",
        "ten seconds",
        "10 secondss",
        "10 s",
        "10 seconds,",
        "10 seconds 5",
        "1 second1 second",
        ". seconds",
        "1. seconds",
        "1.0000001 seconds",
        "1e3 seconds",
        "10 seconds\x01",
        "99999999999999999999 seconds",
        "10 \xff",
        "+ seconds",
        "++1 second",
    };
    for (size_t i = 0; i < sizeof garbage / sizeof garbage[0]; i++)
        refused(garbage[i], "10 seconds");
}

/* Every sum of parts reads back as the sum. */
static void any_sum_of_parts_reads_back(void **unused)
{
    (void)unused;
    for (int64_t h = 0; h < 30; h += 7)
        for (int64_t m = 0; m < 100; m += 13)
            for (int64_t ms = 0; ms < 70000; ms += 1237) {
                char text[200];
                snprintf(text, sizeof text, "%lld hours %lld minute %lld.%03lld second",
                         (long long)h, (long long)m, (long long)(ms / 1000),
                         (long long)(ms % 1000));
                assert_int_equal(read_ms(text), h * 3600000 + m * 60000 + ms);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_what_spark_reads),
        cmocka_unit_test(refuses_by_name),
        cmocka_unit_test(refuses_garbage),
        cmocka_unit_test(any_sum_of_parts_reads_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
