/* SPDX-License-Identifier: Apache-2.0
 *
 * kafka_options.c - the options of the Kafka source, and kafka.* on its way into
 * librdkafka.
 *
 * A job written for Spark sets names that the Java client knows. Three things can be
 * right for such a name: librdkafka has it too; it is called otherwise there (the map
 * below); or it cannot mean anything here, and then the reason is said. Nothing is
 * passed over in silence: a mistyped security setting would connect without security. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "source/kafka/kafka_int.h"

const struct mt_option kafka_option_table[] = {
    {"kafka.bootstrap.servers", MT_OPT_STRING, NULL, offsetof(struct kafka, brokers), NULL,
     "brokers to begin with, host:port,… (required)"},
    {"subscribe", MT_OPT_STRING, NULL, offsetof(struct kafka, subscribe), NULL,
     "topics, comma separated; this or assign"},
    {"assign", MT_OPT_STRING, NULL, offsetof(struct kafka, assign), NULL,
     "partitions, {\"orders\":[0,1]}; this or subscribe"},
    {"startingOffsets", MT_OPT_STRING, "latest", offsetof(struct kafka, starting_offsets), NULL,
     "where a new query begins: earliest, latest or {\"orders\":{\"0\":23,\"1\":-2}} (-2 earliest, "
     "-1 latest)"},
    {"maxOffsetsPerTrigger", MT_OPT_INT, "0", offsetof(struct kafka, max_offsets), NULL,
     "about so many offsets a batch, shared out by backlog; 0: no limit"},
    {"maxBatchBytes", MT_OPT_BYTES, "64m", offsetof(struct kafka, max_bytes), NULL,
     "a batch is cut at so many bytes of keys, values and headers, and 32 a record"},
    {"failOnDataLoss", MT_OPT_BOOL, "true", offsetof(struct kafka, fail_on_loss), NULL,
     "stop when records are gone before they were read; false: warn, count and go on"},
    {"includeHeaders", MT_OPT_BOOL, "false", offsetof(struct kafka, include_headers), NULL,
     "add the column headers"},
    {"kafka.*", MT_OPT_MAP, NULL, offsetof(struct kafka, settings), NULL,
     "settings of the Kafka client (librdkafka)"},
    {0},
};

#define NOT_YET "known in Spark, not here yet"

const struct mt_refusal kafka_refusals[] = {
    {"subscribePattern", NOT_YET "; list the topics in subscribe"},
    {"startingTimestamp", NOT_YET "; use startingOffsets"},
    {"startingOffsetsByTimestamp", NOT_YET "; use startingOffsets"},
    {"startingOffsetsByTimestampStrategy", NOT_YET "; use startingOffsets"},
    {"endingOffsets", "ending offset not valid in streaming queries"},
    {"endingOffsetsByTimestamp", "ending timestamp not valid in streaming queries"},
    {"endingTimestamp", "ending timestamp not valid in streaming queries"},
    {"minOffsetsPerTrigger", NOT_YET "; a longer processingTime makes larger batches"},
    {"maxTriggerDelay", NOT_YET " (it goes with minOffsetsPerTrigger)"},
    {"minPartitions", NOT_YET "; a batch is read by one process"},
    {"maxRecordsPerPartition", NOT_YET "; a batch is read by one process"},
    {"groupIdPrefix", "there is no consumer group here: partitions are read without one"},
    {"kafkaConsumer.pollTimeoutMs", "there is no poll that could time out here: the source waits "
                                    "for its brokers and says so"},
    {"fetchOffset.numRetries", "offsets are asked again until the brokers answer"},
    {"fetchOffset.retryIntervalMs", "offsets are asked again until the brokers answer"},
    {"bytesEstimateWindowLength", NOT_YET},
    /* settings of the client that mean harm here; the first five are Spark's own list */
    {"kafka.auto.offset.reset", "not supported: use the option startingOffsets; what was not read "
                                "is never skipped on its own"},
    {"kafka.key.deserializer", "not supported: keys come as BINARY; decode them in the job"},
    {"kafka.value.deserializer", "not supported: values come as BINARY; decode them in the job"},
    {"kafka.enable.auto.commit",
     "not supported: the source commits nothing to Kafka, its positions "
     "are in the checkpoint"},
    {"kafka.interceptor.classes", "not supported: an interceptor could change records unseen"},
    {"kafka.enable.partition.eof", "the source needs its own value (true)"},
    {"kafka.enable.auto.offset.store", "there is no consumer group here"},
    {"kafka.ssl.truststore.location",
     "Java trust stores are not read; give the certificates as PEM: "
     "kafka.ssl.ca.location"},
    {"kafka.ssl.truststore.password",
     "Java trust stores are not read; give the certificates as PEM: "
     "kafka.ssl.ca.location"},
    {"kafka.ssl.truststore.type", "Java trust stores are not read; give the certificates as PEM: "
                                  "kafka.ssl.ca.location"},
    {"kafka.ssl.keystore.type", "leave it out: kafka.ssl.keystore.location is read as PKCS12"},
    {"kafka.max.poll.records", "batches are limited by maxOffsetsPerTrigger and maxBatchBytes"},
    {"kafka.default.api.timeout.ms", "the source waits for its brokers and says so"},
    {"kafka.request.timeout.ms", "it is kafka.socket.timeout.ms here"},
    {"kafka.retry.backoff.max.ms", "it is kafka.reconnect.backoff.max.ms here"},
    {"kafka.partition.assignment.strategy", "there is no consumer group here"},
    {"kafka.session.timeout.ms", "there is no consumer group here"},
    {"kafka.heartbeat.interval.ms", "there is no consumer group here"},
    {"kafka.max.poll.interval.ms", "there is no consumer group here"},
    {"kafka.group.instance.id", "there is no consumer group here"},
    {0},
};

