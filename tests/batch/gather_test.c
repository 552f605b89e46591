/* SPDX-License-Identifier: Apache-2.0
 *
 * gather_test.c - chosen rows, of every type, also from cut batches. */
#include "batch/sample.h"

static void gathered_rows_print_as_the_rows_they_came_from(void **state)
{
    (void)state;
    sample_seed();
    struct ArrowSchema schema;
    sample_schema(all_types, &schema);
    for (int round = 0; round < 60; round++) {
        struct mt_batch batch, out;
        int rows = sample_below(100), n = rows ? sample_below(150) : 0;
        int32_t picks[150];
        sample_batch(&schema, rows, &batch);
        if (rows > 1 && round % 2) { /* cut off the front, and maybe the back */
            int first = sample_below(rows - 1);
            rows = 1 + sample_below(rows - first);
            sample_cut(&batch, first, rows);
        }
        for (int i = 0; i < n; i++)
            picks[i] = sample_below(rows);
        assert_int_equal(mt_batch_gather(&batch, picks, n, &out, &err), MT_OK);
        assert_int_equal(out.array.length, n);
        for (int i = 0; i < n; i++)
            sample_same_row(&batch, picks[i], &out, i);
        mt_batch_release(&batch);
        mt_batch_release(&out);
    }
    mt_schema_release(&schema);
}

static void null_counts_are_exact_and_no_null_means_no_validity(void **state)
{
    (void)state;
    struct ArrowSchema schema;
    struct mt_column column;
    struct mt_batch batch = {.schema = &schema}, out;
    sample_schema("a INT", &schema);
    mt_column_init(&column, &schema);
    for (int i = 0; i < 10; i++) {
        struct mt_column *a = &column.children[0];
        assert_int_equal(i % 2 ? mt_column_add_null(a, &err) : mt_column_add_int(a, i, &err),
                         MT_OK);
        assert_int_equal(mt_column_close_row(&column, &err), MT_OK);
    }
    mt_column_finish(&column, &batch.array);
    mt_column_deinit(&column);
    const int32_t evens[] = {8, 0}, mixed[] = {1, 1, 2, 3};
    assert_int_equal(mt_batch_gather(&batch, evens, 2, &out, &err), MT_OK);
    assert_int_equal(out.array.children[0]->null_count, 0);
    assert_null(out.array.children[0]->buffers[0]);
    mt_batch_release(&out);
    assert_int_equal(mt_batch_gather(&batch, mixed, 4, &out, &err), MT_OK);
    assert_int_equal(out.array.children[0]->null_count, 3);
    mt_batch_release(&out);
    mt_batch_release(&batch);
    mt_schema_release(&schema);
}

static void the_origin_follows_through_two_gathers(void **state)
{
    (void)state;
    struct ArrowSchema schema;
    struct mt_batch batch, once, twice;
    char where[64];
    sample_schema("a INT", &schema);
    sample_batch(&schema, 10, &batch);
    batch.coords = mt_coords_new();
    mt_coords_start(batch.coords, "orders", 2);
    for (int i = 0; i < 10; i++)
        mt_coords_add(batch.coords, 1000 + i);
    const int32_t first[] = {9, 7, 5, 3}, second[] = {2, 0};
    assert_int_equal(mt_batch_gather(&batch, first, 4, &once, &err), MT_OK);
    assert_int_equal(mt_batch_gather(&once, second, 2, &twice, &err), MT_OK);
    mt_batch_release(&batch);
    mt_batch_release(&once);
    assert_string_equal(mt_batch_where(&twice, 0, where, sizeof where), "orders[2]@1005");
    assert_string_equal(mt_batch_where(&twice, 1, where, sizeof where), "orders[2]@1009");
    mt_batch_release(&twice);
    mt_schema_release(&schema);
}

/* Text that is gathered so often that its bytes would pass 31 bits. */
static void a_result_past_2_gib_is_refused_before_it_is_made(void **state)
{
    (void)state;
    struct ArrowSchema schema;
    struct mt_batch batch = {.schema = &schema}, out;
    struct mt_column column;
    enum { LEN = 1 << 20, TIMES = 2048 };
    char *text = mt_alloc(LEN);
    int32_t *picks = mt_alloc(TIMES * sizeof *picks);
    sample_schema("a INT, s STRUCT<l: ARRAY<STRING>>", &schema);
    mt_column_init(&column, &schema);
    struct mt_column *list = &column.children[1].children[0];
    assert_int_equal(mt_column_add_int(&column.children[0], 1, &err), MT_OK);
    assert_int_equal(mt_column_add_bytes(&list->children[0], text, LEN, &err), MT_OK);
    assert_int_equal(mt_column_close_row(list, &err), MT_OK);
    assert_int_equal(mt_column_close_row(&column.children[1], &err), MT_OK);
    assert_int_equal(mt_column_close_row(&column, &err), MT_OK);
    mt_column_finish(&column, &batch.array);
    mt_column_deinit(&column);
    assert_int_equal(mt_batch_gather(&batch, picks, TIMES, &out, &err), MT_REJECT);
    assert_non_null(strstr(err.text, "2 GiB"));
    assert_null(out.array.release);
    free(text);
    free(picks);
    mt_batch_release(&batch);
    mt_schema_release(&schema);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gathered_rows_print_as_the_rows_they_came_from),
        cmocka_unit_test(null_counts_are_exact_and_no_null_means_no_validity),
        cmocka_unit_test(the_origin_follows_through_two_gathers),
        cmocka_unit_test(a_result_past_2_gib_is_refused_before_it_is_made),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
