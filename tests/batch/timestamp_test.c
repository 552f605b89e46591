/* SPDX-License-Identifier: Apache-2.0
 *
 * timestamp_test.c - microseconds as text, both ways: Spark's cast grammar and forms. */
#include "batch/sample.h"

static const int64_t NOW_US = INT64_C(1795989000123456); /* 2026-11-29 21:50:00.123456 */

static void reads_as(const char *text, const char *expected)
{
    int64_t micros;
    char out[40];
    if (!mt_timestamp_parse(text, (int64_t)strlen(text), NOW_US, &micros))
        fail_msg("\"%s\" is not read", text);
    int32_t len = mt_timestamp_print(micros, out);
    assert_int_equal(len, strlen(out));
    if (strcmp(out, expected) != 0)
        fail_msg("\"%s\" is read as %s, not %s", text, out, expected);
}

static void refused(const char *text)
{
    int64_t micros;
    if (mt_timestamp_parse(text, (int64_t)strlen(text), NOW_US, &micros))
        fail_msg("\"%s\" is read as %lld", text, (long long)micros);
}

static void what_spark_read_is_read_the_same(void **state)
{
    (void)state;
    reads_as("2026-11-29T10:00:00Z", "2026-11-29 10:00:00");
    reads_as("2026-11-29T10:00:00.123456Z", "2026-11-29 10:00:00.123456");
    reads_as("2026-11-29T10:00:00+02:00", "2026-11-29 08:00:00");
    reads_as("2026-11-29T10:00:00", "2026-11-29 10:00:00");
    reads_as("2026-11-29 10:00:00.5", "2026-11-29 10:00:00.5");
    reads_as("2026-11-29", "2026-11-29 00:00:00");
    reads_as("2026", "2026-01-01 00:00:00");
    reads_as("10:00:00", "2026-11-29 10:00:00");
    reads_as("1969-12-31T23:59:59.999999Z", "1969-12-31 23:59:59.999999");
    reads_as("2026-11-29T10:00:00 Europe/Paris", "2026-11-29 09:00:00");
    refused("2026-11-29T25:00:00Z");
    refused("29/11/2026 10:00");
}

static void parts_may_be_short_or_missing_and_fractions_are_cut_at_six(void **state)
{
    (void)state;
    reads_as("2026-1-2 3:4:5", "2026-01-02 03:04:05");
    reads_as("2026-12", "2026-12-01 00:00:00");
    reads_as("2026-11-29T10", "2026-11-29 10:00:00");
    reads_as("2026-11-29 10:15", "2026-11-29 10:15:00");
    reads_as("2026-11-29 10:00:00.", "2026-11-29 10:00:00");
    reads_as("2026-11-29 10:00:00.Z", "2026-11-29 10:00:00");
    reads_as("2026-11-29 10:00:00.123456999", "2026-11-29 10:00:00.123456");
    reads_as("2026-11-29 10:00:00.0000009", "2026-11-29 10:00:00");
    reads_as("\t 2026-11-29 10:00:00 \n", "2026-11-29 10:00:00");
    reads_as("-0001-01-01 00:00:00", "-0001-01-01 00:00:00");
    reads_as("+12026-01-01", "+12026-01-01 00:00:00");
}

static void a_time_alone_takes_the_day_that_it_is_in_its_zone(void **state)
{
    (void)state;
    reads_as("T10", "2026-11-29 10:00:00");
    reads_as("9:30", "2026-11-29 09:30:00");
    reads_as("23:00:00+03:00", "2026-11-30 20:00:00"); /* there it is the 30th */
    reads_as("01:00:00-03:00", "2026-11-29 04:00:00");
    reads_as("08:00:00 Asia/Tokyo", "2026-11-29 23:00:00");
    refused(" T10:00"); /* as in Spark, only as the first byte */
    refused("+10:00");
    refused("10:");
    refused("T");
}

static void offsets_have_all_the_forms_of_java(void **state)
{
    (void)state;
    static const struct {
        const char *zone, *expected;
    } zones[] = {
        {"Z", "12:00:00"},         {" Z", "12:00:00"},       {"+1", "11:00:00"},
        {"-1", "13:00:00"},        {"+01", "11:00:00"},      {"+1:30", "10:30:00"},
        {"+01:30", "10:30:00"},    {"+01:3", "10:57:00"},    {"+0130", "10:30:00"},
        {"+01:30:30", "10:29:30"}, {"+013030", "10:29:30"},  {"UTC", "12:00:00"},
        {"UTC+1", "11:00:00"},     {"GMT-1:30", "13:30:00"}, {"UT+02:00", "10:00:00"},
        {"GMT", "12:00:00"},       {"UT", "12:00:00"},       {"GMT0", "12:00:00"},
        {"PST", "20:00:00"},       {"JST", "03:00:00"},      {"EST", "17:00:00"},
    };
    for (size_t i = 0; i < sizeof zones / sizeof *zones; i++) {
        char text[64], expected[64];
        snprintf(text, sizeof text, "2026-11-29 12:00:00%s", zones[i].zone);
        snprintf(expected, sizeof expected, "2026-11-29 %s", zones[i].expected);
        reads_as(text, expected);
    }
    reads_as("2026-11-29 12:00:00+18:00", "2026-11-28 18:00:00");
    reads_as("2026-11-29 12:00:00-18:00", "2026-11-30 06:00:00");
}

