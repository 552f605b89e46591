/* SPDX-License-Identifier: Apache-2.0
 *
 * ksink_marker.c - what the brokers remember of batches.
 *
 * The marker of a batch is an offset that a consumer group of the sink's own has committed,
 * within the batch's transaction: with its records it is there, or not there. The offset is the
 * batch's number, the rest stands in the metadata that Kafka keeps beside an offset:
 *
 *     {"digest":"…","bundle":"…","rows":17,"fingerprint":"…"}
 *
 * It lies on partition 0 of a topic that the batch wrote to, for brokers keep offsets of topics
 * alone that they know. Of which topic need not be remembered: all of a group's offsets are asked
 * for, and the highest is the latest batch. Only offsets of transactions that are settled count,
 * and no setting of a job can change that. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sink/kafka/ksink_int.h"

enum { DAY_MS = 86400000 };

char *ksink_marker_print(const struct mt_sink_record *record)
{
    return mt_format("{\"digest\":\"%s\",\"bundle\":\"%s\",\"rows\":%" PRId64
                     ",\"fingerprint\":\"%016" PRIx64 "\"}",
                     record->digest, record->bundle, record->rows, record->fingerprint);
}

static bool parse(const char *text, size_t len, struct mt_sink_record *record)
{
    const char *digest, *bundle, *fingerprint;
    json_int_t rows;
    json_t *json = json_loadb(text, len, 0, NULL);
    bool good = json_unpack(json, "{s:s, s:s, s:I, s:s}", "digest", &digest, "bundle", &bundle,
                            "rows", &rows, "fingerprint", &fingerprint) == 0;
    if (good) {
        snprintf(record->digest, sizeof record->digest, "%s", digest);
        snprintf(record->bundle, sizeof record->bundle, "%s", bundle);
        record->rows = rows;
        record->fingerprint = strtoull(fingerprint, NULL, 16);
    }
    json_decref(json);
    return good;
}

static enum mt_status take(const rd_kafka_topic_partition_t *offset, const char *group, bool *holds,
                           struct mt_sink_record *held, struct mt_error *err)
{
    struct mt_sink_record record = {.batch_id = offset->offset};
    if (offset->err)
        return mt_fail(err, MT_RETRY, MT_CLASS_SINK,
                       "kafka: group %s, which marks what is stored, cannot be read: %s", group,
                       rd_kafka_err2str(offset->err));
    if (offset->offset < 0 || (*holds && offset->offset <= held->batch_id))
        return MT_OK;
    if (!parse(offset->metadata ? offset->metadata : "", offset->metadata_size, &record))
        return mt_fail(err, MT_FATAL, MT_CLASS_SINK,
                       "kafka: group %s marks which batches are stored, and something else has "
                       "committed an offset there (%s[%d] at %" PRId64
                       "); delete that offset (kafka-consumer-groups --delete-offsets) and see to "
                       "it that nothing else uses the group",
                       group, offset->topic, offset->partition, offset->offset);
    *holds = true;
    *held = record;
    return MT_OK;
}

static enum mt_status no_answer(const char *group, rd_kafka_resp_err_t why, struct mt_error *err)
{
    if (why == RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED)
        return mt_fail(err, MT_FATAL, MT_CLASS_SINK,
                       "kafka: not authorized: the user of this job needs the ACLs READ and "
                       "DESCRIBE on group %s (or on the prefix moontide-), where the sink marks "
                       "what is stored",
                       group);
    return mt_fail(err, MT_RETRY, MT_CLASS_SINK,
                   "kafka: group %s, which marks what is stored, is not told yet (%s)", group,
                   rd_kafka_err2str(why));
}

static enum mt_status take_answer(rd_kafka_event_t *event, const char *group, bool *holds,
                                  struct mt_sink_record *held, struct mt_error *err)
{
    size_t n = 0;
    if (!event || rd_kafka_event_error(event))
        return no_answer(group, event ? rd_kafka_event_error(event) : RD_KAFKA_RESP_ERR__TIMED_OUT,
                         err);
    const rd_kafka_group_result_t **groups = rd_kafka_ListConsumerGroupOffsets_result_groups(
        rd_kafka_event_ListConsumerGroupOffsets_result(event), &n);
    const rd_kafka_error_t *problem = n == 1 ? rd_kafka_group_result_error(groups[0]) : NULL;
    if (n != 1 || problem)
        return no_answer(group, problem ? rd_kafka_error_code(problem) : RD_KAFKA_RESP_ERR__BAD_MSG,
                         err);
    const rd_kafka_topic_partition_list_t *list = rd_kafka_group_result_partitions(groups[0]);
    enum mt_status status = MT_OK;
    for (int i = 0; status == MT_OK && list && i < list->cnt; i++)
        status = take(&list->elems[i], group, holds, held, err);
    return status;
}

static enum mt_status ask(rd_kafka_t *client, const char *group, bool *holds,
                          struct mt_sink_record *held, struct mt_error *err)
{
    rd_kafka_ListConsumerGroupOffsets_t *request =
        rd_kafka_ListConsumerGroupOffsets_new(group, NULL);
    rd_kafka_AdminOptions_t *options =
        rd_kafka_AdminOptions_new(client, RD_KAFKA_ADMIN_OP_LISTCONSUMERGROUPOFFSETS);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(client);
    rd_kafka_error_destroy(rd_kafka_AdminOptions_set_require_stable_offsets(options, 1));
    rd_kafka_AdminOptions_set_request_timeout(options, KSINK_REQUEST_MS, NULL, 0);
    rd_kafka_ListConsumerGroupOffsets(client, &request, 1, options, queue);
    rd_kafka_event_t *event = rd_kafka_queue_poll(queue, KSINK_REQUEST_MS + 1000);
    *holds = false;
    enum mt_status status = take_answer(event, group, holds, held, err);
    if (event)
        rd_kafka_event_destroy(event);
    rd_kafka_queue_destroy(queue);
    rd_kafka_AdminOptions_destroy(options);
    rd_kafka_ListConsumerGroupOffsets_destroy(request);
    return status;
}

/* A consumer of that group, for the library (up to 2.16 at least) crashes on a producer when the
 * group's coordinator is another one than it thought. It never joins; and it is quiet about the
 * settings that are a producer's. */
