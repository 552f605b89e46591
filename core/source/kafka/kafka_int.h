/* SPDX-License-Identifier: Apache-2.0
 *
 * kafka_int.h - what the files of the Kafka source share.
 *
 *   kafka_source.c   the type: options, resolve_start, available, read
 *   kafka_options.c  options that need more than a table
 *   kafka_client.c   the two handles, waiting for brokers
 *   kafka_topics.c   questions to the brokers: partitions, topic ids, offsets
 *   kafka_look.c     the question that no batch waits for
 *   kafka_range.c    which range to receive: start, loss policy, limits
 *   kafka_split.c    maxOffsetsPerTrigger over partitions (pure)
 *   kafka_fill.c     receiving a range from the queues
 *   kafka_rows.c     records to columns
 *   kafka_loss.c     the words when records are gone
 *   kafka_facts.c    what a plan remembers; description and lag */
#ifndef MT_KAFKA_INT_H
#define MT_KAFKA_INT_H

#include "kafka/kafka.h"
#include "kafka/kafka_newer.h"
#include "source/source_int.h"

enum {
    KAFKA_CHUNK = 4096,         /* records asked of a queue at once */
    KAFKA_REQUEST_MS = 1000,    /* longest wait for an answer before the caller gets RETRY */
    KAFKA_STALL_MS = 1000,      /* nothing came for so long: look why */
    KAFKA_REFRESH_MS = 5000,    /* between looks for new partitions; between lines of the log */
    KAFKA_DOUBT_MS = 1000,      /* bad news must be told for so long before it is believed */
    KAFKA_RECORD_OVERHEAD = 32, /* bytes counted beside key, value and headers */
};

struct kafka_topic {
    char *name;
    int32_t *assigned; /* `assign`: only these partitions; else NULL */
    size_t n_assigned;
    rd_kafka_topic_t *meta, *data; /* one of each handle */
    int32_t n_partitions;          /* as the broker said last; 0: there is no such topic */
    char id[32];                   /* topic id as the broker said last; "": unknown */
    char ours[32];                 /* topic id that our positions are of; "": unknown */
};

struct kafka_partition {
    struct kafka_topic *topic;
    int32_t id;

    /* receiving, across batches */
    rd_kafka_queue_t *queue;
    bool running;
    int64_t next;               /* offset behind what was taken; receiving goes on here */
    int64_t eof;                /* of the last end-of-partition event since the start; -1 */
    int32_t epoch;              /* leader epoch of the last record; -1 */
    rd_kafka_resp_err_t failed; /* it receives no more until it is started again */
    rd_kafka_message_t **held;  /* received past the range: the first of the next one */
    size_t n_held, held_at;

    /* the range now received */
    bool in_range, done;
    bool cut;                 /* its share of the bytes is used up */
    bool shared;              /* it has got its share */
    int64_t from, cap;        /* [from, cap) */
    int64_t share;            /* bytes it may still take */
    int64_t taken;            /* records */
    int64_t earliest, latest; /* of the log, as asked last */
    int64_t looked_from;      /* `from` when a look began: the log cannot end before it */
};

/* Columns under construction. */
struct kafka_rows {
    struct mt_column *columns; /* one a column of base.schema; NULL: not begun */
    int64_t n_columns;
    struct mt_coords *coords;
    const struct kafka_partition *last; /* whose run of rows is open */
    int64_t n;
};

enum kafka_fill_state { KAFKA_FILL_NONE, KAFKA_FILL_OPEN, KAFKA_FILL_CLOSED };

/* One range on its way into columns. */
struct kafka_fill {
    enum kafka_fill_state state;
    bool exact;          /* `read` of a plan: nothing less will do */
    enum mt_reach reach; /* when not exact */
    char *start, *end;   /* its texts; end is NULL while it is open and not exact */
    size_t at;           /* partitions before this one are done */
    int64_t bytes_left;
    double backlog;   /* records that wait in partitions without a share; -1: not counted */
    int64_t moved_ms; /* when something came last */
    int64_t lost;     /* records that it goes on without */
    bool stalled;     /* nothing came: take what is there and close */
};

struct kafka {
    struct mt_source base;

