/* SPDX-License-Identifier: Apache-2.0
 *
 * batch_number.c - FLOAT and DOUBLE in Java's form, with the fewest digits that read
 * back equal.
 *
 * Any number written with 15 digits (6 for FLOAT) survives the way through binary, so
 * those are tried first and the zeros at the end cut; else one or two digits more are
 * enough. Around a power of two the numbers below are denser than those above, and the
 * nearest text with 16 digits may belong to a neighbour while the next one up still
 * reads back (2^-44): hence the second try. Denormals carry fewer digits and are tried
 * from two, the least that Java prints. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "batch_int.h"

/* digits * 10^exponent */
struct shortest {
    uint64_t digits;
    int exponent;
};

static bool reads_back(double value, bool is_float, struct shortest s)
{
    char text[40];
    snprintf(text, sizeof text, "%llue%d", (unsigned long long)s.digits, s.exponent);
    return (is_float ? (double)strtof(text, NULL) : strtod(text, NULL)) == value;
}

/* The nearest number of n digits. Takes the text apart without the decimal point,
 * which belongs to the locale. */
static struct shortest nearest(double value, int n)
{
    char text[48];
    struct shortest s = {0};
    snprintf(text, sizeof text, "%.*e", n - 1, value);
    const char *p = text;
    for (; *p != 'e'; p++)
        if (*p >= '0' && *p <= '9')
            s.digits = s.digits * 10 + (uint64_t)(*p - '0');
    s.exponent = atoi(p + 1) - (n - 1);
    return s;
}

static struct shortest shortest_of(double value, bool is_float)
{
    int digits = is_float ? FLT_DIG : DBL_DIG, most = is_float ? 9 : 17;
    if (value < (is_float ? (double)FLT_MIN : DBL_MIN))
        digits = 2;
    for (;; digits++) {
        struct shortest s = nearest(value, digits);
        if (digits == most || reads_back(value, is_float, s))
            return s;
        s.digits++;
        if (reads_back(value, is_float, s))
            return s;
    }
}

/* The digits with a point before digits[whole]; zeros on either side where there are
 * no digits, at least one each. */
static char *with_point(char *out, const char *digits, int n, int whole)
{
    for (int i = whole < 1 ? whole - 1 : 0; i < n || i <= whole; i++) {
        if (i == whole)
            *out++ = '.';
        *out++ = i >= 0 && i < n ? digits[i] : '0';
    }
    return out;
}

static int32_t print(double value, bool is_float, char *out)
{
    if (isnan(value))
        return sprintf(out, "NaN");
    char *p = out;
    if (signbit(value))
        *p++ = '-';
    value = fabs(value);
    if (isinf(value) || value == 0)
        return (int32_t)(p - out) + sprintf(p, value == 0 ? "0.0" : "Infinity");
    struct shortest s = shortest_of(value, is_float);
    for (; s.digits % 10 == 0; s.exponent++)
        s.digits /= 10;
    char digits[24];
    int n = snprintf(digits, sizeof digits, "%llu", (unsigned long long)s.digits);
    int exponent = s.exponent + n - 1; /* of the form d.ddd */
    bool scientific = exponent < -3 || exponent >= 7;
    p = with_point(p, digits, n, scientific ? 1 : exponent + 1);
    if (scientific)
        p += sprintf(p, "E%d", exponent);
    *p = '\0';
    return (int32_t)(p - out);
}

int32_t mt_double_print(double value, char *out)
{
    return print(value, false, out);
}

int32_t mt_float_print(float value, char *out)
{
    return print((double)value, true, out);
}
