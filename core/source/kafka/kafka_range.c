/* SPDX-License-Identifier: Apache-2.0
 *
 * kafka_range.c - which offsets a batch takes: where each partition begins, how far it
 * may go, and what to do when the log no longer holds them.
 *
 * A batch that is not planned yet (open) begins where the last one ended and goes as far
 * as its reach allows; new partitions join, lost ones leave. A planned batch (exact) is
 * that range and no other. Both pass the same checks before receiving starts or when it
 * stops coming: is the topic there, is it the same topic, does the log hold the offsets.
 * The checks are what keeps the source from waiting for records that cannot come.
 *
 * Brokers tell bad news that is not true for a moment (a new leader, stale metadata), so
 * it must be told for a second before it is believed. The exception is a log that begins
 * later than we want to read: that never goes back.
 *
 * A partition in range is asked about once a batch with LATEST. With ARRIVED nobody is asked: a
 * look that no batch waits for tells what has changed (kafka_look.c), and that is asked about. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "kafka/kafka_newer.h"
#include "source/kafka/kafka_int.h"

enum { WHOLE_RUN_BYTES = 1536 << 20 }; /* of MT_REACH_ALL: what 32-bit text offsets can hold */

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Bad news: RETRY until it has been told long enough, then OK: believe it. */
static enum mt_status doubt(struct kafka *k, int64_t now_ms, const char *what,
                            const struct kafka_partition *p)
{
    if (!k->doubt_ms)
        k->doubt_ms = now_ms;
    if (now_ms - k->doubt_ms >= KAFKA_DOUBT_MS)
        return MT_OK;
    return kafka_wait(k, now_ms, "asking again whether %s[%d] %s", p->topic->name, p->id, what);
}

static void leave(struct kafka_partition *p)
{
    p->done = true;
    p->in_range = false;
}

/* A partition before a range is drawn. */
static void begin(struct kafka_partition *p)
{
    p->in_range = p->done = p->cut = p->shared = false;
    p->taken = 0;
}

/* ---- checks of what is in range; each settles a partition or answers RETRY, FATAL */

static enum mt_status check_exists(struct kafka *k, struct kafka_partition *p, int64_t now_ms,
                                   struct mt_error *err)
{
    if (kafka_topic_has(p->topic, p->id))
        return MT_OK;
    enum mt_status status = doubt(k, now_ms, "no longer exists", p);
    if (status == MT_OK)
        status = kafka_lost(k, KAFKA_LOSS_DELETED, p, p->from, k->fill.exact ? p->cap : -1, err);
    if (status != MT_OK)
        return status;
    kafka_stop(p);
    if (k->fill.exact)
        p->done = true; /* nothing of it can be read; the plan's end stands */
    else
        leave(p);
    return MT_OK;
}

/* A new partition's jump is not a loss unless its log has been cut already. */
static enum mt_status check_new(struct kafka *k, struct kafka_partition *p, struct mt_error *err)
{
    if (p->from >= 0)
        return MT_OK;
    p->from = p->earliest;
    mt_offsets_set(&k->jumps, p->topic->name, p->id, p->from);
    if (p->earliest == 0 || k->fill.exact)
        return MT_OK;
    return kafka_lost(k, KAFKA_LOSS_NEW_LATE, p, 0, p->earliest, err);
}

/* Positions that we have are of another topic of this name. */
static bool is_remade(const struct kafka_topic *topic)
{
    return topic->id[0] && topic->ours[0] && strcmp(topic->id, topic->ours) != 0;
}

static enum mt_status check_remade(struct kafka *k, struct kafka_partition *p, int64_t now_ms,
                                   struct mt_error *err)
{
    const struct kafka_topic *topic = p->topic;
    if (p->from < 0 || !is_remade(topic))
        return MT_OK;
    enum mt_status status = doubt(k, now_ms, "is of a topic made anew", p);
    if (status == MT_OK)
        status = kafka_lost(k, KAFKA_LOSS_REMADE, p, p->from, k->fill.exact ? p->cap : -1, err);
    if (status != MT_OK)
        return status;
    kafka_stop(p);
    if (k->fill.exact) {
        p->done = true; /* of the old topic; the next batch begins in the new one */
        return MT_OK;
    }
    p->from = p->earliest;
    mt_offsets_set(&k->jumps, topic->name, p->id, p->from);
    return MT_OK;
}

