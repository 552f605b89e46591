/* SPDX-License-Identifier: Apache-2.0
 *
 * base_int.h - what the files of base/ share. */
#ifndef MT_BASE_INT_H
#define MT_BASE_INT_H
#include "base/base.h"

/* Bytes of the UTF-8 character that starts at p (1..4), or 0 when none does. */
size_t mt_utf8_char(const uint8_t *p, size_t len);
#endif
