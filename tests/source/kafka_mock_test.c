// SPDX-License-Identifier: Apache-2.0
// The Kafka source against librdkafka's mock cluster.
#include "kafka_util.h"
#include "source/kafka/kafka_mock.h"

#include <librdkafka/rdkafka_mock.h>

/* In the library since 2.3 or later, not in the header of 2.0.2. */
rd_kafka_resp_err_t rd_kafka_mock_set_controller_id(rd_kafka_mock_cluster_t *, int32_t);
rd_kafka_resp_err_t rd_kafka_mock_topic_delete(rd_kafka_mock_cluster_t *, const char *);
rd_kafka_resp_err_t rd_kafka_mock_partition_delete_records(rd_kafka_mock_cluster_t *, const char *,
                                                           int32_t, int64_t);
rd_kafka_resp_err_t rd_kafka_mock_partition_push_request_errors(rd_kafka_mock_cluster_t *,
                                                                const char *, int32_t, int16_t,
                                                                size_t, ...);

enum { FETCH = 1, LIST_OFFSETS = 2 };

struct cluster {
    struct client client; /* whose handle holds the cluster */
    rd_kafka_mock_cluster_t *mock;
    const char *brokers;
};

static struct cluster cluster_new(const char *topic, int partitions)
{
    struct cluster cluster;
    char why[300];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_conf_set(conf, "test.mock.num.brokers", "1", why, sizeof why);
    rd_kafka_conf_set(conf, "linger.ms", "2", why, sizeof why);
    rd_kafka_conf_set(conf, "message.max.bytes", "4000000", why, sizeof why);
    rd_kafka_conf_set(conf, "log_level", "0", why, sizeof why);
    cluster.client.rk = rd_kafka_new(RD_KAFKA_PRODUCER, conf, why, sizeof why);
    cluster.mock = rd_kafka_handle_mock_cluster(cluster.client.rk);
    rd_kafka_mock_set_controller_id(cluster.mock, 1);
    cluster.brokers = rd_kafka_mock_cluster_bootstraps(cluster.mock);
    assert_int_equal(rd_kafka_mock_topic_create(cluster.mock, topic, partitions, 1), 0);
    return cluster;
}

static void cluster_free(struct cluster *cluster)
{
    client_free(&cluster->client);
}

/* ---- what is read */

static void the_rows_of_a_batch_have_one_order_and_every_record_comes_once(void **state)
{
    (void)state;
    struct cluster c = cluster_new("t", 3);
    for (int p = 0; p < 3; p++)
        put_numbers(&c.client, "t", p, 0, 500 + p);
    struct mt_source *source = source_of(c.brokers, "t", NULL);
    char *start = start_of(source);
    assert_string_equal(start, "{\"t\":{\"0\":0,\"1\":0,\"2\":0}}");
    struct mt_batch batch = {0};
    assert_true(next_batch(source, &start, MT_REACH_LATEST, &batch));
    assert_string_equal(start, "{\"t\":{\"0\":500,\"1\":501,\"2\":502}}");
    assert_int_equal(batch.array.length, 1503);
    for (int64_t row = 0, p = 0; p < 3; row += 500 + p, p++) {
        assert_numbers(&batch, row, 500 + p, 0);
        for (int64_t i = 0; i < 500 + p; i++) {
            assert_int_equal(number_at(&batch, "partition", row + i), p);
            assert_int_equal(number_at(&batch, "offset", row + i), i);
        }
    }
    char where[60];
    assert_string_equal(mt_batch_where(&batch, 501, where, sizeof where), "t[1]@1");
    mt_batch_release(&batch);
    assert_false(next_batch(source, &start, MT_REACH_LATEST, &batch));
    free(start);
    mt_source_free(source);
    cluster_free(&c);
}

static void several_topics_are_read_in_order_of_name(void **state)
{
    (void)state;
    struct cluster c = cluster_new("b", 1);
    assert_int_equal(rd_kafka_mock_topic_create(c.mock, "a", 1, 1), 0);
    put_numbers(&c.client, "a", 0, 0, 3);
    put_numbers(&c.client, "b", 0, 0, 2);
    struct mt_source *source = source_of(c.brokers, " b, a,, b ", NULL);
    assert_string_equal(mt_source_name(source), "a,b");
    char *start = start_of(source);
    struct mt_batch batch = {0};
    assert_true(next_batch(source, &start, MT_REACH_LATEST, &batch));
    assert_string_equal(start, "{\"a\":{\"0\":3},\"b\":{\"0\":2}}");
    assert_value(&batch, "topic", 2, "a");
    assert_value(&batch, "topic", 3, "b");
    mt_batch_release(&batch);
    free(start);
    mt_source_free(source);
    cluster_free(&c);
}

static void put_with_headers(struct cluster *c)
{
    rd_kafka_headers_t *headers = rd_kafka_headers_new(2);
    rd_kafka_header_add(headers, "trace", -1, "abc", 3);
    rd_kafka_header_add(headers, "trace", -1, NULL, 0);
    rd_kafka_header_add(headers, "empty", -1, "", 0);
    assert_int_equal(rd_kafka_producev(c->client.rk, RD_KAFKA_V_TOPIC("t"), RD_KAFKA_V_PARTITION(0),
                                       RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY),
                                       RD_KAFKA_V_KEY("", 0), RD_KAFKA_V_VALUE("", 0),
                                       RD_KAFKA_V_TIMESTAMP(1795977958013),
                                       RD_KAFKA_V_HEADERS(headers), RD_KAFKA_V_END),
                     0);
}

