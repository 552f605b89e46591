/* SPDX-License-Identifier: Apache-2.0
 *
 * json_spark_test.c - documents that Spark 4.2.0's from_json was given (session time zone
 * UTC) and what it made of them: the same here, or listed below with the reason. */
#include <jansson.h>

#include "columnar/json_util.h"

/* Where we refuse what Spark lets pass: the record is malformed, its fields null. */
static const struct difference {
    const char *schema, *json, *why;
} differences[] = {
    {"a INT", "{\"a\":1} trailing", "text behind the document"},
    {"a INT", "{\"a\":1}{\"a\":2}", "text behind the document"},
    {"a INT", "{\"a\":1}{", "text behind the document"},
    {"a INT", "{\"a\":1}\n{\"a\":2}", "text behind the document"},
    {"a INT", "{\"a\":1}\f", "text behind the document"},
    {"a INT", "{}}", "text behind the document"},
    {"a INT, b INT", "{\"a\":1}]", "text behind the document"},
    {"a INT", "{'a':1}", "single quotes"},
    {"a DOUBLE", "{\"a\":Infinity}", "bare Infinity"},
    {"a DOUBLE", "{\"a\":-INF}", "bare Infinity"},
    {"a DOUBLE", "{\"a\":NaN}", "bare NaN"},
    {"a STRING", "{\"a\":NaN}", "bare NaN"},
    {"a TINYINT, b SMALLINT", "{\"a\":128,\"b\":1}", "TINYINT wraps around"},
    {"a TINYINT", "{\"a\":255}", "TINYINT wraps around"},
    {"a TIMESTAMP", "{\"a\":9223372036855}", "seconds overflow"},
    {"a DATE", "{\"a\":\"123\"}", "a number of days as text"},
    {"a DATE", "{\"a\":\"2026-02-03GMT\"}", "a zone behind a date"},
    {"a DECIMAL(10,2)", "{\"a\":\"\xd9\xa1\"}", "digits that are not ASCII"},
    {"a BINARY", "{\"a\":\"aGk=aGk=\"}", "base64 with padding inside"},
    {"a BINARY", "{\"a\":\"aGk=\\n\"}", "base64 with blanks"},
    {"a BINARY", "{\"a\":\"aGk= \"}", "base64 with blanks"},
    {"a BINARY", "{\"a\":\"AAA=\\n\\n\"}", "base64 with blanks"},
    {"a ARRAY<INT>", "{\"a\":[1,2]}}", "text behind the document"},
    {"s STRUCT<b: INT, c: STRING>, d INT", "{\"d\":1,\"s\":{\"b\":nope}}",
     "fields before what is no JSON"},
};

static const struct difference *difference_of(const char *schema, const char *json)
{
    for (size_t i = 0; i < sizeof differences / sizeof *differences; i++)
        if (strcmp(differences[i].schema, schema) == 0 && strcmp(differences[i].json, json) == 0)
            return &differences[i];
    return NULL;
}

/* What Spark printed, in json_row's form. */
static struct mt_buf expected_row(const struct ArrowSchema *schema, const json_t *permissive)
{
    struct mt_buf buf = {0};
    if (json_is_null(permissive))
        mt_buf_adds(&buf, "null");
    else
        for (int64_t i = 0; i + 1 < schema->n_children; i++) {
            const json_t *text =
                json_object_get(json_object_get(permissive, "text"), schema->children[i]->name);
            if (i > 0)
                mt_buf_adds(&buf, "|");
            if (json_is_null(text))
                mt_buf_adds(&buf, "NULL");
            else
                mt_buf_add(&buf, json_string_value(text), json_string_length(text));
        }
    return buf;
}

/* All modes agree on whether the record is malformed. */
static void check_modes(const struct ArrowSchema *schema, struct text text, bool malformed)
{
    struct mt_json_result result;
    enum mt_status status = json_read(schema, MT_JSON_FAILFAST, "_c", &text, 1, &result);
    assert_int_equal(status, malformed ? MT_REJECT : MT_OK);
    if (status == MT_OK)
        mt_json_result_clear(&result);
    assert_int_equal(json_read(schema, MT_JSON_DROPMALFORMED, "_c", &text, 1, &result), MT_OK);
    assert_int_equal(result.rows.length, !malformed);
    assert_int_equal(result.malformed, malformed);
    mt_json_result_clear(&result);
}

