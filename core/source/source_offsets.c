/* SPDX-License-Identifier: Apache-2.0
 *
 * source_offsets.c - positions: Spark's offset JSON, read and written.
 *
 *     {"orders":{"0":534,"1":12},"refunds":{"0":7}}
 *
 * Two positions are equal when their texts are, so there is one text for each: topics
 * sorted, partitions sorted as numbers, no blanks. The reader is strict because what it
 * reads decides which records are skipped: "01", 1.0, a topic that comes twice (JSON
 * readers keep the last without a word) and offsets nobody can have are errors. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "source/source_int.h"

static int compare(const char *topic, int32_t partition, const struct mt_offset *item)
{
    int order = strcmp(topic, item->topic);
    return order ? order : (partition > item->partition) - (partition < item->partition);
}

/* Index of the first item that is not before the pair. */
static size_t place_of(const struct mt_offsets *offsets, const char *topic, int32_t partition)
{
    size_t low = 0, high = offsets->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare(topic, partition, &offsets->items[middle]) > 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static const struct mt_offset *find(const struct mt_offsets *offsets, const char *topic,
                                    int32_t partition)
{
    size_t i = place_of(offsets, topic, partition);
    if (i == offsets->n || compare(topic, partition, &offsets->items[i]) != 0)
        return NULL;
    return &offsets->items[i];
}

void mt_offsets_set(struct mt_offsets *offsets, const char *topic, int32_t partition,
                    int64_t offset)
{
    size_t i = place_of(offsets, topic, partition);
    if (i < offsets->n && compare(topic, partition, &offsets->items[i]) == 0) {
        offsets->items[i].offset = offset;
        return;
    }
    if ((offsets->n & (offsets->n - 1)) == 0) { /* full at each power of two */
        size_t cap = offsets->n ? offsets->n * 2 : 1;
        offsets->items = mt_realloc(offsets->items, cap * sizeof *offsets->items);
    }
    memmove(&offsets->items[i + 1], &offsets->items[i], (offsets->n - i) * sizeof *offsets->items);
    offsets->items[i] = (struct mt_offset){mt_strdup(topic), partition, offset};
    offsets->n++;
}

int64_t mt_offsets_get(const struct mt_offsets *offsets, const char *topic, int32_t partition,
                       int64_t otherwise)
{
    const struct mt_offset *item = find(offsets, topic, partition);
    return item ? item->offset : otherwise;
}

bool mt_offsets_has(const struct mt_offsets *offsets, const char *topic, int32_t partition)
{
    return find(offsets, topic, partition) != NULL;
}

void mt_offsets_free(struct mt_offsets *offsets)
{
    for (size_t i = 0; i < offsets->n; i++)
        free(offsets->items[i].topic);
    free(offsets->items);
    *offsets = (struct mt_offsets){0};
}

/* "0", "17": digits without leading zeros that fit 31 bits. */
static bool partition_of(const char *key, int32_t *partition)
{
    int64_t value = 0;
    size_t len = strlen(key);
    if (len == 0 || len > 10 || (len > 1 && key[0] == '0'))
        return false;
    for (size_t i = 0; i < len; i++) {
        if (key[i] < '0' || key[i] > '9')
            return false;
        value = value * 10 + (key[i] - '0');
    }
    *partition = (int32_t)value;
    return value <= INT32_MAX;
}

static enum mt_status refuse(struct mt_error *err, const char *topic, const char *key,
                             const char *what)
{
    char shown[100], part[60];
    return mt_fail(err, MT_FATAL, MT_CLASS_JOB, "topic \"%s\"%s%s: %s",
                   mt_quote(topic, strlen(topic), shown, sizeof shown), key ? ", partition " : "",
                   key ? mt_quote(key, strlen(key), part, sizeof part) : "", what);
}

static enum mt_status read_topic(const char *topic, json_t *partitions, int64_t lowest,
                                 struct mt_offsets *out, struct mt_error *err)
{
    const char *key;
    json_t *value;
    int32_t partition;
    if (!json_is_object(partitions))
        return refuse(err, topic, NULL, "an object of partitions is expected, as in {\"0\":23}");
    json_object_foreach (partitions, key, value) {
        if (!partition_of(key, &partition))
            return refuse(err, topic, key, "a partition is a plain number in quotes");
        if (!json_is_integer(value) || json_integer_value(value) < lowest)
            return refuse(err, topic, key,
                          lowest < 0 ? "an offset is a whole number, -2 (earliest) or -1 (latest)"
                                     : "an offset is a whole number from 0 on");
        mt_offsets_set(out, topic, partition, json_integer_value(value));
    }
    return MT_OK;
}

enum mt_status mt_offsets_parse(const char *text, int64_t lowest, struct mt_offsets *out,
                                struct mt_error *err)
{
    json_error_t at;
    const char *topic;
    json_t *partitions, *json = json_loads(text, JSON_REJECT_DUPLICATES, &at);
    char shown[200];
    enum mt_status status = MT_OK;
    *out = (struct mt_offsets){0};
    if (!json)
        return mt_fail(err, MT_FATAL, MT_CLASS_JOB,
                       "offsets are not JSON: %s at character %d of %s", at.text, at.position,
                       mt_quote(text, strlen(text), shown, sizeof shown));
    if (!json_is_object(json))
        status = mt_fail(err, MT_FATAL, MT_CLASS_JOB,
                         "offsets are an object of topics, as in {\"orders\":{\"0\":23}}");
    json_object_foreach (json, topic, partitions)
        if (status == MT_OK)
            status = read_topic(topic, partitions, lowest, out, err);
    json_decref(json);
    if (status != MT_OK)
        mt_offsets_free(out);
    return status;
}

char *mt_offsets_print(const struct mt_offsets *offsets)
{
    struct mt_buf buf = {0};
    const char *topic = NULL;
    for (size_t i = 0; i < offsets->n; i++) {
        const struct mt_offset *item = &offsets->items[i];
        bool fresh = !topic || strcmp(topic, item->topic) != 0;
        mt_buf_adds(&buf, !topic ? "{" : fresh ? "}," : ",");
        if (fresh) {
            mt_buf_add_json(&buf, item->topic, strlen(item->topic));
            mt_buf_adds(&buf, ":{");
        }
        mt_buf_addf(&buf, "\"%d\":%lld", item->partition, (long long)item->offset);
        topic = item->topic;
    }
    mt_buf_adds(&buf, topic ? "}}" : "{}");
    return buf.data;
}
