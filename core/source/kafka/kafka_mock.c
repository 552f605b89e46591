/* SPDX-License-Identifier: Apache-2.0
 *
 * kafka_mock.c - the mock cluster and its producer of orders.
 *
 * The cluster belongs to a producer handle (test.mock.num.brokers), so that one object
 * has both and the brokers end with it. It stands for trying a job; tests of retention,
 * transactions or backlog need a real broker. */
#include <inttypes.h>
#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "batch/batch.h"
#include "kafka/kafka_newer.h"
#include "source/kafka/kafka_mock.h"

enum { FLUSH_MS = 10000, FULL_QUEUE_MS = 10 };

struct mt_mock {
    rd_kafka_t *producer;
    rd_kafka_topic_t *topic;
    const char *brokers; /* the cluster's */

    pthread_t thread;
    bool running;
    pthread_mutex_t lock; /* over stop */
    pthread_cond_t wake;
    bool stop;
    int64_t rows;
    double seconds;
    uint64_t random;
    _Atomic int64_t produced;
};

static void on_delivery(rd_kafka_t *rk, const rd_kafka_message_t *message, void *opaque)
{
    struct mt_mock *mock = opaque;
    (void)rk;
    if (message->err)
        mt_log(MT_ERROR, "mock: an order was not taken: %s", rd_kafka_err2str(message->err));
    else
        atomic_fetch_add(&mock->produced, 1);
}

static void on_log(const rd_kafka_t *rk, int level, const char *facility, const char *text)
{
    (void)rk, (void)level;
    mt_log(MT_DEBUG, "mock: %s: %s", facility, text);
}

static rd_kafka_t *new_producer(struct mt_mock *mock, struct mt_error *err)
{
    static const struct {
        const char *key, *value;
    } settings[] = {
        {"test.mock.num.brokers", "1"},
        {"linger.ms", "5"},
        {"partitioner", "consistent"},
        {"queue.buffering.max.messages", "100000"},
        {NULL, NULL},
    };
    char why[300] = "";
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    for (size_t i = 0; settings[i].key; i++)
        rd_kafka_conf_set(conf, settings[i].key, settings[i].value, why, sizeof why);
    rd_kafka_conf_set_opaque(conf, mock);
    rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
    rd_kafka_conf_set_log_cb(conf, on_log);
    rd_kafka_t *producer = rd_kafka_new(RD_KAFKA_PRODUCER, conf, why, sizeof why);
    if (!producer) {
        rd_kafka_conf_destroy(conf);
        mt_fail(err, MT_FATAL, MT_CLASS_MACHINE, "mock: no cluster could be made: %s", why);
    }
    return producer;
}

struct mt_mock *mt_mock_new(const char *topic, int32_t partitions, struct mt_error *err)
{
    if (partitions < 1 || partitions > 3) {
        mt_fail(err, MT_FATAL, MT_CLASS_USAGE, "mock: a topic has 1 to 3 partitions, not %d",
                partitions);
        return NULL;
    }
    struct mt_mock *mock = mt_alloc(sizeof *mock);
    pthread_mutex_init(&mock->lock, NULL);
    pthread_cond_init(&mock->wake, NULL);
    mock->producer = new_producer(mock, err);
    if (!mock->producer) {
        mt_mock_free(mock);
        return NULL;
    }
    rd_kafka_mock_cluster_t *cluster = rd_kafka_handle_mock_cluster(mock->producer);
    rd_kafka_resp_err_t why = rd_kafka_mock_topic_create(cluster, topic, partitions, 1);
    if (why) {
        mt_fail(err, MT_FATAL, MT_CLASS_MACHINE, "mock: topic %s: %s", topic,
                rd_kafka_err2str(why));
        mt_mock_free(mock);
        return NULL;
    }
    if (kafka_newer()->mock_set_controller) /* topic ids are asked of the controller */
        kafka_newer()->mock_set_controller(cluster, 1);
    mock->brokers = rd_kafka_mock_cluster_bootstraps(cluster);
    mock->topic = rd_kafka_topic_new(mock->producer, topic, NULL);
    return mock;
}

const char *mt_mock_brokers(const struct mt_mock *mock)
{
    return mock->brokers;
}

