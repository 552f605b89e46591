/* SPDX-License-Identifier: Apache-2.0
 *
 * step_none.c - the steps of a batch in the shipped program: nothing happens. */
#include "base/step.h"

void mt_step(const char *name, int64_t batch_id)
{
    (void)name;
    (void)batch_id;
}

int mt_step_fails(const char *name, int64_t batch_id)
{
    (void)name;
    (void)batch_id;
    return 0;
}
