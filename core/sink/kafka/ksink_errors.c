/* SPDX-License-Identifier: Apache-2.0
 *
 * ksink_errors.c - what a refusal of the brokers means, and the words for it.
 *
 * A producer is fenced by an owner after it, and just so after a mere time-out: brokers end a
 * transaction that is open for too long by the same means. So the first time the batch is tried
 * again: a new producer asks the marker, and goes on if nobody else has stored anything. Fenced
 * again in the same batch, it is another process, unless the batch takes too long each time. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sink/kafka/ksink_int.h"

static char *user(const struct ksink *k)
{
    char name[200];
    mt_kafka_conf_get(k->conf, "sasl.username", name, sizeof name);
    return *name ? mt_format("User:%s", name) : mt_strdup("the user of this job");
}

/* What is to be allowed, when that is the matter; NULL: it is not. Caller frees. */
static char *missing_acl(const struct ksink *k, rd_kafka_resp_err_t code, const char *topic)
{
    switch (code) {
    case RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED:
        return mt_format("WRITE and DESCRIBE on topic %s", topic ? topic : "it writes to");
    case RD_KAFKA_RESP_ERR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
        return mt_format("WRITE and DESCRIBE on transactional id %s (or on the prefix moontide-)",
                         k->id);
    case RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED:
        return mt_format("READ and DESCRIBE on group %s (or on the prefix moontide-), where the "
                         "sink marks what is stored",
                         k->id);
    case RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED:
        return mt_strdup("IDEMPOTENT_WRITE on the cluster");
    default:
        return NULL;
    }
}

static enum mt_status not_authorized(const struct ksink *k, char *acl, struct mt_error *err)
{
    char *who = user(k);
    mt_fail(err, MT_FATAL, MT_CLASS_SINK, "kafka: not authorized: %s needs the ACL %s", who, acl);
    free(who);
    free(acl);
    return MT_FATAL;
}

/* ---- the transactional producer */

static bool is_fenced(rd_kafka_resp_err_t code)
{
    return code == RD_KAFKA_RESP_ERR__FENCED || code == RD_KAFKA_RESP_ERR_PRODUCER_FENCED ||
           code == RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH;
}

static int64_t timeout_ms(const struct ksink *k)
{
    char text[30];
    return strtoll(mt_kafka_conf_get(k->conf, "transaction.timeout.ms", text, sizeof text), NULL,
                   10);
}

static enum mt_status fenced(struct ksink *k, struct mt_error *err)
{
    int64_t open_ms = k->dirty ? (mt_clock_mono_us() - k->opened_us) / 1000 : 0;
    bool again = k->fenced_batch == k->batch_id, slow = k->dirty && open_ms >= timeout_ms(k);
    k->fenced_batch = k->batch_id;
    if (slow)
        return mt_fail(err, again ? MT_FATAL : MT_RETRY, MT_CLASS_SINK,
                       "kafka: the batch's transaction was open for %" PRId64
                       " ms and the brokers end one after %" PRId64
                       " ms%s: raise kafka.transaction.timeout.ms, or make batches smaller "
                       "(maxBatchBytes, maxOffsetsPerTrigger of the source)",
                       open_ms, timeout_ms(k), again ? ", the second time" : "");
    if (again)
        return mt_fail(err, MT_FATAL, MT_CLASS_CHECKPOINT,
                       "kafka: a second process runs this query: it has taken transactional id %s "
                       "over, twice in this batch. Stop one of the two; a copied checkpoint must "
                       "not be run beside its original",
                       k->id);
    return mt_fail(err, MT_RETRY, MT_CLASS_SINK,
                   "kafka: the producer was fenced, by a time-out or by another process that runs "
                   "this query (transactional id %s)",
                   k->id);
}

/* A fatal error says only that there is one: the reason is asked for. */
static rd_kafka_resp_err_t code_of(const struct ksink *k, const rd_kafka_error_t *problem,
                                   char *words, size_t cap)
{
    rd_kafka_resp_err_t code = rd_kafka_error_code(problem);
    snprintf(words, cap, "%s", rd_kafka_error_string(problem));
    if (k->producer && (code == RD_KAFKA_RESP_ERR__FATAL || rd_kafka_error_is_fatal(problem))) {
        rd_kafka_resp_err_t fatal = rd_kafka_fatal_error(k->producer, words, cap);
        code = fatal ? fatal : code;
    }
    return code;
}

enum mt_status ksink_failed(struct ksink *k, const char *doing, rd_kafka_error_t *problem,
                            struct mt_error *err)
{
    char words[512];
    rd_kafka_resp_err_t code = code_of(k, problem, words, sizeof words);
    char *acl = missing_acl(k, code, k->topic);
    k->broken |= rd_kafka_error_is_fatal(problem) || is_fenced(code);
    rd_kafka_error_destroy(problem);
    if (acl)
        return not_authorized(k, acl, err);
    if (is_fenced(code))
        return fenced(k, err);
    if (code == RD_KAFKA_RESP_ERR_INVALID_TRANSACTION_TIMEOUT)
        return mt_fail(err, MT_FATAL, MT_CLASS_JOB,
                       "kafka: kafka.transaction.timeout.ms is %" PRId64
                       " and the brokers allow less (transaction.max.timeout.ms): lower it",
                       timeout_ms(k));
    if (code == RD_KAFKA_RESP_ERR__UNSUPPORTED_FEATURE ||
        code == RD_KAFKA_RESP_ERR_UNSUPPORTED_VERSION)
        return mt_fail(err, MT_FATAL, MT_CLASS_SINK,
                       "kafka: the brokers do not know transactions (%s): they are needed for "
                       "exactly once; else set delivery=\"at-least-once\"",
                       words);
    char *what = mt_format("kafka: %s at %s: %s", doing, k->brokers, words);
    char *text = mt_kafka_ear_words(&k->ear, k->conf, k->answered, what);
    mt_fail(err, MT_RETRY, MT_CLASS_SINK, "%s", text);
    free(what);
    free(text);
    return mt_kafka_ear_check(&k->ear, k->answered, k->brokers, MT_CLASS_SINK, err) == MT_OK
               ? MT_RETRY
               : MT_FATAL;
}

