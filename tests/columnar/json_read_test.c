/* SPDX-License-Identifier: Apache-2.0
 *
 * json_read_test.c - values, keys, modes and rows of the JSON reader, beyond what the
 * documents of json_spark_test.c show one at a time. */
#include "columnar/json_util.h"

/* Reads one text and expects this row and verdict. */
static void expect(const char *ddl, const char *text, const char *row, bool malformed)
{
    bool was_malformed;
    char *got = json_one(ddl, text, strlen(text), &was_malformed);
    if (strcmp(got, row) != 0 || was_malformed != malformed)
        fail_msg("%s as %s: %s%s, not %s", text, ddl, got, was_malformed ? " (malformed)" : "",
                 row);
    free(got);
}

/* ---- values */

static void integers_are_exact_to_their_last_digit(void **state)
{
    (void)state;
    const char *ddl = "a BIGINT, b INT, c SMALLINT, d TINYINT";
    expect(ddl, "{\"a\":9223372036854775807,\"b\":2147483647,\"c\":32767,\"d\":127}",
           "9223372036854775807|2147483647|32767|127", false);
    expect(ddl, "{\"a\":-9223372036854775808,\"b\":-2147483648,\"c\":-32768,\"d\":-128}",
           "-9223372036854775808|-2147483648|-32768|-128", false);
    expect(ddl, "{\"a\":9007199254740993,\"b\":-0}", "9007199254740993|0|NULL|NULL", false);
    expect(ddl, "{\"a\":9223372036854775808,\"b\":1}", "NULL|1|NULL|NULL", true);
    expect(ddl, "{\"a\":-9223372036854775809,\"b\":1}", "NULL|1|NULL|NULL", true);
    expect(ddl, "{\"a\":18446744073709551617,\"b\":1}", "NULL|1|NULL|NULL", true);
    expect(ddl, "{\"b\":2147483648,\"a\":1}", "1|NULL|NULL|NULL", true);
    expect(ddl, "{\"c\":32768,\"d\":128,\"a\":1}", "1|NULL|NULL|NULL", true);
    expect(ddl, "{\"c\":-32769,\"d\":-129,\"a\":1}", "1|NULL|NULL|NULL", true);
}

static void decimals_of_38_digits_never_pass_a_double(void **state)
{
    (void)state;
    const char *ddl = "a DECIMAL(38,0), b DECIMAL(38,18), c DECIMAL(38,38)";
    expect(ddl,
           "{\"a\":99999999999999999999999999999999999999,"
           "\"b\":-12345678901234567890.123456789012345678,"
           "\"c\":\"0.99999999999999999999999999999999999999\"}",
           "99999999999999999999999999999999999999|-12345678901234567890.123456789012345678|"
           "0.99999999999999999999999999999999999999",
           false);
    expect(ddl, "{\"a\":100000000000000000000000000000000000000,\"b\":1}",
           "NULL|1.000000000000000000|NULL", true);
}

static void doubles_are_the_nearest(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "0.1",
        "123.45",
        "1e22",
        "1e23",
        "9007199254740993",
        "9007199254740993.0",
        "1e-22",
        "3.141592653589793238462643",
        "5e-324",
        "2.2250738585072011e-308",
        "1.7976931348623157e308",
        "0.000000000000000000000000000000000000000000000001",
        "123456789012345678901234567890",
        "8.98846567431158e307",
        "4.35",
        "0.3",
        "2.5e-5",
        "72057594037927935",
        "1e0",
        "100e-2",
        "7.2057594037927933e16",
        "1.00000000000000011102230246251565404236316680908203125",
        "1.00000000000000011102230246251565404236316680908203124",
        "-123.456e-10",
    };
    struct ArrowSchema schema;
    assert_int_equal(mt_schema_parse("d DOUBLE, f FLOAT", &schema, &err), MT_OK);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct mt_json_result result;
        char *text = mt_format("{\"d\":%s,\"f\":%s}", texts[i], texts[i]);
        struct text one = {text, strlen(text)};
        assert_int_equal(json_read(&schema, MT_JSON_FAILFAST, NULL, &one, 1, &result), MT_OK);
        double d = ((const double *)result.rows.children[0]->buffers[1])[0];
        float f = ((const float *)result.rows.children[1]->buffers[1])[0];
        if (d != strtod(texts[i], NULL) || f != strtof(texts[i], NULL))
            fail_msg("%s: %.17g, %.9g", texts[i], d, (double)f);
        mt_json_result_clear(&result);
        free(text);
    }
    mt_schema_release(&schema);
}

