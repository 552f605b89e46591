/* SPDX-License-Identifier: Apache-2.0
 *
 * base_mask.c - secrets that must not be read in what goes out: the log, errors, what is shown.
 *
 * They are kept for the process and not for the job that gave them: an error of a database driver
 * comes from far below the script, in another thread, and may repeat what the driver was given. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

static const char stars[] = "***";
enum { STARS = sizeof stars - 1, LEAST = STARS + 1 };

struct hidden {
    char *bytes;
    size_t len;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct hidden *all; /* the longest first: one may be a part of another */
static size_t n_all;

static bool is_hidden(const char *secret, size_t len)
{
    for (size_t i = 0; i < n_all; i++)
        if (all[i].len == len && memcmp(all[i].bytes, secret, len) == 0)
            return true;
    return false;
}

void mt_mask_add(const char *secret, size_t len)
{
    if (len < LEAST)
        return;
    pthread_mutex_lock(&mutex);
    if (!is_hidden(secret, len)) {
        all = mt_realloc(all, (n_all + 1) * sizeof *all);
        size_t at = n_all++;
        for (; at > 0 && all[at - 1].len < len; at--)
            all[at] = all[at - 1];
        all[at] = (struct hidden){mt_strndup(secret, len), len};
    }
    pthread_mutex_unlock(&mutex);
}

static size_t mask_one(char *text, size_t len, const struct hidden *hidden)
{
    char *at = text;
    while ((at = memmem(at, len - (size_t)(at - text), hidden->bytes, hidden->len))) {
        char *rest = at + hidden->len;
        memcpy(at, stars, STARS);
        memmove(at + STARS, rest, len - (size_t)(rest - text) + 1);
        len -= hidden->len - STARS;
        at += STARS;
    }
    return len;
}

size_t mt_mask(char *text, size_t len)
{
    pthread_mutex_lock(&mutex);
    for (size_t i = 0; i < n_all; i++)
        len = mask_one(text, len, &all[i]);
    pthread_mutex_unlock(&mutex);
    return len;
}
