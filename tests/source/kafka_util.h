// SPDX-License-Identifier: Apache-2.0
// What the tests of the Kafka source share: a source stepped as the engine steps it, the
// rows it gave, and a client that puts records and changes topics.
#ifndef KAFKA_UTIL_H
#define KAFKA_UTIL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <librdkafka/rdkafka.h>
#include <poll.h>

#include "source/kafka/kafka_int.h"

enum { PATIENCE_MS = 20000 };

/* ---- a source */

/* Options as name, value, …, NULL after the first two. */
static struct mt_source *try_source(struct mt_error *err, const char *brokers, const char *topics,
                                    va_list more)
{
    struct mt_pairs options = {0};
    struct mt_source *source = NULL;
    const char *name;
    mt_pairs_add(&options, "kafka.bootstrap.servers", brokers);
    mt_pairs_add(&options, topics[0] == '{' ? "assign" : "subscribe", topics);
    mt_pairs_add(&options, "startingOffsets", "earliest");
    while ((name = va_arg(more, const char *)))
        mt_pairs_add(&options, name, va_arg(more, const char *));
    if (mt_source_new("kafka", &options, &source, err) != MT_OK)
        source = NULL;
    mt_pairs_free(&options);
    return source;
}

static inline struct mt_source *source_of(const char *brokers, const char *topics, ...)
{
    struct mt_error err = {0};
    va_list more;
    va_start(more, topics);
    struct mt_source *source = try_source(&err, brokers, topics, more);
    va_end(more);
    if (!source) {
        print_message("%s\n", err.text);
        fail();
    }
    return source;
}

/* Sleeps as the engine does: until woken, or until again_ms. */
static inline void rest(struct mt_source *source, bool retried)
{
    struct pollfd fd = {source->wake_fd, POLLIN, 0};
    int64_t wait = retried ? source->again_ms - mt_clock_ms() : 100;
    poll(&fd, 1, wait < 0 ? 0 : wait > 500 ? 500 : (int)wait);
}

static inline void must(enum mt_status status, const struct mt_error *err)
{
    if (status != MT_OK) {
        print_message("status %d: %s\n", (int)status, err->text);
        fail();
    }
}

static inline enum mt_status try_start(struct mt_source *source, char **start, struct mt_error *err)
{
    enum mt_status status;
    int64_t until = mt_clock_ms() + PATIENCE_MS;
    while ((status = source->type->resolve_start(source, mt_clock_ms(), start, err)) == MT_RETRY &&
           mt_clock_ms() < until)
        rest(source, true);
    return status;
}

static inline char *start_of(struct mt_source *source)
{
    struct mt_error err = {0};
    char *start = NULL;
    must(try_start(source, &start, &err), &err);
    return start;
}

static inline enum mt_status try_available(struct mt_source *source, const char *start,
                                           enum mt_reach reach, struct mt_ends *ends,
                                           struct mt_error *err)
{
    enum mt_status status;
    int64_t until = mt_clock_ms() + PATIENCE_MS;
    *ends = (struct mt_ends){0};
    while ((status = source->type->available(source, start, reach, mt_clock_ms(), ends, err)) ==
               MT_RETRY &&
           mt_clock_ms() < until)
        rest(source, true);
    return status;
}

static inline struct mt_ends ends_of(struct mt_source *source, const char *start,
                                     enum mt_reach reach)
{
    struct mt_error err = {0};
    struct mt_ends ends;
    must(try_available(source, start, reach, &ends, &err), &err);
    return ends;
}

static inline enum mt_status try_read(struct mt_source *source, const char *start, const char *end,
                                      const char *facts, struct mt_batch *batch,
                                      struct mt_error *err)
{
    enum mt_status status;
    int64_t until = mt_clock_ms() + PATIENCE_MS;
    *batch = (struct mt_batch){0};
    while ((status = source->type->read(source, start, end, facts, mt_clock_ms(), batch, err)) ==
               MT_RETRY &&
           mt_clock_ms() < until)
        rest(source, true);
    return status;
}

static inline struct mt_batch batch_of(struct mt_source *source, const char *start, const char *end,
                                       const char *facts)
{
    struct mt_error err = {0};
    struct mt_batch batch;
    must(try_read(source, start, end, facts, &batch, &err), &err);
    return batch;
}

/* One batch from *start, which moves on; false: there was nothing. */
static inline bool next_batch(struct mt_source *source, char **start, enum mt_reach reach,
                              struct mt_batch *batch)
{
    struct mt_ends ends = ends_of(source, *start, reach);
    bool something = !ends.nothing;
    if (something)
        *batch = batch_of(source, *start, ends.end, ends.facts);
    free(*start);
    *start = mt_strdup(ends.end);
    mt_ends_clear(&ends);
    return something;
}

