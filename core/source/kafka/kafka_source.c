/* SPDX-License-Identifier: Apache-2.0
 *
 * kafka_source.c - Kafka as a source: the type, and its answers put together.
 *
 * `available` and `read` are one machine: draw a range (kafka_range.c), receive it
 * (kafka_fill.c). `available` draws it as far as the reach allows, receives, and its ends
 * are what was received: when the plan is durable, `read` hands out rows that are here
 * already. After a restart there is only the plan, and `read` draws exactly that range.
 * Nothing is committed to Kafka and no consumer group is joined: positions are in the
 * checkpoint alone. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "source/kafka/kafka_int.h"

static enum mt_status kafka_open(struct mt_source *base, struct mt_error *err)
{
    static const char fields[] = "key BINARY, value BINARY, topic STRING, partition INT, "
                                 "offset BIGINT, timestamp TIMESTAMP, timestampType INT";
    static const char headers[] = ", headers ARRAY<STRUCT<key: STRING, value: BINARY>>";
    struct kafka *k = (struct kafka *)base;
    mt_kafka_ear_init(&k->ear);
    base->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (base->wake_fd < 0)
        return mt_fail(err, MT_FATAL, MT_CLASS_MACHINE, "kafka: no file handle is left");
    enum mt_status status = kafka_options_read(k, err);
    if (status != MT_OK)
        return status;
    char *ddl = mt_format("%s%s", fields, k->include_headers ? headers : "");
    status = mt_schema_parse(ddl, &base->full_schema, err);
    free(ddl);
    return status;
}

/* ---- where a new query begins */

static void draw_all(struct kafka *k)
{
    for (size_t t = 0; t < k->n_topics; t++)
        for (int32_t id = 0; id < k->topics[t].n_partitions; id++)
            if (kafka_topic_has(&k->topics[t], id))
                kafka_partition_of(k, &k->topics[t], id)->in_range = true;
}

/* Spark's rule: the JSON names every partition, and no other. */
static enum mt_status check_named(struct kafka *k, struct mt_error *err)
{
    struct mt_offsets there = {0};
    for (size_t i = 0; i < k->n_parts; i++)
        if (k->parts[i]->in_range)
            mt_offsets_set(&there, k->parts[i]->topic->name, k->parts[i]->id, 0);
    bool same = there.n == k->starting_at.n;
    for (size_t i = 0; same && i < there.n; i++)
        same = mt_offsets_has(&k->starting_at, there.items[i].topic, there.items[i].partition);
    enum mt_status status = MT_OK;
    if (!same) {
        char *named = mt_offsets_print(&k->starting_at), *all = mt_offsets_print(&there);
        status =
            mt_fail(err, MT_FATAL, MT_CLASS_SOURCE,
                    "kafka: if startingOffsets contains specific offsets, you must specify all "
                    "TopicPartitions; use -1 for latest, -2 for earliest. Specified: %s; the "
                    "partitions are those of %s",
                    named, all);
        snprintf(err->option, sizeof err->option, "startingOffsets");
        free(named);
        free(all);
    }
    mt_offsets_free(&there);
    return status;
}

static int64_t first_offset(const struct kafka *k, const struct kafka_partition *p)
{
    int64_t wanted = mt_offsets_get(&k->starting_at, p->topic->name, p->id, k->starting);
    return wanted == RD_KAFKA_OFFSET_BEGINNING ? p->earliest
           : wanted == RD_KAFKA_OFFSET_END     ? p->latest
                                               : wanted;
}

/* People who forget startingOffsets wonder where their rows are. */
static void tell_skipped(const struct kafka *k)
{
    int64_t n = 0;
    for (size_t i = 0; i < k->n_parts; i++)
        if (k->parts[i]->in_range)
            n += k->parts[i]->latest - k->parts[i]->earliest;
    if (n > 0)
        mt_log(MT_INFO,
               "kafka: starting at latest: %" PRId64 " older records are skipped (startingOffsets "
               "\"earliest\" would read them)",
               n);
}

