/* SPDX-License-Identifier: Apache-2.0
 *
 * engine_query.c - the order of a batch, as a machine that is stepped.
 *
 *   open -> recover -> trigger -> ends -> plan -> read -> run -> sink -> commit
 *              |          ^                        |                       |
 *              |          '------------------------|-----------------------'
 *              '- a plan without commit -> adopt --^
 *
 * The plan is durable before any function or sink sees a row, the commit only after
 * the sink said OK; a crash between them is settled by asking the sink (recover).
 * The machine never sleeps: a phase that must wait returns RETRY and its caller
 * learns until when. So tests step it with a clock of their own, and one thread can
 * drive it beside Kafka's wake-ups and a stop. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine_int.h"

enum { FIRST_RETRY_MS = 200, LAST_RETRY_MS = 30000, POLL_MS = 10 };

void query_say(struct mt_query *query, const char *text)
{
    snprintf(query->status, sizeof query->status, "%s", text);
}

/* Spends the time since *mark on *counter. */
static void spend(int64_t *counter, int64_t *mark)
{
    int64_t now = mt_clock_mono_us();
    *counter += now - *mark;
    *mark = now;
}

enum mt_status query_ask_again(struct mt_query *query, const struct mt_source *source,
                               const char *doing, int64_t *at_ms)
{
    query_say(query, source->state[0] ? source->state : doing);
    query->source_wakes = true;
    *at_ms = source->again_ms;
    return MT_RETRY;
}

/* A destination that is away: said once a try, the waits grow. */
static void back_off(struct mt_query *query, int64_t now_ms, int64_t *at_ms,
                     const struct mt_error *err)
{
    int64_t wait = query->retry_ms ? query->retry_ms : FIRST_RETRY_MS;
    query->retry_ms = wait * 2 < LAST_RETRY_MS ? wait * 2 : LAST_RETRY_MS;
    mt_log(MT_WARN, "%s; trying again in %lld ms", err->text, (long long)wait);
    snprintf(query->status, sizeof query->status, "Waiting to try again: %.250s", err->text);
    *at_ms = now_ms + wait;
}

/* ---- phases: each moves query->phase on, or answers RETRY */

static enum mt_status phase_open(struct mt_query *query, int64_t now_ms, int64_t *at_ms,
                                 struct mt_error *err)
{
    query_say(query, "Initializing sources");
    if (query->sink && !query->sink_recovered) {
        enum mt_status status =
            query->sink->type->recover(query->sink, mt_store_query_id(query->store), err);
        if (status == MT_RETRY)
            back_off(query, now_ms, at_ms, err);
        if (status != MT_OK)
            return status;
        query->sink_recovered = true;
        query->retry_ms = 0;
    }
    if (!query->saves_settled) {
        enum mt_status status = calls_settle(query, err);
        if (status == MT_RETRY)
            back_off(query, now_ms, at_ms, err);
        if (status != MT_OK)
            return status;
        query->saves_settled = true;
        query->retry_ms = 0;
    }
    struct mt_source *away = NULL;
    enum mt_status status = recover_positions(query, now_ms, &away, err);
    if (status == MT_RETRY)
        return query_ask_again(query, away, "Initializing sources", at_ms);
    if (status != MT_OK)
        return status;
    query->phase = query->plan.id >= 0 ? PHASE_RECOVER : PHASE_TRIGGER;
    return MT_OK;
}

static enum mt_status phase_recover(struct mt_query *query, int64_t now_ms, int64_t *at_ms,
                                    struct mt_error *err)
{
    bool holds = false;
    if (query->timing.began == 0) { /* a start, not a retry within this run */
        query->reached = query->trigger.kind == MT_TRIGGER_ONCE; /* as Spark: this one alone */
        query->trigger_ms = now_ms;
        query->timing.began = mt_clock_mono_us();
    }
    enum mt_status status = recover_batch(query, &holds, err);
    if (status == MT_RETRY)
        back_off(query, now_ms, at_ms, err);
    if (status != MT_OK)
        return status;
    if (holds)
        query->phase = PHASE_COMMIT;
    else
        query->phase = query->plan.unheld ? PHASE_ADOPT : PHASE_READ;
    return MT_OK;
}

/* In a turn of its own: a reload that waits for the sink's answer comes before it. */
static enum mt_status phase_adopt(struct mt_query *query, struct mt_error *err)
{
    query->phase = PHASE_READ;
    return recover_adopt(query, err);
}

static bool run_is_over(const struct mt_query *query)
{
    return atomic_load(&query->stop) ||
           (query->max_batches > 0 && query->done_batches >= query->max_batches);
}

/* A run that ended without a word would look like one that failed. */
static void say_if_idle(const struct mt_query *query)
{
    if (query->done_batches == 0 && query->committed >= 0)
        mt_log(MT_INFO, "nothing new to read since batch %lld", (long long)query->committed);
    else if (query->done_batches == 0)
        mt_log(MT_INFO, "nothing to read yet");
}

