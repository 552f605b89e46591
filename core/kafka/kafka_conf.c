/* SPDX-License-Identifier: Apache-2.0
 *
 * kafka_conf.c - kafka.* of a job on its way into librdkafka.
 *
 * A job written for Spark sets names that the Java client knows. Three things can be
 * right for such a name: librdkafka has it too; it is called otherwise there (`renamed`
 * of the rules); or it cannot mean anything here, and then the reason is said. Nothing is
 * passed over in silence: a mistyped security setting would connect without security. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "kafka/kafka.h"

/* Settings on their way. */
struct making {
    const struct mt_kafka_rules *rules;
    rd_kafka_conf_t *conf;
};

enum mt_status mt_kafka_bad(struct mt_error *err, const char *option, const char *fmt, ...)
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

/* A value that must not be in a message. */
static bool is_secret(const char *name)
{
    return strstr(name, "password") || strstr(name, "secret") || strstr(name, "jaas") ||
           strstr(name, ".pem") || strstr(name, "token");
}

/* Other names of settings, which the library's own list leaves out. */
static const char *const aliases[] = {
    "bootstrap.servers", "sasl.mechanism", "sasl.jaas.config",    "acks",
    "retries",           "linger.ms",      "delivery.timeout.ms", "compression.type"};

/* The nearest setting there is. */
static enum mt_status unknown_setting(const struct mt_kafka_rules *rules, const char *key,
                                      struct mt_error *err)
{
    size_t n[2], n_names = 0;
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_topic_conf_t *topic_conf = rd_kafka_topic_conf_new();
    const char **dumps[2] = {rd_kafka_conf_dump(conf, &n[0]),
                             rd_kafka_topic_conf_dump(topic_conf, &n[1])};
    const char **names = mt_alloc((n[0] + n[1] + 100) * sizeof *names);
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
        names[n_names++] = aliases[i];
    for (const struct mt_refusal *r = rules->refusals; r->name; r++)
        if (strncmp(r->name, "kafka.", 6) == 0)
            names[n_names++] = r->name + 6;
    for (const struct mt_kafka_setting *r = rules->renamed; r->key; r++)
        names[n_names++] = r->key;
    for (int d = 0; d < 2; d++)
        for (size_t i = 0; i < n[d]; i += 2)
            names[n_names++] = dumps[d][i];
    const char *near = mt_suggest(key, names);
    char option[200];
    snprintf(option, sizeof option, "kafka.%s", key);
    mt_kafka_bad(err, option, "unknown option \"kafka.%s\"%s%s%s", key,
                 near ? "; did you mean \"kafka." : ": the Kafka client has no such setting",
                 near ? near : "", near ? "\"?" : "");
    rd_kafka_conf_dump_free(dumps[0], n[0]);
    rd_kafka_conf_dump_free(dumps[1], n[1]);
    rd_kafka_topic_conf_destroy(topic_conf);
    rd_kafka_conf_destroy(conf);
    free(names);
    return MT_FATAL;
}

