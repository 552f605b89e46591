/* SPDX-License-Identifier: Apache-2.0
 *
 * sink_test.c - how a sink is declared, and the sinks without a memory: what they
 * print and keep. Tables in the form of Spark's show() are copied from Spark 4.2. */
#include <pthread.h>

#include "support.h"

#include "sink/sink_int.h"

/* ---- declarations */

static void assert_refused(const struct setup *setup, const char *ddl, const char *words,
                           const char *option)
{
    struct ArrowSchema schema;
    struct mt_sink *sink = NULL;
    struct mt_error err = {0};
    schema_of(ddl, &schema);
    assert_int_not_equal(make_sink(setup, &schema, &sink, &err), MT_OK);
    if (!strstr(err.text, words) || err.class_ != MT_CLASS_JOB)
        fail_msg("\"%s\" is not in \"%s\" (class %d)", words, err.text, err.class_);
    assert_string_equal(err.option, option);
    assert_null(sink);
    mt_schema_release(&schema);
}

static void a_format_is_known_suggested_or_not_here_yet(void **state)
{
    (void)state;
    assert_refused(&(struct setup){.format = "parkuet"}, "a INT", "did you mean \"parquet\"?", "");
    assert_refused(&(struct setup){.format = "foreach"}, "a INT", "known in Spark, not here yet", "");
    assert_refused(&(struct setup){.format = "avro"}, "a INT", "use parquet", "");
    assert_refused(&(struct setup){.format = "xyzzy"}, "a INT",
                   "there are: parquet, orc, json, csv, text", "");
    assert_ptr_equal(mt_sink_type_of("PARQUET"), mt_sink_type_of("parquet"));
    assert_ptr_equal(mt_sink_type_of("jdbc"), mt_sink_type_of("odbc"));
    assert_null(mt_sink_type_of("foreach"));
}

static void mistakes_in_options_name_the_option(void **state)
{
    (void)state;
    assert_refused(&(struct setup){.format = "noop", .options = {"numRows", "1"}}, "a INT",
                   "unknown option", "numRows");
    assert_refused(&(struct setup){.format = "console", .options = {"numrow", "1"}}, "a INT",
                   "did you mean \"numRows\"?", "numrow");
    assert_refused(&(struct setup){.format = "console", .options = {"numRows", "-1"}}, "a INT",
                   "0 or more", "numRows");
    assert_refused(&(struct setup){.format = "console", .options = {"truncate", "12x"}}, "a INT",
                   "true, false or a number", "truncate");
    assert_refused(
        &(struct setup){.format = "parquet", .path = "/x", .options = {"compression", "brotli"}},
        "a INT", "snappy", "compression");
    assert_refused(
        &(struct setup){.format = "parquet", .path = "/x", .options = {"MergeSchema", "true"}},
        "a INT", "known in Spark, not here yet", "MergeSchema");
}

static void names_that_differ_by_case_alone_are_refused_by_a_table(void **state)
{
    (void)state;
    struct setup setup = {.format = "parquet", .path = "/x"};
    assert_refused(&setup, "id INT, n INT, ID STRING",
                   "two columns are named \"id\" and \"ID\": readers take them for one; choose "
                   "another name or rename the existing column",
                   "");
    assert_refused(&setup, "id INT, s STRUCT<l: ARRAY<STRUCT<a: INT, A: INT>>>",
                   "two fields in column \"s\" are named \"a\" and \"A\"", "");
}

static void a_nested_column_makes_no_folders(void **state)
{
    (void)state;
    struct setup setup = {.format = "parquet", .path = "/x", .partition_by = {"s"}};
    assert_refused(&setup, "id INT, s STRUCT<a: INT>",
                   "partitionBy: column \"s\" is STRUCT<a: INT>: a nested value makes no folder",
                   "");
}

