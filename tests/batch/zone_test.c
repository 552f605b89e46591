/* SPDX-License-Identifier: Apache-2.0
 *
 * zone_test.c - regions: the C library, asked with TZ, is the judge. Skipped cases are
 * none: without time zone files the test fails, as reading such text would. */
#include <pthread.h>

#include "batch/sample.h"

static const char *const regions[] = {
    "Europe/Paris",     "America/New_York",  "Australia/Lord_Howe", "America/Sao_Paulo",
    "Asia/Kolkata",     "Africa/Casablanca", "Europe/Dublin",       "Pacific/Apia",
    "America/St_Johns", "Antarctica/Troll",  "Asia/Gaza",           "Etc/GMT+5",
};

/* Seconds of a time in a zone, by our parser. */
static bool ours(int64_t local_s, const char *region, int64_t *utc_s)
{
    char text[128];
    int64_t micros;
    int32_t len = mt_timestamp_print(local_s * 1000000, text);
    len += snprintf(text + len, sizeof text - (size_t)len, " %s", region);
    bool read = mt_timestamp_parse(text, len, 0, &micros);
    *utc_s = micros / 1000000;
    return read;
}

/* What libc shows at a UTC time must, read as local, give that time or, in the hour
 * that comes twice, the first of the two. */
static void check(int64_t utc_s, const char *region)
{
    time_t at = (time_t)utc_s;
    struct tm parts;
    localtime_r(&at, &parts);
    int64_t local_s = utc_s + parts.tm_gmtoff, read;
    if (!ours(local_s, region, &read))
        fail_msg("%s is not known", region);
    if (read == utc_s)
        return;
    time_t earlier = (time_t)read;
    localtime_r(&earlier, &parts);
    if (read > utc_s || read + parts.tm_gmtoff != local_s)
        fail_msg("%s: %lld is read as %lld", region, (long long)utc_s, (long long)read);
}

static void local_times_of_three_centuries_agree_with_the_c_library(void **state)
{
    (void)state;
    sample_seed();
    for (size_t i = 0; i < sizeof regions / sizeof *regions; i++) {
        setenv("TZ", regions[i], 1);
        tzset();
        for (int n = 0; n < 3000; n++) /* 1900..2200 */
            check(INT64_C(-2208988800) + (int64_t)(sample_bits() % UINT64_C(9467280000)),
                  regions[i]);
    }
}

static void every_quarter_hour_around_switches_agrees(void **state)
{
    (void)state;
    setenv("TZ", "Europe/Paris", 1);
    tzset();
    static const int64_t around[] = {
        1774746000, 1792890000, /* 2026-03-29, 2026-10-25 01:00 UTC */
        2140045200, 4108669200, /* 2037-10-25, 2100-03-14: from the rule at the end */
    };
    for (size_t i = 0; i < sizeof around / sizeof *around; i++)
        for (int64_t s = around[i] - 86400; s < around[i] + 86400; s += 900)
            check(s, "Europe/Paris");
}

static void reads_as(const char *text, const char *expected)
{
    int64_t micros;
    char out[40];
    assert_true(mt_timestamp_parse(text, (int64_t)strlen(text), 0, &micros));
    mt_timestamp_print(micros, out);
    assert_string_equal(out, expected);
}

static void an_hour_that_is_skipped_moves_on_and_one_that_repeats_is_the_first(void **state)
{
    (void)state;
    reads_as("2026-03-29 02:30:00 Europe/Paris", "2026-03-29 01:30:00");
    reads_as("2026-10-25 02:30:00 Europe/Paris", "2026-10-25 00:30:00");
    reads_as("2026-10-25 03:00:00 Europe/Paris", "2026-10-25 02:00:00");
}

static void the_rule_holds_a_thousand_years_from_now(void **state)
{
    (void)state;
    reads_as("3026-07-01 12:00:00 Europe/Paris", "3026-07-01 10:00:00");
    reads_as("3026-01-01 12:00:00 Europe/Paris", "3026-01-01 11:00:00");
    reads_as("9999-12-31 23:59:59 America/New_York", "+10000-01-01 04:59:59");
    reads_as("+200000-07-01 12:00:00 Europe/Paris", "+200000-07-01 10:00:00");
    reads_as("1800-01-01 00:00:00 Europe/Paris", "1799-12-31 23:50:39"); /* sun time */
}

static void *read_all(void *unused)
{
    (void)unused;
    for (int n = 0; n < 200; n++)
        for (size_t i = 0; i < sizeof regions / sizeof *regions; i++) {
            int64_t utc_s;
            if (!ours(1795989000, regions[i], &utc_s))
                return "not read";
        }
    return NULL;
}

static void *print_noon_of_1970(void *out)
{
    mt_timestamp_print(INT64_C(43200) * 1000000, out);
    return NULL;
}

static void times_without_a_zone_are_those_of_the_session_s_of_this_thread(void **state)
{
    (void)state;
    char out[48], elsewhere[48];
    int64_t micros;
    pthread_t other;
    assert_true(mt_session_zone_use("Europe/Paris"));
    assert_false(mt_session_zone_use("Europe/Pairs"));
    assert_true(mt_timestamp_parse("2026-07-01 12:00:00", 19, 0, &micros));
    mt_timestamp_print(micros, out);
    assert_string_equal(out, "2026-07-01 12:00:00");
    mt_timestamp_print_iso(micros, out);
    assert_string_equal(out, "2026-07-01T10:00:00.000Z");
    assert_true(mt_timestamp_parse("2026-07-01 12:00:00Z", 20, 0, &micros));
    mt_timestamp_print(micros + 1, out);
    assert_string_equal(out, "2026-07-01 14:00:00.000001");
    assert_int_equal(mt_session_offset(0, false), 3600);
    pthread_create(&other, NULL, print_noon_of_1970, elsewhere);
    pthread_join(other, NULL);
    assert_string_equal(elsewhere, "1970-01-01 12:00:00");
    assert_true(mt_session_zone_use("UTC"));
    mt_timestamp_print(0, out);
    assert_string_equal(out, "1970-01-01 00:00:00");
}

static void threads_may_meet_in_the_same_region(void **state)
{
    (void)state;
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, read_all, NULL), 0);
    for (int i = 0; i < 4; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_may_meet_in_the_same_region), /* first: nothing cached */
        cmocka_unit_test(local_times_of_three_centuries_agree_with_the_c_library),
        cmocka_unit_test(every_quarter_hour_around_switches_agrees),
        cmocka_unit_test(an_hour_that_is_skipped_moves_on_and_one_that_repeats_is_the_first),
        cmocka_unit_test(times_without_a_zone_are_those_of_the_session_s_of_this_thread),
        cmocka_unit_test(the_rule_holds_a_thousand_years_from_now),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