/* The log ends before what is wanted. */
static enum mt_status check_end(struct kafka *k, struct kafka_partition *p, int64_t now_ms,
                                struct mt_error *err)
{
    int64_t wanted = k->fill.exact ? p->cap : p->from;
    if (p->failed == KAFKA_ERR_LOG_TRUNCATION && p->latest >= wanted)
        return kafka_lost(k, KAFKA_LOSS_REPLACED, p, p->from, -1, err);
    if (p->latest >= wanted)
        return MT_OK;
    enum mt_status status = doubt(k, now_ms, "ends before our position", p);
    if (status == MT_OK)
        status = kafka_lost(k, KAFKA_LOSS_CUT, p, p->latest, wanted, err);
    if (status != MT_OK)
        return status;
    if (k->fill.exact) {
        p->cap = p->latest;
    } else {
        p->from = p->latest;
        mt_offsets_set(&k->jumps, p->topic->name, p->id, p->from);
    }
    return MT_OK;
}

/* The log begins after what is wanted. Records of a running partition may be gone from
 * the log and still be on their way: only what has to be asked of the log counts. */
static enum mt_status check_start(struct kafka *k, struct kafka_partition *p, struct mt_error *err)
{
    bool on_its_way = p->running && p->next == p->from && !p->failed && !k->fill.stalled;
    if (on_its_way || p->earliest <= p->from)
        return MT_OK;
    int64_t to = k->fill.exact ? least(p->earliest, p->cap) : p->earliest;
    enum mt_status status = kafka_lost(k, KAFKA_LOSS_EXPIRED, p, p->from, to, err);
    if (status != MT_OK)
        return status;
    p->from = to;
    if (!k->fill.exact)
        mt_offsets_set(&k->jumps, p->topic->name, p->id, p->from);
    return MT_OK;
}

static enum mt_status check_offsets(struct kafka *k, struct kafka_partition *p, int64_t now_ms,
                                    struct mt_error *err)
{
    enum mt_status status = check_new(k, p, err);
    if (status == MT_OK)
        status = check_remade(k, p, now_ms, err);
    if (status == MT_OK && !p->done)
        status = check_end(k, p, now_ms, err);
    if (status == MT_OK && !p->done && (!k->fill.exact || p->from < p->cap))
        status = check_start(k, p, err);
    return status;
}

/* Topics and offsets of all that is in range and not done. */
static enum mt_status check(struct kafka *k, int64_t now_ms, struct mt_error *err)
{
    enum mt_status status = MT_OK;
    for (size_t i = 0; status == MT_OK && i < k->n_parts; i++)
        if (k->parts[i]->in_range && !k->parts[i]->done)
            status = check_exists(k, k->parts[i], now_ms, err);
    if (status == MT_OK)
        status = kafka_ask_offsets(k, now_ms, err);
    for (size_t i = 0; status == MT_OK && i < k->n_parts; i++)
        if (k->parts[i]->in_range && !k->parts[i]->done)
            status = check_offsets(k, k->parts[i], now_ms, err);
    if (status != MT_OK)
        return status;
    k->doubt_ms = 0;
    k->must_check = k->look_failed = false;
    k->checked_ms = now_ms;
    if (!k->starved)
        kafka_go_on(k);
    return MT_OK;
}

static enum mt_status start_all(struct kafka *k, struct mt_error *err)
{
    size_t n = 0;
    enum mt_status status = MT_OK;
    for (size_t i = 0; i < k->n_parts; i++)
        n += k->parts[i]->in_range;
    if (n > 0)
        status = kafka_open_data(k, n, err);
    for (size_t i = 0; status == MT_OK && i < k->n_parts; i++) {
        struct kafka_partition *p = k->parts[i];
        if (p->in_range && !p->done && (!p->running || p->failed || p->next != p->from))
            status = kafka_start(k, p, err);
    }
    return status;
}

