/* SPDX-License-Identifier: Apache-2.0
 *
 * source.h - where rows come from. Positions are JSON text, Spark's form
 * ({"orders":{"0":534,"1":12}}: topics and partitions sorted, no blanks, each the
 * next offset to read); two positions are equal when their texts are. */
#ifndef MT_SOURCE_H
#define MT_SOURCE_H

#include "batch/batch.h"

struct mt_source;

/* How far a batch may go. */
enum mt_reach {
    MT_REACH_ARRIVED, /* trickle: what is already here; asks nobody */
    MT_REACH_LATEST,  /* ends asked of the origin now, within limits */
    MT_REACH_TARGET,  /* ends asked once a run, then within limits up to them */
    MT_REACH_ALL,     /* ends asked once a run, limits ignored (Trigger.Once) */
};

/* The answer of `available`. Strings are the caller's to free (mt_ends_clear). */
struct mt_ends {
    char *end;    /* position; equal to start when there is nothing */
    char *latest; /* position the origin has, or NULL when not known */
    char *facts;  /* JSON object for the plan: leader epochs, topic ids, cluster id */
    bool nothing; /* no new data: no batch */
    bool more;    /* cut by maxBatchBytes: there is more to read at once */
    bool reached; /* TARGET, ALL: end is the target */
};

/* A source may wait in a call for an answer of its origin, about a second; for more it
 * answers RETRY and is called again. */
struct mt_source_type {
    const char *name, *help;
    const struct mt_option *options; /* ends with {0} */
    size_t size;                     /* of the instance, whose first member is struct mt_source */
    bool replayable;                 /* a range can be read again after a restart */

    /* Settings are in; fills full_schema, name and wake_fd. Touches nothing outside. */
    enum mt_status (*open)(struct mt_source *, struct mt_error *);
    /* The position of the first batch of a new query. RETRY: origin away, call again. */
    enum mt_status (*resolve_start)(struct mt_source *, int64_t now_ms, char **start,
                                    struct mt_error *);
    /* How far a batch from `start` could go. What it receives on the way is a
     * prefetch that `read` hands out. RETRY: still filling, call again when woken. */
    enum mt_status (*available)(struct mt_source *, const char *start, enum mt_reach reach,
                                int64_t now_ms, struct mt_ends *ends, struct mt_error *);
    /* Exactly [start, end), rows in order of topic, partition, offset; any range the
     * origin still has, also backwards. RETRY: not all here yet, call again with the
     * same range (what came is kept). `facts` is the plan's. out's schema is
     * source->schema; out->coords is set. Data loss goes by the source's policy. */
    enum mt_status (*read)(struct mt_source *, const char *start, const char *end,
                           const char *facts, int64_t now_ms, struct mt_batch *out,
                           struct mt_error *);
    /* A batch that ended here is committed; may be said again at a start. Failure is
     * only a warning. */
    enum mt_status (*committed)(struct mt_source *, const char *end, struct mt_error *);
    /* Adds a JSON object: {"description":"KafkaV2[Subscribe[orders]]","behind":30,
     * "metrics":{…}}: description and metrics as Spark's progress has them, and the rows
     * behind latest in all, when latest is known (it may be NULL). */
    void (*describe)(struct mt_source *, const char *end, const char *latest, struct mt_buf *buf);
    void (*close)(struct mt_source *); /* also after an open that failed */
    const struct mt_refusal *refusals; /* ends with {0}; NULL: none */
};

struct mt_source {
    const struct mt_source_type *type;
    char *name;                     /* :name(...) or topic, path, host */
    struct ArrowSchema full_schema; /* all columns there are */
    struct ArrowSchema schema;      /* the columns `read` gives, in full_schema's order */
    int32_t *wanted;                /* index in full_schema of each column of schema */
    int wake_fd;                    /* readable when rows or events came; -1: none */
    int64_t again_ms;               /* after RETRY: look again at this time at the latest */
    char state[256];                /* "" or what it waits for, in words, for people */
    char *past;                     /* what mt_source_remember was told, or NULL */
};

const struct mt_source_type *mt_source_type_of(const char *name); /* NULL: unknown */
/* All types, ends with NULL. */
extern const struct mt_source_type *const mt_source_types[];
void mt_ends_clear(struct mt_ends *ends);

/* Makes a source of format with options as the job gave them. Touches no server.
 * err->option names the option at fault. */
enum mt_status mt_source_new(const char *format, const struct mt_pairs *options,
                             struct mt_source **out, struct mt_error *err) MT_NODISCARD;
/* Only these columns of full_schema will be read (ascending indexes). Before the first read. */
void mt_source_project(struct mt_source *source, const int32_t *wanted, int64_t n);
/* What :name(...) of the reader said, instead of topic, path or host. Before the first batch. */
void mt_source_rename(struct mt_source *source, const char *name);
/* The facts of the last plan in the checkpoint: by them a source notices that a topic
 * was made anew while nobody looked. Before the first `available`. */
void mt_source_remember(struct mt_source *source, const char *facts);
void mt_source_free(struct mt_source *source); /* NULL is fine */
const struct ArrowSchema *mt_source_schema(const struct mt_source *source);
const char *mt_source_name(const struct mt_source *source);
const char *mt_rdkafka_version(void);

/* mt.memoryStream(ddl): a source of rows that a test adds. */
enum mt_status mt_memory_source_new(const char *ddl, const char *name, struct mt_source **out,
                                    struct mt_error *err) MT_NODISCARD;
/* Another reader of a memory stream, from its first row on. */
enum mt_status mt_memory_source_again(struct mt_source *of, struct mt_source **out,
                                      struct mt_error *err) MT_NODISCARD;
/* Appends rows (moved) of the stream's schema, for all its readers. */
enum mt_status mt_memory_source_add(struct mt_source *source, struct ArrowArray *rows,
                                    struct mt_error *err) MT_NODISCARD;
#endif
