/* SPDX-License-Identifier: Apache-2.0
 *
 * kafka_fill.c - receiving a range of offsets from the partitions' queues.
 *
 * Each partition has a queue of its own from its first record on, and receiving goes on
 * across batches: librdkafka fetches ahead in the background while a batch is worked on,
 * and what is fetched stays in its queue until it is asked for. (assign or seek for every
 * batch would throw the fetched records away each time.) Partitions are drained one after
 * the other, which is the order of a batch; the others fill their queues meanwhile.
 *
 * When is a partition done? Not when record end-1 was seen: that offset may be a
 * transaction's marker, an aborted record, or compacted away, and never come. It is done
 * when what comes is at or past the end, when the broker says that there is nothing
 * before an offset at or past it (an end-of-partition event), or when the consumer's own
 * position has passed it. A record past the end is held for the next batch. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "kafka/kafka_newer.h"
#include "source/kafka/kafka_int.h"

/* ---- start and stop */

static void drop_held(struct kafka_partition *p)
{
    for (size_t i = p->held_at; i < p->n_held; i++)
        rd_kafka_message_destroy(p->held[i]);
    free(p->held);
    p->held = NULL;
    p->n_held = p->held_at = 0;
}

void kafka_stop(struct kafka_partition *p)
{
    if (p->running)
        rd_kafka_consume_stop(p->topic->data, p->id);
    p->running = false;
    drop_held(p);
}

enum mt_status kafka_start(struct kafka *k, struct kafka_partition *p, struct mt_error *err)
{
    static const uint64_t one = 1;
    kafka_stop(p);
    if (!p->queue) {
        p->queue = rd_kafka_queue_new(k->data);
        rd_kafka_queue_io_event_enable(p->queue, k->base.wake_fd, &one, sizeof one);
    }
    if (rd_kafka_consume_start_queue(p->topic->data, p->id, p->from, p->queue) == -1)
        return mt_fail(err, MT_FATAL, MT_CLASS_SOURCE,
                       "kafka: %s[%d] cannot be read from %" PRId64 " on: %s", p->topic->name,
                       p->id, p->from, rd_kafka_err2str(rd_kafka_last_error()));
    p->running = true;
    p->next = p->from;
    p->eof = -1;
    p->failed = RD_KAFKA_RESP_ERR_NO_ERROR;
    return MT_OK;
}

/* ---- what a queue holds */

/* The next records and events into k->chunk: held ones first. */
static size_t next_chunk(struct kafka *k, struct kafka_partition *p)
{
    size_t n = p->n_held - p->held_at;
    if (n == 0) {
        int64_t ask = p->cap - p->next;
        ssize_t got = rd_kafka_consume_batch_queue(p->queue, 0, k->chunk,
                                                   ask < KAFKA_CHUNK ? (size_t)ask : KAFKA_CHUNK);
        return got > 0 ? (size_t)got : 0;
    }
    n = n < KAFKA_CHUNK ? n : KAFKA_CHUNK;
    memcpy(k->chunk, p->held + p->held_at, n * sizeof *k->chunk);
    p->held_at += n;
    return n;
}

/* Puts back what was taken and is not wanted yet. */
static void hold(struct kafka_partition *p, rd_kafka_message_t **messages, size_t n)
{
    size_t left = p->n_held - p->held_at;
    rd_kafka_message_t **all = mt_alloc((n + left + 1) * sizeof *all);
    memcpy(all, messages, n * sizeof *all);
    if (left > 0)
        memcpy(all + n, p->held + p->held_at, left * sizeof *all);
    free(p->held);
    p->held = all;
    p->held_at = 0;
    p->n_held = n + left;
}

static enum mt_status damaged(const struct kafka_partition *p, const rd_kafka_message_t *event,
                              struct mt_error *err)
{
    return mt_fail(err, MT_FATAL, MT_CLASS_SOURCE,
                   "kafka: %s[%d] at offset %" PRId64 " cannot be read: %s; nothing was skipped",
                   p->topic->name, p->id, event->offset, rd_kafka_message_errstr(event));
}

