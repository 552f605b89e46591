/* SPDX-License-Identifier: Apache-2.0
 *
 * script_worker.c - the queries of a run, each with a Lua state and a thread of its own.
 *
 * The job file is loaded once for each query, so that queries share no variable; all are loaded
 * by one thread before any begins, so that a fault in one leaves nothing half started. Where a
 * query fails the others finish their batch and stop: what they do may rest on each other. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "script/script_run.h"
#include "sink/sink.h"

#define LONG_US 60000000
enum { SLEEP_MS = 1000 };

static bool is_one_of_several(const struct mt_worker *worker)
{
    return worker->running->n_workers > 1;
}

const char *mt_worker_name(const struct mt_worker *worker)
{
    return worker->named || is_one_of_several(worker) ? worker->label : NULL;
}

/* ---- what is shown */

/* Lines in place of what a terminal shows of the waiting. */
static void put(struct mt_worker *worker, const char *head, const char *lines)
{
    bool terminal = worker->running->request->terminal;
    char *text = mt_format("%s%s%s", terminal ? MT_ERASE : "", head, lines);
    mt_outbox_put(worker->running->outbox, text);
    free(text);
}

/* Rows that a sink shows to people. */
static void print(void *ctx, const char *lines)
{
    struct mt_worker *worker = ctx;
    char *head = is_one_of_several(worker) ? mt_format("%s:\n", worker->label) : mt_strdup("");
    put(worker, head, lines);
    free(head);
}

static void stop_one(struct mt_worker *worker)
{
    pthread_mutex_lock(&worker->running->mutex);
    mt_query_stop(worker->query);
    pthread_mutex_unlock(&worker->running->mutex);
}

static void tell_batch(struct mt_worker *worker, const char *name, const char *text)
{
    const struct mt_run_request *request = worker->running->request;
    char *line = mt_format("%s%s%s\n", name ? name : "", name ? ": " : "", text);
    put(worker, "", line);
    free(line);
    if (request->max_rows && mt_script_job_rows(worker->job) >= request->max_rows)
        stop_one(worker);
}

static void on_progress(void *ctx, const char *json)
{
    tell_batch(ctx, NULL, json);
}

static void on_line(void *ctx, const char *line)
{
    struct mt_worker *worker = ctx;
    tell_batch(worker, is_one_of_several(worker) ? worker->label : NULL, line);
}

/* What all that wait do wait for; under the mutex. */
static void describe_waiting(const struct mt_running *running, char text[256])
{
    size_t len = 0;
    text[0] = '\0';
    for (int64_t i = 0; i < running->n_workers && len < 255; i++) {
        const struct mt_worker *worker = running->workers[i];
        if (!*worker->waiting)
            continue;
        bool named = running->n_workers > 1;
        int n = snprintf(text + len, 256 - len, "%s%s%s%s", len ? "; " : "",
                         named ? worker->label : "", named ? ": " : "", worker->waiting);
        len += n > 0 ? (size_t)n : 0;
    }
}

/* Only a terminal shows it; a reader of lines is not woken for it. Words that stay are told once.
 */
static void set_waiting(struct mt_worker *worker, const char *what)
{
    struct mt_running *running = worker->running;
    char text[256];
    if (!running->request->terminal ||
        strncmp(worker->waiting, what, sizeof worker->waiting - 1) == 0)
        return;
    pthread_mutex_lock(&running->mutex);
    snprintf(worker->waiting, sizeof worker->waiting, "%s", what);
    mt_mask(worker->waiting, strlen(worker->waiting));
    describe_waiting(running, text);
    pthread_mutex_unlock(&running->mutex);
    mt_outbox_waits(running->outbox, text);
}

/* ---- one query */

static void set_query(struct mt_worker *worker, struct mt_query *query)
{
    pthread_mutex_lock(&worker->running->mutex);
    worker->query = query;
    if (query && worker->running->stopping)
        mt_query_stop(query);
    pthread_mutex_unlock(&worker->running->mutex);
}

/* Whether something came before at_ms; looks up once a second. */
static bool sleep_some(struct mt_worker *worker, int64_t at_ms)
{
    struct pollfd fds[] = {{.fd = worker->wake_fd, .events = POLLIN},
                           {.fd = mt_query_wake_fd(worker->query), .events = POLLIN}};
    int64_t ms = at_ms - mt_clock_ms();
    int n = poll(fds, 2, ms < 0 ? 0 : ms < SLEEP_MS ? (int)ms : SLEEP_MS);
    eventfd_t count;
    eventfd_read(worker->wake_fd, &count);
    return n > 0;
}

/* Until then, until something comes, or until another script takes over, which may have something
 * to do at once. */
