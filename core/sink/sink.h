/* SPDX-License-Identifier: Apache-2.0
 *
 * sink.h - where rows go. A sink's own record of batches (the marker) travels with
 * the data into the destination, so that a replay is recognised there. */
#ifndef MT_SINK_H
#define MT_SINK_H

#include "batch/batch.h"

struct mt_sink;

/* How a job declares a sink. */
struct mt_sink_settings {
    const char *format;
    const char *path;             /* save(path), or NULL; the option "path" is the same */
    const char *name;             /* :name(...), or NULL */
    struct mt_pairs options;      /* as given */
    struct mt_pairs partition_by; /* keys only: column names */
    int64_t n_files;              /* that a batch is spread over; 0: one, or one a folder */
    struct mt_pairs spread_by; /* keys only: columns whose values stay together; none: in order */
    const char *query_name;    /* or NULL */
    int64_t ordinal;           /* the how-manieth call to this destination in a batch; 0: first */
};

/* The user's word for a batch of which a sink cannot know whether it holds it. */
enum mt_sink_said { MT_SAID_NOTHING, MT_SAID_HELD, MT_SAID_NOT_HELD };

/* The batch that a sink is asked to hold, with its provenance. */
struct mt_sink_batch {
    const char *query_id;
    const char *query_name; /* or NULL */
    int64_t batch_id;
    const char *digest;   /* 64 hex digits of the plan */
    const char *bundle;   /* hash of the script */
    const char *offsets;  /* JSON: [{"source":…,"start":…,"end":…}] */
    const char *version;  /* of Moontide */
    int64_t attempt;      /* 1: nobody was given this batch before */
    int64_t planned_us;   /* when it was planned, since 1970 */
    int64_t rows;         /* that `write` will be given */
    uint64_t fingerprint; /* of those rows */
    enum mt_sink_said said;
};

/* What a destination says it holds of a batch. */
struct mt_sink_record {
    int64_t batch_id;
    char digest[65];
    char bundle[65];
    int64_t rows;     /* stored, by the destination's own count */
    int64_t merged;   /* not stored: a later row of this batch has the same key */
    int64_t ignored;  /* not stored: the destination has the key, and that was to be let be */
    int64_t rejected; /* not stored: it can never be */
    uint64_t fingerprint;
    int64_t bytes; /* 0 when unknown */
};

enum mt_sink_answer {
    MT_SINK_NEW,      /* go on: write, commit */
    MT_SINK_STORED,   /* holds it already under this digest; record is filled */
    MT_SINK_CONFLICT, /* same id under another digest, or a later batch; err says which */
};

struct mt_sink_type {
    const char *name, *help;
    const struct mt_option *options;   /* ends with {0} */
    const char *const *not_yet;        /* Spark's options that are refused by name; NULL: none */
    const struct mt_refusal *refusals; /* likewise, each with its reason; ends with {0}; or NULL */
    size_t size;                       /* of the instance, whose first member is struct mt_sink */
    bool exactly_once;                 /* false: begin always answers NEW */
    bool needs_path;                   /* refuse at declaration when no path is given */
    bool needs_checkpoint;             /* a temporary checkpoint is not enough */
    bool partitions;                   /* partitionBy is meaningful, and the number of files */
    const char *alias;                 /* another name for it in jobs; NULL: none */

    /* What of its settings names the destination: *place as people see it, with the server it is
     * on; *inside as the destination's own record has it, without. Allocated. NULL: the path, which
     * the record leaves out. Called before open. */
    void (*names)(const struct mt_sink *, char **place, char **inside);
    /* Settings and sink->schema are in. Touches nothing outside. REJECT, with the
     * column's name, for a schema it cannot store. */
    enum mt_status (*open)(struct mt_sink *, struct mt_error *);
    /* Once at start, before any begin: settle what an owner that died left behind. */
    enum mt_status (*recover)(struct mt_sink *, const char *query_id, struct mt_error *);
    enum mt_status (*begin)(struct mt_sink *, const struct mt_sink_batch *, enum mt_sink_answer *,
                            struct mt_sink_record *, struct mt_error *);
    /* Borrows the rows. After NEW only; any number of times, also never. */
    enum mt_status (*write)(struct mt_sink *, const struct mt_batch *, struct mt_error *);
    /* OK only when every row since begin would survive power loss. RETRY means
     * unknown: abort, begin, and begin's answer counts. Refuses after any error. */
    enum mt_status (*commit)(struct mt_sink *, struct mt_sink_record *, struct mt_error *);
    void (*abort)(struct mt_sink *); /* always allowed */
    /* Adds a JSON object: {"description":"FileSink[/out]","guarantee":"exactly once",
     * "marker":{…last batch held…}|null,…}. query_id may be NULL (then no marker). Reads only. */
    void (*describe)(struct mt_sink *, const char *query_id, struct mt_buf *);
    void (*close)(struct mt_sink *);
};

struct mt_sink {
    const struct mt_sink_type *type;
    const struct ArrowSchema *schema; /* borrowed; of the rows it is given */
    char *identity;                   /* as people see it: name, or format plus destination */
    char *marker_identity;            /* inside the destination: name, or "parquet#1"; no path */
    char *query_name;                 /* or NULL */
    char *path;                       /* absolute, or NULL */
    char **partition_by;
    int64_t n_partition_by;
    bool at_least_once; /* open sets it: this one promises less than its type */
    int64_t n_files;    /* as in the settings */
    int32_t *spread_by; /* column numbers */
    int64_t n_spread_by;
    /* Where a sink that shows rows to people puts them (whole lines); NULL: standard output.
     * The host's; called from the sink's thread. */
    void (*print)(void *ctx, const char *text);
    void *print_ctx;
};

const struct mt_sink_type *mt_sink_type_of(const char *name);
extern const struct mt_sink_type *const mt_sink_types[]; /* ends with NULL */

#ifndef MT_CDEF
/* Adds rows (of schema) as the table that the console sink prints. cut: characters a cell may
 * have; 0: any. */
void mt_table_print(const struct ArrowSchema *schema, const struct ArrowArray *rows, int64_t cut,
                    struct mt_buf *out);
#endif

/* The same as text; caller frees with mt_free. */
char *mt_table_text(const struct ArrowSchema *schema, const struct ArrowArray *rows, int64_t cut);

enum mt_status mt_sink_new(const struct mt_sink_settings *settings,
                           const struct ArrowSchema *schema, struct mt_sink **out,
                           struct mt_error *err) MT_NODISCARD;
void mt_sink_free(struct mt_sink *sink); /* NULL is fine */
/* describe() as text; caller frees with mt_free. */
char *mt_sink_describe(struct mt_sink *sink, const char *query_id);
const char *mt_sink_identity(const struct mt_sink *sink);
_Bool mt_sink_is_exactly_once(const struct mt_sink *sink);
_Bool mt_sink_needs_checkpoint(const struct mt_sink *sink);

/* The rows a memory sink holds for query_name, as one batch (shared); false: no such table. */
_Bool mt_memory_table(const char *query_name, struct mt_batch *out);
void mt_memory_table_drop(const char *query_name);
#endif
