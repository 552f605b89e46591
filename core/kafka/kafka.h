/* SPDX-License-Identifier: Apache-2.0
 *
 * kafka.h - what the source and the sink of Kafka have in common: a client's settings out of
 * a job's options, what clients complain of, and (kafka_newer.h) functions that only newer
 * libraries have. Knows neither of the two. */
#ifndef MT_KAFKA_H
#define MT_KAFKA_H

#include <librdkafka/rdkafka.h>
#include <pthread.h>

#include "base/base.h"

/* ---- settings: kafka_conf.c */

struct mt_kafka_setting {
    const char *key, *value;
};

/* How one kind of client takes settings. */
struct mt_kafka_rules {
    const struct mt_kafka_setting *own; /* set first, a job may change them; ends with {0} */
    const struct mt_refusal *refusals;  /* with names like "kafka.acks"; others mean nothing here */
    const struct mt_kafka_setting
        *renamed;               /* the Java client's name and librdkafka's; ends with {0} */
    const char *const *ignored; /* taken and not given to the client; ends with NULL */
};

/* The client's settings: `brokers` and what was given as kafka.*, names without that. */
enum mt_status mt_kafka_conf_new(const struct mt_kafka_rules *rules, const char *brokers,
                                 const struct mt_pairs *given, rd_kafka_conf_t **out,
                                 struct mt_error *err) MT_NODISCARD;
/* "kafka: <words>", the job's fault, at this option. Returns FATAL. */
enum mt_status mt_kafka_bad(struct mt_error *err, const char *option, const char *fmt, ...)
    MT_PRINTF(3, 4);
/* A setting as the client has it; "" for none. Returns out. */
const char *mt_kafka_conf_get(const rd_kafka_conf_t *conf, const char *name, char *out, size_t cap);

/* ---- complaints: kafka_ear.c */

/* What clients say of their trouble, which requests do not: those merely time out. */
struct mt_kafka_ear {
    pthread_mutex_t lock; /* over what follows; the library's threads write it */
    char complaint[512];
    bool refused;    /* a login was refused */
    bool no_handles; /* no file handle was left for a connection */
    bool down;       /* all brokers are down, as far as is known */
};

void mt_kafka_ear_init(struct mt_kafka_ear *ear);
void mt_kafka_ear_deinit(struct mt_kafka_ear *ear);
/* Clients of conf are listened to; the ear becomes their opaque. */
void mt_kafka_ear_attach(struct mt_kafka_ear *ear, rd_kafka_conf_t *conf);
/* An error that came as an event. */
void mt_kafka_ear_hear(struct mt_kafka_ear *ear, rd_kafka_resp_err_t code, const char *reason);
void mt_kafka_ear_forget(struct mt_kafka_ear *ear);
/* FATAL for what no waiting mends: no file handle is left; the login is refused, unless a broker
 * has answered before. */
enum mt_status mt_kafka_ear_check(struct mt_kafka_ear *ear, bool answered, const char *brokers,
                                  enum mt_class class_, struct mt_error *err) MT_NODISCARD;
/* `what`, the last complaint, and what may be behind it. Caller frees. */
char *mt_kafka_ear_words(struct mt_kafka_ear *ear, const rd_kafka_conf_t *conf, bool answered,
                         const char *what);

#endif
