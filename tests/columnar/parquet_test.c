/* SPDX-License-Identifier: Apache-2.0
 *
 * parquet_test.c - what is written is read back, here and by pyarrow and DuckDB; a write
 * that fails at any byte is an error and no more. */
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "batch/sample.h"
#include "columnar/columnar.h"

static const char every_type[] =
    "a BOOLEAN, b TINYINT, c SMALLINT, d INT, e BIGINT, f FLOAT, g DOUBLE, h DECIMAL(5,1), "
    "i DECIMAL(18,2), j DECIMAL(38,18), k STRING, l BINARY, m DATE, n TIMESTAMP, o ARRAY<STRING>, "
    "p STRUCT<x: INT, y: DECIMAL(9,3)>, q MAP<STRING, ARRAY<INT>>";

/* ---- a file in memory */

struct sink {
    struct mt_buf bytes;
    size_t room; /* the write that would pass it fails ... */
    int error;   /* ... with this errno */
    int failures;
};

static int sink_write(void *ctx, const void *bytes, size_t len)
{
    struct sink *sink = ctx;
    if (sink->bytes.len + len > sink->room) {
        sink->failures++;
        return sink->error;
    }
    mt_buf_add(&sink->bytes, bytes, len);
    return 0;
}

static struct mt_file_writer *writer_of(const struct ArrowSchema *schema, int64_t group_rows,
                                           struct sink *sink)
{
    struct mt_pairs metadata = {0};
    struct mt_file_settings settings = {"snappy", &metadata, group_rows};
    struct mt_file_writer *writer;
    mt_pairs_add(&metadata, "moontide.batch", "17");
    mt_pairs_add(&metadata, "moontide.query", "paid \"orders\"");
    if (mt_file_writer_new(MT_FILE_PARQUET, schema, &settings, sink_write, sink, &writer, &err) != MT_OK)
        fail_msg("%s", err.text);
    mt_pairs_free(&metadata);
    return writer;
}

static void write_all(struct mt_file_writer *writer, const struct mt_batch *batch)
{
    if (mt_file_write(writer, &batch->array, &err) != MT_OK)
        fail_msg("%s", err.text);
}

static int64_t finish(struct mt_file_writer *writer)
{
    int64_t rows;
    if (mt_file_finish(writer, &rows, &err) != MT_OK)
        fail_msg("%s", err.text);
    return rows;
}