static void each_format_of_files_refuses_what_it_cannot_hold(void **state)
{
    (void)state;
    assert_refused(&(struct setup){.format = "text", .path = "/x"}, "a INT", "\"a\" is INT", "");
    assert_refused(&(struct setup){.format = "text", .path = "/x"}, "a STRING, b STRING",
                   "one STRING column, there are a, b", "");
    assert_refused(&(struct setup){.format = "csv", .path = "/x"}, "a STRING, n ARRAY<INT>",
                   "column \"n\" of type ARRAY<INT>", "");
    assert_refused(&(struct setup){.format = "json", .path = "/x"}, "m MAP<ARRAY<INT>, INT>",
                   "column \"m\"", "");
    assert_refused(
        &(struct setup){.format = "json", .path = "/x", .options = {"compression", "snappy"}},
        "a INT", "none|uncompressed|gzip|zstd|bzip2|deflate", "compression");
    assert_refused(&(struct setup){.format = "csv", .path = "/x", .options = {"quote", "''"}},
                   "a INT", "one character", "");
    assert_refused(&(struct setup){.format = "csv",
                                   .path = "/x",
                                   .options = {"timestampFormat", "yyyy-mm-bb"}},
                   "a INT", "timestampFormat", "");
    assert_refused(&(struct setup){.format = "csv", .path = "/x", .options = {"delimiter", ";"}},
                   "a INT", "known in Spark", "delimiter");
}

static void a_path_is_needed_once_and_where_it_means_something(void **state)
{
    (void)state;
    assert_refused(&(struct setup){.format = "parquet"}, "a INT", "needs a path", "path");
    assert_refused(&(struct setup){.format = "parquet", .path = "/x", .options = {"path", "/y"}},
                   "a INT", "two paths", "path");
    assert_refused(&(struct setup){.format = "console", .path = "/x"}, "a INT", "no path", "path");
    assert_refused(&(struct setup){.format = "parquet", .path = "s3://bucket/x"}, "a INT",
                   "s3:// is not here yet", "path");
    assert_refused(&(struct setup){.format = "parquet", .path = "file://host/x"}, "a INT",
                   "another host", "path");
    assert_refused(&(struct setup){.format = "parquet", .path = ""}, "a INT", "empty", "path");
    assert_refused(&(struct setup){.format = "parquet", .path = "/tmp/\xff"}, "a INT", "UTF-8",
                   "path");
}

static void rows_without_columns_and_senseless_partitions_are_refused(void **state)
{
    (void)state;
    struct ArrowSchema none = {.format = "+s", .name = ""};
    struct mt_sink *sink = NULL;
    struct mt_error err = {0};
    struct setup setup = {.format = "noop"};
    assert_int_equal(make_sink(&setup, &none, &sink, &err), MT_REJECT);
    assert_non_null(strstr(err.text, "without a column"));
    assert_refused(&(struct setup){.format = "console", .partition_by = {"a"}}, "a INT, b INT",
                   "means nothing to console", "");
    assert_refused(&(struct setup){.format = "parquet", .path = "/x", .partition_by = {"a", "A"}},
                   "a INT, b INT", "twice", "");
    assert_refused(&(struct setup){.format = "memory"}, "a INT", ":queryName", "");
}

static void identities_are_the_name_or_format_and_place(void **state)
{
    (void)state;
    struct ArrowSchema schema;
    schema_of("a INT", &schema);
    struct setup named = {.format = "parquet", .path = "/tmp/x/y", .name = "lake"};
    struct mt_sink *sink = need_sink(&named, &schema);
    assert_string_equal(mt_sink_identity(sink), "lake");
    assert_string_equal(sink->marker_identity, "lake");
    assert_true(mt_sink_is_exactly_once(sink) && mt_sink_needs_checkpoint(sink));
    mt_sink_free(sink);
    struct setup plain = {.format = "Parquet", .options = {"path", "/tmp/x/y"}};
    sink = need_sink(&plain, &schema);
    assert_string_equal(mt_sink_identity(sink), "parquet /tmp/x/y");
    assert_string_equal(sink->marker_identity, "parquet#1"); /* a moved table knows its batches */
    char *about = mt_sink_describe(sink, NULL);
    assert_string_equal(about, "{\"description\":\"FileSink[/tmp/x/y]\",\"guarantee\":\"exactly "
                               "once\",\"marker\":null}");
    mt_free(about);
    mt_sink_free(sink);
    struct setup noop = {.format = "noop"};
    sink = need_sink(&noop, &schema);
    assert_string_equal(mt_sink_identity(sink), "noop");
    assert_false(mt_sink_is_exactly_once(sink) || mt_sink_needs_checkpoint(sink));
    mt_sink_free(sink);
    mt_schema_release(&schema);
}

