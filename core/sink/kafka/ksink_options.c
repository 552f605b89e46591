/* SPDX-License-Identifier: Apache-2.0
 *
 * ksink_options.c - the options of the Kafka sink, and which columns it takes: Spark's rules
 * in Spark's words. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "sink/kafka/ksink_int.h"

const struct mt_option ksink_option_table[] = {
    {"kafka.bootstrap.servers", MT_OPT_STRING, NULL, offsetof(struct ksink, brokers), NULL,
     "brokers to begin with, host:port,… (required)"},
    {"topic", MT_OPT_STRING, NULL, offsetof(struct ksink, topic), NULL,
     "topic of every record, whatever the column topic says; without it that column is needed"},
    {"includeHeaders", MT_OPT_BOOL, "true", offsetof(struct ksink, include_headers), NULL,
     "false: the column headers is not written"},
    {"delivery", MT_OPT_STRING, "exactly-once", offsetof(struct ksink, delivery),
     "exactly-once|at-least-once",
     "exactly-once: a transaction a batch, for readers with isolation.level=read_committed; "
     "at-least-once: without transactions, records are seen sooner, and again after a crash"},
    {"provenanceHeaders", MT_OPT_BOOL, "false", offsetof(struct ksink, provenance), NULL,
     "headers on every record that name query, sink, batch and digest"},
    {"kafka.*", MT_OPT_MAP, NULL, offsetof(struct ksink, settings), NULL,
     "settings of the Kafka client (librdkafka)"},
    {0},
};

#define TRUST_STORES                                                                               \
    "Java trust stores are not read; give the certificates as PEM: kafka.ssl.ca.location"
#define OWN_ID                                                                                     \
    "not supported: the sink makes its own of query and sink, by which a second owner is told; "   \
    "without transactions it is :option(\"delivery\", \"at-least-once\")"

const struct mt_refusal ksink_refusals[] = {
    {"kafka.transactional.id", OWN_ID},
    {"kafka.key.serializer", "not supported: keys are STRING or BINARY, written as they are"},
    {"kafka.value.serializer", "not supported: values are STRING or BINARY, written as they are"},
    {"kafka.interceptor.classes", "not supported: an interceptor could change records unseen"},
    {"kafka.delivery.report.only.error", "the sink needs its own value (true)"},
    {"kafka.partitioner.class", "it is kafka.partitioner here (murmur2_random, as in Java)"},
    {"kafka.buffer.memory", "it is kafka.queue.buffering.max.kbytes here, in KiB"},
    {"kafka.max.block.ms", "the sink waits for its brokers and says so"},
    {"kafka.ssl.truststore.location", TRUST_STORES},
    {"kafka.ssl.truststore.password", TRUST_STORES},
    {"kafka.ssl.truststore.type", TRUST_STORES},
    {"kafka.ssl.keystore.type", "leave it out: kafka.ssl.keystore.location is read as PKCS12"},
    {0},
};

static const struct mt_kafka_setting renamed[] = {
    {"max.request.size", "message.max.bytes"},
    {"receive.buffer.bytes", "socket.receive.buffer.bytes"},
    {"send.buffer.bytes", "socket.send.buffer.bytes"},
    {NULL, NULL},
};

static const struct mt_kafka_setting own[] = {
    {"client.id", "moontide"},
    {"enable.idempotence", "true"},
    {"partitioner", "murmur2_random"}, /* keys go where Java's producers put them */
    {"reconnect.backoff.max.ms", "1000"},
    {"topic.metadata.propagation.max.ms", "5000"}, /* that a missing topic is waited for */
    {NULL, NULL},
};

static const char *const ignored[] = {NULL};

static const struct mt_kafka_rules rules = {own, ksink_refusals, renamed, ignored};

/* ---- settings */

static enum mt_status needs_at_least_once(const char *option, const char *value, const char *why,
                                          struct mt_error *err)
{
    return mt_kafka_bad(err, option,
                        "option \"%s\" is \"%s\": %s; leave it out, or give exactly once up with "
                        ":option(\"delivery\", \"at-least-once\")",
                        option, value, why);
}

static bool is_off(const char *value)
{
    return strcasecmp(value, "false") == 0 || strcasecmp(value, "f") == 0 ||
           strcmp(value, "0") == 0;
}

/* What a transaction needs is not the job's to change. */
static enum mt_status check_exactly_once(const struct ksink *k, struct mt_error *err)
{
    const char *idempotence = mt_pairs_get(&k->settings, "enable.idempotence");
    const char *acks = mt_pairs_get(&k->settings, "acks");
    if (!acks)
        acks = mt_pairs_get(&k->settings, "request.required.acks");
    if (idempotence && is_off(idempotence))
        return needs_at_least_once("kafka.enable.idempotence", idempotence,
                                   "a transaction needs an idempotent producer", err);
    if (acks && strcasecmp(acks, "all") != 0 && strcmp(acks, "-1") != 0)
        return needs_at_least_once(
            "kafka.acks", acks, "a batch is stored when all in-sync replicas have it (all)", err);
    return MT_OK;
}