/* The bytes as a file that the caller removes and frees. */
static char *file_of(const struct sink *sink)
{
    char *path = mt_strdup("/tmp/moontide-parquet-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, sink->bytes.data, sink->bytes.len), (ssize_t)sink->bytes.len);
    close(fd);
    return path;
}

static void drop_file(char *path)
{
    unlink(path);
    free(path);
}

/* ---- rows */

static void add_value(struct mt_column *column, int64_t i);

static void add_some(struct mt_column *column, int64_t i)
{
    for (int64_t n = 0; n < column->n_children; n++)
        add_value(&column->children[n], i + n);
}

static void add_map_entries(struct mt_column *entries, int64_t i)
{
    for (int64_t n = 0; n < i % 3; n++) {
        char key[24];
        int len = snprintf(key, sizeof key, "key %d", (int)n);
        assert_int_equal(mt_column_add_bytes(&entries->children[0], key, len, &err), MT_OK);
        add_value(&entries->children[1], i + n);
        assert_int_equal(mt_column_close_row(entries, &err), MT_OK);
    }
}

static void add_decimal(struct mt_column *column, int64_t i)
{
    char text[64];
    uint64_t value[2];
    int len = snprintf(text, sizeof text, "%s%.*s.%.*s", i % 2 ? "-" : "",
                       (int)(column->precision - column->scale), "99999999999999999999",
                       (int)column->scale, "999999999999999999");
    assert_int_equal(mt_decimal_parse(text, len, column->precision, column->scale, value), 0);
    assert_int_equal(mt_column_add_decimal(column, value, &err), MT_OK);
}

static void add_nested(struct mt_column *column, int64_t i)
{
    if (column->type == MT_STRUCT)
        add_some(column, i);
    else if (column->type == MT_MAP)
        add_map_entries(&column->children[0], i);
    else
        for (int64_t n = 0; n < i % 4; n++)
            add_value(&column->children[0], i + n);
    assert_int_equal(mt_column_close_row(column, &err), MT_OK);
}

/* Null every fifth; else something that differs from row to row. */
static void add_value(struct mt_column *column, int64_t i)
{
    static const int64_t large[] = {[MT_TINYINT] = INT8_MIN,
                                    [MT_SMALLINT] = INT16_MIN,
                                    [MT_INT] = INT32_MIN,
                                    [MT_BIGINT] = INT64_MIN,
                                    [MT_DATE] = -719162,
                                    [MT_TIMESTAMP] = -62135596800000000,
                                    [MT_MAP] = 0};
    char text[24];
    if (i % 5 == 4) {
        assert_int_equal(mt_column_add_null(column, &err), MT_OK);
        return;
    }
    switch (column->type) {
    case MT_STRING:
    case MT_BINARY:
        assert_int_equal(
            mt_column_add_bytes(column, text, snprintf(text, sizeof text, "é%d", (int)i), &err),
            MT_OK);
        break;
    case MT_FLOAT:
    case MT_DOUBLE:
        assert_int_equal(mt_column_add_double(column, (double)i / 8 - 1, &err), MT_OK);
        break;
    case MT_DECIMAL:
        add_decimal(column, i);
        break;
    case MT_ARRAY:
    case MT_STRUCT:
    case MT_MAP:
        add_nested(column, i);
        break;
    default:
        assert_int_equal(mt_column_add_int(column, i % 3 ? i % 2 : large[column->type], &err),
                         MT_OK);
    }
}

static void make_batch(const struct ArrowSchema *schema, int64_t rows, struct mt_batch *batch)
{
    struct mt_column root;
    *batch = (struct mt_batch){.schema = schema};
    mt_column_init(&root, schema);
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t c = 0; c < root.n_children; c++)
            add_value(&root.children[c], i + c);
        assert_int_equal(mt_column_close_row(&root, &err), MT_OK);
    }
    mt_column_finish(&root, &batch->array);
    mt_column_deinit(&root);
}

/* Rows of the file are rows first... of the batch, given `times` over. */
static void check_file(const char *path, const struct mt_batch *batch, int64_t times)
{
    struct ArrowSchema schema;
    struct mt_batch read = {.schema = &schema};
    int64_t n = batch->array.length, total;
    if (mt_parquet_head(path, n * times + 1, &schema, &read.array, &total, &err) != MT_OK)
        fail_msg("%s", err.text);
    assert_int_equal(total, n * times);
    assert_int_equal(read.array.length, n * times);
    for (int64_t i = 0; i < n * times; i++)
        sample_same_row(batch, i % n, &read, i);
    mt_batch_release(&read);
    mt_schema_release(&schema);
}

/* ---- what is written is read */

static void all_types_with_nulls_come_back_as_they_were(void **state)
{
    (void)state;
    struct ArrowSchema schema;
    struct mt_batch batch;
    struct sink sink = {.room = SIZE_MAX};
    sample_schema(every_type, &schema);
    make_batch(&schema, 60, &batch);
    sample_cut(&batch, 3, 51);
    struct mt_file_writer *writer = writer_of(&schema, 20, &sink);
    write_all(writer, &batch);
    write_all(writer, &batch);
    assert_int_equal(finish(writer), 102);
    char *path = file_of(&sink);
    check_file(path, &batch, 2);
    drop_file(path);
    mt_buf_free(&sink.bytes);
    mt_batch_release(&batch);
    mt_schema_release(&schema);
}

static void head_reads_no_more_than_it_is_asked_for(void **state)
{
    (void)state;
    struct ArrowSchema schema, read;
    struct ArrowArray rows;
    struct mt_batch batch;
    struct sink sink = {.room = SIZE_MAX};
    int64_t total;
    sample_schema("a INT", &schema);
    make_batch(&schema, 50, &batch);
    struct mt_file_writer *writer = writer_of(&schema, 7, &sink);
    write_all(writer, &batch);
    finish(writer);
    char *path = file_of(&sink);
    for (int64_t limit = 0; limit < 12; limit++) {
        assert_int_equal(mt_parquet_head(path, limit, &read, &rows, &total, &err), MT_OK);
        assert_int_equal(rows.length, limit);
        assert_int_equal(total, 50);
        rows.release(&rows);
        mt_schema_release(&read);
    }
    drop_file(path);
    mt_buf_free(&sink.bytes);
    mt_batch_release(&batch);
    mt_schema_release(&schema);
}