/* Names of the Java client that are called otherwise in librdkafka. */
static const struct mt_pair renamed[] = {
    {"fetch.max.wait.ms", "fetch.wait.max.ms"},
    {"receive.buffer.bytes", "socket.receive.buffer.bytes"},
    {"send.buffer.bytes", "socket.send.buffer.bytes"},
    {NULL, NULL},
};

static enum mt_status bad(struct mt_error *err, const char *option, const char *fmt, ...)
    MT_PRINTF(3, 4);

static enum mt_status bad(struct mt_error *err, const char *option, const char *fmt, ...)
{
    char text[1000];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    mt_fail(err, MT_FATAL, MT_CLASS_JOB, "kafka: %s", text);
    snprintf(err->option, sizeof err->option, "%s", option);
    return MT_FATAL;
}

/* ---- kafka.* */

/* A value that must not be in a message. */
static bool is_secret(const char *name)
{
    return strstr(name, "password") || strstr(name, "secret") || strstr(name, "jaas") ||
           strstr(name, ".pem") || strstr(name, "token");
}

/* The nearest setting there is; borrowed from names, which the caller frees. */
static enum mt_status unknown_setting(const char *key, struct mt_error *err)
{
    size_t n[2], n_names = 0;
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_topic_conf_t *topic_conf = rd_kafka_topic_conf_new();
    const char **dumps[2] = {rd_kafka_conf_dump(conf, &n[0]),
                             rd_kafka_topic_conf_dump(topic_conf, &n[1])};
    const char **names = mt_alloc((n[0] + n[1] + 100) * sizeof *names);
    names[n_names++] = "bootstrap.servers";
    names[n_names++] = "sasl.mechanism";
    names[n_names++] = "sasl.jaas.config";
    for (const struct mt_refusal *r = kafka_refusals; r->name; r++)
        if (strncmp(r->name, "kafka.", 6) == 0)
            names[n_names++] = r->name + 6;
    for (const struct mt_pair *r = renamed; r->key; r++)
        names[n_names++] = r->key;
    for (int d = 0; d < 2; d++)
        for (size_t i = 0; i < n[d]; i += 2)
            names[n_names++] = dumps[d][i];
    const char *near = mt_suggest(key, names);
    char option[200];
    snprintf(option, sizeof option, "kafka.%s", key);
    bad(err, option, "unknown option \"kafka.%s\"%s%s%s", key,
        near ? "; did you mean \"kafka." : ": the Kafka client has no such setting",
        near ? near : "", near ? "\"?" : "");
    rd_kafka_conf_dump_free(dumps[0], n[0]);
    rd_kafka_conf_dump_free(dumps[1], n[1]);
    rd_kafka_topic_conf_destroy(topic_conf);
    rd_kafka_conf_destroy(conf);
    free(names);
    return MT_FATAL;
}

