/* SPDX-License-Identifier: Apache-2.0
 *
 * field_test.c - a field of a STRUCT as a column: the rows of the batch, null where the
 * STRUCT is, whatever stands under it. */
#include "batch/sample.h"

/* The value at row through its STRUCTs, as text; caller frees. */
static char *through(const struct mt_batch *batch, const int32_t *path, int64_t n, int64_t row)
{
    const struct ArrowSchema *field = batch->schema;
    const struct ArrowArray *array = &batch->array;
    struct mt_buf text = {0};
    mt_buf_adds(&text, "");
    bool null = false;
    for (int64_t i = 0; i < n; i++) {
        row += array->offset;
        field = field->children[path[i]];
        array = array->children[path[i]];
        null |= mt_array_is_null(array, row);
    }
    if (null)
        mt_buf_adds(&text, "NULL");
    else
        mt_value_print(field, array, row, &text);
    return text.data;
}

static void check_field(struct mt_batch *batch, const int32_t *path, int64_t n,
                        const struct ArrowSchema *field)
{
    struct ArrowArray out;
    int64_t nulls = 0;
    mt_batch_field(batch, path, n, &out);
    assert_int_equal(out.length, batch->array.length);
    for (int64_t row = 0; row < out.length; row++) {
        struct mt_buf is = {0};
        char *expected = through(batch, path, n, row);
        mt_buf_adds(&is, "");
        mt_value_print(field, &out, row, &is);
        assert_string_equal(is.data, expected);
        nulls += mt_array_is_null(&out, row);
        free(expected);
        mt_buf_free(&is);
    }
    assert_true(out.null_count == nulls || out.null_count == -1);
    out.release(&out);
}

/* Makes rows null where they stand; what is in them stays. */
static void nullify(struct mt_column *column)
{
    for (int64_t row = 0; row < column->length; row++)
        if (column->validity && column->validity[row >> 3] >> (row & 7) & 1 &&
            sample_below(3) == 0) {
            column->validity[row >> 3] &= (uint8_t) ~(1u << (row & 7));
            column->null_count++;
        }
}

static void what_stands_under_a_null_struct_is_not_seen(void **state)
{
    (void)state;
    struct ArrowSchema schema;
    sample_schema("n INT, d STRUCT<a: BOOLEAN, e: STRUCT<x: BIGINT, t: STRING, l: ARRAY<INT>, "
                  "m: MAP<STRING, INT>, f: STRUCT<z: DOUBLE>>>",
                  &schema);
    const struct ArrowSchema *d = schema.children[1], *e = d->children[1];
    for (int round = 0; round < 40; round++) {
        struct mt_batch batch = {.schema = &schema};
        struct mt_column column;
        mt_column_init(&column, &schema);
        for (int i = 0; i < 50; i++)
            sample_add_struct(&column);
        nullify(&column.children[1]);
        nullify(&column.children[1].children[1]);
        nullify(&column.children[1].children[1].children[4]);
        mt_column_finish(&column, &batch.array);
        mt_column_deinit(&column);
        if (round % 2)
            sample_cut(&batch, sample_below(30), 1 + sample_below(20));
        check_field(&batch, (const int32_t[]){0}, 1, schema.children[0]);
        check_field(&batch, (const int32_t[]){1}, 1, d);
        check_field(&batch, (const int32_t[]){1, 0}, 2, d->children[0]);
        for (int32_t i = 0; i < e->n_children; i++)
            check_field(&batch, (const int32_t[]){1, 1, i}, 3, e->children[i]);
        check_field(&batch, (const int32_t[]){1, 1, 4, 0}, 4, e->children[4]->children[0]);
        mt_batch_release(&batch);
    }
    mt_schema_release(&schema);
}

/* Both views live on alone, and a field of a field is shared again. */
static void a_field_outlives_its_batch(void **state)
{
    (void)state;
    struct ArrowSchema schema, one;
    struct mt_batch batch = {.schema = &schema}, out, twice;
    struct mt_column column;
    sample_schema("d STRUCT<t: STRING>", &schema);
    sample_schema("t STRING", &one);
    mt_column_init(&column, &schema);
    struct mt_column *d = &column.children[0];
    assert_int_equal(mt_column_add_bytes(&d->children[0], "seen", 4, &err), MT_OK);
    assert_int_equal(mt_column_close_row(d, &err), MT_OK);
    assert_int_equal(mt_column_close_row(&column, &err), MT_OK);
    assert_int_equal(mt_column_add_bytes(&d->children[0], "hidden", 6, &err), MT_OK);
    assert_int_equal(mt_column_reserve(d, 1, 0, &err), MT_OK);
    d->validity = mt_alloc(8);
    memset(d->validity, 0xff, 8);
    d->validity[0] = 0xfd;
    d->length = 2;
    d->null_count = 1;
    assert_int_equal(mt_column_close_row(&column, &err), MT_OK);
    mt_column_finish(&column, &batch.array);
    mt_column_deinit(&column);
    struct ArrowArray field;
    mt_batch_field(&batch, (const int32_t[]){0, 0}, 2, &field);
    assert_int_equal(field.null_count, 1);
    mt_batch_like(&batch, &field, 1, &one, &out);
    mt_batch_release(&batch);
    mt_batch_select(&out, (const int32_t[]){0}, 1, &one, &twice);
    mt_batch_release(&out);
    char *first = sample_row(&twice, 0), *second = sample_row(&twice, 1);
    assert_string_equal(first, "{seen}");
    assert_string_equal(second, "{NULL}");
    free(first);
    free(second);
    mt_batch_release(&twice);
    mt_schema_release(&schema);
    mt_schema_release(&one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_stands_under_a_null_struct_is_not_seen),
        cmocka_unit_test(a_field_outlives_its_batch),
    };
    sample_seed();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