/* ---- console */

#define SHOWN_DDL                                                                                  \
    "id INT, name STRING, amount DOUBLE, ts TIMESTAMP, bin BINARY, arr ARRAY<INT>, "               \
    "st STRUCT<a: INT, b: STRING>"

static void add(enum mt_status status)
{
    assert_int_equal(status, MT_OK);
}

/* A text or, for NULL, null. */
static void add_text(struct mt_column *column, const char *text)
{
    struct mt_error err;
    add(text ? mt_column_add_bytes(column, text, (int64_t)strlen(text), &err)
             : mt_column_add_null(column, &err));
}

static void add_row(struct mt_column *c, int64_t id, const char *name, const char *bin)
{
    struct mt_error err;
    add(mt_column_add_int(&c[0], id, &err));
    add_text(&c[1], name);
    add(id == 1 ? mt_column_add_null(&c[2], &err)
                : mt_column_add_double(&c[2], id == 3 ? 0.1 : 1e10, &err));
    add(id == 3 ? mt_column_add_null(&c[3], &err)
                : mt_column_add_int(&c[3], id == 1 ? 1795946400500000 : -1, &err));
    add_text(&c[4], bin);
    if (id == 1) {
        add(mt_column_add_int(&c[5].children[0], 1, &err));
        add(mt_column_add_null(&c[5].children[0], &err));
    }
    add(id == 20000 ? mt_column_add_null(&c[5], &err) : mt_column_close_row(&c[5], &err));
    if (id == 20000) {
        add(mt_column_add_null(&c[6], &err));
        return;
    }
    add(id == 1 ? mt_column_add_int(&c[6].children[0], 1, &err)
                : mt_column_add_null(&c[6].children[0], &err));
    add_text(&c[6].children[1], id == 1 ? "x" : "");
    add(mt_column_close_row(&c[6], &err));
}

static struct mt_batch shown_rows(const struct ArrowSchema *schema)
{
    struct mt_column c[7];
    struct ArrowArray arrays[7];
    for (int i = 0; i < 7; i++)
        mt_column_init(&c[i], schema->children[i]);
    add_row(c, 1, "abc", "abc");
    add_row(c, 20000, "a long text that is more than twenty", NULL);
    add_row(c, 3, "日本語のテキスト　ＡＢＣＤＥＦＧＨＩＪＫＬ", "x");
    for (int i = 0; i < 7; i++)
        finish_column(&c[i], &arrays[i]);
    struct mt_batch batch = {.schema = schema};
    mt_array_struct(arrays, 7, 3, &batch.array);
    return batch;
}

/* What a batch of `rows` (NULL: none) prints. */
static char *printed(const char *num_rows, const char *truncate, const struct ArrowSchema *schema,
                     const struct mt_batch *rows)
{
    char *root = new_folder(), *file = mt_format("%s/out", root);
    struct setup setup = {.format = "console",
                          .options = {"numRows", num_rows, "truncate", truncate}};
    struct mt_sink *sink = need_sink(&setup, schema);
    struct mt_error err = {0};
    enum mt_sink_answer answer;
    need_recover(sink, QUERY);
    fflush(stdout);
    int saved = dup(STDOUT_FILENO), fd = open(file, O_WRONLY | O_CREAT, 0600);
    dup2(fd, STDOUT_FILENO);
    enum mt_status status = store_rows(sink, QUERY, 5, rows, &answer, &err);
    dup2(saved, STDOUT_FILENO);
    close(saved);
    close(fd);
    assert_int_equal(status, MT_OK);
    mt_sink_free(sink);
    char *text = read_file(file);
    free(file);
    drop_folder(root);
    return text;
}

