// SPDX-License-Identifier: Apache-2.0
// maxOffsetsPerTrigger is shared out as Spark does it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "source/kafka/kafka_int.h"

static void parse(json_t *json, struct mt_offsets *out)
{
    struct mt_error err = {0};
    char *text = json_dumps(json, JSON_COMPACT);
    if (mt_offsets_parse(text, 0, out, &err) != MT_OK) {
        print_message("%s\n", err.text);
        fail();
    }
    free(text);
}

/* The log ends of an entry: {"qa":[1000,100]}. */
static void log_ends(json_t *topics, struct mt_offsets *out)
{
    const char *name;
    json_t *counts, *count;
    size_t i;
    *out = (struct mt_offsets){0};
    json_object_foreach (topics, name, counts)
        json_array_foreach (counts, i, count)
            mt_offsets_set(out, name, (int32_t)i, json_integer_value(count));
}

static void plan_batches(json_t *entry)
{
    struct mt_offsets at, latest;
    size_t i;
    json_t *end,
        *limit = json_object_get(json_object_get(entry, "options"), "maxOffsetsPerTrigger");
    parse(json_object_get(entry, "initial"), &at);
    log_ends(json_object_get(entry, "topics"), &latest);
    assert_int_equal(json_array_size(json_object_get(entry, "ends")),
                     json_integer_value(json_object_get(entry, "batches")));
    json_array_foreach (json_object_get(entry, "ends"), i, end) {
        struct mt_offsets planned, spark;
        kafka_split(&at, &latest, limit ? atoll(json_string_value(limit)) : INT64_MAX, &planned);
        parse(end, &spark);
        char *ours = mt_offsets_print(&planned), *theirs = mt_offsets_print(&spark);
        assert_string_equal(ours, theirs);
        free(ours), free(theirs);
        mt_offsets_free(&spark), mt_offsets_free(&at);
        at = planned;
    }
    char *last = mt_offsets_print(&at), *all = mt_offsets_print(&latest);
    assert_string_equal(last, all);
    free(last), free(all);
    mt_offsets_free(&at), mt_offsets_free(&latest);
}

static void every_batch_that_spark_planned_is_planned_here(void **state)
{
    (void)state;
    json_error_t at;
    size_t i;
    json_t *entry, *entries = json_load_file(MT_TEST_DATA "/spark-planned-offsets.json", 0, &at);
    assert_int_equal(json_array_size(entries), 9);
    json_array_foreach (entries, i, entry)
        plan_batches(entry);
    json_decref(entries);
}

static uint64_t seed;

static int64_t next(int64_t below)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((seed >> 20) % (uint64_t)below);
}

/* No batch skips or goes back, none is empty, and the ends are reached. */
static void any_split_goes_forward_until_everything_is_read(void **state)
{
    (void)state;
    for (uint64_t run = 1; run < 200; run++) {
        seed = run;
        struct mt_offsets at = {0}, latest = {0};
        int64_t limit = 1 + next(run % 2 ? 50 : INT64_MAX / 2), n = 1 + next(9), total = 0;
        for (int32_t p = 0; p < n; p++) {
            int64_t from = next(1000), size = next(run % 3 ? 100 : 1000);
            mt_offsets_set(&at, "t", p, from);
            mt_offsets_set(&latest, "t", p, from + size);
            total += size;
        }
        while (total > 0) {
            struct mt_offsets ends;
            int64_t sum = 0;
            kafka_split(&at, &latest, limit, &ends);
            for (int32_t p = 0; p < n; p++) {
                int64_t from = mt_offsets_get(&at, "t", p, -1);
                int64_t end = mt_offsets_get(&ends, "t", p, -1);
                int64_t last = mt_offsets_get(&latest, "t", p, -1);
                assert_true(end >= from && end <= last);
                assert_true(from == last || end > from);
                sum += end - from;
            }
            assert_true(sum <= limit + n); /* at least one each */
            total -= sum;
            mt_offsets_free(&at);
            at = ends;
        }
        mt_offsets_free(&at), mt_offsets_free(&latest);
    }
}

static void offsets_near_the_end_of_int64_do_not_overflow(void **state)
{
    (void)state;
    struct mt_offsets at = {0}, latest = {0}, ends;
    mt_offsets_set(&at, "t", 0, INT64_MAX - 10);
    mt_offsets_set(&latest, "t", 0, INT64_MAX);
    kafka_split(&at, &latest, INT64_MAX, &ends);
    assert_int_equal(mt_offsets_get(&ends, "t", 0, -1), INT64_MAX);
    mt_offsets_free(&at), mt_offsets_free(&latest), mt_offsets_free(&ends);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_batch_that_spark_planned_is_planned_here),
        cmocka_unit_test(any_split_goes_forward_until_everything_is_read),
        cmocka_unit_test(offsets_near_the_end_of_int64_do_not_overflow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