/* ---- a batch not planned yet */

static bool joins(const struct kafka *k, const struct kafka_topic *topic, int32_t id)
{
    if (k->has_target) /* fixed at the first look of the run */
        return mt_offsets_has(&k->target, topic->name, id);
    return kafka_topic_has(topic, id);
}

static enum mt_status parse_position(const char *text, struct mt_offsets *out, struct mt_error *err)
{
    enum mt_status status = mt_offsets_parse(text, 0, out, err);
    if (status == MT_OK)
        return MT_OK;
    err->class_ = MT_CLASS_CHECKPOINT;
    return mt_fail_within(err, status, "kafka: a position of the checkpoint: ");
}

/* The checkpoint is further than the job looks. */
static enum mt_status topic_dropped(const struct kafka *k, const char *topic, struct mt_error *err)
{
    if (k->fail_on_loss)
        return mt_fail(
            err, MT_FATAL, MT_CLASS_DATA_LOSS,
            "data loss: the checkpoint has positions in topic %s, which the job no longer "
            "reads: name it again in subscribe or assign, set failOnDataLoss=false to "
            "drop it, or use a new checkpoint",
            topic);
    mt_log(MT_WARN,
           "data loss: the checkpoint has positions in topic %s, which the job no longer "
           "reads; failOnDataLoss is false: dropped",
           topic);
    return MT_OK;
}

/* Puts what exists and what the position names into the range. */
static enum mt_status draw_range(struct kafka *k, const struct mt_offsets *from,
                                 struct mt_error *err)
{
    enum mt_status status = MT_OK;
    for (size_t i = 0; i < k->n_parts; i++)
        begin(k->parts[i]);
    for (size_t t = 0; t < k->n_topics; t++)
        for (int32_t id = 0; id < k->topics[t].n_partitions; id++)
            if (joins(k, &k->topics[t], id)) {
                struct kafka_partition *p = kafka_partition_of(k, &k->topics[t], id);
                p->in_range = true;
                p->from = mt_offsets_get(from, p->topic->name, id, -1);
            }
    for (size_t i = 0; status == MT_OK && i < from->n; i++) {
        struct kafka_topic *topic = kafka_topic_of(k, from->items[i].topic);
        if (!topic) {
            status = topic_dropped(k, from->items[i].topic, err);
            continue;
        }
        struct kafka_partition *p = kafka_partition_of(k, topic, from->items[i].partition);
        p->in_range = true;
        p->from = from->items[i].offset;
    }
    return status;
}

/* What is in range as offsets: of the position, or of the ends of the log. */
static void collect(const struct kafka *k, bool latest, struct mt_offsets *out)
{
    *out = (struct mt_offsets){0};
    for (size_t i = 0; i < k->n_parts; i++) {
        const struct kafka_partition *p = k->parts[i];
        if (p->in_range)
            mt_offsets_set(out, p->topic->name, p->id, latest ? p->latest : p->from);
    }
}

/* What has arrived, as the ends that a limit is shared over. */
static void collect_arrived(const struct kafka *k, struct mt_offsets *out)
{
    *out = (struct mt_offsets){0};
    for (size_t i = 0; i < k->n_parts; i++) {
        const struct kafka_partition *p = k->parts[i];
        if (p->in_range)
            mt_offsets_set(out, p->topic->name, p->id,
                           p->from +
                               (int64_t)(p->n_held - p->held_at + rd_kafka_queue_length(p->queue)));
    }
}

static void set_caps(struct kafka *k, const struct mt_offsets *caps)
{
    for (size_t i = 0; i < k->n_parts; i++) {
        struct kafka_partition *p = k->parts[i];
        if (p->in_range)
            p->cap = caps ? mt_offsets_get(caps, p->topic->name, p->id, p->from) : INT64_MAX;
    }
}

