/* SPDX-License-Identifier: Apache-2.0
 *
 * text_write_test.c - rows as lines of JSON, CSV and text: byte for byte what Spark writes,
 * or what is said where it differs. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h> /* needs the ones above */

#include "columnar/columnar.h"

static struct mt_error err;

static int keep(void *ctx, const void *bytes, size_t len)
{
    mt_buf_add(ctx, bytes, len);
    return 0;
}

static int refuse(void *ctx, const void *bytes, size_t len)
{
    (void)bytes, (void)len;
    return *(int *)ctx;
}

/* ---- rows out of JSON */

static void read_rows(const struct ArrowSchema *schema, const char *const *texts, int64_t n,
                      struct ArrowArray *rows)
{
    struct ArrowSchema text;
    struct mt_column column;
    struct mt_batch in = {.schema = &text};
    struct mt_json_reader *reader;
    struct mt_json_result result = {0};
    assert_int_equal(mt_schema_parse("t STRING", &text, &err), MT_OK);
    mt_column_init(&column, &text);
    for (int64_t i = 0; i < n; i++) {
        assert_int_equal(
            mt_column_add_bytes(&column.children[0], texts[i], (int64_t)strlen(texts[i]), &err),
            MT_OK);
        assert_int_equal(mt_column_close_row(&column, &err), MT_OK);
    }
    mt_column_finish(&column, &in.array);
    mt_column_deinit(&column);
    assert_int_equal(mt_json_reader_new(schema, MT_JSON_FAILFAST, NULL, &reader, &err), MT_OK);
    if (mt_json_read(reader, &in, 0, 0, &result, &err) != MT_OK)
        fail_msg("%s", err.text);
    *rows = result.rows;
    result.rows.release = NULL;
    mt_json_result_clear(&result);
    mt_json_reader_free(reader);
    mt_batch_release(&in);
    mt_schema_release(&text);
}

static char *write_rows(enum mt_file_format format, const struct ArrowSchema *schema,
                        const struct mt_file_settings *given, const struct ArrowArray *rows)
{
    struct mt_file_settings settings = *given;
    struct mt_file_writer *writer;
    struct mt_buf out = {0};
    int64_t counted = -1;
    mt_buf_adds(&out, "");
    settings.compression = settings.compression ? settings.compression : "none";
    if (mt_file_writer_new(format, schema, &settings, keep, &out, &writer, &err) != MT_OK ||
        mt_file_write(writer, rows, &err) != MT_OK)
        fail_msg("%s", err.text);
    assert_int_equal(mt_file_finish(writer, &counted, &err), MT_OK);
    assert_int_equal(counted, rows->length);
    return out.data;
}

/* The lines that rows of this schema make, the rows given as JSON. */
static void check(enum mt_file_format format, const char *ddl, struct mt_file_settings settings,
                  const char *const *texts, const char *expected)
{
    struct ArrowSchema schema;
    struct ArrowArray rows;
    int64_t n = 0;
    while (texts[n])
        n++;
    assert_int_equal(mt_schema_parse(ddl, &schema, &err), MT_OK);
    read_rows(&schema, texts, n, &rows);
    char *text = write_rows(format, &schema, &settings, &rows);
    assert_string_equal(text, expected);
    free(text);
    rows.release(&rows);
    mt_schema_release(&schema);
}
#define ROWS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* ---- JSON */

static void json_has_sparks_form(void **state)
{
    (void)state;
    check(MT_FILE_JSON,
          "b BOOLEAN, l BIGINT, f FLOAT, d DOUBLE, c DECIMAL(10,4), x STRING, y BINARY, day DATE, "
          "ts TIMESTAMP, a ARRAY<INT>, s STRUCT<a: INT, b: STRING>, m MAP<STRING, INT>",
          (struct mt_file_settings){0},
          ROWS("{\"b\":true,\"l\":9223372036854775807,\"f\":1.5,\"d\":1e10,\"c\":12345.678,\"x\":"
               "\"a,b \\\"q\\\" \\\\ back/\\u0001\\n\\t\xe6\xbc\xa2\",\"y\":\"AP9B\",\"day\":"
               "\"2026-01-02\",\"ts\":\"2026-01-02T03:04:05.123Z\",\"a\":[1,null,3],\"s\":{\"a\":1,"
               "\"b\":\"x\"},\"m\":{\"k\":1,\"l\":null}}",
               "{\"d\":\"NaN\",\"f\":\"-Infinity\",\"s\":{},\"m\":{},\"a\":[],\"y\":\"YQ==\","
               "\"c\":-0.0001,\"ts\":\"1900-01-01T00:00:00.5Z\",\"day\":\"0001-01-01\"}",
               "{}"),
          "{\"b\":true,\"l\":9223372036854775807,\"f\":1.5,\"d\":1.0E10,\"c\":12345.6780,\"x\":"
          "\"a,b \\\"q\\\" \\\\ back/\\u0001\\n\\t\xe6\xbc\xa2\",\"y\":\"AP9B\",\"day\":"
          "\"2026-01-02\",\"ts\":\"2026-01-02T03:04:05.123Z\",\"a\":[1,null,3],\"s\":{\"a\":1,"
          "\"b\":\"x\"},\"m\":{\"k\":1,\"l\":null}}\n"
          "{\"f\":\"-Infinity\",\"d\":\"NaN\",\"c\":-0.0001,\"y\":\"YQ==\",\"day\":\"0001-01-01\","
          "\"ts\":\"1900-01-01T00:00:00.500Z\",\"a\":[],\"s\":{},\"m\":{}}\n"
          "{}\n");
}

