/* SPDX-License-Identifier: Apache-2.0
 *
 * kafka_reader.h - what a reader of committed records finds in a topic. */
#ifndef KAFKA_READER_H
#define KAFKA_READER_H

#include <librdkafka/rdkafka.h>

#include "support.h"

/* Where a broker is, or NULL. */
static inline const char *test_brokers(void)
{
    return getenv("MOONTIDE_TEST_BROKERS");
}

static inline rd_kafka_t *new_reader(void)
{
    static const char *const settings[][2] = {{"group.id", "reader"},
                                              {"enable.partition.eof", "true"},
                                              {"fetch.wait.max.ms", "10"},
                                              {"isolation.level", "read_committed"},
                                              {"allow.auto.create.topics", "false"}};
    char why[300];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_conf_set(conf, "bootstrap.servers", test_brokers(), why, sizeof why);
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        rd_kafka_conf_set(conf, settings[i][0], settings[i][1], why, sizeof why);
    rd_kafka_t *reader = rd_kafka_new(RD_KAFKA_CONSUMER, conf, why, sizeof why);
    if (!reader)
        abort();
    return reader;
}

/* Assigns all partitions from the beginning; returns how many there are. */
static inline int read_from_the_beginning(rd_kafka_t *reader, const char *topic)
{
    const struct rd_kafka_metadata *said;
    int n = 0;
    rd_kafka_topic_t *handle = rd_kafka_topic_new(reader, topic, NULL);
    rd_kafka_resp_err_t why = rd_kafka_metadata(reader, 0, handle, &said, 30000);
    if (why)
        fail_msg("topic %s: %s", topic, rd_kafka_err2str(why));
    rd_kafka_topic_partition_list_t *all = rd_kafka_topic_partition_list_new(4);
    if (said->topic_cnt == 1 && !said->topics[0].err)
        n = said->topics[0].partition_cnt;
    for (int i = 0; i < n; i++)
        rd_kafka_topic_partition_list_add(all, topic, i)->offset = 0;
    rd_kafka_assign(reader, all);
    rd_kafka_topic_partition_list_destroy(all);
    rd_kafka_metadata_destroy(said);
    rd_kafka_topic_destroy(handle);
    return n;
}

/* Calls each for every record that is there now, partition by partition. */
static inline void read_committed(const char *topic,
                                  void (*each)(void *ctx, const rd_kafka_message_t *), void *ctx)
{
    rd_kafka_t *reader = new_reader();
    for (int left = read_from_the_beginning(reader, topic); left > 0;) {
        rd_kafka_message_t *message = rd_kafka_consumer_poll(reader, 30000);
        if (!message)
            fail_msg("no end of topic %s", topic);
        if (message->err == RD_KAFKA_RESP_ERR__PARTITION_EOF)
            left--;
        else if (!message->err)
            each(ctx, message);
        rd_kafka_message_destroy(message);
    }
    rd_kafka_destroy(reader);
}
#endif