static void assert_printed(const char *num_rows, const char *truncate, bool rows,
                           const char *expected)
{
    struct ArrowSchema schema;
    schema_of(SHOWN_DDL, &schema);
    struct mt_batch batch = shown_rows(&schema);
    char *text = printed(num_rows, truncate, &schema, rows ? &batch : NULL);
    char *all = mt_format("-------------------------------------------\nBatch: 5\n"
                          "-------------------------------------------\n%s",
                          expected);
    assert_string_equal(text, all);
    free(text);
    free(all);
    mt_batch_release(&batch);
    mt_schema_release(&schema);
}

static void the_console_prints_sparks_table(void **state)
{
    (void)state;
    assert_printed("20", "true", true,
                   "+-----+-------------------------------------+------+--------------------+------"
                   "----+---------+--------+\n"
                   "|   id|                                 name|amount|                  ts|      "
                   " bin|      arr|      st|\n"
                   "+-----+-------------------------------------+------+--------------------+------"
                   "----+---------+--------+\n"
                   "|    1|                                  abc|  NULL|2026-11-29 10:00:...|[61 "
                   "62 63]|[1, NULL]|  {1, x}|\n"
                   "|20000|                 a long text that ...|1.0E10|1969-12-31 23:59:...|      "
                   "NULL|     NULL|    NULL|\n"
                   "|    3|日本語のテキスト　ＡＢＣＤＥＦＧＨ...|   0.1|                NULL|      "
                   "[78]|       []|{NULL, }|\n"
                   "+-----+-------------------------------------+------+--------------------+------"
                   "----+---------+--------+\n"
                   "\n");
}

static void without_truncation_cells_are_whole_and_on_the_left(void **state)
{
    (void)state;
    assert_printed("3", "false", true,
                   "+-----+------------------------------------------+------+----------------------"
                   "----+----------+---------+--------+\n"
                   "|id   |name                                      |amount|ts                    "
                   "    |bin       |arr      |st      |\n"
                   "+-----+------------------------------------------+------+----------------------"
                   "----+----------+---------+--------+\n"
                   "|1    |abc                                       |NULL  |2026-11-29 10:00:00.5 "
                   "    |[61 62 63]|[1, NULL]|{1, x}  |\n"
                   "|20000|a long text that is more than twenty      |1.0E10|1969-12-31 "
                   "23:59:59.999999|NULL      |NULL     |NULL    |\n"
                   "|3    |日本語のテキスト　ＡＢＣＤＥＦＧＨＩＪＫＬ|0.1   |NULL                  "
                   "    |[78]      |[]       |{NULL, }|\n"
                   "+-----+------------------------------------------+------+----------------------"
                   "----+----------+---------+--------+\n"
                   "\n");
}

static void rows_past_the_limit_are_said_to_be_there(void **state)
{
    (void)state;
    assert_printed("2", "3", true,
                   "+---+----+------+---+---+---+---+\n"
                   "| id|name|amount| ts|bin|arr| st|\n"
                   "+---+----+------+---+---+---+---+\n"
                   "|  1| abc|   NUL|202|[61|[1,|{1,|\n"
                   "|200| a l|   1.0|196|NUL|NUL|NUL|\n"
                   "+---+----+------+---+---+---+---+\n"
                   "only showing top 2 rows\n");
    assert_printed("1", "7", true,
                   "+---+----+------+-------+-------+-------+------+\n"
                   "| id|name|amount|     ts|    bin|    arr|    st|\n"
                   "+---+----+------+-------+-------+-------+------+\n"
                   "|  1| abc|  NULL|2026...|[61 ...|[1, ...|{1, x}|\n"
                   "+---+----+------+-------+-------+-------+------+\n"
                   "only showing top 1 row\n");
}