static void limit(struct kafka *k, enum mt_reach reach)
{
    struct mt_offsets begin, latest, ends;
    bool limited = k->max_offsets > 0 && reach != MT_REACH_ALL;
    if (reach == MT_REACH_ARRIVED && !limited) {
        set_caps(k, NULL);
        return;
    }
    collect(k, false, &begin);
    if (reach == MT_REACH_ARRIVED)
        collect_arrived(k, &latest);
    else
        collect(k, true, &latest);
    if ((reach == MT_REACH_TARGET || reach == MT_REACH_ALL) && !k->has_target) {
        collect(k, true, &k->target);
        k->has_target = true;
    }
    const struct mt_offsets *until = k->has_target ? &k->target : &latest;
    if (limited) {
        kafka_split(&begin, until, k->max_offsets, &ends);
        set_caps(k, &ends);
        mt_offsets_free(&ends);
    } else {
        set_caps(k, until);
    }
    mt_offsets_free(&begin);
    mt_offsets_free(&latest);
}

static bool all_run(const struct kafka *k)
{
    for (size_t i = 0; i < k->n_parts; i++) {
        const struct kafka_partition *p = k->parts[i];
        if (p->in_range && (!p->running || p->failed || p->next != p->from))
            return false;
    }
    return true;
}

/* For how long what was known is good; a look that gets no answer is waited for at last. */
static int64_t patience(const struct kafka *k)
{
    if (k->ear.down)
        return KAFKA_REFRESH_MS / 5;
    return kafka_can_look(k) ? 2 * KAFKA_REFRESH_MS : KAFKA_REFRESH_MS;
}

static bool must_ask(const struct kafka *k, enum mt_reach reach, int64_t now_ms)
{
    if (k->must_check || !k->checked_ms || !all_run(k))
        return true;
    if (reach == MT_REACH_ARRIVED)
        return k->look_failed || now_ms - k->checked_ms >= patience(k);
    return reach == MT_REACH_LATEST || !k->has_target;
}

static enum mt_status ask_and_check(struct kafka *k, const struct mt_offsets *from, int64_t now_ms,
                                    struct mt_error *err)
{
    enum mt_status status = kafka_ask_topics(k, now_ms, err);
    if (status == MT_OK && !k->checked_ms)
        status = kafka_topics_exist(k, from, now_ms, err);
    if (status == MT_OK)
        status = draw_range(k, from, err); /* again: partitions may have come */
    if (status == MT_OK)
        status = check(k, now_ms, err);
    return status == MT_OK ? start_all(k, err) : status;
}

/* Nobody answers, but everything runs: take what is here. It is said when it is nothing. */
static bool can_go_on(struct kafka *k, enum mt_reach reach, const struct mt_offsets *from,
                      int64_t now_ms)
{
    struct mt_error unheeded = {0};
    if (reach != MT_REACH_ARRIVED || k->must_check || k->doubt_ms || !k->checked_ms)
        return false;
    for (size_t i = 0; i < k->n_topics; i++)
        if (is_remade(&k->topics[i]))
            return false; /* a plan would name the new one for rows of the old one */
    k->ear.down = true;   /* asks again in a second, not at every batch */
    k->look_failed = false;
    k->checked_ms = now_ms;
    return draw_range(k, from, &unheeded) == MT_OK && all_run(k);
}

static enum mt_status settle_range(struct kafka *k, const struct mt_offsets *from,
                                   enum mt_reach reach, int64_t now_ms, struct mt_error *err)
{
    enum mt_status status = draw_range(k, from, err);
    if (status == MT_OK && reach == MT_REACH_ARRIVED)
        kafka_look(k, now_ms);
    if (status != MT_OK || !must_ask(k, reach, now_ms))
        return status;
    status = ask_and_check(k, from, now_ms, err);
    return status == MT_RETRY && can_go_on(k, reach, from, now_ms) ? MT_OK : status;
}