static void a_file_without_rows_has_its_columns(void **state)
{
    (void)state;
    struct ArrowSchema schema;
    struct mt_batch batch;
    struct sink sink = {.room = SIZE_MAX};
    sample_schema(every_type, &schema);
    for (int writes = 0; writes < 2; writes++) {
        make_batch(&schema, 0, &batch);
        sink.bytes.len = 0;
        struct mt_file_writer *writer = writer_of(&schema, 0, &sink);
        if (writes)
            write_all(writer, &batch);
        assert_int_equal(finish(writer), 0);
        char *path = file_of(&sink);
        check_file(path, &batch, 1);
        drop_file(path);
        mt_batch_release(&batch);
    }
    mt_buf_free(&sink.bytes);
    mt_schema_release(&schema);
}

static void spark_s_own_file_is_shown_with_its_times_in_utc(void **state)
{
    (void)state;
    struct ArrowSchema schema;
    struct mt_batch read = {.schema = &schema};
    int64_t total;
    if (mt_parquet_head(MT_TEST_DATA "/spark-int96.parquet", 10, &schema, &read.array, &total,
                        &err) != MT_OK)
        fail_msg("%s", err.text);
    char *ddl = mt_schema_ddl(&schema), *row = sample_row(&read, 1);
    assert_string_equal(ddl, "topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, "
                             "user_id STRING, amount DOUBLE, ts TIMESTAMP, date DATE");
    assert_string_equal(row, "{orders_b, 1, 3, 2026-11-29 18:45:47.367, u000, 8.75, "
                             "2026-11-29 10:07:00, 2026-11-29}");
    assert_int_equal(total, 2);
    mt_free(ddl);
    free(row);
    mt_batch_release(&read);
    mt_schema_release(&schema);
}

/* ---- other readers */

/* Lets parquet_check.py look at the file; false where there is no Python for it. */
static bool check_elsewhere(const char *check, const char *path)
{
    const char *deps = getenv("MOONTIDE_DEPS");
    char *python = deps ? mt_format("%s/venv/bin/python", deps)
                        : mt_strdup(MT_TEST_DATA "/../../.deps/venv/bin/python");
    bool there = access(python, X_OK) == 0;
    char *command = mt_format("'%s' '" MT_TEST_DATA "/../columnar/parquet_check.py' %s '%s'",
                              python, check, path);
    if (there)
        assert_int_equal(system(command), 0);
    free(command);
    free(python);
    return there;
}

static void pyarrow_and_duckdb_read_every_type(void **state)
{
    (void)state;
    struct ArrowSchema schema;
    struct mt_batch batch;
    struct sink sink = {.room = SIZE_MAX};
    sample_schema(every_type, &schema);
    make_batch(&schema, 60, &batch);
    struct mt_file_writer *writer = writer_of(&schema, 25, &sink);
    write_all(writer, &batch);
    finish(writer);
    char *path = file_of(&sink);
    bool ran = check_elsewhere("types", path) && check_elsewhere("values", path);
    drop_file(path);
    mt_buf_free(&sink.bytes);
    mt_batch_release(&batch);
    mt_schema_release(&schema);
    if (!ran)
        skip();
}

/* Rows whose values are null, empty or there at every level; a field that is NOT NULL is
 * nullable in the file all the same. */
static const char nested_ddl[] =
    "a ARRAY<INT>, s STRUCT<x: INT NOT NULL, y: STRING>, m MAP<STRING, BIGINT>, aa "
    "ARRAY<ARRAY<STRING>>, deep ARRAY<STRUCT<k: MAP<STRING, STRUCT<l: ARRAY<DOUBLE>, n: "
    "BOOLEAN>>>>";
