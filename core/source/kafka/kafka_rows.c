/* SPDX-License-Identifier: Apache-2.0
 *
 * kafka_rows.c - records to columns, Spark's row schema of a Kafka source.
 *
 * Only the columns that the job reads are built: a job that parses `value` pays for
 * `value`. Records are copied and given back at once, by call of at most 4,096; holding
 * them to the end of a batch would keep five times their size. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "source/kafka/kafka_int.h"

/* In the order of the schema that kafka_source.c declares. */
enum { KEY, VALUE, TOPIC, PARTITION, OFFSET, TIMESTAMP, TIMESTAMP_TYPE, HEADERS };

static void begin(struct kafka *k)
{
    struct kafka_rows *rows = &k->rows;
    rows->n_columns = k->base.schema.n_children;
    rows->columns = mt_alloc((size_t)(rows->n_columns + 1) * sizeof *rows->columns);
    for (int64_t i = 0; i < rows->n_columns; i++)
        mt_column_init(&rows->columns[i], k->base.schema.children[i]);
    rows->coords = mt_coords_new();
}

/* One row more of a column that was reserved. */
static void append(struct mt_column *column, const void *bytes, size_t len)
{
    int64_t row = column->length++;
    if (len > 0)
        memcpy(column->values + column->values_len, bytes, len);
    column->values_len += (int64_t)len;
    column->offsets[row + 1] = (int32_t)column->values_len;
    if (column->validity)
        column->validity[row >> 3] |= (uint8_t)(1 << (row & 7));
}

static enum mt_status add_keys(struct mt_column *column, rd_kafka_message_t **messages, int64_t n,
                               struct mt_error *err)
{
    int64_t bytes = 0;
    for (int64_t i = 0; i < n; i++)
        bytes += (int64_t)messages[i]->key_len;
    enum mt_status status = mt_column_reserve(column, n, bytes, err);
    for (int64_t i = 0; status == MT_OK && i < n; i++) {
        if (messages[i]->key)
            append(column, messages[i]->key, messages[i]->key_len);
        else
            status = mt_column_add_null(column, err);
    }
    return status;
}

static enum mt_status add_values(struct mt_column *column, rd_kafka_message_t **messages, int64_t n,
                                 struct mt_error *err)
{
    int64_t bytes = 0;
    for (int64_t i = 0; i < n; i++)
        bytes += (int64_t)messages[i]->len;
    enum mt_status status = mt_column_reserve(column, n, bytes, err);
    for (int64_t i = 0; status == MT_OK && i < n; i++) {
        if (messages[i]->payload)
            append(column, messages[i]->payload, messages[i]->len);
        else
            status = mt_column_add_null(column, err);
    }
    return status;
}

/* Milliseconds as the record has them; a record without one has -1, as in Spark. */
static enum mt_status add_timestamp(struct mt_column *column, const rd_kafka_message_t *message,
                                    const struct kafka_partition *p, struct mt_error *err)
{
    rd_kafka_timestamp_type_t type;
    int64_t micros, millis = rd_kafka_message_timestamp(message, &type);
    if (__builtin_mul_overflow(millis, (int64_t)1000, &micros))
        return mt_fail(err, MT_REJECT, MT_CLASS_DATA,
                       "%s[%d]@%" PRId64 ": its timestamp, %" PRId64
                       " ms since 1970, does not fit a TIMESTAMP",
                       p->topic->name, p->id, message->offset, millis);
    return mt_column_add_int(column, micros, err);
}

static int64_t timestamp_type(const rd_kafka_message_t *message)
{
    rd_kafka_timestamp_type_t type;
    rd_kafka_message_timestamp(message, &type);
    return type == RD_KAFKA_TIMESTAMP_LOG_APPEND_TIME ? 1
           : type == RD_KAFKA_TIMESTAMP_CREATE_TIME   ? 0
                                                      : -1;
}