/* The fast path for times and the parser of all forms agree wherever both can read. */
static void times_of_the_usual_form_are_read_like_all_others(void **state)
{
    (void)state;
    static const char *const fractions[] = {"",      ".",      ".1",      ".12",      ".123",
                                            ".1234", ".12345", ".123456", ".1234567", ".12x"};
    static const char *const times[] = {"00:00:00", "23:59:59", "24:00:00", "10:60:00",
                                        "10:00:60", "1x:00:00", "10-00:00", "10:00:0/"};
    for (int year = 0; year < 10000; year += year % 400 < 5 ? 1 : 97)
        for (int month = 0; month <= 13; month++)
            for (int day = 27; day <= 32; day++) {
                int i = year + month + day;
                int64_t micros;
                char value[64];
                int len = snprintf(value, sizeof value, "%04d-%02d-%02dT%s%sZ", year, month, day,
                                   times[i % 8], fractions[i % 10]);
                bool good = mt_timestamp_parse(value, len, 0, &micros), malformed;
                char printed[64] = "NULL", *text = mt_format("{\"t\":\"%s\"}", value);
                if (good)
                    printed[mt_timestamp_print(micros, printed)] = '\0';
                char *row = json_one("t TIMESTAMP", text, strlen(text), &malformed);
                if (malformed == good || strcmp(row, printed) != 0)
                    fail_msg("%s: %s, not %s", value, row, printed);
                free(row);
                free(text);
            }
}

static void text_of_any_length_and_escape_is_kept(void **state)
{
    (void)state;
    for (int n = 0; n < 200; n++) {
        struct mt_buf text = {0}, value = {0};
        for (int i = 0; i < n; i++)
            mt_buf_adds(&value, i % 67 == 66 ? "é" : "x");
        mt_buf_addf(&text, "{\"s\":\"%s\",\"e\":\"%s\\n\"}", n ? value.data : "",
                    n ? value.data : "");
        char *row = mt_format("%s|%s\n", n ? value.data : "", n ? value.data : "");
        expect("s STRING, e STRING", text.data, row, false);
        free(row);
        mt_buf_free(&text);
        mt_buf_free(&value);
    }
    expect("s STRING", "{\"s\":\"\\ud83d\\ude00 \\ud83d x \\ude00\"}", "\xf0\x9f\x98\x80 ? x ?",
           false);
}

/* ---- keys */

static void keys_in_any_order_and_escaped_find_their_field(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "{\"a\":1,\"b\":2}",
        "{\"b\":2,\"a\":1}",
        "{\"x\":{},\"a\":1,\"y\":[],\"b\":2}",
        "{\"\\u0061\":1,\"b\":2}",
        "{\"aa\":9,\"a\":1,\"b\":2}",
        "{\"a \":9,\"b\":2,\"a\":1}",
        "{\"A\":9,\"a\":1,\"b\":2}",
        "{\"\":9,\"a\":1,\"b\":2}",
        "{ \"a\" : 1 , \"b\" : 2 }",
        "{\"a\\u0000\":9,\"a\":1,\"b\":2}",
        "{\"a\":1,\"\\ud83d\":9,\"b\":2}",
        "{\"b\":2,\"a\\\"\":9,\"a\":1}",
    };
    enum { N = sizeof texts / sizeof *texts };
    struct text many[N * N];
    struct ArrowSchema schema;
    struct mt_json_result result;
    for (size_t i = 0; i < N * N; i++) { /* each after each: what is remembered misleads nobody */
        const char *text = texts[i % 2 ? i / N : i % N];
        many[i] = (struct text){text, strlen(text)};
    }
    assert_int_equal(mt_schema_parse("a INT, b INT", &schema, &err), MT_OK);
    assert_int_equal(json_read(&schema, MT_JSON_FAILFAST, NULL, many, N * N, &result), MT_OK);
    for (size_t i = 0; i < N * N; i++) {
        struct mt_buf row = json_row(&schema, 2, &result, (int64_t)i);
        if (strcmp(row.data, "1|2") != 0)
            fail_msg("%s: %s", many[i].bytes, row.data);
        mt_buf_free(&row);
    }
    mt_json_result_clear(&result);
    mt_schema_release(&schema);
    expect("`q\"` INT, `a\\nb` INT, `a\":1` INT", "{\"q\\\"\":1,\"a\\\\nb\":2,\"a\\\":1\":3}",
           "1|2|3", false);
    expect("`a\\nb` INT, `a\":1` INT", "{\"a\\nb\":2,\"a\":1}", "NULL|NULL", false);
}

