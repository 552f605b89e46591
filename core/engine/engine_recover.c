/* SPDX-License-Identifier: Apache-2.0
 *
 * engine_recover.c - what a start does with what the last run left.
 *
 * A plan without a commit stands: its ranges are read again, whatever the source has
 * got meanwhile. If the sink holds the batch, the commit is all that is missing and no
 * script runs. If not, today's script runs it, so that a bug mended in the file is
 * mended; its hash is made durable in the plan first. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine_int.h"

enum mt_status recover_plan(struct mt_query *query, int64_t id, struct plan *plan,
                            struct mt_error *err)
{
    struct mt_buf text = {0};
    bool found = false;
    enum mt_status status = mt_store_get(query->store, MT_RECORD_PLAN, id, &text, &found, err);
    if (status == MT_OK && !found)
        status = mt_fail(err, MT_FATAL, MT_CLASS_CHECKPOINT, "plan %lld is not in the checkpoint",
                         (long long)id);
    if (status == MT_OK)
        status = plan_from_json(text.data, query->n_sources, plan, err);
    mt_buf_free(&text);
    return status;
}

/* Positions are the ends of the last committed batch. */
static enum mt_status load_positions(struct mt_query *query, struct mt_error *err)
{
    struct plan last = {.id = -1};
    enum mt_status status = recover_plan(query, query->committed, &last, err);
    for (int64_t i = 0; status == MT_OK && i < query->n_sources; i++) {
        query->positions[i] = mt_strdup(last.spans[i].end);
        mt_source_remember(query->sources[i], last.spans[i].facts);
    }
    plan_clear(&last);
    return status;
}

static enum mt_status refuse_unreplayable(const struct mt_query *query, struct mt_error *err)
{
    for (int64_t i = 0; i < query->n_sources; i++)
        if (!query->sources[i]->type->replayable)
            return mt_fail(
                err, MT_FATAL, MT_CLASS_CHECKPOINT,
                "batch %lld was planned and not committed, and source %s cannot be read "
                "again: its rows went with the process that had them; use a new checkpoint",
                (long long)query->plan.id, query->sources[i]->name);
    return MT_OK;
}

/* Starting options count once: at the first start of a checkpoint. */
enum mt_status recover_options(struct mt_query *query, bool fresh, struct mt_error *err)
{
    if (!query->start_options)
        return MT_OK;
    if (fresh)
        return mt_store_meta_put(query->store, "options", query->start_options, err);
    struct mt_buf before = {0};
    bool found = false;
    enum mt_status status = mt_store_meta_get(query->store, "options", &before, &found, err);
    if (status == MT_OK && found && strcmp(before.data, query->start_options) != 0)
        mt_log(
            MT_WARN,
            "starting options changed from %s to %s: ignored, the checkpoint is at batch %lld; to "
            "start again use a new checkpoint",
            before.data, query->start_options, (long long)query->committed + 1);
    mt_buf_free(&before);
    return status;
}

/* What the job is now against what it was when a batch was planned last. *changed: that, to be
 * told once nothing else refuses it; or NULL. */
static enum mt_status compare_shape(struct mt_query *query, char **changed, struct mt_error *err)
{
    struct mt_buf before = {0};
    bool found = false;
    enum mt_status status = mt_store_meta_get(query->store, "shape", &before, &found, err);
    query->shape_kept = status == MT_OK && found && strcmp(before.data, query->shape) == 0;
    if (status == MT_OK && found && !query->shape_kept) {
        *changed = mt_strdup(before.data);
        status = shape_refuse(*changed, query->shape, err);
    }
    mt_buf_free(&before);
    return status;
}

/* With the first plan under it: a job that never got so far is nothing to compare the next with. */
enum mt_status recover_keep_shape(struct mt_query *query, struct mt_error *err)
{
    enum mt_status status = MT_OK;
    if (!query->shape_kept)
        status = mt_store_meta_put(query->store, "shape", query->shape, err);
    query->shape_kept |= status == MT_OK;
    return status;
}

/* Its identity begins with its format; one with a name of its own is taken at its word. What
 * saves have stored is in the record of the batch. */
static bool may_hold(const struct mt_query *query, const char *identity)
{
    if (strcmp(identity, FOREACH_BATCH) == 0) {
        struct mt_buf calls = {0};
        struct mt_error unread;
        bool found = true;
        if (mt_store_get(query->store, MT_RECORD_CALLS, query->plan.id, &calls, &found, &unread) !=
            MT_OK)
            found = true;
        mt_buf_free(&calls);
        return found;
    }
    char format[32] = {0};
    memcpy(format, identity, strnlen(identity, sizeof format - 1));
    format[strcspn(format, " ")] = '\0';
    const struct mt_sink_type *type = mt_sink_type_of(format);
    return !type || type->exactly_once;
}