static const char *const nested_rows[] = {
    "{\"a\":[1,null,3],\"s\":{\"x\":1,\"y\":\"one\"},\"m\":{\"k\":1,\"l\":null},"
    "\"aa\":[[\"p\",null],[],null],\"deep\":[{\"k\":{\"u\":{\"l\":[0.5,null],\"n\":true},\"v\":"
    "null}},"
    "{\"k\":{}},{\"k\":null},null]}",
    "{\"a\":[],\"s\":{\"x\":2,\"y\":null},\"m\":{},\"aa\":[],\"deep\":[]}",
    "{\"a\":null,\"s\":null,\"m\":null,\"aa\":null,\"deep\":null}",
    "{\"a\":[null],\"s\":{\"x\":null,\"y\":null},\"m\":{\"\":0},\"aa\":[[]],\"deep\":[null,{\"k\":"
    "{\"w\":{\"l\":[],\"n\":null},\"z\":{\"l\":null,\"n\":false}}}]}",
};
enum { N_NESTED = sizeof nested_rows / sizeof *nested_rows };

/* The rows, `times` over, through the JSON reader. */
static void nested_batch(const struct ArrowSchema *schema, int times, struct mt_batch *batch)
{
    struct ArrowSchema in;
    struct mt_batch texts = {.schema = &in};
    struct mt_column root;
    struct mt_json_reader *reader;
    struct mt_json_result result;
    sample_schema("value STRING", &in);
    mt_column_init(&root, &in);
    for (int i = 0; i < N_NESTED * times; i++) {
        const char *text = nested_rows[i % N_NESTED];
        assert_int_equal(mt_column_add_bytes(&root.children[0], text, (int64_t)strlen(text), &err),
                         MT_OK);
        assert_int_equal(mt_column_close_row(&root, &err), MT_OK);
    }
    mt_column_finish(&root, &texts.array);
    mt_column_deinit(&root);
    assert_int_equal(mt_json_reader_new(schema, MT_JSON_FAILFAST, NULL, &reader, &err), MT_OK);
    if (mt_json_read(reader, &texts, 0, 0, &result, &err) != MT_OK)
        fail_msg("%s", err.text);
    *batch = (struct mt_batch){.schema = schema, .array = result.rows};
    mt_json_reader_free(reader);
    mt_batch_release(&texts);
    mt_schema_release(&in);
}

/* The file beside that holds what was given, for parquet_check.py. */
static char *rows_beside(const char *path, int times)
{
    char *name = mt_format("%s.jsonl", path);
    FILE *file = fopen(name, "w");
    assert_non_null(file);
    for (int i = 0; i < N_NESTED * times; i++)
        fprintf(file, "%s\n", nested_rows[i % N_NESTED]);
    fclose(file);
    return name;
}

static void nested_values_are_read_elsewhere_as_they_were(void **state)
{
    (void)state;
    struct ArrowSchema schema;
    struct mt_batch batch;
    struct sink sink = {.room = SIZE_MAX};
    sample_schema(nested_ddl, &schema);
    schema.children[2]->children[0]->children[0]->flags |= ARROW_FLAG_NULLABLE; /* m's keys */
    nested_batch(&schema, 30, &batch);
    struct mt_file_writer *writer = writer_of(&schema, 50, &sink);
    write_all(writer, &batch);
    finish(writer);
    char *path = file_of(&sink);
    check_file(path, &batch, 1);
    char *rows = rows_beside(path, 30);
    bool ran = check_elsewhere("nested", path);
    drop_file(path);
    drop_file(rows);
    mt_buf_free(&sink.bytes);
    mt_batch_release(&batch);
    mt_schema_release(&schema);
    if (!ran)
        skip();
}

