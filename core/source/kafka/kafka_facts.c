/* SPDX-License-Identifier: Apache-2.0
 *
 * kafka_facts.c - what a plan remembers of its origin, and what progress says of it.
 *
 *     {"clusterId":"5L6g…","topicIds":{"orders":"AbC…"},"leaderEpochs":{"orders":{"0":3}},
 *      "from":{"orders":{"2":0}}}
 *
 * A topic id tells a topic from another of the same name. `from` is there for partitions
 * that the batch reads from elsewhere than its start says (new ones, and after a loss that
 * failOnDataLoss=false went on from), so that a replay reads the same records. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "source/kafka/kafka_int.h"

static void add_part(struct mt_buf *buf, const char *name, const char *value)
{
    mt_buf_adds(buf, buf->len > 1 ? "," : "");
    mt_buf_add_json(buf, name, strlen(name));
    mt_buf_addf(buf, ":%s", value);
}

static void add_ids(const struct kafka *k, struct mt_buf *buf)
{
    struct mt_buf ids = {0};
    mt_buf_adds(&ids, "{");
    for (size_t i = 0; i < k->n_topics; i++) {
        struct mt_buf id = {0};
        if (!k->topics[i].id[0])
            continue;
        mt_buf_add_json(&id, k->topics[i].id, strlen(k->topics[i].id));
        add_part(&ids, k->topics[i].name, id.data);
        mt_buf_free(&id);
    }
    mt_buf_adds(&ids, "}");
    if (ids.len > 2)
        add_part(buf, "topicIds", ids.data);
    mt_buf_free(&ids);
}

static void add_offsets(struct mt_buf *buf, const char *name, const struct mt_offsets *offsets)
{
    if (offsets->n == 0)
        return;
    char *text = mt_offsets_print(offsets);
    add_part(buf, name, text);
    free(text);
}

char *kafka_facts_print(const struct kafka *k)
{
    struct mt_buf buf = {0}, cluster = {0};
    struct mt_offsets epochs = {0};
    mt_buf_adds(&buf, "{");
    if (k->cluster[0]) {
        mt_buf_add_json(&cluster, k->cluster, strlen(k->cluster));
        add_part(&buf, "clusterId", cluster.data);
    }
    add_ids(k, &buf);
    for (size_t i = 0; i < k->n_parts; i++)
        if (k->parts[i]->in_range && k->parts[i]->epoch >= 0)
            mt_offsets_set(&epochs, k->parts[i]->topic->name, k->parts[i]->id, k->parts[i]->epoch);
    add_offsets(&buf, "leaderEpochs", &epochs);
    add_offsets(&buf, "from", &k->jumps);
    mt_buf_adds(&buf, "}");
    mt_offsets_free(&epochs);
    mt_buf_free(&cluster);
    return buf.data;
}

static void take_ids(struct kafka *k, json_t *ids)
{
    const char *name;
    json_t *id;
    json_object_foreach (ids, name, id) {
        struct kafka_topic *topic = kafka_topic_of(k, name);
        if (topic && json_is_string(id))
            snprintf(topic->ours, sizeof topic->ours, "%s", json_string_value(id));
    }
}

enum mt_status kafka_facts_read(struct kafka *k, const char *facts, struct mt_error *err)
{
    json_error_t at;
    enum mt_status status = MT_OK;
    mt_offsets_free(&k->jumps);
    json_t *json = json_loads(facts ? facts : "{}", JSON_REJECT_DUPLICATES, &at);
    if (!json_is_object(json)) {
        json_decref(json);
        return mt_fail(err, MT_FATAL, MT_CLASS_CHECKPOINT,
                       "kafka: the facts of a plan in the checkpoint are not JSON: %s", at.text);
    }
    take_ids(k, json_object_get(json, "topicIds"));
    json_t *from = json_object_get(json, "from");
    if (from) {
        char *text = json_dumps(from, JSON_COMPACT);
        status = mt_offsets_parse(text, 0, &k->jumps, err);
        free(text);
    }
    json_decref(json);
    return status;
}

/* ---- progress */

static void add_description(const struct kafka *k, struct mt_buf *out)
{
    const char *gap = "";
    mt_buf_addf(out, "KafkaV2[%s[", k->assign ? "Assign" : "Subscribe");
    for (size_t i = 0; i < k->n_topics; i++) {
        const struct kafka_topic *topic = &k->topics[i];
        if (!k->assign)
            mt_buf_addf(out, "%s%s", i ? ", " : "", topic->name);
        for (size_t j = 0; j < topic->n_assigned; j++, gap = ", ")
            mt_buf_addf(out, "%s%s-%d", gap, topic->name, topic->assigned[j]);
    }
    mt_buf_adds(out, "]]");
}

/* Spark's: over all partitions of latest; what a partition was not read of counts whole.
 * Returns the sum. */
static int64_t add_lag(const struct mt_offsets *end, const struct mt_offsets *latest,
                       struct mt_buf *buf)
{
    int64_t least = INT64_MAX, most = INT64_MIN, sum = 0;
    for (size_t i = 0; i < latest->n; i++) {
        const struct mt_offset *item = &latest->items[i];
        int64_t behind = item->offset - mt_offsets_get(end, item->topic, item->partition, 0);
        least = behind < least ? behind : least;
        most = behind > most ? behind : most;
        sum += behind;
    }
    if (latest->n > 0)
        mt_buf_addf(buf,
                    "\"avgOffsetsBehindLatest\":\"%.1f\",\"maxOffsetsBehindLatest\":\"%" PRId64
                    "\",\"minOffsetsBehindLatest\":\"%" PRId64 "\"",
                    (double)sum / (double)latest->n, most, least);
    return sum;
}

void kafka_describe(struct mt_source *base, const char *end, const char *latest, struct mt_buf *buf)
{
    const struct kafka *k = (const struct kafka *)base;
    struct mt_offsets ends = {0}, latests = {0};
    struct mt_error err = {0};
    struct mt_buf text = {0}, metrics = {0};
    int64_t behind = -1;
    add_description(k, &text);
    if (latest && end && mt_offsets_parse(end, 0, &ends, &err) == MT_OK &&
        mt_offsets_parse(latest, 0, &latests, &err) == MT_OK)
        behind = add_lag(&ends, &latests, &metrics);
    if (k->lost > 0)
        mt_buf_addf(&metrics, "%s\"offsetsLost\":\"%" PRId64 "\"", metrics.len ? "," : "", k->lost);
    mt_buf_adds(buf, "{\"description\":");
    mt_buf_add_json(buf, text.data, text.len);
    if (behind >= 0)
        mt_buf_addf(buf, ",\"behind\":%" PRId64, behind);
    mt_buf_addf(buf, ",\"metrics\":{%s}}", metrics.data ? metrics.data : "");
    mt_offsets_free(&ends);
    mt_offsets_free(&latests);
    mt_buf_free(&text);
    mt_buf_free(&metrics);
}
