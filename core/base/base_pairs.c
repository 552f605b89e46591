/* SPDX-License-Identifier: Apache-2.0
 *
 * base_pairs.c - keys with values in the order they were set. Lists are short (tens),
 * so a look-up is a walk; keys compare without case, as Spark's options do. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/base.h"

void mt_pairs_add(struct mt_pairs *pairs, const char *key, const char *value)
{
    mt_pairs_add_secret(pairs, key, value, NULL);
}

void mt_pairs_add_secret(struct mt_pairs *pairs, const char *key, const char *value,
                         const char *secret)
{
    if ((pairs->n & (pairs->n - 1)) == 0) { /* full at each power of two */
        size_t cap = pairs->n ? pairs->n * 2 : 1;
        pairs->items = mt_realloc(pairs->items, cap * sizeof *pairs->items);
    }
    pairs->items[pairs->n++] =
        (struct mt_pair){mt_strdup(key), mt_strdup(value), secret ? mt_strdup(secret) : NULL};
}

const char *mt_pairs_get(const struct mt_pairs *pairs, const char *key)
{
    for (size_t i = pairs->n; i-- > 0;)
        if (strcasecmp(pairs->items[i].key, key) == 0)
            return pairs->items[i].value;
    return NULL;
}

void mt_pairs_free(struct mt_pairs *pairs)
{
    for (size_t i = 0; i < pairs->n; i++) {
        free(pairs->items[i].key);
        free(pairs->items[i].value);
        free(pairs->items[i].secret);
    }
    free(pairs->items);
    *pairs = (struct mt_pairs){0};
}
