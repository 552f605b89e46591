/* SPDX-License-Identifier: Apache-2.0
 *
 * script_run.c - runs one job: the query on a thread of its own, signals and standard output
 * on this one.
 *
 *   main thread                      query's thread
 *   signals ──── stop ─────────────► load, open, { step, sleep }, close
 *   stdout  ◄─── outbox ──────────── progress lines, "waiting for …"
 *   once a second: watch ◄────────── in and out of the script
 *
 * Two threads, because Lua cannot be interrupted: a script that hangs must not keep a second
 * signal from ending the process. And this one never blocks in a write either: it writes what
 * poll(2) says fits. The first signal only asks: the batch under way is finished. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "script/script_int.h"
#include "sink/sink.h"
#include "source/source.h"

#define TICK_MS 1000
#define WRITE_BYTES 4096 /* what a pipe takes at once when poll says it is writable */
#define ERASE "\033[K"   /* a terminal's line, from the cursor on */

struct run {
    const struct mt_run_request *request;
    struct mt_run_answer *answer;
    struct mt_script_job *job;
    struct mt_outbox *outbox;
    struct mt_watch watch;
    int stop_fd;           /* eventfd: wakes the query's thread */
    int out_fd;            /* where lines go: standard output */
    pthread_mutex_t mutex; /* of the two below */
    struct mt_query *query;
    bool stopping;
};

static void stop(struct run *run)
{
    pthread_mutex_lock(&run->mutex);
    run->stopping = true;
    if (run->query)
        mt_query_stop(run->query);
    pthread_mutex_unlock(&run->mutex);
    eventfd_write(run->stop_fd, 1);
    mt_outbox_hurry(run->outbox);
}

/* ---- the query's thread */

/* Lines in place of what a terminal shows of the waiting. */
static void print(void *ctx, const char *lines)
{
    struct run *run = ctx;
    char *text = mt_format("%s%s", run->request->terminal ? ERASE : "", lines);
    mt_outbox_put(run->outbox, text);
    free(text);
}

static void on_progress(void *ctx, const char *json, const char *human)
{
    struct run *run = ctx;
    char *line = mt_format("%s\n", run->request->json ? json : human);
    print(run, line);
    free(line);
    if (run->request->max_rows && mt_script_job_rows(run->job) >= run->request->max_rows)
        stop(run);
}

/* A place for a checkpoint that nobody asked for; the caller frees it and removes its folder. */
static char *temporary_checkpoint(struct mt_error *err)
{
    const char *tmp = getenv("TMPDIR");
    char *dir = mt_format("%s/moontide-XXXXXX", tmp && *tmp == '/' ? tmp : "/tmp");
    char *path = NULL;
    if (mkdtemp(dir))
        path = mt_format("%s/checkpoint", dir);
    else
        mt_fail(err, MT_FATAL, MT_CLASS_MACHINE, "cannot make a temporary folder %s: %s", dir,
                strerror(errno));
    free(dir);
    return path;
}

static void remove_temporary(char *checkpoint)
{
    if (!checkpoint)
        return;
    *strrchr(checkpoint, '/') = '\0';
    rmdir(checkpoint); /* the checkpoint in it went with its query */
    free(checkpoint);
}

static void set_query(struct run *run, struct mt_query *query)
{
    pthread_mutex_lock(&run->mutex);
    run->query = query;
    if (query && run->stopping)
        mt_query_stop(query);
    pthread_mutex_unlock(&run->mutex);
}

static void sleep_until(struct run *run, int64_t at_ms)
{
    struct pollfd fds[] = {{.fd = run->stop_fd, .events = POLLIN},
                           {.fd = mt_query_wake_fd(run->query), .events = POLLIN}};
    int64_t ms = at_ms - mt_clock_ms();
    poll(fds, 2, ms < 0 ? 0 : ms < 60000 ? (int)ms : 60000); /* the wall clock may be set back */
    eventfd_t count;
    eventfd_read(run->stop_fd, &count);
}

static enum mt_status step_to_the_end(struct run *run, struct mt_error *err)
{
    for (;;) {
        enum mt_turn turn;
        int64_t at_ms = 0;
        enum mt_status status = mt_query_step(run->query, mt_clock_ms(), &turn, &at_ms, err);
        if (status != MT_OK || turn == MT_TURN_ENDED)
            return status;
        mt_outbox_waits(run->outbox, turn == MT_TURN_WAIT ? mt_query_status(run->query) : "");
        if (turn == MT_TURN_WAIT)
            sleep_until(run, at_ms);
    }
}

static enum mt_status run_query(struct run *run, const struct mt_query_settings *settings,
                                struct mt_error *err)
{
    struct mt_query *query;
    enum mt_status status = mt_query_open(settings, &query, err);
    if (status != MT_OK)
        return status;
    set_query(run, query);
    status = step_to_the_end(run, err);
    set_query(run, NULL);
    mt_query_close(query);
    return status;
}

