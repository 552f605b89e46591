/* SPDX-License-Identifier: Apache-2.0
 *
 * engine.h - one query, batch by batch: trigger, ends, plan, read, run, sinks,
 * commit, recover. The only room that knows this order. It reaches the job through
 * struct mt_job, so it is built and tested without Lua. */
#ifndef MT_ENGINE_H
#define MT_ENGINE_H

#include "batch/batch.h"
#include "sink/sink.h"
#include "trigger/trigger.h"

struct mt_source;
struct mt_state;
struct mt_calls;

/* Rows through one step of the job: in + made = out + filtered + malformed. What came in is all
 * that went out of where it takes them from. */
struct mt_step_count {
    const char *name; /* "fromJson", "filter", ...; borrowed for the run */
    int64_t in, out, filtered, malformed, made;
    int64_t nulled;  /* of out: malformed records that were kept, with nulls */
    int32_t from[2]; /* n: of step n, the first is 1; -n: of source n; 0: none (the second) */
};

/* One batch as the job sees it. */
struct mt_run {
    int64_t batch_id;
    int64_t time_us;         /* batch.time: recorded in the plan, same on a replay */
    int64_t seed;            /* of math.random, from the plan */
    struct mt_batch *inputs; /* one a source, in declaration order; the engine's */
    int64_t n_inputs;
    struct mt_batch output;      /* the job sets it: rows for the declared sink */
    struct mt_step_count *steps; /* the job fills it; room for max_steps. Of a foreachBatch: those
                                    before its function */
    int64_t n_steps, max_steps;
    const char *offsets;    /* JSON: [{"source":…,"start":…,"end":…}] */
    struct mt_calls *calls; /* of a foreachBatch: its saves, for mt_run_save; else NULL */
    struct mt_state *state; /* of a foreachBatch: as of the last commit, and this batch's changes */
};

/* One save() of a foreachBatch, from begin to commit; a leaf call. Rows are borrowed, their
 * schema too. OK: *stored says what the destination holds, which on a replay it held already.
 * REJECT with nothing stored is the script's to handle; any other failure dooms the batch: every
 * later save answers it again, and the batch fails whatever the script makes of it. */
enum mt_status mt_run_save(struct mt_run *run, const struct mt_sink_settings *settings,
                           const struct mt_batch *rows, struct mt_sink_record *stored,
                           struct mt_error *err) MT_NODISCARD;

#ifndef MT_CDEF
/* What a secret is today, whose name alone a record has kept. */
struct mt_secrets {
    void *self;
    /* *value is the caller's to free. */
    enum mt_status (*get)(void *self, const char *name, char **value, struct mt_error *err);
};

struct mt_job {
    void *self;
    /* Runs the script's steps once over run->inputs and sets run->output. REJECT or FATAL:
     * the batch stays uncommitted. Everything it allocates it frees, but output. */
    enum mt_status (*run)(void *self, struct mt_run *run, struct mt_error *err);
    /* Retry is a restart in small: a fresh script state before the batch is run again. */
    enum mt_status (*reset)(void *self, struct mt_error *err);
    /* Until the next reset batches run under the script of this bundle, and not today's: a sink
     * holds a part of the batch that it made. */
    enum mt_status (*replay)(void *self, const char *bundle, size_t len, struct mt_error *err);
};