static void open_fill(struct kafka *k, const char *start, const char *end, int64_t bytes,
                      int64_t now_ms)
{
    k->fill.state = KAFKA_FILL_OPEN;
    k->fill.start = mt_strdup(start);
    k->fill.end = end ? mt_strdup(end) : NULL;
    k->fill.bytes_left = bytes;
    k->fill.backlog = -1;
    k->fill.moved_ms = now_ms;
}

enum mt_status kafka_range_open(struct kafka *k, const char *start, enum mt_reach reach,
                                int64_t now_ms, struct mt_error *err)
{
    struct mt_offsets from;
    k->fill.exact = false;
    k->fill.reach = reach;
    mt_offsets_free(&k->jumps);
    enum mt_status status = parse_position(start, &from, err);
    if (status == MT_OK)
        status = settle_range(k, &from, reach, now_ms, err);
    mt_offsets_free(&from);
    if (status != MT_OK)
        return status;
    limit(k, reach);
    open_fill(k, start, NULL, reach == MT_REACH_ALL ? WHOLE_RUN_BYTES : k->max_bytes, now_ms);
    return MT_OK;
}

/* ---- a planned batch */

static enum mt_status draw_exact_partition(struct kafka *k, const struct mt_offset *end,
                                           const struct mt_offsets *from, struct mt_error *err)
{
    struct kafka_topic *topic = kafka_topic_of(k, end->topic);
    if (!topic)
        return mt_fail(err, MT_FATAL, MT_CLASS_CHECKPOINT,
                       "kafka: the planned batch reads topic %s, which the job no longer names: "
                       "name it in subscribe or assign until the batch is done",
                       end->topic);
    struct kafka_partition *p = kafka_partition_of(k, topic, end->partition);
    p->in_range = true;
    p->cap = end->offset;
    p->from = mt_offsets_get(from, topic->name, p->id, -1);
    p->from = mt_offsets_get(&k->jumps, topic->name, p->id, p->from);
    p->done = p->from >= p->cap; /* nothing new; or a log that was cut when it was planned */
    return MT_OK;
}

static enum mt_status draw_exact(struct kafka *k, const char *start, const char *end,
                                 const char *facts, struct mt_error *err)
{
    struct mt_offsets from, to = {0};
    enum mt_status status = parse_position(start, &from, err);
    if (status == MT_OK)
        status = parse_position(end, &to, err);
    if (status == MT_OK)
        status = kafka_facts_read(k, facts, err);
    for (size_t i = 0; i < k->n_parts; i++)
        begin(k->parts[i]);
    for (size_t i = 0; status == MT_OK && i < to.n; i++)
        status = draw_exact_partition(k, &to.items[i], &from, err);
    mt_offsets_free(&from);
    mt_offsets_free(&to);
    return status;
}

static enum mt_status check_and_start(struct kafka *k, int64_t now_ms, struct mt_error *err)
{
    enum mt_status status = kafka_ask_topics(k, now_ms, err);
    if (status == MT_OK)
        status = check(k, now_ms, err);
    for (size_t i = 0; status == MT_OK && i < k->n_parts; i++)
        if (k->parts[i]->in_range && k->parts[i]->from >= k->parts[i]->cap)
            k->parts[i]->done = true;
    return status == MT_OK ? start_all(k, err) : status;
}

enum mt_status kafka_range_exact(struct kafka *k, const char *start, const char *end,
                                 const char *facts, int64_t now_ms, struct mt_error *err)
{
    k->fill.exact = true;
    enum mt_status status = draw_exact(k, start, end, facts, err);
    if (status == MT_OK)
        status = check_and_start(k, now_ms, err);
    if (status == MT_OK)
        open_fill(k, start, end, INT64_MAX / 2, now_ms);
    return status;
}

enum mt_status kafka_range_recheck(struct kafka *k, int64_t now_ms, struct mt_error *err)
{
    for (size_t i = 0; i < k->n_parts; i++)
        if (k->parts[i]->in_range && !k->parts[i]->done)
            k->parts[i]->from = k->parts[i]->next;
    return check_and_start(k, now_ms, err);
}
