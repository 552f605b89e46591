/* SPDX-License-Identifier: Apache-2.0
 *
 * kafka_newer.h - what librdkafka has since 2.3 and the header of 2.0.2 has not.
 *
 * The library that runs is often newer than the header it was compiled with (a wheel's
 * library under a distribution's header). These few functions are looked up by name when
 * the first source connects; where one is missing, the fact it would tell is missing, and
 * nothing else. */
#ifndef MT_KAFKA_NEWER_H
#define MT_KAFKA_NEWER_H

#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>

/* "Partition log truncation detected" */
#define KAFKA_ERR_LOG_TRUNCATION ((rd_kafka_resp_err_t)-139)

typedef struct rd_kafka_TopicCollection_s kafka_topic_collection;
typedef struct rd_kafka_TopicDescription_s kafka_topic_description;
typedef struct rd_kafka_TopicPartitionInfo_s kafka_partition_info;
typedef struct rd_kafka_ListOffsetsResultInfo_s kafka_offset_info;
typedef struct rd_kafka_Uuid_s kafka_uuid;

struct kafka_newer {
    int32_t (*message_leader_epoch)(const rd_kafka_message_t *); /* NULL: missing */
    /* Of the mock cluster, whose metadata names no controller until it is told. NULL: missing */
    rd_kafka_resp_err_t (*mock_set_controller)(rd_kafka_mock_cluster_t *, int32_t);
    /* All of these or none: */
    kafka_topic_collection *(*topic_names)(const char **, size_t);
    void (*topic_names_destroy)(kafka_topic_collection *);
    void (*describe_topics)(rd_kafka_t *, const kafka_topic_collection *,
                            const rd_kafka_AdminOptions_t *, rd_kafka_queue_t *);
    const void *(*event_topics)(rd_kafka_event_t *); /* NULL: it is of another question */
    const kafka_topic_description **(*result_topics)(const void *, size_t *);
    const char *(*description_name)(const kafka_topic_description *);
    const rd_kafka_error_t *(*description_error)(const kafka_topic_description *);
    const kafka_uuid *(*description_id)(const kafka_topic_description *);
    const char *(*uuid_text)(const kafka_uuid *);
    const kafka_partition_info **(*description_partitions)(const kafka_topic_description *,
                                                           size_t *);
    /* And of these: */
    void (*list_offsets)(rd_kafka_t *, rd_kafka_topic_partition_list_t *,
                         const rd_kafka_AdminOptions_t *, rd_kafka_queue_t *);
    rd_kafka_error_t *(*set_isolation)(rd_kafka_AdminOptions_t *, int); /* 1: read_committed */
    const void *(*event_offsets)(rd_kafka_event_t *);
    const kafka_offset_info **(*result_offsets)(const void *, size_t *);
    const rd_kafka_topic_partition_t *(*offset_info)(const kafka_offset_info *);
};

/* Looked up once. Never NULL; its members may be. */
const struct kafka_newer *kafka_newer(void);

#endif