static void json_writes_null_fields_when_asked(void **state)
{
    (void)state;
    check(MT_FILE_JSON, "a INT, s STRUCT<b: INT>",
          (struct mt_file_settings){.keep_null_fields = true}, ROWS("{}", "{\"s\":{}}"),
          "{\"a\":null,\"s\":null}\n{\"a\":null,\"s\":{\"b\":null}}\n");
}

static void json_keys_are_text_whatever_their_type(void **state)
{
    (void)state;
    struct ArrowSchema schema;
    struct mt_column root;
    struct ArrowArray rows;
    assert_int_equal(mt_schema_parse("m MAP<INT, DATE>, n MAP<DATE, BIGINT>", &schema, &err),
                     MT_OK);
    mt_column_init(&root, &schema);
    for (int64_t i = 0; i < 2; i++) {
        struct mt_column *entries = &root.children[i].children[0];
        assert_int_equal(mt_column_add_int(&entries->children[0], 1, &err), MT_OK);
        assert_int_equal(mt_column_add_int(&entries->children[1], 2, &err), MT_OK);
        assert_int_equal(mt_column_close_row(entries, &err), MT_OK);
        assert_int_equal(mt_column_close_row(&root.children[i], &err), MT_OK);
    }
    assert_int_equal(mt_column_close_row(&root, &err), MT_OK);
    mt_column_finish(&root, &rows);
    mt_column_deinit(&root);
    char *text = write_rows(MT_FILE_JSON, &schema, &(struct mt_file_settings){0}, &rows);
    assert_string_equal(text, "{\"m\":{\"1\":\"1970-01-03\"},\"n\":{\"1970-01-02\":2}}\n");
    free(text);
    rows.release(&rows);
    mt_schema_release(&schema);
}

/* ---- times */

static void times_keep_microseconds_and_the_zone_of_the_session(void **state)
{
    (void)state;
    const char *const *rows =
        ROWS("{\"t\":\"2026-07-01T12:00:00.000001Z\"}", "{\"t\":\"1969-12-31T23:59:59.999Z\"}");
    check(MT_FILE_JSON, "t TIMESTAMP", (struct mt_file_settings){0}, rows,
          "{\"t\":\"2026-07-01T12:00:00.000001Z\"}\n{\"t\":\"1969-12-31T23:59:59.999Z\"}\n");
    assert_true(mt_session_zone_use("Europe/Paris"));
    check(MT_FILE_JSON, "t TIMESTAMP", (struct mt_file_settings){0}, rows,
          "{\"t\":\"2026-07-01T14:00:00.000001+02:00\"}\n"
          "{\"t\":\"1970-01-01T00:59:59.999+01:00\"}\n");
    assert_true(mt_session_zone_use("UTC"));
}

static void patterns_are_followed(void **state)
{
    (void)state;
    check(MT_FILE_CSV, "d DATE, t TIMESTAMP",
          (struct mt_file_settings){.date_format = "dd.MM.yy E",
                                    .timestamp_format = "EEEE, d MMM uuuu h:mm:ss.SSSSSSSSS a"
                                                        "['Z''s'][xx] D"},
          ROWS("{\"d\":\"2026-02-03\",\"t\":\"2026-12-31T13:04:05.123456Z\"}"),
          "03.02.26 Tue,\"Thursday, 31 Dec 2026 1:04:05.123456000 PMZ's+0000 365\"\n");
}

/* ---- CSV */

