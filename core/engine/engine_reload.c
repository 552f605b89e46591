/* SPDX-License-Identifier: Apache-2.0
 *
 * engine_reload.c - another text of the job takes over while the query runs.
 *
 * It does so where a restart would find nothing half done: while the query waits for its sources to
 * begin with, between a commit and the next plan, or at a batch that waits for its source or to be
 * tried again, which recovery then settles as after a restart: by whether a sink holds it. What a
 * restart would refuse is refused here too, and the old job goes on. A source that is what it was
 * stays open, so that its connections and what it has received stay; it must be read for the same
 * columns, since what it holds is in columns already. */
#include <stdlib.h>
#include <string.h>

#include "engine/engine_int.h"

static bool is_the_time(const struct mt_query *query)
{
    return query->phase == PHASE_OPEN || query->phase == PHASE_TRIGGER ||
           query->phase == PHASE_ENDS || query->phase == PHASE_RECOVER ||
           query->phase == PHASE_ADOPT || (query->phase == PHASE_READ && query->source_wakes);
}

/* A batch was planned and is not committed. */
static bool has_a_plan(const struct mt_query *query)
{
    return query->plan.id >= 0;
}

static bool reads_the_same(const struct mt_source *a, const struct mt_source *b)
{
    int64_t n = a->schema.n_children;
    return n == b->schema.n_children &&
           memcmp(a->wanted, b->wanted, (size_t)n * sizeof *a->wanted) == 0;
}

static bool stays(const struct mt_query *query, const struct mt_source *new, const char *shape,
                  int64_t i)
{
    return shape_same_source(query->shape, shape, i) && reads_the_same(query->sources[i], new);
}

/* A restart would end with that, where the rows that are lost can be counted. */
static enum mt_status refuse_loss(const struct mt_query *query, const char *shape,
                                  struct mt_error *err)
{
    char *topic = shape_topic_gone(query->shape, shape);
    if (!topic)
        return MT_OK;
    mt_fail(err, MT_REJECT, MT_CLASS_DATA_LOSS,
            "topic %s is not subscribed to any more, and what of it was not read yet would be "
            "lost: set failOnDataLoss to false if that is wanted",
            topic);
    free(topic);
    return MT_REJECT;
}

/* Why a restart would not go on with this. */
static enum mt_status refuse_shape(const struct mt_query *query,
                                   const struct mt_query_settings *settings, const char *shape,
                                   struct mt_error *err)
{
    const char *checkpoint = settings->checkpoint;
    if (checkpoint ? strcmp(query->checkpoint, checkpoint) != 0 : !query->temporary)
        return mt_fail(err, MT_REJECT, MT_CLASS_JOB,
                       "checkpointLocation changed from %s to %s: restart for that",
                       query->temporary ? "none" : query->checkpoint,
                       checkpoint ? checkpoint : "none");
    enum mt_status status = refuse_loss(query, shape, err);
    if (status == MT_OK)
        status = shape_refuse(query->shape, shape, err);
    for (int64_t i = 0; status == MT_OK && i < query->n_sources; i++)
        if (has_a_plan(query) && !query->sources[i]->type->replayable &&
            !stays(query, settings->sources[i], shape, i))
            status = mt_fail(err, MT_REJECT, MT_CLASS_SOURCE,
                             "source %s cannot be read again, and its batch waits to be retried",
                             query->sources[i]->name);
    return status;
}

/* A new sink settles what an earlier owner left, while it can still be refused. */
static enum mt_status recover_sink(const struct mt_query *query, struct mt_sink *sink,
                                   struct mt_error *err)
{
    if (!sink)
        return MT_OK;
    sink_prints_to(sink, query);
    enum mt_status status = sink->type->recover(sink, mt_store_query_id(query->store), err);
    return status == MT_OK || status == MT_RETRY ? status : MT_REJECT;
}