static void an_empty_batch_prints_the_head_alone(void **state)
{
    (void)state;
    assert_printed("20", "true", false,
                   "+---+----+------+---+---+---+---+\n"
                   "| id|name|amount| ts|bin|arr| st|\n"
                   "+---+----+------+---+---+---+---+\n"
                   "+---+----+------+---+---+---+---+\n"
                   "\n");
}

static void what_would_steer_the_terminal_is_shown_as_text(void **state)
{
    (void)state;
    struct ArrowSchema schema;
    struct mt_column column;
    struct ArrowArray array;
    schema_of("s STRING", &schema);
    mt_column_init(&column, schema.children[0]);
    add_text(&column, "tab\tnew\nline\\");
    add_text(&column, "\x1b[31m");
    add_text(&column, "😀😀😀😀😀😀😀😀😀😀😀"); /* 22 UTF-16 units; none is cut in two */
    finish_column(&column, &array);
    struct mt_batch rows = {.schema = &schema};
    mt_array_struct(&array, 1, 3, &rows.array);
    char *text = printed("20", "true", &schema, &rows);
    assert_non_null(strstr(text, "|    tab\\tnew\\nline\\|\n"));
    assert_non_null(strstr(text, "|           \\x1B[31m|\n"));
    assert_non_null(strstr(text, "|😀😀😀😀😀😀😀😀...|\n"));
    free(text);
    mt_batch_release(&rows);
    mt_schema_release(&schema);
}

static void take_text(void *ctx, const char *text)
{
    mt_buf_adds(ctx, text);
}

static void a_host_takes_what_the_console_prints(void **state)
{
    (void)state;
    struct ArrowSchema schema;
    schema_of(ROWS_DDL, &schema);
    struct setup setup = {.format = "console"};
    struct mt_sink *sink = need_sink(&setup, &schema);
    struct mt_batch rows = make_rows(&schema, 0, 3);
    struct mt_buf text = {0};
    struct mt_error err = {0};
    enum mt_sink_answer answer;
    sink->print = take_text;
    sink->print_ctx = &text;
    assert_int_equal(store_rows(sink, QUERY, 7, &rows, &answer, &err), MT_OK);
    assert_non_null(strstr(text.data, "\nBatch: 7\n"));
    assert_int_equal(text.data[text.len - 1], '\n');
    mt_buf_free(&text);
    mt_batch_release(&rows);
    mt_sink_free(sink);
    mt_schema_release(&schema);
}

static void a_console_that_cannot_print_says_so(void **state)
{
    (void)state;
    struct ArrowSchema schema;
    schema_of(ROWS_DDL, &schema);
    struct setup setup = {.format = "console"};
    struct mt_sink *sink = need_sink(&setup, &schema);
    struct mt_batch rows = make_rows(&schema, 0, 3);
    struct mt_error err = {0};
    enum mt_sink_answer answer;
    fflush(stdout);
    int saved = dup(STDOUT_FILENO), fd = open("/dev/full", O_WRONLY);
    dup2(fd, STDOUT_FILENO);
    enum mt_status status = store_rows(sink, QUERY, 0, &rows, &answer, &err);
    dup2(saved, STDOUT_FILENO);
    close(saved);
    close(fd);
    clearerr(stdout);
    assert_int_equal(status, MT_FATAL);
    assert_int_equal(err.class_, MT_CLASS_MACHINE);
    assert_non_null(strstr(err.text, "standard output"));
    mt_batch_release(&rows);
    mt_sink_free(sink);
    mt_schema_release(&schema);
}

/* ---- memory */

