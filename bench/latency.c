/* SPDX-License-Identifier: Apache-2.0
 *
 * latency.c BROKERS TOPIC PARTITIONS RATE SECONDS - from produce() to committed, for each record.
 *
 * Produces RATE records a second, in turn to the partitions of an empty topic, while `moontide run
 * --json` reads it and writes its progress to this program's standard input. A batch's line comes
 * after its commit, so when the line is here, all before its end offsets is committed: what is
 * measured is what a reader of the progress sees, the way through the pipe included. The first
 * WARM_UP_S are left out.
 *
 * A consumer of librdkafka alone reads beside it: what broker and machine take before any job has a
 * record. The rest is the job's own, as long as there is a core for each of the two. */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "bench.h"

enum { WARM_UP_S = 3, PARTITIONS_MOST = 64 };

static const char *const settings[] = {"linger.ms", "0", "acks", "all", NULL};
static const char *const beside[] = {"fetch.wait.max.ms", "20", NULL}; /* as the job's */

static struct {
    const char *brokers, *topic;
    int partitions, rate;
    int64_t records, warm_up;
    double *produced;           /* s */
    double *took, *alone, *own; /* ms until it was committed; received; from there to committed */
    atomic_llong sent, committed;
} all;

static void sleep_until(double at)
{
    struct timespec till = {(time_t)at, (long)((at - (double)(time_t)at) * 1e9)};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &till, NULL);
}

static double when_committed(int64_t records)
{
    while (atomic_load(&all.committed) < records)
        sleep_until(now_s() + 0.001);
    return now_s();
}

static void *produce_all(void *nothing)
{
    rd_kafka_t *client = new_client(RD_KAFKA_PRODUCER, all.brokers, settings, rd_kafka_conf_new());
    rd_kafka_topic_t *topic = rd_kafka_topic_new(client, all.topic, NULL);
    const struct rd_kafka_metadata *known;
    rd_kafka_metadata(client, 0, topic, &known, 10000); /* or the first records wait for it */
    double began = 0;
    for (int64_t i = 0; i < all.records; i++) {
        if (i == all.partitions) /* the first ones show that the job is there */
            began = when_committed(i) - (double)i / all.rate;
        char row[120];
        int len = snprintf(row, sizeof row,
                           "{\"user_id\":\"u%06d\",\"event\":\"purchase\",\"amount\":%d.50,"
                           "\"ts\":\"2026-11-29T10:00:00.000Z\"}",
                           (int)(i % 200000), (int)(i % 500));
        sleep_until(began + (double)i / all.rate);
        all.produced[i] = now_s();
        atomic_store(&all.sent, i + 1);
        if (rd_kafka_produce(topic, (int32_t)(i % all.partitions), RD_KAFKA_MSG_F_COPY, row,
                             (size_t)len, NULL, 0, NULL) != 0)
            give_up("produce", rd_kafka_err2str(rd_kafka_last_error()));
        rd_kafka_poll(client, 0);
    }
    rd_kafka_flush(client, 10000);
    rd_kafka_metadata_destroy(known);
    rd_kafka_topic_destroy(topic);
    rd_kafka_destroy(client);
    return nothing;
}

/* The number of a record among all. */
static int64_t number_of(int64_t offset, int partition)
{
    int64_t i = offset * all.partitions + partition;
    if (i >= atomic_load(&all.sent))
        give_up("the topic", "it was not empty");
    return i;
}