static void nulls_stay_apart_from_empty_and_headers_come_when_asked_for(void **state)
{
    (void)state;
    struct cluster c = cluster_new("t", 1);
    put_with_headers(&c);
    put(&c.client, "t", 0, NULL, NULL);
    put(&c.client, "t", 0, "k", "a\xff\x01z");
    flush(&c.client);
    struct mt_source *source = source_of(c.brokers, "t", "includeHeaders", "true", NULL);
    char *ddl = mt_schema_ddl(mt_source_schema(source));
    assert_string_equal(ddl, "key BINARY, value BINARY, topic STRING, partition INT, offset "
                             "BIGINT, timestamp TIMESTAMP, timestampType INT, "
                             "headers ARRAY<STRUCT<key: STRING, value: BINARY>>");
    mt_free(ddl);
    char *start = start_of(source);
    struct mt_batch batch = {0};
    assert_true(next_batch(source, &start, MT_REACH_LATEST, &batch));
    assert_value(&batch, "key", 0, "");
    assert_value(&batch, "value", 0, "");
    assert_value(&batch, "key", 1, "NULL");
    assert_value(&batch, "value", 1, "NULL");
    assert_value(&batch, "value", 2, "a\xff\x01z");
    assert_value(&batch, "timestamp", 0, "2026-11-29 18:45:58.013");
    assert_value(&batch, "timestampType", 0, "0");
    assert_value(&batch, "headers", 0, "[{trace, [61 62 63]}, {trace, NULL}, {empty, []}]");
    assert_value(&batch, "headers", 1, "NULL");
    mt_batch_release(&batch);
    free(start);
    mt_source_free(source);
    source = source_of(c.brokers, "t", NULL);
    assert_int_equal(mt_source_schema(source)->n_children, 7);
    mt_source_free(source);
    cluster_free(&c);
}

static void only_the_wanted_columns_are_built(void **state)
{
    (void)state;
    struct cluster c = cluster_new("t", 1);
    put_numbers(&c.client, "t", 0, 0, 10);
    struct mt_source *source = source_of(c.brokers, "t", NULL);
    static const int32_t wanted[] = {1, 4};
    mt_source_project(source, wanted, 2);
    char *start = start_of(source);
    struct mt_batch batch = {0};
    assert_true(next_batch(source, &start, MT_REACH_LATEST, &batch));
    assert_int_equal(batch.array.n_children, 2);
    assert_value(&batch, "value", 9, "9");
    assert_value(&batch, "offset", 9, "9");
    mt_batch_release(&batch);
    free(start);
    mt_source_free(source);
    cluster_free(&c);
}

static void a_timestamp_that_does_not_fit_is_refused_with_its_place(void **state)
{
    (void)state;
    struct cluster c = cluster_new("t", 1);
    assert_int_equal(rd_kafka_producev(c.client.rk, RD_KAFKA_V_TOPIC("t"), RD_KAFKA_V_PARTITION(0),
                                       RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY),
                                       RD_KAFKA_V_VALUE("x", 1),
                                       RD_KAFKA_V_TIMESTAMP(INT64_MAX - 5), RD_KAFKA_V_END),
                     0);
    flush(&c.client);
    struct mt_source *source = source_of(c.brokers, "t", NULL);
    struct mt_error err = {0};
    struct mt_ends ends;
    char *start = start_of(source);
    assert_int_equal(try_available(source, start, MT_REACH_LATEST, &ends, &err), MT_REJECT);
    assert_contains(err.text, "t[0]@0");
    free(start);
    mt_source_free(source);
    cluster_free(&c);
}

/* ---- how far */

static void what_arrives_wakes_and_is_read_without_asking(void **state)
{
    (void)state;
    struct cluster c = cluster_new("t", 2);
    struct mt_source *source = source_of(c.brokers, "t", NULL);
    char *start = start_of(source);
    struct mt_batch batch = {0};
    assert_false(next_batch(source, &start, MT_REACH_ARRIVED, &batch));
    for (int i = 0; i < 5; i++) {
        struct mt_ends ends = {0};
        struct mt_error err = {0};
        int64_t until = mt_clock_ms() + PATIENCE_MS;
        put_numbers(&c.client, "t", i % 2, i, 1);
        do { /* end-of-partition events may wake first */
            struct pollfd fd = {source->wake_fd, POLLIN, 0};
            mt_ends_clear(&ends);
            assert_int_equal(poll(&fd, 1, PATIENCE_MS), 1);
            must(source->type->available(source, start, MT_REACH_ARRIVED, mt_clock_ms(), &ends,
                                         &err),
                 &err);
        } while (ends.nothing && mt_clock_ms() < until);
        assert_false(ends.nothing);
        assert_string_equal(ends.latest, ends.end); /* told with the records */
        batch = batch_of(source, start, ends.end, ends.facts);
        assert_int_equal(batch.array.length, 1);
        assert_int_equal(number_at(&batch, "value", 0), i);
        mt_batch_release(&batch);
        free(start);
        start = mt_strdup(ends.end);
        mt_ends_clear(&ends);
    }
    free(start);
    mt_source_free(source);
    cluster_free(&c);
}

static int questions; /* that were waited for: the linker hands them to us (--wrap) */

rd_kafka_resp_err_t __real_rd_kafka_metadata(rd_kafka_t *rk, int all, rd_kafka_topic_t *only,
                                             const struct rd_kafka_metadata **said, int ms);
rd_kafka_resp_err_t __wrap_rd_kafka_metadata(rd_kafka_t *rk, int all, rd_kafka_topic_t *only,
                                             const struct rd_kafka_metadata **said, int ms);
rd_kafka_resp_err_t
__real_rd_kafka_offsets_for_times(rd_kafka_t *rk, rd_kafka_topic_partition_list_t *list, int ms);
rd_kafka_resp_err_t
__wrap_rd_kafka_offsets_for_times(rd_kafka_t *rk, rd_kafka_topic_partition_list_t *list, int ms);

rd_kafka_resp_err_t __wrap_rd_kafka_metadata(rd_kafka_t *rk, int all, rd_kafka_topic_t *only,
                                             const struct rd_kafka_metadata **said, int ms)
{
    questions++;
    return __real_rd_kafka_metadata(rk, all, only, said, ms);
}

rd_kafka_resp_err_t
__wrap_rd_kafka_offsets_for_times(rd_kafka_t *rk, rd_kafka_topic_partition_list_t *list, int ms)
{
    questions++;
    return __real_rd_kafka_offsets_for_times(rk, list, ms);
}