static enum mt_status add_headers(struct mt_column *column, const rd_kafka_message_t *message,
                                  struct mt_error *err)
{
    struct mt_column *entry = &column->children[0];
    rd_kafka_headers_t *headers;
    const char *name;
    const void *value;
    size_t len;
    if (rd_kafka_message_headers(message, &headers))
        return mt_column_add_null(column, err); /* it has none */
    enum mt_status status = MT_OK;
    for (size_t i = 0; status == MT_OK && !rd_kafka_header_get_all(headers, i, &name, &value, &len);
         i++) {
        status = mt_column_add_bytes(&entry->children[0], name, (int64_t)strlen(name), err);
        if (status == MT_OK)
            status = value ? mt_column_add_bytes(&entry->children[1], value, (int64_t)len, err)
                           : mt_column_add_null(&entry->children[1], err);
        if (status == MT_OK)
            status = mt_column_close_row(entry, err);
    }
    return status == MT_OK ? mt_column_close_row(column, err) : status;
}

static enum mt_status add_one(struct mt_column *column, int32_t which,
                              const struct kafka_partition *p, const rd_kafka_message_t *message,
                              struct mt_error *err)
{
    const char *topic = p->topic->name;
    switch (which) {
    case TOPIC:
        return mt_column_add_bytes(column, topic, (int64_t)strlen(topic), err);
    case PARTITION:
        return mt_column_add_int(column, p->id, err);
    case OFFSET:
        return mt_column_add_int(column, message->offset, err);
    case TIMESTAMP:
        return add_timestamp(column, message, p, err);
    case TIMESTAMP_TYPE:
        return mt_column_add_int(column, timestamp_type(message), err);
    default:
        return add_headers(column, message, err);
    }
}

static enum mt_status add_column(struct mt_column *column, int32_t which,
                                 const struct kafka_partition *p, rd_kafka_message_t **messages,
                                 int64_t n, struct mt_error *err)
{
    if (which == KEY)
        return add_keys(column, messages, n, err);
    if (which == VALUE)
        return add_values(column, messages, n, err);
    enum mt_status status = MT_OK;
    for (int64_t i = 0; status == MT_OK && i < n; i++)
        status = add_one(column, which, p, messages[i], err);
    return status;
}

enum mt_status kafka_rows_add(struct kafka *k, const struct kafka_partition *p,
                              rd_kafka_message_t **messages, int64_t n, struct mt_error *err)
{
    enum { PART = 512 }; /* records that stay in the cache from one column to the next */
    struct kafka_rows *rows = &k->rows;
    enum mt_status status = MT_OK;
    if (!rows->columns)
        begin(k);
    if (rows->last != p)
        mt_coords_start(rows->coords, p->topic->name, p->id);
    rows->last = p;
    for (int64_t at = 0; status == MT_OK && at < n; at += PART) {
        int64_t part = n - at < PART ? n - at : PART;
        for (int64_t c = 0; status == MT_OK && c < rows->n_columns; c++)
            status = add_column(&rows->columns[c], k->base.wanted[c], p, messages + at, part, err);
        for (int64_t i = 0; i < part; i++)
            mt_coords_add(rows->coords, messages[at + i]->offset);
    }
    rows->n += n;
    return status;
}

void kafka_rows_finish(struct kafka *k, struct mt_batch *out)
{
    struct kafka_rows *rows = &k->rows;
    if (!rows->columns)
        begin(k);
    struct ArrowArray *columns = mt_alloc((size_t)(rows->n_columns + 1) * sizeof *columns);
    for (int64_t i = 0; i < rows->n_columns; i++)
        mt_column_finish(&rows->columns[i], &columns[i]);
    *out = (struct mt_batch){.schema = &k->base.schema, .coords = mt_coords_ref(rows->coords)};
    mt_array_struct(columns, rows->n_columns, rows->n, &out->array);
    free(columns);
    kafka_rows_drop(k);
}

void kafka_rows_drop(struct kafka *k)
{
    struct kafka_rows *rows = &k->rows;
    for (int64_t i = 0; rows->columns && i < rows->n_columns; i++)
        mt_column_deinit(&rows->columns[i]);
    if (rows->columns)
        mt_coords_unref(rows->coords);
    free(rows->columns);
    *rows = (struct kafka_rows){0};
}