static enum mt_status set(struct kafka *k, const char *given, const char *name, const char *value,
                          struct mt_error *err)
{
    char why[300], option[200];
    rd_kafka_conf_res_t result = rd_kafka_conf_set(k->conf, name, value, why, sizeof why);
    if (result == RD_KAFKA_CONF_OK)
        return MT_OK;
    if (result == RD_KAFKA_CONF_UNKNOWN)
        return unknown_setting(given, err);
    snprintf(option, sizeof option, "kafka.%s", given);
    return bad(err, option, "option \"kafka.%s\": %s", given,
               is_secret(given) ? "the Kafka client refuses the value (not shown)" : why);
}

/* Out of `…LoginModule required username="u" password="p";` */
static char *jaas_value(const char *jaas, const char *key)
{
    size_t len = strlen(key);
    for (const char *at = jaas; (at = strstr(at, key)); at += len) {
        const char *value = at + len;
        if ((at > jaas && at[-1] != ' ') || value[0] != '=' || value[1] != '"')
            continue;
        value += 2;
        const char *end = strchr(value, '"');
        return end ? mt_strndup(value, (size_t)(end - value)) : NULL;
    }
    return NULL;
}

static enum mt_status set_jaas(struct kafka *k, const char *jaas, struct mt_error *err)
{
    enum mt_status status = MT_OK;
    char *user = jaas_value(jaas, "username"), *password = jaas_value(jaas, "password");
    if (!strstr(jaas, "PlainLoginModule") && !strstr(jaas, "ScramLoginModule"))
        status = bad(err, "kafka.sasl.jaas.config",
                     "option \"kafka.sasl.jaas.config\": only PlainLoginModule and "
                     "ScramLoginModule are understood; set kafka.sasl.mechanism and the "
                     "kafka.sasl.* settings of librdkafka instead");
    else if (!user || !password)
        status = bad(err, "kafka.sasl.jaas.config",
                     "option \"kafka.sasl.jaas.config\": username=\"…\" and password=\"…\" are "
                     "expected in it");
    if (status == MT_OK)
        status = set(k, "sasl.jaas.config", "sasl.username", user, err);
    if (status == MT_OK)
        status = set(k, "sasl.jaas.config", "sasl.password", password, err);
    free(user);
    free(password);
    return status;
}

static enum mt_status set_given(struct kafka *k, const char *key, const char *value,
                                struct mt_error *err)
{
    if (strcmp(key, "group.id") == 0) {
        k->has_group = true; /* not told here: options are read several times for one source */
        return MT_OK;
    }
    if (strcmp(key, "sasl.jaas.config") == 0)
        return set_jaas(k, value, err);
    if (strcmp(key, "ssl.endpoint.identification.algorithm") == 0 && !*value)
        value = "none"; /* Java's way to switch it off */
    const char *name = key;
    for (const struct mt_pair *r = renamed; r->key; r++)
        if (strcmp(key, r->key) == 0)
            name = r->value;
    return set(k, key, name, value, err);
}

static const struct mt_pair own_settings[] = {
    {"client.id", "moontide"},
    {"enable.partition.eof", "true"},
    {"auto.offset.reset", "error"}, /* never skip on its own */
    {"allow.auto.create.topics", "false"},
    {"check.crcs", "true"},
    {"queued.min.messages", "1000000"}, /* bytes are the bound */
    {"fetch.queue.backoff.ms", "2"},
    {"fetch.wait.max.ms", "20"},
    {"reconnect.backoff.max.ms", "1000"},
    {"isolation.level", "read_uncommitted"}, /* as Spark's client; librdkafka's is read_committed */
    {NULL, NULL},
};

static bool is_protocol(const char *name, size_t len)
{
    static const char *const known[] = {"plaintext", "ssl", "sasl_plaintext", "sasl_ssl"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strlen(known[i]) == len && strncasecmp(name, known[i], len) == 0)
            return true;
    return false;
}

