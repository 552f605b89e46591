/* SPDX-License-Identifier: Apache-2.0
 *
 * script_reload.c - another text of the job takes over while its query runs.
 *
 * The query's own thread looks at its files once a second, between two steps. A file that is
 * another is loaded once it has come to rest, so that half of a text is seldom loaded; if it is,
 * it mostly does not compile, and the old script goes on. Loading has a thread of its own, because
 * what hangs there must not keep the query from its batches. What was loaded waits until the engine
 * takes it: between two batches, or for a batch that waits to be retried. Each query does this for
 * itself, since each has its own Lua state and its own batch. */
#include <stdlib.h>
#include <string.h>

#include "script/script_run.h"

enum { LOOK_MS = 1000, REST_MS = 200, FIRST_WAIT_MS = 200, LAST_WAIT_MS = 30000 };
enum { LOAD_MS = 40000, LEAVE_MS = 1000 };

/* A refusal is told once, however often it is met. */
static void complain(struct mt_worker *worker, const char *text)
{
    if (worker->complaint && strcmp(worker->complaint, text) == 0)
        return;
    free(worker->complaint);
    worker->complaint = mt_strdup(text);
    mt_log(MT_WARN, "%s; the script that runs goes on", text);
}

static void drop_next(struct mt_worker *worker)
{
    if (!worker->next)
        return;
    mt_settings_drop(&worker->next_settings);
    mt_script_job_close(worker->next);
    worker->next = NULL;
}

/* The main thread looks at what is being loaded. */
static struct mt_load *set_load(struct mt_worker *worker, struct mt_load *load)
{
    struct mt_load *before = worker->load;
    pthread_mutex_lock(&worker->running->mutex);
    worker->load = load;
    pthread_mutex_unlock(&worker->running->mutex);
    return before;
}

static void begin_load(struct mt_worker *worker, bool asked, int64_t now_ms)
{
    struct mt_error err = {0};
    worker->resting = worker->stale = false;
    worker->load_ms = now_ms;
    worker->load_asked = asked;
    set_load(worker, mt_load_begin(worker->job, mt_worker_name(worker), worker->wake_fd, &err));
    worker->failed = !worker->load;
    if (worker->failed)
        complain(worker, err.text);
}

/* What was loaded before and waits gives way, whatever came of this one: the files are others now.
 */
static void end_load(struct mt_worker *worker, int64_t now_ms)
{
    struct mt_error err = {0};
    struct mt_script_job *next;
    worker->failed = mt_load_end(set_load(worker, NULL), &next, &err) != MT_OK;
    if (worker->stale) {
        mt_script_job_close(next);
        begin_load(worker, worker->load_asked, now_ms);
        return;
    }
    drop_next(worker);
    worker->again_ms = worker->wait_ms = 0;
    mt_log_context(mt_worker_name(worker), -1);
    if (worker->failed) {
        complain(worker, err.text);
        return;
    }
    free(worker->complaint);
    worker->complaint = NULL;
    if (!next && worker->load_asked)
        mt_log(MT_INFO, "asked to load the job again: nothing has changed");
    if (!next)
        return;
    mt_log(MT_INFO, "changed: %s", mt_script_job_changes(next));
    worker->next = next;
    mt_script_job_settings(next, &worker->next_settings);
    mt_worker_apply(worker, &worker->next_settings);
}

/* Lua is stopped before that. */
static void give_up_load(struct mt_worker *worker)
{
    char *text = mt_format("%s: loading it did not end within %d seconds: a C function hangs",
                           worker->running->request->file, LOAD_MS / 1000);
    mt_load_leave(set_load(worker, NULL), 0);
    worker->failed = true;
    complain(worker, text);
    free(text);
}

static bool was_asked(struct mt_worker *worker)
{
    pthread_mutex_lock(&worker->running->mutex);
    bool asked = worker->asked;
    worker->asked = false;
    pthread_mutex_unlock(&worker->running->mutex);
    return asked;
}

static void look(struct mt_worker *worker, int64_t now_ms)
{
    if (worker->load) {
        if (mt_load_done(worker->load))
            end_load(worker, now_ms);
        else if (now_ms - worker->load_ms > LOAD_MS)
            give_up_load(worker);
        return;
    }
    if (was_asked(worker)) {
        begin_load(worker, true, now_ms);
        return;
    }
    if (now_ms < worker->look_ms)
        return;
    bool changed = mt_script_job_changed(worker->job, worker->failed);
    if (worker->resting && !changed)
        begin_load(worker, false, now_ms);
    else if (changed)
        worker->resting = true;
    worker->look_ms = now_ms + (worker->resting ? REST_MS : LOOK_MS);
}

/* Where the next script saves to nobody answers: said once, the waits grow. */
static void wait_for_sink(struct mt_worker *worker, int64_t now_ms, const struct mt_error *err)
{
    if (worker->wait_ms == 0)
        complain(worker, err->text);
    worker->wait_ms = worker->wait_ms == 0 ? FIRST_WAIT_MS : worker->wait_ms * 2;
    if (worker->wait_ms > LAST_WAIT_MS)
        worker->wait_ms = LAST_WAIT_MS;
    worker->again_ms = now_ms + worker->wait_ms;
}

/* The job that ran is closed: nothing of it is in use any more. */
static void succeed(struct mt_worker *worker)
{
    mt_script_job_set_rows(worker->next, mt_script_job_rows(worker->job));
    mt_script_job_close(worker->job);
    worker->job = worker->next;
    worker->next = NULL;
    worker->stale = worker->load != NULL;
}

enum mt_status mt_worker_reload(struct mt_worker *worker, struct mt_error *err)
{
    if (worker->running->request->no_reload)
        return MT_RETRY;
    int64_t now_ms = mt_clock_mono_us() / 1000;
    look(worker, now_ms);
    if (!worker->next || now_ms < worker->again_ms)
        return MT_RETRY;
    switch (mt_query_reload(worker->query, &worker->next_settings, err)) {
    case MT_RELOAD_NOT_NOW:
        return MT_RETRY;
    case MT_RELOAD_AWAY:
        wait_for_sink(worker, now_ms, err);
        return MT_RETRY;
    case MT_RELOAD_REFUSED:
        complain(worker, err->text);
        mt_script_job_close(worker->next);
        worker->next = NULL;
        return MT_RETRY;
    case MT_RELOAD_TAKEN:
        succeed(worker);
        return MT_OK;
    case MT_RELOAD_FAILED:
        break;
    }
    succeed(worker);
    return MT_FATAL;
}

void mt_worker_forget_next(struct mt_worker *worker)
{
    if (worker->load)
        mt_load_leave(set_load(worker, NULL), LEAVE_MS);
    drop_next(worker);
    free(worker->complaint);
}