static void memory_keeps_every_type_and_ignores_a_repeated_batch(void **state)
{
    (void)state;
    struct ArrowSchema schema;
    struct mt_error err = {0};
    enum mt_sink_answer answer;
    schema_of(SHOWN_DDL ", b BOOLEAN, f FLOAT, s SMALLINT, t TINYINT, l BIGINT, d DATE, "
                        "c DECIMAL(38,2)",
              &schema);
    struct mt_column c[14];
    struct ArrowArray arrays[14];
    for (int i = 0; i < 14; i++)
        mt_column_init(&c[i], schema.children[i]);
    add_row(c, 1, "abc", "abc");
    add_row(c, 20000, NULL, NULL);
    for (int i = 7; i < 13; i++)
        add(i == 8 ? mt_column_add_double(&c[i], 0.5, &err) : mt_column_add_int(&c[i], 1, &err));
    add(mt_column_add_decimal(&c[13], (uint64_t[]){7, 0}, &err));
    for (int i = 7; i < 14; i++)
        add(mt_column_add_null(&c[i], &err));
    for (int i = 0; i < 14; i++)
        finish_column(&c[i], &arrays[i]);
    struct mt_batch rows = {.schema = &schema}, held = {0};
    mt_array_struct(arrays, 14, 2, &rows.array);
    struct setup setup = {.format = "memory", .query_name = "kept"};
    struct mt_sink *sink = need_sink(&setup, &schema);
    assert_false(mt_memory_table("kept", &held)); /* there is none before the query starts */
    need_recover(sink, QUERY);
    for (int i = 0; i < 4; i++) /* batches 0, 0, 2, 2 */
        assert_int_equal(store_rows(sink, QUERY, i & 2, &rows, &answer, &err), MT_OK);
    assert_true(mt_memory_table("kept", &held));
    mt_sink_free(sink); /* the table stays, and so does a view of it */
    assert_int_equal(held.array.length, 4);
    struct mt_batch twice = {0};
    int32_t order[] = {0, 1, 0, 1};
    assert_int_equal(mt_batch_gather(&rows, order, 4, &twice, &err), MT_OK);
    assert_true(mt_batch_fingerprint(&held) == mt_batch_fingerprint(&twice));
    mt_memory_table_drop("kept");
    assert_int_equal(((const int32_t *)held.array.children[0]->buffers[1])[1], 20000);
    mt_batch_release(&held);
    mt_batch_release(&twice);
    mt_batch_release(&rows);
    assert_false(mt_memory_table("kept", &held));
    mt_schema_release(&schema);
}

static const char nested_ddl[] =
    "id BIGINT, kind STRING, a ARRAY<INT>, m MAP<STRING, ARRAY<STRING>>, "
    "s STRUCT<x: STRUCT<y: BOOLEAN, z: DECIMAL(9,2)>, l: ARRAY<STRUCT<t: TIMESTAMP>>>";

static void memory_keeps_nested_values_of_several_batches(void **state)
{
    (void)state;
    struct ArrowSchema schema;
    struct mt_error err = {0};
    enum mt_sink_answer answer;
    schema_of(nested_ddl, &schema);
    struct mt_batch rows = make_any_rows(&schema, 30), held = {0};
    struct setup setup = {.format = "memory", .query_name = "nested"};
    struct mt_sink *sink = need_sink(&setup, &schema);
    need_recover(sink, QUERY);
    rows.array.offset = 7; /* cut, as a batch may be */
    rows.array.length = 20;
    for (int i = 0; i < 3; i++)
        assert_int_equal(store_rows(sink, QUERY, i, &rows, &answer, &err), MT_OK);
    assert_true(mt_memory_table("nested", &held));
    assert_int_equal(held.array.length, 60);
    for (int64_t row = 0; row < 60; row++) {
        struct mt_buf is = {0}, expected = {0};
        mt_value_print(&schema, &held.array, row, &is);
        mt_value_print(&schema, &rows.array, row % 20, &expected);
        assert_string_equal(is.data, expected.data);
        mt_buf_free(&is);
        mt_buf_free(&expected);
    }
    mt_batch_release(&held);
    mt_sink_free(sink);
    mt_memory_table_drop("nested");
    mt_batch_release(&rows);
    mt_schema_release(&schema);
}

