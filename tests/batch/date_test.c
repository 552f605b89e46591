/* SPDX-License-Identifier: Apache-2.0
 *
 * date_test.c - days as text, both ways, and the calendar against a naive count. */
#include "batch/sample.h"

static void reads_as(const char *text, const char *expected)
{
    int32_t days;
    char out[40];
    if (!mt_date_parse(text, (int64_t)strlen(text), &days))
        fail_msg("\"%s\" is not read", text);
    assert_int_equal(mt_date_print(days, out), strlen(expected));
    assert_string_equal(out, expected);
}

static void refused(const char *text)
{
    int32_t days;
    if (mt_date_parse(text, (int64_t)strlen(text), &days))
        fail_msg("\"%s\" is read as day %d", text, days);
}

static bool is_leap(int year)
{
    return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

/* Counts days one by one from 0400-01-01 and asks for each. */
static void every_day_of_1200_years_is_the_next_of_the_one_before(void **state)
{
    (void)state;
    static const int lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int32_t days = -573431; /* 0400-01-01, below checked against 1970 */
    char expected[40], out[40];
    for (int year = 400; year < 1600 + 401; year++)
        for (int month = 1; month <= 12; month++)
            for (int day = 1; day <= lengths[month - 1] + (month == 2 && is_leap(year)); day++) {
                int32_t read;
                snprintf(expected, sizeof expected, "%04d-%02d-%02d", year, month, day);
                if (year == 1970 && month == 1 && day == 1)
                    assert_int_equal(days, 0);
                mt_date_print(days, out);
                if (strcmp(out, expected) != 0 || !mt_date_parse(expected, 10, &read) ||
                    read != days)
                    fail_msg("day %d prints as %s, not %s", days, out, expected);
                days++;
            }
}

static void a_million_days_on_either_side_come_back(void **state)
{
    (void)state;
    char out[40];
    for (int32_t days = -1000000; days <= 1000000; days += 7) {
        int32_t read;
        int64_t len = mt_date_print(days, out);
        assert_int_equal((int64_t)strlen(out), len);
        assert_true(mt_date_parse(out, len, &read));
        assert_int_equal(read, days);
    }
}

static void the_forms_of_spark_are_read(void **state)
{
    (void)state;
    reads_as("2026-02-28", "2026-02-28");
    reads_as("2026-02-28T10:00:00Z", "2026-02-28");
    reads_as("2026-02-28 anything", "2026-02-28");
    reads_as(" \t2026-2-8\n", "2026-02-08");
    reads_as("2026-12", "2026-12-01");
    reads_as("2026", "2026-01-01");
    reads_as("0001-01-01", "0001-01-01");
    reads_as("+2026-01-01", "2026-01-01");
    reads_as("2024-02-29", "2024-02-29");
    reads_as("2000-02-29", "2000-02-29");
}

static void years_past_four_digits_carry_a_sign(void **state)
{
    (void)state;
    reads_as("9999-12-31", "9999-12-31");
    reads_as("10000-01-01", "+10000-01-01");
    reads_as("+57881-12-09", "+57881-12-09");
    reads_as("0000-01-01", "0000-01-01");
    reads_as("-0044-03-15", "-0044-03-15");
    reads_as("5881580-07-11", "+5881580-07-11"); /* the last day of 32 bits */
    refused("5881580-07-12");
    refused("9999999-01-01");
}

static void what_is_no_date_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        " ",
        "2026-02-30",
        "2026-02-29",
        "1900-02-29",
        "2026-13-01",
        "2026-00-01",
        "2026-01-00",
        "28/02/2026",
        "20260228x",
        "202",
        "2026-",
        "2026-1-",
        "2026-001-01",
        "2026-01-01x",
        "2026T",
        "2026-01T10:00",
        "-",
        "--2026",
        "99999999-1-1",
        "2026-01-01-",
        "٢٠٢٦-01-01",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        refused(texts[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_day_of_1200_years_is_the_next_of_the_one_before),
        cmocka_unit_test(a_million_days_on_either_side_come_back),
        cmocka_unit_test(the_forms_of_spark_are_read),
        cmocka_unit_test(years_past_four_digits_carry_a_sign),
        cmocka_unit_test(what_is_no_date_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
