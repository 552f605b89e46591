/* SPDX-License-Identifier: Apache-2.0
 *
 * coords_test.c - where a row came from, in words. */
#include "batch/sample.h"

static void rows_name_topic_partition_and_offset_across_runs(void **state)
{
    (void)state;
    char where[64];
    struct mt_batch batch = {.coords = mt_coords_new()};
    mt_coords_start(batch.coords, "orders", 0);
    for (int i = 0; i < 3; i++)
        mt_coords_add(batch.coords, 10 + 2 * i); /* gaps: a compacted topic */
    mt_coords_start(batch.coords, "orders", 1);
    mt_coords_start(batch.coords, "returns", 0);
    mt_coords_add(batch.coords, INT64_MAX);
    assert_string_equal(mt_batch_where(&batch, 0, where, sizeof where), "orders[0]@10");
    assert_string_equal(mt_batch_where(&batch, 2, where, sizeof where), "orders[0]@14");
    assert_string_equal(mt_batch_where(&batch, 3, where, sizeof where),
                        "returns[0]@9223372036854775807");
    assert_string_equal(mt_batch_where(&batch, 3, where, 8), "returns"); /* cut, not overrun */
    mt_batch_release(&batch);
}

static void sources_without_partitions_count_rows(void **state)
{
    (void)state;
    char where[64];
    struct mt_batch batch = {.coords = mt_coords_new()};
    mt_coords_start(batch.coords, "numbers", -1);
    mt_coords_add(batch.coords, 17);
    assert_string_equal(mt_batch_where(&batch, 0, where, sizeof where), "row 17 of numbers");
    mt_batch_release(&batch);
}

static void without_coordinates_the_row_number_is_left(void **state)
{
    (void)state;
    char where[64];
    struct mt_batch batch = {0};
    assert_string_equal(mt_batch_where(&batch, 5, where, sizeof where), "row 5");
    batch.coords = mt_coords_new();
    assert_string_equal(mt_batch_where(&batch, 0, where, sizeof where), "row 0");
    mt_batch_release(&batch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_name_topic_partition_and_offset_across_runs),
        cmocka_unit_test(sources_without_partitions_count_rows),
        cmocka_unit_test(without_coordinates_the_row_number_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
