/* SPDX-License-Identifier: Apache-2.0
 *
 * script_run.c - runs one job: each query on a thread of its own, signals and standard output
 * on this one.
 *
 *   main thread                      a query's thread
 *   signals ──── stop, load again ─► load, open, { reload, step, sleep }, close
 *   stdout  ◄─── outbox ──────────── progress lines, "waiting for …"
 *   once a second: watch ◄────────── in and out of the script
 *
 * A thread beside the queries', because Lua cannot be interrupted: a script that hangs must not
 * keep a second signal from ending the process. And this one never blocks in a write either: it
 * writes what poll(2) says fits. The first signal only asks: batches under way are finished. */
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
#include <sys/stat.h>
#include <unistd.h>

#include "script/script_run.h"

#define TICK_MS 1000
#define WRITE_BYTES 4096 /* what a pipe takes at once when poll says it is writable */

void mt_run_stop(struct mt_running *running)
{
    pthread_mutex_lock(&running->mutex);
    running->stopping = true;
    for (int64_t i = 0; i < running->n_workers; i++) {
        struct mt_worker *worker = running->workers[i];
        if (worker->query)
            mt_query_stop(worker->query);
        eventfd_write(worker->wake_fd, 1);
    }
    pthread_mutex_unlock(&running->mutex);
    mt_outbox_hurry(running->outbox);
}

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
    mt_buf_adds(&screen->pending, MT_ERASE);
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
static void give_up_output(struct screen *screen, struct mt_running *running, int error)
{
    if (error == EPIPE)
        mt_log(MT_INFO, "standard output was closed by its reader: stopping after this batch");
    else
        mt_log(MT_ERROR, "standard output: %s; stopping after this batch", strerror(error));
    screen->broken = error == EPIPE ? 128 + SIGPIPE : MT_CLASS_MACHINE;
    mt_run_stop(running);
}

static void write_some(struct screen *screen, struct mt_running *running)
{
    size_t left = screen->pending.len - screen->sent;
    ssize_t n = (ssize_t)left;
    if (!screen->broken)
        n = write(running->out_fd, screen->pending.data + screen->sent,
                  left < WRITE_BYTES ? left : WRITE_BYTES);
    if (n >= 0) {
        screen->sent += (size_t)n;
        if (screen->sent == screen->pending.len)
            screen->sent = screen->pending.len = 0;
    } else if (errno != EINTR && errno != EAGAIN) {
        give_up_output(screen, running, errno);
    }
}

static void ask_for_reload(struct mt_running *running)
{
    if (running->request->no_reload) {
        mt_log(MT_WARN, "SIGHUP: nothing is loaded again under --no-reload");
        return;
    }
    pthread_mutex_lock(&running->mutex);
    for (int64_t i = 0; i < running->n_workers; i++) {
        running->workers[i]->asked = true;
        eventfd_write(running->workers[i]->wake_fd, 1);
    }
    pthread_mutex_unlock(&running->mutex);
}

static void on_signal(struct mt_running *running, int signal_fd)
{
    struct signalfd_siginfo info;
    if (read(signal_fd, &info, sizeof info) != sizeof info)
        return;
    if (info.ssi_signo == SIGHUP) {
        ask_for_reload(running);
        return;
    }
    const char *name = info.ssi_signo == SIGINT ? "interrupted" : "asked to end";
    pthread_mutex_lock(&running->mutex);
    bool again = running->stopping;
    pthread_mutex_unlock(&running->mutex);
    if (again) {
        mt_log(MT_WARN, "%s again: ended at once; a batch under way runs again at the next start",
               name);
        _exit(128 + (int)info.ssi_signo);
    }
    mt_log(MT_INFO, "%s: stopping after the batch under way; once more ends at once", name);
    mt_run_stop(running);
}

static void watch_scripts(struct mt_running *running, int64_t now_ms)
{
    char text[512];
    pthread_mutex_lock(&running->mutex);
    for (int64_t i = 0; i < running->n_workers; i++) {
        struct mt_worker *worker = running->workers[i];
        if (mt_watch_ask(&worker->watch, now_ms, text, sizeof text))
            mt_log(MT_WARN, "%s", text);
        if (worker->load && mt_watch_ask(mt_load_watch(worker->load), now_ms, text, sizeof text))
            mt_log(MT_WARN, "%s; the script that runs goes on", text);
    }
    pthread_mutex_unlock(&running->mutex);
}

/* One turn: waits for a signal, lines, room on standard output, or the next tick. Lines are
 * taken when those before are written: what a slow reader leaves stays in the outbox, which
 * is bounded. */
