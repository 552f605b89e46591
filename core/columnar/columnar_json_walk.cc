/* SPDX-License-Identifier: Apache-2.0
 *
 * columnar_json_walk.cc - the tokens of a record: numbers, strings, and whole values
 * that no column takes apart.
 *
 * simdjson's on-demand reader jumps over what is not asked for, and so would call
 * {"skip":{"b":nope},"a":1} a good record. Its first stage does the part that needs
 * vector instructions (where tokens start, UTF-8, control bytes, closed strings); the
 * grammar over its tokens is so small that we walk it ourselves, and nothing is skipped
 * unread. Flat records pay nothing for this: their values are read anyway. */
#include <cstdio>
#include <cstring>

#include "columnar_json_int.h"

static inline bool is_digit(char c)
{
    return (uint8_t)(c - '0') <= 9;
}

/* Takes digits into *value, which may overflow; returns the first byte that is none. */
static inline const char *take_digits(const char *p, const char *end, uint64_t *value)
{
    for (; p < end && is_digit(*p); p++)
        *value = *value * 10 + (uint64_t)(*p - '0');
    return p;
}

/* More than 19 digits: the first 19 significant ones, if there are that many. */
static void take_first_digits(std::string_view token, json_number *number)
{
    number->digits = 0;
    for (char c : token) {
        if ((c | 0x20) == 'e')
            break;
        if (!is_digit(c))
            continue;
        if (number->digits >= 1000000000000000000) {
            number->whole = false;
            number->exponent++;
        } else {
            number->digits = number->digits * 10 + (uint64_t)(c - '0');
        }
    }
}

/* The digits behind 'e', NULL when there are none. Past a million it makes no difference. */
static const char *take_exponent(const char *p, const char *end, int64_t *exponent)
{
    bool negative = p < end && *p == '-';
    if (p < end && (*p == '-' || *p == '+'))
        p++;
    const char *start = p;
    int64_t value = 0;
    for (; p < end && is_digit(*p); p++)
        if (value < 1000000)
            value = value * 10 + (*p - '0');
    *exponent += negative ? -value : value;
    return p > start ? p : nullptr;
}

bool mt_json_number(std::string_view token, json_number *out)
{
    const char *p = token.data(), *end = p + token.size();
    bool negative = p < end && *p == '-', integer = true;
    const char *start = p + negative;
    uint64_t digits = 0;
    int64_t exponent = 0;
    p = take_digits(start, end, &digits);
    int64_t n = p - start;
    if (n == 0 || (*start == '0' && n > 1))
        return false;
    if (p < end && *p == '.') {
        const char *fraction = p + 1;
        p = take_digits(fraction, end, &digits);
        exponent = fraction - p;
        if (exponent == 0)
            return false;
        n -= exponent;
        integer = false;
    }
    if (p < end && (*p | 0x20) == 'e') {
        p = take_exponent(p + 1, end, &exponent);
        integer = false;
    }
    if (p != end || n > JSON_MAX_DIGITS)
        return false;
    *out = {digits, exponent, negative, integer, true};
    if (n > 19)
        take_first_digits(token, out);
    if (integer && out->digits == 0)
        out->negative = false; /* an integer has no -0 */
    return true;
}

bool mt_json_text(struct mt_json_reader *reader, const json_record &record, uint32_t i,
                  std::string_view *out)
{
    std::string_view token = record.token(i);
    if (token.size() < 2 || token.back() != '"')
        return false;
    *out = token.substr(1, token.size() - 2);
    if (!record.escapes || out->find('\\') == out->npos)
        return true;
    struct mt_buf *buf = &reader->unescaped;
    mt_buf_reserve(buf, out->size() + sj::SIMDJSON_PADDING);
    auto *start = (uint8_t *)buf->data;
    uint8_t *end =
        reader->parser.implementation->parse_wobbly_string((const uint8_t *)out->data(), start);
    *out = {buf->data, end ? (size_t)(end - start) : 0};
    return end != nullptr;
}

std::string_view mt_json_number_text(std::string_view token, const json_number &number, char *cap64)
{
    if (number.integer)
        return number.digits == 0 ? token.substr(token.size() - 1) : token; /* -0 */
    double value = mt_json_double(token, number);
    int32_t len = mt_double_print(value, cap64 + 1);
    if (value - value == 0)
        return {cap64 + 1, (size_t)len};
    cap64[0] = cap64[len + 1] = '"'; /* Spark's generator quotes an Infinity */
    return {cap64, (size_t)len + 2};
}

