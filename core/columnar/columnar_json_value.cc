/* SPDX-License-Identifier: Apache-2.0
 *
 * columnar_json_value.cc - one JSON value into one column, by Spark's from_json table of
 * which token each type takes. Columns are written in place: room for the row is there
 * before, and only text looks for more. */
#include <cfloat>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

#include "columnar_json_int.h"

/* Makes room for the running value: of equal keys the last counts. */
static inline void replace(struct mt_json_reader *reader, struct mt_column *column)
{
    if (__builtin_expect(column->length > reader->row, 0))
        mt_column_cut(column, reader->row);
}

template <class Value>
static inline json_verdict put(struct mt_json_reader *reader, struct mt_column *column, Value value)
{
    replace(reader, column);
    ((Value *)column->values)[column->length++] = value;
    return JSON_FINE;
}

json_verdict mt_json_put_text(struct mt_json_reader *reader, struct mt_column *column,
                              std::string_view text)
{
    replace(reader, column);
    auto len = (int64_t)text.size();
    if (column->values_len + len >= column->values_cap && /* there may be none at all */
        mt_column_reserve(column, 0, len + 1, reader->err) != MT_OK)
        return JSON_STOP;
    uint8_t *to = column->values + column->values_len; /* there are 64 bytes more */
    if (len <= 16)
        memcpy(to, text.data(), 16);
    else
        memcpy(to, text.data(), text.size());
    column->values_len += len;
    column->offsets[++column->length] = (int32_t)column->values_len;
    return JSON_FINE;
}

json_verdict mt_json_put_word(struct mt_json_reader *reader, struct mt_column *column,
                              std::string_view token)
{
    if (token == "null") {
        replace(reader, column);
        return mt_column_add_null(column, reader->err) == MT_OK ? JSON_FINE : JSON_STOP;
    }
    if (column->type == MT_STRING)
        return mt_json_put_text(reader, column, token);
    if (column->type != MT_BOOLEAN)
        return JSON_WRONG;
    replace(reader, column);
    column->values[column->length >> 3] |= (uint8_t)((token == "true") << (column->length & 7));
    column->length++;
    return JSON_FINE;
}

/* ---- numbers */

static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

/* The nearest value; what is too large is an Infinity and what is too small a zero. */
template <class Value> static Value nearest(std::string_view token, const json_number &number)
{
    Value value = 0;
    auto read = std::from_chars(token.data(), token.data() + token.size(), value);
    if (read.ec == std::errc::result_out_of_range)
        value = number.exponent > 0 ? (Value)INFINITY : (Value)0;
    return std::copysign(value, number.negative ? (Value)-1 : (Value)1);
}

double mt_json_double(std::string_view token, const json_number &number)
{
    if (!number.whole || number.digits > 1ull << DBL_MANT_DIG || number.exponent > 22 ||
        number.exponent < -22)
        return nearest<double>(token, number);
    /* both exact, so that one rounding is left: the right one */
    auto value = (double)number.digits;
    value =
        number.exponent < 0 ? value / powers[-number.exponent] : value * powers[number.exponent];
    return number.negative ? -value : value;
}

/* The integer that the number is; false when it is none or not in [least, most]. */
static bool integer_of(const json_number &number, int64_t least, int64_t most, int64_t *out)
{
    if (!number.integer || !number.whole || number.digits > (uint64_t)INT64_MAX + number.negative)
        return false;
    *out = (int64_t)(number.negative ? 0 - number.digits : number.digits);
    return *out >= least && *out <= most;
}

template <class Value>
static json_verdict put_integer(struct mt_json_reader *reader, struct mt_column *column,
                                const json_number &number)
{
    int64_t value;
    if (!integer_of(number, std::numeric_limits<Value>::min(), std::numeric_limits<Value>::max(),
                    &value))
        return JSON_WRONG;
    return put(reader, column, (Value)value);
}

static json_verdict put_seconds(struct mt_json_reader *reader, struct mt_column *column,
                                const json_number &number)
{
    int64_t seconds, micros;
    if (!integer_of(number, INT64_MIN, INT64_MAX, &seconds) ||
        __builtin_mul_overflow(seconds, 1000000, &micros))
        return JSON_WRONG;
    return put(reader, column, micros);
}

