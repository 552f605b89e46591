/* SPDX-License-Identifier: Apache-2.0
 *
 * batch_decimal.c - decimals of up to 38 digits, exactly.
 *
 * A decimal is a 128-bit integer and a scale kept by its column. Text of any length is
 * read digit by digit with no binary fraction between: digits down to the scale are
 * kept, the first one below it decides the rounding (half away from zero, as Spark
 * rounds), and whether any of the rest is non-zero tells exact from rounded. */
#include <stdio.h>
#include <string.h>

#include "batch_int.h"

enum { MOST_DIGITS = 38 };

mt_wide mt_power_of_ten(int n)
{
    mt_wide p = 1;
    while (n-- > 0)
        p *= 10;
    return p;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* The parts of "[+-]digits[.digits][e[+-]digits]". */
struct number {
    bool negative;
    const char *digits; /* may have one point inside */
    int64_t n;          /* digits from the first that is not 0, without the point */
    int64_t point;      /* of these, how many stand before the point; may be < 0 or > n */
};

/* Saturates: a billion is past any column. */
static bool exponent(struct mt_text *t, int64_t *value)
{
    bool negative = mt_text_accept(t, '-');
    if (!negative)
        mt_text_accept(t, '+');
    const char *start = t->at;
    for (*value = 0; t->at < t->end && is_digit(*t->at); t->at++)
        if (*value < 1000000000)
            *value = *value * 10 + (*t->at - '0');
    if (negative)
        *value = -*value;
    return t->at > start;
}

static bool split(struct mt_text t, struct number *number)
{
    *number = (struct number){.negative = mt_text_accept(&t, '-')};
    if (!number->negative)
        mt_text_accept(&t, '+');
    bool any = false, fraction = false;
    for (; t.at < t.end && (is_digit(*t.at) || (*t.at == '.' && !fraction)); t.at++) {
        if (*t.at == '.') {
            fraction = true;
            continue;
        }
        any = true;
        if (*t.at != '0' || number->n > 0) {
            number->digits = number->n ? number->digits : t.at;
            number->n++;
        }
        if (fraction ? number->n == 0 : number->n > 0)
            number->point += fraction ? -1 : 1;
    }
    int64_t shift = 0;
    if (any && (mt_text_accept(&t, 'e') || mt_text_accept(&t, 'E')))
        any = exponent(&t, &shift);
    number->point += shift;
    return any && t.at == t.end;
}

/* The first `keep` digits (zeros where there are no more) rounded by the rest. */
static mt_wide rounded(const struct number *number, int64_t keep, bool *exact)
{
    mt_wide value = 0;
    const char *p = number->digits;
    *exact = true;
    for (int64_t i = 0; i < (keep > number->n ? keep : number->n); i++) {
        int digit = 0;
        if (i < number->n) {
            p += *p == '.';
            digit = *p++ - '0';
        }
        if (i < keep)
            value = value * 10 + (mt_wide)digit;
        else if (digit != 0)
            *exact = false;
        if (i == keep)
            value += digit >= 5;
    }
    return value;
}

int32_t mt_decimal_parse(const char *text, int64_t len, int32_t precision, int32_t scale,
                         uint64_t out[2])
{
    struct number number;
    bool exact;
    if (!split((struct mt_text){text, text + len}, &number))
        return 3;
    int64_t keep = number.n ? number.point + scale : 0;
    if (keep > MOST_DIGITS)
        return 2;
    mt_wide value = rounded(&number, keep, &exact);
    if (value >= mt_power_of_ten(precision))
        return 2;
    value = number.negative ? -value : value;
    memcpy(out, &value, sizeof value);
    return exact ? 0 : 1;
}

mt_wide mt_decimal_magnitude(const uint64_t unscaled[2], bool *negative)
{
    mt_wide value;
    memcpy(&value, unscaled, sizeof value);
    *negative = value >> 127;
    return *negative ? -value : value;
}

int32_t mt_decimal_print(const uint64_t unscaled[2], int32_t scale, char *out)
{
    char backwards[48];
    int n = 0, digits = 0;
    bool negative;
    mt_wide value = mt_decimal_magnitude(unscaled, &negative);
    do {
        if (digits == scale && scale > 0)
            backwards[n++] = '.';
        backwards[n++] = (char)('0' + (int)(value % 10));
        value /= 10;
        digits++;
    } while (value > 0 || digits <= scale);
    char *p = out;
    if (negative)
        *p++ = '-';
    while (n > 0)
        *p++ = backwards[--n];
    *p = '\0';
    return (int32_t)(p - out);
}

static int compare(mt_wide a, mt_wide b)
{
    return a < b ? -1 : a > b;
}

int32_t mt_decimal_compare(const uint64_t a[2], int32_t sa, const uint64_t b[2], int32_t sb)
{
    bool a_negative, b_negative;
    mt_wide x = mt_decimal_magnitude(a, &a_negative), y = mt_decimal_magnitude(b, &b_negative);
    if (x == 0 && y == 0)
        return 0;
    if (a_negative != b_negative)
        return a_negative ? -1 : 1;
    /* whole parts first: scaling the numbers themselves could pass 128 bits */
    mt_wide x_unit = mt_power_of_ten(sa), y_unit = mt_power_of_ten(sb);
    int32_t order = compare(x / x_unit, y / y_unit);
    if (order == 0)
        order = compare(x % x_unit * mt_power_of_ten(sb > sa ? sb - sa : 0),
                        y % y_unit * mt_power_of_ten(sa > sb ? sa - sb : 0));
    return a_negative ? -order : order;
}
