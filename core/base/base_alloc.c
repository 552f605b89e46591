/* SPDX-License-Identifier: Apache-2.0
 *
 * base_alloc.c - memory that is there, or no process.
 *
 * A failed small allocation cannot be handled better than by a restart: Linux
 * overcommits, so it is seen only when the machine is past saving, and every
 * caller's recovery path would be code that never ran. The protocol survives a kill
 * at any point, so the process says why and ends. Memory that grows with the data
 * is bounded elsewhere, by the batch. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"

static _Noreturn void out_of_memory(size_t size)
{
    fprintf(stderr,
            "moontide: out of memory: %zu bytes more were refused. Give the process more, or "
            "smaller batches (maxOffsetsPerTrigger, maxBatchBytes); the last commit stands.\n",
            size);
    _exit(MT_CLASS_MACHINE);
}

void *mt_alloc(size_t size)
{
    void *p = calloc(1, size ? size : 1);
    if (!p)
        out_of_memory(size);
    return p;
}

void *mt_realloc(void *p, size_t size)
{
    p = realloc(p, size ? size : 1);
    if (!p)
        out_of_memory(size);
    return p;
}

void mt_free(void *p)
{
    free(p);
}

char *mt_strdup(const char *s)
{
    return mt_strndup(s, strlen(s));
}

char *mt_strndup(const char *s, size_t n)
{
    size_t len = strnlen(s, n);
    char *copy = mt_realloc(NULL, len + 1);
    memcpy(copy, s, len);
    copy[len] = '\0';
    return copy;
}

char *mt_format(const char *fmt, ...)
{
    va_list args;
    char *text;
    va_start(args, fmt);
    int len = vasprintf(&text, fmt, args);
    va_end(args);
    if (len < 0)
        out_of_memory(strlen(fmt));
    return text;
}
