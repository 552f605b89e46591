/* SPDX-License-Identifier: Apache-2.0
 *
 * delta_action.c - the lines of a version that stores a batch.
 *
 * commitInfo says which batch it is, with all that a file's line in _spark_metadata has
 * and the attempt's nonce; txn says the same to every other reader of Delta, and is what
 * stays in checkpoints. The first version makes the table too. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sink/delta/delta_int.h"

static void print_text(struct mt_buf *json, const char *text)
{
    mt_buf_add_json(json, text, strlen(text));
}

/* ---- partition columns */

/* As Delta writes values into its log; an instant with its zone, so that no reader's own counts. */
static void print_value(const struct ArrowSchema *field, const struct ArrowArray *column,
                        int64_t row, struct mt_buf *json)
{
    struct mt_buf text = {0};
    char time[48];
    mt_buf_adds(&text, "");
    if (mt_schema_type(field) == MT_TIMESTAMP) {
        mt_timestamp_print_iso(((const int64_t *)column->buffers[1])[column->offset + row], time);
        mt_buf_adds(&text, time);
    } else {
        mt_value_print(field, column, row, &text);
    }
    if (text.len == 0) /* the empty text is null to every reader of Delta */
        mt_buf_adds(json, "null");
    else
        mt_buf_add_json(json, text.data, text.len);
    mt_buf_free(&text);
}

void delta_partition_print(const struct files_layout *layout, const struct mt_batch *batch,
                           int64_t row, struct mt_buf *json)
{
    mt_buf_adds(json, "{");
    for (int64_t i = 0; i < layout->n_keys; i++) {
        const struct ArrowSchema *field = layout->schema->children[layout->keys[i]];
        const struct ArrowArray *column = batch->array.children[layout->keys[i]];
        int64_t at = batch->array.offset + row;
        mt_buf_adds(json, i ? "," : "");
        print_text(json, field->name);
        mt_buf_adds(json, ":");
        if (mt_array_is_null(column, at))
            mt_buf_adds(json, "null");
        else
            print_value(field, column, at, json);
    }
    mt_buf_adds(json, "}");
}

/* ---- actions, a line each */

static int64_t written_ms(const struct delta_sink *delta)
{
    int64_t ms = 0;
    for (int64_t i = 0; i < delta->n_files; i++)
        ms = delta->files[i].mtime_ms > ms ? delta->files[i].mtime_ms : ms;
    return ms;
}

static void print_info(const struct delta_sink *delta, struct mt_buf *text)
{
    const struct delta_state *state = &delta->log.state;
    mt_buf_addf(text,
                "{\"commitInfo\":{\"timestamp\":%" PRId64 ",\"operation\":\"STREAMING UPDATE\","
                "\"operationParameters\":{\"outputMode\":\"Append\",\"queryId\":",
                written_ms(delta));
    print_text(text, state->query);
    mt_buf_addf(text,
                ",\"epochId\":\"%" PRId64 "\"},\"isBlindAppend\":true,"
                "\"engineInfo\":\"Moontide/" MT_VERSION "\",\"moontide\":{",
                delta->given.batch_id);
    files_marker_print(state->query, state->sink, &delta->given, text);
    mt_buf_addf(text, ",\"nonce\":\"%s\"}}}\n", delta->attempt);
}

static void print_table(const struct delta_sink *delta, struct mt_buf *text)
{
    char id[37];
    struct mt_buf schema = {0};
    mt_uuid(id);
    delta_schema_print(delta->base.schema, &schema);
    mt_buf_adds(text, "{\"protocol\":{\"minReaderVersion\":1,\"minWriterVersion\":2}}\n");
    mt_buf_addf(text,
                "{\"metaData\":{\"id\":\"%s\",\"format\":{\"provider\":\"parquet\",\"options\":{}},"
                "\"schemaString\":",
                id);
    mt_buf_add_json(text, schema.data, schema.len);
    mt_buf_adds(text, ",\"partitionColumns\":[");
    for (int64_t i = 0; i < delta->base.n_partition_by; i++) {
        mt_buf_adds(text, i ? "," : "");
        print_text(text, delta->base.partition_by[i]);
    }
    mt_buf_addf(text, "],\"configuration\":{},\"createdTime\":%" PRId64 "}}\n", written_ms(delta));
    mt_buf_free(&schema);
}

static void print_add(const struct files_data *data, const char *partitions, struct mt_buf *text)
{
    struct mt_buf path = {0};
    files_uri_path(data->name, &path);
    mt_buf_adds(text, "{\"add\":{\"path\":");
    mt_buf_add_json(text, path.data, path.len);
    mt_buf_addf(text,
                ",\"partitionValues\":%s,\"size\":%" PRId64 ",\"modificationTime\":%" PRId64
                ",\"dataChange\":true,\"stats\":\"{\\\"numRecords\\\":%" PRId64 "}\"}}\n",
                partitions, data->size, data->mtime_ms, data->rows);
    mt_buf_free(&path);
}

void delta_version_print(const struct delta_sink *delta, struct mt_buf *text)
{
    print_info(delta, text);
    if (delta->log.last < 0)
        print_table(delta, text);
    mt_buf_adds(text, "{\"txn\":{\"appId\":");
    print_text(text, delta->log.state.app);
    mt_buf_addf(text, ",\"version\":%" PRId64 ",\"lastUpdated\":%" PRId64 "}}\n",
                delta->given.batch_id, written_ms(delta));
    for (int64_t i = 0; i < delta->n_files; i++)
        print_add(&delta->files[i], delta->partitions[i], text);
}