static enum mt_status phase_trigger(struct mt_query *query, int64_t now_ms, int64_t *at_ms)
{
    if (run_is_over(query)) {
        query->phase = PHASE_ENDED;
        return MT_OK;
    }
    switch (mt_trigger_ask(&query->trigger, &query->trigger_state, now_ms, at_ms)) {
    case MT_TRIGGER_END:
        say_if_idle(query);
        query->phase = PHASE_ENDED;
        return MT_OK;
    case MT_TRIGGER_WAIT:
        if (query->draining)
            break;
        query_say(query, "Waiting for next trigger");
        return MT_RETRY;
    case MT_TRIGGER_FIRE:
        break;
    }
    mt_trigger_started(&query->trigger, &query->trigger_state, now_ms);
    query->trigger_ms = now_ms;
    query->timing = (struct timing){.began = mt_clock_mono_us()};
    query->phase = PHASE_ENDS;
    return MT_OK;
}

static enum mt_status phase_plan(struct mt_query *query, int64_t now_ms, struct mt_error *err)
{
    struct plan *plan = &query->plan;
    int64_t mark = mt_clock_mono_us();
    query->timing.latest_offset = mark - query->timing.began;
    query->timing.planned = true;
    query_say(query, "Writing offsets to log");
    if (mt_store_ensure_space(query->store, err) != MT_OK)
        return MT_FATAL;
    plan->id = query->committed + 1;
    plan->time_us = now_ms * 1000;
    plan->attempt = 1;
    memcpy(plan->bundle, query->bundle_hash, sizeof plan->bundle);
    snprintf(plan->time_zone, sizeof plan->time_zone, "%s", query->time_zone);
    plan->sink = mt_strdup(sink_identity(query));
    plan->unheld = query->sink != NULL; /* of saves there is a record */
    plan_seal(plan, mt_store_query_id(query->store));
    char *json = plan_to_json(query, false);
    spend(&query->timing.planning, &mark);
    enum mt_status status = recover_keep_shape(query, err);
    mt_step("plan.before", plan->id);
    if (status == MT_OK)
        status = mt_store_plan_put(query->store, plan->id, json, query->bundle_hash, query->bundle,
                                   strlen(query->bundle), err);
    free(json);
    if (status != MT_OK)
        return MT_FATAL;
    mt_step("plan.after", plan->id);
    spend(&query->timing.wal, &mark);
    query->phase = PHASE_READ;
    return MT_OK;
}

static enum mt_status phase_read(struct mt_query *query, int64_t now_ms, int64_t *at_ms,
                                 struct mt_error *err)
{
    int64_t mark = mt_clock_mono_us();
    mt_log_context(query->name, query->plan.id);
    query_say(query, "Processing new data");
    for (int64_t i = 0; i < query->n_sources; i++) {
        struct mt_source *source = query->sources[i];
        struct span *span = &query->plan.spans[i];
        if (query->run.inputs[i].array.release)
            continue; /* came on an earlier turn */
        enum mt_status status = source->type->read(source, span->start, span->end, span->facts,
                                                   now_ms, &query->run.inputs[i], err);
        spend(&query->timing.get, &mark);
        if (status != MT_OK)
            return status == MT_RETRY ? query_ask_again(query, source, "Processing new data", at_ms)
                                      : status;
    }
    mt_step("read.after", query->plan.id);
    query->phase = PHASE_RUN;
    return MT_OK;
}

/* A batch that its sink could not take now is tried again as a restart would: a fresh
 * script, and the sink is asked first. */
static enum mt_status wait_to_retry(struct mt_query *query, int64_t now_ms, int64_t *at_ms,
                                    struct mt_error *err)
{
    back_off(query, now_ms, at_ms, err);
    recover_note_unheld(query);
    mt_batch_release(&query->run.output);
    query->run.n_steps = 0; /* their names go with the script */
    mt_state_discard(mt_store_state(query->store));
    query->phase = PHASE_RECOVER;
    return query->job.reset(query->job.self, err) == MT_OK ? MT_RETRY : MT_FATAL;
}

static enum mt_status phase_run(struct mt_query *query, int64_t now_ms, int64_t *at_ms,
                                struct mt_error *err)
{
    int64_t mark = mt_clock_mono_us();
    struct mt_run *run = &query->run;
    if (!mt_session_zone_use(query->plan.time_zone)) /* a replay keeps the plan's */
        return mt_fail(err, MT_FATAL, MT_CLASS_MACHINE,
                       "it was planned in time zone %s, which this machine does not know; "
                       "install tzdata",
                       query->plan.time_zone);
    run->batch_id = query->plan.id;
    run->time_us = query->plan.time_us;
    run->seed = query->plan.seed;
    run->n_steps = 0;
    run->calls = query->sink ? NULL : &query->calls;
    run->state = query->sink ? NULL : mt_store_state(query->store);
    run->offsets = batch_offsets(query);
    enum mt_status status = query->job.run(query->job.self, run, err);
    if (!query->sink)
        status = calls_finish(&query->calls, status, err);
    spend(&query->timing.add, &mark);
    if (status == MT_RETRY)
        return wait_to_retry(query, now_ms, at_ms, err);
    if (status == MT_OK)
        status = account_check(query, err);
    if (status != MT_OK)
        return MT_FATAL;
    mt_step("run.after", query->plan.id);
    query->phase = query->sink ? PHASE_SINK : PHASE_COMMIT;
    return MT_OK;
}