static enum mt_status take_event(struct kafka_partition *p, const rd_kafka_message_t *event,
                                 struct mt_error *err)
{
    const char *words = rd_kafka_message_errstr(event);
    switch (event->err) {
    case RD_KAFKA_RESP_ERR__PARTITION_EOF:
        p->eof = event->offset;
        return MT_OK;
    case RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED:
        return mt_fail(err, MT_FATAL, MT_CLASS_SOURCE,
                       "kafka: topic %s: not authorized; the user of this job needs the ACL READ "
                       "on it",
                       p->topic->name);
    case RD_KAFKA_RESP_ERR__BAD_MSG:
    case RD_KAFKA_RESP_ERR__BAD_COMPRESSION:
    case RD_KAFKA_RESP_ERR__NOT_IMPLEMENTED:
    case RD_KAFKA_RESP_ERR_INVALID_MSG:
    case RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE:
        return damaged(p, event, err);
    case RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET: /* nothing is skipped: it stands still now */
        p->failed = words && strstr(words, rd_kafka_err2str(KAFKA_ERR_LOG_TRUNCATION))
                        ? KAFKA_ERR_LOG_TRUNCATION
                        : event->err;
        return MT_OK;
    default:
        mt_log(MT_DEBUG, "kafka: %s[%d]: %s", p->topic->name, p->id, words);
        p->failed = event->err;
        return MT_OK;
    }
}

static int64_t bytes_of(const struct kafka *k, const rd_kafka_message_t *message)
{
    int64_t bytes = (int64_t)(message->key_len + message->len) + KAFKA_RECORD_OVERHEAD;
    rd_kafka_headers_t *headers;
    const char *name;
    const void *value;
    size_t len;
    if (!k->include_headers || rd_kafka_message_headers(message, &headers))
        return bytes;
    for (size_t i = 0; !rd_kafka_header_get_all(headers, i, &name, &value, &len); i++)
        bytes += (int64_t)(strlen(name) + len);
    return bytes;
}

/* ---- taking */

/* Sorts out the first n of k->chunk: *kept records of the batch come to the front, the
 * rest is destroyed (events, what comes twice) or held. False: the partition has no more
 * for this batch. */
static bool sift(struct kafka *k, struct kafka_partition *p, size_t n, size_t *kept,
                 enum mt_status *status, struct mt_error *err)
{
    *kept = 0;
    for (size_t i = 0; i < n; i++) {
        rd_kafka_message_t *message = k->chunk[i];
        if (message->err) {
            *status = take_event(p, message, err);
        } else {
            int64_t bytes = bytes_of(k, message);
            bool past = message->offset >= p->cap;
            p->cut = !past && !k->fill.exact && p->taken > 0 && bytes > p->share;
            if (past || p->cut) {
                hold(p, k->chunk + i, n - i);
                p->done = past;
                return false;
            }
            if (message->offset >= p->next) { /* else it came before, as after a retry */
                p->next = message->offset + 1;
                p->taken++;
                p->share -= bytes;
                k->fill.bytes_left -= bytes;
                k->chunk[(*kept)++] = message;
                continue;
            }
        }
        rd_kafka_message_destroy(message);
        if (*status != MT_OK) {
            hold(p, k->chunk + i + 1, n - i - 1);
            return false;
        }
    }
    return p->next < p->cap;
}

static void note_epoch(struct kafka_partition *p, const rd_kafka_message_t *last)
{
    if (kafka_newer()->message_leader_epoch)
        p->epoch = kafka_newer()->message_leader_epoch(last);
}

/* Everything that p has ready and the batch may take. */
static enum mt_status take(struct kafka *k, struct kafka_partition *p, bool *moved,
                           struct mt_error *err)
{
    enum mt_status status = MT_OK;
    bool more = p->next < p->cap;
    size_t n, kept;
    while (more && status == MT_OK && (n = next_chunk(k, p)) > 0) {
        *moved = true;
        more = sift(k, p, n, &kept, &status, err);
        if (kept > 0) {
            note_epoch(p, k->chunk[kept - 1]);
            enum mt_status added = kafka_rows_add(k, p, k->chunk, (int64_t)kept, err);
            status = status == MT_OK ? added : status;
        }
        for (size_t i = 0; i < kept; i++)
            rd_kafka_message_destroy(k->chunk[i]);
    }
    return status;
}

static int64_t position(const struct kafka *k, const struct kafka_partition *p)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(list, p->topic->name, p->id);
    int64_t offset = -1;
    if (!rd_kafka_position(k->data, list) && !list->elems[0].err)
        offset = list->elems[0].offset;
    rd_kafka_topic_partition_list_destroy(list);
    return offset;
}