static void what_is_no_timestamp_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        " ",
        "2026-02-30 00:00:00",
        "2026-13-01",
        "2026-11-29 24:00:00",
        "2026-11-29 10:60:00",
        "2026-11-29 10:00:60",
        "2016-12-31T23:59:60Z",
        "2026-11-29T10:00Z",
        "2026-11-29T10Z",
        "2026-11-29Z",
        "2026-11-29T",
        "2026-11-29 ten",
        "2026-11-29t10:00:00",
        "202-11-29",
        "1234567-01-01",
        "2026-11-291",
        "2026-11-29 100:00:00",
        "2026-11-29 10:00:00.5.5",
        "2026-11-29  10:00:00",
        "99999999",
        "1764410400",
        "20261129T100000Z",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        refused(texts[i]);
}

static void what_is_no_zone_is_refused(void **state)
{
    (void)state;
    static const char *const zones[] = {
        "z",
        "+",
        "+19:00",
        "+18:01",
        "-18:00:01",
        "+1:60",
        "+01:00:60",
        "+001",
        "+01300",
        "+1:3:00",
        "UTC1",
        "UTC+",
        "Utc",
        "CET+1",
        "Europe/Pariss",
        "europe/paris",
        "Europe",
        "Europe/",
        "../../../etc/passwd",
        "Etc/../../../../etc/passwd",
        "/usr/share/zoneinfo/UTC",
        "posixrules",
        "right/UTC",
        "tzdata.zi",
        "localtime",
        "Z Z",
        "é",
        "Averyveryveryveryveryveryveryveryveryveryveryveryveryverylongname",
    };
    for (size_t i = 0; i < sizeof zones / sizeof *zones; i++) {
        char text[128];
        snprintf(text, sizeof text, "2026-11-29 12:00:00 %s", zones[i]);
        refused(text);
    }
}

static void sixty_three_bits_are_the_range(void **state)
{
    (void)state;
    char out[40];
    reads_as("+294247-01-10 04:00:54.775807", "+294247-01-10 04:00:54.775807");
    refused("+294247-01-10 04:00:54.775808");
    reads_as("-290308-12-21 19:59:05.224192", "-290308-12-21 19:59:05.224192");
    refused("-290308-12-21 19:59:05.224191");
    mt_timestamp_print(INT64_MIN, out);
    assert_string_equal(out, "-290308-12-21 19:59:05.224192");
    mt_timestamp_print(INT64_C(1764410400000) * 1000000, out);
    assert_string_equal(out, "+57881-12-09 16:00:00");
}

static void the_iso_form_has_three_digits_or_the_six_it_needs(void **state)
{
    (void)state;
    char out[40];
    mt_timestamp_print_iso(INT64_C(1795946400500000), out);
    assert_string_equal(out, "2026-11-29T10:00:00.500Z");
    mt_timestamp_print_iso(0, out);
    assert_string_equal(out, "1970-01-01T00:00:00.000Z");
    mt_timestamp_print_iso(-1, out);
    assert_string_equal(out, "1969-12-31T23:59:59.999999Z");
}

static void printed_timestamps_read_back_equal(void **state)
{
    (void)state;
    sample_seed();
    for (int i = 0; i < 20000; i++) {
        int64_t micros = (int64_t)sample_bits() >> sample_below(40), read = 0;
        char out[40];
        int64_t len = mt_timestamp_print(micros, out);
        assert_int_equal((int64_t)strlen(out), len);
        if (!mt_timestamp_parse(out, len, NOW_US, &read) || read != micros)
            fail_msg("%lld prints as %s, which reads as %lld", (long long)micros, out,
                     (long long)read);
        len = mt_timestamp_print_iso(micros, out);
        assert_true(mt_timestamp_parse(out, len, NOW_US, &read));
        assert_true(read == micros);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_spark_read_is_read_the_same),
        cmocka_unit_test(parts_may_be_short_or_missing_and_fractions_are_cut_at_six),
        cmocka_unit_test(a_time_alone_takes_the_day_that_it_is_in_its_zone),
        cmocka_unit_test(offsets_have_all_the_forms_of_java),
        cmocka_unit_test(what_is_no_timestamp_is_refused),
        cmocka_unit_test(what_is_no_zone_is_refused),
        cmocka_unit_test(sixty_three_bits_are_the_range),
        cmocka_unit_test(the_iso_form_has_three_digits_or_the_six_it_needs),
        cmocka_unit_test(printed_timestamps_read_back_equal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
