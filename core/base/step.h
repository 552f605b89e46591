/* SPDX-License-Identifier: Apache-2.0
 *
 * step.h - the named steps of a batch, for tests that kill the process at each.
 * `moontide` links step_none.c (nothing happens); `moontide-steps` links
 * step_kill.c, where MOONTIDE_KILL="<step>[:<batch>][#<n>]" raises SIGKILL on arrival (the
 * n-th), and MOONTIDE_FAIL="<step>[:<batch>][=errno]" makes mt_step_fails true. */
#ifndef MT_STEP_H
#define MT_STEP_H
#include "base/base.h"
#ifdef __cplusplus
extern "C" {
#endif
void mt_step(const char *name, int64_t batch_id);
/* The errno that a test wants here, or 0. Asked just before the real call. */
int mt_step_fails(const char *name, int64_t batch_id);
#ifdef __cplusplus
}
#endif
#endif
