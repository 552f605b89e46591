/* SPDX-License-Identifier: Apache-2.0
 *
 * engine_int.h - what the engine's files share: the query, the batch in hand, and
 * the records of a batch. */
#ifndef MT_ENGINE_INT_H
#define MT_ENGINE_INT_H

#include <jansson.h>
#include <stdatomic.h>

#include "base/step.h"
#include "engine/engine.h"
#include "sink/sink.h"
#include "source/source.h"
#include "store/store.h"

/* One source's part of a batch. Strings are owned. */
struct span {
    char *start, *end; /* positions */
    char *latest;      /* what the origin had when asked, or NULL */
    char *facts;       /* JSON object, or NULL */
};

/* A batch from its plan to its commit. */
struct plan {
    int64_t id; /* -1: none in hand */
    int64_t time_us;
    int64_t seed;    /* 0 <= seed < 2^53, from the digest */
    int64_t attempt; /* 1 for the first */
    char digest[65];
    char bundle[65];
    char time_zone[64];
    char *sink;         /* identity of the sink that was to store it last */
    bool unheld;        /* that one was not asked to commit it, or said that it does not hold it */
    bool told;          /* that a reload waits for its answer */
    struct span *spans; /* one a source */
    int64_t n_spans;
};

/* One sink's part of a batch: what it was given and says it holds. */
struct call {
    char *identity;
    char *base;               /* identity without the ordinal; of a save that is done */
    char *settings, *columns; /* JSON and DDL, to make the sink again; NULL: the declared one */
    int64_t ordinal, attempt;
    bool memory; /* the sink remembers its batches */
    bool intent; /* its line is not durable yet */
    int64_t rows;
    uint64_t fingerprint; /* of the rows given */
    struct mt_sink_record stored;
    bool held;     /* asked by recovery, it said that it holds the batch */
    bool doubt;    /* it was asked to commit, and did not say that nothing is stored */
    bool done;     /* in this attempt */
    bool replayed; /* and it was there already */
};

/* What a save is compared with. */
enum calls_mode {
    CALLS_NEW,    /* nothing: no sink holds the batch */
    CALLS_REPLAY, /* the record, line by line */
    CALLS_ACCEPT, /* nothing, by the user's word; what is held stands */
};

/* The sinks of the batch in hand, in the order of its saves. */
struct mt_calls {
    struct mt_query *query;
    struct call *items;
    int64_t n;
    enum calls_mode mode;
    int64_t next; /* line of the record that the next save is */
    enum mt_status doomed;
    struct mt_error doom;
};

#define FOREACH_BATCH "foreachBatch" /* in place of a sink's identity */

struct outlet;

/* Where the time of a batch went, microseconds of the monotonic clock. */
struct timing {
    int64_t began, latest_offset, planning, wal, get, add, commit;
    bool planned; /* in this run: a batch that runs again was planned before */
};

/* What is known of the batch before, for rates. */
struct pace {
    int64_t last_trigger_ms; /* 0: none in this run */
};

enum phase {
    PHASE_OPEN,    /* sink recovers, start positions become durable */
    PHASE_RECOVER, /* a plan without commit: does the sink hold it? */
    PHASE_ADOPT,   /* no: today's script takes it over, durably */
    PHASE_TRIGGER, /* when does the next batch start? */
    PHASE_ENDS,    /* how far could it go? */
    PHASE_PLAN,    /* write it down */
    PHASE_READ,
    PHASE_RUN,
    PHASE_SINK,
    PHASE_COMMIT,
    PHASE_ENDED,
};

struct mt_query {
    char *name; /* or NULL */
    char *checkpoint;
    bool temporary;
    struct mt_trigger trigger;
    struct mt_trigger_state trigger_state;
    struct mt_source **sources;
    int64_t n_sources;
    struct mt_sink *sink; /* NULL: foreachBatch */
    struct mt_job job;
    struct mt_secrets secrets;
    bool replaying; /* the job runs the script that began the batch in hand */
    bool finish_with_new_script;
    int64_t accept_replay;
    enum mt_sink_said said; /* of batch said_batch */
    int64_t said_batch;
    char bundle_hash[65];
    char *bundle;
    char *time_zone;
    char *start_options;
    char *shape;     /* what may not change unsaid; JSON */
    bool shape_kept; /* in the checkpoint */
    int64_t max_batches, done_batches;
    void (*on_progress)(void *, const char *);
    void (*on_line)(void *, const char *);
    void (*print)(void *, const char *);
    void *ctx;