/* ---- one record */

/* Whether this record can never be taken; else nobody's or another's fault. */
static enum mt_status kind_of(const struct ksink *k, rd_kafka_resp_err_t code)
{
    switch (code) {
    case RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE:
    case RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE:
    case RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION:
    case RD_KAFKA_RESP_ERR_INVALID_RECORD:
    case RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP:
        return MT_REJECT;
    case RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC:
    case RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART:
    case RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION:
        return k->topic ? MT_FATAL : MT_REJECT; /* the row names it */
    case RD_KAFKA_RESP_ERR_POLICY_VIOLATION:
    case RD_KAFKA_RESP_ERR_UNSUPPORTED_FOR_MESSAGE_FORMAT:
        return MT_FATAL;
    default:
        return MT_RETRY;
    }
}

enum mt_status ksink_no_topic(const struct ksink *k, const char *name, size_t len,
                              const struct mt_batch *rows, int64_t row, rd_kafka_resp_err_t code,
                              struct mt_error *err)
{
    char quoted[220], where[300] = "";
    char *topic = mt_strndup(name, len), *acl = missing_acl(k, code, topic);
    enum mt_status kind = kind_of(k, code);
    free(topic);
    if (acl)
        return not_authorized(k, acl, err);
    if (!k->topic)
        mt_batch_where(rows, row, where, sizeof where);
    mt_quote(name, len, quoted, sizeof quoted);
    const char *why = code == RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION ? "is no name of a topic"
                      : kind == MT_RETRY                        ? "is not told of by the brokers"
                                         : "does not exist, and the brokers make none: create it";
    mt_fail(err, kind, kind == MT_REJECT ? MT_CLASS_DATA : MT_CLASS_SINK,
            "kafka: %s%stopic \"%s\" %s (%s, %s)", where, *where ? ": " : "", quoted, why,
            k->brokers, rd_kafka_err2str(code));
    return kind;
}

static char *cure(const struct ksink *k, rd_kafka_resp_err_t code, size_t size)
{
    char limit[30];
    switch (code) {
    case RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE:
    case RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE:
        return mt_format("the record has %zu bytes; the client sends up to "
                         "kafka.message.max.bytes = %s, the topic takes up to its "
                         "max.message.bytes; where the record is smaller than both, lower "
                         "kafka.batch.size",
                         size,
                         mt_kafka_conf_get(k->conf, "message.max.bytes", limit, sizeof limit));
    case RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC:
    case RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART:
        return mt_strdup("the topic does not exist and the brokers make none: create it");
    case RD_KAFKA_RESP_ERR_INVALID_RECORD:
        return mt_strdup("does the topic want keys (cleanup.policy=compact)?");
    default:
        return NULL;
    }
}

static void put_place(const struct ksink *k, const rd_kafka_message_t *message, struct mt_buf *text)
{
    char key[220], where[300];
    mt_buf_adds(text, message->rkt ? rd_kafka_topic_name(message->rkt) : "?");
    if (message->partition >= 0)
        mt_buf_addf(text, "[%d]", message->partition);
    if (message->key)
        mt_buf_addf(
            text, ", key \"%s\"",
            mt_quote(message->key, message->key_len > 60 ? 60 : message->key_len, key, sizeof key));
    if (k->rows)
        mt_buf_addf(
            text, " (%s)",
            mt_batch_where(k->rows, (int64_t)(intptr_t)message->_private, where, sizeof where));
}

/* Of records that went together all are refused when one is too large: the largest is named. */
static bool is_worse(const struct ksink *k, enum mt_status kind, size_t size)
{
    if (k->failed == MT_OK)
        return true;
    return kind == MT_REJECT && k->failed == MT_REJECT ? size > k->failed_size : kind > k->failed;
}

void ksink_note(struct ksink *k, const rd_kafka_message_t *message, rd_kafka_resp_err_t code)
{
    size_t size = message->len + message->key_len;
    char *acl = missing_acl(k, code, message->rkt ? rd_kafka_topic_name(message->rkt) : k->topic);
    enum mt_status kind = acl ? MT_FATAL : kind_of(k, code);
    if (!is_worse(k, kind, size)) {
        free(acl);
        return;
    }
    k->failed = kind;
    k->failed_size = kind == MT_REJECT ? size : 0;
    if (acl) {
        not_authorized(k, acl, &k->failure);
        return;
    }
    struct mt_buf place = {0};
    put_place(k, message, &place);
    char *more = cure(k, code, size);
    mt_fail(&k->failure, kind, kind == MT_REJECT ? MT_CLASS_DATA : MT_CLASS_SINK,
            "kafka: a record was not taken: topic %s: %s%s%s", place.data, rd_kafka_err2str(code),
            more ? "; " : "", more ? more : "");
    free(more);
    mt_buf_free(&place);
}