/* The row but for its last column, _c, which says whether it is malformed. */
static struct mt_buf our_row(const struct ArrowSchema *schema, struct text text, bool *malformed)
{
    struct mt_json_result result;
    if (json_read(schema, MT_JSON_PERMISSIVE, "_c", &text, 1, &result) != MT_OK)
        fail_msg("%s: %s", text.bytes, err.text);
    int64_t last = schema->n_children - 1;
    const struct ArrowArray *corrupt = result.rows.children[last];
    *malformed = !mt_array_is_null(corrupt, 0);
    assert_int_equal(result.malformed, *malformed);
    if (*malformed) {
        const int32_t *offsets = corrupt->buffers[1];
        assert_int_equal(offsets[1] - offsets[0], text.len);
        assert_memory_equal(corrupt->buffers[2], text.bytes, text.len);
    }
    struct mt_buf row = json_row(schema, last, &result, 0);
    mt_json_result_clear(&result);
    return row;
}

static int check_case(const json_t *given)
{
    const char *ddl = json_string_value(json_object_get(given, "schema"));
    const json_t *json = json_object_get(given, "json");
    const json_t *permissive = json_object_get(given, "permissive");
    struct text text = {json_string_value(json), json_string_length(json)};
    char *all = mt_format("%s, _c STRING", ddl);
    struct ArrowSchema schema;
    bool malformed, theirs = json_is_true(json_object_get(permissive, "corrupt"));
    assert_int_equal(mt_schema_parse(all, &schema, &err), MT_OK);
    struct mt_buf row = our_row(&schema, text, &malformed);
    struct mt_buf expected = expected_row(&schema, permissive);
    const struct difference *difference = difference_of(ddl, text.bytes);
    int failed = 0;
    if (difference) {
        print_message("stricter than Spark (%s): %s %s gives %s, not %s\n", difference->why, ddl,
                      text.bytes, row.data, expected.data);
        failed = !malformed;
    } else {
        failed = malformed != theirs || row.len != expected.len ||
                 memcmp(row.data, expected.data, row.len) != 0;
    }
    if (failed)
        print_error("%s %s: %s%s, but Spark gives %s%s\n", ddl, text.bytes, row.data,
                    malformed ? " (malformed)" : "", expected.data, theirs ? " (malformed)" : "");
    check_modes(&schema, text, malformed);
    mt_buf_free(&row);
    mt_buf_free(&expected);
    free(all);
    mt_schema_release(&schema);
    return failed;
}

static void check_file(const char *path, int least)
{
    FILE *file = fopen(path, "r");
    json_t *given;
    json_error_t problem;
    int n = 0, failed = 0;
    assert_non_null(file);
    while ((given = json_loadf(file, JSON_DISABLE_EOF_CHECK | JSON_ALLOW_NUL, &problem))) {
        failed += check_case(given);
        json_decref(given);
        n++;
    }
    assert_true(feof(file));
    fclose(file);
    assert_true(n >= least);
    assert_int_equal(failed, 0);
}

static void rows_of_the_fixture_are_as_spark_has_them(void **state)
{
    (void)state;
    check_file(MT_TEST_DATA "/spark-from-json.jsonl", 105);
}

static void nested_values_are_as_spark_has_them(void **state)
{
    (void)state;
    check_file(MT_TEST_DATA "/spark-from-json-nested.jsonl", 228);
}

static void corner_cases_are_as_spark_has_them(void **state)
{
    (void)state;
    check_file(MT_TEST_DATA "/spark-from-json-more.jsonl", 250);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_of_the_fixture_are_as_spark_has_them),
        cmocka_unit_test(corner_cases_are_as_spark_has_them),
        cmocka_unit_test(nested_values_are_as_spark_has_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
