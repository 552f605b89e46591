/* SPDX-License-Identifier: Apache-2.0
 *
 * produce.c BROKERS TOPIC ROWS - fills a topic with JSON orders and says what the
 * benchmark's job must make of them.
 *
 * The rows are the same on every run: about 86 bytes, four events in turn, 200,000
 * users, event time 1 s a thousand rows, amounts in whole cents of which a few are
 * zero. What the filter keeps is counted here, apart from everything that is measured,
 * so that a run that loses, doubles or misreads a row is found. */
#include <inttypes.h>
#include <stdint.h>

#include "bench.h"

enum { USERS = 200000, CENTS = 50000 };

static const char *const events[] = {"view", "click", "purchase", "refund"};
static const char *const settings[] = {
    "compression.type",
    "lz4",
    "linger.ms",
    "20",
    "batch.num.messages",
    "10000",
    "queue.buffering.max.messages",
    "1000000",
    NULL,
};

struct totals {
    int64_t bytes, kept, kept_cents;
};

static uint64_t next_random(uint64_t *state)
{
    uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static size_t make_row(int64_t i, uint64_t *random, char *text, size_t cap, struct totals *totals)
{
    int user = (int)(next_random(random) % USERS), cents = (int)(next_random(random) % CENTS);
    int len = snprintf(text, cap,
                       "{\"user_id\":\"u%06d\",\"event\":\"%s\",\"amount\":%d.%02d,"
                       "\"ts\":\"2026-11-29T10:%02d:%02d.%03dZ\"}",
                       user, events[i & 3], cents / 100, cents % 100, (int)(i / 60000 % 60),
                       (int)(i / 1000 % 60), (int)(i % 1000));
    totals->bytes += len;
    if ((i & 3) >= 2 && cents > 0) {
        totals->kept++;
        totals->kept_cents += cents;
    }
    return (size_t)len;
}

static void on_delivery(rd_kafka_t *client, const rd_kafka_message_t *message, void *failed)
{
    (void)client;
    if (message->err)
        ++*(int64_t *)failed;
}

static void send_row(rd_kafka_t *client, rd_kafka_topic_t *topic, char *row, size_t len, int64_t i)
{
    char key[16];
    int key_len = snprintf(key, sizeof key, "u%06d", (int)(i % USERS));
    while (rd_kafka_produce(topic, RD_KAFKA_PARTITION_UA, RD_KAFKA_MSG_F_COPY, row, len, key,
                            (size_t)key_len, NULL) != 0) {
        rd_kafka_resp_err_t error = rd_kafka_last_error();
        if (error != RD_KAFKA_RESP_ERR__QUEUE_FULL)
            give_up("produce", rd_kafka_err2str(error));
        rd_kafka_poll(client, 100);
    }
    if (i % 10000 == 0)
        rd_kafka_poll(client, 0);
}

int main(int argc, char **argv)
{
    if (argc != 4)
        give_up("usage", "bench_produce BROKERS TOPIC ROWS");
    int64_t rows = atoll(argv[3]), failed = 0;
    uint64_t random = 7;
    struct totals totals = {0};
    double start = now_s();
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
    rd_kafka_conf_set_opaque(conf, &failed);
    rd_kafka_t *client = new_client(RD_KAFKA_PRODUCER, argv[1], settings, conf);
    rd_kafka_topic_t *topic = rd_kafka_topic_new(client, argv[2], NULL);
    for (int64_t i = 0; i < rows; i++) {
        char row[200];
        size_t len = make_row(i, &random, row, sizeof row, &totals);
        send_row(client, topic, row, len, i);
    }
    if (rd_kafka_flush(client, 120000) != RD_KAFKA_RESP_ERR_NO_ERROR || failed > 0)
        give_up("produce", "not every row was stored");
    printf("{\"rows\":%" PRId64 ",\"bytes\":%" PRId64 ",\"kept\":%" PRId64
           ",\"kept_cents\":%" PRId64 ",\"seconds\":%.3f}\n",
           rows, totals.bytes, totals.kept, totals.kept_cents, now_s() - start);
    rd_kafka_topic_destroy(topic);
    rd_kafka_destroy(client);
    return 0;
}