bool recover_is_elsewhere(const struct mt_query *query, const char *now)
{
    const struct plan *plan = &query->plan;
    return plan->id >= 0 && !plan->unheld && strcmp(plan->sink, now) != 0 &&
           may_hold(query, plan->sink);
}

/* The sink that was to store the batch may hold it, and nobody can ask that one now. */
static enum mt_status refuse_other_sink(struct mt_query *query, struct mt_error *err)
{
    struct plan *plan = &query->plan;
    const char *now = sink_identity(query);
    if (!recover_is_elsewhere(query, now))
        return MT_OK;
    if (!query->finish_with_new_script)
        return mt_fail(err, MT_FATAL, MT_CLASS_CHECKPOINT,
                       "batch %lld was planned for %s and is not committed, and the job now writes "
                       "to %s: the old sink may hold it already. Run the job once as it was, then "
                       "change the sink; or, once, with --finish-with-new-script: the new sink "
                       "gets the batch, whatever the old one holds",
                       (long long)plan->id, plan->sink, now);
    mt_log(MT_WARN, "batch %lld: %s may hold it; %s gets it, as --finish-with-new-script says",
           (long long)plan->id, plan->sink, now);
    query->finish_with_new_script = false;
    plan->unheld = true;
    return MT_OK;
}

enum mt_status recover_open(struct mt_query *query, struct mt_error *err)
{
    struct mt_store_options options = {.dir = query->checkpoint, .run_id = query->run_id};
    bool fresh = false;
    int64_t plan = -1;
    char *changed = NULL;
    enum mt_status status = mt_store_open(&options, &query->store, &fresh, err);
    if (status == MT_OK)
        status = mt_store_last(query->store, &plan, &query->committed, err);
    if (status == MT_OK)
        status = compare_shape(query, &changed, err);
    if (status == MT_OK && query->committed >= 0)
        status = load_positions(query, err);
    if (status == MT_OK && plan > query->committed)
        status = recover_plan(query, plan, &query->plan, err);
    if (status == MT_OK && query->plan.id >= 0)
        status = refuse_unreplayable(query, err);
    if (status == MT_OK)
        status = refuse_other_sink(query, err);
    if (status == MT_OK && changed)
        shape_tell(changed, query->shape, query->committed + 1);
    if (status == MT_OK)
        status = recover_options(query, fresh, err);
    free(changed);
    return status;
}

/* The start of batch 0, resolved once: durable before anything is read by it. */
static enum mt_status resolve_position(struct mt_query *query, int64_t i, int64_t now_ms,
                                       struct mt_error *err)
{
    struct mt_source *source = query->sources[i];
    char key[32];
    snprintf(key, sizeof key, "start.%lld", (long long)i);
    struct mt_buf stored = {0};
    bool found = false;
    enum mt_status status = mt_store_meta_get(query->store, key, &stored, &found, err);
    char *start = found ? mt_strdup(stored.data) : NULL;
    mt_buf_free(&stored);
    if (status == MT_OK && !found)
        status = source->type->resolve_start(source, now_ms, &start, err);
    if (status == MT_OK && !found) {
        mt_step("start.before", -1);
        status = mt_store_meta_put(query->store, key, start, err);
        mt_step("start.after", -1);
    }
    if (status == MT_OK)
        query->positions[i] = start;
    else
        free(start);
    return status;
}

enum mt_status recover_positions(struct mt_query *query, int64_t now_ms, struct mt_source **away,
                                 struct mt_error *err)
{
    enum mt_status status = MT_OK;
    for (int64_t i = 0; status == MT_OK && i < query->n_sources; i++) {
        *away = query->sources[i];
        if (!query->positions[i])
            status = resolve_position(query, i, now_ms, err);
    }
    return status;
}