static rd_kafka_t *new_reader(struct mt_kafka_ear *ear, const rd_kafka_conf_t *settings,
                              const char *group, struct mt_error *err)
{
    char why[300];
    rd_kafka_conf_t *conf = rd_kafka_conf_dup(settings);
    mt_kafka_ear_attach(ear, conf);
    rd_kafka_conf_set(conf, "group.id", group, NULL, 0);
    rd_kafka_conf_set(conf, "enable.auto.commit", "false", NULL, 0);
    rd_kafka_conf_set(conf, "log_level", "3", NULL, 0);
    rd_kafka_t *reader = rd_kafka_new(RD_KAFKA_CONSUMER, conf, why, sizeof why);
    if (!reader) {
        rd_kafka_conf_destroy(conf);
        mt_fail(err, MT_FATAL, MT_CLASS_JOB,
                "kafka: the client cannot be made with these settings: %s", why);
    }
    return reader;
}

enum mt_status ksink_marker_read(struct ksink *k, const char *group, bool *holds,
                                 struct mt_sink_record *held, struct mt_error *err)
{
    rd_kafka_t *reader = new_reader(&k->ear, k->conf, group, err);
    if (!reader)
        return MT_FATAL;
    enum mt_status status = ask(reader, group, holds, held, err);
    rd_kafka_destroy(reader);
    return status;
}

/* ---- for how long */

static int64_t minutes_of(const rd_kafka_event_t *event)
{
    size_t n = 0, n_entries = 0;
    const rd_kafka_ConfigResource_t **resources = rd_kafka_DescribeConfigs_result_resources(
        rd_kafka_event_DescribeConfigs_result((rd_kafka_event_t *)event), &n);
    if (n != 1 || rd_kafka_ConfigResource_error(resources[0]))
        return 0;
    const rd_kafka_ConfigEntry_t **entries =
        rd_kafka_ConfigResource_configs(resources[0], &n_entries);
    for (size_t i = 0; i < n_entries; i++)
        if (strcmp(rd_kafka_ConfigEntry_name(entries[i]), "offsets.retention.minutes") == 0)
            return strtoll(rd_kafka_ConfigEntry_value(entries[i]), NULL, 10);
    return 0;
}

int64_t ksink_retention_ms(rd_kafka_t *client)
{
    char broker[20];
    snprintf(broker, sizeof broker, "%d", rd_kafka_controllerid(client, KSINK_REQUEST_MS));
    rd_kafka_ConfigResource_t *ask = rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_BROKER, broker);
    rd_kafka_AdminOptions_t *options =
        rd_kafka_AdminOptions_new(client, RD_KAFKA_ADMIN_OP_DESCRIBECONFIGS);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(client);
    rd_kafka_AdminOptions_set_request_timeout(options, KSINK_REQUEST_MS, NULL, 0);
    rd_kafka_DescribeConfigs(client, &ask, 1, options, queue);
    rd_kafka_event_t *event = rd_kafka_queue_poll(queue, KSINK_REQUEST_MS + 1000);
    int64_t minutes = event && !rd_kafka_event_error(event) ? minutes_of(event) : 0;
    if (event)
        rd_kafka_event_destroy(event);
    rd_kafka_queue_destroy(queue);
    rd_kafka_AdminOptions_destroy(options);
    rd_kafka_ConfigResource_destroy(ask);
    return minutes > 0 ? minutes * 60000 : DAY_MS;
}
