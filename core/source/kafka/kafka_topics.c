/* SPDX-License-Identifier: Apache-2.0
 *
 * kafka_topics.c - what is asked of the brokers: partitions, topic ids, offsets.
 *
 * Every answer is fetched anew and never from the client's cache: a cached watermark is
 * the end of the log, also where a reader of committed records gets only to the last
 * stable offset, and may be minutes old. Each question waits a second at most; without
 * an answer the caller gets RETRY and asks again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kafka/kafka_newer.h"
#include "source/kafka/kafka_int.h"

enum {
    MISSING_TOPIC_MS = 3000, /* metadata of a topic just made may be late */
    GIVE_UP_IDS = 5,         /* times without topic ids, while metadata was answered */
};

static enum mt_status no_answer(struct kafka *k, int64_t now_ms, rd_kafka_resp_err_t why)
{
    return kafka_wait(k, now_ms, "waiting for brokers at %s (%s)", k->brokers,
                      rd_kafka_err2str(why));
}

static enum mt_status not_allowed(const char *topic, const char *operation, struct mt_error *err)
{
    return mt_fail(err, MT_FATAL, MT_CLASS_SOURCE,
                   "kafka: topic %s: not authorized; the user of this job needs the ACLs DESCRIBE "
                   "and READ on it (%s was refused)",
                   topic, operation);
}

struct kafka_topic *kafka_topic_of(struct kafka *k, const char *name)
{
    for (size_t i = 0; i < k->n_topics; i++)
        if (strcmp(k->topics[i].name, name) == 0)
            return &k->topics[i];
    return NULL;
}

static bool is_assigned(const struct kafka_topic *topic, int32_t partition)
{
    for (size_t i = 0; i < topic->n_assigned; i++)
        if (topic->assigned[i] == partition)
            return true;
    return topic->n_assigned == 0;
}

bool kafka_topic_has(const struct kafka_topic *topic, int32_t partition)
{
    return partition < topic->n_partitions && is_assigned(topic, partition);
}

static bool comes_before(const struct kafka_partition *p, const struct kafka_topic *topic,
                         int32_t id)
{
    return p->topic == topic ? p->id < id : p->topic < topic; /* topics are sorted */
}

struct kafka_partition *kafka_partition_of(struct kafka *k, struct kafka_topic *topic, int32_t id)
{
    size_t i = 0, high = k->n_parts;
    while (i < high) {
        size_t middle = i + (high - i) / 2;
        if (comes_before(k->parts[middle], topic, id))
            i = middle + 1;
        else
            high = middle;
    }
    if (i < k->n_parts && k->parts[i]->topic == topic && k->parts[i]->id == id)
        return k->parts[i];
    struct kafka_partition *p = mt_alloc(sizeof *p);
    *p = (struct kafka_partition){.topic = topic, .id = id, .eof = -1, .epoch = -1};
    k->parts = mt_realloc(k->parts, (k->n_parts + 1) * sizeof(struct kafka_partition *));
    memmove(&k->parts[i + 1], &k->parts[i], (k->n_parts - i) * sizeof(struct kafka_partition *));
    k->parts[i] = p;
    k->n_parts++;
    return p;
}

/* ---- partitions */

static enum mt_status take_topic(struct kafka *k, const rd_kafka_metadata_topic_t *said,
                                 int64_t now_ms, struct mt_error *err)
{
    struct kafka_topic *topic = kafka_topic_of(k, said->topic);
    if (!topic)
        return MT_OK;
    switch (said->err) {
    case RD_KAFKA_RESP_ERR_NO_ERROR:
        topic->n_partitions = said->partition_cnt;
        return MT_OK;
    case RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART:
        topic->n_partitions = 0;
        return MT_OK;
    case RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED:
        return not_allowed(topic->name, "Metadata", err);
    case RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION:
        return mt_fail(err, MT_FATAL, MT_CLASS_SOURCE, "kafka: \"%s\" is no valid name of a topic",
                       topic->name);
    default: /* such as LEADER_NOT_AVAILABLE */
        return kafka_wait(k, now_ms, "waiting for topic %s (%s)", topic->name,
                          rd_kafka_err2str(said->err));
    }
}

static enum mt_status ask_partitions(struct kafka *k, int64_t now_ms, struct mt_error *err)
{
    const struct rd_kafka_metadata *said;
    rd_kafka_resp_err_t why = rd_kafka_metadata(k->meta, 0, NULL, &said, KAFKA_REQUEST_MS);
    if (why)
        return no_answer(k, now_ms, why);
    enum mt_status status = MT_OK;
    for (int i = 0; status == MT_OK && i < said->topic_cnt; i++)
        status = take_topic(k, &said->topics[i], now_ms, err);
    rd_kafka_metadata_destroy(said);
    k->answered = true;
    k->ear.down = false;
    return status;
}

/* ---- topic ids */

