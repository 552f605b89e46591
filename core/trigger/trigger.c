/* SPDX-License-Identifier: Apache-2.0
 *
 * trigger.c - when a batch starts.
 *
 * Time is an argument and state is a value, so a test moves the clock by adding to
 * it. The grid of processingTime is counted from 1970, not from the start of the
 * run: two queries of one interval tick together, and a restart does not shift the
 * ticks. The next tick is set when a batch starts. So a batch that outlasts its
 * interval is followed at once by one other batch, not by one for every tick it
 * slept through, and the one after that is on the grid again. */
#include "trigger/trigger.h"

#include <stdio.h>

static bool on_grid(const struct mt_trigger *trigger)
{
    return trigger->kind == MT_TRIGGER_PROCESSING && trigger->interval_ms > 0;
}

/* The first multiple of interval above now; INT64_MAX when there is none. */
static int64_t tick_after(int64_t now_ms, int64_t interval_ms)
{
    int64_t past = now_ms % interval_ms, next;
    if (past < 0)
        past += interval_ms;
    return __builtin_add_overflow(now_ms, interval_ms - past, &next) ? INT64_MAX : next;
}

enum mt_trigger_answer mt_trigger_ask(const struct mt_trigger *trigger,
                                      const struct mt_trigger_state *state, int64_t now_ms,
                                      int64_t *at_ms)
{
    *at_ms = now_ms;
    if (trigger->kind == MT_TRIGGER_AVAILABLE_NOW || trigger->kind == MT_TRIGGER_ONCE)
        return state->drained ? MT_TRIGGER_END : MT_TRIGGER_FIRE;
    if (!on_grid(trigger) || !state->started || state->more || now_ms >= state->next_ms)
        return MT_TRIGGER_FIRE;
    /* more than an interval to go: the clock was set back behind the last start */
    if ((uint64_t)state->next_ms - (uint64_t)now_ms > (uint64_t)trigger->interval_ms)
        return MT_TRIGGER_FIRE;
    *at_ms = state->next_ms;
    return MT_TRIGGER_WAIT;
}

void mt_trigger_started(const struct mt_trigger *trigger, struct mt_trigger_state *state,
                        int64_t now_ms)
{
    state->started = true;
    state->more = false;
    if (on_grid(trigger))
        state->next_ms = tick_after(now_ms, trigger->interval_ms);
}

bool mt_trigger_behind(const struct mt_trigger *trigger, int64_t spent_ms, char *text, size_t cap)
{
    if (!on_grid(trigger) || spent_ms <= trigger->interval_ms)
        return false;
    snprintf(text, cap,
             "Current batch is falling behind. The trigger interval is %lld milliseconds, "
             "but spent %lld milliseconds",
             (long long)trigger->interval_ms, (long long)spent_ms);
    return true;
}
