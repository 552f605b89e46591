/* SPDX-License-Identifier: Apache-2.0
 *
 * script_run.h - what the two sides of `moontide run` share: the main thread (script_run.c), and
 * a thread for each query (script_worker.c). */
#ifndef MT_SCRIPT_RUN_H
#define MT_SCRIPT_RUN_H

#include "script/script_int.h"

struct mt_running;

/* One query and its thread. */
struct mt_worker {
    struct mt_running *running;
    pthread_t thread; /* the first query has the thread that loaded all */
    struct mt_script_job *job;
    struct mt_query_settings settings;
    struct mt_watch watch;
    int wake_fd;            /* eventfd: ends a sleep */
    char *label;            /* its name, or "query 2" */
    struct mt_query *query; /* under the mutex: others stop it */
    char waiting[256];      /* under the mutex: what it waits for; "": it is at work, or ended */
};

struct mt_running {
    const struct mt_run_request *request;
    struct mt_run_answer *answer; /* error and code: under the mutex */
    struct mt_outbox *outbox;
    int out_fd;            /* where lines go: standard output */
    pthread_mutex_t mutex; /* of what follows */
    struct mt_worker **workers;
    int64_t n_workers; /* grows while they are loaded */
    bool stopping;
};

/* ---- script_run.c */

/* Every query finishes its batch, and starts no other. Any thread. */
void mt_run_stop(struct mt_running *running);

/* ---- script_worker.c */

/* The thread of a run (void *: struct mt_running): loads the job, runs its queries to their end,
 * and finishes the outbox. */
void *mt_run_thread(void *running);
/* After it. */
void mt_workers_free(struct mt_running *running);
#endif