static void a_new_start_of_a_memory_query_begins_empty(void **state)
{
    (void)state;
    struct ArrowSchema schema;
    schema_of(ROWS_DDL, &schema);
    struct setup setup = {.format = "memory", .query_name = "again"};
    struct mt_sink *sink = need_sink(&setup, &schema);
    struct mt_batch held = {0};
    need_recover(sink, QUERY);
    store_ids(sink, QUERY, 0, 0, 3);
    mt_sink_free(sink);
    sink = need_sink(&setup, &schema);
    need_recover(sink, QUERY);
    assert_true(mt_memory_table("again", &held));
    assert_int_equal(held.array.length, 0);
    mt_batch_release(&held);
    store_ids(sink, QUERY, 0, 0, 2);
    assert_true(mt_memory_table("again", &held));
    assert_int_equal(held.array.length, 2);
    mt_batch_release(&held);
    mt_sink_free(sink);
    mt_memory_table_drop("again");
    mt_schema_release(&schema);
}

static void *look_often(void *unused)
{
    int64_t last = 0;
    (void)unused;
    while (last < 200) {
        struct mt_batch held = {0};
        if (!mt_memory_table("busy", &held) || held.array.length < last)
            return "rows went away";
        last = held.array.length;
        mt_batch_release(&held);
    }
    return NULL;
}

static void a_memory_table_is_read_while_it_is_written(void **state)
{
    (void)state;
    struct ArrowSchema schema;
    schema_of(ROWS_DDL, &schema);
    struct setup setup = {.format = "memory", .query_name = "busy"};
    struct mt_sink *sink = need_sink(&setup, &schema);
    need_recover(sink, QUERY);
    pthread_t reader;
    void *words = NULL;
    assert_int_equal(pthread_create(&reader, NULL, look_often, NULL), 0);
    for (int64_t id = 0; id < 100; id++)
        store_ids(sink, QUERY, id, id * 2, 2);
    pthread_join(reader, &words);
    if (words)
        fail_msg("%s", (char *)words);
    mt_sink_free(sink);
    mt_memory_table_drop("busy");
    mt_schema_release(&schema);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_format_is_known_suggested_or_not_here_yet),
        cmocka_unit_test(mistakes_in_options_name_the_option),
        cmocka_unit_test(names_that_differ_by_case_alone_are_refused_by_a_table),
        cmocka_unit_test(a_nested_column_makes_no_folders),
        cmocka_unit_test(each_format_of_files_refuses_what_it_cannot_hold),
        cmocka_unit_test(a_path_is_needed_once_and_where_it_means_something),
        cmocka_unit_test(rows_without_columns_and_senseless_partitions_are_refused),
        cmocka_unit_test(identities_are_the_name_or_format_and_place),
        cmocka_unit_test(the_console_prints_sparks_table),
        cmocka_unit_test(without_truncation_cells_are_whole_and_on_the_left),
        cmocka_unit_test(rows_past_the_limit_are_said_to_be_there),
        cmocka_unit_test(an_empty_batch_prints_the_head_alone),
        cmocka_unit_test(what_would_steer_the_terminal_is_shown_as_text),
        cmocka_unit_test(a_console_that_cannot_print_says_so),
        cmocka_unit_test(a_host_takes_what_the_console_prints),
        cmocka_unit_test(memory_keeps_every_type_and_ignores_a_repeated_batch),
        cmocka_unit_test(memory_keeps_nested_values_of_several_batches),
        cmocka_unit_test(a_new_start_of_a_memory_query_begins_empty),
        cmocka_unit_test(a_memory_table_is_read_while_it_is_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
