/* SPDX-License-Identifier: Apache-2.0
 *
 * base_suggest.c - "did you mean": the nearest of the names there are.
 *
 * Distance is the number of edits (insert, delete, replace, swap of neighbours),
 * without case. Near means at most a third of the word's length, so that a short
 * word does not suggest anything at random; a name that the word merely shortens
 * ("bootstrap.servers" for "kafka.bootstrap.servers") is near too. */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "base/base.h"

enum { LONGEST = 64 }; /* names longer than this are nobody's typo */

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static bool same(char a, char b)
{
    return tolower((unsigned char)a) == tolower((unsigned char)b);
}

/* Optimal string alignment over three rows of the usual table. */
static size_t distance(const char *a, size_t a_len, const char *b, size_t b_len)
{
    size_t rows[3][LONGEST + 1];
    for (size_t j = 0; j <= b_len; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= a_len; i++) {
        size_t *now = rows[i % 3], *before = rows[(i + 2) % 3], *earlier = rows[(i + 1) % 3];
        now[0] = i;
        for (size_t j = 1; j <= b_len; j++) {
            size_t replaced = before[j - 1] + !same(a[i - 1], b[j - 1]);
            now[j] = least(replaced, least(before[j], now[j - 1]) + 1);
            if (i > 1 && j > 1 && same(a[i - 1], b[j - 2]) && same(a[i - 2], b[j - 1]))
                now[j] = least(now[j], earlier[j - 2] + 1);
        }
    }
    return rows[a_len % 3][b_len];
}

static bool is_tail(const char *word, size_t len, const char *name, size_t name_len)
{
    return len >= 4 && name_len > len && name[name_len - len - 1] == '.' &&
           strcasecmp(name + name_len - len, word) == 0;
}

const char *mt_suggest(const char *word, const char *const *names)
{
    size_t len = strlen(word);
    if (len > LONGEST)
        return NULL;
    const char *nearest = NULL;
    size_t limit = len / 3 + 1; /* the first distance that is too far */
    limit = limit < 2 ? 2 : limit;
    for (; *names; names++) {
        size_t name_len = strlen(*names);
        if (name_len > LONGEST)
            continue;
        if (is_tail(word, len, *names, name_len))
            return *names;
        size_t d = distance(word, len, *names, name_len);
        if (d < limit && d < name_len) {
            limit = d;
            nearest = *names;
        }
    }
    return nearest;
}