struct walker {
    struct mt_json_reader *reader;
    const json_record &record;
    struct mt_buf *out; /* NULL: only check */
    uint32_t i;
    int depth;
};

static bool walk_value(walker *w);

static void add(walker *w, std::string_view text)
{
    if (w->out)
        mt_buf_add(w->out, text.data(), text.size());
}

/* One of { } [ ] , : */
static bool take(walker *w, char c)
{
    if (w->record.byte(w->i) != c)
        return false;
    add(w, {&c, 1});
    w->i++;
    return true;
}

/* Where Spark's JSON generator escapes the character at p: writes the escape, sets how
 * many bytes of text it stands for. Returns its length, 0 for one that stays. */
static int escape_char(const uint8_t *p, char cap16[16], size_t *taken)
{
    *taken = 1;
    if (*p == '"' || *p == '\\')
        return sprintf(cap16, "\\%c", *p);
    if (*p >= '\b' && *p <= '\r' && *p != '\v')
        return sprintf(cap16, "\\%c", "btnvfr"[*p - '\b']);
    if (*p < ' ')
        return sprintf(cap16, "\\u%04X", *p);
    if (*p < 0xed)
        return 0;
    uint32_t last12 = (uint32_t)(p[1] & 0x3f) << 6 | (p[2] & 0x3f);
    if (*p == 0xed && p[1] >= 0xa0) { /* half a surrogate pair, alone */
        *taken = 3;
        return sprintf(cap16, "\\u%04X", 0xd000 | last12);
    }
    if (*p >= 0xf0) {
        uint32_t c = ((uint32_t)(*p & 7) << 18 | last12 << 6 | (p[3] & 0x3f)) - 0x10000;
        *taken = 4;
        return sprintf(cap16, "\\u%04X\\u%04X", 0xd800 + (c >> 10), 0xdc00 + (c & 0x3ff));
    }
    return 0;
}

static void add_escaped(struct mt_buf *out, std::string_view text)
{
    auto *p = (const uint8_t *)text.data(), *end = p + text.size();
    const uint8_t *plain = p;
    char escape[16];
    size_t taken;
    mt_buf_adds(out, "\"");
    for (; p < end; p += taken) {
        int len = escape_char(p, escape, &taken);
        if (len == 0)
            continue;
        mt_buf_add(out, plain, (size_t)(p - plain));
        mt_buf_add(out, escape, (size_t)len);
        plain = p + taken;
    }
    mt_buf_add(out, plain, (size_t)(end - plain));
    mt_buf_adds(out, "\"");
}

static bool walk_string(walker *w)
{
    std::string_view text;
    if (!mt_json_text(w->reader, w->record, w->i, &text))
        return false;
    w->i++;
    if (w->out)
        add_escaped(w->out, text);
    return true;
}

static bool walk_object(walker *w)
{
    if (take(w, '}'))
        return true;
    do {
        if (w->record.byte(w->i) != '"' || !walk_string(w) || !take(w, ':') || !walk_value(w))
            return false;
    } while (take(w, ','));
    return take(w, '}');
}

static bool walk_array(walker *w)
{
    if (take(w, ']'))
        return true;
    do {
        if (!walk_value(w))
            return false;
    } while (take(w, ','));
    return take(w, ']');
}

static bool walk_scalar(walker *w)
{
    if (w->i >= w->record.n)
        return false;
    std::string_view token = w->record.token(w->i);
    json_number number;
    char text[64];
    if (token == "true" || token == "false" || token == "null")
        add(w, token);
    else if (mt_json_number(token, &number))
        add(w, w->out ? mt_json_number_text(token, number, text) : token);
    else
        return false;
    w->i++;
    return true;
}

static bool walk_value(walker *w)
{
    bool object = take(w, '{');
    if (!object && !take(w, '['))
        return w->record.byte(w->i) == '"' ? walk_string(w) : walk_scalar(w);
    if (w->depth == JSON_MAX_DEPTH) {
        w->reader->why = "nesting deeper than 1000";
        return false;
    }
    w->depth++;
    bool good = object ? walk_object(w) : walk_array(w);
    w->depth--;
    return good;
}

bool mt_json_walk(struct mt_json_reader *reader, const json_record &record, uint32_t *i, int depth,
                  struct mt_buf *out)
{
    walker w = {reader, record, out, *i, depth};
    bool good = walk_value(&w);
    *i = w.i;
    return good;
}