static void attend(struct mt_running *running, struct screen *screen, int signal_fd)
{
    struct pollfd fds[] = {
        {.fd = signal_fd, .events = POLLIN},
        {.fd = screen->pending.len ? -1 : mt_outbox_fd(running->outbox), .events = POLLIN},
        {.fd = screen->pending.len ? running->out_fd : -1, .events = POLLOUT}};
    int n = poll(fds, 3, TICK_MS);
    if (fds[0].revents)
        on_signal(running, signal_fd);
    if (fds[2].revents)
        write_some(screen, running);
    if (fds[1].revents)
        screen->finished = mt_outbox_take(running->outbox, &screen->pending, screen->waiting);
    if (screen->pending.len)
        screen->shown[0] = '\0'; /* a batch came between: the waiting begins anew */
    int64_t now_ms = mt_clock_mono_us() / 1000;
    watch_scripts(running, now_ms);
    bool due = n == 0 || fds[1].revents;
    if (running->request->terminal && due && !screen->finished && !screen->pending.len)
        show_waiting(screen, columns(running->out_fd), now_ms);
}

static void attend_to_the_end(struct mt_running *running, int signal_fd)
{
    struct screen screen = {0};
    int64_t end_us = mt_clock_mono_us() + running->request->max_ms * 1000;
    bool timed = running->request->max_ms > 0;
    while (!screen.finished || screen.pending.len) {
        attend(running, &screen, signal_fd);
        if (timed && mt_clock_mono_us() >= end_us) {
            timed = false;
            mt_run_stop(running);
        }
    }
    if (*screen.shown && write(running->out_fd, MT_ERASE, strlen(MT_ERASE)) < 0)
        give_up_output(&screen, running, errno);
    if (!running->answer->code)
        running->answer->code = screen.broken;
    mt_buf_free(&screen.pending);
}

/* With --json, standard output is for JSON alone: whoever else writes to it (a console sink, a
 * job's io.write) comes out on standard error. */
static void claim_output(struct mt_running *running)
{
    fflush(stdout);
    int copy = running->request->json ? fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3) : -1;
    running->out_fd = copy < 0 ? STDOUT_FILENO : copy;
    if (copy >= 0)
        dup2(STDERR_FILENO, STDOUT_FILENO);
}

/* Whether what is logged comes out on the terminal that shows the waiting. */
static bool logs_beside_the_waiting(const struct mt_running *running)
{
    struct stat out, log;
    return running->request->terminal && isatty(STDERR_FILENO) &&
           fstat(running->out_fd, &out) == 0 && fstat(STDERR_FILENO, &log) == 0 &&
           out.st_rdev == log.st_rdev;
}

static void release_output(struct mt_running *running)
{
    fflush(stdout);
    if (running->out_fd == STDOUT_FILENO)
        return;
    dup2(running->out_fd, STDOUT_FILENO);
    close(running->out_fd);
}

void mt_script_run(const struct mt_run_request *request, struct mt_run_answer *answer)
{
    struct mt_running running = {.request = request, .answer = answer};
    *answer = (struct mt_run_answer){0};
    sigset_t ours, before;
    sigemptyset(&ours);
    sigaddset(&ours, SIGINT);
    sigaddset(&ours, SIGTERM);
    sigaddset(&ours, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &ours, &before); /* every later thread inherits it */
    signal(SIGPIPE, SIG_IGN);
    claim_output(&running);
    mt_log_erases(logs_beside_the_waiting(&running));

    int signal_fd = signalfd(-1, &ours, SFD_CLOEXEC | SFD_NONBLOCK);
    running.outbox = mt_outbox_new();
    pthread_mutex_init(&running.mutex, NULL);
    pthread_t thread;
    /* Without one of these the run would be deaf, to signals too. */
    bool handles = signal_fd >= 0 && mt_outbox_fd(running.outbox) >= 0;
    int failed = handles ? pthread_create(&thread, NULL, mt_run_thread, &running) : EMFILE;
    if (failed) {
        mt_fail(&answer->error, MT_FATAL, MT_CLASS_MACHINE, "the run cannot start: %s",
                strerror(failed));
        answer->code = MT_CLASS_MACHINE;
    } else {
        attend_to_the_end(&running, signal_fd);
        pthread_join(thread, NULL);
    }

    mt_log_erases(false);
    release_output(&running);
    mt_workers_free(&running);
    pthread_mutex_destroy(&running.mutex);
    mt_outbox_free(running.outbox);
    close(signal_fd);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void mt_run_answer_clear(struct mt_run_answer *answer)
{
    for (int64_t i = 0; i < answer->n_sinks; i++) {
        free(answer->sinks[i].format);
        free(answer->sinks[i].path);
    }
    free(answer->sinks);
}
