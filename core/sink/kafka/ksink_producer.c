/* SPDX-License-Identifier: Apache-2.0
 *
 * ksink_producer.c - the producer's life.
 *
 * It is made at the first need and lives on from batch to batch. init_transactions comes
 * before the marker is read: it ends what an older owner has left open, and from then on that
 * owner can store nothing, so what is read then stands. A producer that had a fatal error, or whose
 * commit got no answer, is destroyed; the one after it with the same transactional.id is told the
 * truth by init_transactions and the marker. Everything is flushed before an abort: without
 * that the client loses count of what the brokers have.
 *
 * There is no thread of our own: reports come as events, taken while the sink waits. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/step.h"
#include "sink/kafka/ksink_int.h"

/* ---- making one */

static void set(rd_kafka_conf_t *conf, const char *name, const char *value)
{
    rd_kafka_conf_set(conf, name, value, NULL, 0);
}

/* A record's time is less than its transaction's, so that its failure is told within it. */
static void bound_delivery(const struct ksink *k, rd_kafka_conf_t *conf)
{
    char text[30];
    if (mt_pairs_get(&k->settings, "message.timeout.ms") ||
        mt_pairs_get(&k->settings, "delivery.timeout.ms"))
        return;
    long long limit = KSINK_DELIVERY_MS, of_transaction;
    of_transaction =
        strtoll(mt_kafka_conf_get(conf, "transaction.timeout.ms", text, sizeof text), NULL, 10);
    if (k->transactional && of_transaction < limit)
        limit = of_transaction;
    snprintf(text, sizeof text, "%lld", limit);
    set(conf, "message.timeout.ms", text);
}

static enum mt_status make(struct ksink *k, struct mt_error *err)
{
    char why[512];
    rd_kafka_conf_t *conf = rd_kafka_conf_dup(k->conf);
    mt_kafka_ear_attach(&k->ear, conf);
    rd_kafka_conf_set_events(conf, RD_KAFKA_EVENT_DR | RD_KAFKA_EVENT_ERROR);
    if (k->transactional)
        set(conf, "transactional.id", k->id);
    bound_delivery(k, conf);
    k->producer = rd_kafka_new(RD_KAFKA_PRODUCER, conf, why, sizeof why);
    if (!k->producer) {
        rd_kafka_conf_destroy(conf);
        return mt_fail(err, MT_FATAL, MT_CLASS_JOB,
                       "kafka: the client cannot be made with these settings: %s", why);
    }
    k->events = rd_kafka_queue_get_main(k->producer);
    return MT_OK;
}