static void *receive_all(void *nothing)
{
    rd_kafka_t *client = new_client(RD_KAFKA_CONSUMER, all.brokers, beside, rd_kafka_conf_new());
    rd_kafka_topic_t *topic = rd_kafka_topic_new(client, all.topic, NULL);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(client);
    for (int p = 0; p < all.partitions; p++)
        rd_kafka_consume_start_queue(topic, p, 0, queue);
    for (int64_t n = 0; n < all.records;) {
        rd_kafka_message_t *message = rd_kafka_consume_queue(queue, 1000);
        if (!message)
            continue;
        double now = now_s();
        if (!message->err) {
            int64_t i = number_of(message->offset, message->partition);
            all.alone[i] = (now - all.produced[i]) * 1e3;
            n++;
        }
        rd_kafka_message_destroy(message);
    }
    for (int p = 0; p < all.partitions; p++)
        rd_kafka_consume_stop(topic, p);
    rd_kafka_queue_destroy(queue);
    rd_kafka_topic_destroy(topic);
    rd_kafka_destroy(client);
    return nothing;
}

/* The end offset of a partition in a progress line; -1: none there. */
static int64_t end_of(const char *line, int partition)
{
    char name[16];
    const char *at = strstr(line, "\"endOffset\":");
    snprintf(name, sizeof name, "\"%d\":", partition);
    at = at ? strstr(at, name) : NULL;
    return at ? atoll(at + strlen(name)) : -1;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Reads progress until every record is committed; how many batches that were. */
static int64_t follow(void)
{
    int64_t next[PARTITIONS_MOST] = {0}, done = 0, batches = 0;
    char *line = NULL;
    size_t cap = 0;
    while (done < all.records && getline(&line, &cap, stdin) > 0) {
        double now = now_s();
        batches++;
        for (int p = 0; p < all.partitions; p++)
            for (int64_t end = end_of(line, p); next[p] < end; next[p]++, done++) {
                int64_t i = number_of(next[p], p);
                all.took[i] = (now - all.produced[i]) * 1e3;
            }
        atomic_store(&all.committed, done);
    }
    free(line);
    if (done < all.records)
        give_up("the job", "it ended before all was committed");
    return batches;
}

/* Sorts the measured ones and adds name_p50_ms and name_p99_ms. */
static void print_part(const char *name, double *ms)
{
    int64_t n = all.records - all.warm_up;
    qsort(ms + all.warm_up, (size_t)n, sizeof *ms, by_size);
    printf(",\"%sp50_ms\":%.2f,\"%sp99_ms\":%.2f", name, ms[all.warm_up + n / 2], name,
           ms[all.warm_up + n * 99 / 100]);
}

static void print_all(int64_t batches)
{
    for (int64_t i = 0; i < all.records; i++)
        all.own[i] = all.took[i] - all.alone[i];
    printf("{\"records\":%" PRId64 ",\"batches\":%" PRId64, all.records - all.warm_up, batches);
    print_part("", all.took);
    printf(",\"max_ms\":%.2f", all.took[all.records - 1]);
    print_part("alone_", all.alone);
    print_part("own_", all.own);
    printf("}\n");
}

static double *new_times(void)
{
    double *times = calloc((size_t)all.records, sizeof *times);
    if (!times)
        give_up("start", "no memory");
    return times;
}

int main(int argc, char **argv)
{
    pthread_t producer, receiver;
    if (argc != 6)
        give_up("usage", "bench_latency BROKERS TOPIC PARTITIONS RATE SECONDS");
    all.brokers = argv[1], all.topic = argv[2], all.partitions = atoi(argv[3]);
    all.rate = atoi(argv[4]);
    if (all.partitions < 1 || all.partitions > PARTITIONS_MOST || all.rate < 1)
        give_up("usage", "1 to 64 partitions, at least one record a second");
    all.warm_up = (int64_t)all.rate * WARM_UP_S;
    all.records = all.warm_up + (int64_t)all.rate * atoi(argv[5]);
    all.produced = new_times(), all.took = new_times();
    all.alone = new_times(), all.own = new_times();
    if (pthread_create(&producer, NULL, produce_all, NULL) != 0 ||
        pthread_create(&receiver, NULL, receive_all, NULL) != 0)
        give_up("start", "no thread");
    int64_t batches = follow();
    pthread_join(producer, NULL), pthread_join(receiver, NULL);
    print_all(batches);
    free(all.produced), free(all.took), free(all.alone), free(all.own);
    return 0;
}
