/* SPDX-License-Identifier: Apache-2.0
 *
 * kafka_ear.c - what clients complain of.
 *
 * librdkafka says why it cannot connect only in callbacks and events: requests merely time
 * out. So the last complaint is kept, to be told by whoever waits. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "kafka/kafka.h"

void mt_kafka_ear_init(struct mt_kafka_ear *ear)
{
    pthread_mutex_init(&ear->lock, NULL);
}

void mt_kafka_ear_deinit(struct mt_kafka_ear *ear)
{
    pthread_mutex_destroy(&ear->lock);
}

/* Keeps a complaint, without librdkafka's "[thrd:name]: " in front. Any thread. */
static void keep(struct mt_kafka_ear *ear, const char *text)
{
    const char *rest = text[0] == '[' ? strstr(text, "]: ") : NULL;
    pthread_mutex_lock(&ear->lock);
    snprintf(ear->complaint, sizeof ear->complaint, "%s", rest ? rest + 3 : text);
    ear->no_handles |= strstr(text, strerror(EMFILE)) || strstr(text, strerror(ENFILE));
    pthread_mutex_unlock(&ear->lock);
}

void mt_kafka_ear_hear(struct mt_kafka_ear *ear, rd_kafka_resp_err_t code, const char *reason)
{
    if (code == RD_KAFKA_RESP_ERR__AUTHENTICATION)
        ear->refused = true;
    if (code == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN)
        ear->down = true; /* says nothing of why: the complaint before it does */
    else
        keep(ear, reason);
}

static void on_error(rd_kafka_t *rk, int code, const char *reason, void *opaque)
{
    (void)rk;
    mt_kafka_ear_hear(opaque, (rd_kafka_resp_err_t)code, reason);
}

/* From librdkafka's threads. */
static void on_log(const rd_kafka_t *rk, int level, const char *facility, const char *text)
{
    static const enum mt_level levels[] = {MT_ERROR, MT_ERROR, MT_ERROR, MT_ERROR,
                                           MT_WARN,  MT_INFO,  MT_INFO,  MT_DEBUG};
    if (strcmp(facility, "FAIL") == 0 || strcmp(facility, "ERROR") == 0)
        keep(rd_kafka_opaque(rk), text); /* repeated as long as it lasts: who waits tells it */
    else
        mt_log(levels[level & 7], "kafka: %s: %s", facility, text);
}

void mt_kafka_ear_attach(struct mt_kafka_ear *ear, rd_kafka_conf_t *conf)
{
    rd_kafka_conf_set_opaque(conf, ear);
    rd_kafka_conf_set_error_cb(conf, on_error);
    rd_kafka_conf_set_log_cb(conf, on_log);
}

void mt_kafka_ear_forget(struct mt_kafka_ear *ear)
{
    pthread_mutex_lock(&ear->lock);
    ear->complaint[0] = '\0';
    pthread_mutex_unlock(&ear->lock);
}

enum mt_status mt_kafka_ear_check(struct mt_kafka_ear *ear, bool answered, const char *brokers,
                                  enum mt_class class_, struct mt_error *err)
{
    enum mt_status status = MT_OK;
    pthread_mutex_lock(&ear->lock);
    if (ear->no_handles)
        status = mt_fail(err, MT_FATAL, MT_CLASS_MACHINE,
                         "kafka: no file handle is left for connections to brokers: %s; raise "
                         "the limit (ulimit -n)",
                         ear->complaint[0] ? ear->complaint : strerror(EMFILE));
    else if (ear->refused && !answered)
        status = mt_fail(err, MT_FATAL, class_,
                         "kafka: a broker of %s refuses the login: %s; look at "
                         "kafka.security.protocol and kafka.sasl.*",
                         brokers, ear->complaint);
    pthread_mutex_unlock(&ear->lock);
    return status;
}

/* Without handles for a pipe and a socket the client says nothing at all: requests time out. */
static bool handles_are_out(void)
{
    int taken[3], n = 0;
    while (n < 3 && (taken[n] = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0)) >= 0)
        n++;
    bool out = n < 3 && (errno == EMFILE || errno == ENFILE);
    while (n > 0)
        close(taken[--n]);
    return out;
}

/* A listener for TLS or SASL hangs up on a client that speaks without. */
static char *hint(const struct mt_kafka_ear *ear, const rd_kafka_conf_t *conf, bool answered)
{
    static const char *const known[] = {"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"};
    char given[30];
    if (answered || !strstr(ear->complaint, "Disconnected"))
        return mt_strdup("");
    const char *protocol = mt_kafka_conf_get(conf, "security.protocol", given, sizeof given);
    struct mt_buf others = {0};
    for (size_t i = 0, n = 0; i < sizeof known / sizeof *known; i++)
        if (strcasecmp(known[i], protocol) != 0)
            mt_buf_addf(&others, "%s%s", n == 0 ? "" : n == 2 ? " or " : ", ", known[i]), n++;
    char *text = mt_format("; kafka.security.protocol is %s: is that what the listener speaks, or "
                           "does it want %s?",
                           protocol, others.data);
    mt_buf_free(&others);
    return text;
}

char *mt_kafka_ear_words(struct mt_kafka_ear *ear, const rd_kafka_conf_t *conf, bool answered,
                         const char *what)
{
    pthread_mutex_lock(&ear->lock);
    ear->no_handles |= handles_are_out(); /* mt_kafka_ear_check tells it */
    char *more = hint(ear, conf, answered);
    char *text = mt_format("%s%s%s%s", what, ear->complaint[0] ? ": " : "", ear->complaint, more);
    pthread_mutex_unlock(&ear->lock);
    free(more);
    return text;
}