static enum mt_status phase_sink(struct mt_query *query, int64_t now_ms, int64_t *at_ms,
                                 struct mt_error *err)
{
    int64_t mark = mt_clock_mono_us();
    enum mt_status status = sink_store(query, err);
    spend(&query->timing.add, &mark);
    if (status == MT_RETRY)
        return wait_to_retry(query, now_ms, at_ms, err);
    if (status != MT_OK)
        return MT_FATAL;
    query->phase = PHASE_COMMIT;
    return MT_OK;
}

static void warn_when_behind(struct mt_query *query)
{
    char text[200];
    int64_t spent_ms = (mt_clock_mono_us() - query->timing.began) / 1000;
    if (mt_trigger_behind(&query->trigger, spent_ms, text, sizeof text))
        mt_log(MT_WARN, "%s", text);
}

/* After the commit: what may fail without undoing it. */
static void after_commit(struct mt_query *query)
{
    for (int64_t i = 0; i < query->n_sources; i++) {
        struct mt_error err = {0};
        free(query->positions[i]);
        query->positions[i] = mt_strdup(query->plan.spans[i].end);
        if (query->sources[i]->type->committed(query->sources[i], query->positions[i], &err) !=
            MT_OK)
            mt_log(MT_WARN, "after commit: %s", err.text);
    }
    progress_send(query);
    warn_when_behind(query);
    if (query->reached)
        query->trigger_state.drained = true;
}

static enum mt_status phase_commit(struct mt_query *query, int64_t now_ms, struct mt_error *err)
{
    int64_t mark = mt_clock_mono_us();
    char *json = commit_to_json(query, now_ms);
    mt_step("commit.before", query->plan.id);
    enum mt_status status = mt_store_commit_put(query->store, query->plan.id, json, err);
    free(json);
    if (status != MT_OK)
        return MT_FATAL;
    mt_step("commit.after", query->plan.id);
    spend(&query->timing.commit, &mark);
    query->committed = query->plan.id;
    query->done_batches++;
    query->retry_ms = 0;
    after_commit(query);
    query_forget_batch(query);
    query->phase = PHASE_TRIGGER;
    if (!query->replaying)
        return MT_OK;
    query->replaying = false;
    return query->job.reset(query->job.self, err); /* back to the script of today */
}

static enum mt_status one_phase(struct mt_query *query, int64_t now_ms, int64_t *at_ms,
                                struct mt_error *err)
{
    switch (query->phase) {
    case PHASE_OPEN:
        return phase_open(query, now_ms, at_ms, err);
    case PHASE_RECOVER:
        return phase_recover(query, now_ms, at_ms, err);
    case PHASE_ADOPT:
        return phase_adopt(query, err);
    case PHASE_TRIGGER:
        return phase_trigger(query, now_ms, at_ms);
    case PHASE_ENDS:
        return query_ends(query, now_ms, at_ms, err);
    case PHASE_PLAN:
        return phase_plan(query, now_ms, err);
    case PHASE_READ:
        return phase_read(query, now_ms, at_ms, err);
    case PHASE_RUN:
        return phase_run(query, now_ms, at_ms, err);
    case PHASE_SINK:
        return phase_sink(query, now_ms, at_ms, err);
    case PHASE_COMMIT:
        return phase_commit(query, now_ms, err);
    case PHASE_ENDED:
        break;
    }
    return MT_OK;
}

/* ---- the face */

enum mt_status mt_query_step(struct mt_query *query, int64_t now_ms, enum mt_turn *turn,
                             int64_t *at_ms, struct mt_error *err)
{
    *at_ms = 0;
    query->source_wakes = false;
    mt_log_context(query->name, query->plan.id);
    enum mt_status status = one_phase(query, now_ms, at_ms, err);
    *turn = query->phase == PHASE_ENDED ? MT_TURN_ENDED : MT_TURN_AGAIN;
    if (status == MT_OK)
        return MT_OK;
    if (status != MT_RETRY || atomic_load(&query->stop))
        recover_note_unheld(query);
    if (status != MT_RETRY) {
        if (query->plan.id >= 0)
            mt_fail_within(err, status, "batch %lld: ", (long long)query->plan.id);
        snprintf(query->status, sizeof query->status, "Terminated with exception: %.250s",
                 err->text);
        query->phase = PHASE_ENDED;
        *turn = MT_TURN_ENDED;
        return MT_FATAL;
    }
    if (atomic_load(&query->stop)) { /* a wait ends at once, the batch uncommitted */
        query->phase = PHASE_ENDED;
        *turn = MT_TURN_ENDED;
        return MT_OK;
    }
    *turn = MT_TURN_WAIT;
    if (*at_ms <= now_ms)
        *at_ms = now_ms + POLL_MS;
    return MT_OK;
}