static void columns_of_few_values_alone_get_a_dictionary(void **state)
{
    (void)state;
    struct ArrowSchema schema;
    struct mt_column root;
    struct mt_batch batch = {.schema = &schema};
    struct sink sink = {.room = SIZE_MAX};
    sample_schema("id STRING, event STRING, n INT, tags ARRAY<STRING>, t TIMESTAMP, "
                  "s STRUCT<few: STRING, many: STRING>, b BOOLEAN",
                  &schema);
    mt_column_init(&root, &schema);
    for (int64_t i = 0; i < 1000; i++) {
        char id[24], few[24];
        int id_len = snprintf(id, sizeof id, "u%d", (int)i);
        int few_len = snprintf(few, sizeof few, "event %d", (int)i % 7);
        struct mt_column *c = root.children;
        assert_int_equal(mt_column_add_bytes(&c[0], id, id_len, &err), MT_OK);
        assert_int_equal(mt_column_add_bytes(&c[1], few, few_len, &err), MT_OK);
        assert_int_equal(mt_column_add_int(&c[2], i % 40, &err), MT_OK);
        assert_int_equal(mt_column_add_bytes(&c[3].children[0], few, few_len, &err), MT_OK);
        assert_int_equal(mt_column_close_row(&c[3], &err), MT_OK);
        assert_int_equal(mt_column_add_int(&c[4], i * 1000, &err), MT_OK);
        assert_int_equal(mt_column_add_bytes(&c[5].children[0], few, few_len, &err), MT_OK);
        assert_int_equal(mt_column_add_bytes(&c[5].children[1], id, id_len, &err), MT_OK);
        assert_int_equal(mt_column_close_row(&c[5], &err), MT_OK);
        assert_int_equal(mt_column_add_int(&c[6], i % 2, &err), MT_OK);
        assert_int_equal(mt_column_close_row(&root, &err), MT_OK);
    }
    mt_column_finish(&root, &batch.array);
    mt_column_deinit(&root);
    struct mt_file_writer *writer = writer_of(&schema, 0, &sink);
    write_all(writer, &batch);
    finish(writer);
    char *path = file_of(&sink);
    check_file(path, &batch, 1);
    bool ran = check_elsewhere("dictionaries", path);
    drop_file(path);
    mt_buf_free(&sink.bytes);
    mt_batch_release(&batch);
    mt_schema_release(&schema);
    if (!ran)
        skip();
}

/* ---- what cannot be written */

/* Writes the batch into room bytes; whether it worked. */
static bool write_into(const struct mt_batch *batch, size_t room, int error)
{
    struct sink sink = {.room = room, .error = error};
    int64_t rows;
    struct mt_file_writer *writer = writer_of(batch->schema, 4, &sink);
    enum mt_status status = mt_file_write(writer, &batch->array, &err);
    if (status == MT_OK)
        status = mt_file_finish(writer, &rows, &err);
    else
        mt_file_discard(writer);
    assert_true(sink.failures <= 1);
    assert_true(status == MT_OK || (status == MT_FATAL && sink.failures == 1));
    mt_buf_free(&sink.bytes);
    return status == MT_OK;
}

static void a_full_disk_at_any_byte_is_an_error_and_no_more(void **state)
{
    (void)state;
    struct ArrowSchema schema;
    struct mt_batch batch;
    size_t room = 0;
    sample_schema("a INT, b STRING, c ARRAY<BIGINT>", &schema);
    make_batch(&schema, 9, &batch);
    for (; !write_into(&batch, room, ENOSPC); room++) {
        assert_int_equal(err.class_, MT_CLASS_MACHINE);
        assert_non_null(strstr(err.text, "disk full"));
        assert_non_null(strstr(err.text, "No space left on device"));
    }
    assert_true(room > 500);
    assert_false(write_into(&batch, 4, EIO));
    assert_int_equal(err.class_, MT_CLASS_SINK);
    assert_non_null(strstr(err.text, "Input/output error"));
    assert_false(write_into(&batch, 4, EMFILE));
    assert_int_equal(err.class_, MT_CLASS_MACHINE);
    mt_batch_release(&batch);
    mt_schema_release(&schema);
}

static void a_discarded_file_gets_no_footer(void **state)
{
    (void)state;
    struct ArrowSchema schema;
    struct mt_batch batch;
    struct sink sink = {.room = SIZE_MAX};
    sample_schema("a INT", &schema);
    make_batch(&schema, 9, &batch);
    struct mt_file_writer *writer = writer_of(&schema, 4, &sink);
    write_all(writer, &batch);
    size_t before = sink.bytes.len;
    mt_file_discard(writer);
    assert_int_equal(sink.bytes.len, before);
    mt_file_discard(NULL);
    mt_buf_free(&sink.bytes);
    mt_batch_release(&batch);
    mt_schema_release(&schema);
}

