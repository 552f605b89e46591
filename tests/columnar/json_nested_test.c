/* SPDX-License-Identifier: Apache-2.0
 *
 * json_nested_test.c - arrays, objects and maps as rows of columns: what is taken back
 * with a record that is malformed, and what grows with one that is not. What a value
 * becomes is compared with Spark in json_spark_test.c. */
#include "columnar/json_util.h"

static const char ddl[] = "n INT, s STRUCT<a: ARRAY<STRUCT<x: INT, ok: BOOLEAN>>, t: STRING>, "
                          "m MAP<STRING, ARRAY<STRING>>, _c STRING";

static struct ArrowSchema parse(const char *text)
{
    struct ArrowSchema schema;
    if (mt_schema_parse(text, &schema, &err) != MT_OK)
        fail_msg("%s", err.text);
    return schema;
}

/* Children are as long as their parents say, and nulls are counted. */
static void check_whole(const struct ArrowArray *array, const struct ArrowSchema *field)
{
    int64_t nulls = 0;
    for (int64_t i = 0; i < array->length; i++)
        nulls += mt_array_is_null(array, i);
    assert_int_equal(nulls, array->null_count);
    for (int64_t i = 0; i < field->n_children; i++) {
        const struct ArrowArray *child = array->children[i];
        bool list = mt_schema_type(field) != MT_STRUCT;
        int64_t expected =
            list ? ((const int32_t *)array->buffers[1])[array->length] : array->length;
        assert_int_equal(child->length, expected);
        check_whole(child, field->children[i]);
    }
}

static void expect_row(const struct ArrowSchema *schema, const struct mt_json_result *result,
                       int64_t row, const char *expected)
{
    struct mt_buf text = json_row(schema, schema->n_children - 1, result, row);
    assert_string_equal(text.data, expected);
    mt_buf_free(&text);
}

static const char good[] = "{\"n\":1,\"s\":{\"a\":[{\"x\":1,\"ok\":true},null,{\"ok\":true}],"
                           "\"t\":\"u\"},\"m\":{\"k\":[\"v\",null],\"l\":[]}}";
static const char good_row[] = "1|{[{1, true}, null, {null, true}], u}|{k -> [v, null], l -> []}";

/* Each of them goes wrong at another depth, behind values that are good. */
static const char *const bad[] = {
    "{\"n\":2,\"s\":{\"a\":[{\"x\":9,\"ok\":true},{\"x\":8,\"ok\":nope}]}}",
    "{\"n\":2,\"s\":{\"a\":[{\"x\":9,\"ok\":true},{\"x\":8",
    "{\"n\":2,\"m\":{\"k\":[\"a\",\"b\"],\"l\":[\"c\",}}",
    "{\"n\":2,\"m\":{\"k\":[\"a\",\"b\"],\"l\"}}",
    "{\"s\":{\"a\":[null,null],\"t\":\"long text that is taken back\"},\"m\":{\"k\":[null]}",
    "{\"s\":{\"a\":[{\"ok\":true}]},\"s\":{\"a\":[{\"ok\":true}]},\"m\":null]",
    "{\"s\":null,\"s\":{\"a\":[{\"x\":1},{\"x\":2}]},\"s\":{\"a\":[{\"x\":3}],\"t\":\"\\q\"}}",
};
enum { N_BAD = sizeof bad / sizeof *bad };

static void what_a_malformed_record_has_written_is_taken_back(void **state)
{
    (void)state;
    struct ArrowSchema schema = parse(ddl);
    struct text texts[2 * N_BAD + 1];
    struct mt_json_result result;
    for (int i = 0; i < 2 * N_BAD + 1; i++) {
        const char *text = i % 2 ? bad[i / 2] : good;
        texts[i] = (struct text){text, strlen(text)};
    }
    assert_int_equal(json_read(&schema, MT_JSON_DROPMALFORMED, "_c", texts, 2 * N_BAD + 1, &result),
                     MT_OK);
    assert_int_equal(result.rows.length, N_BAD + 1);
    check_whole(&result.rows, &schema);
    for (int i = 0; i <= N_BAD; i++)
        expect_row(&schema, &result, i, good_row);
    mt_json_result_clear(&result);
    assert_int_equal(json_read(&schema, MT_JSON_PERMISSIVE, "_c", texts, 2 * N_BAD + 1, &result),
                     MT_OK);
    assert_int_equal(result.malformed, N_BAD);
    check_whole(&result.rows, &schema);
    for (int i = 0; i < 2 * N_BAD + 1; i++)
        expect_row(&schema, &result, i, i % 2 ? "NULL|NULL|NULL" : good_row);
    mt_json_result_clear(&result);
    mt_schema_release(&schema);
}

