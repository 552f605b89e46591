/* SPDX-License-Identifier: Apache-2.0
 *
 * engine_query.c - the order of a batch, as a machine that is stepped.
 *
 *   open -> recover -> trigger -> ends -> plan -> read -> run -> sink -> commit
 *              |          ^                  |                             |
 *              |          '------------------|-----------------------------'
 *              '- a plan without commit -----^
 *
 * The plan is durable before any function or sink sees a row, the commit only after
 * the sink said OK; a crash between them is settled by asking the sink (recover).
 * The machine never sleeps: a phase that must wait returns RETRY and its caller
 * learns until when. So tests step it with a clock of their own, and one thread can
 * drive it beside Kafka's wake-ups and a stop. */
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "engine/engine_int.h"

enum { FIRST_RETRY_MS = 200, LAST_RETRY_MS = 30000, IDLE_MS = 1000, POLL_MS = 10 };

static void say(struct mt_query *query, const char *text)
{
    snprintf(query->status, sizeof query->status, "%s", text);
}

static void forget_batch(struct mt_query *query)
{
    for (int64_t i = 0; i < query->n_sources; i++)
        mt_batch_release(&query->run.inputs[i]);
    mt_batch_release(&query->run.output);
    query->run.n_steps = 0;
    plan_clear(&query->plan);
    calls_clear(&query->calls);
    outlets_rest(query);
    free(query->offsets);
    query->offsets = NULL;
}

/* Spends the time since *mark on *counter. */
static void spend(int64_t *counter, int64_t *mark)
{
    int64_t now = mt_clock_mono_us();
    *counter += now - *mark;
    *mark = now;
}