    /* options */
    char *brokers, *subscribe, *assign, *starting_offsets;
    int64_t max_offsets, max_bytes;
    bool fail_on_loss, include_headers;
    bool has_group;           /* kafka.group.id was given: to be told when the client is made */
    struct mt_pairs settings; /* kafka.* */

    /* as declared */
    struct kafka_topic *topics; /* sorted by name */
    size_t n_topics;
    int64_t starting; /* RD_KAFKA_OFFSET_BEGINNING or _END; 0: starting_at says it */
    struct mt_offsets starting_at;
    rd_kafka_conf_t *conf;

    /* clients */
    rd_kafka_t *meta, *data;
    rd_kafka_queue_t *events[2]; /* their main queues */
    struct mt_kafka_ear ear;
    bool answered;   /* some broker answered once */
    bool waiting;    /* the source waits, and the log said so */
    int64_t said_ms; /* when */
    bool starved;    /* it waits for records, not for answers */
    bool no_ids;     /* brokers or library do not tell topic ids */
    int ids_refused; /* times in a row */
    char cluster[64];

    /* partitions, sorted by topic and number */
    struct kafka_partition **parts;
    size_t n_parts;
    int64_t checked_ms;       /* when topics and offsets were looked at last; 0: never */
    bool must_check;          /* something is odd: look before going on */
    rd_kafka_queue_t *looks;  /* where the answers of a look come; NULL: none was begun */
    int looking;              /* answers to come */
    bool look_failed;         /* one was not what is known: ask, and wait for it */
    int64_t doubt_ms;         /* since when the brokers tell bad news; 0: they do not */
    struct mt_offsets target; /* of MT_REACH_TARGET and _ALL */
    bool has_target;

    struct kafka_fill fill;
    struct kafka_rows rows;
    struct mt_offsets jumps; /* where the fill begins elsewhere than its start says */
    rd_kafka_message_t *chunk[KAFKA_CHUNK];
    int64_t lost; /* records that failOnDataLoss=false went on without */
};

/* ---- kafka_options.c */
extern const struct mt_option kafka_option_table[];
extern const struct mt_refusal kafka_refusals[];
/* Checks what the table cannot, fills topics, starting and conf. */
enum mt_status kafka_options_read(struct kafka *k, struct mt_error *err) MT_NODISCARD;

/* ---- kafka_client.c */
/* The handle for questions / for data, made on first use. FATAL: the settings are refused. */
enum mt_status kafka_open_meta(struct kafka *k, struct mt_error *err) MT_NODISCARD;
enum mt_status kafka_open_data(struct kafka *k, size_t n_partitions,
                               struct mt_error *err) MT_NODISCARD;
/* Takes wake-ups and complaints off both handles. FATAL when a broker refused the login
 * before any ever answered, and when no file handle was left for a connection. */
enum mt_status kafka_listen(struct kafka *k, struct mt_error *err) MT_NODISCARD;
/* Sets state and again_ms and tells the log, not more than once in 5 s. Returns RETRY. */
enum mt_status kafka_wait(struct kafka *k, int64_t now_ms, const char *fmt, ...) MT_PRINTF(3, 4);
/* Things move again. */
void kafka_go_on(struct kafka *k);
void kafka_close_clients(struct kafka *k);

/* ---- kafka_topics.c */
/* Asks which partitions and ids the topics have now. RETRY: no answer. */
enum mt_status kafka_ask_topics(struct kafka *k, int64_t now_ms, struct mt_error *err) MT_NODISCARD;
/* One of our topics and its id ("": an old broker tells none); NULL: nothing is known of it. */
struct kafka_topic *kafka_topic_described(struct kafka *k, const kafka_topic_description *said,
                                          char id[32]);
/* Of a question whose answer comes to a queue. */
rd_kafka_AdminOptions_t *kafka_admin_options(const struct kafka *k);
void kafka_describe_topics(struct kafka *k, rd_kafka_queue_t *queue);
/* Asks earliest and latest of every partition in range that is not done. */
enum mt_status kafka_ask_offsets(struct kafka *k, int64_t now_ms,
                                 struct mt_error *err) MT_NODISCARD;
/* Whether topics and assigned partitions without a position in `known` (NULL: none has
 * one) are there, as kafka_ask_topics found them. RETRY for a while, then FATAL. */