static void apply_request(struct run *run, struct mt_query_settings *settings)
{
    const struct mt_run_request *request = run->request;
    if (request->once)
        settings->trigger.kind = MT_TRIGGER_AVAILABLE_NOW;
    else if (request->interval_ms >= 0)
        settings->trigger = (struct mt_trigger){MT_TRIGGER_PROCESSING, request->interval_ms};
    settings->max_batches = request->max_batches;
    settings->on_progress = on_progress;
    settings->ctx = run;
}

static enum mt_status run_settings(struct run *run, struct mt_query_settings *settings,
                                   struct mt_error *err)
{
    if (settings->checkpoint)
        return run_query(run, settings, err);
    char *temporary = temporary_checkpoint(err);
    if (!temporary) {
        mt_sink_free(settings->sink);
        mt_source_free(settings->sources[0]);
        free(settings->sources);
        return MT_FATAL;
    }
    mt_log(MT_WARN, "no checkpointLocation: using a temporary one, the next start begins anew");
    settings->checkpoint = temporary;
    settings->temporary = true;
    enum mt_status status = run_query(run, settings, err);
    remove_temporary(temporary);
    return status;
}

static enum mt_status run_job(struct run *run, struct mt_error *err)
{
    enum mt_status status =
        mt_script_job_open(run->request->file, &run->request->set, &run->watch, &run->job, err);
    if (status != MT_OK)
        return status;
    struct mt_query_settings settings;
    mt_script_job_settings(run->job, &settings);
    apply_request(run, &settings);
    if (!run->request->json) /* else it is for JSON alone, see claim_output */
        settings.print = print;
    run->answer->format = mt_strdup(settings.sink->type->name);
    run->answer->path = settings.sink->path ? mt_strdup(settings.sink->path) : NULL;
    status = run_settings(run, &settings, err);
    run->answer->rows = mt_script_job_rows(run->job);
    return status;
}

static void *query_thread(void *arg)
{
    struct run *run = arg;
    struct mt_error *err = &run->answer->error;
    if (run_job(run, err) != MT_OK)
        run->answer->code = err->class_ ? (int)err->class_ : MT_CLASS_INTERNAL;
    mt_script_job_close(run->job);
    mt_outbox_finish(run->outbox);
    return NULL;
}

/* ---- the main thread */

struct screen {
    struct mt_buf pending; /* bytes for standard output */
    size_t sent;           /* of them */
    char waiting[256], shown[256];
    int64_t since_ms; /* that it waits for this */
    bool finished;
    int broken; /* exit code since a write failed; 0: none did */
};