struct kafka_topic *kafka_topic_described(struct kafka *k, const kafka_topic_description *said,
                                          char id[32])
{
    const struct kafka_newer *newer = kafka_newer();
    struct kafka_topic *topic = kafka_topic_of(k, newer->description_name(said));
    const char *text = newer->uuid_text(newer->description_id(said));
    if (!topic || rd_kafka_error_code(newer->description_error(said)) || !text)
        return NULL;
    bool zero = strspn(text, "A=") == strlen(text);
    snprintf(id, 32, "%s", zero ? "" : text);
    return topic;
}

static void take_ids(struct kafka *k, rd_kafka_event_t *event)
{
    const struct kafka_newer *newer = kafka_newer();
    size_t n = 0;
    char id[32];
    const kafka_topic_description **said = newer->result_topics(newer->event_topics(event), &n);
    for (size_t i = 0; i < n; i++) {
        struct kafka_topic *topic = kafka_topic_described(k, said[i], id);
        if (!topic)
            continue;
        memcpy(topic->id, id, sizeof topic->id);
        if (!topic->ours[0])
            memcpy(topic->ours, topic->id, sizeof topic->ours);
    }
}

rd_kafka_AdminOptions_t *kafka_admin_options(const struct kafka *k)
{
    char why[200];
    rd_kafka_AdminOptions_t *options = rd_kafka_AdminOptions_new(k->meta, RD_KAFKA_ADMIN_OP_ANY);
    if (rd_kafka_AdminOptions_set_request_timeout(options, KAFKA_REQUEST_MS, why, sizeof why))
        mt_log(MT_DEBUG, "kafka: %s", why);
    return options;
}

void kafka_describe_topics(struct kafka *k, rd_kafka_queue_t *queue)
{
    const struct kafka_newer *newer = kafka_newer();
    const char **names = mt_alloc(k->n_topics * sizeof *names);
    for (size_t i = 0; i < k->n_topics; i++)
        names[i] = k->topics[i].name;
    kafka_topic_collection *topics = newer->topic_names(names, k->n_topics);
    rd_kafka_AdminOptions_t *options = kafka_admin_options(k);
    newer->describe_topics(k->meta, topics, options, queue);
    rd_kafka_AdminOptions_destroy(options);
    newer->topic_names_destroy(topics);
    free(names);
}

static enum mt_status ask_ids(struct kafka *k, int64_t now_ms)
{
    if (!kafka_newer()->describe_topics || k->no_ids)
        return MT_OK;
    rd_kafka_queue_t *queue = rd_kafka_queue_new(k->meta);
    kafka_describe_topics(k, queue);
    rd_kafka_event_t *event = rd_kafka_queue_poll(queue, KAFKA_REQUEST_MS);
    rd_kafka_resp_err_t why = event ? rd_kafka_event_error(event) : RD_KAFKA_RESP_ERR__TIMED_OUT;
    if (why == RD_KAFKA_RESP_ERR_NO_ERROR)
        take_ids(k, event);
    k->ids_refused = why ? k->ids_refused + 1 : 0;
    if (why == RD_KAFKA_RESP_ERR__UNSUPPORTED_FEATURE || k->ids_refused >= GIVE_UP_IDS) {
        mt_log(MT_WARN,
               "kafka: the brokers do not tell topic ids (%s): a topic made anew is noticed "
               "by its offsets only",
               rd_kafka_err2str(why));
        k->no_ids = true;
    }
    if (event)
        rd_kafka_event_destroy(event);
    rd_kafka_queue_destroy(queue);
    return why && !k->no_ids ? no_answer(k, now_ms, why) : MT_OK;
}

static void ask_cluster(struct kafka *k)
{
    if (k->cluster[0])
        return;
    char *id = rd_kafka_clusterid(k->meta, 0); /* known since the first metadata */
    if (id) {
        snprintf(k->cluster, sizeof k->cluster, "%s", id);
        rd_kafka_mem_free(k->meta, id);
    }
}

enum mt_status kafka_ask_topics(struct kafka *k, int64_t now_ms, struct mt_error *err)
{
    enum mt_status status = kafka_open_meta(k, err);
    if (status == MT_OK)
        status = kafka_listen(k, err);
    if (status == MT_OK)
        status = ask_partitions(k, now_ms, err);
    if (status == MT_OK)
        status = ask_ids(k, now_ms);
    if (status == MT_OK)
        ask_cluster(k);
    return status;
}

