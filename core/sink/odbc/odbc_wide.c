/* SPDX-License-Identifier: Apache-2.0
 *
 * odbc_wide.c - UTF-8 to the UTF-16 of ODBC's wide calls, and back.
 *
 * Through the plain calls the driver manager would turn SQL text into the driver's form by the
 * locale, and under LC_ALL=C it sends something else for every letter beyond ASCII. */
#include <stdlib.h>
#include <string.h>

#include "sink/odbc/odbc_int.h"

enum { REPLACEMENT = 0xfffd };

/* The character at *at, which moves behind it. */
static uint32_t next_character(const unsigned char **at)
{
    const unsigned char *s = *at;
    int more = *s < 0x80 ? 0 : *s >= 0xf0 ? 3 : *s >= 0xe0 ? 2 : 1;
    uint32_t c = more == 0 ? *s : *s & (0x3f >> more);
    for (int i = 1; i <= more; i++) {
        if ((s[i] & 0xc0) != 0x80) {
            *at = s + i;
            return REPLACEMENT;
        }
        c = c << 6 | (s[i] & 0x3f);
    }
    *at = s + more + 1;
    return c > 0x10ffff ? REPLACEMENT : c;
}

SQLWCHAR *odbc_wide(const char *text)
{
    SQLWCHAR *wide = mt_alloc((strlen(text) + 1) * sizeof *wide);
    size_t n = 0;
    for (const unsigned char *at = (const unsigned char *)text; *at;) {
        uint32_t c = next_character(&at);
        if (c >= 0x10000) {
            wide[n++] = (SQLWCHAR)(0xd800 + ((c - 0x10000) >> 10));
            c = 0xdc00 + ((c - 0x10000) & 0x3ff);
        }
        wide[n++] = (SQLWCHAR)c;
    }
    return wide;
}

static void add_character(struct mt_buf *out, uint32_t c)
{
    char bytes[4];
    size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const unsigned char leads[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = n - 1; i > 0; i--) {
        bytes[i] = (char)(0x80 | (c & 0x3f));
        c >>= 6;
    }
    bytes[0] = (char)(leads[n == 1 ? 0 : n] | c);
    mt_buf_add(out, bytes, n);
}

void odbc_narrow(const SQLWCHAR *wide, int64_t n, struct mt_buf *out)
{
    for (int64_t i = 0; i < n; i++) {
        uint32_t c = wide[i];
        if (c >= 0xd800 && c < 0xdc00 && i + 1 < n && wide[i + 1] >= 0xdc00 && wide[i + 1] < 0xe000)
            c = 0x10000 + ((c - 0xd800) << 10) + (wide[++i] - 0xdc00u);
        else if (c >= 0xd800 && c < 0xe000)
            c = REPLACEMENT;
        add_character(out, c);
    }
}
