/* SPDX-License-Identifier: Apache-2.0
 *
 * cut_test.c - a column whose last rows were taken back is the column that never had
 * them, also when a row inside was begun and not closed. */
#include "batch/sample.h"

static char *print_all(const struct ArrowSchema *schema, const struct ArrowArray *array)
{
    struct mt_buf text = {0};
    for (int64_t row = 0; row < array->length; row++) {
        mt_value_print(schema, array, row, &text);
        mt_buf_adds(&text, "\n");
    }
    mt_buf_adds(&text, "");
    return text.data;
}

/* Rows from a seed, so that two columns get the same. */
static void add_rows(struct mt_column *column, unsigned seed, int n)
{
    srand(seed);
    for (int i = 0; i < n; i++)
        sample_add_struct(column);
}

/* A row of which some children, or elements of them, are there already. */
static void begin_row(struct mt_column *column)
{
    if (column->type == MT_STRUCT) {
        for (int64_t i = 0; i < column->n_children; i++)
            if (sample_below(2))
                sample_add(&column->children[i]);
            else
                begin_row(&column->children[i]);
    } else if (column->type == MT_ARRAY || column->type == MT_MAP) {
        for (int n = sample_below(3); n > 0; n--)
            sample_add(&column->children[0]);
        begin_row(&column->children[0]);
    }
}

static void check_counts(const struct ArrowArray *array)
{
    int64_t nulls = 0;
    for (int64_t i = 0; i < array->length; i++)
        nulls += mt_array_is_null(array, i);
    assert_int_equal(array->null_count, nulls);
    for (int64_t i = 0; i < array->n_children; i++)
        check_counts(array->children[i]);
}

static void rows_after_a_cut_stand_where_the_old_ones_stood(void **state)
{
    (void)state;
    struct ArrowSchema schema;
    sample_schema(all_types, &schema);
    for (unsigned round = 0; round < 200; round++) {
        struct mt_column cut, never;
        struct ArrowArray a, b;
        mt_column_init(&cut, &schema);
        mt_column_init(&never, &schema);
        srand(round);
        int keep = sample_below(30), gone = sample_below(30), more = sample_below(100);
        add_rows(&cut, round + 1000, keep);
        add_rows(&cut, round + 2000, gone);
        begin_row(&cut);
        mt_column_cut(&cut, keep);
        mt_column_cut(&cut, keep);
        add_rows(&cut, round + 3000, more);
        add_rows(&never, round + 1000, keep);
        add_rows(&never, round + 3000, more);
        mt_column_finish(&cut, &a);
        mt_column_finish(&never, &b);
        check_counts(&a);
        char *text_a = print_all(&schema, &a), *text_b = print_all(&schema, &b);
        assert_string_equal(text_a, text_b);
        free(text_a);
        free(text_b);
        mt_column_deinit(&cut);
        mt_column_deinit(&never);
        a.release(&a);
        b.release(&b);
    }
    mt_schema_release(&schema);
}

static void an_empty_column_can_be_cut(void **state)
{
    (void)state;
    struct ArrowSchema schema;
    struct mt_column column;
    sample_schema(all_types, &schema);
    mt_column_init(&column, &schema);
    mt_column_cut(&column, 0);
    begin_row(&column);
    mt_column_cut(&column, 0);
    for (int64_t i = 0; i < column.n_children; i++)
        assert_int_equal(column.children[i].length, 0);
    mt_column_deinit(&column);
    mt_schema_release(&schema);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_after_a_cut_stand_where_the_old_ones_stood),
        cmocka_unit_test(an_empty_column_can_be_cut),
    };
    sample_seed();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
