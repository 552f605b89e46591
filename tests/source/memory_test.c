// SPDX-License-Identifier: Apache-2.0
// The memory stream: rows that a test adds come out as they went in.
#include "kafka_util.h"

static struct mt_source *stream_of(const char *ddl)
{
    struct mt_error err = {0};
    struct mt_source *source = NULL;
    must(mt_memory_source_new(ddl, "numbers", &source, &err), &err);
    return source;
}

/* Rows (first, "first") …, every third name null, and a list of as many as first % 3. */
static void add(struct mt_source *source, int64_t first, int64_t n)
{
    struct mt_error err = {0};
    struct mt_column columns[3];
    struct ArrowArray arrays[3], rows;
    for (int c = 0; c < 3; c++)
        mt_column_init(&columns[c], source->full_schema.children[c]);
    for (int64_t i = first; i < first + n; i++) {
        char text[30];
        int len = snprintf(text, sizeof text, "%lld", (long long)i);
        must(mt_column_add_int(&columns[0], i, &err), &err);
        must(i % 3 == 0 ? mt_column_add_null(&columns[1], &err)
                        : mt_column_add_bytes(&columns[1], text, len, &err),
             &err);
        for (int64_t j = 0; j < i % 3; j++)
            must(mt_column_add_int(&columns[2].children[0], j, &err), &err);
        must(mt_column_close_row(&columns[2], &err), &err);
    }
    for (int c = 0; c < 3; c++) {
        mt_column_finish(&columns[c], &arrays[c]);
        mt_column_deinit(&columns[c]);
    }
    mt_array_struct(arrays, 3, n, &rows);
    must(mt_memory_source_add(source, &rows, &err), &err);
    assert_null(rows.release);
}

static void rows_added_in_pieces_are_one_batch(void **state)
{
    (void)state;
    struct mt_source *source = stream_of("n BIGINT, s STRING, l ARRAY<INT>");
    char *start = start_of(source), where[60];
    struct mt_batch batch = {0};
    assert_false(next_batch(source, &start, MT_REACH_ARRIVED, &batch));
    add(source, 0, 5);
    add(source, 5, 3);
    assert_true(next_batch(source, &start, MT_REACH_ARRIVED, &batch));
    assert_string_equal(start, "8");
    assert_int_equal(batch.array.length, 8);
    assert_value(&batch, "n", 7, "7");
    assert_value(&batch, "s", 3, "NULL");
    assert_value(&batch, "s", 5, "5");
    assert_value(&batch, "l", 5, "[0, 1]");
    assert_value(&batch, "l", 6, "[]");
    assert_string_equal(mt_batch_where(&batch, 6, where, sizeof where), "row 6 of numbers");
    mt_batch_release(&batch);
    free(start);
    mt_source_free(source);
}

static void any_range_reads_again_and_only_wanted_columns(void **state)
{
    (void)state;
    struct mt_source *source = stream_of("n BIGINT, s STRING, l ARRAY<INT>");
    static const int32_t wanted[] = {0};
    mt_source_project(source, wanted, 1);
    add(source, 0, 4);
    add(source, 4, 4);
    add(source, 8, 4);
    struct mt_batch batch = batch_of(source, "2", "9", NULL);
    assert_int_equal(batch.array.n_children, 1);
    assert_int_equal(batch.array.length, 7);
    for (int i = 0; i < 7; i++)
        assert_int_equal(number_at(&batch, "n", i), 2 + i);
    mt_batch_release(&batch);
    mt_source_free(source);
}

static void adding_wakes_and_a_target_stays_where_it_was(void **state)
{
    (void)state;
    struct mt_source *source = stream_of("n BIGINT, s STRING, l ARRAY<INT>");
    struct pollfd fd = {source->wake_fd, POLLIN, 0};
    add(source, 0, 2);
    assert_int_equal(poll(&fd, 1, 0), 1);
    struct mt_ends ends = ends_of(source, "0", MT_REACH_TARGET);
    assert_int_equal(poll(&fd, 1, 0), 0);
    add(source, 2, 2);
    struct mt_ends more = ends_of(source, ends.end, MT_REACH_TARGET);
    assert_string_equal(ends.end, "2");
    assert_true(ends.reached && more.reached && more.nothing);
    mt_ends_clear(&ends), mt_ends_clear(&more);
    mt_source_free(source);
}

static void a_position_past_the_rows_is_refused(void **state)
{
    (void)state;
    struct mt_source *source = stream_of("n BIGINT, s STRING, l ARRAY<INT>");
    struct mt_error err = {0};
    struct mt_ends ends = {0};
    assert_int_equal(source->type->available(source, "17", MT_REACH_ARRIVED, 0, &ends, &err),
                     MT_FATAL);
    assert_int_equal(err.class_, MT_CLASS_DATA_LOSS);
    assert_int_equal(source->type->available(source, "{}", MT_REACH_ARRIVED, 0, &ends, &err),
                     MT_FATAL);
    assert_int_equal(err.class_, MT_CLASS_CHECKPOINT);
    assert_int_equal(mt_memory_source_new("n BOGUS", "x", &source, &err), MT_FATAL);
    mt_source_free(source);
}

static void each_reader_reads_all_rows_and_outlives_the_others(void **state)
{
    (void)state;
    struct mt_error err = {0};
    struct mt_source *first = stream_of("n BIGINT, s STRING, l ARRAY<INT>"), *second;
    add(first, 0, 2);
    must(mt_memory_source_again(first, &second, &err), &err);
    add(first, 2, 1);
    char *start = start_of(second);
    struct mt_batch batch = {0};
    assert_true(next_batch(second, &start, MT_REACH_ARRIVED, &batch));
    assert_int_equal(batch.array.length, 3);
    mt_batch_release(&batch);
    mt_source_free(first);
    add(second, 3, 1);
    assert_true(next_batch(second, &start, MT_REACH_ARRIVED, &batch));
    assert_value(&batch, "n", 0, "3");
    mt_batch_release(&batch);
    free(start);
    mt_source_free(second);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_added_in_pieces_are_one_batch),
        cmocka_unit_test(any_range_reads_again_and_only_wanted_columns),
        cmocka_unit_test(adding_wakes_and_a_target_stays_where_it_was),
        cmocka_unit_test(a_position_past_the_rows_is_refused),
        cmocka_unit_test(each_reader_reads_all_rows_and_outlives_the_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
