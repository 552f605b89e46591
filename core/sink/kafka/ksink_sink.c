/* SPDX-License-Identifier: Apache-2.0
 *
 * ksink_sink.c - records in Kafka's topics, each batch in them exactly once.
 *
 * A batch is one Kafka transaction. Its marker (ksink_marker.c) is a part of it, so that
 * records and marker become visible in one act of the brokers, the commit:
 *
 *   write    begin the transaction, send, wait until all are delivered
 *   commit   add the marker -> commit
 *
 * A crash before the commit leaves a transaction that the next owner of the transactional.id
 * aborts; one after it leaves a marker, which begin finds. Who reads with isolation.level
 * read_committed sees neither aborted records nor half a batch. A batch without rows writes
 * nothing, and is NEW again when it is replayed.
 *
 * With delivery=at-least-once there is no transaction and no marker: every batch is NEW.
 *
 * The tests' named steps say what was just done: kafka.written (all records delivered),
 * kafka.marked (the marker is in the transaction), kafka.committed. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/step.h"
#include "sink/kafka/ksink_int.h"

static void ksink_names(const struct mt_sink *sink, char **place, char **inside)
{
    const struct ksink *k = (const struct ksink *)sink;
    char *topic = k->topic ? ksink_trimmed(k->topic) : NULL;
    *place = mt_format("%s at %s", topic ? topic : "topics by column",
                       k->brokers ? k->brokers : "no brokers");
    *inside = topic;
}

static enum mt_status ksink_open(struct mt_sink *sink, struct mt_error *err)
{
    struct ksink *k = (struct ksink *)sink;
    enum mt_status status = ksink_declare(k, err);
    if (status != MT_OK)
        return status;
    k->fenced_batch = -1;
    k->messages = mt_alloc(KSINK_CHUNK * sizeof *k->messages);
    mt_kafka_ear_init(&k->ear);
    return MT_OK;
}

static void ksink_forget_attempt(struct ksink *k)
{
    if (k->stamp)
        rd_kafka_headers_destroy(k->stamp);
    k->stamp = NULL;
    k->marked = NULL;
    k->failed = MT_OK;
    k->failed_size = 0;
    k->open = false;
}

static void ksink_abort(struct mt_sink *sink)
{
    struct ksink *k = (struct ksink *)sink;
    ksink_give_up(k);
    ksink_forget_attempt(k);
}

/* Another query's transactions and markers have other names. */
static void set_query(struct ksink *k, const char *query_id)
{
    if (k->query && strcmp(k->query, query_id) == 0)
        return;
    ksink_drop_producer(k);
    free(k->query);
    free(k->id);
    k->query = mt_strdup(query_id);
    k->id = mt_format("moontide-%s-%s", query_id, k->base.marker_identity);
}

static void ksink_close(struct mt_sink *sink)
{
    struct ksink *k = (struct ksink *)sink;
    ksink_abort(sink);
    ksink_drop_producer(k);
    rd_kafka_conf_destroy(k->conf);
    mt_kafka_ear_deinit(&k->ear);
    free(k->messages);
    free(k->query);
    free(k->id);
}

static enum mt_status ksink_recover(struct mt_sink *sink, const char *query_id,
                                    struct mt_error *err)
{
    struct ksink *k = (struct ksink *)sink;
    ksink_abort(sink);
    set_query(k, query_id);
    k->batch_id = -1;
    return k->transactional ? ksink_ready(k, err) : MT_OK;
}

/* ---- begin */

static enum mt_status conflict(const struct ksink *k, const struct mt_sink_batch *batch,
                               struct mt_error *err)
{
    char what[128];
    if (k->held.batch_id > batch->batch_id)
        snprintf(what, sizeof what, "holds batch %" PRId64 " already", k->held.batch_id);
    else
        snprintf(what, sizeof what, "holds it with other contents (digest %.12s, now %.12s)",
                 k->held.digest, batch->digest);
    return mt_fail(err, MT_OK, MT_CLASS_CHECKPOINT,
                   "%s %s: this checkpoint is older than the destination, or two processes run "
                   "it. Put back the checkpoint of the last run, or use a new checkpoint and a "
                   "new topic",
                   k->base.identity, what);
}

/* Nothing is marked, and a batch that may have been stored was planned before what the
 * brokers still remember: they would have forgotten its marker, too. */
static enum mt_status check_doubt(const struct ksink *k, const struct mt_sink_batch *batch,
                                  struct mt_error *err)
{
    enum { MINUTE_MS = 60000 };
    int64_t age_ms = mt_clock_ms() - batch->planned_us / 1000;
    if (k->holds || batch->attempt <= 1 || age_ms < MINUTE_MS)
        return MT_OK;
    int64_t kept_ms = ksink_retention_ms(k->producer);
    if (age_ms < kept_ms)
        return MT_OK;
    return mt_fail(err, MT_FATAL, MT_CLASS_CHECKPOINT,
                   "%s: nobody knows whether it holds this batch: it was planned %" PRId64
                   " minutes ago, and the brokers forget after %" PRId64
                   " minutes (offsets.retention.minutes) what group %s marked. Look into the "
                   "topic, then start once with --sink-holds %" PRId64
                   " yes (it is there) or --sink-holds %" PRId64 " no (it is not: write it)",
                   k->base.identity, age_ms / MINUTE_MS, kept_ms / MINUTE_MS, k->id,
                   batch->batch_id, batch->batch_id);
}