/* Characters a line of the terminal holds. */
static int columns(int fd)
{
    struct winsize size;
    return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

/* "Waiting for data to arrive, 12 s": a line that the next one overwrites, so it must not be
 * longer than the terminal is wide. */
static void show_waiting(struct screen *screen, int width, int64_t now_ms)
{
    if (!*screen->waiting && !*screen->shown)
        return;
    if (strcmp(screen->waiting, screen->shown) != 0) {
        memcpy(screen->shown, screen->waiting, sizeof screen->shown);
        screen->since_ms = now_ms;
    }
    mt_buf_adds(&screen->pending, ERASE);
    if (!*screen->shown)
        return;
    char time[32];
    int room =
        width - 1 -
        snprintf(time, sizeof time, ", %lld s", (long long)(now_ms - screen->since_ms) / 1000);
    if (room < 3)
        return;
    bool cut = (int)strlen(screen->shown) > room;
    mt_buf_addf(&screen->pending, "%.*s%s%s\r", cut ? room - 3 : room, screen->shown,
                cut ? "..." : "", time);
}

/* Nobody reads any more, as behind `| head`: that is no trouble of this program, which ends
 * like every other there. */
static void give_up_output(struct screen *screen, struct run *run, int error)
{
    if (error == EPIPE)
        mt_log(MT_INFO, "standard output was closed by its reader: stopping after this batch");
    else
        mt_log(MT_ERROR, "standard output: %s; stopping after this batch", strerror(error));
    screen->broken = error == EPIPE ? 128 + SIGPIPE : MT_CLASS_MACHINE;
    stop(run);
}

static void write_some(struct screen *screen, struct run *run)
{
    size_t left = screen->pending.len - screen->sent;
    ssize_t n = (ssize_t)left;
    if (!screen->broken)
        n = write(run->out_fd, screen->pending.data + screen->sent,
                  left < WRITE_BYTES ? left : WRITE_BYTES);
    if (n >= 0) {
        screen->sent += (size_t)n;
        if (screen->sent == screen->pending.len)
            screen->sent = screen->pending.len = 0;
    } else if (errno != EINTR && errno != EAGAIN) {
        give_up_output(screen, run, errno);
    }
}

static void on_signal(struct run *run, int signal_fd)
{
    struct signalfd_siginfo info;
    if (read(signal_fd, &info, sizeof info) != sizeof info)
        return;
    const char *name = info.ssi_signo == SIGINT ? "interrupted" : "asked to end";
    pthread_mutex_lock(&run->mutex);
    bool again = run->stopping;
    pthread_mutex_unlock(&run->mutex);
    if (again) {
        mt_log(MT_WARN, "%s again: ended at once; a batch under way runs again at the next start",
               name);
        _exit(128 + (int)info.ssi_signo);
    }
    mt_log(MT_INFO, "%s: stopping after the batch under way; once more ends at once", name);
    stop(run);
}

/* One turn: waits for a signal, lines, room on standard output, or the next tick. Lines are
 * taken when those before are written: what a slow reader leaves stays in the outbox, which
 * is bounded. */
static void attend(struct run *run, struct screen *screen, int signal_fd)
{
    struct pollfd fds[] = {
        {.fd = signal_fd, .events = POLLIN},
        {.fd = screen->pending.len ? -1 : mt_outbox_fd(run->outbox), .events = POLLIN},
        {.fd = screen->pending.len ? run->out_fd : -1, .events = POLLOUT}};
    int n = poll(fds, 3, TICK_MS);
    if (fds[0].revents)
        on_signal(run, signal_fd);
    if (fds[2].revents)
        write_some(screen, run);
    if (fds[1].revents)
        screen->finished = mt_outbox_take(run->outbox, &screen->pending, screen->waiting);
    if (screen->pending.len)
        screen->shown[0] = '\0'; /* a batch came between: the waiting begins anew */
    int64_t now_ms = mt_clock_mono_us() / 1000;
    char text[512];
    if (mt_watch_ask(&run->watch, now_ms, text, sizeof text))
        mt_log(MT_WARN, "%s", text);
    bool due = n == 0 || fds[1].revents;
    if (run->request->terminal && due && !screen->finished && !screen->pending.len)
        show_waiting(screen, columns(run->out_fd), now_ms);
}

static void attend_to_the_end(struct run *run, int signal_fd)
{
    struct screen screen = {0};
    int64_t end_us = mt_clock_mono_us() + run->request->max_ms * 1000;
    bool timed = run->request->max_ms > 0;
    while (!screen.finished || screen.pending.len) {
        attend(run, &screen, signal_fd);
        if (timed && mt_clock_mono_us() >= end_us) {
            timed = false;
            stop(run);
        }
    }
    if (*screen.shown && write(run->out_fd, ERASE, strlen(ERASE)) < 0)
        give_up_output(&screen, run, errno);
    if (!run->answer->code)
        run->answer->code = screen.broken;
    mt_buf_free(&screen.pending);
}

/* With --json, standard output is for JSON alone: whoever else writes to it (a console sink, a
 * job's io.write) comes out on standard error. */
static void claim_output(struct run *run)
{
    fflush(stdout);
    int copy = run->request->json ? fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3) : -1;
    run->out_fd = copy < 0 ? STDOUT_FILENO : copy;
    if (copy >= 0)
        dup2(STDERR_FILENO, STDOUT_FILENO);
}

static void release_output(struct run *run)
{
    fflush(stdout);
    if (run->out_fd == STDOUT_FILENO)
        return;
    dup2(run->out_fd, STDOUT_FILENO);
    close(run->out_fd);
}

void mt_script_run(const struct mt_run_request *request, struct mt_run_answer *answer)
{
    struct run run = {.request = request, .answer = answer};
    *answer = (struct mt_run_answer){0};
    sigset_t ours, before;
    sigemptyset(&ours);
    sigaddset(&ours, SIGINT);
    sigaddset(&ours, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &ours, &before); /* every later thread inherits it */
    signal(SIGPIPE, SIG_IGN);
    claim_output(&run);

    int signal_fd = signalfd(-1, &ours, SFD_CLOEXEC | SFD_NONBLOCK);
    run.stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    run.outbox = mt_outbox_new();
    mt_watch_init(&run.watch);
    pthread_mutex_init(&run.mutex, NULL);
    pthread_t thread;
    /* Without one of these the run would be deaf, to signals too. */
    bool handles = signal_fd >= 0 && run.stop_fd >= 0 && mt_outbox_fd(run.outbox) >= 0;
    int failed = handles ? pthread_create(&thread, NULL, query_thread, &run) : EMFILE;
    if (failed) {
        mt_fail(&answer->error, MT_FATAL, MT_CLASS_MACHINE, "the run cannot start: %s",
                strerror(failed));
        answer->code = MT_CLASS_MACHINE;
    } else {
        attend_to_the_end(&run, signal_fd);
        pthread_join(thread, NULL);
    }

    release_output(&run);
    pthread_mutex_destroy(&run.mutex);
    mt_watch_deinit(&run.watch);
    mt_outbox_free(run.outbox);
    close(run.stop_fd);
    close(signal_fd);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}
