/* SPDX-License-Identifier: Apache-2.0
 *
 * batch_arithmetic.c - sums, products and quotients of decimals.
 *
 * A value here has a scale but no declared precision, so Spark's result types, which
 * follow from both, cannot be had; what is kept of them is that nothing is rounded but a
 * quotient. A result of more than 38 digits is an error once its trailing zeros are gone.
 *
 * A quotient is long division in tens: a remainder below 10^38 times ten would pass 128
 * bits, so each digit is four doublings, which stay below 2 * 10^38. */
#include <string.h>

#include "batch_int.h"

enum { MOST_DIGITS = 38, QUOTIENT_DIGITS = 18, LEAST_QUOTIENT_DIGITS = 6 };
enum { DONE = 0, TOO_LARGE = 2, BY_ZERO = 3 };

struct decimal {
    mt_wide value; /* without sign and point */
    bool negative;
    int32_t scale;
};

static struct decimal load(const uint64_t unscaled[2], int32_t scale)
{
    struct decimal d = {.scale = scale};
    d.value = mt_decimal_magnitude(unscaled, &d.negative);
    return d;
}

static bool fits(mt_wide value)
{
    return value < mt_power_of_ten(MOST_DIGITS);
}

/* Takes trailing zeros off, down to `least` digits after the point. */
static void trim(struct decimal *d, int32_t least)
{
    for (; d->scale > least && d->value % 10 == 0; d->scale--)
        d->value /= 10;
}

static int32_t store(struct decimal d, uint64_t out[2], int32_t *scale)
{
    if (!fits(d.value) || d.scale > MOST_DIGITS)
        trim(&d, 0);
    if (!fits(d.value) || d.scale > MOST_DIGITS)
        return TOO_LARGE;
    mt_wide value = d.negative ? -d.value : d.value;
    memcpy(out, &value, sizeof value);
    *scale = d.scale;
    return DONE;
}

/* Appends zeros after the point; false when there is no room for them. */
static bool widen(struct decimal *d, int32_t scale)
{
    if (scale <= d->scale)
        return true;
    mt_wide unit = mt_power_of_ten(scale - d->scale);
    if (d->value > (mt_power_of_ten(MOST_DIGITS) - 1) / unit)
        return false;
    d->value *= unit;
    d->scale = scale;
    return true;
}

static bool align(struct decimal *x, struct decimal *y)
{
    if (widen(x, y->scale) && widen(y, x->scale))
        return true;
    trim(x, 0);
    trim(y, 0);
    return widen(x, y->scale) && widen(y, x->scale);
}

static int32_t sum(struct decimal x, struct decimal y, uint64_t out[2], int32_t *scale)
{
    if (!align(&x, &y))
        return TOO_LARGE;
    if (x.negative == y.negative) {
        x.value += y.value;
        return store(x, out, scale);
    }
    struct decimal more = x.value < y.value ? y : x;
    more.value -= x.value < y.value ? x.value : y.value;
    return store(more, out, scale);
}

int32_t mt_decimal_add(const uint64_t a[2], int32_t sa, const uint64_t b[2], int32_t sb,
                       uint64_t out[2], int32_t *scale)
{
    return sum(load(a, sa), load(b, sb), out, scale);
}

int32_t mt_decimal_subtract(const uint64_t a[2], int32_t sa, const uint64_t b[2], int32_t sb,
                            uint64_t out[2], int32_t *scale)
{
    struct decimal y = load(b, sb);
    y.negative = !y.negative;
    return sum(load(a, sa), y, out, scale);
}

int32_t mt_decimal_multiply(const uint64_t a[2], int32_t sa, const uint64_t b[2], int32_t sb,
                            uint64_t out[2], int32_t *scale)
{
    struct decimal x = load(a, sa), y = load(b, sb);
    mt_wide most = ~(mt_wide)0;
    if (y.value && x.value > most / y.value) {
        trim(&x, 0);
        trim(&y, 0);
    }
    if (y.value && x.value > most / y.value)
        return TOO_LARGE;
    struct decimal product = {x.value * y.value, x.negative != y.negative, x.scale + y.scale};
    return store(product, out, scale);
}

/* The next digit of rest / by, and the rest behind it. */
static int next_digit(mt_wide *rest, mt_wide by)
{
    static const bool ten[] = {true, false, true, false};
    mt_wide sum = 0;
    int digit = 0;
    for (int i = 0; i < 4; i++) {
        sum *= 2;
        digit *= 2;
        for (int add = 0; add < 2; add++) {
            if (add && ten[i])
                sum += *rest;
            if (sum >= by) {
                sum -= by;
                digit++;
            }
        }
    }
    *rest = sum;
    return digit;
}

int32_t mt_decimal_divide(const uint64_t a[2], int32_t sa, const uint64_t b[2], int32_t sb,
                          uint64_t out[2], int32_t *scale)
{
    struct decimal x = load(a, sa), y = load(b, sb);
    if (y.value == 0)
        return BY_ZERO;
    int32_t least = sa > sb ? sa : sb, most = least > QUOTIENT_DIGITS ? least : QUOTIENT_DIGITS;
    struct decimal q = {x.value / y.value, x.negative != y.negative, sa - sb};
    mt_wide rest = x.value % y.value;
    while (q.scale < most && (rest || q.scale < least) && q.value < mt_power_of_ten(37)) {
        q.value = q.value * 10 + (mt_wide)next_digit(&rest, y.value);
        q.scale++;
    }
    if (q.scale < 0 || (rest && q.scale < LEAST_QUOTIENT_DIGITS))
        return TOO_LARGE;
    q.value += rest * 2 >= y.value;
    trim(&q, least);
    return store(q, out, scale);
}
