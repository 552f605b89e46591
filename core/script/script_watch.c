/* SPDX-License-Identifier: Apache-2.0
 *
 * script_watch.c - tells when a script does not come back.
 *
 * A compiled Lua loop takes no count hook and C matchers take none at all, so a script that
 * hangs cannot be stopped from inside: the second signal ends the process. What can be done
 * is to say, once, where it hangs. The batch is read under the lock that leaving takes, so it
 * is still there; the step counters are the script's own and may be half a step behind. */
#include <inttypes.h>
#include <stdio.h>

#include "script/script_int.h"

#define PATIENCE_MS 10000

void mt_watch_init(struct mt_watch *watch)
{
    *watch = (struct mt_watch){0};
    pthread_mutex_init(&watch->mutex, NULL);
}

void mt_watch_deinit(struct mt_watch *watch)
{
    pthread_mutex_destroy(&watch->mutex);
}

void mt_watch_enter(struct mt_watch *watch, const char *query, const struct mt_run *run,
                    int64_t now_ms)
{
    pthread_mutex_lock(&watch->mutex);
    watch->query = query;
    watch->entered_ms = now_ms;
    watch->run = run;
    watch->told = false;
    pthread_mutex_unlock(&watch->mutex);
}

void mt_watch_leave(struct mt_watch *watch)
{
    mt_watch_enter(watch, NULL, NULL, 0);
}

static void describe(const struct mt_watch *watch, int64_t now_ms, char *text, size_t cap)
{
    const struct mt_run *run = watch->run;
    int64_t s = (now_ms - watch->entered_ms) / 1000;
    if (!run) {
        snprintf(text, cap, "the job file has been loading for %" PRId64 " s", s);
        return;
    }
    int64_t n = run->n_steps;
    const char *step = n > 0 && n <= run->max_steps ? run->steps[n - 1].name : NULL;
    snprintf(text, cap,
             "%s%sbatch %" PRId64 " has been inside the script for %" PRId64 " s%s%s; if it hangs, "
             "interrupt twice: the batch is not committed and runs again after a restart",
             watch->query ? watch->query : "", watch->query ? ": " : "", run->batch_id, s,
             step ? ", last step begun: " : "", step ? step : "");
}

bool mt_watch_ask(struct mt_watch *watch, int64_t now_ms, char *text, size_t cap)
{
    pthread_mutex_lock(&watch->mutex);
    bool tell = watch->entered_ms && !watch->told && now_ms - watch->entered_ms >= PATIENCE_MS;
    if (tell) {
        watch->told = true;
        describe(watch, now_ms, text, cap);
    }
    pthread_mutex_unlock(&watch->mutex);
    return tell;
}