static json_verdict put_decimal(struct mt_json_reader *reader, struct mt_column *column,
                                std::string_view text)
{
    unsigned __int128 value;
    int32_t left = mt_decimal_parse(text.data(), (int64_t)text.size(), column->precision,
                                    column->scale, (uint64_t *)&value);
    return left <= 1 ? put(reader, column, value) : JSON_WRONG;
}

json_verdict mt_json_put_number(struct mt_json_reader *reader, struct mt_column *column,
                                std::string_view token, const json_number &number)
{
    char text[64];
    switch (column->type) {
    case MT_TINYINT:
        return put_integer<int8_t>(reader, column, number);
    case MT_SMALLINT:
        return put_integer<int16_t>(reader, column, number);
    case MT_INT:
        return put_integer<int32_t>(reader, column, number);
    case MT_BIGINT:
        return put_integer<int64_t>(reader, column, number);
    case MT_FLOAT:
        return put(reader, column, nearest<float>(token, number));
    case MT_DOUBLE:
        return put(reader, column, mt_json_double(token, number));
    case MT_DECIMAL:
        return put_decimal(reader, column, token);
    case MT_STRING:
        return mt_json_put_text(reader, column, mt_json_number_text(token, number, text));
    case MT_TIMESTAMP:
        return put_seconds(reader, column, number);
    default:
        return JSON_WRONG;
    }
}

/* ---- strings */

/* Days since 1970 of a date of the years 0 to 9999 (March starts the year, so that the
 * leap day is its last). */
static inline int64_t days_of(unsigned year, unsigned month, unsigned day)
{
    unsigned y = month > 2 ? year + 400 : year + 399;
    unsigned day_of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
    return (int64_t)(y * 365 + y / 4 - y / 100 + y / 400 + day_of_year) - 719468 - 146097;
}

/* Eight bytes at p where form has a 0 for a digit; digits become their values. Sets *bad
 * when they are not of that form: what is a digit less '0' stays below 0x80 with 0x76
 * added, what is the same as in form with 0x7f. */
static inline uint64_t eight(const char *p, const char *form, uint64_t room, uint64_t *bad)
{
    uint64_t bytes, expected;
    memcpy(&bytes, p, 8);
    memcpy(&expected, form, 8);
    bytes ^= expected;
    *bad |= ((bytes + room) | bytes) & 0x8080808080808080;
    return bytes;
}

/* The two digits that start at byte i. */
static inline unsigned two(uint64_t bytes, int i)
{
    return (unsigned)(bytes >> 8 * i & 15) * 10 + (unsigned)(bytes >> 8 * (i + 1) & 15);
}

/* The form that machines write, 2026-11-29T10:00:00[.123]Z, in a straight line; false:
 * some other form, or not a time at all. 29 February is left to the parser of all. */
