/* SPDX-License-Identifier: Apache-2.0
 *
 * ksink_rows.c - rows to records.
 *
 * A value is not copied: the client sends it from the column, and write returns when all is
 * delivered. Rows go to the client by the thousand; those with headers one by one, for that is how
 * it takes them. A report of a delivery that failed names the row by the number that went
 * along with the record. */
#include <stdlib.h>
#include <string.h>

#include "base/step.h"
#include "sink/kafka/ksink_int.h"

static char nothing[1]; /* of an empty value, which is not null */

/* The column's row of a batch; bytes NULL: null. */
struct cell {
    const void *bytes;
    size_t len;
};

static struct cell cell_of(const struct ArrowArray *column, int64_t row)
{
    if (mt_array_is_null(column, row))
        return (struct cell){0};
    const int32_t *offsets = (const int32_t *)column->buffers[1] + column->offset + row;
    size_t len = (size_t)(offsets[1] - offsets[0]);
    return (struct cell){len ? (const char *)column->buffers[2] + offsets[0] : nothing, len};
}

static struct cell cell_at(const struct mt_batch *rows, int64_t column, int64_t row)
{
    return column < 0 ? (struct cell){0}
                      : cell_of(rows->array.children[column], rows->array.offset + row);
}

/* ---- a row that cannot be a record */

static enum mt_status reject(const struct mt_batch *rows, int64_t row, const char *why,
                             struct mt_error *err)
{
    char where[300];
    return mt_fail(err, MT_REJECT, MT_CLASS_DATA, "kafka: %s: %s",
                   mt_batch_where(rows, row, where, sizeof where), why);
}

static enum mt_status partition_at(struct ksink *k, const struct mt_batch *rows, int64_t row,
                                   const rd_kafka_topic_t *topic, int32_t *partition,
                                   struct mt_error *err)
{
    *partition = RD_KAFKA_PARTITION_UA;
    if (k->partition < 0)
        return MT_OK;
    const struct ArrowArray *column = rows->array.children[k->partition];
    int64_t at = rows->array.offset + row;
    if (mt_array_is_null(column, at))
        return MT_OK;
    *partition = ((const int32_t *)column->buffers[1])[column->offset + at];
    if (*partition >= 0 && ksink_has_partition(k, topic, *partition))
        return MT_OK;
    char *why = mt_format("topic %s has no partition %d; null leaves it to the key",
                          rd_kafka_topic_name(topic), *partition);
    reject(rows, row, why, err);
    free(why);
    return MT_REJECT;
}

static enum mt_status topic_at(struct ksink *k, const struct mt_batch *rows, int64_t row,
                               rd_kafka_topic_t **topic, struct mt_error *err)
{
    struct cell name = {k->topic, k->topic ? strlen(k->topic) : 0};
    if (!k->topic)
        name = cell_at(rows, k->topic_column, row);
    if (!name.bytes)
        return reject(rows, row,
                      "null topic present in the data. Use the topic option for setting a topic",
                      err);
    rd_kafka_resp_err_t why = RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION;
    *topic = name.len && !memchr(name.bytes, 0, name.len)
                 ? ksink_topic_of(k, name.bytes, name.len, &why)
                 : NULL;
    if (!*topic)
        return ksink_no_topic(k, name.bytes, name.len, rows, row, why, err);
    if (!k->marked)
        k->marked = *topic;
    return MT_OK;
}

/* ---- records without headers */

static enum mt_status fill(struct ksink *k, const struct mt_batch *rows, int64_t row,
                           const rd_kafka_topic_t *topic, rd_kafka_message_t *message,
                           struct mt_error *err)
{
    struct cell value = cell_at(rows, k->value, row), key = cell_at(rows, k->key, row);
    *message = (rd_kafka_message_t){
        .payload = (void *)(uintptr_t)value.bytes,
        .len = value.len,
        .key = (void *)(uintptr_t)key.bytes,
        .key_len = key.len,
        ._private = (void *)(intptr_t)row,
    };
    return partition_at(k, rows, row, topic, &message->partition, err);
}

/* Rows from `first` on that go to one topic, as many as fit a chunk. */
static enum mt_status fill_chunk(struct ksink *k, const struct mt_batch *rows, int64_t first,
                                 rd_kafka_topic_t **topic, int *n, struct mt_error *err)
{
    enum mt_status status = topic_at(k, rows, first, topic, err);
    for (*n = 0; status == MT_OK && *n < KSINK_CHUNK && first + *n < rows->array.length; ++*n) {
        rd_kafka_topic_t *own = *topic;
        if (!k->topic && *n > 0)
            status = topic_at(k, rows, first + *n, &own, err);
        if (status == MT_OK && own != *topic)
            break;
        if (status == MT_OK)
            status = fill(k, rows, first + *n, own, &k->messages[*n], err);
    }
    return status;
}

/* A full queue empties while it is waited for; what else is refused is noted. */
static void give_chunk(struct ksink *k, rd_kafka_topic_t *topic, rd_kafka_message_t *messages,
                       int n)
{
    while (n > 0) {
        int waiting = 0;
        rd_kafka_produce_batch(topic, RD_KAFKA_PARTITION_UA, RD_KAFKA_MSG_F_PARTITION, messages, n);
        for (int i = 0; i < n; i++) {
            rd_kafka_resp_err_t code = messages[i].err;
            if (code == RD_KAFKA_RESP_ERR__QUEUE_FULL) {
                messages[waiting] = messages[i];
                messages[waiting++].err = RD_KAFKA_RESP_ERR_NO_ERROR;
            } else if (code) {
                messages[i].rkt = topic;
                ksink_note(k, &messages[i], code);
            }
        }
        n = waiting;
        if (n > 0)
            ksink_poll(k, 5);
    }
}

