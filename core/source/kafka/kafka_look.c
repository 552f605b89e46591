/* SPDX-License-Identifier: Apache-2.0
 *
 * kafka_look.c - whether all is as it was, asked without waiting.
 *
 * While records arrive, a batch asks the brokers nothing: a question takes milliseconds, and a
 * batch has less. But new partitions, topics made anew and logs that were cut have to be found.
 * So every few seconds a look goes out, and later batches find its answers in a queue. Mostly they
 * say what is known, and that was it. Where they do not, or do not come, the source asks as at a
 * start (kafka_topics.c), and waits for that. */
#include <string.h>

#include "kafka/kafka_newer.h"
#include "source/kafka/kafka_int.h"

bool kafka_can_look(const struct kafka *k)
{
    return kafka_newer()->describe_topics && kafka_newer()->list_offsets && !k->no_ids;
}

/* ---- the answers */

static bool topics_are_known(struct kafka *k, const void *result)
{
    const struct kafka_newer *newer = kafka_newer();
    size_t n = 0, partitions;
    char id[32];
    const kafka_topic_description **said = newer->result_topics(result, &n);
    for (size_t i = 0; i < n; i++) {
        const struct kafka_topic *topic = kafka_topic_described(k, said[i], id);
        if (!topic || strcmp(topic->id, id) != 0)
            return false;
        newer->description_partitions(said[i], &partitions);
        if ((size_t)topic->n_partitions != partitions)
            return false;
    }
    return n == k->n_topics;
}

/* Takes the ends of the logs. False: one cannot be had, or is before what was taken already. */
static bool take_latest(struct kafka *k, const void *result)
{
    const struct kafka_newer *newer = kafka_newer();
    size_t n = 0;
    const kafka_offset_info **said = newer->result_offsets(result, &n);
    for (size_t i = 0; i < n; i++) {
        const rd_kafka_topic_partition_t *one = newer->offset_info(said[i]);
        struct kafka_topic *topic = kafka_topic_of(k, one->topic);
        if (one->err || !topic)
            return false;
        struct kafka_partition *p = kafka_partition_of(k, topic, one->partition);
        if (one->offset < p->looked_from)
            return false;
        p->latest = one->offset;
    }
    return true;
}

static bool is_as_known(struct kafka *k, rd_kafka_event_t *event)
{
    const void *topics = kafka_newer()->event_topics(event);
    if (rd_kafka_event_error(event))
        return false;
    return topics ? topics_are_known(k, topics)
                  : take_latest(k, kafka_newer()->event_offsets(event));
}

static void take_answers(struct kafka *k, int64_t now_ms)
{
    rd_kafka_event_t *event;
    while (k->looking > 0 && (event = rd_kafka_queue_poll(k->looks, 0))) {
        k->looking--;
        k->look_failed |= !is_as_known(k, event);
        rd_kafka_event_destroy(event);
        if (k->looking == 0 && !k->look_failed && !k->doubt_ms)
            k->checked_ms = now_ms;
    }
}

/* ---- the questions */

static void ask_latest(struct kafka *k)
{
    const struct kafka_newer *newer = kafka_newer();
    rd_kafka_AdminOptions_t *options = kafka_admin_options(k);
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new((int)k->n_parts);
    for (size_t i = 0; i < k->n_parts; i++) {
        struct kafka_partition *p = k->parts[i];
        if (!p->in_range)
            continue;
        rd_kafka_topic_partition_list_add(list, p->topic->name, p->id)->offset =
            RD_KAFKA_OFFSET_END;
        p->looked_from = p->from;
    }
    rd_kafka_error_t *refused = newer->set_isolation(options, kafka_reads_committed(k) ? 1 : 0);
    if (refused)
        rd_kafka_error_destroy(refused);
    newer->list_offsets(k->meta, list, options, k->looks);
    rd_kafka_topic_partition_list_destroy(list);
    rd_kafka_AdminOptions_destroy(options);
}

static void begin(struct kafka *k)
{
    static const uint64_t one = 1;
    if (!k->looks) {
        k->looks = rd_kafka_queue_new(k->meta);
        rd_kafka_queue_io_event_enable(k->looks, k->base.wake_fd, &one, sizeof one);
    }
    kafka_describe_topics(k, k->looks);
    ask_latest(k);
    k->looking = 2;
}

void kafka_look(struct kafka *k, int64_t now_ms)
{
    take_answers(k, now_ms);
    bool due = k->checked_ms && now_ms - k->checked_ms >= KAFKA_REFRESH_MS;
    if (due && k->looking == 0 && !k->look_failed && !k->ear.down && kafka_can_look(k))
        begin(k);
}