static enum mt_status kafka_resolve_start(struct mt_source *base, int64_t now_ms, char **start,
                                          struct mt_error *err)
{
    struct kafka *k = (struct kafka *)base;
    struct mt_offsets offsets = {0};
    enum mt_status status = kafka_ask_topics(k, now_ms, err);
    if (status == MT_OK)
        status = kafka_topics_exist(k, NULL, now_ms, err);
    if (status == MT_OK) {
        draw_all(k);
        status = k->starting == 0 ? check_named(k, err) : MT_OK;
    }
    if (status == MT_OK)
        status = kafka_ask_offsets(k, now_ms, err);
    if (status != MT_OK)
        return status;
    for (size_t i = 0; i < k->n_parts; i++)
        if (k->parts[i]->in_range)
            mt_offsets_set(&offsets, k->parts[i]->topic->name, k->parts[i]->id,
                           first_offset(k, k->parts[i]));
    *start = mt_offsets_print(&offsets);
    mt_offsets_free(&offsets);
    if (k->starting == RD_KAFKA_OFFSET_END)
        tell_skipped(k);
    k->doubt_ms = 0;
    kafka_go_on(k);
    return MT_OK;
}

/* ---- how far a batch could go */

static int64_t taken_end(const struct kafka *k, const struct kafka_partition *p)
{
    (void)k;
    return p->next;
}

static int64_t asked_end(const struct kafka *k, const struct kafka_partition *p)
{
    (void)k;
    return p->latest;
}

/* The end that was asked for last, a few seconds ago at most. Of committed records it is the only
 * one: with them comes the log's end, behind open transactions too. */
static int64_t stable_end(const struct kafka *k, const struct kafka_partition *p)
{
    (void)k;
    return p->latest > p->next ? p->latest : p->next;
}

/* The log's end as the broker told it with the records, without being asked; before any came, the
 * one that was asked for. */
static int64_t heard_end(const struct kafka *k, const struct kafka_partition *p)
{
    int64_t low, high;
    rd_kafka_resp_err_t problem =
        rd_kafka_get_watermark_offsets(k->data, p->topic->name, p->id, &low, &high);
    if (problem || high < 0)
        return stable_end(k, p);
    return high > p->next ? high : p->next;
}

bool kafka_reads_committed(const struct kafka *k)
{
    char level[32];
    size_t size = sizeof level;
    return !rd_kafka_conf_get(rd_kafka_conf(k->data), "isolation.level", level, &size) &&
           strcmp(level, "read_committed") == 0;
}

static char *ends_text(const struct kafka *k,
                       int64_t (*end_of)(const struct kafka *, const struct kafka_partition *))
{
    struct mt_offsets offsets = {0};
    for (size_t i = 0; i < k->n_parts; i++) {
        const struct kafka_partition *p = k->parts[i];
        if (p->in_range)
            mt_offsets_set(&offsets, p->topic->name, p->id, end_of(k, p));
    }
    char *text = mt_offsets_print(&offsets);
    mt_offsets_free(&offsets);
    return text;
}

static bool target_reached(const struct kafka *k)
{
    for (size_t i = 0; i < k->target.n; i++) {
        const struct mt_offset *item = &k->target.items[i];
        for (size_t j = 0; j < k->n_parts; j++) {
            const struct kafka_partition *p = k->parts[j];
            if (p->in_range && p->id == item->partition &&
                strcmp(p->topic->name, item->topic) == 0 && p->next < item->offset)
                return false;
        }
    }
    return true;
}

static char *latest_text(const struct kafka *k)
{
    if (k->has_target)
        return mt_offsets_print(&k->target);
    if (k->fill.reach == MT_REACH_LATEST)
        return ends_text(k, asked_end);
    return ends_text(k, kafka_reads_committed(k) ? stable_end : heard_end);
}

static void tell_ends(struct kafka *k, struct mt_ends *ends)
{
    struct kafka_fill *fill = &k->fill;
    if (!fill->end)
        fill->end = ends_text(k, taken_end);
    ends->end = mt_strdup(fill->end);
    ends->latest = latest_text(k);
    ends->facts = kafka_facts_print(k);
    /* After a jump, as into a topic made anew, the old position is one of other records. */
    ends->nothing = k->jumps.n == 0 && strcmp(fill->start, fill->end) == 0;
    ends->reached = k->has_target && target_reached(k);
    for (size_t i = 0; i < k->n_parts; i++)
        ends->more |= k->parts[i]->in_range && k->parts[i]->cut;
}

/* Closed with no rows because something is odd, or nobody answers: not "nothing new". */
static bool came_to_nothing(const struct kafka *k)
{
    return k->rows.n == 0 && (k->must_check || k->waiting);
}