static enum mt_status set(struct making *m, const char *given, const char *name, const char *value,
                          struct mt_error *err)
{
    char why[300], option[200];
    rd_kafka_conf_res_t result = rd_kafka_conf_set(m->conf, name, value, why, sizeof why);
    if (result == RD_KAFKA_CONF_OK)
        return MT_OK;
    if (result == RD_KAFKA_CONF_UNKNOWN)
        return unknown_setting(m->rules, given, err);
    snprintf(option, sizeof option, "kafka.%s", given);
    return mt_kafka_bad(err, option, "option \"kafka.%s\": %s", given,
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

static enum mt_status set_jaas(struct making *m, const char *jaas, struct mt_error *err)
{
    enum mt_status status = MT_OK;
    char *user = jaas_value(jaas, "username"), *password = jaas_value(jaas, "password");
    if (!strstr(jaas, "PlainLoginModule") && !strstr(jaas, "ScramLoginModule"))
        status = mt_kafka_bad(err, "kafka.sasl.jaas.config",
                              "option \"kafka.sasl.jaas.config\": only PlainLoginModule and "
                              "ScramLoginModule are understood; set kafka.sasl.mechanism and the "
                              "kafka.sasl.* settings of librdkafka instead");
    else if (!user || !password)
        status =
            mt_kafka_bad(err, "kafka.sasl.jaas.config",
                         "option \"kafka.sasl.jaas.config\": username=\"…\" and password=\"…\" are "
                         "expected in it");
    if (status == MT_OK)
        status = set(m, "sasl.jaas.config", "sasl.username", user, err);
    if (status == MT_OK)
        status = set(m, "sasl.jaas.config", "sasl.password", password, err);
    free(user);
    free(password);
    return status;
}

static bool is_ignored(const struct mt_kafka_rules *rules, const char *key)
{
    for (const char *const *name = rules->ignored; *name; name++)
        if (strcmp(*name, key) == 0)
            return true;
    return false;
}

static enum mt_status refuse(const struct mt_kafka_rules *rules, const char *key,
                             struct mt_error *err)
{
    for (const struct mt_refusal *r = rules->refusals; r->name; r++)
        if (strncmp(r->name, "kafka.", 6) == 0 && strcmp(r->name + 6, key) == 0)
            return mt_kafka_bad(err, r->name, "option \"%s\": %s", r->name, r->why);
    return MT_OK;
}

static enum mt_status set_given(struct making *m, const char *key, const char *value,
                                struct mt_error *err)
{
    if (is_ignored(m->rules, key))
        return MT_OK;
    if (refuse(m->rules, key, err) != MT_OK)
        return MT_FATAL;
    if (strcmp(key, "sasl.jaas.config") == 0)
        return set_jaas(m, value, err);
    if (strcmp(key, "ssl.endpoint.identification.algorithm") == 0 && !*value)
        value = "none"; /* Java's way to switch it off */
    const char *name = key;
    for (const struct mt_kafka_setting *r = m->rules->renamed; r->key; r++)
        if (strcmp(key, r->key) == 0)
            name = r->value;
    return set(m, key, name, value, err);
}

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
static enum mt_status set_brokers(struct making *m, const char *brokers, struct mt_error *err)
{
    const char *option = "kafka.bootstrap.servers";
    if (!brokers || !*brokers)
        return mt_kafka_bad(err, option, "option \"%s\" must be specified, as in localhost:9092",
                            option);
    for (const char *at = brokers, *end; (end = strstr(at, "://")); at = end + 3) {
        const char *name = end;
        while (name > at && name[-1] != ',' && name[-1] != ' ')
            name--;
        if (!is_protocol(name, (size_t)(end - name)))
            return mt_kafka_bad(err, option,
                                "option \"%s\" is \"%s\": hosts and ports are expected, as in "
                                "localhost:9092,otherhost:9092",
                                option, brokers);
    }
    if (has_bad_port(brokers))
        return mt_kafka_bad(err, option, "option \"%s\" is \"%s\": a port is 1 to 65535", option,
                            brokers);
    return set(m, "bootstrap.servers", "bootstrap.servers", brokers, err);
}

static enum mt_status set_all(struct making *m, const char *brokers, const struct mt_pairs *given,
                              struct mt_error *err)
{
    enum mt_status status = MT_OK;
    for (const struct mt_kafka_setting *own = m->rules->own; status == MT_OK && own->key; own++)
        status = set(m, own->key, own->key, own->value, err);
    for (size_t i = 0; status == MT_OK && i < given->n; i++) {
        char *key = mt_strdup(given->items[i].key); /* Spark's names are of any case */
        for (char *c = key; *c; c++)
            if (*c >= 'A' && *c <= 'Z')
                *c = (char)(*c - 'A' + 'a');
        status = set_given(m, key, given->items[i].value, err);
        free(key);
    }
    return status == MT_OK ? set_brokers(m, brokers, err) : status;
}

enum mt_status mt_kafka_conf_new(const struct mt_kafka_rules *rules, const char *brokers,
                                 const struct mt_pairs *given, rd_kafka_conf_t **out,
                                 struct mt_error *err)
{
    struct making m = {rules, rd_kafka_conf_new()};
    enum mt_status status = set_all(&m, brokers, given, err);
    if (status == MT_OK)
        *out = m.conf;
    else
        rd_kafka_conf_destroy(m.conf);
    return status;
}

const char *mt_kafka_conf_get(const rd_kafka_conf_t *conf, const char *name, char *out, size_t cap)
{
    size_t size = cap;
    if (rd_kafka_conf_get(conf, name, out, &size) != RD_KAFKA_CONF_OK)
        out[0] = '\0';
    return out;
}