static void records_with_hundreds_of_keys_and_long_keys_are_read(void **state)
{
    (void)state;
    struct mt_buf text = {0}, ddl = {0}, row = {0};
    mt_buf_adds(&text, "{");
    for (int i = 0; i < 300; i++) {
        mt_buf_addf(&text, "%s\"k%0*d\":%d", i ? "," : "", i, i, i);
        if (i % 3 == 0) {
            mt_buf_addf(&ddl, "%sk%0*d INT", i ? ", " : "", i, i);
            mt_buf_addf(&row, "%s%d", i ? "|" : "", i);
        }
    }
    mt_buf_adds(&text, "}");
    expect(ddl.data, text.data, row.data, false);
    mt_buf_free(&text);
    mt_buf_free(&ddl);
    mt_buf_free(&row);
}

static void of_equal_keys_the_last_counts_for_every_type(void **state)
{
    (void)state;
    static const struct {
        const char *type, *first, *last, *row;
    } cases[] = {
        {"BOOLEAN", "true", "false", "false"},
        {"BOOLEAN", "false", "true", "true"},
        {"INT", "1", "2", "2"},
        {"INT", "null", "2", "2"},
        {"INT", "1", "null", "NULL"},
        {"INT", "null", "null", "NULL"},
        {"STRING", "\"a long first text, longer than the last\"", "\"b\"", "b"},
        {"STRING", "\"a\"", "\"\"", ""},
        {"STRING", "null", "\"b\"", "b"},
        {"STRING", "[1]", "null", "NULL"},
        {"BINARY", "\"aGk=\"", "\"aGl=\"", "hi"},
        {"DECIMAL(5,1)", "1", "2", "2.0"},
        {"TIMESTAMP", "1", "2", "1970-01-01 00:00:02"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *ddl = mt_format("z INT, k %s", cases[i].type);
        char *text = mt_format("{\"k\":%s,\"z\":0,\"k\":%s,\"k\":%s}", cases[i].first,
                               cases[i].first, cases[i].last);
        char *row = mt_format("0|%s", cases[i].row);
        expect(ddl, text, row, false);
        free(ddl);
        free(text);
        free(row);
    }
    expect("k INT", "{\"k\":1,\"k\":\"x\"}", "1", true); /* as Spark has it */
}

/* ---- rows and modes */

static const struct text mixed[] = {
    {"{\"a\":1,\"b\":\"x\"}", 15},
    {"{\"a\":\"bad\",\"b\":\"kept\"}", 22},
    {NULL, 0},
    {" \n", 2},
    {"{\"a\":3,\"b\":\"y\"", 14},
    {"{\"a\":4}", 7},
    {"\xff", 1},
    {"", 0},
};

static void permissive_keeps_what_fits_and_the_raw_text(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "1|x|NULL",
        "NULL|kept|{\"a\":\"bad\",\"b\":\"kept\"}",
        "null",
        "null",
        "NULL|NULL|{\"a\":3,\"b\":\"y\"",
        "4|NULL|NULL",
        "NULL|NULL|\xef\xbf\xbd",
        "null",
    };
    struct ArrowSchema schema;
    struct mt_json_result result;
    assert_int_equal(mt_schema_parse("a INT, b STRING, _c STRING", &schema, &err), MT_OK);
    assert_int_equal(json_read(&schema, MT_JSON_PERMISSIVE, "_c", mixed, 8, &result), MT_OK);
    assert_int_equal(result.rows.length, 8);
    assert_int_equal(result.rows.null_count, 3);
    assert_int_equal(result.malformed, 3);
    assert_null(result.kept);
    for (int i = 0; i < 8; i++) {
        struct mt_buf row = json_row(&schema, 3, &result, i);
        assert_string_equal(row.data, rows[i]);
        mt_buf_free(&row);
        for (int k = 0; k < 3; k++) /* the columns of a null row are null too */
            assert_true(strcmp(rows[i], "null") != 0 ||
                        mt_array_is_null(result.rows.children[k], i));
    }
    mt_json_result_clear(&result);
    mt_schema_release(&schema);
}