static enum mt_status answer(const struct ksink *k, const struct mt_sink_batch *batch,
                             enum mt_sink_answer *answer, struct mt_sink_record *record,
                             struct mt_error *err)
{
    const struct mt_sink_record *held = &k->held;
    *answer = MT_SINK_NEW;
    if (!k->holds && batch->said == MT_SAID_HELD) {
        *answer = MT_SINK_STORED;
        *record = sink_record_of(batch);
        record->rows = batch->rows;
        return MT_OK;
    }
    if (!k->holds || held->batch_id < batch->batch_id)
        return batch->said == MT_SAID_NOT_HELD ? MT_OK : check_doubt(k, batch, err);
    if (held->batch_id == batch->batch_id && strcmp(held->digest, batch->digest) == 0) {
        *answer = MT_SINK_STORED;
        *record = *held;
        return MT_OK;
    }
    *answer = MT_SINK_CONFLICT;
    return conflict(k, batch, err);
}

static enum mt_status ksink_begin(struct mt_sink *sink, const struct mt_sink_batch *batch,
                                  enum mt_sink_answer *out, struct mt_sink_record *record,
                                  struct mt_error *err)
{
    struct ksink *k = (struct ksink *)sink;
    ksink_abort(sink);
    set_query(k, batch->query_id);
    k->batch_id = batch->batch_id;
    *out = MT_SINK_NEW;
    enum mt_status status = ksink_ready(k, err);
    if (status == MT_OK && k->transactional)
        status = answer(k, batch, out, record, err);
    if (status != MT_OK || *out != MT_SINK_NEW)
        return status;
    k->open = true;
    k->given = sink_record_of(batch);
    if (k->provenance)
        ksink_stamp(k, batch);
    return MT_OK;
}

/* ---- write, commit */

/* Records that are on their way point into rows: it returns when none is. */
static enum mt_status ksink_write(struct mt_sink *sink, const struct mt_batch *rows,
                                  struct mt_error *err)
{
    struct ksink *k = (struct ksink *)sink;
    if (!k->open)
        return sink_not_open(sink, "write", err);
    enum mt_status status = ksink_open_transaction(k, err);
    k->rows = rows;
    if (status == MT_OK) {
        struct mt_error late;
        status = ksink_produce(k, rows, err);
        enum mt_status delivered = ksink_flush(k, status == MT_OK ? err : &late);
        status = status == MT_OK ? delivered : status;
    }
    k->rows = NULL;
    k->open = status == MT_OK;
    if (status != MT_OK)
        return status;
    k->given.rows += rows->array.length;
    mt_step("kafka.written", k->batch_id);
    return MT_OK;
}

static enum mt_status ksink_commit(struct mt_sink *sink, struct mt_sink_record *record,
                                   struct mt_error *err)
{
    struct ksink *k = (struct ksink *)sink;
    if (!k->open)
        return sink_not_open(sink, "commit", err);
    k->open = false;
    enum mt_status status = k->dirty ? ksink_store(k, err) : MT_OK;
    if (status != MT_OK)
        return status;
    if (k->transactional && k->given.rows > 0) {
        k->holds = true;
        k->held = k->given;
    }
    *record = k->given;
    ksink_forget_attempt(k);
    return MT_OK;
}

/* ---- describe */

static void print_marker(const struct mt_sink_record *held, struct mt_buf *json)
{
    mt_buf_addf(json,
                "{\"batch\":%" PRId64 ",\"digest\":\"%s\",\"rows\":%" PRId64
                ",\"fingerprint\":\"%016" PRIx64 "\",\"bundle\":\"%s\"}",
                held->batch_id, held->digest, held->rows, held->fingerprint, held->bundle);
}

static void describe_marker(struct ksink *k, const char *query_id, struct mt_buf *json)
{
    struct mt_error err;
    struct mt_sink_record held = {0};
    bool holds = false;
    char *group = mt_format("moontide-%s-%s", query_id, k->base.marker_identity);
    enum mt_status status = ksink_marker_read(k, group, &holds, &held, &err);
    free(group);
    if (status == MT_OK && holds)
        print_marker(&held, json);
    else
        mt_buf_adds(json, "null");
    if (status != MT_OK) {
        mt_buf_adds(json, ",\"error\":");
        mt_buf_add_json(json, err.text, strlen(err.text));
    }
}

static void ksink_describe(struct mt_sink *sink, const char *query_id, struct mt_buf *json)
{
    struct ksink *k = (struct ksink *)sink;
    char *text = mt_format("KafkaSink[%s]", k->topic ? k->topic : "topics by column");
    mt_buf_adds(json, "{\"description\":");
    mt_buf_add_json(json, text, strlen(text));
    mt_buf_addf(json, ",\"guarantee\":\"%s\",\"marker\":",
                k->transactional ? "exactly once" : "at least once");
    free(text);
    if (query_id && k->transactional)
        describe_marker(k, query_id, json);
    else
        mt_buf_adds(json, "null");
    mt_buf_adds(json, "}");
}

const struct mt_sink_type sink_kafka = {
    .name = "kafka",
    .help = "records in topics of Kafka, a transaction a batch",
    .options = ksink_option_table,
    .refusals = ksink_refusals,
    .size = sizeof(struct ksink),
    .exactly_once = true,
    .needs_checkpoint = true,
    .names = ksink_names,
    .open = ksink_open,
    .recover = ksink_recover,
    .begin = ksink_begin,
    .write = ksink_write,
    .commit = ksink_commit,
    .abort = ksink_abort,
    .describe = ksink_describe,
    .close = ksink_close,
};