static enum mt_status produce_plain(struct ksink *k, const struct mt_batch *rows,
                                    struct mt_error *err)
{
    enum mt_status status = MT_OK;
    for (int64_t row = 0, n; status == MT_OK && k->failed == MT_OK && row < rows->array.length;
         row += n) {
        rd_kafka_topic_t *topic = NULL;
        int filled = 0;
        status = fill_chunk(k, rows, row, &topic, &filled, err);
        n = filled;
        if (status == MT_OK)
            give_chunk(k, topic, k->messages, filled);
        ksink_poll(k, 0);
    }
    return status;
}

/* ---- records with headers */

void ksink_stamp(struct ksink *k, const struct mt_sink_batch *batch)
{
    char id[24];
    snprintf(id, sizeof id, "%lld", (long long)batch->batch_id);
    const char *const pairs[][2] = {
        {"moontide.query", batch->query_id},
        {"moontide.sink", k->base.marker_identity},
        {"moontide.batch", id},
        {"moontide.digest", batch->digest},
    };
    k->stamp = rd_kafka_headers_new(sizeof pairs / sizeof *pairs);
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        rd_kafka_header_add(k->stamp, pairs[i][0], -1, pairs[i][1], -1);
}

static enum mt_status add_headers(const struct ksink *k, const struct mt_batch *rows, int64_t row,
                                  rd_kafka_headers_t *headers, struct mt_error *err)
{
    const struct ArrowArray *list = rows->array.children[k->headers];
    int64_t at = rows->array.offset + row;
    if (mt_array_is_null(list, at))
        return MT_OK;
    const int32_t *offsets = (const int32_t *)list->buffers[1] + list->offset + at;
    const struct ArrowArray *entry = list->children[0];
    for (int64_t i = offsets[0]; i < offsets[1]; i++) {
        bool null = mt_array_is_null(entry, i);
        struct cell name = cell_of(entry->children[0], entry->offset + i);
        struct cell value = cell_of(entry->children[1], entry->offset + i);
        if (null || !name.bytes)
            return reject(rows, row, "a header without a key; Kafka's headers have one", err);
        rd_kafka_header_add(headers, name.bytes, (ssize_t)name.len, value.bytes,
                            (ssize_t)value.len);
    }
    return MT_OK;
}

/* Takes headers. */
static void give_one(struct ksink *k, rd_kafka_topic_t *topic, rd_kafka_message_t *message,
                     rd_kafka_headers_t *headers)
{
    rd_kafka_resp_err_t code = RD_KAFKA_RESP_ERR__QUEUE_FULL;
    message->rkt = topic;
    while (code == RD_KAFKA_RESP_ERR__QUEUE_FULL) {
        rd_kafka_vu_t parts[] = {
            {.vtype = RD_KAFKA_VTYPE_RKT, .u.rkt = topic},
            {.vtype = RD_KAFKA_VTYPE_PARTITION, .u.i32 = message->partition},
            {.vtype = RD_KAFKA_VTYPE_VALUE, .u.mem = {message->payload, message->len}},
            {.vtype = RD_KAFKA_VTYPE_KEY, .u.mem = {message->key, message->key_len}},
            {.vtype = RD_KAFKA_VTYPE_OPAQUE, .u.ptr = message->_private},
            {.vtype = RD_KAFKA_VTYPE_HEADERS, .u.headers = headers},
        };
        rd_kafka_error_t *problem =
            rd_kafka_produceva(k->producer, parts, sizeof parts / sizeof *parts);
        code = rd_kafka_error_code(problem);
        rd_kafka_error_destroy(problem);
        if (code == RD_KAFKA_RESP_ERR__QUEUE_FULL)
            ksink_poll(k, 5);
    }
    if (code) {
        rd_kafka_headers_destroy(headers);
        ksink_note(k, message, code);
    }
}

static enum mt_status produce_with_headers(struct ksink *k, const struct mt_batch *rows,
                                           struct mt_error *err)
{
    enum mt_status status = MT_OK;
    for (int64_t row = 0; status == MT_OK && k->failed == MT_OK && row < rows->array.length;
         row++) {
        rd_kafka_topic_t *topic;
        rd_kafka_message_t message;
        status = topic_at(k, rows, row, &topic, err);
        if (status == MT_OK)
            status = fill(k, rows, row, topic, &message, err);
        if (status != MT_OK)
            return status;
        rd_kafka_headers_t *headers =
            k->stamp ? rd_kafka_headers_copy(k->stamp) : rd_kafka_headers_new(4);
        if (k->headers >= 0)
            status = add_headers(k, rows, row, headers, err);
        if (status == MT_OK)
            give_one(k, topic, &message, headers);
        else
            rd_kafka_headers_destroy(headers);
        if (row % KSINK_CHUNK == 0)
            ksink_poll(k, 0);
    }
    return status;
}

enum mt_status ksink_produce(struct ksink *k, const struct mt_batch *rows, struct mt_error *err)
{
    if (mt_step_fails("kafka.produce", k->batch_id))
        return mt_fail(err, MT_RETRY, MT_CLASS_SINK, "kafka: a test wants kafka.produce to fail");
    return k->headers >= 0 || k->stamp ? produce_with_headers(k, rows, err)
                                       : produce_plain(k, rows, err);
}
