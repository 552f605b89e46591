/* SPDX-License-Identifier: Apache-2.0
 *
 * column_test.c - columns under construction: what is appended is what is there. */
#include "batch/sample.h"

static struct mt_column column;
static struct ArrowArray array;
static struct ArrowSchema field;

static void begin(const char *type)
{
    assert_int_equal(mt_schema_parse_type(type, "x", &field, &err), MT_OK);
    mt_column_init(&column, &field);
}

static int end(void **state)
{
    (void)state;
    mt_column_deinit(&column);
    mt_schema_release(&field);
    if (array.release)
        array.release(&array);
    return 0;
}

static void shows(const char *expected)
{
    struct mt_buf buf = {0};
    mt_column_finish(&column, &array);
    for (int64_t i = 0; i < array.length; i++) {
        mt_buf_adds(&buf, i ? "|" : "");
        mt_value_print(&field, &array, i, &buf);
    }
    assert_string_equal(buf.data ? buf.data : "", expected);
    mt_buf_free(&buf);
}

static void a_column_without_nulls_has_no_validity(void **state)
{
    (void)state;
    begin("INT");
    for (int i = 0; i < 1000; i++)
        assert_int_equal(mt_column_add_int(&column, i, &err), MT_OK);
    assert_null(column.validity);
    mt_column_finish(&column, &array);
    assert_null(array.buffers[0]);
    assert_int_equal(array.null_count, 0);
    assert_int_equal(((const int32_t *)array.buffers[1])[999], 999);
}

static void the_first_null_may_come_late_and_rows_after_it_are_there(void **state)
{
    (void)state;
    begin("BIGINT");
    for (int i = 0; i < 1000; i++)
        assert_int_equal(i == 700 ? mt_column_add_null(&column, &err)
                                  : mt_column_add_int(&column, i, &err),
                         MT_OK);
    mt_column_finish(&column, &array);
    assert_int_equal(array.null_count, 1);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(mt_array_is_null(&array, i), i == 700);
}

static void integers_of_every_width_keep_their_ends(void **state)
{
    (void)state;
    static const struct {
        const char *type, *text;
        int64_t least, most;
    } widths[] = {
        {"TINYINT", "-128|127", INT8_MIN, INT8_MAX},
        {"SMALLINT", "-32768|32767", INT16_MIN, INT16_MAX},
        {"INT", "-2147483648|2147483647", INT32_MIN, INT32_MAX},
        {"BIGINT", "-9223372036854775808|9223372036854775807", INT64_MIN, INT64_MAX},
    };
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        begin(widths[i].type);
        assert_int_equal(mt_column_add_int(&column, widths[i].least, &err), MT_OK);
        assert_int_equal(mt_column_add_int(&column, widths[i].most, &err), MT_OK);
        shows(widths[i].text);
        end(NULL);
    }
}

static void booleans_are_bits_also_beside_nulls(void **state)
{
    (void)state;
    begin("BOOLEAN");
    struct mt_buf expected = {0};
    for (int i = 0; i < 200; i++) {
        int what = (i * 7 + i / 9) % 3;
        assert_int_equal(what == 2 ? mt_column_add_null(&column, &err)
                                   : mt_column_add_int(&column, what, &err),
                         MT_OK);
        mt_buf_addf(&expected, "%s%s", i ? "|" : "", what == 2 ? "NULL" : what ? "true" : "false");
    }
    shows(expected.data);
    mt_buf_free(&expected);
}

static void text_null_and_empty_are_told_apart(void **state)
{
    (void)state;
    begin("STRING");
    assert_int_equal(mt_column_add_bytes(&column, "ab", 2, &err), MT_OK);
    assert_int_equal(mt_column_add_bytes(&column, NULL, 0, &err), MT_OK);
    assert_int_equal(mt_column_add_null(&column, &err), MT_OK);
    assert_int_equal(mt_column_add_bytes(&column, "\xc3\xa4", 2, &err), MT_OK);
    shows("ab||NULL|ä");
}

static void sixty_four_bytes_are_readable_behind_text(void **state)
{
    (void)state;
    begin("BINARY");
    assert_int_equal(mt_column_add_bytes(&column, "abc", 3, &err), MT_OK);
    mt_column_finish(&column, &array);
    const uint8_t *bytes = array.buffers[2];
    for (int i = 3; i < 3 + 64; i++) /* the address sanitizer looks on */
        assert_int_equal(bytes[i], 0);
}