static void what_parquet_cannot_hold_is_refused_by_name(void **state)
{
    (void)state;
    struct ArrowSchema empty, field, schema;
    struct sink sink = {.room = SIZE_MAX};
    struct mt_file_settings settings = {"snappy", NULL, 0}, brotli = {"brotli", NULL, 0};
    struct mt_file_writer *writer;
    mt_schema_of(NULL, NULL, 0, &empty);
    assert_int_equal(mt_file_writer_new(MT_FILE_PARQUET, &empty, &settings, sink_write, &sink, &writer, &err),
                     MT_REJECT);
    assert_non_null(strstr(err.text, "at least one column"));
    const struct ArrowSchema *fields[] = {&empty};
    const char *names[] = {"nothing"};
    mt_schema_of(fields, names, 1, &field);
    assert_int_equal(mt_file_writer_new(MT_FILE_PARQUET, &field, &settings, sink_write, &sink, &writer, &err),
                     MT_REJECT);
    assert_non_null(strstr(err.text, "\"nothing\""));
    sample_schema("a INT", &schema);
    assert_int_equal(mt_file_writer_new(MT_FILE_PARQUET, &schema, &brotli, sink_write, &sink, &writer, &err),
                     MT_REJECT);
    assert_non_null(strstr(err.text, "\"brotli\""));
    assert_non_null(strstr(err.text, "snappy"));
    mt_schema_release(&schema);
    mt_schema_release(&field);
    mt_schema_release(&empty);
}

static void every_compression_of_the_list_can_be_read(void **state)
{
    (void)state;
    static const char *const codecs[] = {"none", "UNCOMPRESSED", "snappy", "gzip", "zstd", "Lz4"};
    struct ArrowSchema schema;
    struct mt_batch batch;
    sample_schema("a STRING", &schema);
    make_batch(&schema, 100, &batch);
    for (size_t i = 0; i < sizeof codecs / sizeof *codecs; i++) {
        struct sink sink = {.room = SIZE_MAX};
        struct mt_file_settings settings = {codecs[i], NULL, 0};
        struct mt_file_writer *writer;
        assert_int_equal(
            mt_file_writer_new(MT_FILE_PARQUET, &schema, &settings, sink_write, &sink, &writer, &err), MT_OK);
        write_all(writer, &batch);
        finish(writer);
        char *path = file_of(&sink);
        check_file(path, &batch, 1);
        drop_file(path);
        mt_buf_free(&sink.bytes);
    }
    mt_batch_release(&batch);
    mt_schema_release(&schema);
}

static void head_of_what_is_no_parquet_file_names_it(void **state)
{
    (void)state;
    struct ArrowSchema schema;
    struct ArrowArray rows;
    int64_t total;
    struct sink sink = {.room = SIZE_MAX};
    mt_buf_adds(&sink.bytes, "PAR1 and nothing of the kind PAR1");
    char *path = file_of(&sink);
    assert_int_equal(mt_parquet_head(path, 5, &schema, &rows, &total, &err), MT_REJECT);
    assert_non_null(strstr(err.text, path));
    unlink(path);
    assert_int_equal(mt_parquet_head(path, 5, &schema, &rows, &total, &err), MT_REJECT);
    assert_non_null(strstr(err.text, "No such file"));
    free(path);
    mt_buf_free(&sink.bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_types_with_nulls_come_back_as_they_were),
        cmocka_unit_test(head_reads_no_more_than_it_is_asked_for),
        cmocka_unit_test(a_file_without_rows_has_its_columns),
        cmocka_unit_test(spark_s_own_file_is_shown_with_its_times_in_utc),
        cmocka_unit_test(pyarrow_and_duckdb_read_every_type),
        cmocka_unit_test(nested_values_are_read_elsewhere_as_they_were),
        cmocka_unit_test(columns_of_few_values_alone_get_a_dictionary),
        cmocka_unit_test(a_full_disk_at_any_byte_is_an_error_and_no_more),
        cmocka_unit_test(a_discarded_file_gets_no_footer),
        cmocka_unit_test(what_parquet_cannot_hold_is_refused_by_name),
        cmocka_unit_test(every_compression_of_the_list_can_be_read),
        cmocka_unit_test(head_of_what_is_no_parquet_file_names_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