static inline bool plain_timestamp(std::string_view text, int64_t *micros)
{
    static const uint8_t last_day[] = {0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    static const int32_t scales[] = {1000000, 0, 100000, 10000, 1000, 100, 10, 1};
    const char *p = text.data();
    size_t n = text.size();
    if (n < 20 || n == 21 || n > 27)
        return false;
    uint64_t bad = (uint64_t)((p[19] ^ (n > 20 ? '.' : 'Z')) | (p[n - 1] ^ 'Z')) << 8;
    uint64_t date = eight(p, "0000-00-", 0x7f76767f76767676, &bad);
    uint64_t hours = eight(p + 8, "00T00:00", 0x76767f76767f7676, &bad);
    uint64_t seconds = eight(p + 11, "00:00:00", 0x76767f76767f7676, &bad);
    unsigned month = two(date, 5), day = two(hours, 0), hour = two(hours, 3),
             minute = two(hours, 6), second = two(seconds, 6);
    int32_t fraction = 0;
    for (size_t i = 20; i + 1 < n; i++) {
        unsigned digit = (uint8_t)(p[i] - '0');
        bad |= (uint64_t)(digit > 9) << 8;
        fraction = fraction * 10 + (int32_t)digit;
    }
    bad |= (hour > 23) | (minute > 59) | (second > 59);
    if (__builtin_expect(bad || month - 1 > 11 || day - 1 >= last_day[month], 0))
        return false;
    int64_t days = days_of(two(date, 0) * 100 + two(date, 2), month, day);
    *micros = (days * 86400 + (hour * 60 + minute) * 60 + second) * 1000000 +
              (int64_t)fraction * scales[n - 20];
    return true;
}

static json_verdict put_timestamp(struct mt_json_reader *reader, struct mt_column *column,
                                  std::string_view text)
{
    int64_t micros;
    if (__builtin_expect(!plain_timestamp(text, &micros), 0) &&
        !mt_timestamp_parse(text.data(), (int64_t)text.size(), reader->now_us, &micros))
        return JSON_WRONG;
    return put(reader, column, micros);
}

static json_verdict put_date(struct mt_json_reader *reader, struct mt_column *column,
                             std::string_view text)
{
    int32_t days;
    if (!mt_date_parse(text.data(), (int64_t)text.size(), &days))
        return JSON_WRONG;
    return put(reader, column, days);
}

/* The values that JSON has no number for. */
template <class Value>
static json_verdict put_named(struct mt_json_reader *reader, struct mt_column *column,
                              std::string_view text)
{
    if (text == "NaN")
        return put(reader, column, (Value)NAN);
    if (text == "Infinity" || text == "+Infinity" || text == "+INF")
        return put(reader, column, (Value)INFINITY);
    if (text == "-Infinity" || text == "-INF")
        return put(reader, column, (Value)-INFINITY);
    return JSON_WRONG;
}

/* Spark takes commas out, wherever they are: "1,234.5". */
[[gnu::noinline]] static json_verdict
put_grouped_decimal(struct mt_json_reader *reader, struct mt_column *column, std::string_view text)
{
    struct mt_buf *plain = &reader->compact;
    plain->len = 0;
    mt_buf_reserve(plain, text.size());
    for (char c : text)
        if (c != ',')
            mt_buf_add(plain, &c, 1);
    return put_decimal(reader, column, {plain->data, plain->len});
}

/* Value of a base64 digit, or 64. */
static unsigned base64_digit(char c)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = c ? strchr(digits, c) : nullptr;
    return at ? (unsigned)(at - digits) : 64;
}

/* Four digits a time, the last four padded with '='; no blanks. */
[[gnu::noinline]] static json_verdict put_base64(struct mt_json_reader *reader,
                                                 struct mt_column *column, std::string_view text)
{
    struct mt_buf *bytes = &reader->compact;
    bytes->len = 0;
    mt_buf_reserve(bytes, text.size());
    if (text.size() % 4 != 0)
        return JSON_WRONG;
    size_t padding = 0;
    while (padding < 2 && padding < text.size() && text[text.size() - 1 - padding] == '=')
        padding++;
    for (size_t i = 0; i < text.size(); i += 4) {
        size_t digits = i + 4 == text.size() ? 4 - padding : 4;
        uint32_t group = 0;
        for (size_t k = 0; k < 4; k++) {
            unsigned digit = k < digits ? base64_digit(text[i + k]) : 0;
            if (digit > 63)
                return JSON_WRONG;
            group = group << 6 | digit;
        }
        const char three[] = {(char)(group >> 16), (char)(group >> 8), (char)group};
        mt_buf_add(bytes, three, digits - 1);
    }
    return mt_json_put_text(reader, column, {bytes->data, bytes->len});
}

/* Half surrogate pairs become "?", as in Java's UTF-8. text is reader->unescaped then. */
[[gnu::noinline]] static std::string_view without_halves(struct mt_json_reader *reader,
                                                         std::string_view text)
{
    char *data = reader->unescaped.data;
    size_t len = 0;
    for (size_t i = 0; i < text.size(); i++) {
        data[len] = data[i];
        if ((uint8_t)data[i] == 0xed && (uint8_t)data[i + 1] >= 0xa0) {
            data[len] = '?';
            i += 2;
        }
        len++;
    }
    return {data, len};
}

json_verdict mt_json_put_string(struct mt_json_reader *reader, struct mt_column *column,
                                std::string_view text)
{
    switch (column->type) {
    case MT_STRING:
        if (text.data() == reader->unescaped.data)
            text = without_halves(reader, text);
        return mt_json_put_text(reader, column, text);
    case MT_TIMESTAMP:
        return put_timestamp(reader, column, text);
    case MT_DATE:
        return put_date(reader, column, text);
    case MT_DECIMAL:
        return put_grouped_decimal(reader, column, text);
    case MT_FLOAT:
        return put_named<float>(reader, column, text);
    case MT_DOUBLE:
        return put_named<double>(reader, column, text);
    case MT_BINARY:
        return put_base64(reader, column, text);
    default:
        return JSON_WRONG;
    }
}