/* Takes one row, and at its time waits for the answers of a look, as the engine would be woken. */
static void take_one(struct mt_source *source, char **start, int64_t now_ms)
{
    struct kafka *k = (struct kafka *)source;
    int64_t rows = 0, until = mt_clock_ms() + PATIENCE_MS;
    while ((rows < 1 || k->looking > 0) && mt_clock_ms() < until) {
        struct mt_error err = {0};
        struct mt_ends ends = {0};
        must(source->type->available(source, *start, MT_REACH_ARRIVED, now_ms, &ends, &err), &err);
        if (!ends.nothing) {
            struct mt_batch batch = batch_of(source, *start, ends.end, ends.facts);
            rows += batch.array.length;
            mt_batch_release(&batch);
            free(*start);
            *start = mt_strdup(ends.end);
        } else {
            rest(source, false);
        }
        mt_ends_clear(&ends);
    }
    assert_int_equal(rows, 1);
    assert_int_equal(k->looking, 0);
}

static void no_batch_of_a_trickle_waits_for_a_broker(void **state)
{
    (void)state;
    struct cluster c = cluster_new("t", 2);
    struct mt_source *source = source_of(c.brokers, "t", NULL);
    struct kafka *k = (struct kafka *)source;
    char *start = start_of(source);
    put_numbers(&c.client, "t", 0, 0, 1);
    take_rows(source, &start, MT_REACH_ARRIVED, 1);
    questions = 0;
    int64_t now_ms = k->checked_ms, first = now_ms;
    for (int i = 1; i <= 30; i++) { /* half a minute */
        now_ms += 1000;
        put_numbers(&c.client, "t", i % 2, i, 1);
        take_one(source, &start, now_ms);
        assert_true(now_ms - k->checked_ms <= KAFKA_REFRESH_MS); /* it was looked all the same */
    }
    assert_true(k->checked_ms - first >= 5 * KAFKA_REFRESH_MS);
    assert_int_equal(questions, 0);
    free(start);
    mt_source_free(source);
    cluster_free(&c);
}

static void a_limit_is_shared_out_over_what_the_brokers_have(void **state)
{
    (void)state;
    struct cluster c = cluster_new("t", 3);
    put_numbers(&c.client, "t", 0, 0, 1000);
    put_numbers(&c.client, "t", 1, 0, 100);
    put_numbers(&c.client, "t", 2, 0, 10);
    struct mt_source *source = source_of(c.brokers, "t", "maxOffsetsPerTrigger", "100", NULL);
    char *start = start_of(source);
    struct mt_ends ends = ends_of(source, start, MT_REACH_LATEST);
    assert_string_equal(ends.end, "{\"t\":{\"0\":90,\"1\":9,\"2\":1}}");
    assert_string_equal(ends.latest, "{\"t\":{\"0\":1000,\"1\":100,\"2\":10}}");
    assert_false(ends.more);
    struct mt_buf text = {0};
    source->type->describe(source, ends.end, ends.latest, &text);
    assert_string_equal(text.data, "{\"description\":\"KafkaV2[Subscribe[t]]\",\"behind\":1010,"
                                   "\"metrics\":{\"avgOffsetsBehindLatest\":\"336.7\","
                                   "\"maxOffsetsBehindLatest\":\"910\","
                                   "\"minOffsetsBehindLatest\":\"9\"}}");
    mt_buf_free(&text);
    mt_ends_clear(&ends);
    assert_int_equal(take_rows(source, &start, MT_REACH_LATEST, 1110), 12);
    free(start);
    mt_source_free(source);
    cluster_free(&c);
}

static void a_limit_holds_for_what_has_arrived(void **state)
{
    (void)state;
    struct cluster c = cluster_new("t", 2);
    put_numbers(&c.client, "t", 0, 0, 300);
    put_numbers(&c.client, "t", 1, 0, 300);
    struct mt_source *source = source_of(c.brokers, "t", "maxOffsetsPerTrigger", "100", NULL);
    char *start = start_of(source);
    int64_t rows = 0, until = mt_clock_ms() + PATIENCE_MS;
    while (rows < 600 && mt_clock_ms() < until) {
        struct mt_batch batch = {0};
        if (!next_batch(source, &start, MT_REACH_ARRIVED, &batch)) {
            rest(source, false);
            continue;
        }
        assert_in_range(batch.array.length, 1, 101);
        rows += batch.array.length;
        mt_batch_release(&batch);
    }
    assert_int_equal(rows, 600);
    free(start);
    mt_source_free(source);
    cluster_free(&c);
}

static void a_target_is_fixed_once_a_run(void **state)
{
    (void)state;
    struct cluster c = cluster_new("t", 2);
    put_numbers(&c.client, "t", 0, 0, 30);
    struct mt_source *source = source_of(c.brokers, "t", "maxOffsetsPerTrigger", "20", NULL);
    char *start = start_of(source);
    struct mt_ends ends = ends_of(source, start, MT_REACH_TARGET);
    assert_string_equal(ends.end, "{\"t\":{\"0\":20,\"1\":0}}");
    assert_string_equal(ends.latest, "{\"t\":{\"0\":30,\"1\":0}}");
    assert_false(ends.reached);
    put_numbers(&c.client, "t", 0, 30, 10); /* too late for this run */
    put_numbers(&c.client, "t", 1, 0, 10);
    struct mt_batch batch = batch_of(source, start, ends.end, ends.facts);
    assert_int_equal(batch.array.length, 20);
    mt_batch_release(&batch);
    struct mt_ends last = ends_of(source, ends.end, MT_REACH_TARGET);
    assert_string_equal(last.end, "{\"t\":{\"0\":30,\"1\":0}}");
    assert_true(last.reached);
    batch = batch_of(source, ends.end, last.end, last.facts);
    assert_numbers(&batch, 0, 10, 20);
    mt_batch_release(&batch);
    struct mt_ends none = ends_of(source, last.end, MT_REACH_TARGET);
    assert_true(none.nothing && none.reached);
    mt_ends_clear(&ends), mt_ends_clear(&last), mt_ends_clear(&none);
    free(start);
    mt_source_free(source);
    cluster_free(&c);
}

