/* SPDX-License-Identifier: Apache-2.0
 *
 * batch_timestamp.c - microseconds since 1970 UTC as text, both ways.
 *
 * Reading follows Spark's cast of STRING to TIMESTAMP, odd corners included, because
 * the same topic may be read by both: parts may have one digit, may end after any of
 * them, a zone is allowed only after the seconds, and a fraction longer than six
 * digits is cut, not rounded. There is no second 60: Java's clock has none. */
#include <stdio.h>
#include <string.h>

#include "batch_int.h"

enum { DAY_S = 86400 };
static const int64_t SECOND_US = 1000000;

struct clock {
    int64_t hour, minute, second, micros;
};

/* ".5" is 500000 micros, and "." alone 0. */
static int64_t fraction(struct mt_text *t)
{
    int64_t micros = 0, unit = 100000;
    for (; t->at < t->end && *t->at >= '0' && *t->at <= '9'; t->at++, unit /= 10)
        micros += (*t->at - '0') * unit;
    return micros;
}

/* "[:m[m][:s[s][.f][zone]]]" after the hour. What follows the seconds is left in t. */
static bool after_hour(struct mt_text *t, struct clock *clock)
{
    if (t->at == t->end)
        return true;
    if (!mt_text_accept(t, ':') || !mt_text_digits(t, 1, 2, &clock->minute))
        return false;
    if (t->at == t->end)
        return true;
    if (!mt_text_accept(t, ':') || !mt_text_digits(t, 1, 2, &clock->second))
        return false;
    if (mt_text_accept(t, '.'))
        clock->micros = fraction(t);
    return true;
}

static bool time_of_day(struct mt_text *t, struct clock *clock)
{
    return mt_text_digits(t, 1, 2, &clock->hour) && after_hour(t, clock);
}

static bool date_and_time(struct mt_text *t, int64_t *days, struct clock *clock)
{
    bool whole;
    if (!mt_text_date(t, 6, days, &whole))
        return false;
    if (whole && (mt_text_accept(t, ' ') || mt_text_accept(t, 'T')))
        return time_of_day(t, clock);
    return t->at == t->end;
}

/* "10:15" and "T10": a time of an unsaid day. */
static bool is_time_alone(const struct mt_text *t, const char *text)
{
    const char *p = t->at;
    if (*p == 'T')
        return p == text; /* Spark knows the T only as the very first byte */
    while (p < t->end && *p >= '0' && *p <= '9')
        p++;
    return p > t->at && p < t->end && *p == ':';
}

/* Seconds of the local time, made UTC and micros; false when 63 bits are too few. */
static bool to_micros(int64_t local_s, const struct mt_zone *zone, int64_t micros, int64_t *out)
{
    int64_t utc_s = local_s - mt_zone_offset_at_local(zone, local_s);
    __int128 total = (__int128)utc_s * SECOND_US + micros;
    *out = (int64_t)total;
    return total == *out;
}

_Bool mt_timestamp_parse(const char *text, int64_t len, int64_t now_us, int64_t *micros)
{
    struct mt_text t = mt_text_trimmed(text, len);
    struct clock clock = {0};
    struct mt_zone zone = *mt_session_zone();
    int64_t days = 0;
    if (t.at == t.end)
        return false;
    bool alone = is_time_alone(&t, text);
    if (alone)
        mt_text_accept(&t, 'T');
    if (alone ? !time_of_day(&t, &clock) : !date_and_time(&t, &days, &clock))
        return false;
    if (clock.hour > 23 || clock.minute > 59 || clock.second > 59)
        return false;
    struct mt_text name = mt_text_trimmed(t.at, t.end - t.at);
    if (t.at < t.end && !mt_zone_parse(name.at, name.end - name.at, &zone))
        return false;
    if (alone) {
        int64_t now_s = mt_floor_div(now_us, SECOND_US);
        days = mt_floor_div(now_s + mt_zone_offset_at(&zone, now_s), DAY_S);
    }
    int64_t local_s = days * DAY_S + clock.hour * 3600 + clock.minute * 60 + clock.second;
    return to_micros(local_s, &zone, clock.micros, micros);
}

/* ---- printing */

static int32_t print_seconds(int64_t seconds, char between, char *out)
{
    int32_t len = mt_date_print((int32_t)mt_floor_div(seconds, DAY_S), out);
    int second = (int)mt_floor_mod(seconds, DAY_S);
    return len + sprintf(out + len, "%c%02d:%02d:%02d", between, second / 3600, second / 60 % 60,
                         second % 60);
}

int32_t mt_timestamp_print(int64_t micros, char *out)
{
    int64_t utc_s = mt_floor_div(micros, SECOND_US);
    int32_t len = print_seconds(utc_s + mt_zone_offset_at(mt_session_zone(), utc_s), ' ', out);
    int fraction_us = (int)mt_floor_mod(micros, SECOND_US);
    if (fraction_us == 0)
        return len;
    len += sprintf(out + len, ".%06d", fraction_us);
    while (out[len - 1] == '0')
        out[--len] = '\0';
    return len;
}

/* Three digits as Spark's to_json has, six where three would lose some. */
int32_t mt_timestamp_print_iso(int64_t micros, char *out)
{
    int32_t len = print_seconds(mt_floor_div(micros, SECOND_US), 'T', out);
    int fraction_us = (int)mt_floor_mod(micros, SECOND_US);
    if (fraction_us % 1000 == 0)
        return len + sprintf(out + len, ".%03dZ", fraction_us / 1000);
    return len + sprintf(out + len, ".%06dZ", fraction_us);
}