static void the_corrupt_column_is_no_field(void **state)
{
    (void)state;
    struct ArrowSchema schema;
    struct mt_json_result result;
    struct text one = {"{\"_c\":\"sly\",\"a\":1}", 18};
    assert_int_equal(mt_schema_parse("_c STRING, a INT", &schema, &err), MT_OK);
    assert_int_equal(json_read(&schema, MT_JSON_PERMISSIVE, "_c", &one, 1, &result), MT_OK);
    assert_true(mt_array_is_null(result.rows.children[0], 0));
    mt_json_result_clear(&result);
    assert_int_equal(json_read(&schema, MT_JSON_PERMISSIVE, NULL, &one, 1, &result), MT_OK);
    assert_false(mt_array_is_null(result.rows.children[0], 0));
    mt_json_result_clear(&result);
    mt_schema_release(&schema);
}

static void dropmalformed_says_which_rows_are_left(void **state)
{
    (void)state;
    static const int32_t left[] = {0, 2, 3, 5, 7};
    struct ArrowSchema schema;
    struct mt_json_result result;
    assert_int_equal(mt_schema_parse("a INT, b STRING", &schema, &err), MT_OK);
    assert_int_equal(json_read(&schema, MT_JSON_DROPMALFORMED, NULL, mixed, 8, &result), MT_OK);
    assert_int_equal(result.rows.length, 5);
    assert_int_equal(result.malformed, 3);
    assert_memory_equal(result.kept, left, sizeof left);
    struct mt_buf row = json_row(&schema, 2, &result, 3);
    assert_string_equal(row.data, "4|NULL");
    mt_buf_free(&row);
    mt_json_result_clear(&result);
    assert_int_equal(json_read(&schema, MT_JSON_DROPMALFORMED, NULL, mixed, 1, &result), MT_OK);
    assert_null(result.kept);
    mt_json_result_clear(&result);
    assert_int_equal(json_read(&schema, MT_JSON_DROPMALFORMED, NULL, mixed + 6, 1, &result), MT_OK);
    assert_int_equal(result.rows.length, 0);
    mt_json_result_clear(&result);
    mt_schema_release(&schema);
}

static void failfast_names_the_row_the_field_and_the_record(void **state)
{
    (void)state;
    struct ArrowSchema schema;
    struct mt_json_result result;
    assert_int_equal(mt_schema_parse("a INT, b STRING", &schema, &err), MT_OK);
    assert_int_equal(json_read(&schema, MT_JSON_FAILFAST, NULL, mixed, 4, &result), MT_REJECT);
    assert_int_equal(err.class_, MT_CLASS_DATA);
    assert_non_null(strstr(err.text, "orders[2]@101"));
    assert_non_null(strstr(err.text, "field \"a\" does not fit INT"));
    assert_non_null(strstr(err.text, "{\"a\":\"bad\",\"b\":\"kept\"}"));
    assert_int_equal(json_read(&schema, MT_JSON_FAILFAST, NULL, mixed + 4, 1, &result), MT_REJECT);
    assert_non_null(strstr(err.text, "orders[2]@100"));
    assert_non_null(strstr(err.text, "expected a closing brace at byte 14"));
    assert_int_equal(json_read(&schema, MT_JSON_FAILFAST, NULL, mixed + 6, 1, &result), MT_REJECT);
    assert_non_null(strstr(err.text, "not UTF-8"));
    assert_non_null(strstr(err.text, "\\xFF"));
    mt_schema_release(&schema);
}