static enum mt_status sleep_until(struct mt_worker *worker, int64_t at_ms, struct mt_error *err)
{
    int64_t began_us = mt_clock_mono_us();
    while (!sleep_some(worker, at_ms) && mt_clock_ms() < at_ms) {
        enum mt_status status = mt_worker_reload(worker, err);
        if (status != MT_RETRY)
            return status;
        if (mt_clock_mono_us() - began_us > LONG_US)
            break; /* the wall clock may have been set back */
    }
    return MT_OK;
}

static enum mt_status step_to_the_end(struct mt_worker *worker, struct mt_error *err)
{
    for (;;) {
        enum mt_turn turn;
        int64_t at_ms = 0;
        if (mt_worker_reload(worker, err) == MT_FATAL)
            return MT_FATAL;
        enum mt_status status = mt_query_step(worker->query, mt_clock_ms(), &turn, &at_ms, err);
        if (status != MT_OK || turn == MT_TURN_ENDED)
            return status;
        set_waiting(worker, turn == MT_TURN_WAIT ? mt_query_status(worker->query) : "");
        if (turn == MT_TURN_WAIT && sleep_until(worker, at_ms, err) != MT_OK)
            return MT_FATAL;
    }
}

/* Any query's thread. */
static void tell_sink(void *ctx, const struct mt_sink *sink)
{
    struct mt_running *running = ctx;
    struct mt_run_answer *answer = running->answer;
    pthread_mutex_lock(&running->mutex);
    size_t n = (size_t)answer->n_sinks + 1;
    answer->sinks = mt_realloc(answer->sinks, n * sizeof *answer->sinks);
    answer->sinks[answer->n_sinks++] = (struct mt_run_sink){
        mt_strdup(sink->type->name), sink->path ? mt_strdup(sink->path) : NULL};
    pthread_mutex_unlock(&running->mutex);
}

static enum mt_status run_query(struct mt_worker *worker, struct mt_error *err)
{
    struct mt_query *query;
    enum mt_status status = mt_query_open(&worker->settings, &query, err);
    if (status != MT_OK)
        return status;
    set_query(worker, query);
    status = step_to_the_end(worker, err);
    set_query(worker, NULL);
    set_waiting(worker, "");
    mt_query_each_saved(query, tell_sink, worker->running);
    mt_query_close(query);
    mt_worker_forget_next(worker);
    return status;
}

static enum mt_status run_settings(struct mt_worker *worker, struct mt_error *err)
{
    if (worker->settings.checkpoint)
        return run_query(worker, err);
    char *temporary = mt_temporary_checkpoint(err);
    if (!temporary) {
        mt_settings_drop(&worker->settings);
        return MT_FATAL;
    }
    mt_log_context(mt_worker_name(worker), -1);
    mt_log(MT_WARN, "no checkpointLocation: using a temporary one, the next start begins anew");
    worker->settings.checkpoint = temporary;
    worker->settings.temporary = true;
    enum mt_status status = run_query(worker, err);
    mt_temporary_remove(temporary);
    return status;
}

/* The first failure is the run's; a later one is told in the log alone. */
static void note_failure(struct mt_worker *worker, const struct mt_error *err)
{
    struct mt_running *running = worker->running;
    struct mt_run_answer *answer = running->answer;
    pthread_mutex_lock(&running->mutex);
    bool first = !answer->code;
    if (first) {
        answer->code = err->class_ ? (int)err->class_ : MT_CLASS_INTERNAL;
        answer->error = *err;
        mt_mask(answer->error.text, strlen(answer->error.text));
        if (is_one_of_several(worker))
            (void)mt_fail_within(&answer->error, MT_FATAL, "%s: ", worker->label);
    }
    pthread_mutex_unlock(&running->mutex);
    if (!first)
        mt_log(MT_ERROR, "%s", err->text);
    else if (is_one_of_several(worker))
        mt_log(MT_WARN, "%s failed: the other queries stop after their batch; its error: %s",
               worker->label, err->text);
}

static void *worker_thread(void *arg)
{
    struct mt_worker *worker = arg;
    struct mt_error err = {0};
    if (run_settings(worker, &err) == MT_OK)
        return NULL;
    note_failure(worker, &err);
    mt_run_stop(worker->running);
    return NULL;
}

/* ---- all of them */

static struct mt_worker *add_worker(struct mt_running *running, struct mt_error *err)
{
    struct mt_worker *worker = mt_alloc(sizeof *worker);
    worker->running = running;
    worker->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int failed = worker->wake_fd < 0 ? errno : 0;
    mt_watch_init(&worker->watch);
    pthread_mutex_lock(&running->mutex);
    size_t n = (size_t)running->n_workers + 1;
    running->workers = mt_realloc(running->workers, n * sizeof(struct mt_worker *));
    running->workers[running->n_workers++] = worker;
    pthread_mutex_unlock(&running->mutex);
    if (!failed)
        return worker;
    mt_fail(err, MT_FATAL, MT_CLASS_MACHINE, "the run cannot start: %s", strerror(failed));
    return NULL;
}

