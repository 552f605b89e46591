/* SPDX-License-Identifier: Apache-2.0
 *
 * base_log.c - the log: one write a line to standard error, so that lines of several
 * threads never mix. The query and batch of a line come from its thread, so that no
 * room has to know them to log. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"

static _Atomic int least_level = MT_INFO;
static _Atomic bool erases;
static _Thread_local char query_name[128];
static _Thread_local int64_t query_batch = -1;

void mt_log_level(enum mt_level least)
{
    atomic_store(&least_level, (int)least);
}

void mt_log_erases(bool on)
{
    atomic_store(&erases, on);
}

void mt_log_context(const char *query, int64_t batch_id)
{
    snprintf(query_name, sizeof query_name, "%s", query ? query : "");
    query_batch = batch_id;
}

static void add_head(struct mt_buf *line, enum mt_level level)
{
    static const char *const names[] = {"DEBUG", "INFO", "WARN", "ERROR"};
    char stamp[32];
    struct timespec now;
    struct tm parts;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &parts);
    strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &parts);
    mt_buf_addf(line, "%s.%03ldZ %-5s ", stamp, now.tv_nsec / 1000000, names[level]);
    if (query_name[0])
        mt_buf_addf(line, "[%s] ", query_name);
    if (query_batch >= 0)
        mt_buf_addf(line, "batch %lld: ", (long long)query_batch);
}

void mt_log_text(enum mt_level level, const char *text)
{
    if ((int)level < atomic_load(&least_level))
        return;
    struct mt_buf line = {0};
    char *masked = mt_strdup(text);
    mt_mask(masked, strlen(masked));
    mt_buf_adds(&line, atomic_load(&erases) ? MT_ERASE : "");
    add_head(&line, level);
    for (const char *p = masked; *p; p++) {
        if (*p == '\n')
            mt_buf_adds(&line, "\\n");
        else
            mt_buf_add(&line, p, 1);
    }
    mt_buf_adds(&line, "\n");
    ssize_t unheeded = write(STDERR_FILENO, line.data, line.len);
    (void)unheeded; /* nowhere left to complain */
    mt_buf_free(&line);
    free(masked);
}

void mt_log(enum mt_level level, const char *fmt, ...)
{
    if ((int)level < atomic_load(&least_level))
        return;
    va_list args;
    char *text;
    va_start(args, fmt);
    int len = vasprintf(&text, fmt, args);
    va_end(args);
    if (len < 0)
        return;
    mt_log_text(level, text);
    free(text);
}
