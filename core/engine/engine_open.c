/* SPDX-License-Identifier: Apache-2.0
 *
 * engine_open.c - a query from its settings to its end, and what may be asked of it on the way. */
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "engine/engine_int.h"

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
    query_say(query, "Initializing StreamExecution");
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

void query_forget_batch(struct mt_query *query)
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
    query_forget_batch(query);
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

/* ---- for others while it runs */

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
