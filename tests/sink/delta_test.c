/* SPDX-License-Identifier: Apache-2.0
 *
 * delta_test.c - a Delta table as the deltalake package reads it, and the tables that are
 * refused. */
#include "support.h"

#define SCHEMA "id BIGINT, kind STRING, "

static struct mt_sink *table_sink(const char *path, const struct ArrowSchema *schema,
                                  const char *partition)
{
    return need_sink(&(struct setup){.format = "delta", .path = path, .partition_by = {partition}},
                     schema);
}

/* Rows of any type through a sink, read back as JSON. */
static char *stored_rows(const char *type, bool partitioned, int64_t n)
{
    struct ArrowSchema schema;
    struct mt_error err = {0};
    enum mt_sink_answer answer;
    char *root = new_folder(), *path = mt_format("%s/table", root);
    char *ddl = mt_format(SCHEMA "v %s", type);
    schema_of(ddl, &schema);
    struct mt_sink *sink = table_sink(path, &schema, partitioned ? "v" : NULL);
    need_recover(sink, QUERY);
    struct mt_batch rows = make_any_rows(&schema, n);
    if (store_rows(sink, QUERY, 0, &rows, &answer, &err) != MT_OK)
        fail_msg("%s: %s", type, err.text);
    mt_batch_release(&rows);
    mt_sink_free(sink);
    char *text = ask_reader("delta", path);
    mt_schema_release(&schema);
    free(ddl), free(path), drop_folder(root);
    return text;
}

static void every_type_is_a_partition_or_a_column_and_reads_back_the_same(void **state)
{
    (void)state;
    static const char *const types[] = {"BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT",
                                        "STRING", "DATE", "TIMESTAMP", "DECIMAL(9,2)",
                                        "DECIMAL(38,10)"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        char *plain = stored_rows(types[i], false, 20), *parted = stored_rows(types[i], true, 20);
        assert_string_equal(plain, parted);
        assert_non_null(strstr(plain, "\"id\": 19"));
        free(plain), free(parted);
    }
}

static void nested_values_read_back(void **state)
{
    (void)state;
    char *text = stored_rows("STRUCT<a: ARRAY<INT>, m: MAP<STRING, DECIMAL(9,2)>>", false, 3);
    assert_string_equal(
        text, "{\"id\": 0, \"kind\": null, \"v\": {\"a\": [2, 3], \"m\": []}}\n"
              "{\"id\": 1, \"kind\": \"a\", \"v\": {\"a\": [], \"m\": null}}\n"
              "{\"id\": 2, \"kind\": \"b\", \"v\": null}\n");
    free(text);
}

static void write_log(const char *path, const char *protocol, const char *properties,
                      const char *field)
{
    char *text = mt_format(
        "{\"protocol\":%s}\n{\"metaData\":{\"id\":\"x\",\"format\":{\"provider\":\"parquet\","
        "\"options\":{}},\"schemaString\":\"{\\\"type\\\":\\\"struct\\\",\\\"fields\\\":[{"
        "\\\"name\\\":\\\"id\\\",\\\"type\\\":\\\"long\\\",\\\"nullable\\\":true,"
        "\\\"metadata\\\":{%s}},{\\\"name\\\":\\\"kind\\\",\\\"type\\\":\\\"string\\\","
        "\\\"nullable\\\":true,\\\"metadata\\\":{}},{\\\"name\\\":\\\"amount\\\",\\\"type\\\":"
        "\\\"double\\\",\\\"nullable\\\":true,\\\"metadata\\\":{}}]}\","
        "\"partitionColumns\":[],\"configuration\":{%s}}}\n",
        protocol, field, properties);
    char *command = mt_format("mkdir -p %s/_delta_log", path);
    assert_int_equal(system(command), 0);
    char *name = mt_format("%s/_delta_log/00000000000000000000.json", path);
    write_file(name, text);
    free(text), free(command), free(name);
}

#define PLAIN "{\"minReaderVersion\":1,\"minWriterVersion\":2}"

static void what_a_table_needs_and_is_not_known_is_refused_by_name(void **state)
{
    (void)state;
    static const char *const cases[][4] = {
        {"{\"minReaderVersion\":2,\"minWriterVersion\":5}", "", "", "writer version 5"},
        {"{\"minReaderVersion\":3,\"minWriterVersion\":7,\"readerFeatures\":[\"deletionVectors\"],"
         "\"writerFeatures\":[\"deletionVectors\"]}",
         "", "", "\"deletionVectors\""},
        {"{\"minReaderVersion\":1,\"minWriterVersion\":7,\"writerFeatures\":[\"appendOnly\","
         "\"rowTracking\"]}",
         "", "", "\"rowTracking\""},
        {PLAIN, "\"delta.columnMapping.mode\":\"name\"", "", "delta.columnMapping.mode"},
        {PLAIN, "\"delta.constraints.c\":\"id > 0\"", "", "delta.constraints.c"},
        {PLAIN, "\"delta.setTransactionRetentionDuration\":\"interval 1 day\"", "",
         "forgets which batches"},
        {PLAIN, "", "\\\"delta.generationExpression\\\":\\\"1\\\"", "column \"id\""},
        {PLAIN, "\"delta.appendOnly\":\"true\"", "", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ArrowSchema schema;
        struct mt_error err = {0};
        enum mt_sink_answer answer;
        char *root = new_folder(), *path = mt_format("%s/table", root);
        write_log(path, cases[i][0], cases[i][1], cases[i][2]);
        schema_of(ROWS_DDL, &schema);
        struct mt_sink *sink = table_sink(path, &schema, NULL);
        need_recover(sink, QUERY);
        enum mt_status status = store_rows(sink, QUERY, 0, NULL, &answer, &err);
        if (cases[i][3] && (status != MT_FATAL || !strstr(err.text, cases[i][3])))
            fail_msg("%s: %s", cases[i][3], err.text);
        if (!cases[i][3] && status != MT_OK)
            fail_msg("refused: %s", err.text);
        mt_sink_free(sink);
        mt_schema_release(&schema);
        free(path), drop_folder(root);
    }
}

static void a_moved_table_knows_its_batches(void **state)
{
    (void)state;
    struct ArrowSchema schema;
    struct mt_error err = {0};
    enum mt_sink_answer answer;
    struct mt_sink_record record;
    char *root = new_folder(), *path = mt_format("%s/a", root), *other = mt_format("%s/b", root);
    schema_of(ROWS_DDL, &schema);
    struct mt_sink *sink = table_sink(path, &schema, "kind");
    need_recover(sink, QUERY);
    for (int64_t id = 0; id < 25; id++)
        store_ids(sink, QUERY, id, id * 4, 4);
    mt_sink_free(sink);
    assert_int_equal(rename(path, other), 0);
    sink = table_sink(other, &schema, "kind");
    need_recover(sink, QUERY);
    struct mt_sink_batch batch = batch_of(QUERY, 24, 4);
    assert_int_equal(sink->type->begin(sink, &batch, &answer, &record, &err), MT_OK);
    assert_int_equal(answer, MT_SINK_STORED);
    assert_int_equal(record.rows, 4);
    assert_ids(other, "0-99");
    mt_sink_free(sink);
    mt_schema_release(&schema);
    free(path), free(other), drop_folder(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_is_a_partition_or_a_column_and_reads_back_the_same),
        cmocka_unit_test(nested_values_read_back),
        cmocka_unit_test(what_a_table_needs_and_is_not_known_is_refused_by_name),
        cmocka_unit_test(a_moved_table_knows_its_batches),
    };
    mt_log_level(MT_ERROR);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    stop_reader();
    return failed;
}
