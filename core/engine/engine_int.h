/* SPDX-License-Identifier: Apache-2.0
 *
 * engine_int.h - what the engine's files share: the query, the batch in hand, and
 * the records of a batch. */
#ifndef MT_ENGINE_INT_H
#define MT_ENGINE_INT_H

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
    char *sink;         /* identity of the sink it was planned for; NULL until read back */
    struct span *spans; /* one a source */
    int64_t n_spans;
};

/* Where the time of a batch went, microseconds of the monotonic clock. */
struct timing {
    int64_t began, latest_offset, planning, wal, get, add, commit;
};

/* What is known of the batch before, for rates. */
struct pace {
    int64_t last_trigger_ms; /* 0: none in this run */
};

enum phase {
    PHASE_OPEN,    /* sink recovers, start positions become durable */
    PHASE_RECOVER, /* a plan without commit: does the sink hold it? */
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
    struct mt_sink *sink;
    struct mt_job job;
    char bundle_hash[65];
    char *bundle;
    char *time_zone;
    char *start_options;
    int64_t max_batches, done_batches;
    void (*on_progress)(void *, const char *, const char *);
    void *ctx;

    struct mt_store *store;
    char run_id[37];
    enum phase phase;
    atomic_bool stop;
    char **positions;     /* one a source: where the next batch starts */
    struct mt_ends *ends; /* one a source: its answer for the next batch; end NULL: none yet */
    int64_t committed;    /* id of the last commit, -1: none */
    bool sink_recovered;
    int64_t retry_ms;   /* wait before the batch is tried again; grows */
    int64_t trigger_ms; /* when the batch in hand was triggered */
    bool reached;       /* its ends are the run's target */
    struct plan plan;
    struct mt_run run; /* inputs and output of the batch in hand */
    struct mt_sink_record stored;
    bool replayed;     /* the sink held it already */
    bool source_wakes; /* a source can end the wait that the last step told */
    struct timing timing;
    struct pace pace;
    char status[320];
};

/* ---- engine_plan.c: records as JSON */
void plan_clear(struct plan *plan);
/* Digest and seed from query id, batch id, spans and batch time. */
void plan_seal(struct plan *plan, const char *query_id);
char *plan_to_json(const struct mt_query *query);
enum mt_status plan_from_json(const char *text, int64_t n_sources, struct plan *plan,
                              struct mt_error *err) MT_NODISCARD;
char *commit_to_json(const struct mt_query *query, int64_t now_ms);
/* [{"source":"orders","start":{…},"end":{…}}], caller frees. */
char *plan_offsets(const struct mt_query *query);

/* ---- engine_sink.c */
/* Does the sink hold the planned batch? begin, then abort. */
enum mt_status sink_ask(struct mt_query *query, bool *holds, struct mt_error *err) MT_NODISCARD;
/* begin, write, commit of the batch's output; checks given = stored. */
enum mt_status sink_store(struct mt_query *query, struct mt_error *err) MT_NODISCARD;

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

/* ---- engine_progress.c */
void progress_send(struct mt_query *query);

#endif