static void a_column_without_rows_has_its_buffers(void **state)
{
    (void)state;
    begin("STRING");
    mt_column_finish(&column, &array);
    assert_int_equal(array.length, 0);
    assert_int_equal(array.n_buffers, 3);
    assert_int_equal(((const int32_t *)array.buffers[1])[0], 0);
    assert_non_null(array.buffers[2]);
}

static void lists_maps_and_structs_close_over_their_children(void **state)
{
    (void)state;
    begin("ARRAY<STRUCT<a: INT, m: MAP<STRING, DOUBLE>>>");
    struct mt_column *row = &column.children[0], *map = &row->children[1];
    struct mt_column *entries = &map->children[0];
    assert_int_equal(mt_column_close_row(&column, &err), MT_OK); /* empty */
    assert_int_equal(mt_column_add_int(&row->children[0], 7, &err), MT_OK);
    assert_int_equal(mt_column_add_bytes(&entries->children[0], "k", 1, &err), MT_OK);
    assert_int_equal(mt_column_add_double(&entries->children[1], 1.5, &err), MT_OK);
    assert_int_equal(mt_column_close_row(entries, &err), MT_OK);
    assert_int_equal(mt_column_close_row(map, &err), MT_OK);
    assert_int_equal(mt_column_close_row(row, &err), MT_OK);
    assert_int_equal(mt_column_add_null(row, &err), MT_OK); /* its children get one too */
    assert_int_equal(mt_column_close_row(&column, &err), MT_OK);
    assert_int_equal(mt_column_add_null(&column, &err), MT_OK);
    shows("[]|[{7, {k -> 1.5}}, NULL]|NULL");
}

static void a_finished_column_begins_again_empty(void **state)
{
    (void)state;
    begin("STRING");
    assert_int_equal(mt_column_add_null(&column, &err), MT_OK);
    mt_column_finish(&column, &array);
    array.release(&array);
    assert_int_equal(mt_column_add_bytes(&column, "x", 1, &err), MT_OK);
    assert_int_equal(column.null_count, 0);
    shows("x");
}

static void direct_stores_after_a_reserve_are_rows(void **state)
{
    (void)state;
    begin("BIGINT");
    assert_int_equal(mt_column_add_null(&column, &err), MT_OK);
    assert_int_equal(mt_column_reserve(&column, 500, 0, &err), MT_OK);
    for (int i = 0; i < 500; i++)
        ((int64_t *)column.values)[column.length++] = i; /* validity is left alone */
    mt_column_finish(&column, &array);
    assert_int_equal(array.null_count, 1);
    assert_true(mt_array_is_null(&array, 0));
    for (int i = 1; i <= 500; i++)
        assert_false(mt_array_is_null(&array, i));
}

static void text_past_2_gib_is_refused_with_the_cure(void **state)
{
    (void)state;
    begin("STRING");
    assert_int_equal(mt_column_add_bytes(&column, "x", 1, &err), MT_OK);
    assert_int_equal(mt_column_reserve(&column, 1, INT32_MAX, &err), MT_REJECT);
    assert_int_equal(err.class_, MT_CLASS_DATA);
    assert_non_null(strstr(err.text, "maxBatchBytes"));
    shows("x");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_column_without_nulls_has_no_validity, end),
        cmocka_unit_test_teardown(the_first_null_may_come_late_and_rows_after_it_are_there, end),
        cmocka_unit_test(integers_of_every_width_keep_their_ends),
        cmocka_unit_test_teardown(booleans_are_bits_also_beside_nulls, end),
        cmocka_unit_test_teardown(text_null_and_empty_are_told_apart, end),
        cmocka_unit_test_teardown(sixty_four_bytes_are_readable_behind_text, end),
        cmocka_unit_test_teardown(a_column_without_rows_has_its_buffers, end),
        cmocka_unit_test_teardown(lists_maps_and_structs_close_over_their_children, end),
        cmocka_unit_test_teardown(a_finished_column_begins_again_empty, end),
        cmocka_unit_test_teardown(direct_stores_after_a_reserve_are_rows, end),
        cmocka_unit_test_teardown(text_past_2_gib_is_refused_with_the_cure, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