/* Whether some host's port is no port: the client would take it modulo 65536. */
static bool has_bad_port(const char *brokers)
{
    for (const char *at = brokers; *at; at += strcspn(at, ",") + (at[strcspn(at, ",")] == ',')) {
        size_t len = strcspn(at, ",");
        const char *colon = memrchr(at, ':', len);
        size_t digits = colon ? strspn(colon + 1, "0123456789") : 0;
        if (digits > 0 && colon + 1 + digits == at + len) {
            long port = strtol(colon + 1, NULL, 10);
            if (port < 1 || port > 65535)
                return true;
        }
    }
    return false;
}

/* With http:// in front the client would wait as for a broker that is away. */
static enum mt_status read_brokers(struct kafka *k, struct mt_error *err)
{
    const char *option = "kafka.bootstrap.servers";
    if (!k->brokers || !*k->brokers)
        return bad(err, option, "option \"%s\" must be specified, as in localhost:9092", option);
    for (const char *at = k->brokers, *end; (end = strstr(at, "://")); at = end + 3) {
        const char *name = end;
        while (name > at && name[-1] != ',' && name[-1] != ' ')
            name--;
        if (!is_protocol(name, (size_t)(end - name)))
            return bad(err, option,
                       "option \"%s\" is \"%s\": hosts and ports are expected, as in "
                       "localhost:9092,otherhost:9092",
                       option, k->brokers);
    }
    if (has_bad_port(k->brokers))
        return bad(err, option, "option \"%s\" is \"%s\": a port is 1 to 65535", option,
                   k->brokers);
    return set(k, "bootstrap.servers", "bootstrap.servers", k->brokers, err);
}

static enum mt_status read_settings(struct kafka *k, struct mt_error *err)
{
    enum mt_status status = MT_OK;
    k->conf = rd_kafka_conf_new();
    for (const struct mt_pair *own = own_settings; status == MT_OK && own->key; own++)
        status = set(k, own->key, own->key, own->value, err);
    for (size_t i = 0; status == MT_OK && i < k->settings.n; i++) {
        char *key = mt_strdup(k->settings.items[i].key); /* Spark's names are of any case */
        for (char *c = key; *c; c++)
            if (*c >= 'A' && *c <= 'Z')
                *c = (char)(*c - 'A' + 'a');
        status = set_given(k, key, k->settings.items[i].value, err);
        free(key);
    }
    return status == MT_OK ? read_brokers(k, err) : status;
}

/* ---- topics */

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct kafka_topic *)a)->name, ((const struct kafka_topic *)b)->name);
}

static struct kafka_topic *add_topic(struct kafka *k, const char *name, size_t len)
{
    for (size_t i = 0; i < k->n_topics; i++)
        if (strncmp(k->topics[i].name, name, len) == 0 && !k->topics[i].name[len])
            return &k->topics[i];
    k->topics = mt_realloc(k->topics, (k->n_topics + 1) * sizeof *k->topics);
    k->topics[k->n_topics] = (struct kafka_topic){.name = mt_strndup(name, len)};
    return &k->topics[k->n_topics++];
}

static enum mt_status read_subscribe(struct kafka *k, struct mt_error *err)
{
    for (const char *at = k->subscribe; *at;) {
        size_t len = strcspn(at, ","), skip = strspn(at, " \t"), end = len;
        while (end > skip && (at[end - 1] == ' ' || at[end - 1] == '\t'))
            end--;
        if (end > skip)
            add_topic(k, at + skip, end - skip);
        at += len + (at[len] == ',');
    }
    if (k->n_topics == 0)
        return bad(err, "subscribe",
                   "no topics to subscribe to as specified value for option "
                   "'subscribe' is \"%s\"",
                   k->subscribe);
    return MT_OK;
}

