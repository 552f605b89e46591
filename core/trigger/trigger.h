/* SPDX-License-Identifier: Apache-2.0
 *
 * trigger.h - when a batch starts: pure functions of (trigger, state, now).
 * Semantics: Spark's TriggerExecutor (a grid counted from 1970 UTC). */
#ifndef MT_TRIGGER_H
#define MT_TRIGGER_H

#include "base/base.h"

enum mt_trigger_kind {
    MT_TRIGGER_DEFAULT,       /* at once after the last one */
    MT_TRIGGER_PROCESSING,    /* every interval_ms, on the grid */
    MT_TRIGGER_AVAILABLE_NOW, /* what is there at start, within limits, then end */
    MT_TRIGGER_ONCE,          /* one batch of what is there at start, limits ignored */
};

struct mt_trigger {
    enum mt_trigger_kind kind;
    int64_t interval_ms; /* PROCESSING; 0 is the same as DEFAULT */
};

#ifndef MT_CDEF
/* What has happened so far; {0} at the start of a run. */
struct mt_trigger_state {
    bool started;    /* some trigger has fired in this run */
    int64_t next_ms; /* PROCESSING: the tick that the last start set */
    bool more;       /* the last batch was cut by a limit of ours: go on at once */
    bool drained;    /* AVAILABLE_NOW, ONCE: the target is reached */
};

enum mt_trigger_answer { MT_TRIGGER_FIRE, MT_TRIGGER_WAIT, MT_TRIGGER_END };

/* FIRE: start now. WAIT: look again at *at_ms (> now). END: the run is over. */
enum mt_trigger_answer mt_trigger_ask(const struct mt_trigger *trigger,
                                      const struct mt_trigger_state *state, int64_t now_ms,
                                      int64_t *at_ms);
/* Notes a start at now_ms; `more` is used up. */
void mt_trigger_started(const struct mt_trigger *trigger, struct mt_trigger_state *state,
                        int64_t now_ms);
/* Spark's warning text when a batch took longer than the interval, else false. */
bool mt_trigger_behind(const struct mt_trigger *trigger, int64_t spent_ms, char *text, size_t cap);
/* "10 seconds", "1 minute", "500 milliseconds", "2 hours 5 minutes", "1.5 seconds": Spark's
 * interval text. Refuses negatives, months and years by name, and what is not a whole
 * number of milliseconds. */
enum mt_status mt_trigger_parse_interval(const char *text, int64_t *ms,
                                         struct mt_error *err) MT_NODISCARD;
#else
enum mt_status mt_trigger_parse_interval(const char *text, int64_t *ms, struct mt_error *err);
#endif
#endif