enum mt_status recover_adopt(struct mt_query *query, struct mt_error *err)
{
    struct plan *plan = &query->plan;
    mt_log(MT_INFO, "planned and not committed: running it again (attempt %lld)",
           (long long)plan->attempt + 1);
    free(plan->sink);
    plan->sink = mt_strdup(sink_identity(query));
    plan->unheld = query->sink != NULL;
    if (strcmp(plan->bundle, query->bundle_hash) != 0)
        mt_log(MT_INFO, "planned by script %.12s: script %.12s runs it", plan->bundle,
               query->bundle_hash);
    memcpy(plan->bundle, query->bundle_hash, sizeof plan->bundle);
    plan->attempt++;
    char *json = plan_to_json(query, false);
    enum mt_status status = mt_store_plan_put(query->store, plan->id, json, query->bundle_hash,
                                              query->bundle, strlen(query->bundle), err);
    free(json);
    return status;
}

/* In the record of the script that began the attempt, which is the one that runs. */
void recover_note_unheld(struct mt_query *query)
{
    const struct plan *plan = &query->plan;
    struct mt_error err;
    bool tried =
        query->phase == PHASE_READ || query->phase == PHASE_RUN || query->phase == PHASE_SINK;
    if (!tried || !plan->unheld)
        return;
    char *json = plan_to_json(query, true);
    if (mt_store_plan_put(query->store, plan->id, json, plan->bundle, query->bundle,
                          strlen(query->bundle), &err) != MT_OK)
        mt_log(MT_DEBUG, "that no sink holds the batch is not on record: %s", err.text);
    free(json);
}

static enum mt_status recover_declared(struct mt_query *query, bool *holds, struct mt_error *err)
{
    enum mt_status status = sink_ask_declared(query, holds, err);
    if (status == MT_OK && *holds)
        mt_log(MT_INFO, "%s holds it already (%lld rows); committing", query->sink->identity,
               (long long)calls_stored_rows(&query->calls));
    return status;
}

/* The script that began the batch ends it, its attempt counted durably. */
static enum mt_status replay_batch(struct mt_query *query, struct mt_error *err)
{
    struct plan *plan = &query->plan;
    struct mt_buf bundle = {0}, held = {0};
    bool found = false;
    plan->attempt++;
    calls_tell(&query->calls, &held);
    mt_log(MT_INFO, "planned and not committed: %s; script %.12s goes on with it (attempt %lld)",
           held.data, plan->bundle, (long long)plan->attempt);
    enum mt_status status = mt_store_bundle_get(query->store, plan->bundle, &bundle, &found, err);
    if (status == MT_OK && !found)
        status =
            calls_refuse(&query->calls, err, "the script that began it is not in the checkpoint");
    query->replaying = strcmp(plan->bundle, query->bundle_hash) != 0;
    if (status == MT_OK && query->replaying)
        status = query->job.replay(query->job.self, bundle.data, bundle.len, err);
    if (status == MT_OK) {
        char *json = plan_to_json(query, false);
        status = mt_store_plan_put(query->store, plan->id, json, plan->bundle, bundle.data,
                                   bundle.len, err);
        free(json);
    }
    mt_buf_free(&bundle), mt_buf_free(&held);
    return status;
}

/* By the user's word today's script ends a batch of which sinks hold a part. Durable, so that
 * it is asked for once. */
static enum mt_status finish_with_new_script(struct mt_query *query, struct mt_error *err)
{
    struct mt_buf held = {0};
    query->finish_with_new_script = false;
    calls_tell(&query->calls, &held);
    mt_log(MT_WARN, "%s; script %.12s ends the batch, as --finish-with-new-script says", held.data,
           query->bundle_hash);
    mt_buf_free(&held);
    calls_drop_unheld(&query->calls);
    query->calls.mode = CALLS_ACCEPT;
    enum mt_status status = recover_adopt(query, err);
    return status == MT_OK ? calls_write(&query->calls, err) : status;
}

static enum mt_status recover_saves(struct mt_query *query, struct mt_error *err)
{
    struct mt_calls *calls = &query->calls;
    int64_t held = 0;
    calls_clear(calls);
    enum mt_status status = calls_read(calls, query->plan.id, err);
    if (status == MT_OK)
        status = calls_ask(calls, &held, err);
    if (status != MT_OK)
        return status;
    query->plan.unheld = held == 0;
    if (held == 0) {
        calls_clear(calls);
        return MT_OK;
    }
    if (query->finish_with_new_script)
        return finish_with_new_script(query, err);
    if (query->accept_replay == query->plan.id)
        calls->mode = CALLS_ACCEPT;
    return replay_batch(query, err);
}

enum mt_status recover_batch(struct mt_query *query, bool *holds, struct mt_error *err)
{
    *holds = false;
    return query->sink ? recover_declared(query, holds, err) : recover_saves(query, err);
}