/* A source that has to be asked again: when, and what it waits for, else `doing`. */
static enum mt_status ask_again(struct mt_query *query, const struct mt_source *source,
                                const char *doing, int64_t *at_ms)
{
    say(query, source->state[0] ? source->state : doing);
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
    say(query, "Initializing sources");
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
        return ask_again(query, away, "Initializing sources", at_ms);
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
        say(query, "Waiting for next trigger");
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
    say(query, "Waiting for data to arrive");
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
        return status == MT_RETRY ? ask_again(query, source, "Getting offsets", at_ms) : status;
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

static enum mt_status phase_ends(struct mt_query *query, int64_t now_ms, int64_t *at_ms,
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

static enum mt_status phase_plan(struct mt_query *query, int64_t now_ms, struct mt_error *err)
{
    struct plan *plan = &query->plan;
    int64_t mark = mt_clock_mono_us();
    query->timing.latest_offset = mark - query->timing.began;
    query->timing.planned = true;
    say(query, "Writing offsets to log");
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
    say(query, "Processing new data");
    for (int64_t i = 0; i < query->n_sources; i++) {
        struct mt_source *source = query->sources[i];
        struct span *span = &query->plan.spans[i];
        if (query->run.inputs[i].array.release)
            continue; /* came on an earlier turn */
        enum mt_status status = source->type->read(source, span->start, span->end, span->facts,
                                                   now_ms, &query->run.inputs[i], err);
        spend(&query->timing.get, &mark);
        if (status != MT_OK)
            return status == MT_RETRY ? ask_again(query, source, "Processing new data", at_ms)
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
    forget_batch(query);
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
        return phase_ends(query, now_ms, at_ms, err);
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

void mt_query_stop(struct mt_query *query)
{
    atomic_store(&query->stop, true);
}

int mt_query_wake_fd(const struct mt_query *query)
{
    if (!query->source_wakes)
        return -1;
    return query->n_sources == 1 ? query->sources[0]->wake_fd : query->watch_fd;
}

void mt_query_drain(struct mt_query *query)
{
    query->draining = true;
    query->drained = false;
}

bool mt_query_drained(const struct mt_query *query)
{
    return query->drained || query->phase == PHASE_ENDED;
}

const char *mt_query_id(const struct mt_query *query)
{
    return mt_store_query_id(query->store);
}

const char *mt_query_run_id(const struct mt_query *query)
{
    return query->run_id;
}

const char *mt_query_status(const struct mt_query *query)
{
    return query->status;
}

/* Takes a copy in place of what was there. */
static void set(char **text, const char *value)
{
    char *copy = value ? mt_strdup(value) : NULL;
    free(*text);
    *text = copy;
}

void query_take_job(struct mt_query *query, const struct mt_query_settings *settings, char *shape)
{
    set(&query->name, settings->name);
    set(&query->bundle, settings->bundle);
    set(&query->time_zone, settings->time_zone);
    set(&query->start_options, settings->start_options);
    free(query->shape);
    query->shape = shape;
    snprintf(query->bundle_hash, sizeof query->bundle_hash, "%s", settings->bundle_hash);
    query->trigger = settings->trigger;
    query->sink = settings->sink;
    query->job = settings->job;
    query->secrets = settings->secrets;
    query->run.max_steps = settings->max_steps;
    free(query->run.steps);
    query->run.steps = mt_alloc((size_t)(settings->max_steps + 1) * sizeof *query->run.steps);
    if (query->sink)
        sink_prints_to(query->sink, query);
}

static void take_settings(struct mt_query *query, const struct mt_query_settings *settings)
{
    query->checkpoint = mt_strdup(settings->checkpoint);
    query->temporary = settings->temporary;
    query->sources = settings->sources;
    query->n_sources = settings->n_sources;
    query->finish_with_new_script = settings->finish_with_new_script;
    query->accept_replay = settings->accept_replay;
    query->said = settings->said;
    query->said_batch = settings->said_batch;
    query->max_batches = settings->max_batches;
    query->on_progress = settings->on_progress;
    query->on_line = settings->on_line;
    query->print = settings->print;
    query->ctx = settings->ctx;
    query->positions = mt_alloc((size_t)query->n_sources * sizeof *query->positions);
    query->ends = mt_alloc((size_t)query->n_sources * sizeof *query->ends);
    query->run.inputs = mt_alloc((size_t)query->n_sources * sizeof *query->run.inputs);
    query->run.n_inputs = query->n_sources;
    query->calls.query = query;
    query->watch_fd = -1;
    query->plan.id = query->committed = -1;
    mt_uuid(query->run_id);
    query_take_job(query, settings, shape_of(settings));
    memcpy(query->told_bundle, query->bundle_hash, sizeof query->told_bundle);
}

/* One source is waited for by its own wake_fd, several by one that is readable when any of theirs
 * is. One without makes all be looked at by the clock. */
enum mt_status query_watch_sources(struct mt_query *query, struct mt_error *err)
{
    bool all = query->n_sources > 1;
    if (query->watch_fd >= 0)
        close(query->watch_fd);
    query->watch_fd = -1;
    for (int64_t i = 0; i < query->n_sources; i++)
        all &= query->sources[i]->wake_fd >= 0;
    if (!all)
        return MT_OK;
    query->watch_fd = epoll_create1(EPOLL_CLOEXEC);
    int failed = query->watch_fd < 0;
    for (int64_t i = 0; !failed && i < query->n_sources; i++) {
        struct epoll_event event = {.events = EPOLLIN};
        failed = epoll_ctl(query->watch_fd, EPOLL_CTL_ADD, query->sources[i]->wake_fd, &event);
    }
    return failed ? mt_fail(err, MT_FATAL, MT_CLASS_MACHINE, "waiting for several sources: %s",
                            strerror(errno))
                  : MT_OK;
}

enum mt_status mt_query_open(const struct mt_query_settings *settings, struct mt_query **out,
                             struct mt_error *err)
{
    struct mt_query *query = mt_alloc(sizeof *query);
    take_settings(query, settings);
    say(query, "Initializing StreamExecution");
    mt_log_context(query->name, -1);
    enum mt_status status = recover_open(query, err);
    if (status == MT_OK)
        status = query_watch_sources(query, err);
    if (status != MT_OK) {
        mt_query_close(query);
        return MT_FATAL;
    }
    *out = query;
    return MT_OK;
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

void mt_query_close(struct mt_query *query)
{
    if (!query)
        return;
    bool opened = query->store != NULL;
    forget_batch(query);
    query_forget_ends(query);
    for (int64_t i = 0; i < query->n_sources; i++) {
        mt_source_free(query->sources[i]);
        free(query->positions[i]);
    }
    mt_sink_free(query->sink);
    outlets_free(query);
    mt_store_close(query->store);
    if (query->temporary && opened)
        nftw(query->checkpoint, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
    free(query->positions), free(query->ends), free(query->run.inputs), free(query->run.steps);
    free(query->sources), free(query->name), free(query->checkpoint), free(query->bundle);
    free(query->time_zone), free(query->start_options), free(query->shape);
    if (query->watch_fd >= 0)
        close(query->watch_fd);
    free(query);
}
