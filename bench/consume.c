/* SPDX-License-Identifier: Apache-2.0
 *
 * consume.c BROKERS TOPIC PARTITIONS - how fast librdkafka alone hands out a topic: the
 * measure that the job is held against.
 *
 * One client, one queue a partition, up to 4,096 messages a call, each freed at once.
 * The clock starts before the client exists, as it does for the job. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"

enum { MOST = 4096, PARTITIONS_MOST = 64, TIMEOUT_MS = 10000 };

/* Thresholds above what a partition holds, or librdkafka stops fetching and starts again. */
static const char *const settings[] = {
    "enable.partition.eof",
    "true",
    "queued.min.messages",
    "1000000",
    "queued.max.messages.kbytes",
    "65536",
    "check.crcs",
    "true",
    NULL,
};

struct partition {
    rd_kafka_queue_t *queue;
    int64_t next, end;
};

static void ask_ends(rd_kafka_t *client, const char *topic, struct partition *partitions, int n)
{
    for (int i = 0; i < n; i++) {
        rd_kafka_resp_err_t error = rd_kafka_query_watermark_offsets(
            client, topic, i, &partitions[i].next, &partitions[i].end, TIMEOUT_MS);
        if (error)
            give_up("the ends of the topic", rd_kafka_err2str(error));
    }
}

/* Rows taken from one partition now; 0: none are here. */
static int64_t take(struct partition *partition)
{
    rd_kafka_message_t *messages[MOST];
    int64_t left = partition->end - partition->next, rows = 0;
    size_t most = left < MOST ? (size_t)left : MOST;
    ssize_t n = most ? rd_kafka_consume_batch_queue(partition->queue, 0, messages, most) : 0;
    for (ssize_t i = 0; i < n; i++) {
        const rd_kafka_message_t *message = messages[i];
        if (!message->err) {
            partition->next = message->offset + 1;
            rows++;
        } else if (message->err != RD_KAFKA_RESP_ERR__PARTITION_EOF) {
            give_up("consume", rd_kafka_message_errstr(message));
        } else if (message->offset > partition->next) {
            partition->next = message->offset;
        }
        rd_kafka_message_destroy(messages[i]);
    }
    return rows;
}

static bool all_read(const struct partition *partitions, int n)
{
    for (int i = 0; i < n; i++)
        if (partitions[i].next < partitions[i].end)
            return false;
    return true;
}

static int64_t consume(struct partition *partitions, int n, int wake)
{
    int64_t rows = 0;
    while (!all_read(partitions, n)) {
        int64_t before = rows;
        for (int i = 0; i < n; i++)
            rows += take(&partitions[i]);
        if (rows > before || all_read(partitions, n))
            continue;
        struct pollfd arrived = {.fd = wake, .events = POLLIN};
        char bytes[512];
        if (poll(&arrived, 1, 1000) > 0 && read(wake, bytes, sizeof bytes) < 0)
            give_up("consume", strerror(errno));
    }
    return rows;
}

int main(int argc, char **argv)
{
    if (argc != 4 || atoi(argv[3]) < 1 || atoi(argv[3]) > PARTITIONS_MOST)
        give_up("usage", "bench_consume BROKERS TOPIC PARTITIONS");
    const char *brokers = argv[1], *name = argv[2];
    int n = atoi(argv[3]), wake[2];
    struct partition partitions[PARTITIONS_MOST] = {0};
    double start = now_s();
    rd_kafka_t *client = new_client(RD_KAFKA_CONSUMER, brokers, settings, rd_kafka_conf_new());
    rd_kafka_topic_t *topic = rd_kafka_topic_new(client, name, NULL);
    if (pipe2(wake, O_NONBLOCK) != 0)
        give_up("a pipe", strerror(errno));
    ask_ends(client, name, partitions, n);
    for (int i = 0; i < n; i++) {
        partitions[i].queue = rd_kafka_queue_new(client);
        rd_kafka_queue_io_event_enable(partitions[i].queue, wake[1], "1", 1);
        if (rd_kafka_consume_start_queue(topic, i, partitions[i].next, partitions[i].queue) != 0)
            give_up("consume", rd_kafka_err2str(rd_kafka_last_error()));
    }
    int64_t rows = consume(partitions, n, wake[0]);
    printf("{\"rows\":%" PRId64 ",\"seconds\":%.3f,\"cpu_s\":%.3f}\n", rows, now_s() - start,
           cpu_s());
    fflush(stdout);
    _exit(0); /* closing a consumer may wait for its brokers; nothing is kept */
}
