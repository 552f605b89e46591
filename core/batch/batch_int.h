/* SPDX-License-Identifier: Apache-2.0
 *
 * batch_int.h - what the files of batch/ share. */
#ifndef MT_BATCH_INT_H
#define MT_BATCH_INT_H
#include "batch/batch.h"

/* A field that owns copies of format and name, and has room for n_children, each
 * released (all zero) until the caller fills it. */
void mt_schema_make(const char *format, const char *name, bool nullable, int64_t n_children,
                    struct ArrowSchema *out);
#endif
