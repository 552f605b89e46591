/* SPDX-License-Identifier: Apache-2.0
 *
 * kafka_options.c - the options of the Kafka source, and what its clients are told of
 * kafka.*: core/kafka/kafka_conf.c puts them in. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "source/kafka/kafka_int.h"

const struct mt_option kafka_option_table[] = {
    {"kafka.bootstrap.servers", MT_OPT_STRING, NULL, offsetof(struct kafka, brokers), NULL,
     "brokers to begin with, host:port,… (required)"},
    {"subscribe", MT_OPT_STRING, NULL, offsetof(struct kafka, subscribe), NULL,
     "topics, comma separated; this or assign"},
    {"assign", MT_OPT_STRING, NULL, offsetof(struct kafka, assign), NULL,
     "partitions, {\"orders\":[0,1]}; this or subscribe"},
    {"startingOffsets", MT_OPT_STRING, "latest", offsetof(struct kafka, starting_offsets), NULL,
     "where a new query begins: earliest, latest or {\"orders\":{\"0\":23,\"1\":-2}} (-2 earliest, "
     "-1 latest)"},
    {"maxOffsetsPerTrigger", MT_OPT_INT, "0", offsetof(struct kafka, max_offsets), NULL,
     "about so many offsets a batch, shared out by backlog; 0: no limit"},
    {"maxBatchBytes", MT_OPT_BYTES, "64m", offsetof(struct kafka, max_bytes), NULL,
     "a batch is cut at so many bytes of keys, values and headers, and 32 a record"},
    {"failOnDataLoss", MT_OPT_BOOL, "true", offsetof(struct kafka, fail_on_loss), NULL,
     "stop when records are gone before they were read; false: warn, count and go on"},
    {"includeHeaders", MT_OPT_BOOL, "false", offsetof(struct kafka, include_headers), NULL,
     "add the column headers"},
    {"kafka.*", MT_OPT_MAP, NULL, offsetof(struct kafka, settings), NULL,
     "settings of the Kafka client (librdkafka)"},
    {0},
};

#define NOT_YET "known in Spark, not here yet"

const struct mt_refusal kafka_refusals[] = {
    {"subscribePattern", NOT_YET "; list the topics in subscribe"},
    {"startingTimestamp", NOT_YET "; use startingOffsets"},
    {"startingOffsetsByTimestamp", NOT_YET "; use startingOffsets"},
    {"startingOffsetsByTimestampStrategy", NOT_YET "; use startingOffsets"},
    {"endingOffsets", "ending offset not valid in streaming queries"},
    {"endingOffsetsByTimestamp", "ending timestamp not valid in streaming queries"},
    {"endingTimestamp", "ending timestamp not valid in streaming queries"},
    {"minOffsetsPerTrigger", NOT_YET "; a longer processingTime makes larger batches"},
    {"maxTriggerDelay", NOT_YET " (it goes with minOffsetsPerTrigger)"},
    {"minPartitions", NOT_YET "; a batch is read by one process"},
    {"maxRecordsPerPartition", NOT_YET "; a batch is read by one process"},
    {"groupIdPrefix", "there is no consumer group here: partitions are read without one"},
    {"kafkaConsumer.pollTimeoutMs", "there is no poll that could time out here: the source waits "
                                    "for its brokers and says so"},
    {"fetchOffset.numRetries", "offsets are asked again until the brokers answer"},
    {"fetchOffset.retryIntervalMs", "offsets are asked again until the brokers answer"},
    {"bytesEstimateWindowLength", NOT_YET},
    /* settings of the client that mean harm here; the first five are Spark's own list */
    {"kafka.auto.offset.reset", "not supported: use the option startingOffsets; what was not read "
                                "is never skipped on its own"},
    {"kafka.key.deserializer", "not supported: keys come as BINARY; decode them in the job"},
    {"kafka.value.deserializer", "not supported: values come as BINARY; decode them in the job"},
    {"kafka.enable.auto.commit",
     "not supported: the source commits nothing to Kafka, its positions "
     "are in the checkpoint"},
    {"kafka.interceptor.classes", "not supported: an interceptor could change records unseen"},
    {"kafka.enable.partition.eof", "the source needs its own value (true)"},
    {"kafka.enable.auto.offset.store", "there is no consumer group here"},
    {"kafka.ssl.truststore.location",
     "Java trust stores are not read; give the certificates as PEM: "
     "kafka.ssl.ca.location"},
    {"kafka.ssl.truststore.password",
     "Java trust stores are not read; give the certificates as PEM: "
     "kafka.ssl.ca.location"},
    {"kafka.ssl.truststore.type", "Java trust stores are not read; give the certificates as PEM: "
                                  "kafka.ssl.ca.location"},
    {"kafka.ssl.keystore.type", "leave it out: kafka.ssl.keystore.location is read as PKCS12"},
    {"kafka.max.poll.records", "batches are limited by maxOffsetsPerTrigger and maxBatchBytes"},
    {"kafka.default.api.timeout.ms", "the source waits for its brokers and says so"},
    {"kafka.request.timeout.ms", "it is kafka.socket.timeout.ms here"},
    {"kafka.retry.backoff.max.ms", "it is kafka.reconnect.backoff.max.ms here"},
    {"kafka.partition.assignment.strategy", "there is no consumer group here"},
    {"kafka.session.timeout.ms", "there is no consumer group here"},
    {"kafka.heartbeat.interval.ms", "there is no consumer group here"},
    {"kafka.max.poll.interval.ms", "there is no consumer group here"},
    {"kafka.group.instance.id", "there is no consumer group here"},
    {0},
};