static void once_takes_everything_in_one_batch(void **state)
{
    (void)state;
    struct cluster c = cluster_new("t", 1);
    put_numbers(&c.client, "t", 0, 0, 5000);
    struct mt_source *source =
        source_of(c.brokers, "t", "maxOffsetsPerTrigger", "20", "maxBatchBytes", "1k", NULL);
    char *start = start_of(source);
    struct mt_ends ends = ends_of(source, start, MT_REACH_ALL);
    assert_string_equal(ends.end, "{\"t\":{\"0\":5000}}");
    assert_true(ends.reached && !ends.more);
    mt_ends_clear(&ends);
    free(start);
    mt_source_free(source);
    cluster_free(&c);
}

static void bytes_cut_a_batch_and_no_partition_starves(void **state)
{
    (void)state;
    struct cluster c = cluster_new("t", 3);
    for (int p = 0; p < 3; p++)
        for (int i = 0; i < 200; i++)
            put(&c.client, "t", p, NULL,
                "a value of sixty-eight bytes, which makes one hundred by the count");
    flush(&c.client);
    struct mt_source *source = source_of(c.brokers, "t", "maxBatchBytes", "9800", NULL);
    char *start = start_of(source);
    int64_t rows = 0;
    while (rows < 600) {
        struct mt_ends ends = ends_of(source, start, MT_REACH_LATEST);
        struct mt_batch batch = batch_of(source, start, ends.end, ends.facts);
        assert_in_range(batch.array.length, 1, 100); /* 98 bytes each */
        rows += batch.array.length;
        assert_int_equal(ends.more, rows < 600);
        struct mt_offsets at, end;
        struct mt_error err = {0};
        must(mt_offsets_parse(start, 0, &at, &err), &err);
        must(mt_offsets_parse(ends.end, 0, &end, &err), &err);
        for (size_t i = 0; i < 3; i++)
            assert_true(end.items[i].offset > at.items[i].offset);
        mt_offsets_free(&at), mt_offsets_free(&end);
        mt_batch_release(&batch);
        free(start);
        start = mt_strdup(ends.end);
        mt_ends_clear(&ends);
    }
    free(start);
    mt_source_free(source);
    cluster_free(&c);
}

static void a_record_larger_than_a_batch_is_a_batch(void **state)
{
    (void)state;
    struct cluster c = cluster_new("t", 1);
    char *large = mt_alloc(100001);
    memset(large, 'x', 100000);
    for (int i = 0; i < 3; i++)
        put(&c.client, "t", 0, NULL, large);
    flush(&c.client);
    struct mt_source *source = source_of(c.brokers, "t", "maxBatchBytes", "1000", NULL);
    char *start = start_of(source);
    assert_int_equal(take_rows(source, &start, MT_REACH_TARGET, 3), 3);
    free(large);
    free(start);
    mt_source_free(source);
    cluster_free(&c);
}

/* ---- any range, again */

static void a_range_reads_the_same_again_in_this_process_and_in_the_next(void **state)
{
    (void)state;
    struct cluster c = cluster_new("t", 2);
    put_numbers(&c.client, "t", 0, 0, 700);
    put_numbers(&c.client, "t", 1, 0, 50);
    struct mt_source *source = source_of(c.brokers, "t", "maxOffsetsPerTrigger", "300", NULL);
    char *start = start_of(source), *first = mt_strdup(start), *from[2], *to[2];
    uint64_t prints[2];
    for (int i = 0; i < 2; i++) {
        struct mt_batch batch = {0};
        from[i] = mt_strdup(start);
        assert_true(next_batch(source, &start, MT_REACH_LATEST, &batch));
        prints[i] = mt_batch_fingerprint(&batch);
        to[i] = mt_strdup(start);
        mt_batch_release(&batch);
    }
    for (int process = 0; process < 2; process++) {
        for (int i = 1; i >= 0; i--) { /* backwards */
            struct mt_batch batch = batch_of(source, from[i], to[i], "{}");
            assert_int_equal(mt_batch_fingerprint(&batch), prints[i]);
            mt_batch_release(&batch);
        }
        mt_source_free(source);
        source = source_of(c.brokers, "t", "maxOffsetsPerTrigger", "300", NULL);
    }
    struct mt_batch whole = batch_of(source, first, "{\"t\":{\"0\":650,\"1\":50}}", NULL);
    assert_int_equal(whole.array.length, 700);
    assert_numbers(&whole, 0, 650, 0);
    mt_batch_release(&whole);
    char *next = mt_strdup("{\"t\":{\"0\":650,\"1\":50}}"); /* and on from there */
    struct mt_batch rest_of = {0};
    assert_true(next_batch(source, &next, MT_REACH_LATEST, &rest_of));
    assert_int_equal(rest_of.array.length, 50);
    assert_numbers(&rest_of, 0, 50, 650);
    mt_batch_release(&rest_of);
    for (int i = 0; i < 2; i++)
        free(from[i]), free(to[i]);
    free(start), free(first), free(next);
    mt_source_free(source);
    cluster_free(&c);
}

static void ends_that_are_told_again_are_the_same_and_rows_come_once(void **state)
{
    (void)state;
    struct cluster c = cluster_new("t", 1);
    put_numbers(&c.client, "t", 0, 0, 10);
    struct mt_source *source = source_of(c.brokers, "t", NULL);
    char *start = start_of(source);
    struct mt_ends ends = ends_of(source, start, MT_REACH_LATEST);
    put_numbers(&c.client, "t", 0, 10, 10);
    struct mt_ends again = ends_of(source, start, MT_REACH_LATEST);
    assert_string_equal(again.end, ends.end);
    struct mt_batch batch = batch_of(source, start, ends.end, ends.facts);
    assert_int_equal(batch.array.length, 10);
    mt_batch_release(&batch);
    mt_ends_clear(&ends), mt_ends_clear(&again);
    free(start);
    mt_source_free(source);
    cluster_free(&c);
}