#define TEXTS                                                                                      \
    ROWS("{\"i\":1,\"x\":\"plain\"}", "{\"i\":2,\"x\":\"a,b \\\"q\\\" \\\\ back\"}", "{\"i\":3}",  \
         "{\"i\":4,\"x\":\"  lead trail  \"}", "{\"i\":5,\"x\":\"\"}",                             \
         "{\"i\":6,\"x\":\"line\\nfeed\\rcr\"}", "{\"i\":8,\"x\":\"\\\"\"}",                       \
         "{\"i\":9,\"x\":\"back\\\\\"}", "{\"i\":10,\"x\":\"x\\\"y\"}", "{\"i\":11,\"x\":\" \"}",  \
         "{\"i\":12,\"x\":\"x\\\\\\\"y, \\\\ z\"}")

static void csv_has_sparks_form(void **state)
{
    (void)state;
    check(MT_FILE_CSV, "i INT, x STRING", (struct mt_file_settings){.header = true}, TEXTS,
          "i,x\n1,plain\n2,\"a,b \\\"q\\\" \\\\ back\"\n3,\n4,lead trail\n5,\"\"\n"
          "6,\"line\nfeed\rcr\"\n8,\"\\\"\"\n9,back\\\n10,\"x\\\"y\"\n11,\"\"\n"
          "12,\"x\\\\\\\"y, \\\\ z\"\n");
}

static void csv_follows_its_options_as_spark_does(void **state)
{
    (void)state;
    check(MT_FILE_CSV, "i INT, x STRING", (struct mt_file_settings){.quote_all = true}, TEXTS,
          "\"1\",\"plain\"\n\"2\",\"a,b \\\"q\\\" \\\\ back\"\n\"3\",\"\"\n\"4\",\"lead trail\"\n"
          "\"5\",\"\"\n\"6\",\"line\nfeed\rcr\"\n\"8\",\"\\\"\"\n\"9\",\"back\\\\\"\n"
          "\"10\",\"x\\\"y\"\n\"11\",\"\"\n\"12\",\"x\\\\\\\"y, \\\\ z\"\n");
    check(MT_FILE_CSV, "i INT, x STRING",
          (struct mt_file_settings){
              .escape = "\"", .sep = ";", .null_value = "NULL", .empty_value = "EMPTY"},
          TEXTS,
          "1;plain\n2;\"a,b \"\"q\"\" \\ back\"\n3;NULL\n4;lead trail\n5;EMPTY\n"
          "6;\"line\nfeed\rcr\"\n8;\"\"\"\"\n9;back\\\n10;\"x\"\"y\"\n11;EMPTY\n"
          "12;\"x\\\"\"y, \\ z\"\n");
    check(MT_FILE_CSV, "i INT, x STRING", (struct mt_file_settings){.bare_quotes = true},
          ROWS("{\"i\":1,\"x\":\"x\\\"y\"}", "{\"i\":2,\"x\":\"\\\"\"}"), "1,x\"y\n2,\"\\\"\"\n");
    check(MT_FILE_CSV, "i INT, x STRING",
          (struct mt_file_settings){.keep_blanks_before = true, .keep_blanks_behind = true},
          ROWS("{\"i\":1,\"x\":\"  a \"}", "{\"i\":2,\"x\":\" \"}"), "1,  a \n2, \n");
    check(MT_FILE_CSV, "i INT, x STRING", (struct mt_file_settings){.sep = "||", .line_sep = "|"},
          ROWS("{\"i\":1,\"x\":\"a|b\"}", "{\"i\":2,\"x\":\"c\"}"), "1||\"a|b\"|2||c|");
    check(MT_FILE_CSV, "x STRING", (struct mt_file_settings){0},
          ROWS("{\"x\":\"#hash\"}", "{}", "{\"x\":\"a#\"}"), "\"#hash\"\n\na#\n");
    check(MT_FILE_CSV, "y BINARY, n INT, d DOUBLE", (struct mt_file_settings){.sep = "."},
          ROWS("{\"y\":\"AP9B\",\"n\":-1,\"d\":0.5}"), "[00 FF 41].-1.\"0.5\"\n");
}

/* ---- text */

static void text_is_a_line_a_row(void **state)
{
    (void)state;
    check(MT_FILE_TEXT, "x STRING", (struct mt_file_settings){.line_sep = "|"},
          ROWS("{\"x\":\" a,\\\"b\"}", "{}", "{\"x\":\"\"}"), " a,\"b|||");
}

/* ---- numbers */