/* Nothing before p->cap can come any more. */
static bool is_done(const struct kafka *k, struct kafka_partition *p)
{
    if (p->done || p->next >= p->cap || p->eof >= p->cap ||
        (p->cap != INT64_MAX && p->n_held == p->held_at && position(k, p) >= p->cap)) {
        p->done = true;
        p->next = p->next > p->cap ? p->next : p->cap;
    }
    return p->done;
}

/* ---- a fill */

static int64_t waiting_in(const struct kafka *k, const struct kafka_partition *p)
{
    if (!p->in_range || p->done)
        return 0;
    if (k->fill.reach == MT_REACH_ARRIVED && !k->fill.exact)
        return (int64_t)(p->n_held - p->held_at + rd_kafka_queue_length(p->queue));
    return p->cap - p->next;
}

/* Of the bytes left, p gets what its backlog is of all that is still to come, so that the
 * first partitions do not use up every batch. */
static void give_share(struct kafka *k, struct kafka_partition *p)
{
    struct kafka_fill *fill = &k->fill;
    if (fill->backlog < 0) {
        fill->backlog = 0;
        for (size_t i = 0; i < k->n_parts; i++)
            fill->backlog += (double)waiting_in(k, k->parts[i]);
    }
    double own = (double)waiting_in(k, p), all = fill->backlog;
    p->share = all > own ? (int64_t)((double)fill->bytes_left * (own / all)) : fill->bytes_left;
    p->shared = true;
    fill->backlog = all > own ? all - own : 0;
}

static enum mt_status starve(struct kafka *k, const struct kafka_partition *p, int64_t now_ms)
{
    k->starved = true;
    return kafka_wait(k, now_ms, "waiting for records of %s[%d] from offset %" PRId64 " on",
                      p->topic->name, p->id, p->next);
}

/* An exact range does not come. */
static enum mt_status stuck(struct kafka *k, struct kafka_partition *p, int64_t now_ms,
                            struct mt_error *err)
{
    k->fill.stalled = true;
    enum mt_status status = kafka_range_recheck(k, now_ms, err);
    k->fill.stalled = false;
    if (status != MT_OK)
        return status;
    k->fill.moved_ms = now_ms;
    return starve(k, p, now_ms);
}

/* p has no more ready and is not done. OK: leave it for this batch. RETRY: wait for it. */
static enum mt_status leave_or_wait(struct kafka *k, struct kafka_partition *p, int64_t now_ms,
                                    struct mt_error *err)
{
    struct kafka_fill *fill = &k->fill;
    bool stalled = now_ms - fill->moved_ms >= KAFKA_STALL_MS;
    if (fill->exact && (p->failed || stalled))
        return stuck(k, p, now_ms, err);
    if (!fill->exact &&
        (p->failed || stalled || fill->stalled || fill->reach == MT_REACH_ARRIVED)) {
        bool odd = p->failed || fill->reach != MT_REACH_ARRIVED;
        if (odd && k->rows.n == 0)
            starve(k, p, now_ms); /* in case the batch comes to nothing */
        k->must_check |= odd;
        fill->stalled |= stalled;
        return MT_OK;
    }
    k->base.again_ms = now_ms + 100;
    return MT_RETRY;
}

enum mt_status kafka_fill_run(struct kafka *k, int64_t now_ms, struct mt_error *err)
{
    for (; k->fill.at < k->n_parts; k->fill.at++) {
        struct kafka_partition *p = k->parts[k->fill.at];
        if (!p->in_range || p->done)
            continue;
        if (!p->shared)
            give_share(k, p);
        bool moved = false;
        enum mt_status status = take(k, p, &moved, err);
        if (moved) {
            k->fill.moved_ms = now_ms;
            k->starved = false;
            if (!k->ear
                     .down) /* else it was fetched before: only an answer says that they are back */
                kafka_go_on(k);
        }
        if (status == MT_OK && !p->cut && !is_done(k, p))
            status = leave_or_wait(k, p, now_ms, err);
        if (status != MT_OK)
            return status;
    }
    if (k->starved && !k->must_check) {
        k->starved = false;
        kafka_go_on(k);
    }
    k->fill.state = KAFKA_FILL_CLOSED;
    return MT_OK;
}

void kafka_fill_drop(struct kafka *k)
{
    free(k->fill.start);
    free(k->fill.end);
    k->fill = (struct kafka_fill){0};
    kafka_rows_drop(k);
}