static void an_earlier_start_than_the_consumer_has_is_gone_back_to(void **state)
{
    (void)state;
    struct cluster c = cluster_new("t", 1);
    put_numbers(&c.client, "t", 0, 0, 20);
    struct mt_source *source = source_of(c.brokers, "t", "maxOffsetsPerTrigger", "10", NULL);
    char *start = start_of(source), *first = mt_strdup(start);
    struct mt_batch batch = {0};
    assert_true(next_batch(source, &start, MT_REACH_LATEST, &batch));
    mt_batch_release(&batch);
    assert_true(next_batch(source, &first, MT_REACH_LATEST, &batch));
    assert_string_equal(first, start);
    assert_numbers(&batch, 0, 10, 0);
    mt_batch_release(&batch);
    free(start), free(first);
    mt_source_free(source);
    cluster_free(&c);
}

/* ---- where a query starts */

static void assert_start(struct cluster *c, const char *topics, const char *starting,
                         const char *expected)
{
    struct mt_source *source = source_of(c->brokers, topics, "startingOffsets", starting, NULL);
    char *start = start_of(source);
    assert_string_equal(start, expected);
    free(start);
    mt_source_free(source);
}

static void refuse_start(struct cluster *c, const char *topics, const char *starting,
                         const char *words)
{
    struct mt_source *source = source_of(c->brokers, topics, "startingOffsets", starting, NULL);
    struct mt_error err = {0};
    char *start = NULL;
    assert_int_equal(try_start(source, &start, &err), MT_FATAL);
    assert_int_equal(err.class_, MT_CLASS_SOURCE);
    assert_contains(err.text, words);
    mt_source_free(source);
}

static void a_start_is_earliest_latest_or_what_json_says(void **state)
{
    (void)state;
    struct cluster c = cluster_new("t", 2);
    put_numbers(&c.client, "t", 0, 0, 10);
    put_numbers(&c.client, "t", 1, 0, 20);
    rd_kafka_mock_partition_delete_records(c.mock, "t", 0, 4);
    assert_start(&c, "t", "Earliest", "{\"t\":{\"0\":4,\"1\":0}}");
    assert_start(&c, "t", "LATEST", "{\"t\":{\"0\":10,\"1\":20}}");
    assert_start(&c, "t", "{\"t\":{\"1\":-1,\"0\":-2}}", "{\"t\":{\"0\":4,\"1\":20}}");
    assert_start(&c, "t", "{\"t\":{\"0\":6,\"1\":900}}", "{\"t\":{\"0\":6,\"1\":900}}");
    assert_start(&c, "{\"t\":[1]}", "{\"t\":{\"1\":7}}", "{\"t\":{\"1\":7}}");
    refuse_start(&c, "t", "{\"t\":{\"0\":6}}", "you must specify all TopicPartitions");
    refuse_start(&c, "t", "{}", "you must specify all TopicPartitions");
    refuse_start(&c, "t", "{\"t\":{\"0\":6,\"1\":1,\"2\":1}}", "you must specify all");
    refuse_start(&c, "{\"t\":[1]}", "{\"t\":{\"0\":6,\"1\":1}}", "you must specify all");
    refuse_start(&c, "{\"t\":[1,7]}", "earliest", "partition 7 of topic \"t\", which has 2");
    cluster_free(&c);
}

static void a_topic_that_does_not_exist_is_named_and_not_made(void **state)
{
    (void)state;
    struct cluster c = cluster_new("orders", 1);
    refuse_start(&c, "ordres", "earliest", "topic \"ordres\" does not exist");
    refuse_start(&c, "ordres", "earliest", "did you mean \"orders\"?");
    cluster_free(&c);
}

/* ---- trouble */

static void a_broker_that_is_down_is_waited_for_in_words(void **state)
{
    (void)state;
    struct cluster c = cluster_new("t", 1);
    put_numbers(&c.client, "t", 0, 0, 10);
    rd_kafka_mock_broker_set_down(c.mock, 1);
    struct mt_source *source = source_of(c.brokers, "t", NULL);
    struct mt_error err = {0};
    char *start = NULL;
    int64_t until = mt_clock_ms() + PATIENCE_MS;
    while (!strstr(source->state, "127.0.0.1") && mt_clock_ms() < until) {
        assert_int_equal(source->type->resolve_start(source, mt_clock_ms(), &start, &err),
                         MT_RETRY);
        assert_true(source->again_ms > mt_clock_ms() - 1000);
        rest(source, true);
    }
    assert_contains(source->state, c.brokers);
    rd_kafka_mock_broker_set_up(c.mock, 1);
    start = start_of(source);
    assert_string_equal(source->state, "");
    take_rows(source, &start, MT_REACH_LATEST, 10);
    free(start);
    mt_source_free(source);
    cluster_free(&c);
}

static void a_broker_lost_in_the_middle_of_a_range_costs_no_row(void **state)
{
    (void)state;
    struct cluster c = cluster_new("t", 1);
    put_numbers(&c.client, "t", 0, 0, 2000);
    struct mt_source *source =
        source_of(c.brokers, "t", "kafka.fetch.message.max.bytes", "1000", NULL);
    struct mt_error err = {0};
    struct mt_batch batch = {0};
    const char *start = "{\"t\":{\"0\":0}}", *end = "{\"t\":{\"0\":2100}}";
    int64_t until = mt_clock_ms() + PATIENCE_MS;
    put_numbers(&c.client, "t", 0, 2000, 100);
    enum mt_status status =
        source->type->read(source, start, end, "{}", mt_clock_ms(), &batch, &err);
    rd_kafka_mock_broker_set_down(c.mock, 1);
    while (status == MT_RETRY && !source->state[0] && mt_clock_ms() < until) {
        rest(source, true);
        status = source->type->read(source, start, end, "{}", mt_clock_ms(), &batch, &err);
    }
    rd_kafka_mock_broker_set_up(c.mock, 1);
    if (status == MT_RETRY)
        must(try_read(source, start, end, "{}", &batch, &err), &err);
    assert_int_equal(batch.array.length, 2100);
    assert_numbers(&batch, 0, 2100, 0);
    mt_batch_release(&batch);
    mt_source_free(source);
    cluster_free(&c);
}

