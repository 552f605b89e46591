/* SPDX-License-Identifier: Apache-2.0
 *
 * base_clock.c - the only two clocks. Everything below main and the query's thread
 * is given `now`, so that tests move time instead of waiting for it. */
#include <time.h>

#include "base/base.h"

int64_t mt_clock_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int64_t mt_clock_mono_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}