void mt_worker_apply(struct mt_worker *worker, struct mt_query_settings *settings)
{
    const struct mt_run_request *request = worker->running->request;
    if (request->once)
        settings->trigger.kind = MT_TRIGGER_AVAILABLE_NOW;
    else if (request->interval_ms >= 0)
        settings->trigger = (struct mt_trigger){MT_TRIGGER_PROCESSING, request->interval_ms};
    settings->finish_with_new_script = request->finish_with_new_script;
    settings->accept_replay = request->accept_replay;
    settings->said_batch = request->said_batch;
    if (request->said_batch >= 0)
        settings->said = request->said_held ? MT_SAID_HELD : MT_SAID_NOT_HELD;
    settings->max_batches = request->max_batches;
    settings->ctx = worker;
    if (request->json) { /* then standard output is for JSON alone, see claim_output */
        settings->on_progress = on_progress;
    } else {
        settings->on_line = on_line;
        settings->print = print;
    }
}

static enum mt_status load_worker(struct mt_worker *worker, int64_t place, struct mt_error *err)
{
    const struct mt_run_request *request = worker->running->request;
    enum mt_status status =
        mt_script_job_open(request->file, place, &request->set, &worker->watch, &worker->job, err);
    if (status != MT_OK)
        return status;
    mt_script_job_settings(worker->job, &worker->settings);
    worker->named = worker->settings.name != NULL;
    worker->label = worker->named ? mt_strdup(worker->settings.name)
                                  : mt_format("query %lld", (long long)place);
    mt_worker_apply(worker, &worker->settings);
    if (worker->settings.sink)
        tell_sink(worker->running, worker->settings.sink);
    return MT_OK;
}

static enum mt_status load_all(struct mt_running *running, struct mt_error *err)
{
    int64_t n = 1;
    for (int64_t i = 0; i < n; i++) {
        struct mt_worker *worker = add_worker(running, err);
        if (!worker || load_worker(worker, i + 1, err) != MT_OK)
            return MT_FATAL;
        n = mt_script_job_queries(running->workers[0]->job);
    }
    return MT_OK;
}

/* The first query runs here; the run is over when all are. */
static void run_all(struct mt_running *running)
{
    struct mt_worker **workers = running->workers;
    int64_t started = 1;
    for (; started < running->n_workers; started++) {
        struct mt_worker *worker = workers[started];
        int failed = pthread_create(&worker->thread, NULL, worker_thread, worker);
        if (!failed)
            continue;
        struct mt_error err = {0};
        mt_fail(&err, MT_FATAL, MT_CLASS_MACHINE, "no thread to run in: %s", strerror(failed));
        note_failure(worker, &err);
        mt_run_stop(running);
        break;
    }
    for (int64_t i = started; i < running->n_workers; i++)
        mt_settings_drop(&workers[i]->settings);
    worker_thread(workers[0]);
    for (int64_t i = 1; i < started; i++)
        pthread_join(workers[i]->thread, NULL);
    running->answer->rows = mt_script_job_rows(workers[0]->job);
    for (int64_t i = 1; i < running->n_workers; i++)
        if (mt_script_job_rows(workers[i]->job) < running->answer->rows)
            running->answer->rows = mt_script_job_rows(workers[i]->job);
}

void *mt_run_thread(void *arg)
{
    struct mt_running *running = arg;
    struct mt_error err = {0};
    if (load_all(running, &err) == MT_OK) {
        run_all(running);
    } else {
        pthread_mutex_lock(&running->mutex);
        running->answer->code = err.class_ ? (int)err.class_ : MT_CLASS_INTERNAL;
        running->answer->error = err;
        pthread_mutex_unlock(&running->mutex);
        for (int64_t i = 0; i < running->n_workers; i++)
            mt_settings_drop(&running->workers[i]->settings);
    }
    for (int64_t i = 0; i < running->n_workers; i++)
        mt_script_job_close(running->workers[i]->job);
    mt_outbox_finish(running->outbox);
    return NULL;
}

void mt_workers_free(struct mt_running *running)
{
    for (int64_t i = 0; i < running->n_workers; i++) {
        struct mt_worker *worker = running->workers[i];
        close(worker->wake_fd);
        mt_watch_deinit(&worker->watch);
        free(worker->label);
        free(worker);
    }
    free(running->workers);
}
