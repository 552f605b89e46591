/* SPDX-License-Identifier: Apache-2.0
 *
 * print_test.c - one row of every type as Spark's show() prints it. */
#include "batch/sample.h"

static void every_type_prints_as_in_show(void **state)
{
    (void)state;
    struct ArrowSchema schema;
    struct mt_column column;
    struct ArrowArray array;
    struct mt_buf buf = {0};
    sample_schema("a BOOLEAN, b INT, c DOUBLE, d FLOAT, e DECIMAL(10,2), f STRING, g BINARY, "
                  "h DATE, i TIMESTAMP, j ARRAY<INT>, k STRING",
                  &schema);
    mt_column_init(&column, &schema);
    struct mt_column *c = column.children;
    const uint64_t price[2] = {1999, 0};
    assert_int_equal(mt_column_add_int(&c[0], 1, &err), MT_OK);
    assert_int_equal(mt_column_add_int(&c[1], -7, &err), MT_OK);
    assert_int_equal(mt_column_add_double(&c[2], 1e10, &err), MT_OK);
    assert_int_equal(mt_column_add_double(&c[3], 0.5, &err), MT_OK);
    assert_int_equal(mt_column_add_decimal(&c[4], price, &err), MT_OK);
    assert_int_equal(mt_column_add_bytes(&c[5], "ä", 2, &err), MT_OK);
    assert_int_equal(mt_column_add_bytes(&c[6], "hi\xff", 3, &err), MT_OK);
    assert_int_equal(mt_column_add_int(&c[7], 20786, &err), MT_OK);
    assert_int_equal(mt_column_add_int(&c[8], INT64_C(1795946400500000), &err), MT_OK);
    assert_int_equal(mt_column_add_int(&c[9].children[0], 1, &err), MT_OK);
    assert_int_equal(mt_column_add_null(&c[9].children[0], &err), MT_OK);
    assert_int_equal(mt_column_close_row(&c[9], &err), MT_OK);
    assert_int_equal(mt_column_add_null(&c[10], &err), MT_OK);
    assert_int_equal(mt_column_close_row(&column, &err), MT_OK);
    mt_column_finish(&column, &array);
    mt_value_print(&schema, &array, 0, &buf);
    assert_string_equal(buf.data, "{true, -7, 1.0E10, 0.5, 19.99, ä, [68 69 FF], 2026-11-29, "
                                  "2026-11-29 10:00:00.5, [1, NULL], NULL}");
    mt_buf_free(&buf);
    array.release(&array);
    mt_column_deinit(&column);
    mt_schema_release(&schema);
}

/* Of lists, structs and maps in one another: what Spark 4.2's show() printed. */
static void nested_values_print_as_in_show(void **state)
{
    (void)state;
    struct ArrowSchema schema;
    struct mt_column column;
    struct ArrowArray array;
    struct mt_buf buf = {0};
    sample_schema("s STRUCT<x: INT, y: STRING>, m MAP<STRING, INT>, b ARRAY<BINARY>, e ARRAY<INT>, "
                  "n MAP<STRING, INT>, deep ARRAY<STRUCT<k: MAP<STRING, ARRAY<INT>>>>",
                  &schema);
    mt_column_init(&column, &schema);
    struct mt_column *c = column.children, *pair = c[1].children, *deep = c[5].children;
    struct mt_column *inner = deep->children[0].children;
    enum mt_status status = MT_OK;
    status |= mt_column_add_int(&c[0].children[0], 1, &err);
    status |= mt_column_add_null(&c[0].children[1], &err);
    status |= mt_column_add_bytes(&pair->children[0], "k", 1, &err);
    status |= mt_column_add_int(&pair->children[1], 1, &err);
    status |= mt_column_close_row(pair, &err);
    status |= mt_column_add_bytes(&pair->children[0], "l", 1, &err);
    status |= mt_column_add_null(&pair->children[1], &err);
    status |= mt_column_close_row(pair, &err);
    status |= mt_column_add_bytes(&c[2].children[0], "hi", 2, &err);
    status |= mt_column_add_bytes(&inner->children[0], "a", 1, &err);
    status |= mt_column_add_int(&inner->children[1].children[0], 1, &err);
    status |= mt_column_add_int(&inner->children[1].children[0], 2, &err);
    status |= mt_column_close_row(&inner->children[1], &err);
    status |= mt_column_close_row(inner, &err);
    status |= mt_column_close_row(&deep->children[0], &err);
    status |= mt_column_close_row(deep, &err);
    for (int i = 0; i < 6; i++)
        status |= mt_column_close_row(&c[i], &err);
    status |= mt_column_close_row(&column, &err);
    assert_int_equal(status, MT_OK);
    mt_column_finish(&column, &array);
    mt_value_print(&schema, &array, 0, &buf);
    assert_string_equal(buf.data,
                        "{{1, NULL}, {k -> 1, l -> NULL}, [[68 69]], [], {}, [{{a -> [1, 2]}}]}");
    mt_buf_free(&buf);
    array.release(&array);
    mt_column_deinit(&column);
    mt_schema_release(&schema);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_prints_as_in_show),
        cmocka_unit_test(nested_values_print_as_in_show),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
