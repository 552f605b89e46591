/* SPDX-License-Identifier: Apache-2.0
 *
 * kafka_client.c - the two client handles, what they complain of, and waiting.
 *
 * Two, because a question asked on the handle that fetches waits behind the long poll of
 * its Fetch on the same connection: half a second for one ListOffsets where a handle of
 * its own takes a millisecond.
 *
 * What the client complains of (core/kafka/kafka_ear.c) is shown in the state and, every
 * five seconds, in the log. A refused login does not pass by waiting: before any broker has
 * answered it ends the start; later it is waited out, since then the settings were good once. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "source/kafka/kafka_int.h"

static enum mt_status open_handle(struct kafka *k, rd_kafka_conf_t *conf, int which,
                                  rd_kafka_t **out, struct mt_error *err)
{
    char why[512];
    static const uint64_t one = 1;
    mt_kafka_ear_attach(&k->ear, conf);
    *out = rd_kafka_new(RD_KAFKA_CONSUMER, conf, why, sizeof why);
    if (!*out) {
        rd_kafka_conf_destroy(conf);
        return mt_fail(err, MT_FATAL, MT_CLASS_SOURCE,
                       "kafka: the client cannot be made with these settings: %s", why);
    }
    k->events[which] = rd_kafka_queue_get_main(*out);
    rd_kafka_queue_io_event_enable(k->events[which], k->base.wake_fd, &one, sizeof one);
    return MT_OK;
}

enum mt_status kafka_open_meta(struct kafka *k, struct mt_error *err)
{
    if (k->meta)
        return MT_OK;
    if (k->has_group)
        mt_log(MT_WARN, "kafka: option \"kafka.group.id\" has no effect: partitions are read "
                        "without a consumer group");
    enum mt_status status = open_handle(k, rd_kafka_conf_dup(k->conf), 0, &k->meta, err);
    for (size_t i = 0; status == MT_OK && i < k->n_topics; i++)
        k->topics[i].meta = rd_kafka_topic_new(k->meta, k->topics[i].name, NULL);
    return status;
}

/* What a partition may hold ready: 32 MiB over all of them, unless the job says otherwise. A
 * short record held costs four times its bytes, so this is what peak memory is made of;
 * half as much as 64 MiB cost no speed that could be measured. */
static void bound_memory(struct kafka *k, rd_kafka_conf_t *conf, size_t n_partitions)
{
    enum { ALL_KB = 32768, LEAST_KB = 1024 };
    char text[30];
    if (mt_pairs_get(&k->settings, "queued.max.messages.kbytes"))
        return;
    size_t share = ALL_KB / (n_partitions ? n_partitions : 1);
    snprintf(text, sizeof text, "%zu", share > LEAST_KB ? share : LEAST_KB);
    rd_kafka_conf_set(conf, "queued.max.messages.kbytes", text, NULL, 0);
}

enum mt_status kafka_open_data(struct kafka *k, size_t n_partitions, struct mt_error *err)
{
    if (k->data)
        return MT_OK;
    rd_kafka_conf_t *conf = rd_kafka_conf_dup(k->conf);
    bound_memory(k, conf, n_partitions);
    enum mt_status status = open_handle(k, conf, 1, &k->data, err);
    for (size_t i = 0; status == MT_OK && i < k->n_topics; i++)
        k->topics[i].data = rd_kafka_topic_new(k->data, k->topics[i].name, NULL);
    return status;
}

enum mt_status kafka_listen(struct kafka *k, struct mt_error *err)
{
    uint64_t wakes;
    if (read(k->base.wake_fd, &wakes, sizeof wakes) < 0)
        wakes = 0; /* woken by the clock */
    if (k->meta)
        rd_kafka_poll(k->meta, 0);
    if (k->data)
        rd_kafka_poll(k->data, 0);
    return mt_kafka_ear_check(&k->ear, k->answered, k->brokers, MT_CLASS_SOURCE, err);
}

enum mt_status kafka_wait(struct kafka *k, int64_t now_ms, const char *fmt, ...)
{
    char what[sizeof k->base.state];
    va_list args;
    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    char *text = mt_kafka_ear_words(&k->ear, k->conf, k->answered, what);
    snprintf(k->base.state, sizeof k->base.state, "%s", text);
    if (now_ms - k->said_ms >=
        KAFKA_REFRESH_MS) { /* also when what was fetched before still flows */
        mt_log(MT_WARN, "kafka: %s", text);
        k->said_ms = now_ms;
        k->waiting = true;
    }
    free(text);
    k->base.again_ms = now_ms + 250;
    return MT_RETRY;
}

void kafka_go_on(struct kafka *k)
{
    if (k->waiting)
        mt_log(MT_INFO, "kafka: going on");
    k->waiting = false;
    k->base.state[0] = '\0';
    mt_kafka_ear_forget(&k->ear);
}

void kafka_close_clients(struct kafka *k)
{
    for (size_t i = 0; i < k->n_topics; i++) {
        if (k->topics[i].meta)
            rd_kafka_topic_destroy(k->topics[i].meta);
        if (k->topics[i].data)
            rd_kafka_topic_destroy(k->topics[i].data);
    }
    if (k->looks) {
        rd_kafka_queue_io_event_enable(k->looks, -1, NULL, 0);
        rd_kafka_queue_destroy(k->looks);
    }
    for (int i = 0; i < 2; i++)
        if (k->events[i]) {
            rd_kafka_queue_io_event_enable(k->events[i], -1, NULL, 0);
            rd_kafka_queue_destroy(k->events[i]);
        }
    if (k->data)
        rd_kafka_destroy(k->data);
    if (k->meta)
        rd_kafka_destroy(k->meta);
}