static void doubles_have_the_shortest_digits_in_javas_form(void **state)
{
    (void)state;
    struct ArrowSchema schema;
    struct mt_column root;
    struct ArrowArray rows;
    struct mt_buf expected = {0};
    uint64_t random = 88172645463325252u;
    assert_int_equal(mt_schema_parse("d DOUBLE, f FLOAT", &schema, &err), MT_OK);
    mt_column_init(&root, &schema);
    for (int i = 0; i < 20000; i++) {
        double d;
        char text[48];
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        if (i % 2)
            d = (double)(int64_t)(random % 2000000007) / pow(10, (double)(random % 19)) - 7;
        else
            memcpy(&d, &random, sizeof d);
        float f = (float)d;
        assert_int_equal(mt_column_add_double(&root.children[0], d, &err), MT_OK);
        assert_int_equal(mt_column_add_double(&root.children[1], (double)f, &err), MT_OK);
        assert_int_equal(mt_column_close_row(&root, &err), MT_OK);
        mt_double_print(d, text);
        mt_buf_addf(&expected, "%s,", text);
        mt_float_print(f, text);
        mt_buf_addf(&expected, "%s\n", text);
    }
    mt_column_finish(&root, &rows);
    mt_column_deinit(&root);
    char *text = write_rows(MT_FILE_CSV, &schema, &(struct mt_file_settings){0}, &rows);
    char *mine = text, *theirs = expected.data;
    for (char *a, *b; (a = strsep(&mine, "\n")) && (b = strsep(&theirs, "\n"));)
        assert_string_equal(a, b);
    free(text);
    mt_buf_free(&expected);
    rows.release(&rows);
    mt_schema_release(&schema);
}

/* ---- what goes wrong */

static void bytes_that_are_no_text_are_refused_by_column(void **state)
{
    (void)state;
    const enum mt_file_format formats[] = {MT_FILE_JSON, MT_FILE_CSV};
    for (int i = 0; i < 2; i++) {
        struct ArrowSchema schema;
        struct mt_column root;
        struct ArrowArray rows;
        struct mt_file_writer *writer;
        struct mt_buf out = {0};
        assert_int_equal(mt_schema_parse("odd STRING", &schema, &err), MT_OK);
        mt_column_init(&root, &schema);
        assert_int_equal(mt_column_add_bytes(&root.children[0], "a\xff", 2, &err), MT_OK);
        assert_int_equal(mt_column_close_row(&root, &err), MT_OK);
        mt_column_finish(&root, &rows);
        mt_column_deinit(&root);
        struct mt_file_settings settings = {.compression = "none"};
        assert_int_equal(
            mt_file_writer_new(formats[i], &schema, &settings, keep, &out, &writer, &err), MT_OK);
        assert_int_equal(mt_file_write(writer, &rows, &err), MT_REJECT);
        assert_non_null(strstr(err.text, "column \"odd\": \"a\\xFF\" is not UTF-8"));
        mt_file_discard(writer);
        mt_buf_free(&out);
        rows.release(&rows);
        mt_schema_release(&schema);
    }
}

static void a_full_disk_is_told_from_other_errors(void **state)
{
    (void)state;
    const enum mt_file_format formats[] = {MT_FILE_ORC, MT_FILE_JSON, MT_FILE_CSV, MT_FILE_TEXT};
    const char *const codecs[] = {"none", "zstd"};
    struct ArrowSchema schema;
    struct ArrowArray rows;
    assert_int_equal(mt_schema_parse("a STRING", &schema, &err), MT_OK);
    read_rows(&schema, ROWS("{\"a\":\"b\"}"), 1, &rows);
    for (int i = 0; i < 8; i++) {
        struct mt_file_settings settings = {.compression = (char *)codecs[i % 2]};
        struct mt_file_writer *writer;
        int64_t counted;
        int error = ENOSPC;
        assert_int_equal(
            mt_file_writer_new(formats[i / 2], &schema, &settings, refuse, &error, &writer, &err),
            MT_OK);
        enum mt_status status = mt_file_write(writer, &rows, &err);
        if (status == MT_OK)
            status = mt_file_finish(writer, &counted, &err);
        else
            mt_file_discard(writer);
        assert_int_equal(status, MT_FATAL);
        assert_int_equal(err.class_, MT_CLASS_MACHINE);
        assert_non_null(strstr(err.text, "disk full"));
    }
    rows.release(&rows);
    mt_schema_release(&schema);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_has_sparks_form),
        cmocka_unit_test(json_writes_null_fields_when_asked),
        cmocka_unit_test(json_keys_are_text_whatever_their_type),
        cmocka_unit_test(times_keep_microseconds_and_the_zone_of_the_session),
        cmocka_unit_test(patterns_are_followed),
        cmocka_unit_test(csv_has_sparks_form),
        cmocka_unit_test(csv_follows_its_options_as_spark_does),
        cmocka_unit_test(text_is_a_line_a_row),
        cmocka_unit_test(doubles_have_the_shortest_digits_in_javas_form),
        cmocka_unit_test(bytes_that_are_no_text_are_refused_by_column),
        cmocka_unit_test(a_full_disk_is_told_from_other_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