/* Batches until `rows` have come; returns how many batches it took. */
static inline int64_t take_rows(struct mt_source *source, char **start, enum mt_reach reach,
                                int64_t rows)
{
    int64_t batches = 0, until = mt_clock_ms() + PATIENCE_MS;
    while (rows > 0) {
        struct mt_batch batch = {0};
        assert_true(mt_clock_ms() < until);
        if (!next_batch(source, start, reach, &batch)) {
            rest(source, false);
            continue;
        }
        rows -= batch.array.length;
        batches++;
        mt_batch_release(&batch);
    }
    assert_int_equal(rows, 0);
    return batches;
}

/* ---- rows */

static inline int64_t column_of(const struct mt_batch *batch, const char *name)
{
    for (int64_t i = 0; i < batch->schema->n_children; i++)
        if (strcmp(batch->schema->children[i]->name, name) == 0)
            return i;
    return -1;
}

/* A value as text; BINARY as it is. Caller frees. */
static inline char *value_at(const struct mt_batch *batch, const char *name, int64_t row)
{
    int64_t c = column_of(batch, name);
    assert_true(c >= 0);
    const struct ArrowArray *array = batch->array.children[c];
    const struct ArrowSchema *field = batch->schema->children[c];
    if (mt_array_is_null(array, row))
        return mt_strdup("NULL");
    if (field->format[0] == 'z') {
        const int32_t *offsets = array->buffers[1];
        return mt_strndup((const char *)array->buffers[2] + offsets[row],
                          (size_t)(offsets[row + 1] - offsets[row]));
    }
    struct mt_buf buf = {0};
    mt_buf_adds(&buf, "");
    mt_value_print(field, array, row, &buf);
    return buf.data;
}

static inline void assert_value(const struct mt_batch *batch, const char *name, int64_t row,
                                const char *expected)
{
    char *value = value_at(batch, name, row);
    assert_string_equal(value, expected);
    free(value);
}

static inline int64_t number_at(const struct mt_batch *batch, const char *name, int64_t row)
{
    char *value = value_at(batch, name, row);
    int64_t number = atoll(value);
    free(value);
    return number;
}

static inline void assert_contains(const char *text, const char *words)
{
    if (!strstr(text, words)) {
        print_message("\"%s\" is not in: %s\n", words, text);
        fail();
    }
}

/* ---- a client */

struct client {
    rd_kafka_t *rk;
};

static inline struct client client_of(const char *brokers, const char *transactional_id)
{
    char why[300];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_conf_set(conf, "bootstrap.servers", brokers, why, sizeof why);
    rd_kafka_conf_set(conf, "linger.ms", "2", why, sizeof why);
    rd_kafka_conf_set(conf, "message.max.bytes", "4000000", why, sizeof why);
    rd_kafka_conf_set(conf, "queue.buffering.max.messages", "1000000", why, sizeof why);
    rd_kafka_conf_set(conf, "log_level", "0", why, sizeof why);
    if (transactional_id)
        rd_kafka_conf_set(conf, "transactional.id", transactional_id, why, sizeof why);
    struct client client = {rd_kafka_new(RD_KAFKA_PRODUCER, conf, why, sizeof why)};
    assert_non_null(client.rk);
    return client;
}

static inline void client_free(struct client *client)
{
    rd_kafka_destroy(client->rk);
}

static inline void put(struct client *client, const char *topic, int32_t partition, const char *key,
                       const char *value)
{
    assert_int_equal(
        rd_kafka_producev(
            client->rk, RD_KAFKA_V_TOPIC(topic), RD_KAFKA_V_PARTITION(partition),
            RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY), RD_KAFKA_V_KEY(key, key ? strlen(key) : 0),
            RD_KAFKA_V_VALUE((void *)value, value ? strlen(value) : 0), RD_KAFKA_V_END),
        0);
}

static inline void flush(struct client *client)
{
    assert_int_equal(rd_kafka_flush(client->rk, PATIENCE_MS), 0);
}

/* Records "0", "1", … from `first` on to one partition; stored on return. */
static inline void put_numbers(struct client *client, const char *topic, int32_t partition,
                               int64_t first, int64_t n)
{
    char value[30];
    for (int64_t i = first; i < first + n; i++) {
        snprintf(value, sizeof value, "%lld", (long long)i);
        put(client, topic, partition, NULL, value);
    }
    flush(client);
}

/* The values of column value of a partition are first, first + 1, …, at these offsets. */
static inline void assert_numbers(const struct mt_batch *batch, int64_t row, int64_t n,
                                  int64_t first)
{
    for (int64_t i = 0; i < n; i++)
        assert_int_equal(number_at(batch, "value", row + i), first + i);
}

#endif