    struct mt_store *store;
    char run_id[37];
    enum phase phase;
    atomic_bool stop;
    bool draining, drained;
    int watch_fd;         /* epoll over the sources' wake_fds, of several; -1: none */
    char told_bundle[65]; /* the script that the progress line named last */
    char **positions;     /* one a source: where the next batch starts */
    struct mt_ends *ends; /* one a source: its answer for the next batch; end NULL: none yet */
    int64_t committed;    /* id of the last commit, -1: none */
    bool sink_recovered, saves_settled;
    int64_t retry_ms;   /* wait before the batch is tried again; grows */
    int64_t trigger_ms; /* when the batch in hand was triggered */
    bool reached;       /* its ends are the run's target */
    struct plan plan;
    struct mt_run run; /* inputs and output of the batch in hand */
    char *offsets;     /* of the batch in hand, once asked for */
    struct mt_calls calls;
    struct outlet **outlets; /* sinks of saves */
    int64_t n_outlets;
    bool source_wakes; /* a source can end the wait that the last step told */
    struct timing timing;
    struct pace pace;
    char status[320];
};

/* ---- engine_plan.c: records as JSON */
void plan_clear(struct plan *plan);
/* Digest and seed from query id, batch id, spans and batch time. */
void plan_seal(struct plan *plan, const char *query_id);
/* unheld: so that the record says that no sink can hold the batch. */
char *plan_to_json(const struct mt_query *query, bool unheld);
enum mt_status plan_from_json(const char *text, int64_t n_sources, struct plan *plan,
                              struct mt_error *err) MT_NODISCARD;
char *commit_to_json(const struct mt_query *query, int64_t now_ms);
/* [{"source":"orders","start":{…},"end":{…}}] of the batch in hand. */
const char *batch_offsets(struct mt_query *query);
/* The declared sink's identity, or "foreachBatch". */
const char *sink_identity(const struct mt_query *query);

/* ---- engine_sink.c */
/* Does this sink hold the planned batch? begin, then abort; sets call->held. */
enum mt_status sink_ask(struct mt_query *query, struct mt_sink *sink, struct call *call,
                        struct mt_error *err) MT_NODISCARD;
/* begin, write, intent, commit; checks given = stored. */
enum mt_status sink_deliver(struct mt_query *query, struct mt_sink *sink,
                            const struct mt_batch *rows, struct call *call,
                            struct mt_error *err) MT_NODISCARD;
/* The same for the declared sink. */
enum mt_status sink_ask_declared(struct mt_query *query, bool *holds,
                                 struct mt_error *err) MT_NODISCARD;
enum mt_status sink_store(struct mt_query *query, struct mt_error *err) MT_NODISCARD;

/* ---- engine_calls.c */
void calls_clear(struct mt_calls *calls);
struct call *calls_push(struct mt_calls *calls); /* moves the others */
void calls_pop(struct mt_calls *calls);
void calls_drop_unheld(struct mt_calls *calls);
int64_t calls_stored_rows(const struct mt_calls *calls);
bool calls_all_replayed(const struct mt_calls *calls);
/* Adds "parquet /a holds it (3 rows), parquet /b does not". */
void calls_tell(const struct mt_calls *calls, struct mt_buf *text);
/* The record calls[N] of batch `id`, nothing when there is none; its mode is set. */
enum mt_status calls_read(struct mt_calls *calls, int64_t id, struct mt_error *err) MT_NODISCARD;
enum mt_status calls_from_json(const char *text, struct mt_calls *calls,
                               struct mt_error *err) MT_NODISCARD;
/* That of the batch in hand, durable on return. */
enum mt_status calls_write(struct mt_calls *calls, struct mt_error *err) MT_NODISCARD;
json_t *calls_account(const struct mt_calls *calls);

/* ---- engine_outlet.c */
/* A sink of saves, from batch to batch. */
struct outlet {
    char *settings, *columns; /* what it was made of; with the ordinal its key */
    char *secrets;            /* values that settings have the names of */
    int64_t ordinal;
    char *base; /* identity without the ordinal */
    struct ArrowSchema schema;
    struct mt_sink *sink;
    bool recovered, used; /* used: in this batch */
};

/* The sink of these settings for this how-manieth call, made if there is none. */
enum mt_status outlet_of(struct mt_query *query, const struct mt_sink_settings *settings,
                         const struct ArrowSchema *schema, int64_t ordinal, struct outlet **out,
                         struct mt_error *err) MT_NODISCARD;
/* The sink of a line of a record. */
enum mt_status outlet_of_line(struct mt_query *query, const struct call *call, struct outlet **out,
                              struct mt_error *err) MT_NODISCARD;
/* Once a sink. */
enum mt_status outlet_recover(struct mt_query *query, struct outlet *outlet,
                              struct mt_error *err) MT_NODISCARD;
