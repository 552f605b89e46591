/* SPDX-License-Identifier: Apache-2.0
 *
 * base_error.c - the words of a failure.
 *
 * The status travels by return value, the words in a struct of the caller, so that
 * an error costs no allocation and no thread-local state. A room that passes a
 * failure on puts what it was doing in front ("orders[2]@1234: ..."); the cause at
 * the end of the text is what is cut when the struct is full, since the cause is
 * where long things (records, server answers) are quoted. */
#include <stdio.h>
#include <string.h>

#include "base_int.h"

enum { QUOTE_MOST = 200 }; /* bytes of a record that a person still reads */

enum mt_status mt_fail(struct mt_error *err, enum mt_status status, enum mt_class class_,
                       const char *fmt, ...)
{
    char text[sizeof err->text]; /* apart: the arguments may be parts of err */
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    memcpy(err->text, text, sizeof text);
    err->class_ = class_;
    err->option[0] = '\0';
    return status;
}

enum mt_status mt_fail_within(struct mt_error *err, enum mt_status status, const char *fmt, ...)
{
    char text[sizeof err->text];
    va_list args;
    va_start(args, fmt);
    int len = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (len >= 0 && (size_t)len < sizeof text)
        snprintf(text + len, sizeof text - (size_t)len, "%s", err->text);
    memcpy(err->text, text, sizeof text);
    return status;
}

/* C0, DEL and C1: what a terminal would obey instead of show. */
static bool is_control(const uint8_t *p, size_t len)
{
    return (len == 1 && (*p < 0x20 || *p == 0x7f)) || (len == 2 && p[0] == 0xc2 && p[1] < 0xa0);
}

const char *mt_quote(const void *bytes, size_t len, char *out, size_t cap)
{
    const uint8_t *p = bytes;
    size_t at = 0, used = 0, cut = 0; /* cut: the last place where "..." still fits */
    while (at < len) {
        size_t n = mt_utf8_char(p + at, len - at);
        bool plain = n > 0 && !is_control(p + at, n);
        size_t take = plain ? n : 1, room = plain ? n : strlen("\\xNN");
        if (at + take > QUOTE_MOST || used + room + 1 > cap)
            break;
        if (plain)
            memcpy(out + used, p + at, n);
        else
            snprintf(out + used, cap - used, "\\x%02X", p[at]);
        used += room;
        at += take;
        if (used + sizeof "..." <= cap)
            cut = used;
    }
    if (at < len)
        strcpy(out + cut, "...");
    else
        out[used] = '\0';
    return out;
}