int64_t mt_mock_produced(const struct mt_mock *mock)
{
    return atomic_load(&mock->produced);
}

/* ---- orders */

/* splitmix64 */
static uint64_t next_random(struct mt_mock *mock)
{
    uint64_t z = mock->random += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

static void produce_one(struct mt_mock *mock, int64_t id)
{
    static const char *const events[] = {"purchase", "view", "click", "refund",
                                         "purchase", "view", "click", "view"};
    char user[16], amount[32] = "null", ts[40], value[256];
    uint64_t random = next_random(mock);
    snprintf(user, sizeof user, "u%03d", (int)(random % 500));
    if (random >> 60 != 0)
        snprintf(amount, sizeof amount, "%d.%02d", (int)(random >> 16 & 0xff),
                 (int)(random >> 32 & 0xff) % 100);
    mt_timestamp_print_iso(mt_clock_ms() * 1000, ts);
    int len = snprintf(value, sizeof value,
                       "{\"order_id\":%" PRId64 ",\"user_id\":\"%s\",\"event\":\"%s\","
                       "\"amount\":%s,\"ts\":\"%s\"}",
                       id, user, events[random >> 24 & 7], amount, ts);
    while (rd_kafka_produce(mock->topic, RD_KAFKA_PARTITION_UA, RD_KAFKA_MSG_F_COPY, value,
                            (size_t)len, user, strlen(user), NULL) == -1 &&
           rd_kafka_last_error() == RD_KAFKA_RESP_ERR__QUEUE_FULL)
        rd_kafka_poll(mock->producer, FULL_QUEUE_MS);
}

/* Waits until `us` on the monotonic clock; false: stop. */
static bool wait_until(struct mt_mock *mock, int64_t us)
{
    int64_t left_us = us - mt_clock_mono_us();
    struct timespec at;
    clock_gettime(CLOCK_REALTIME, &at);
    left_us += at.tv_nsec / 1000;
    at.tv_sec += left_us / 1000000;
    at.tv_nsec = left_us % 1000000 * 1000;
    pthread_mutex_lock(&mock->lock);
    while (!mock->stop && mt_clock_mono_us() < us)
        if (pthread_cond_timedwait(&mock->wake, &mock->lock, &at))
            break;
    bool go_on = !mock->stop;
    pthread_mutex_unlock(&mock->lock);
    return go_on;
}

static void *produce(void *self)
{
    struct mt_mock *mock = self;
    int64_t began = mt_clock_mono_us();
    double gap_us = mock->rows > 0 ? mock->seconds * 1e6 / (double)mock->rows : 0;
    for (int64_t i = 0; i < mock->rows; i++) {
        if (!wait_until(mock, began + (int64_t)((double)i * gap_us)))
            break;
        produce_one(mock, i + 1);
        rd_kafka_poll(mock->producer, 0);
    }
    rd_kafka_flush(mock->producer, FLUSH_MS);
    return NULL;
}

void mt_mock_produce(struct mt_mock *mock, int64_t rows, double seconds, uint64_t seed)
{
    mt_mock_stop(mock);
    mock->rows = rows;
    mock->seconds = seconds;
    mock->random = seed;
    mock->stop = false;
    mock->running = pthread_create(&mock->thread, NULL, produce, mock) == 0;
    if (!mock->running)
        mt_log(MT_ERROR, "mock: no thread for the producer");
}

void mt_mock_stop(struct mt_mock *mock)
{
    pthread_mutex_lock(&mock->lock);
    mock->stop = true;
    pthread_cond_signal(&mock->wake);
    pthread_mutex_unlock(&mock->lock);
    if (mock->running)
        pthread_join(mock->thread, NULL);
    mock->running = false;
}

void mt_mock_free(struct mt_mock *mock)
{
    if (!mock)
        return;
    mt_mock_stop(mock);
    if (mock->topic)
        rd_kafka_topic_destroy(mock->topic);
    if (mock->producer)
        rd_kafka_destroy(mock->producer);
    pthread_mutex_destroy(&mock->lock);
    pthread_cond_destroy(&mock->wake);
    free(mock);
}