/* Settings' sources take the place of the query's, but for those that stay. */
static enum mt_status take_sources(struct mt_query *query, const struct mt_query_settings *settings,
                                   const char *shape, struct mt_error *err)
{
    struct plan last = {.id = -1};
    enum mt_status status = MT_OK;
    if (query->committed >= 0)
        status = recover_plan(query, query->committed, &last, err);
    for (int64_t i = 0; status == MT_OK && i < query->n_sources; i++) {
        struct mt_source *old = query->sources[i], *new = settings->sources[i];
        bool kept = stays(query, new, shape, i);
        if (!kept) {
            mt_source_remember(new, last.n_spans ? last.spans[i].facts : NULL);
            mt_batch_release(&query->run.inputs[i]); /* its schema is the old one's */
            query->sources[i] = new;
        }
        mt_source_free(kept ? new : old);
    }
    if (status == MT_OK)
        free(settings->sources);
    plan_clear(&last);
    return status;
}

static void refuse(const struct mt_query_settings *settings)
{
    for (int64_t i = 0; i < settings->n_sources; i++)
        mt_source_free(settings->sources[i]);
    free(settings->sources);
    mt_sink_free(settings->sink);
}

/* All that may fail. */
static enum mt_status replace_parts(struct mt_query *query,
                                    const struct mt_query_settings *settings, const char *shape,
                                    struct mt_error *err)
{
    enum mt_status status = refuse_shape(query, settings, shape, err);
    if (status == MT_OK)
        status = recover_sink(query, settings->sink, err);
    if (status == MT_OK)
        shape_tell(query->shape, shape, query->committed + 1);
    if (status == MT_OK)
        status = take_sources(query, settings, shape, err);
    return status;
}

/* Whether the old sink may hold the batch that the new one would get. The new one waits: the old
 * one is asked before the batch is tried again, and then either the batch is committed or it is
 * free. */
static bool waits_for_old_sink(struct mt_query *query, const struct mt_query_settings *settings)
{
    struct plan *plan = &query->plan;
    if (!recover_is_elsewhere(query, settings->sink ? settings->sink->identity : FOREACH_BATCH))
        return false;
    if (!plan->told)
        mt_log(MT_INFO, "the changed script waits: %s may hold this batch and was not asked yet",
               plan->sink);
    plan->told = true;
    return true;
}

/* What the old job left in the query goes. */
static void forget_old(struct mt_query *query)
{
    query_forget_ends(query);
    query->run.n_steps = 0; /* their names go with it */
    mt_sink_free(query->sink);
    query->sink_recovered = true;
    query->replaying = false;
    if (query->phase == PHASE_READ || query->phase == PHASE_ADOPT)
        query->phase = PHASE_RECOVER; /* the batch was planned for the old one */
}

enum mt_reload mt_query_reload(struct mt_query *query, const struct mt_query_settings *settings,
                               struct mt_error *err)
{
    mt_log_context(query->name, query->plan.id);
    if (!is_the_time(query) || waits_for_old_sink(query, settings))
        return MT_RELOAD_NOT_NOW;
    char *shape = shape_of(settings);
    enum mt_status status = replace_parts(query, settings, shape, err);
    if (status != MT_OK)
        free(shape);
    if (status == MT_RETRY)
        return MT_RELOAD_AWAY;
    if (status != MT_OK) {
        refuse(settings);
        return MT_RELOAD_REFUSED;
    }
    forget_old(query);
    mt_log(MT_INFO, "script %.12s takes over from script %.12s at batch %lld",
           settings->bundle_hash, query->bundle_hash, (long long)query->committed + 1);
    query->shape_kept &= strcmp(query->shape, shape) == 0;
    query_take_job(query, settings, shape);
    status = recover_options(query, false, err);
    if (status == MT_OK)
        status = query_watch_sources(query, err);
    return status == MT_OK ? MT_RELOAD_TAKEN : MT_RELOAD_FAILED;
}