/* What the sink of a line says of itself, its marker too. */
json_t *call_describe(const struct call *call, const char *query_id,
                      const struct mt_secrets *secrets);
void outlets_rest(struct mt_query *query); /* after a batch */
void outlets_free(struct mt_query *query);
void sink_prints_to(struct mt_sink *sink, const struct mt_query *query);

/* ---- engine_save.c */
/* Asks every sink of the record whether it holds the batch. */
enum mt_status calls_ask(struct mt_calls *calls, int64_t *held, struct mt_error *err) MT_NODISCARD;
/* At a start: what a killed run left at the sinks of the last commit, also where the script saves
 * no more. RETRY: one is away. Where it can never be settled a warning is all. */
enum mt_status calls_settle(struct mt_query *query, struct mt_error *err) MT_NODISCARD;
/* After the script, which ended with status: what becomes of the batch. */
enum mt_status calls_finish(struct mt_calls *calls, enum mt_status status,
                            struct mt_error *err) MT_NODISCARD;
/* FATAL: words, then which sinks hold what and the ways out. */
enum mt_status calls_refuse(const struct mt_calls *calls, struct mt_error *err, const char *words);
/* ---- engine_account.c */
/* FATAL with the account printed when steps do not add up. */
enum mt_status account_check(const struct mt_query *query, struct mt_error *err) MT_NODISCARD;

/* ---- engine_recover.c */
enum mt_status recover_open(struct mt_query *query, struct mt_error *err) MT_NODISCARD;
/* RETRY: *away is the source that wants to be asked again. */
enum mt_status recover_positions(struct mt_query *query, int64_t now_ms, struct mt_source **away,
                                 struct mt_error *err) MT_NODISCARD;
enum mt_status recover_batch(struct mt_query *query, bool *holds,
                             struct mt_error *err) MT_NODISCARD;
/* Today's script takes the batch over: durable before it runs. */
enum mt_status recover_adopt(struct mt_query *query, struct mt_error *err) MT_NODISCARD;
/* When an attempt at the batch in hand is over: that no sink can hold it becomes durable, if that
 * is so, and with it that the job may have another sink. */
void recover_note_unheld(struct mt_query *query);

/* Before a plan: what the next start or reload is compared with. */
enum mt_status recover_keep_shape(struct mt_query *query, struct mt_error *err) MT_NODISCARD;
/* One plan of the checkpoint. */
enum mt_status recover_plan(struct mt_query *query, int64_t id, struct plan *plan,
                            struct mt_error *err) MT_NODISCARD;
/* Warns when starting options are not those of the first start. */
enum mt_status recover_options(struct mt_query *query, bool fresh,
                               struct mt_error *err) MT_NODISCARD;
/* Whether the batch in hand was given to another sink than `now`, which may hold it. */
bool recover_is_elsewhere(const struct mt_query *query, const char *now);

/* ---- engine_shape.c */
/* REJECT with the way out: a restart does not go on with that. */
enum mt_status shape_refuse(const char *before, const char *now, struct mt_error *err) MT_NODISCARD;
/* Tells what changes with batch, the first under the new one, and is allowed. */
void shape_tell(const char *before, const char *now, int64_t batch);
/* The settings' own, or one of what their sources and sink are; caller frees. */
char *shape_of(const struct mt_query_settings *settings);
/* A topic that is subscribed to no more, though its source must not lose data; or NULL. */
char *shape_topic_gone(const char *before, const char *now);
bool shape_same_source(const char *before, const char *now, int64_t i);

/* ---- engine_query.c */
void query_say(struct mt_query *query, const char *text);
/* A source that has to be asked again: when, and what it waits for, else `doing`. */
enum mt_status query_ask_again(struct mt_query *query, const struct mt_source *source,
                               const char *doing, int64_t *at_ms) MT_NODISCARD;

/* ---- engine_ends.c */
/* The phase of that name. */
enum mt_status query_ends(struct mt_query *query, int64_t now_ms, int64_t *at_ms,
                          struct mt_error *err) MT_NODISCARD;
void query_forget_ends(struct mt_query *query);

/* ---- engine_open.c */
void query_forget_batch(struct mt_query *query);
/* What a reload replaces; frees what was there but for sources and sink. Takes shape. */
void query_take_job(struct mt_query *query, const struct mt_query_settings *settings, char *shape);
/* Watches the wake_fds of the sources there are now. */
enum mt_status query_watch_sources(struct mt_query *query, struct mt_error *err) MT_NODISCARD;

/* ---- engine_progress.c */
void progress_send(struct mt_query *query);

#endif