static void a_wrong_value_costs_the_next_object_one_field(void **state)
{
    (void)state;
    static const char text[] =
        "{\"n\":7,\"s\":{\"a\":[{\"x\":\"q\",\"ok\":true},{\"x\":2}],\"t\":\"u\"},"
        "\"m\":{\"k\":[\"v\"],\"l\":{}}}";
    struct ArrowSchema schema = parse(ddl);
    struct text texts[] = {
        {good, sizeof good - 1}, {text, sizeof text - 1}, {good, sizeof good - 1}};
    struct mt_json_result result;
    assert_int_equal(json_read(&schema, MT_JSON_PERMISSIVE, "_c", texts, 3, &result), MT_OK);
    assert_int_equal(result.malformed, 1);
    check_whole(&result.rows, &schema);
    expect_row(&schema, &result, 0, good_row);
    expect_row(&schema, &result, 1, "7|{[{null, true}, {2, null}], u}|NULL");
    expect_row(&schema, &result, 2, good_row);
    mt_json_result_clear(&result);
    mt_schema_release(&schema);
}

static void expect_words(const char *text, const char *words)
{
    struct ArrowSchema schema = parse(ddl);
    struct text texts[] = {{text, strlen(text)}};
    struct mt_json_result result;
    assert_int_equal(json_read(&schema, MT_JSON_FAILFAST, NULL, texts, 1, &result), MT_REJECT);
    if (!strstr(err.text, words))
        fail_msg("no \"%s\" in \"%s\"", words, err.text);
    mt_schema_release(&schema);
}

static void failfast_names_the_field_inside(void **state)
{
    (void)state;
    expect_words("{\"s\":{\"a\":[{\"x\":1},{\"x\":\"q\"}]},\"n\":\"z\"}",
                 "the value of field \"s.a.element.x\" does not fit INT");
    expect_words("{\"s\":{\"a\":[5]}}", "field \"s.a.element\" does not fit STRUCT<");
    expect_words("{\"m\":{\"k\":{}}}", "field \"m.entries.value\" does not fit ARRAY<STRING>");
    expect_words("{\"m\":[]}", "field \"m\" does not fit MAP<STRING, ARRAY<STRING>>");
    expect_words("{\"s\":{\"a\":[{\"x\":1}}}}", "expected a comma or a closing bracket at byte 18");
    expect_words("{\"m\":{\"k\":[],}}", "expected a key and a colon at byte 13");
}

/* Lists of 0 to 40 objects, so that every column inside grows many times. */
static void lists_of_any_length_keep_every_element(void **state)
{
    (void)state;
    enum { ROWS = 2000 };
    struct ArrowSchema schema = parse("a ARRAY<STRUCT<n: BIGINT, t: STRING, l: ARRAY<DOUBLE>>>");
    struct text *texts = mt_alloc(ROWS * sizeof *texts);
    struct mt_json_result result;
    char **expected = mt_alloc(ROWS * sizeof *expected);
    for (int row = 0; row < ROWS; row++) {
        struct mt_buf json = {0}, print = {0};
        mt_buf_adds(&json, "{\"a\":[");
        mt_buf_adds(&print, "[");
        for (int k = 0; k < row % 41; k++) {
            mt_buf_addf(&json, "%s{\"n\":%d,\"t\":\"%.*s\",\"l\":[%d.5,null]}", k ? "," : "",
                        k + row, k, "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz", k);
            mt_buf_addf(&print, "%s{%d, %.*s, [%d.5, null]}", k ? ", " : "", k + row, k,
                        "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz", k);
        }
        mt_buf_adds(&json, "]}");
        mt_buf_adds(&print, "]");
        texts[row] = (struct text){json.data, json.len};
        expected[row] = print.data;
    }
    assert_int_equal(json_read(&schema, MT_JSON_FAILFAST, NULL, texts, ROWS, &result), MT_OK);
    check_whole(&result.rows, &schema);
    for (int row = 0; row < ROWS; row++) {
        struct mt_buf text = json_row(&schema, 1, &result, row);
        assert_string_equal(text.data, expected[row]);
        mt_buf_free(&text);
        mt_free((char *)texts[row].bytes);
        mt_free(expected[row]);
    }
    mt_free(texts);
    mt_free(expected);
    mt_json_result_clear(&result);
    mt_schema_release(&schema);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_malformed_record_has_written_is_taken_back),
        cmocka_unit_test(a_wrong_value_costs_the_next_object_one_field),
        cmocka_unit_test(failfast_names_the_field_inside),
        cmocka_unit_test(lists_of_any_length_keep_every_element),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
