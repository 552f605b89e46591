/* SPDX-License-Identifier: Apache-2.0
 *
 * script_load.c - another text of a job is loaded in a thread of its own, while the query goes on
 * under the old one.
 *
 * Nothing can interrupt what hangs at load: a module that waits in C for an answer, a loop that
 * catches every error. So such a thread is left behind, with all that it uses: it has its own
 * Lua state and copies of what it was told, and frees them if it ever comes back. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>

#include "script/script_run.h"

struct mt_load {
    pthread_t thread;
    struct mt_script_job *job; /* the thread's until it is done */
    struct mt_watch watch;
    char name[128]; /* of the query, in the log; "": none */
    bool same;      /* the files say what they said */
    enum mt_status status;
    struct mt_error err;
    pthread_mutex_t mutex; /* of what follows */
    pthread_cond_t ended;
    bool done, left;
    int wake_fd; /* not when it was left */
};

static void load_free(struct mt_load *load)
{
    mt_script_job_close(load->job);
    mt_watch_deinit(&load->watch);
    pthread_mutex_destroy(&load->mutex);
    pthread_cond_destroy(&load->ended);
    free(load);
}

static void *load_thread(void *arg)
{
    struct mt_load *load = arg;
    mt_log_context(*load->name ? load->name : NULL, -1);
    load->status = mt_script_job_load(load->job, &load->watch, &load->same, &load->err);
    pthread_mutex_lock(&load->mutex);
    bool left = load->left;
    load->done = true;
    if (!left)
        eventfd_write(load->wake_fd, 1);
    pthread_cond_signal(&load->ended);
    pthread_mutex_unlock(&load->mutex);
    if (left)
        load_free(load);
    return NULL;
}

struct mt_load *mt_load_begin(const struct mt_script_job *before, const char *name, int wake_fd,
                              struct mt_error *err)
{
    struct mt_load *load = mt_alloc(sizeof *load);
    pthread_condattr_t attr;
    load->job = mt_script_job_next(before);
    load->wake_fd = wake_fd;
    snprintf(load->name, sizeof load->name, "%s", name ? name : "");
    mt_watch_init(&load->watch);
    pthread_mutex_init(&load->mutex, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&load->ended, &attr);
    pthread_condattr_destroy(&attr);
    int failed = pthread_create(&load->thread, NULL, load_thread, load);
    if (!failed)
        return load;
    load_free(load);
    mt_fail(err, MT_FATAL, MT_CLASS_MACHINE, "no thread to load the job again in: %s",
            strerror(failed));
    return NULL;
}

struct mt_watch *mt_load_watch(struct mt_load *load)
{
    return &load->watch;
}

bool mt_load_done(struct mt_load *load)
{
    pthread_mutex_lock(&load->mutex);
    bool done = load->done;
    pthread_mutex_unlock(&load->mutex);
    return done;
}

enum mt_status mt_load_end(struct mt_load *load, struct mt_script_job **out, struct mt_error *err)
{
    enum mt_status status = load->status;
    pthread_join(load->thread, NULL);
    *out = NULL;
    if (status != MT_OK) {
        *err = load->err;
    } else if (!load->same) {
        *out = load->job;
        load->job = NULL;
    }
    load_free(load);
    return status;
}

void mt_load_leave(struct mt_load *load, int64_t wait_ms)
{
    struct timespec till;
    clock_gettime(CLOCK_MONOTONIC, &till);
    till.tv_sec += wait_ms / 1000;
    till.tv_nsec += wait_ms % 1000 * 1000000;
    if (till.tv_nsec >= 1000000000) {
        till.tv_sec++;
        till.tv_nsec -= 1000000000;
    }
    int timed_out = 0;
    pthread_mutex_lock(&load->mutex);
    while (!load->done && !timed_out)
        timed_out = pthread_cond_timedwait(&load->ended, &load->mutex, &till);
    bool left = load->left = !load->done;
    pthread_t thread = load->thread;
    pthread_mutex_unlock(&load->mutex);
    if (left) {
        pthread_detach(thread);
    } else {
        pthread_join(thread, NULL);
        load_free(load);
    }
}