void ksink_drop_producer(struct ksink *k)
{
    for (size_t i = 0; i < k->n_topics; i++) {
        rd_kafka_topic_destroy(k->topics[i].handle);
        free(k->topics[i].name);
    }
    free(k->topics);
    k->topics = NULL;
    k->n_topics = 0;
    k->marked = NULL;
    if (k->producer) {
        rd_kafka_queue_destroy(k->events);
        rd_kafka_purge(k->producer, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
        rd_kafka_destroy(k->producer); /* no thread of it is left, no byte of ours looked at */
    }
    k->producer = NULL;
    k->fencing = k->ready = k->dirty = k->broken = false;
}

static enum mt_status fence_others(struct ksink *k, struct mt_error *err)
{
    ksink_poll(k, 0);
    rd_kafka_error_t *problem = rd_kafka_init_transactions(k->producer, KSINK_REQUEST_MS);
    if (!problem) {
        k->answered = k->fencing = true;
        mt_kafka_ear_forget(&k->ear);
        return MT_OK;
    }
    bool resumes = rd_kafka_error_is_retriable(problem); /* called again, it goes on */
    ksink_poll(k, 0);
    enum mt_status status = ksink_failed(k, "waiting for brokers", problem, err);
    if (!resumes || status != MT_RETRY)
        ksink_drop_producer(k);
    return status;
}

enum mt_status ksink_ready(struct ksink *k, struct mt_error *err)
{
    enum mt_status status = k->producer ? MT_OK : make(k, err);
    if (status != MT_OK || k->ready || !k->transactional)
        return status;
    if (!k->fencing)
        status = fence_others(k, err);
    if (status == MT_OK)
        status = ksink_marker_read(k, k->id, &k->holds, &k->held, err);
    k->ready = status == MT_OK;
    return status;
}

/* ---- waiting */

static void take_reports(struct ksink *k, rd_kafka_event_t *event)
{
    for (const rd_kafka_message_t *m; (m = rd_kafka_event_message_next(event));)
        if (m->err)
            ksink_note(k, m, m->err);
}

void ksink_poll(struct ksink *k, int wait_ms)
{
    for (rd_kafka_event_t *event; (event = rd_kafka_queue_poll(k->events, wait_ms)); wait_ms = 0) {
        if (rd_kafka_event_type(event) == RD_KAFKA_EVENT_DR)
            take_reports(k, event);
        else if (rd_kafka_event_type(event) == RD_KAFKA_EVENT_ERROR)
            mt_kafka_ear_hear(&k->ear, rd_kafka_event_error(event),
                              rd_kafka_event_error_string(event));
        rd_kafka_event_destroy(event);
    }
}

/* A flush returns when nothing is on its way, and reports of failures are on theirs. */
static enum mt_status wait_for_deliveries(struct ksink *k, struct mt_error *err)
{
    int64_t until = mt_clock_mono_us() + KSINK_FLUSH_MS * 1000LL;
    while (rd_kafka_flush(k->producer, 50) != RD_KAFKA_RESP_ERR_NO_ERROR) {
        ksink_poll(k, 0);
        if (mt_clock_mono_us() < until)
            continue;
        ksink_drop_producer(k); /* before the rows go that it points into */
        return mt_fail(err, MT_RETRY, MT_CLASS_SINK,
                       "kafka: records are not delivered to %s in %d s", k->brokers,
                       KSINK_FLUSH_MS / 1000);
    }
    ksink_poll(k, 0);
    return MT_OK;
}

/* A timed-out record says that it was waited for; the brokers' own words say why. */
static enum mt_status tell_failure(struct ksink *k, struct mt_error *err)
{
    char words[512];
    rd_kafka_resp_err_t fatal = rd_kafka_fatal_error(k->producer, words, sizeof words);
    k->broken |= fatal != RD_KAFKA_RESP_ERR_NO_ERROR;
    if (fatal)
        return ksink_failed(k, "writing", rd_kafka_error_new(fatal, "%s", words), err);
    *err = k->failure;
    if (k->failed != MT_RETRY)
        return k->failed;
    char *text = mt_kafka_ear_words(&k->ear, k->conf, k->answered, k->failure.text);
    mt_fail(err, MT_RETRY, MT_CLASS_SINK, "%s", text);
    free(text);
    return mt_kafka_ear_check(&k->ear, k->answered, k->brokers, MT_CLASS_SINK, err) == MT_OK
               ? MT_RETRY
               : MT_FATAL;
}

enum mt_status ksink_flush(struct ksink *k, struct mt_error *err)
{
    enum mt_status status = wait_for_deliveries(k, err);
    if (status == MT_OK && k->failed != MT_OK)
        status = tell_failure(k, err);
    if (status == MT_OK) {
        k->answered = true;
        mt_kafka_ear_forget(&k->ear);
    }
    return status;
}

/* ---- transactions */

enum mt_status ksink_open_transaction(struct ksink *k, struct mt_error *err)
{
    if (!k->transactional || k->dirty)
        return MT_OK;
    rd_kafka_error_t *problem = rd_kafka_begin_transaction(k->producer);
    if (problem)
        return ksink_failed(k, "beginning a transaction", problem, err);
    k->dirty = true;
    k->opened_us = mt_clock_mono_us();
    return MT_OK;
}

static rd_kafka_error_t *failing(const char *step, int64_t batch)
{
    if (!mt_step_fails(step, batch))
        return NULL;
    return rd_kafka_error_new(RD_KAFKA_RESP_ERR__TIMED_OUT, "a test wants %s to fail", step);
}

static rd_kafka_error_t *mark(struct ksink *k)
{
    rd_kafka_error_t *problem = failing("kafka.mark", k->batch_id);
    if (problem)
        return problem;
    rd_kafka_topic_partition_list_t *offsets = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_t *marker =
        rd_kafka_topic_partition_list_add(offsets, rd_kafka_topic_name(k->marked), 0);
    rd_kafka_consumer_group_metadata_t *group = rd_kafka_consumer_group_metadata_new(k->id);
    char *text = ksink_marker_print(&k->given);
    marker->offset = k->batch_id;
    marker->metadata_size = strlen(text);
    marker->metadata = rd_kafka_mem_malloc(k->producer, marker->metadata_size);
    memcpy(marker->metadata, text, marker->metadata_size);
    problem = rd_kafka_send_offsets_to_transaction(k->producer, offsets, group, KSINK_ABORT_MS);
    rd_kafka_consumer_group_metadata_destroy(group);
    rd_kafka_topic_partition_list_destroy(offsets);
    free(text);
    return problem;
}

/* A commit without an answer goes on when it is called again: it is one commit. */
static rd_kafka_error_t *commit(struct ksink *k)
{
    int64_t until = mt_clock_mono_us() + KSINK_COMMIT_MS * 1000LL;
    rd_kafka_error_t *problem = failing("kafka.commit", k->batch_id);
    while (!problem) {
        problem = rd_kafka_commit_transaction(k->producer, KSINK_REQUEST_MS);
        if (!problem || !rd_kafka_error_is_retriable(problem) || mt_clock_mono_us() >= until)
            return problem;
        ksink_poll(k, 0);
        rd_kafka_error_destroy(problem);
        problem = NULL;
    }
    return problem;
}

enum mt_status ksink_store(struct ksink *k, struct mt_error *err)
{
    rd_kafka_error_t *problem = mark(k);
    if (problem)
        return ksink_failed(k, "marking the batch", problem, err);
    mt_step("kafka.marked", k->batch_id);
    problem = commit(k);
    if (!problem) {
        k->dirty = false;
        mt_step("kafka.committed", k->batch_id);
        return MT_OK;
    }
    k->broken |= !rd_kafka_error_txn_requires_abort(problem); /* its fate is unknown */
    return ksink_failed(k, "committing", problem, err);
}

void ksink_give_up(struct ksink *k)
{
    struct mt_error err;
    if (!k->producer)
        return;
    if (k->dirty && !k->broken && wait_for_deliveries(k, &err) == MT_OK) {
        rd_kafka_error_t *problem = rd_kafka_abort_transaction(k->producer, KSINK_ABORT_MS);
        k->broken = problem != NULL; /* the next owner of its id aborts */
        rd_kafka_error_destroy(problem);
        k->dirty = false;
    }
    if (k->producer && (k->broken || rd_kafka_fatal_error(k->producer, NULL, 0)))
        ksink_drop_producer(k);
}

/* ---- topics */

/* A topic's partitions are known before the first record goes to it: produce_batch would put one
 * for a partition that is not known yet, by its number, where no transaction finds it (librdkafka
 * up to 2.16 at least). Brokers may make a topic when they are asked for it. */
static rd_kafka_resp_err_t learn(struct ksink *k, rd_kafka_topic_t *topic, int32_t *n_partitions)
{
    int64_t until = mt_clock_mono_us() + KSINK_REQUEST_MS * 1000LL;
    for (;;) {
        const struct rd_kafka_metadata *said;
        rd_kafka_resp_err_t code =
            rd_kafka_metadata(k->producer, 0, topic, &said, KSINK_REQUEST_MS);
        if (!code) {
            *n_partitions = said->topic_cnt == 1 ? said->topics[0].partition_cnt : 0;
            code = said->topic_cnt == 1 ? said->topics[0].err : RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC;
            rd_kafka_metadata_destroy(said);
            if (*n_partitions > 0 && !code)
                return RD_KAFKA_RESP_ERR_NO_ERROR;
        }
        bool may_come = code == RD_KAFKA_RESP_ERR_NO_ERROR ||
                        code == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART ||
                        code == RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE;
        if (!may_come || mt_clock_mono_us() >= until)
            return code ? code : RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC;
        ksink_poll(k, 50);
    }
}

/* NULL: it cannot be had; *why says what of it. */
static rd_kafka_topic_t *add_topic(struct ksink *k, const char *name, size_t len,
                                   rd_kafka_resp_err_t *why)
{
    char *copy = mt_strndup(name, len);
    rd_kafka_topic_t *handle = rd_kafka_topic_new(k->producer, copy, NULL);
    int32_t n_partitions = 0;
    *why = handle ? learn(k, handle, &n_partitions) : RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION;
    if (*why) {
        if (handle)
            rd_kafka_topic_destroy(handle);
        free(copy);
        return NULL;
    }
    k->topics = mt_realloc(k->topics, (k->n_topics + 1) * sizeof *k->topics);
    k->topics[k->n_topics++] = (struct ksink_topic){copy, len, handle, n_partitions};
    return handle;
}

rd_kafka_topic_t *ksink_topic_of(struct ksink *k, const char *name, size_t len,
                                 rd_kafka_resp_err_t *why)
{
    for (size_t i = 0; i < k->n_topics; i++)
        if (k->topics[i].len == len && memcmp(k->topics[i].name, name, len) == 0)
            return k->topics[i].handle;
    return add_topic(k, name, len, why);
}

/* The client itself would put a record for a missing partition where no transaction finds it. */
bool ksink_has_partition(struct ksink *k, const rd_kafka_topic_t *topic, int32_t partition)
{
    for (size_t i = 0; i < k->n_topics; i++) {
        struct ksink_topic *known = &k->topics[i];
        if (known->handle != topic)
            continue;
        if (partition >= known->n_partitions) /* perhaps it has got more */
            learn(k, known->handle, &known->n_partitions);
        return partition < known->n_partitions;
    }
    return false;
}
