/* SPDX-License-Identifier: Apache-2.0
 *
 * engine_ends.c - how far the next batch goes, or that there is none yet: every source is asked,
 * and the answers stay until all have come. */
#include "engine/engine_int.h"

enum { IDLE_MS = 1000, POLL_MS = 10 };

static enum mt_reach reach_of(const struct mt_query *query)
{
    const struct mt_trigger *trigger = &query->trigger;
    switch (trigger->kind) {
    case MT_TRIGGER_AVAILABLE_NOW:
        return MT_REACH_TARGET;
    case MT_TRIGGER_ONCE:
        return MT_REACH_ALL;
    case MT_TRIGGER_PROCESSING:
        if (trigger->interval_ms >= 1000)
            return MT_REACH_LATEST;
        break;
    case MT_TRIGGER_DEFAULT:
        break;
    }
    return query->draining ? MT_REACH_LATEST : MT_REACH_ARRIVED;
}

void query_forget_ends(struct mt_query *query)
{
    for (int64_t i = 0; i < query->n_sources; i++)
        mt_ends_clear(&query->ends[i]);
}

/* Nothing new anywhere: no batch, its id is not used up. */
static enum mt_status stay_idle(struct mt_query *query, int64_t now_ms, int64_t *at_ms)
{
    query_forget_ends(query);
    query->phase = PHASE_TRIGGER;
    query->drained |= query->draining;
    query->draining = false;
    if (query->reached) {
        query->trigger_state.drained = true;
        return MT_OK;
    }
    query_say(query, "Waiting for data to arrive");
    if (query->trigger.kind == MT_TRIGGER_PROCESSING && query->trigger.interval_ms > 0)
        return MT_OK; /* the grid says when */
    query->source_wakes = true;
    *at_ms = now_ms + (mt_query_wake_fd(query) >= 0 ? IDLE_MS : POLL_MS);
    return MT_RETRY;
}

/* Asks every source that has not told yet how far it could go: one that has is not asked
 * again while another is away, so that they need not all be there in one turn. */
static enum mt_status ask_ends(struct mt_query *query, int64_t now_ms, int64_t *at_ms,
                               struct mt_error *err)
{
    for (int64_t i = 0; i < query->n_sources; i++) {
        struct mt_source *source = query->sources[i];
        struct mt_ends *ends = &query->ends[i];
        if (ends->end)
            continue;
        enum mt_status status = source->type->available(source, query->positions[i],
                                                        reach_of(query), now_ms, ends, err);
        if (status == MT_OK)
            continue;
        mt_ends_clear(ends);
        return status == MT_RETRY ? query_ask_again(query, source, "Getting offsets", at_ms)
                                  : status;
    }
    return MT_OK;
}

/* The batch that these ends make, but for its id. */
static void draw_spans(struct mt_query *query)
{
    struct plan *plan = &query->plan;
    plan->n_spans = query->n_sources;
    plan->spans = mt_alloc((size_t)query->n_sources * sizeof *plan->spans);
    for (int64_t i = 0; i < query->n_sources; i++) {
        struct mt_ends *ends = &query->ends[i];
        plan->spans[i] =
            (struct span){mt_strdup(query->positions[i]), ends->end, ends->latest, ends->facts};
        *ends = (struct mt_ends){0};
    }
}

enum mt_status query_ends(struct mt_query *query, int64_t now_ms, int64_t *at_ms,
                          struct mt_error *err)
{
    if (atomic_load(&query->stop)) {
        query->phase = PHASE_ENDED;
        return MT_OK;
    }
    enum mt_status status = ask_ends(query, now_ms, at_ms, err);
    if (status != MT_OK)
        return status;
    bool nothing = true, more = false, reached = true;
    for (int64_t i = 0; i < query->n_sources; i++) {
        nothing &= query->ends[i].nothing;
        more |= query->ends[i].more;
        reached &= query->ends[i].reached;
    }
    query->reached = reached;
    query->trigger_state.more = more;
    if (nothing)
        return stay_idle(query, now_ms, at_ms);
    draw_spans(query);
    query->phase = PHASE_PLAN;
    return MT_OK;
}