/* `did you mean "orders"?` or a list, for the error text. */
static char *other_topics(struct kafka *k, const char *missing)
{
    const struct rd_kafka_metadata *said;
    if (rd_kafka_metadata(k->meta, 1, NULL, &said, KAFKA_REQUEST_MS))
        return mt_strdup("the others could not be listed");
    const char **names = mt_alloc(((size_t)said->topic_cnt + 1) * sizeof *names);
    struct mt_buf text = {0};
    size_t n = 0;
    for (int i = 0; i < said->topic_cnt; i++)
        if (strncmp(said->topics[i].topic, "__", 2) != 0 && !said->topics[i].err)
            names[n++] = said->topics[i].topic;
    const char *near = mt_suggest(missing, names);
    if (near)
        mt_buf_addf(&text, "did you mean \"%s\"?", near);
    else
        mt_buf_adds(&text, n ? "there are: " : "there are none");
    for (size_t i = 0; !near && i < n && i < 20; i++)
        mt_buf_addf(&text, "%s%s", i ? ", " : "", names[i]);
    if (!near && n > 20)
        mt_buf_addf(&text, " and %zu more", n - 20);
    free(names);
    rd_kafka_metadata_destroy(said);
    return text.data;
}

static enum mt_status topic_missing(struct kafka *k, const struct kafka_topic *topic,
                                    int64_t now_ms, struct mt_error *err)
{
    if (!k->doubt_ms)
        k->doubt_ms = now_ms;
    if (now_ms - k->doubt_ms < MISSING_TOPIC_MS)
        return kafka_wait(k, now_ms, "waiting for topic %s to exist", topic->name);
    char *others = other_topics(k, topic->name);
    mt_fail(err, MT_FATAL, MT_CLASS_SOURCE, "kafka: topic \"%s\" does not exist on %s; %s",
            topic->name, k->brokers, others);
    snprintf(err->option, sizeof err->option, "%s", k->subscribe ? "subscribe" : "assign");
    free(others);
    return MT_FATAL;
}

static enum mt_status check_assigned(const struct kafka_topic *topic, struct mt_error *err)
{
    for (size_t i = 0; i < topic->n_assigned; i++)
        if (topic->assigned[i] >= topic->n_partitions) {
            mt_fail(err, MT_FATAL, MT_CLASS_SOURCE,
                    "kafka: option \"assign\" names partition %d of topic \"%s\", which has "
                    "%d (from 0 on)",
                    topic->assigned[i], topic->name, topic->n_partitions);
            snprintf(err->option, sizeof err->option, "assign");
            return MT_FATAL;
        }
    return MT_OK;
}

enum mt_status kafka_topics_exist(struct kafka *k, const struct mt_offsets *known, int64_t now_ms,
                                  struct mt_error *err)
{
    for (size_t i = 0; i < k->n_topics; i++) {
        const struct kafka_topic *topic = &k->topics[i];
        bool was_there = false;
        for (size_t j = 0; known && j < known->n; j++)
            was_there |= strcmp(known->items[j].topic, topic->name) == 0;
        enum mt_status status =
            topic->n_partitions == 0 && !was_there ? topic_missing(k, topic, now_ms, err) : MT_OK;
        if (status == MT_OK && topic->n_partitions > 0 && !was_there)
            status = check_assigned(topic, err);
        if (status != MT_OK)
            return status;
    }
    return MT_OK;
}

/* ---- offsets */

static enum mt_status take_offset(struct kafka *k, const rd_kafka_topic_partition_t *said,
                                  bool latest, int64_t now_ms, struct mt_error *err)
{
    if (said->err == RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED)
        return not_allowed(said->topic, "ListOffsets", err);
    if (said->err || said->offset < 0)
        return kafka_wait(k, now_ms, "waiting for the offsets of %s[%d] (%s)", said->topic,
                          said->partition, rd_kafka_err2str(said->err));
    struct kafka_partition *p =
        kafka_partition_of(k, kafka_topic_of(k, said->topic), said->partition);
    *(latest ? &p->latest : &p->earliest) = said->offset;
    return MT_OK;
}

/* One request a leader, whatever the number of partitions. */
static enum mt_status ask_ends(struct kafka *k, bool latest, int64_t now_ms, struct mt_error *err)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new((int)k->n_parts);
    enum mt_status status = MT_OK;
    for (size_t i = 0; i < k->n_parts; i++)
        if (k->parts[i]->in_range && !k->parts[i]->done)
            rd_kafka_topic_partition_list_add(list, k->parts[i]->topic->name, k->parts[i]->id)
                ->offset = latest ? RD_KAFKA_OFFSET_END : RD_KAFKA_OFFSET_BEGINNING;
    if (list->cnt > 0) {
        rd_kafka_resp_err_t why = rd_kafka_offsets_for_times(k->meta, list, KAFKA_REQUEST_MS);
        if (why && why != RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED)
            status = no_answer(k, now_ms, why);
        for (int i = 0; status == MT_OK && i < list->cnt; i++)
            status = take_offset(k, &list->elems[i], latest, now_ms, err);
    }
    rd_kafka_topic_partition_list_destroy(list);
    return status;
}

enum mt_status kafka_ask_offsets(struct kafka *k, int64_t now_ms, struct mt_error *err)
{
    enum mt_status status = ask_ends(k, false, now_ms, err);
    return status == MT_OK ? ask_ends(k, true, now_ms, err) : status;
}
