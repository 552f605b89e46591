/* SPDX-License-Identifier: Apache-2.0
 *
 * batch_date.c - days and the calendar.
 *
 * Spark's dates are proleptic Gregorian: the rules of today run backwards for ever.
 * Counting years from March puts the leap day at the end, so that a month's first
 * day is a straight line over the month number, and 400 years are always 146097
 * days. */
#include <stdio.h>
#include <string.h>

#include "batch_int.h"

enum { DAYS_OF_ERA = 146097, EPOCH = 719468 /* days from 0000-03-01 to 1970-01-01 */ };

int64_t mt_day_number(int64_t year, int month, int day)
{
    int64_t from_march = (month + 9) % 12;
    year -= month <= 2;
    int64_t era = mt_floor_div(year, 400), of_era = year - era * 400;
    int64_t day_of_year = (153 * from_march + 2) / 5 + day - 1;
    return era * DAYS_OF_ERA + of_era * 365 + of_era / 4 - of_era / 100 + day_of_year - EPOCH;
}

struct mt_day mt_day_of(int64_t number)
{
    int64_t days = number + EPOCH, era = mt_floor_div(days, DAYS_OF_ERA);
    int64_t of_era = days - era * DAYS_OF_ERA;
    int64_t leaps = of_era / 1460 - of_era / 36524 + of_era / (DAYS_OF_ERA - 1);
    int64_t year = (of_era - leaps) / 365;
    int64_t day_of_year = of_era - (year * 365 + year / 4 - year / 100);
    int64_t from_march = (5 * day_of_year + 2) / 153;
    int month = (int)(from_march < 10 ? from_march + 3 : from_march - 9);
    return (struct mt_day){
        .year = year + era * 400 + (month <= 2),
        .month = month,
        .day = (int)(day_of_year - (153 * from_march + 2) / 5) + 1,
    };
}

bool mt_day_exists(int64_t year, int64_t month, int64_t day)
{
    static const int days[] = {31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    if (month < 1 || month > 12 || day < 1 || day > days[month - 1])
        return false;
    bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    return month != 2 || day < 29 || leap;
}

/* ---- text being read */

static bool is_blank(char c)
{
    return (unsigned char)c <= ' ' || c == 0x7f;
}

struct mt_text mt_text_trimmed(const char *text, int64_t len)
{
    struct mt_text t = {text, text + len};
    while (t.at < t.end && is_blank(*t.at))
        t.at++;
    while (t.end > t.at && is_blank(t.end[-1]))
        t.end--;
    return t;
}

/* ---- dates */

bool mt_text_date(struct mt_text *text, int most_digits, int64_t *days, bool *whole)
{
    int64_t year, month = 1, day = 1;
    bool negative = mt_text_accept(text, '-');
    if (!negative)
        mt_text_accept(text, '+');
    if (!mt_text_digits(text, 4, most_digits, &year))
        return false;
    bool has_month = mt_text_accept(text, '-');
    if (has_month && !mt_text_digits(text, 1, 2, &month))
        return false;
    *whole = has_month && mt_text_accept(text, '-');
    if (*whole && !mt_text_digits(text, 1, 2, &day))
        return false;
    year = negative ? -year : year;
    if (!mt_day_exists(year, month, day))
        return false;
    *days = mt_day_number(year, (int)month, (int)day);
    return true;
}

_Bool mt_date_parse(const char *text, int64_t len, int32_t *days)
{
    struct mt_text t = mt_text_trimmed(text, len);
    int64_t number;
    bool whole;
    if (!mt_text_date(&t, 7, &number, &whole))
        return false;
    if (whole && (mt_text_accept(&t, ' ') || mt_text_accept(&t, 'T')))
        t.at = t.end; /* a time, which a date leaves unread */
    *days = (int32_t)number;
    return t.at == t.end && number == *days;
}

/* A year past four digits carries its sign, so that it is not read as something else. */
int32_t mt_date_print(int32_t days, char *out)
{
    struct mt_day day = mt_day_of(days);
    const char *sign = day.year < 0 ? "-" : day.year > 9999 ? "+" : "";
    long long year = day.year < 0 ? -day.year : day.year;
    return sprintf(out, "%s%04lld-%02d-%02d", sign, year, day.month, day.day);
}