/* Names of the Java client that are called otherwise in librdkafka. */
static const struct mt_kafka_setting renamed[] = {
    {"fetch.max.wait.ms", "fetch.wait.max.ms"},
    {"receive.buffer.bytes", "socket.receive.buffer.bytes"},
    {"send.buffer.bytes", "socket.send.buffer.bytes"},
    {NULL, NULL},
};

static const struct mt_kafka_setting own_settings[] = {
    {"client.id", "moontide"},
    {"enable.partition.eof", "true"},
    {"auto.offset.reset", "error"}, /* never skip on its own */
    {"allow.auto.create.topics", "false"},
    {"check.crcs", "true"},
    {"queued.min.messages", "1000000"}, /* bytes are the bound */
    {"fetch.queue.backoff.ms", "2"},
    {"fetch.wait.max.ms", "20"},
    {"reconnect.backoff.max.ms", "1000"},
    {"isolation.level", "read_uncommitted"}, /* as Spark's client; librdkafka's is read_committed */
    {NULL, NULL},
};

static const char *const ignored[] = {"group.id", NULL}; /* told when the client is made */

static const struct mt_kafka_rules rules = {own_settings, kafka_refusals, renamed, ignored};

/* ---- topics */

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct kafka_topic *)a)->name, ((const struct kafka_topic *)b)->name);
}

static struct kafka_topic *add_topic(struct kafka *k, const char *name, size_t len)
{
    for (size_t i = 0; i < k->n_topics; i++)
        if (strncmp(k->topics[i].name, name, len) == 0 && !k->topics[i].name[len])
            return &k->topics[i];
    k->topics = mt_realloc(k->topics, (k->n_topics + 1) * sizeof *k->topics);
    k->topics[k->n_topics] = (struct kafka_topic){.name = mt_strndup(name, len)};
    return &k->topics[k->n_topics++];
}

static enum mt_status read_subscribe(struct kafka *k, struct mt_error *err)
{
    for (const char *at = k->subscribe; *at;) {
        size_t len = strcspn(at, ","), skip = strspn(at, " \t"), end = len;
        while (end > skip && (at[end - 1] == ' ' || at[end - 1] == '\t'))
            end--;
        if (end > skip)
            add_topic(k, at + skip, end - skip);
        at += len + (at[len] == ',');
    }
    if (k->n_topics == 0)
        return mt_kafka_bad(err, "subscribe",
                            "no topics to subscribe to as specified value for option "
                            "'subscribe' is \"%s\"",
                            k->subscribe);
    return MT_OK;
}