static void a_topic_that_may_not_be_read_stops_with_the_acl(void **state)
{
    (void)state;
    struct cluster c = cluster_new("t", 1);
    put_numbers(&c.client, "t", 0, 0, 10);
    rd_kafka_mock_partition_push_request_errors(c.mock, "t", 0, FETCH, 1,
                                                RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED);
    struct mt_source *source = source_of(c.brokers, "t", NULL);
    struct mt_error err = {0};
    struct mt_ends ends;
    char *start = start_of(source);
    assert_int_equal(try_available(source, start, MT_REACH_LATEST, &ends, &err), MT_FATAL);
    assert_int_equal(err.class_, MT_CLASS_SOURCE);
    assert_contains(err.text, "ACL READ");
    free(start);
    mt_source_free(source);
    cluster_free(&c);
}

/* ---- records that are gone */

static void assert_loss(struct mt_source *source, const char *start, enum mt_reach reach,
                        const char *words)
{
    struct mt_error err = {0};
    struct mt_ends ends;
    assert_int_equal(try_available(source, start, reach, &ends, &err), MT_FATAL);
    assert_int_equal(err.class_, MT_CLASS_DATA_LOSS);
    assert_contains(err.text, words);
    assert_contains(err.text, "failOnDataLoss=false");
}

static void records_that_expired_stop_the_query_or_are_counted(void **state)
{
    (void)state;
    static const char gone[] =
        "t[0]: offsets 3 to 9 are gone, at most 7 records: they expired or were "
        "deleted before they were read (the log holds offsets 10 to 19)";
    struct cluster c = cluster_new("t", 1);
    put_numbers(&c.client, "t", 0, 0, 20);
    rd_kafka_mock_partition_delete_records(c.mock, "t", 0, 10);
    const char *start = "{\"t\":{\"0\":3}}", *end = "{\"t\":{\"0\":20}}";
    for (int reach = MT_REACH_ARRIVED; reach <= MT_REACH_ALL; reach++) {
        struct mt_source *source = source_of(c.brokers, "t", NULL);
        assert_loss(source, start, (enum mt_reach)reach, gone);
        mt_source_free(source);
    }
    struct mt_source *source = source_of(c.brokers, "t", "failOnDataLoss", "false", NULL);
    struct mt_ends ends = ends_of(source, start, MT_REACH_LATEST);
    assert_string_equal(ends.end, end);
    assert_contains(ends.facts, "\"from\":{\"t\":{\"0\":10}}");
    struct mt_batch batch = batch_of(source, start, ends.end, ends.facts);
    assert_numbers(&batch, 0, 10, 10);
    struct mt_buf text = {0};
    source->type->describe(source, ends.end, NULL, &text);
    assert_contains(text.data, "\"metrics\":{\"offsetsLost\":\"7\"}");
    mt_buf_free(&text);
    mt_batch_release(&batch);
    mt_ends_clear(&ends);
    mt_source_free(source);
    cluster_free(&c);
}

static void a_plan_whose_records_expired_stops_or_reads_what_is_left(void **state)
{
    (void)state;
    struct cluster c = cluster_new("t", 1);
    put_numbers(&c.client, "t", 0, 0, 20);
    rd_kafka_mock_partition_delete_records(c.mock, "t", 0, 10);
    struct mt_error err = {0};
    struct mt_batch batch;
    struct mt_source *source = source_of(c.brokers, "t", NULL);
    assert_int_equal(
        try_read(source, "{\"t\":{\"0\":3}}", "{\"t\":{\"0\":15}}", "{}", &batch, &err), MT_FATAL);
    assert_int_equal(err.class_, MT_CLASS_DATA_LOSS);
    mt_source_free(source);
    source = source_of(c.brokers, "t", "failOnDataLoss", "false", NULL);
    batch = batch_of(source, "{\"t\":{\"0\":3}}", "{\"t\":{\"0\":15}}", "{}");
    assert_int_equal(batch.array.length, 5);
    assert_numbers(&batch, 0, 5, 10);
    mt_batch_release(&batch);
    batch = batch_of(source, "{\"t\":{\"0\":3}}", "{\"t\":{\"0\":8}}", "{}"); /* none is left */
    assert_int_equal(batch.array.length, 0);
    mt_batch_release(&batch);
    mt_source_free(source);
    cluster_free(&c);
}

static void records_that_expire_while_they_wait_in_the_queue_are_still_read(void **state)
{
    (void)state;
    struct cluster c = cluster_new("t", 1);
    put_numbers(&c.client, "t", 0, 0, 20);
    struct mt_source *source = source_of(c.brokers, "t", "maxOffsetsPerTrigger", "10", NULL);
    char *start = start_of(source);
    struct mt_batch batch = {0};
    assert_true(next_batch(source, &start, MT_REACH_LATEST, &batch));
    mt_batch_release(&batch);
    rd_kafka_mock_partition_delete_records(c.mock, "t", 0, 15);
    assert_true(next_batch(source, &start, MT_REACH_LATEST, &batch));
    assert_numbers(&batch, 0, 10, 10);
    mt_batch_release(&batch);
    free(start);
    mt_source_free(source);
    cluster_free(&c);
}

static void a_log_that_ends_before_the_position_is_not_waited_for(void **state)
{
    (void)state;
    struct cluster c = cluster_new("t", 1);
    put_numbers(&c.client, "t", 0, 0, 20);
    const char *start = "{\"t\":{\"0\":100}}";
    struct mt_source *source = source_of(c.brokers, "t", NULL);
    assert_loss(source, start, MT_REACH_ARRIVED, "t[0]: offsets 20 to 99 are gone");
    mt_source_free(source);
    source = source_of(c.brokers, "t", "failOnDataLoss", "false", NULL);
    struct mt_ends ends = ends_of(source, start, MT_REACH_LATEST);
    assert_string_equal(ends.end,
                        "{\"t\":{\"0\":20}}"); /* Spark's: the lower end is the next start */
    struct mt_batch batch = batch_of(source, start, ends.end, ends.facts);
    assert_int_equal(batch.array.length, 0);
    mt_batch_release(&batch);
    mt_source_free(source);
    source = source_of(c.brokers, "t", "failOnDataLoss", "false", NULL);
    batch = batch_of(source, start, ends.end, ends.facts); /* the same plan, replayed */
    assert_int_equal(batch.array.length, 0);
    mt_batch_release(&batch);
    batch = batch_of(source, "{\"t\":{\"0\":15}}", "{\"t\":{\"0\":40}}", "{}");
    assert_numbers(&batch, 0, 5, 15);
    assert_int_equal(batch.array.length, 5);
    mt_batch_release(&batch);
    mt_ends_clear(&ends);
    mt_source_free(source);
    cluster_free(&c);
}

