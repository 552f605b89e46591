/* SPDX-License-Identifier: Apache-2.0
 *
 * batch_int.h - what the files of batch/ share. */
#ifndef MT_BATCH_INT_H
#define MT_BATCH_INT_H
#include "batch/batch.h"

enum { MT_TEXT_PADDING = 64 }; /* bytes readable behind STRING and BINARY data */

/* A field that owns copies of format and name, and has room for n_children, each
 * released (all zero) until the caller fills it. */
void mt_schema_make(const char *format, const char *name, bool nullable, int64_t n_children,
                    struct ArrowSchema *out);

/* An array of our own. Takes buffers (malloc'ed; [0] is validity and may be NULL;
 * no other may be) and moves children into it. */
void mt_array_make(int64_t length, int64_t null_count, void *const *buffers, int64_t n_buffers,
                   struct ArrowArray *children, int64_t n_children, struct ArrowArray *out);
/* Bytes of one value of a fixed width type; 0 for BOOLEAN and all others. */
size_t mt_type_width(enum mt_type type);
static inline bool mt_bit(const void *bits, int64_t i)
{
    return ((const uint8_t *)bits)[i >> 3] >> (i & 7) & 1;
}
#endif
