// SPDX-License-Identifier: Apache-2.0
// Positions: Spark's offset JSON, both ways.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "source/source_int.h"

static char *canonical(const char *text)
{
    struct mt_offsets offsets;
    struct mt_error err = {0};
    if (mt_offsets_parse(text, 0, &offsets, &err) != MT_OK) {
        print_message("%s: %s\n", text, err.text);
        fail();
    }
    char *printed = mt_offsets_print(&offsets);
    mt_offsets_free(&offsets);
    return printed;
}

static void assert_canonical(const char *text, const char *expected)
{
    char *printed = canonical(text);
    assert_string_equal(printed, expected);
    free(printed);
}

static void topics_and_partitions_are_sorted_and_blanks_go(void **state)
{
    (void)state;
    assert_canonical("{ \"b\" : {\"10\": 1, \"9\": 2}, \"a\": {\"0\": 9223372036854775807} }",
                     "{\"a\":{\"0\":9223372036854775807},\"b\":{\"9\":2,\"10\":1}}");
    assert_canonical("{}", "{}");
    assert_canonical("{\"a\":{}}", "{}");
}

static void a_topic_name_with_quotes_survives(void **state)
{
    (void)state;
    assert_canonical("{\"a\\\"b\":{\"0\":1}}", "{\"a\\\"b\":{\"0\":1}}");
}

static void assert_refused(const char *text, int64_t lowest, const char *words)
{
    struct mt_offsets offsets;
    struct mt_error err = {0};
    assert_int_equal(mt_offsets_parse(text, lowest, &offsets, &err), MT_FATAL);
    assert_int_equal(offsets.n, 0);
    if (!strstr(err.text, words)) {
        print_message("%s: \"%s\" is not in: %s\n", text, words, err.text);
        fail();
    }
}

static void what_is_not_a_position_is_refused_with_its_place(void **state)
{
    (void)state;
    assert_refused("", 0, "not JSON");
    assert_refused("{\"a\":{\"0\":1}", 0, "not JSON");
    assert_refused("{\"a\":{\"0\":1}} x", 0, "not JSON");
    assert_refused("[]", 0, "object of topics");
    assert_refused("17", 0, "not JSON");
    assert_refused("{\"a\":[1,2]}", 0, "topic \"a\"");
    assert_refused("{\"a\":{\"0\":1},\"a\":{\"1\":1}}", 0, "not JSON");
    assert_refused("{\"a\":{\"0\":1,\"0\":2}}", 0, "not JSON");
    assert_refused("{\"a\":{\"01\":1}}", 0, "partition 01");
    assert_refused("{\"a\":{\"-1\":1}}", 0, "partition -1");
    assert_refused("{\"a\":{\"\":1}}", 0, "plain number");
    assert_refused("{\"a\":{\"2147483648\":1}}", 0, "plain number");
    assert_refused("{\"a\":{\"1 \":1}}", 0, "plain number");
    assert_refused("{\"a\":{\"0\":1.0}}", 0, "whole number");
    assert_refused("{\"a\":{\"0\":\"1\"}}", 0, "whole number");
    assert_refused("{\"a\":{\"0\":null}}", 0, "whole number");
    assert_refused("{\"a\":{\"0\":9223372036854775808}}", 0, "not JSON");
    assert_refused("{\"a\":{\"0\":-1}}", 0, "from 0 on");
    assert_refused("{\"a\":{\"0\":-3}}", -2, "-2 (earliest)");
}

static void earliest_and_latest_are_offsets_where_they_are_allowed(void **state)
{
    (void)state;
    struct mt_offsets offsets;
    struct mt_error err = {0};
    assert_int_equal(mt_offsets_parse("{\"t\":{\"0\":-2,\"1\":-1}}", -2, &offsets, &err), MT_OK);
    assert_int_equal(mt_offsets_get(&offsets, "t", 0, 7), -2);
    assert_int_equal(mt_offsets_get(&offsets, "t", 1, 7), -1);
    assert_int_equal(mt_offsets_get(&offsets, "t", 2, 7), 7);
    assert_false(mt_offsets_has(&offsets, "u", 0));
    mt_offsets_free(&offsets);
}