static void no_rows_give_no_rows(void **state)
{
    (void)state;
    struct ArrowSchema schema;
    struct mt_json_result result;
    assert_int_equal(mt_schema_parse("a INT, b STRING, c BOOLEAN, d BINARY", &schema, &err), MT_OK);
    for (int mode = MT_JSON_PERMISSIVE; mode <= MT_JSON_DROPMALFORMED; mode++) {
        assert_int_equal(json_read(&schema, mode, NULL, NULL, 0, &result), MT_OK);
        assert_int_equal(result.rows.length, 0);
        assert_int_equal(result.rows.n_children, 4);
        assert_int_equal(result.malformed, 0);
        mt_json_result_clear(&result);
    }
    mt_schema_release(&schema);
}

/* Rows first..first+n of a column, as the offset of parent and child cut it. */
static void a_cut_batch_gives_the_rows_it_shows(void **state)
{
    (void)state;
    struct ArrowSchema schema, in;
    struct mt_batch batch;
    struct mt_json_reader *reader;
    struct mt_json_result result;
    json_batch(mixed, 8, "STRING", &in, &batch);
    assert_int_equal(mt_schema_parse("a INT, b STRING", &schema, &err), MT_OK);
    assert_int_equal(mt_json_reader_new(&schema, MT_JSON_PERMISSIVE, NULL, &reader, &err), MT_OK);
    batch.array.offset = 1;
    batch.array.children[0]->offset = 3;
    batch.array.length = 2;
    assert_int_equal(mt_json_read(reader, &batch, 0, 0, &result, &err), MT_OK);
    assert_int_equal(result.rows.length, 2);
    struct mt_buf first = json_row(&schema, 2, &result, 0), last = json_row(&schema, 2, &result, 1);
    assert_string_equal(first.data, "NULL|NULL");
    assert_string_equal(last.data, "4|NULL");
    mt_buf_free(&first);
    mt_buf_free(&last);
    mt_json_result_clear(&result);
    mt_json_reader_free(reader);
    mt_batch_release(&batch);
    mt_schema_release(&schema);
    mt_schema_release(&in);
}

static void a_cut_batch_has_its_nulls_where_they_are(void **state)
{
    (void)state;
    static const struct text texts[] = {{"{\"a\":1}", 7}, {NULL, 0}, {"{\"a\":3}", 7}};
    struct ArrowSchema schema, in;
    struct mt_batch batch;
    struct mt_json_reader *reader;
    struct mt_json_result result;
    json_batch(texts, 3, "STRING", &in, &batch);
    assert_int_equal(mt_schema_parse("a INT", &schema, &err), MT_OK);
    assert_int_equal(mt_json_reader_new(&schema, MT_JSON_PERMISSIVE, NULL, &reader, &err), MT_OK);
    batch.array.offset = 1;
    batch.array.length = 2;
    assert_int_equal(mt_json_read(reader, &batch, 0, 0, &result, &err), MT_OK);
    struct mt_buf first = json_row(&schema, 1, &result, 0), last = json_row(&schema, 1, &result, 1);
    assert_string_equal(first.data, "null");
    assert_string_equal(last.data, "3");
    mt_buf_free(&first);
    mt_buf_free(&last);
    mt_json_result_clear(&result);
    mt_json_reader_free(reader);
    mt_batch_release(&batch);
    mt_schema_release(&schema);
    mt_schema_release(&in);
}