static enum mt_status read_settings(struct ksink *k, struct mt_error *err)
{
    k->transactional = strcasecmp(k->delivery, "exactly-once") == 0;
    k->base.at_least_once = !k->transactional;
    enum mt_status status = k->transactional ? check_exactly_once(k, err) : MT_OK;
    if (status == MT_OK)
        status = mt_kafka_conf_new(&rules, k->brokers, &k->settings, &k->conf, err);
    if (status == MT_OK)
        rd_kafka_conf_set(k->conf, "delivery.report.only.error", "true", NULL, 0);
    return status;
}

/* ---- columns */

/* By the exact name, as Spark finds them. */
static int64_t find(const struct ksink *k, const char *name)
{
    for (int64_t i = 0; i < k->base.schema->n_children; i++)
        if (strcmp(k->base.schema->children[i]->name, name) == 0)
            return i;
    return -1;
}

static enum mt_status refuse_type(const struct ksink *k, int64_t column, const char *wanted,
                                  struct mt_error *err)
{
    const struct ArrowSchema *field = k->base.schema->children[column];
    char *type = mt_schema_type_name(field);
    mt_fail(err, MT_REJECT, MT_CLASS_JOB, "kafka: %s attribute type must be a %s, and it is %s",
            field->name, wanted, type);
    free(type);
    return MT_REJECT;
}

static bool is_type(const struct ksink *k, int64_t column, const char *formats)
{
    return column < 0 || (strchr(formats, k->base.schema->children[column]->format[0]) &&
                          k->base.schema->children[column]->format[1] == '\0');
}

static bool is_headers(const struct ksink *k, int64_t column)
{
    if (column < 0)
        return true;
    const struct ArrowSchema *list = k->base.schema->children[column];
    if (strcmp(list->format, "+l") != 0 || strcmp(list->children[0]->format, "+s") != 0)
        return false;
    const struct ArrowSchema *entry = list->children[0];
    return entry->n_children == 2 && strcmp(entry->children[0]->name, "key") == 0 &&
           strcmp(entry->children[0]->format, "u") == 0 &&
           strcmp(entry->children[1]->name, "value") == 0 &&
           strcmp(entry->children[1]->format, "z") == 0;
}

static enum mt_status no_value(const struct ksink *k, struct mt_error *err)
{
    const char **names = mt_alloc((size_t)(k->base.schema->n_children + 1) * sizeof *names);
    struct mt_buf all = {0};
    for (int64_t i = 0; i < k->base.schema->n_children; i++) {
        names[i] = k->base.schema->children[i]->name;
        mt_buf_addf(&all, "%s%s", i ? ", " : "", names[i]);
    }
    mt_fail(err, MT_REJECT, MT_CLASS_JOB,
            "kafka: Required attribute 'value' not found: name the column of the records' bytes "
            "so (toJson makes one of a row); there are: %s",
            all.data ? all.data : "none");
    mt_buf_free(&all);
    free(names);
    return MT_REJECT;
}

static enum mt_status check_columns(struct ksink *k, struct mt_error *err)
{
    k->value = find(k, "value");
    k->key = find(k, "key");
    k->topic_column = k->topic ? -1 : find(k, "topic");
    k->partition = find(k, "partition");
    k->headers = k->include_headers ? find(k, "headers") : -1;
    if (!k->topic && k->topic_column < 0) {
        mt_fail(err, MT_REJECT, MT_CLASS_JOB,
                "kafka: topic option required when no 'topic' attribute is present. Use the topic "
                "option for setting a topic");
        return MT_REJECT;
    }
    if (k->value < 0)
        return no_value(k, err);
    if (!is_type(k, k->topic_column, "u"))
        return refuse_type(k, k->topic_column, "STRING", err);
    if (!is_type(k, k->value, "uz"))
        return refuse_type(k, k->value, "STRING or BINARY", err);
    if (!is_type(k, k->key, "uz"))
        return refuse_type(k, k->key, "STRING or BINARY", err);
    if (!is_type(k, k->partition, "i"))
        return refuse_type(k, k->partition, "INT", err);
    if (!is_headers(k, k->headers))
        return refuse_type(k, k->headers, "ARRAY<STRUCT<key: STRING, value: BINARY>>", err);
    return MT_OK;
}

/* Spark trims the option, too. */
char *ksink_trimmed(const char *text)
{
    static const char blank[] = " \t\r\n";
    const char *start = text + strspn(text, blank);
    size_t len = strlen(start);
    while (len > 0 && strchr(blank, start[len - 1]))
        len--;
    return mt_strndup(start, len);
}

enum mt_status ksink_declare(struct ksink *k, struct mt_error *err)
{
    if (k->topic) {
        char *given = k->topic;
        k->topic = ksink_trimmed(given);
        free(given);
    }
    enum mt_status status = check_columns(k, err);
    if (status == MT_OK && k->topic && !*k->topic)
        status = mt_kafka_bad(err, "topic", "option \"topic\" is empty");
    return status == MT_OK ? read_settings(k, err) : status;
}
