/* SPDX-License-Identifier: Apache-2.0
 *
 * kafka_newer.c - the look-up for kafka_newer.h. */
#include <dlfcn.h>
#include <pthread.h>

#include "kafka/kafka_newer.h"

static struct kafka_newer newer;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void look_up(void)
{
    struct {
        const char *name;
        void *function; /* of a pointer to a function */
    } wanted[] = {
        {"rd_kafka_message_leader_epoch", &newer.message_leader_epoch},
        {"rd_kafka_mock_set_controller_id", &newer.mock_set_controller},
        {"rd_kafka_TopicCollection_of_topic_names", &newer.topic_names},
        {"rd_kafka_TopicCollection_destroy", &newer.topic_names_destroy},
        {"rd_kafka_event_DescribeTopics_result", &newer.event_topics},
        {"rd_kafka_DescribeTopics_result_topics", &newer.result_topics},
        {"rd_kafka_TopicDescription_name", &newer.description_name},
        {"rd_kafka_TopicDescription_error", &newer.description_error},
        {"rd_kafka_TopicDescription_topic_id", &newer.description_id},
        {"rd_kafka_Uuid_base64str", &newer.uuid_text},
        {"rd_kafka_TopicDescription_partitions", &newer.description_partitions},
        {"rd_kafka_ListOffsets", &newer.list_offsets},
        {"rd_kafka_AdminOptions_set_isolation_level", &newer.set_isolation},
        {"rd_kafka_event_ListOffsets_result", &newer.event_offsets},
        {"rd_kafka_ListOffsets_result_infos", &newer.result_offsets},
        {"rd_kafka_ListOffsetsResultInfo_topic_partition", &newer.offset_info},
        {"rd_kafka_DescribeTopics", &newer.describe_topics},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        *(void **)wanted[i].function = dlsym(RTLD_DEFAULT, wanted[i].name);
    if (!newer.topic_names || !newer.topic_names_destroy || !newer.event_topics ||
        !newer.result_topics || !newer.description_name || !newer.description_error ||
        !newer.description_id || !newer.uuid_text || !newer.description_partitions)
        newer.describe_topics = NULL;
    if (!newer.set_isolation || !newer.event_offsets || !newer.result_offsets || !newer.offset_info)
        newer.list_offsets = NULL;
}

const struct kafka_newer *kafka_newer(void)
{
    pthread_once(&once, look_up);
    return &newer;
}
