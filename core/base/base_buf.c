/* SPDX-License-Identifier: Apache-2.0
 *
 * base_buf.c - bytes that grow. One byte more than `len` is always there for a NUL,
 * so that a buffer of text is a C string at any moment. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base_int.h"

void mt_buf_reserve(struct mt_buf *buf, size_t more)
{
    size_t need = buf->len + more + 1;
    if (need <= buf->cap)
        return;
    size_t cap = buf->cap * 2 > need ? buf->cap * 2 : need;
    buf->cap = cap < 64 ? 64 : cap;
    buf->data = mt_realloc(buf->data, buf->cap);
}

void mt_buf_add(struct mt_buf *buf, const void *bytes, size_t len)
{
    mt_buf_reserve(buf, len);
    if (len > 0)
        memcpy(buf->data + buf->len, bytes, len);
    buf->len += len;
    buf->data[buf->len] = '\0';
}

void mt_buf_adds(struct mt_buf *buf, const char *s)
{
    mt_buf_add(buf, s, strlen(s));
}

void mt_buf_addf(struct mt_buf *buf, const char *fmt, ...)
{
    va_list args;
    mt_buf_reserve(buf, 0);
    size_t room = buf->cap - buf->len;
    va_start(args, fmt);
    int len = vsnprintf(buf->data + buf->len, room, fmt, args);
    va_end(args);
    if ((size_t)len >= room) {
        mt_buf_reserve(buf, (size_t)len);
        va_start(args, fmt);
        vsnprintf(buf->data + buf->len, (size_t)len + 1, fmt, args);
        va_end(args);
    }
    buf->len += (size_t)len;
}

/* The two-character escape of an ASCII byte, or NULL when it stands for itself. */
static const char *json_escape(uint8_t byte)
{
    switch (byte) {
    case '"':
        return "\\\"";
    case '\\':
        return "\\\\";
    case '\b':
        return "\\b";
    case '\f':
        return "\\f";
    case '\n':
        return "\\n";
    case '\r':
        return "\\r";
    case '\t':
        return "\\t";
    default:
        return NULL;
    }
}

void mt_buf_add_json(struct mt_buf *buf, const char *s, size_t len)
{
    const uint8_t *p = (const uint8_t *)s;
    mt_buf_reserve(buf, len + 2);
    mt_buf_adds(buf, "\"");
    for (size_t at = 0; at < len;) {
        size_t n = mt_utf8_char(p + at, len - at);
        const char *escape = json_escape(p[at]);
        if (n == 0)
            mt_buf_adds(buf, "\xef\xbf\xbd");
        else if (escape)
            mt_buf_adds(buf, escape);
        else if (p[at] < 0x20)
            mt_buf_addf(buf, "\\u%04x", p[at]);
        else
            mt_buf_add(buf, p + at, n);
        at += n ? n : 1;
    }
    mt_buf_adds(buf, "\"");
}

void mt_buf_free(struct mt_buf *buf)
{
    free(buf->data);
    *buf = (struct mt_buf){0};
}