static enum mt_status begin_fill(struct kafka *k, const char *start, enum mt_reach reach,
                                 int64_t now_ms, struct mt_error *err)
{
    struct kafka_fill *fill = &k->fill;
    bool same = fill->state != KAFKA_FILL_NONE && !fill->exact && fill->reach == reach &&
                strcmp(fill->start, start) == 0;
    if (same && (fill->state == KAFKA_FILL_OPEN || k->rows.n > 0))
        return MT_OK; /* goes on, or is told again */
    kafka_fill_drop(k);
    return kafka_range_open(k, start, reach, now_ms, err);
}

static enum mt_status kafka_available(struct mt_source *base, const char *start,
                                      enum mt_reach reach, int64_t now_ms, struct mt_ends *ends,
                                      struct mt_error *err)
{
    struct kafka *k = (struct kafka *)base;
    enum mt_status status = kafka_listen(k, err);
    if (status == MT_OK && base->past) {
        status = kafka_facts_read(k, base->past, err);
        mt_source_remember(base, NULL);
    }
    if (status == MT_OK)
        status = begin_fill(k, start, reach, now_ms, err);
    if (status == MT_OK && k->fill.state == KAFKA_FILL_OPEN)
        status = kafka_fill_run(k, now_ms, err);
    if (status != MT_OK)
        return status;
    if (came_to_nothing(k)) {
        kafka_fill_drop(k);
        base->again_ms = now_ms + 250;
        return MT_RETRY;
    }
    tell_ends(k, ends);
    return MT_OK;
}

/* ---- exactly a range */

static bool is_this_range(const struct kafka *k, const char *start, const char *end)
{
    const struct kafka_fill *fill = &k->fill;
    return fill->state != KAFKA_FILL_NONE && fill->end && strcmp(fill->start, start) == 0 &&
           strcmp(fill->end, end) == 0;
}

/* The batch is planned and handed out: what was settled for it stands. */
static void settle(struct kafka *k)
{
    k->lost += k->fill.lost;
    for (size_t i = 0; !k->fill.exact && i < k->n_topics; i++)
        memcpy(k->topics[i].ours, k->topics[i].id, sizeof k->topics[i].ours);
}

static enum mt_status kafka_read(struct mt_source *base, const char *start, const char *end,
                                 const char *facts, int64_t now_ms, struct mt_batch *out,
                                 struct mt_error *err)
{
    struct kafka *k = (struct kafka *)base;
    enum mt_status status = kafka_listen(k, err);
    if (status == MT_OK && !is_this_range(k, start, end)) {
        kafka_fill_drop(k);
        mt_source_remember(base, NULL); /* the plan's facts are newer */
        status = kafka_range_exact(k, start, end, facts, now_ms, err);
    }
    if (status == MT_OK && k->fill.state == KAFKA_FILL_OPEN)
        status = kafka_fill_run(k, now_ms, err);
    if (status != MT_OK)
        return status;
    kafka_rows_finish(k, out);
    settle(k);
    kafka_fill_drop(k);
    return MT_OK;
}

static enum mt_status kafka_committed(struct mt_source *base, const char *end, struct mt_error *err)
{
    (void)base, (void)end, (void)err;
    return MT_OK; /* the checkpoint has it */
}

static void kafka_close(struct mt_source *base)
{
    struct kafka *k = (struct kafka *)base;
    kafka_fill_drop(k);
    for (size_t i = 0; i < k->n_parts; i++) {
        kafka_stop(k->parts[i]);
        if (k->parts[i]->queue) {
            rd_kafka_queue_io_event_enable(k->parts[i]->queue, -1, NULL, 0);
            rd_kafka_queue_destroy(k->parts[i]->queue);
        }
        free(k->parts[i]);
    }
    free(k->parts);
    kafka_close_clients(k);
    for (size_t i = 0; i < k->n_topics; i++) {
        free(k->topics[i].name);
        free(k->topics[i].assigned);
    }
    free(k->topics);
    if (k->conf)
        rd_kafka_conf_destroy(k->conf);
    mt_offsets_free(&k->starting_at);
    mt_offsets_free(&k->target);
    mt_offsets_free(&k->jumps);
    if (base->wake_fd >= 0)
        close(base->wake_fd);
    mt_kafka_ear_deinit(&k->ear);
}

const struct mt_source_type mt_source_kafka = {
    .name = "kafka",
    .help = "records of Kafka topics",
    .options = kafka_option_table,
    .refusals = kafka_refusals,
    .size = sizeof(struct kafka),
    .replayable = true,
    .open = kafka_open,
    .resolve_start = kafka_resolve_start,
    .available = kafka_available,
    .read = kafka_read,
    .committed = kafka_committed,
    .describe = kafka_describe,
    .close = kafka_close,
};