static int by_number(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

static enum mt_status assign_topic(struct kafka *k, const char *name, json_t *list,
                                   struct mt_error *err)
{
    size_t i, n = json_array_size(list);
    json_t *value;
    struct kafka_topic *topic = add_topic(k, name, strlen(name));
    if (n == 0)
        return mt_kafka_bad(err, "assign",
                            "option \"assign\", topic \"%s\": a list of partitions is "
                            "expected, as in [0,1]",
                            name);
    topic->assigned = mt_alloc(n * sizeof *topic->assigned);
    json_array_foreach (list, i, value) {
        json_int_t number = json_is_integer(value) ? json_integer_value(value) : -1;
        if (number < 0 || number > INT32_MAX)
            return mt_kafka_bad(err, "assign",
                                "option \"assign\", topic \"%s\": a partition is a whole "
                                "number from 0 on",
                                name);
        topic->assigned[topic->n_assigned++] = (int32_t)number;
    }
    qsort(topic->assigned, n, sizeof *topic->assigned, by_number);
    for (i = 1; i < n; i++)
        if (topic->assigned[i] == topic->assigned[i - 1])
            return mt_kafka_bad(err, "assign",
                                "option \"assign\", topic \"%s\": partition %d comes twice", name,
                                topic->assigned[i]);
    return MT_OK;
}

static enum mt_status read_assign(struct kafka *k, struct mt_error *err)
{
    json_error_t at;
    const char *name;
    json_t *list, *json = json_loads(k->assign, JSON_REJECT_DUPLICATES, &at);
    enum mt_status status = MT_OK;
    if (!json)
        return mt_kafka_bad(err, "assign", "option \"assign\" is not JSON: %s at character %d",
                            at.text, at.position);
    if (!json_is_object(json) || json_object_size(json) == 0)
        status = mt_kafka_bad(err, "assign",
                              "no topicpartitions to assign as specified value for option "
                              "'assign' is %s; expected is {\"topic\":[0,1]}",
                              k->assign);
    json_object_foreach (json, name, list)
        if (status == MT_OK)
            status = assign_topic(k, name, list, err);
    json_decref(json);
    return status;
}

static enum mt_status read_topics(struct kafka *k, struct mt_error *err)
{
    if (k->subscribe && k->assign)
        return mt_kafka_bad(err, "assign",
                            "only one of the following options can be specified for Kafka "
                            "source: subscribe, assign");
    if (!k->subscribe && !k->assign)
        return mt_kafka_bad(err, "subscribe",
                            "one of the following options must be specified for Kafka "
                            "source: subscribe, assign");
    enum mt_status status = k->subscribe ? read_subscribe(k, err) : read_assign(k, err);
    if (status != MT_OK)
        return status;
    struct mt_buf name = {0};
    qsort(k->topics, k->n_topics, sizeof *k->topics, by_name);
    for (size_t i = 0; i < k->n_topics; i++)
        mt_buf_addf(&name, "%s%s", i ? "," : "", k->topics[i].name);
    k->base.name = name.data;
    return MT_OK;
}

static enum mt_status read_starting(struct kafka *k, struct mt_error *err)
{
    k->starting = RD_KAFKA_OFFSET_END;
    if (strcasecmp(k->starting_offsets, "latest") == 0)
        return MT_OK;
    k->starting = RD_KAFKA_OFFSET_BEGINNING;
    if (strcasecmp(k->starting_offsets, "earliest") == 0)
        return MT_OK;
    k->starting = 0;
    enum mt_status status =
        mt_offsets_parse(k->starting_offsets, RD_KAFKA_OFFSET_BEGINNING, &k->starting_at, err);
    if (status != MT_OK) {
        snprintf(err->option, sizeof err->option, "startingOffsets");
        return mt_fail_within(err, status,
                              "kafka: option \"startingOffsets\" is neither earliest "
                              "nor latest nor good JSON: ");
    }
    return MT_OK;
}

static enum mt_status check_limits(const struct kafka *k, struct mt_error *err)
{
    if (k->max_offsets < 0)
        return mt_kafka_bad(
            err, "maxOffsetsPerTrigger",
            "option \"maxOffsetsPerTrigger\" is %lld; it must be above 0, or 0 for no limit",
            (long long)k->max_offsets);
    if (k->max_bytes < 1 || k->max_bytes > 1 << 30)
        return mt_kafka_bad(err, "maxBatchBytes",
                            "option \"maxBatchBytes\" is %lld bytes; it must be between 1 and 1g",
                            (long long)k->max_bytes);
    return MT_OK;
}

enum mt_status kafka_options_read(struct kafka *k, struct mt_error *err)
{
    k->has_group = mt_pairs_get(&k->settings, "group.id") != NULL;
    enum mt_status status = mt_kafka_conf_new(&rules, k->brokers, &k->settings, &k->conf, err);
    if (status == MT_OK)
        status = read_topics(k, err);
    if (status == MT_OK)
        status = read_starting(k, err);
    return status == MT_OK ? check_limits(k, err) : status;
}