static int by_number(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

static enum mt_status assign_topic(struct kafka *k, const char *name, json_t *list,
                                   struct mt_error *err)
{
    size_t i, n = json_array_size(list);
    json_t *value;
    struct kafka_topic *topic = add_topic(k, name, strlen(name));
    if (n == 0)
        return bad(err, "assign",
                   "option \"assign\", topic \"%s\": a list of partitions is "
                   "expected, as in [0,1]",
                   name);
    topic->assigned = mt_alloc(n * sizeof *topic->assigned);
    json_array_foreach (list, i, value) {
        json_int_t number = json_is_integer(value) ? json_integer_value(value) : -1;
        if (number < 0 || number > INT32_MAX)
            return bad(err, "assign",
                       "option \"assign\", topic \"%s\": a partition is a whole "
                       "number from 0 on",
                       name);
        topic->assigned[topic->n_assigned++] = (int32_t)number;
    }
    qsort(topic->assigned, n, sizeof *topic->assigned, by_number);
    for (i = 1; i < n; i++)
        if (topic->assigned[i] == topic->assigned[i - 1])
            return bad(err, "assign", "option \"assign\", topic \"%s\": partition %d comes twice",
                       name, topic->assigned[i]);
    return MT_OK;
}

static enum mt_status read_assign(struct kafka *k, struct mt_error *err)
{
    json_error_t at;
    const char *name;
    json_t *list, *json = json_loads(k->assign, JSON_REJECT_DUPLICATES, &at);
    enum mt_status status = MT_OK;
    if (!json)
        return bad(err, "assign", "option \"assign\" is not JSON: %s at character %d", at.text,
                   at.position);
    if (!json_is_object(json) || json_object_size(json) == 0)
        status = bad(err, "assign",
                     "no topicpartitions to assign as specified value for option "
                     "'assign' is %s; expected is {\"topic\":[0,1]}",
                     k->assign);
    json_object_foreach (json, name, list)
        if (status == MT_OK)
            status = assign_topic(k, name, list, err);
    json_decref(json);
    return status;
}

static enum mt_status read_topics(struct kafka *k, struct mt_error *err)
{
    if (k->subscribe && k->assign)
        return bad(err, "assign",
                   "only one of the following options can be specified for Kafka "
                   "source: subscribe, assign");
    if (!k->subscribe && !k->assign)
        return bad(err, "subscribe",
                   "one of the following options must be specified for Kafka "
                   "source: subscribe, assign");
    enum mt_status status = k->subscribe ? read_subscribe(k, err) : read_assign(k, err);
    if (status != MT_OK)
        return status;
    struct mt_buf name = {0};
    qsort(k->topics, k->n_topics, sizeof *k->topics, by_name);
    for (size_t i = 0; i < k->n_topics; i++)
        mt_buf_addf(&name, "%s%s", i ? "," : "", k->topics[i].name);
    k->base.name = name.data;
    return MT_OK;
}

static enum mt_status read_starting(struct kafka *k, struct mt_error *err)
{
    k->starting = RD_KAFKA_OFFSET_END;
    if (strcasecmp(k->starting_offsets, "latest") == 0)
        return MT_OK;
    k->starting = RD_KAFKA_OFFSET_BEGINNING;
    if (strcasecmp(k->starting_offsets, "earliest") == 0)
        return MT_OK;
    k->starting = 0;
    enum mt_status status =
        mt_offsets_parse(k->starting_offsets, RD_KAFKA_OFFSET_BEGINNING, &k->starting_at, err);
    if (status != MT_OK) {
        snprintf(err->option, sizeof err->option, "startingOffsets");
        return mt_fail_within(err, status,
                              "kafka: option \"startingOffsets\" is neither earliest "
                              "nor latest nor good JSON: ");
    }
    return MT_OK;
}

static enum mt_status check_limits(const struct kafka *k, struct mt_error *err)
{
    if (k->max_offsets < 0)
        return bad(err, "maxOffsetsPerTrigger",
                   "option \"maxOffsetsPerTrigger\" is %lld; it must be above 0, or 0 for no limit",
                   (long long)k->max_offsets);
    if (k->max_bytes < 1 || k->max_bytes > 1 << 30)
        return bad(err, "maxBatchBytes",
                   "option \"maxBatchBytes\" is %lld bytes; it must be between 1 and 1g",
                   (long long)k->max_bytes);
    return MT_OK;
}

enum mt_status kafka_options_read(struct kafka *k, struct mt_error *err)
{
    enum mt_status status = read_settings(k, err);
    if (status == MT_OK)
        status = read_topics(k, err);
    if (status == MT_OK)
        status = read_starting(k, err);
    return status == MT_OK ? check_limits(k, err) : status;
}