enum mt_status kafka_topics_exist(struct kafka *k, const struct mt_offsets *known, int64_t now_ms,
                                  struct mt_error *err) MT_NODISCARD;
bool kafka_topic_has(const struct kafka_topic *topic, int32_t partition);
/* The partition, made if it is new. */
struct kafka_partition *kafka_partition_of(struct kafka *k, struct kafka_topic *topic, int32_t id);
struct kafka_topic *kafka_topic_of(struct kafka *k, const char *name); /* NULL: not ours */

/* ---- kafka_look.c */
bool kafka_can_look(const struct kafka *k);
/* Takes the answers of a look that is under way, and begins one when it is time. Is all as known,
 * that counts as checked; else k->look_failed. */
void kafka_look(struct kafka *k, int64_t now_ms);

/* ---- kafka_range.c */
/* Sets up the fill for a batch from `start`, or for exactly [start, end). RETRY: call again. */
enum mt_status kafka_range_open(struct kafka *k, const char *start, enum mt_reach reach,
                                int64_t now_ms, struct mt_error *err) MT_NODISCARD;
enum mt_status kafka_range_exact(struct kafka *k, const char *start, const char *end,
                                 const char *facts, int64_t now_ms,
                                 struct mt_error *err) MT_NODISCARD;
/* Looks again at what is left of an exact range that does not come. */
enum mt_status kafka_range_recheck(struct kafka *k, int64_t now_ms,
                                   struct mt_error *err) MT_NODISCARD;

/* ---- kafka_split.c */
/* Spark's share of `limit` offsets for each partition of latest, as ends. A partition that
 * begin lacks has none. */
void kafka_split(const struct mt_offsets *begin, const struct mt_offsets *latest, int64_t limit,
                 struct mt_offsets *ends);

/* ---- kafka_fill.c */
/* Goes on receiving. OK: closed. RETRY: more is to come. */
enum mt_status kafka_fill_run(struct kafka *k, int64_t now_ms, struct mt_error *err) MT_NODISCARD;
/* Starts receiving of p at p->from, wherever it was. */
enum mt_status kafka_start(struct kafka *k, struct kafka_partition *p,
                           struct mt_error *err) MT_NODISCARD;
void kafka_stop(struct kafka_partition *p);
/* Drops the fill and its rows. What was taken has to be received again. */
void kafka_fill_drop(struct kafka *k);

/* ---- kafka_rows.c */
enum mt_status kafka_rows_add(struct kafka *k, const struct kafka_partition *p,
                              rd_kafka_message_t **messages, int64_t n,
                              struct mt_error *err) MT_NODISCARD;
/* The rows as a batch, also when there are none; the builder is empty then. */
void kafka_rows_finish(struct kafka *k, struct mt_batch *out);
void kafka_rows_drop(struct kafka *k);

/* ---- kafka_loss.c */
enum kafka_loss {
    KAFKA_LOSS_EXPIRED,  /* log start above what is wanted */
    KAFKA_LOSS_CUT,      /* log end below it */
    KAFKA_LOSS_REPLACED, /* log end was below it and has grown again */
    KAFKA_LOSS_REMADE,   /* another topic of the same name */
    KAFKA_LOSS_DELETED,  /* topic or partition is gone */
    KAFKA_LOSS_NEW_LATE, /* a new partition whose first records are gone already */
};
/* Records [from, to) of a partition cannot be had. FATAL under failOnDataLoss, else a
 * warning, counted, and OK. to = -1: nobody knows. */
enum mt_status kafka_lost(struct kafka *k, enum kafka_loss kind, const struct kafka_partition *p,
                          int64_t from, int64_t to, struct mt_error *err) MT_NODISCARD;

/* ---- kafka_source.c */
bool kafka_reads_committed(const struct kafka *k);

/* ---- kafka_facts.c */
/* {"clusterId":…,"topicIds":{…},"leaderEpochs":{…},"from":{…}}: parts that are known. */
char *kafka_facts_print(const struct kafka *k);
/* Takes over topic ids (as `ours`) and jumps of a plan. NULL: nothing is known. */
enum mt_status kafka_facts_read(struct kafka *k, const char *facts,
                                struct mt_error *err) MT_NODISCARD;
void kafka_describe(struct mt_source *base, const char *end, const char *latest,
                    struct mt_buf *buf);

#endif