struct mt_query_settings {
    const char *name;       /* or NULL */
    const char *checkpoint; /* absolute directory */
    bool temporary;         /* the checkpoint goes when the query is closed */
    struct mt_trigger trigger;
    struct mt_source **sources; /* taken */
    int64_t n_sources;
    struct mt_sink *sink; /* taken; NULL: the job calls mt_run_save itself (foreachBatch) */
    struct mt_job job;
    struct mt_secrets secrets; /* asked while the job does not run */
    const char *bundle_hash;   /* 64 hex digits */
    const char *bundle;        /* JSON text of files and conf */
    const char *time_zone;     /* "UTC" */
    const char *start_options; /* JSON of the starting options, to compare on a restart */
    /* JSON of what may not change, or not unsaid, between restarts: {"sources":[{"name":…,
     * "format":…,"options":{…}}],"sink":{"identity":…,"columns":"DDL","partitionBy":[…]}|
     * {"identity":"foreachBatch"}}. NULL: what sources and sink say of themselves. */
    const char *shape;
    bool finish_with_new_script; /* the user's word: today's script ends a batch that some sinks
                                    hold */
    int64_t accept_replay;  /* the user's word for this batch: what sinks hold of it stands; -1 */
    enum mt_sink_said said; /* the user's word on whether sinks hold batch said_batch */
    int64_t said_batch;
    int64_t max_steps;   /* steps in the job */
    int64_t max_batches; /* 0: no limit */
    /* Where sinks that show rows to people put them; NULL: standard output. */
    void (*print)(void *ctx, const char *text);
    /* After each batch: a StreamingQueryProgress as one line of JSON, and a short line for people.
     * NULL: nobody wants it, and it is not made. */
    void (*on_progress)(void *ctx, const char *json);
    void (*on_line)(void *ctx, const char *line);
    void *ctx;
};

struct mt_query;

enum mt_turn { MT_TURN_AGAIN, MT_TURN_WAIT, MT_TURN_ENDED };

/* Opens the checkpoint and recovers. Takes sources and sink, on failure too. */
enum mt_status mt_query_open(const struct mt_query_settings *settings, struct mt_query **out,
                             struct mt_error *err) MT_NODISCARD;
/* One step; never sleeps, but for the second or so that a source may wait for an answer.
 * AGAIN: call at once. WAIT: when wake_fd is readable or at *at_ms. FATAL: the query is over, the
 * batch uncommitted; close it. */
enum mt_status mt_query_step(struct mt_query *query, int64_t now_ms, enum mt_turn *turn,
                             int64_t *at_ms, struct mt_error *err) MT_NODISCARD;
/* What became of a reload. */
enum mt_reload {
    MT_RELOAD_TAKEN, /* sources and sink are taken, the old ones freed; the old job may be closed */
    MT_RELOAD_NOT_NOW, /* a batch is under way; nothing was taken */
    MT_RELOAD_AWAY,    /* the new sink cannot be reached, err says why; nothing was taken */
    MT_RELOAD_REFUSED, /* by the rules for restarts; theirs are freed, the query goes on as before
                        */
    MT_RELOAD_FAILED,  /* taken, and the query is over */
};
/* Today's job becomes that of other settings (source, sink and job; the checkpoint stays), between
 * a commit and the next plan, or for a batch that waits: for its source, or to be retried. */
enum mt_reload mt_query_reload(struct mt_query *query, const struct mt_query_settings *settings,
                               struct mt_error *err) MT_NODISCARD;
/* From now on every batch reads up to what the origin has (whatever the trigger says), until
 * mt_query_drained: nothing was left to read. For processAllAvailable. */
void mt_query_drain(struct mt_query *query);
bool mt_query_drained(const struct mt_query *query);
const char *mt_query_id(const struct mt_query *query);     /* of the checkpoint */
const char *mt_query_run_id(const struct mt_query *query); /* of this start */
/* Finish the running batch, start no other. A batch that is only waiting to be filled
 * or retried is left as it is. Any thread. */
void mt_query_stop(struct mt_query *query);
/* The source's, when it can end the wait that the last step told; -1: only the clock can. */
int mt_query_wake_fd(const struct mt_query *query);
/* Spark's status messages: "Waiting for data to arrive", ... borrowed, changes with step. */
const char *mt_query_status(const struct mt_query *query);
/* Calls fn for the sinks that a foreachBatch saved to of late. */
void mt_query_each_saved(const struct mt_query *query,
                         void (*fn)(void *ctx, const struct mt_sink *sink), void *ctx);
void mt_query_close(struct mt_query *query);

/* What a checkpoint says, as JSON for `ckpt show` (spec: docs/guide.md); caller frees. secrets: to
 * ask destinations what they hold. */
enum mt_status mt_checkpoint_show(const char *dir, const struct mt_secrets *secrets, char **json,
                                  struct mt_error *err) MT_NODISCARD;
#endif
#endif