/* After a failure, a big record and a wide one, the same reader reads on as if new. */
static void a_reader_is_used_again_and_again(void **state)
{
    (void)state;
    struct ArrowSchema schema, in;
    struct mt_batch batch;
    struct mt_json_reader *reader;
    struct mt_json_result result;
    struct mt_buf big = {0};
    mt_buf_adds(&big, "{\"x\":[0");
    while (big.len < 1000000)
        mt_buf_adds(&big, ",{\"y\":\"some text\"}");
    mt_buf_adds(&big, "],\"a\":7}");
    assert_int_equal(mt_schema_parse("a INT, x STRING", &schema, &err), MT_OK);
    assert_int_equal(mt_json_reader_new(&schema, MT_JSON_FAILFAST, NULL, &reader, &err), MT_OK);
    for (int round = 0; round < 6; round++) {
        struct text texts[] = {{"{\"a\":1,\"x\":\"s\"}", 15},
                               {round % 2 ? "{\"a\":1" : big.data, round % 2 ? 6 : big.len}};
        json_batch(texts, 2, "BINARY", &in, &batch);
        enum mt_status status = mt_json_read(reader, &batch, 0, 0, &result, &err);
        assert_int_equal(status, round % 2 ? MT_REJECT : MT_OK);
        if (status == MT_OK) {
            assert_int_equal(((const int32_t *)result.rows.children[0]->buffers[1])[1], 7);
            const int32_t *offsets = result.rows.children[1]->buffers[1];
            assert_int_equal(offsets[2] - offsets[1], big.len - strlen("{\"x\":,\"a\":7}"));
            mt_json_result_clear(&result);
        }
        mt_batch_release(&batch);
        mt_schema_release(&in);
    }
    mt_json_reader_free(reader);
    mt_json_reader_free(NULL);
    mt_buf_free(&big);
    mt_schema_release(&schema);
}

/* ---- refusals */

static void expect_refusal(const char *ddl, const char *corrupt, const char *word,
                           const char *other)
{
    struct ArrowSchema schema;
    struct mt_json_reader *reader;
    assert_int_equal(mt_schema_parse(ddl, &schema, &err), MT_OK);
    assert_int_equal(mt_json_reader_new(&schema, MT_JSON_PERMISSIVE, corrupt, &reader, &err),
                     MT_REJECT);
    assert_int_equal(err.class_, MT_CLASS_JOB);
    assert_non_null(strstr(err.text, word));
    assert_non_null(strstr(err.text, other));
    mt_schema_release(&schema);
}

static void schemas_that_it_cannot_serve_are_refused(void **state)
{
    (void)state;
    expect_refusal("a INT, m MAP<INT, STRING>", NULL, "\"m\"", "only STRING");
    expect_refusal("a ARRAY<STRUCT<m: MAP<DATE, INT>>>", NULL, "\"a.element.m\"",
                   "MAP<DATE, INT>");
    expect_refusal("a INT, _c ARRAY<STRING>", "_c", "\"_c\"", "STRING");
    expect_refusal("a INT, _c INT", "_c", "\"_c\"", "STRING");
    expect_refusal("a INT", "_c", "\"_c\"", "no column");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers_are_exact_to_their_last_digit),
        cmocka_unit_test(decimals_of_38_digits_never_pass_a_double),
        cmocka_unit_test(doubles_are_the_nearest),
        cmocka_unit_test(times_of_the_usual_form_are_read_like_all_others),
        cmocka_unit_test(text_of_any_length_and_escape_is_kept),
        cmocka_unit_test(keys_in_any_order_and_escaped_find_their_field),
        cmocka_unit_test(records_with_hundreds_of_keys_and_long_keys_are_read),
        cmocka_unit_test(of_equal_keys_the_last_counts_for_every_type),
        cmocka_unit_test(permissive_keeps_what_fits_and_the_raw_text),
        cmocka_unit_test(the_corrupt_column_is_no_field),
        cmocka_unit_test(dropmalformed_says_which_rows_are_left),
        cmocka_unit_test(failfast_names_the_row_the_field_and_the_record),
        cmocka_unit_test(no_rows_give_no_rows),
        cmocka_unit_test(a_cut_batch_gives_the_rows_it_shows),
        cmocka_unit_test(a_cut_batch_has_its_nulls_where_they_are),
        cmocka_unit_test(a_reader_is_used_again_and_again),
        cmocka_unit_test(schemas_that_it_cannot_serve_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
