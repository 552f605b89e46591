/* SPDX-License-Identifier: Apache-2.0
 *
 * append_test.c - rows of arrays in one column are the rows that they were. */
#include "batch/sample.h"

static void rows_of_every_type_are_appended_as_they_are(void **state)
{
    (void)state;
    struct ArrowSchema schema;
    struct mt_batch a, b, both = {.schema = &schema};
    struct mt_column column;
    sample_schema(all_types, &schema);
    sample_batch(&schema, 50, &a);
    sample_batch(&schema, 20, &b);
    mt_column_init(&column, &schema);
    assert_int_equal(mt_column_add_array(&column, &a.array, 10, 30, &err), MT_OK);
    assert_int_equal(mt_column_add_array(&column, &b.array, 0, 20, &err), MT_OK);
    mt_column_finish(&column, &both.array);
    mt_column_deinit(&column);
    assert_int_equal(both.array.length, 50);
    for (int64_t i = 0; i < 50; i++) {
        char *row = sample_row(&both, i);
        char *from = i < 30 ? sample_row(&a, 10 + i) : sample_row(&b, i - 30);
        assert_string_equal(row, from);
        free(row);
        free(from);
    }
    mt_batch_release(&a);
    mt_batch_release(&b);
    mt_batch_release(&both);
    mt_schema_release(&schema);
}

/* Of a cut array the rows before its offset are not there. */
static void rows_of_a_cut_array_are_counted_from_its_offset(void **state)
{
    (void)state;
    struct ArrowSchema schema;
    struct mt_batch a;
    struct mt_column column;
    sample_schema("n BIGINT, t ARRAY<STRING>", &schema);
    sample_batch(&schema, 40, &a);
    for (int64_t c = 0; c < 2; c++) {
        struct ArrowArray cut, out;
        mt_array_share(a.array.children[c], &cut);
        cut.offset = 25;
        cut.length = 15;
        mt_column_init(&column, schema.children[c]);
        assert_int_equal(mt_column_add_array(&column, &cut, 5, 10, &err), MT_OK);
        mt_column_finish(&column, &out);
        mt_column_deinit(&column);
        for (int64_t i = 0; i < 10; i++) {
            struct mt_buf one = {0}, other = {0};
            mt_value_print(schema.children[c], &out, i, &one);
            mt_value_print(schema.children[c], a.array.children[c], 30 + i, &other);
            mt_buf_adds(&one, "");
            mt_buf_adds(&other, "");
            assert_string_equal(one.data, other.data);
            mt_buf_free(&one);
            mt_buf_free(&other);
        }
        cut.release(&cut);
        out.release(&out);
    }
    mt_batch_release(&a);
    mt_schema_release(&schema);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_of_every_type_are_appended_as_they_are),
        cmocka_unit_test(rows_of_a_cut_array_are_counted_from_its_offset),
    };
    sample_seed();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