static void a_topic_that_vanished_is_a_loss_of_its_own(void **state)
{
    (void)state;
    struct cluster c = cluster_new("t", 1);
    put_numbers(&c.client, "t", 0, 0, 20);
    struct mt_source *source = source_of(c.brokers, "t", NULL);
    char *start = start_of(source);
    take_rows(source, &start, MT_REACH_LATEST, 20);
    assert_int_equal(rd_kafka_mock_topic_delete(c.mock, "t"), 0);
    assert_loss(source, start, MT_REACH_LATEST,
                "t[0] no longer exists: what it held from offset 20 on");
    free(start);
    mt_source_free(source);
    cluster_free(&c);
}

/* Deletes t and makes it again with n records. */
static void remake(struct cluster *c, int64_t first, int64_t n)
{
    assert_int_equal(rd_kafka_mock_topic_delete(c->mock, "t"), 0);
    assert_int_equal(rd_kafka_mock_topic_create(c->mock, "t", 1, 1), 0);
    struct client fresh = client_of(c->brokers, NULL);
    put_numbers(&fresh, "t", 0, first, n);
    client_free(&fresh);
}

/* Rows of the old topic are here still. They must not go into a plan under the id of the new
 * one: nothing would tell the two apart any more. */
static void a_topic_made_anew_is_noticed_while_brokers_tell_no_offsets(void **state)
{
    (void)state;
    struct cluster c = cluster_new("t", 1);
    put_numbers(&c.client, "t", 0, 0, 20);
    struct mt_source *source = source_of(c.brokers, "t", "maxBatchBytes", "200", NULL);
    struct mt_error err = {0};
    struct mt_ends ends = {0};
    struct mt_batch batch;
    char *start = start_of(source);
    assert_true(next_batch(source, &start, MT_REACH_LATEST, &batch));
    mt_batch_release(&batch); /* the rest is held */
    remake(&c, 1000, 300);
    for (int i = 0; i < 20; i++)
        rd_kafka_mock_push_request_errors(c.mock, LIST_OFFSETS, 1,
                                          RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT);
    assert_int_equal(source->type->available(source, start, MT_REACH_ARRIVED,
                                             mt_clock_ms() + 2 * KAFKA_REFRESH_MS, &ends, &err),
                     MT_RETRY);
    free(start);
    mt_source_free(source);
    cluster_free(&c);
}

static void a_topic_made_anew_is_told_from_the_old_one(void **state)
{
    (void)state;
    struct cluster c = cluster_new("t", 1);
    put_numbers(&c.client, "t", 0, 0, 20);
    struct mt_source *source = source_of(c.brokers, "t", NULL);
    char *start = start_of(source), *first = mt_strdup(start);
    struct mt_ends ends = ends_of(source, start, MT_REACH_LATEST);
    struct mt_batch batch = batch_of(source, start, ends.end, ends.facts);
    mt_batch_release(&batch);
    remake(&c, 1000, 300); /* longer than the old one was */
    assert_loss(source, ends.end, MT_REACH_LATEST, "topic t was deleted and made anew");
    mt_source_free(source);

    /* after a restart: a plan replayed, and a plan committed */
    struct mt_error err = {0};
    source = source_of(c.brokers, "t", NULL);
    assert_int_equal(try_read(source, first, ends.end, ends.facts, &batch, &err), MT_FATAL);
    assert_int_equal(err.class_, MT_CLASS_DATA_LOSS);
    assert_contains(err.text, "topic t was deleted and made anew");
    mt_source_free(source);
    source = source_of(c.brokers, "t", NULL);
    mt_source_remember(source, ends.facts);
    assert_loss(source, ends.end, MT_REACH_ARRIVED, "topic t was deleted and made anew");
    mt_source_free(source);

    /* going on: nothing of the new topic is missed */
    source = source_of(c.brokers, "t", "failOnDataLoss", "false", NULL);
    batch = batch_of(source, first, ends.end, ends.facts);
    assert_int_equal(batch.array.length, 0);
    mt_batch_release(&batch);
    struct mt_ends fresh = ends_of(source, ends.end, MT_REACH_LATEST);
    assert_string_equal(fresh.end, "{\"t\":{\"0\":300}}");
    assert_contains(fresh.facts, "\"from\":{\"t\":{\"0\":0}}");
    for (int restarted = 0; restarted < 2; restarted++) {
        batch = batch_of(source, ends.end, fresh.end, fresh.facts);
        assert_int_equal(batch.array.length, 300);
        assert_numbers(&batch, 0, 300, 1000);
        mt_batch_release(&batch);
        mt_source_free(source);
        source = source_of(c.brokers, "t", NULL); /* the policy was applied at the plan */
    }
    mt_source_free(source);
    mt_ends_clear(&ends), mt_ends_clear(&fresh);
    free(start), free(first);
    cluster_free(&c);
}

/* Longer than the old one was, so that what is received goes on as if nothing had been. */
static void a_topic_made_anew_is_found_while_records_arrive(void **state)
{
    (void)state;
    struct cluster c = cluster_new("t", 1);
    put_numbers(&c.client, "t", 0, 0, 20);
    struct mt_source *source = source_of(c.brokers, "t", NULL);
    char *start = start_of(source);
    take_rows(source, &start, MT_REACH_ARRIVED, 20);
    remake(&c, 1000, 300);
    struct mt_error err = {0};
    struct mt_ends ends = {0};
    enum mt_status status = MT_OK;
    int64_t began = mt_clock_ms(), now_ms = began;
    for (; status != MT_FATAL && now_ms < began + PATIENCE_MS; now_ms += 100) {
        status = source->type->available(source, start, MT_REACH_ARRIVED, now_ms, &ends, &err);
        mt_ends_clear(&ends);
        poll(NULL, 0, 5);
    }
    assert_int_equal(status, MT_FATAL);
    assert_int_equal(err.class_, MT_CLASS_DATA_LOSS);
    assert_contains(err.text, "topic t was deleted and made anew");
    assert_true(now_ms - began < 2 * KAFKA_REFRESH_MS); /* by the look, and not for want of it */
    free(start);
    mt_source_free(source);
    cluster_free(&c);
}

