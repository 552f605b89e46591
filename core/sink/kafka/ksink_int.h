/* SPDX-License-Identifier: Apache-2.0
 *
 * ksink_int.h - what the files of the Kafka sink share.
 *
 *   ksink_sink.c      the type: its eight functions
 *   ksink_options.c   options and columns, checked when the job is declared
 *   ksink_producer.c  the producer's life: transactions, waiting, giving up
 *   ksink_errors.c    what a refusal means, and the words for it
 *   ksink_rows.c      rows to records, and the reports of their delivery
 *   ksink_marker.c    what the brokers remember of batches */
#ifndef MT_KSINK_INT_H
#define MT_KSINK_INT_H

#include "kafka/kafka.h"
#include "sink/sink_int.h"

enum {
    KSINK_CHUNK = 1024,       /* records given to the client at once */
    KSINK_REQUEST_MS = 5000,  /* longest wait for what may be asked again */
    KSINK_COMMIT_MS = 60000,  /* for an answer to a commit, before its fate counts as unknown */
    KSINK_ABORT_MS = 30000,   /* for an abort; after it the next start of a transaction does it */
    KSINK_FLUSH_MS = 180000,  /* for deliveries; they time out by themselves, before this */
    KSINK_DELIVERY_MS = 30000 /* a record's time, unless the job says otherwise */
};

struct ksink_topic {
    char *name;
    size_t len;
    rd_kafka_topic_t *handle;
    int32_t n_partitions; /* as the brokers said last */
};

struct ksink {
    struct mt_sink base;

    /* options */
    char *brokers, *topic, *delivery;
    bool include_headers, provenance;
    struct mt_pairs settings; /* kafka.* */

    /* as declared; columns by number, -1: there is none */
    int64_t value, key, topic_column, partition, headers;
    bool transactional;
    rd_kafka_conf_t *conf;

    char *query; /* that recover or begin named; NULL: none yet */
    char *id;    /* transactional.id and marker group */

    /* the producer; NULL: none */
    rd_kafka_t *producer;
    rd_kafka_queue_t *events;
    struct ksink_topic *topics;
    size_t n_topics;
    struct mt_kafka_ear ear;
    bool answered; /* some broker answered once */
    bool fencing;  /* older owners can store nothing any more */
    bool ready;    /* and the marker is read */
    bool dirty;    /* a transaction is open */
    bool broken;   /* it is to be made anew */
    int64_t opened_us;
    int64_t fenced_batch; /* that the producer was fenced in last; -1 */

    bool holds; /* a batch is held; the latest is */
    struct mt_sink_record held;

    /* the batch that begin opened */
    bool open;
    int64_t batch_id;
    struct mt_sink_record given;
    rd_kafka_headers_t *stamp;    /* provenance, for every record; NULL: none */
    const struct mt_batch *rows;  /* while write has them */
    rd_kafka_topic_t *marked;     /* a topic it has written to */
    rd_kafka_message_t *messages; /* KSINK_CHUNK */
    enum mt_status failed;        /* of a delivery; err says which */
    size_t failed_size;
    struct mt_error failure;
};

/* ---- ksink_options.c */
extern const struct mt_option ksink_option_table[];
extern const struct mt_refusal ksink_refusals[];
/* Sets what is declared: columns, delivery, conf. */
enum mt_status ksink_declare(struct ksink *k, struct mt_error *err) MT_NODISCARD;
char *ksink_trimmed(const char *text); /* caller frees */

/* ---- ksink_producer.c */
/* A producer that may write, and the marker is known. RETRY: not now. */
enum mt_status ksink_ready(struct ksink *k, struct mt_error *err) MT_NODISCARD;
enum mt_status ksink_open_transaction(struct ksink *k, struct mt_error *err) MT_NODISCARD;
/* Takes events for at most so long. */
void ksink_poll(struct ksink *k, int wait_ms);
/* Every record that was given is delivered or has failed when this is OK. */
enum mt_status ksink_flush(struct ksink *k, struct mt_error *err) MT_NODISCARD;
/* Adds the marker and commits. RETRY: nobody knows. */
enum mt_status ksink_store(struct ksink *k, struct mt_error *err) MT_NODISCARD;
/* Ends an open transaction; a broken producer goes. */
void ksink_give_up(struct ksink *k);
void ksink_drop_producer(struct ksink *k);
/* A topic that is there; NULL: *why says what of it. */
rd_kafka_topic_t *ksink_topic_of(struct ksink *k, const char *name, size_t len,
                                 rd_kafka_resp_err_t *why);

/* Whether a topic has this partition; the brokers are asked before it has not. */
bool ksink_has_partition(struct ksink *k, const rd_kafka_topic_t *topic, int32_t partition);

/* ---- ksink_errors.c */
/* What went wrong in a call of the transactional producer; takes problem. */
enum mt_status ksink_failed(struct ksink *k, const char *doing, rd_kafka_error_t *problem,
                            struct mt_error *err);
/* A topic that records cannot go to. row: its number in rows, whose place is told. */
enum mt_status ksink_no_topic(const struct ksink *k, const char *name, size_t len,
                              const struct mt_batch *rows, int64_t row, rd_kafka_resp_err_t code,
                              struct mt_error *err);
/* Keeps the failure of a record, unless a worse one is known. row: of k->rows. */
void ksink_note(struct ksink *k, const rd_kafka_message_t *message, rd_kafka_resp_err_t code);

/* ---- ksink_rows.c */
enum mt_status ksink_produce(struct ksink *k, const struct mt_batch *rows,
                             struct mt_error *err) MT_NODISCARD;
void ksink_stamp(struct ksink *k, const struct mt_sink_batch *batch);

/* ---- ksink_marker.c */
/* The latest batch that a group's markers name. RETRY: no answer. */
enum mt_status ksink_marker_read(struct ksink *k, const char *group, bool *holds,
                                 struct mt_sink_record *held, struct mt_error *err) MT_NODISCARD;
char *ksink_marker_print(const struct mt_sink_record *record); /* caller frees */
/* How long brokers keep a group's markers; a day when they do not say. */
int64_t ksink_retention_ms(rd_kafka_t *client);

#endif
