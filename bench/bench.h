/* SPDX-License-Identifier: Apache-2.0
 *
 * bench.h - what the two small programs of the benchmark share: a client's settings, and
 * a way out. */
#ifndef BENCH_H
#define BENCH_H
#include <librdkafka/rdkafka.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

static inline _Noreturn void give_up(const char *doing, const char *why)
{
    fprintf(stderr, "bench: %s: %s\n", doing, why);
    exit(1);
}

static inline double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static inline double cpu_s(void)
{
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    return (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
           (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) / 1e6;
}

/* settings: name, value, …, NULL */
static inline rd_kafka_t *new_client(rd_kafka_type_t type, const char *brokers,
                                     const char *const *settings, rd_kafka_conf_t *conf)
{
    char text[512];
    if (rd_kafka_conf_set(conf, "bootstrap.servers", brokers, text, sizeof text) !=
        RD_KAFKA_CONF_OK)
        give_up("bootstrap.servers", text);
    for (; *settings; settings += 2)
        if (rd_kafka_conf_set(conf, settings[0], settings[1], text, sizeof text) !=
            RD_KAFKA_CONF_OK)
            give_up(settings[0], text);
    rd_kafka_t *client = rd_kafka_new(type, conf, text, sizeof text);
    if (!client)
        give_up("a Kafka client", text);
    return client;
}
#endif
