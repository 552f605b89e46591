/* SPDX-License-Identifier: Apache-2.0
 *
 * step_kill.c - the steps of a batch under test: dies, or fails a call, where the
 * environment says so (step.h). Read on every call, so that a test in the same
 * process can change its mind. */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/step.h"

/* A rule is "name" or "name:batch", then maybe "#n" or "=errno". Sets what they say. */
static bool matches(const char *rule, const char *name, int64_t batch_id, int *number)
{
    size_t len = strlen(name);
    if (!rule || strncmp(rule, name, len) != 0)
        return false;
    rule += len;
    if (*rule == ':') {
        char *end;
        if (strtoll(rule + 1, &end, 10) != batch_id)
            return false;
        rule = end;
    }
    if (*rule == '=' || *rule == '#')
        *number = atoi(rule + 1);
    return *rule == '\0' || *rule == '=' || *rule == '#';
}

void mt_step(const char *name, int64_t batch_id)
{
    static atomic_int arrivals;
    int wanted = 1;
    if (matches(getenv("MOONTIDE_KILL"), name, batch_id, &wanted) &&
        atomic_fetch_add(&arrivals, 1) + 1 == wanted)
        raise(SIGKILL);
}

int mt_step_fails(const char *name, int64_t batch_id)
{
    int error = ENOSPC;
    return matches(getenv("MOONTIDE_FAIL"), name, batch_id, &error) ? error : 0;
}
