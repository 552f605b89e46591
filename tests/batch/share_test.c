/* SPDX-License-Identifier: Apache-2.0
 *
 * share_test.c - two owners of the same bytes: each may go first, each may lose its
 * children, and a foreign producer's release runs exactly once. */
#include "batch/sample.h"

static void either_owner_may_go_first(void **state)
{
    (void)state;
    struct ArrowSchema schema;
    sample_schema(all_types, &schema);
    for (int first = 0; first < 2; first++) {
        struct mt_batch a, b = {.schema = &schema};
        sample_batch(&schema, 50, &a);
        char *before = sample_row(&a, 49);
        mt_array_share(&a.array, &b.array);
        mt_batch_release(first ? &b : &a);
        char *after = sample_row(first ? &a : &b, 49);
        assert_string_equal(before, after);
        mt_batch_release(first ? &a : &b);
        free(before);
        free(after);
    }
    mt_schema_release(&schema);
}

static void a_child_moved_out_of_one_view_is_still_in_the_other(void **state)
{
    (void)state;
    struct ArrowSchema schema;
    struct mt_batch a, b = {.schema = &schema};
    sample_schema(all_types, &schema);
    sample_batch(&schema, 20, &a);
    mt_array_share(&a.array, &b.array);
    struct ArrowArray moved = *a.array.children[8];
    a.array.children[8]->release = NULL;
    mt_batch_release(&a);
    struct mt_buf from_moved = {0}, from_view = {0};
    mt_value_print(schema.children[8], &moved, 7, &from_moved);
    mt_value_print(schema.children[8], b.array.children[8], 7, &from_view);
    assert_string_equal(from_moved.data, from_view.data);
    mt_buf_free(&from_moved);
    mt_buf_free(&from_view);
    moved.release(&moved);
    mt_batch_release(&b);
    mt_schema_release(&schema);
}

/* ---- another producer: one struct with one INT child, counting its releases */

static int releases;
static const int32_t numbers[] = {1, 2, 3};

static void release_foreign(struct ArrowArray *array)
{
    for (int64_t i = 0; i < array->n_children; i++)
        if (array->children[i]->release)
            array->children[i]->release(array->children[i]);
    releases++;
    array->release = NULL;
}

static void foreign_arrays_are_released_once_after_their_last_view(void **state)
{
    (void)state;
    const void *child_buffers[] = {NULL, numbers}, *buffers[] = {NULL};
    struct ArrowArray child = {
        .length = 3, .n_buffers = 2, .buffers = child_buffers, .release = release_foreign};
    struct ArrowArray *children[] = {&child};
    struct ArrowSchema schema;
    struct mt_batch a = {.schema = &schema}, b = a, c = a;
    sample_schema("a INT", &schema);
    a.array = (struct ArrowArray){.length = 3,
                                  .n_buffers = 1,
                                  .buffers = buffers,
                                  .n_children = 1,
                                  .children = children,
                                  .release = release_foreign};
    const int32_t pick[] = {0, 0};
    struct ArrowSchema two;
    sample_schema("x INT, y INT", &two);
    mt_batch_select(&a, pick, 2, &two, &c); /* wraps the child alone, twice */
    mt_array_share(&a.array, &b.array);     /* now the parent too */
    releases = 0;
    mt_batch_release(&a);
    mt_batch_release(&b);
    assert_int_equal(releases, 1); /* the parent; its child is in c */
    char *row = sample_row(&c, 2);
    assert_string_equal(row, "{3, 3}");
    free(row);
    mt_batch_release(&c);
    assert_int_equal(releases, 2);
    mt_schema_release(&schema);
    mt_schema_release(&two);
}

static void select_shows_what_a_cut_parent_shows(void **state)
{
    (void)state;
    struct ArrowSchema schema, picked;
    struct mt_batch batch, out;
    sample_schema("a INT, b STRING, c ARRAY<INT>", &schema);
    sample_schema("c ARRAY<INT>, z INT", &picked);
    sample_batch(&schema, 30, &batch);
    sample_cut(&batch, 10, 15);
    const int32_t picks[] = {2, 0};
    mt_batch_select(&batch, picks, 2, &picked, &out);
    assert_int_equal(out.array.length, 15);
    for (int i = 0; i < 15; i++) {
        struct mt_buf a = {0}, b = {0};
        mt_value_print(schema.children[0], batch.array.children[0], 10 + i, &a);
        mt_value_print(picked.children[1], out.array.children[1], i, &b);
        assert_string_equal(a.data, b.data);
        mt_buf_free(&a);
        mt_buf_free(&b);
    }
    mt_batch_release(&batch);
    mt_batch_release(&out);
    mt_schema_release(&schema);
    mt_schema_release(&picked);
}

static void like_takes_columns_and_keeps_rows_origin_and_coordinates(void **state)
{
    (void)state;
    struct ArrowSchema schema, other;
    struct mt_batch batch, few, made, out;
    char where[64];
    sample_schema("a INT", &schema);
    sample_schema("n STRING", &other);
    sample_batch(&schema, 5, &batch);
    batch.coords = mt_coords_new();
    mt_coords_start(batch.coords, "t", 0);
    for (int i = 0; i < 5; i++)
        mt_coords_add(batch.coords, i * 10);
    const int32_t rows[] = {4, 2};
    assert_int_equal(mt_batch_gather(&batch, rows, 2, &few, &err), MT_OK);
    sample_batch(&other, 2, &made);
    mt_batch_like(&few, made.array.children[0], 1, &other, &out);
    assert_null(made.array.children[0]->release);
    mt_batch_release(&made);
    mt_batch_release(&few);
    mt_batch_release(&batch);
    assert_int_equal(out.array.length, 2);
    assert_string_equal(mt_batch_where(&out, 1, where, sizeof where), "t[0]@20");
    mt_batch_release(&out);
    mt_batch_release(&out); /* fine on an empty one */
    mt_schema_release(&schema);
    mt_schema_release(&other);
}

static void sharing_what_is_released_gives_what_is_released(void **state)
{
    (void)state;
    struct ArrowArray gone = {0}, out;
    memset(&out, 0xff, sizeof out);
    mt_array_share(&gone, &out);
    assert_null(out.release);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(either_owner_may_go_first),
        cmocka_unit_test(a_child_moved_out_of_one_view_is_still_in_the_other),
        cmocka_unit_test(foreign_arrays_are_released_once_after_their_last_view),
        cmocka_unit_test(select_shows_what_a_cut_parent_shows),
        cmocka_unit_test(like_takes_columns_and_keeps_rows_origin_and_coordinates),
        cmocka_unit_test(sharing_what_is_released_gives_what_is_released),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
