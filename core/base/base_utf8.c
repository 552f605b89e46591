/* SPDX-License-Identifier: Apache-2.0
 *
 * base_utf8.c - is it UTF-8? Table 3-7 of the Unicode standard, as comparisons.
 *
 * Overlong forms, surrogates and code points past U+10FFFF are refused: readers
 * of Parquet and JSON disagree on what these mean, so they must not get that far. */
#include <string.h>

#include "base_int.h"

static bool continues(uint8_t byte)
{
    return (byte & 0xc0) == 0x80;
}

static size_t three(const uint8_t *p)
{
    bool overlong = p[0] == 0xe0 && p[1] < 0xa0;
    bool surrogate = p[0] == 0xed && p[1] >= 0xa0;
    return continues(p[1]) && continues(p[2]) && !overlong && !surrogate ? 3 : 0;
}

static size_t four(const uint8_t *p)
{
    bool overlong = p[0] == 0xf0 && p[1] < 0x90;
    bool beyond = p[0] == 0xf4 && p[1] >= 0x90;
    return continues(p[1]) && continues(p[2]) && continues(p[3]) && !overlong && !beyond ? 4 : 0;
}

size_t mt_utf8_char(const uint8_t *p, size_t len)
{
    if (len == 0)
        return 0;
    if (p[0] < 0x80)
        return 1;
    if (p[0] >= 0xc2 && p[0] <= 0xdf)
        return len >= 2 && continues(p[1]) ? 2 : 0;
    if ((p[0] & 0xf0) == 0xe0)
        return len >= 3 ? three(p) : 0;
    if (p[0] >= 0xf0 && p[0] <= 0xf4)
        return len >= 4 ? four(p) : 0;
    return 0;
}

bool mt_utf8_valid(const void *bytes, size_t len)
{
    const uint8_t *p = bytes;
    size_t at = 0;
    while (at < len) {
        uint64_t eight;
        if (len - at >= 8 && (memcpy(&eight, p + at, 8), !(eight & 0x8080808080808080ULL))) {
            at += 8;
            continue;
        }
        size_t n = mt_utf8_char(p + at, len - at);
        if (n == 0)
            return false;
        at += n;
    }
    return true;
}
