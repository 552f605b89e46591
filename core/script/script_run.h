/* SPDX-License-Identifier: Apache-2.0
 *
 * script_run.h - `moontide run`, and what its two sides share: the main thread (script_run.c), and
 * a thread for each query (script_worker.c). */
#ifndef MT_SCRIPT_RUN_H
#define MT_SCRIPT_RUN_H

#include "script/script_int.h"

struct mt_run_request {
    const char *file;
    struct mt_pairs set;
    bool once;                   /* availableNow, whatever the file says */
    bool json;                   /* progress as JSON lines */
    bool terminal;               /* standard output is one: show what is being waited for */
    bool no_reload;              /* the job stays as it is when its files change */
    bool finish_with_new_script; /* the user's word, as in struct mt_query_settings */
    int64_t accept_replay;       /* likewise; -1 */
    int64_t said_batch;          /* likewise; -1 */
    bool said_held;              /* of said_batch */
    int64_t interval_ms; /* >= 0: this processingTime, whatever the file says; -1: the file's */
    int64_t max_batches; /* of each query; 0: no limit */
    int64_t max_rows;    /* each query stops after the batch that reaches it; 0: no limit */
    int64_t max_ms;      /* stop then at the latest; 0: no limit */
};
struct mt_run_sink {
    char *format, *path; /* path: NULL when it has none */
};
struct mt_run_answer {
    int64_t rows;              /* that the script was given: the least of its queries */
    int code;                  /* of the process */
    struct mt_run_sink *sinks; /* declared ones, and those of saves */
    int64_t n_sinks;
    struct mt_error error; /* of the query that failed first */
};
/* Runs the queries of a job, each on a thread of its own, until they end, one fails or they are
 * told to stop. */
void mt_script_run(const struct mt_run_request *request, struct mt_run_answer *answer);
void mt_run_answer_clear(struct mt_run_answer *answer);

/* ---- inside */

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
    bool named;             /* it is its name */
    struct mt_query *query; /* under the mutex: others stop it */
    bool asked;             /* under the mutex: to load the job again */
    char waiting[256];      /* under the mutex: what it waits for; "": it is at work, or ended */

    /* of script_reload.c */
    struct mt_load *load; /* under the mutex for others: the job is being loaded again; or NULL */
    int64_t load_ms;      /* since then */
    bool load_asked;      /* by a signal */
    bool stale;           /* it was begun for a script that runs no more: once again */
    struct mt_script_job *next; /* loaded, and not taken over yet; or NULL */
    struct mt_query_settings next_settings;
    int64_t look_ms;           /* by the monotonic clock: when to look at the files again */
    bool resting;              /* they changed: load them when they do not any more */
    bool failed;               /* to load them */
    int64_t again_ms, wait_ms; /* its sink is away: when to ask again, and the last wait; or 0 */
    char *complaint;           /* the last one, or NULL */
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

/* ---- script_reload.c */

/* Between two steps: looks after the job's files. OK: another text has taken over. RETRY: nothing
 * has changed for the query. FATAL: it is over. */
enum mt_status mt_worker_reload(struct mt_worker *worker, struct mt_error *err) MT_NODISCARD;
/* What was loaded and not taken over goes. */
void mt_worker_forget_next(struct mt_worker *worker);

/* ---- script_load.c: a job is loaded again beside its query */

struct mt_load;

/* wake_fd is written when it is done. NULL: no thread could be had. */
struct mt_load *mt_load_begin(const struct mt_script_job *before, const char *name, int wake_fd,
                              struct mt_error *err);
bool mt_load_done(struct mt_load *load);
struct mt_watch *mt_load_watch(struct mt_load *load);
/* Once it is done. *out: NULL where the files say what they said, or on failure. */
enum mt_status mt_load_end(struct mt_load *load, struct mt_script_job **out,
                           struct mt_error *err) MT_NODISCARD;
/* Waits so long for it, and leaves it behind if it is not done. */
void mt_load_leave(struct mt_load *load, int64_t wait_ms);

/* ---- script_worker.c */

/* What its lines of the log carry; NULL for the only query, when it has no name. */
const char *mt_worker_name(const struct mt_worker *worker);
/* What the command line says, into the settings of a query. */
void mt_worker_apply(struct mt_worker *worker, struct mt_query_settings *settings);

/* The thread of a run (void *: struct mt_running): loads the job, runs its queries to their end,
 * and finishes the outbox. */
void *mt_run_thread(void *running);
/* After it. */
void mt_workers_free(struct mt_running *running);
#endif