/* The new topic has come as far as the old one had: start and end are one text, and there are rows. */
static void a_topic_made_anew_of_the_same_length_is_read_whole(void **state)
{
    (void)state;
    struct cluster c = cluster_new("t", 1);
    put_numbers(&c.client, "t", 0, 0, 20);
    struct mt_source *source = source_of(c.brokers, "t", "failOnDataLoss", "false", NULL);
    char *start = start_of(source);
    take_rows(source, &start, MT_REACH_LATEST, 20);
    remake(&c, 1000, 20);
    struct mt_ends ends = ends_of(source, start, MT_REACH_LATEST);
    assert_string_equal(ends.end, start);
    assert_false(ends.nothing);
    for (int restarted = 0; restarted < 2; restarted++) {
        struct mt_batch batch = batch_of(source, start, ends.end, ends.facts);
        assert_int_equal(batch.array.length, 20);
        assert_numbers(&batch, 0, 20, 1000);
        mt_batch_release(&batch);
        struct mt_ends next = ends_of(source, start, MT_REACH_LATEST);
        assert_true(next.nothing);
        mt_ends_clear(&next);
        mt_source_free(source);
        source = source_of(c.brokers, "t", NULL);
    }
    mt_source_free(source);
    mt_ends_clear(&ends);
    free(start);
    cluster_free(&c);
}

/* ---- the demo's cluster */

static void the_producer_of_orders_makes_the_rows_it_was_asked_for(void **state)
{
    (void)state;
    struct mt_error err = {0};
    struct mt_mock *mock = mt_mock_new("orders", 3, &err);
    assert_non_null(mock);
    uint64_t prints[2];
    struct mt_source *source = source_of(mt_mock_brokers(mock), "orders", NULL);
    char *start = start_of(source);
    static const int32_t key_alone[] = {0};
    mt_source_project(source, key_alone, 1);
    for (int i = 0; i < 2; i++) { /* one seed, one stream of keys */
        mt_mock_produce(mock, 2000, 0.2, 42);
        int64_t until = mt_clock_ms() + PATIENCE_MS;
        while (mt_mock_produced(mock) < 2000 * (i + 1) && mt_clock_ms() < until)
            rest(source, false);
        struct mt_batch batch = {0};
        assert_true(next_batch(source, &start, MT_REACH_LATEST, &batch));
        assert_int_equal(batch.array.length, 2000);
        prints[i] = mt_batch_fingerprint(&batch);
        mt_batch_release(&batch);
    }
    assert_int_equal(prints[0], prints[1]);
    mt_mock_produce(mock, 1000000, 1000, 1);
    mt_mock_stop(mock); /* does not wait for the rest */
    free(start);
    mt_source_free(source);
    mt_mock_free(mock);
    assert_null(mt_mock_new("orders", 4, &err));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_rows_of_a_batch_have_one_order_and_every_record_comes_once),
        cmocka_unit_test(several_topics_are_read_in_order_of_name),
        cmocka_unit_test(nulls_stay_apart_from_empty_and_headers_come_when_asked_for),
        cmocka_unit_test(only_the_wanted_columns_are_built),
        cmocka_unit_test(a_timestamp_that_does_not_fit_is_refused_with_its_place),
        cmocka_unit_test(what_arrives_wakes_and_is_read_without_asking),
        cmocka_unit_test(no_batch_of_a_trickle_waits_for_a_broker),
        cmocka_unit_test(a_limit_is_shared_out_over_what_the_brokers_have),
        cmocka_unit_test(a_limit_holds_for_what_has_arrived),
        cmocka_unit_test(a_target_is_fixed_once_a_run),
        cmocka_unit_test(once_takes_everything_in_one_batch),
        cmocka_unit_test(bytes_cut_a_batch_and_no_partition_starves),
        cmocka_unit_test(a_record_larger_than_a_batch_is_a_batch),
        cmocka_unit_test(a_range_reads_the_same_again_in_this_process_and_in_the_next),
        cmocka_unit_test(ends_that_are_told_again_are_the_same_and_rows_come_once),
        cmocka_unit_test(an_earlier_start_than_the_consumer_has_is_gone_back_to),
        cmocka_unit_test(a_start_is_earliest_latest_or_what_json_says),
        cmocka_unit_test(a_topic_that_does_not_exist_is_named_and_not_made),
        cmocka_unit_test(a_broker_that_is_down_is_waited_for_in_words),
        cmocka_unit_test(a_broker_lost_in_the_middle_of_a_range_costs_no_row),
        cmocka_unit_test(a_topic_that_may_not_be_read_stops_with_the_acl),
        cmocka_unit_test(records_that_expired_stop_the_query_or_are_counted),
        cmocka_unit_test(a_plan_whose_records_expired_stops_or_reads_what_is_left),
        cmocka_unit_test(records_that_expire_while_they_wait_in_the_queue_are_still_read),
        cmocka_unit_test(a_log_that_ends_before_the_position_is_not_waited_for),
        cmocka_unit_test(a_topic_that_vanished_is_a_loss_of_its_own),
        cmocka_unit_test(a_topic_made_anew_is_noticed_while_brokers_tell_no_offsets),
        cmocka_unit_test(a_topic_made_anew_is_told_from_the_old_one),
        cmocka_unit_test(a_topic_made_anew_is_found_while_records_arrive),
        cmocka_unit_test(a_topic_made_anew_of_the_same_length_is_read_whole),
        cmocka_unit_test(the_producer_of_orders_makes_the_rows_it_was_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