static uint64_t seed;

static uint64_t next(uint64_t below)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (seed >> 33) % below;
}

static const char *const names[] = {"a", "a.b", "a-b", "ab", "z", "\xc3\xa9t\xc3\xa9", "A"};

/* Pairs put in any order print as one text, and reading that text gives the same pairs. */
static void any_order_prints_the_same_text_which_reads_back(void **state)
{
    (void)state;
    for (seed = 1; seed < 300; seed++) {
        uint64_t run = seed;
        struct mt_offsets there = {0}, back = {0}, read;
        struct mt_error err = {0};
        int64_t pairs[20][3];
        size_t n = next(20);
        for (size_t i = 0; i < n; i++) {
            pairs[i][0] = (int64_t)next(sizeof names / sizeof *names);
            pairs[i][1] = (int64_t)next(12);
            pairs[i][2] = (int64_t)(next(1u << 31) * next(1u << 31));
            mt_offsets_set(&there, names[pairs[i][0]], (int32_t)pairs[i][1], pairs[i][2]);
        }
        for (size_t i = 0; i < there.n; i++) /* backwards */
            mt_offsets_set(&back, there.items[there.n - 1 - i].topic,
                           there.items[there.n - 1 - i].partition,
                           there.items[there.n - 1 - i].offset);
        char *text = mt_offsets_print(&there), *other = mt_offsets_print(&back);
        assert_string_equal(text, other);
        assert_int_equal(mt_offsets_parse(text, 0, &read, &err), MT_OK);
        assert_int_equal(read.n, there.n);
        for (size_t i = 0; i < there.n; i++)
            assert_int_equal(
                mt_offsets_get(&read, there.items[i].topic, there.items[i].partition, -1),
                there.items[i].offset);
        free(text), free(other);
        mt_offsets_free(&there), mt_offsets_free(&back), mt_offsets_free(&read);
        seed = run;
    }
}

static void read_last_line(const char *path, char *line, int cap)
{
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    char next_line[4000];
    while (fgets(next_line, sizeof next_line, file))
        snprintf(line, (size_t)cap, "%s", next_line);
    fclose(file);
    line[strcspn(line, "\n")] = '\0';
}

static void the_offsets_of_a_spark_checkpoint_read_and_print_the_same(void **state)
{
    (void)state;
    static const char *const files[] = {"sources/0/0", "offsets/0", "offsets/1", "offsets/2",
                                        "offsets/3"};
    static const int64_t ends[] = {0, 5, 8, 13, 15};
    for (size_t i = 0; i < 5; i++) {
        char path[300], line[4000] = "", *printed;
        struct mt_offsets offsets;
        struct mt_error err = {0};
        snprintf(path, sizeof path, MT_TEST_DATA "/spark-orders/checkpoint/%s", files[i]);
        read_last_line(path, line, sizeof line);
        assert_int_equal(mt_offsets_parse(line, 0, &offsets, &err), MT_OK);
        assert_int_equal(offsets.n, 2);
        assert_int_equal(mt_offsets_get(&offsets, "orders_b", 0, -1), ends[i]);
        assert_int_equal(mt_offsets_get(&offsets, "orders_b", 1, -1), ends[i]);
        printed = mt_offsets_print(&offsets);
        assert_string_equal(printed, line);
        free(printed);
        mt_offsets_free(&offsets);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(topics_and_partitions_are_sorted_and_blanks_go),
        cmocka_unit_test(a_topic_name_with_quotes_survives),
        cmocka_unit_test(what_is_not_a_position_is_refused_with_its_place),
        cmocka_unit_test(earliest_and_latest_are_offsets_where_they_are_allowed),
        cmocka_unit_test(any_order_prints_the_same_text_which_reads_back),
        cmocka_unit_test(the_offsets_of_a_spark_checkpoint_read_and_print_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
