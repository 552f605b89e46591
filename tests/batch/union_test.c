/* SPDX-License-Identifier: Apache-2.0
 *
 * union_test.c - one batch behind another, of every type, also cut ones. */
#include "batch/sample.h"

static void rows_of_both_print_as_they_did(void **state)
{
    (void)state;
    sample_seed();
    struct ArrowSchema schema;
    sample_schema(all_types, &schema);
    for (int round = 0; round < 60; round++) {
        struct mt_batch one, other, out;
        int rows = sample_below(60), more = 2 + sample_below(60);
        sample_batch(&schema, rows, &one);
        sample_batch(&schema, more, &other);
        if (round % 2) {
            sample_cut(&other, 1, more - 1);
            more--;
        }
        assert_int_equal(mt_batch_union(&one, &other, &schema, &out, &err), MT_OK);
        assert_int_equal(out.array.length, rows + more);
        for (int i = 0; i < rows + more; i++)
            sample_same_row(i < rows ? &one : &other, i < rows ? i : i - rows, &out, i);
        mt_batch_release(&one);
        mt_batch_release(&other);
        mt_batch_release(&out);
    }
    mt_schema_release(&schema);
}

static void parts_of_one_batch_know_where_their_rows_came_from(void **state)
{
    (void)state;
    struct ArrowSchema schema;
    struct mt_batch whole, part, out;
    char text[80];
    sample_schema("a INT", &schema);
    sample_batch(&schema, 4, &whole);
    whole.coords = mt_coords_new();
    mt_coords_start(whole.coords, "orders", 2);
    for (int i = 0; i < 4; i++)
        mt_coords_add(whole.coords, 10 + i);
    const int32_t picks[] = {3, 1};
    assert_int_equal(mt_batch_gather(&whole, picks, 2, &part, &err), MT_OK);
    assert_int_equal(mt_batch_union(&part, &whole, &schema, &out, &err), MT_OK);
    const char *places[] = {"orders[2]@13", "orders[2]@11", "orders[2]@10",
                            "orders[2]@11", "orders[2]@12", "orders[2]@13"};
    for (int i = 0; i < 6; i++)
        assert_string_equal(mt_batch_where(&out, i, text, sizeof text), places[i]);
    mt_batch_release(&whole);
    mt_batch_release(&part);
    mt_batch_release(&out);
    mt_schema_release(&schema);
}

static void more_rows_than_a_batch_can_number_are_refused(void **state)
{
    (void)state;
    struct ArrowSchema schema;
    struct mt_batch one = {.array = {.length = INT32_MAX}}, other = {.array = {.length = 1}}, out;
    mt_schema_of(NULL, NULL, 0, &schema);
    assert_int_equal(mt_batch_union(&one, &other, &schema, &out, &err), MT_REJECT);
    assert_non_null(strstr(err.text, "make batches smaller"));
    assert_null(out.array.release);
    other.array.length = 0;
    assert_int_equal(mt_batch_union(&one, &other, &schema, &out, &err), MT_OK);
    mt_batch_release(&out);
    mt_schema_release(&schema);
}

static void rows_of_two_sources_know_where_they_came_from(void **state)
{
    (void)state;
    struct ArrowSchema schema;
    struct mt_batch orders, returns, part, out;
    char text[80];
    sample_schema("a INT", &schema);
    sample_batch(&schema, 3, &orders);
    sample_batch(&schema, 2, &returns);
    orders.coords = mt_coords_new();
    returns.coords = mt_coords_new();
    mt_coords_start(orders.coords, "orders", 0);
    mt_coords_add(orders.coords, 7);
    mt_coords_start(orders.coords, "orders", 1);
    mt_coords_add(orders.coords, 20);
    mt_coords_add(orders.coords, 22);
    mt_coords_start(returns.coords, "returns", 5);
    mt_coords_add(returns.coords, 1);
    mt_coords_add(returns.coords, 2);
    const int32_t picks[] = {2, 0};
    assert_int_equal(mt_batch_gather(&orders, picks, 2, &part, &err), MT_OK);
    assert_int_equal(mt_batch_union(&part, &returns, &schema, &out, &err), MT_OK);
    const char *places[] = {"orders[1]@22", "orders[0]@7", "returns[5]@1", "returns[5]@2"};
    for (int i = 0; i < 4; i++)
        assert_string_equal(mt_batch_where(&out, i, text, sizeof text), places[i]);
    mt_batch_release(&orders);
    mt_batch_release(&returns);
    mt_batch_release(&part);
    mt_batch_release(&out);
    mt_schema_release(&schema);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_of_both_print_as_they_did),
        cmocka_unit_test(parts_of_one_batch_know_where_their_rows_came_from),
        cmocka_unit_test(more_rows_than_a_batch_can_number_are_refused),
        cmocka_unit_test(rows_of_two_sources_know_where_they_came_from),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
