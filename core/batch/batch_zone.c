/* SPDX-License-Identifier: Apache-2.0
 *
 * batch_zone.c - the zone behind a timestamp's text, as Java's ZoneId reads it after
 * Spark mended the short forms (+1:30, +01:3). Regions are in batch_region.c. */
#include <string.h>

#include "batch_int.h"

static const struct {
    const char *id, *region;
} short_ids[] = {
    {"ACT", "Australia/Darwin"},
    {"AET", "Australia/Sydney"},
    {"AGT", "America/Argentina/Buenos_Aires"},
    {"ART", "Africa/Cairo"},
    {"AST", "America/Anchorage"},
    {"BET", "America/Sao_Paulo"},
    {"BST", "Asia/Dhaka"},
    {"CAT", "Africa/Harare"},
    {"CNT", "America/St_Johns"},
    {"CST", "America/Chicago"},
    {"CTT", "Asia/Shanghai"},
    {"EAT", "Africa/Addis_Ababa"},
    {"ECT", "Europe/Paris"},
    {"IET", "America/Indiana/Indianapolis"},
    {"IST", "Asia/Kolkata"},
    {"JST", "Asia/Tokyo"},
    {"MIT", "Pacific/Apia"},
    {"NET", "Asia/Yerevan"},
    {"NST", "Pacific/Auckland"},
    {"PLT", "Asia/Karachi"},
    {"PNT", "America/Phoenix"},
    {"PRT", "America/Puerto_Rico"},
    {"PST", "America/Los_Angeles"},
    {"SST", "Pacific/Guadalcanal"},
    {"VST", "Asia/Ho_Chi_Minh"},
};

/* hhmm and hhmmss as one number. */
static bool split(int64_t digits, int n, int64_t *h, int64_t *m, int64_t *s)
{
    *s = n == 6 ? digits % 100 : 0;
    *m = n == 6 ? digits / 100 % 100 : digits % 100;
    *h = n == 6 ? digits / 10000 : digits / 100;
    return n == 4 || n == 6;
}

/* "h[h][:mm[:ss]]", "h[h]:m" at the end, "hhmm", "hhmmss": what follows the sign. */
static bool hours_minutes(struct mt_text *t, int64_t *h, int64_t *m, int64_t *s)
{
    const char *start = t->at;
    *m = *s = 0;
    if (!mt_text_digits(t, 1, 6, h))
        return false;
    int n = (int)(t->at - start);
    if (n > 2)
        return split(*h, n, h, m, s);
    if (!mt_text_accept(t, ':'))
        return true;
    start = t->at;
    if (!mt_text_digits(t, 1, 2, m))
        return false;
    if (t->at - start == 1)
        return t->at == t->end;
    return !mt_text_accept(t, ':') || mt_text_digits(t, 2, 2, s);
}

/* A sign and hours up to 18:00. */
static bool offset(struct mt_text t, int32_t *seconds)
{
    int64_t h, m, s;
    bool west = mt_text_accept(&t, '-');
    if (!west && !mt_text_accept(&t, '+'))
        return false;
    if (!hours_minutes(&t, &h, &m, &s) || t.at != t.end || m > 59 || s > 59)
        return false;
    int64_t total = h * 3600 + m * 60 + s;
    *seconds = (int32_t)(west ? -total : total);
    return total <= 18 * 3600;
}

static bool region(struct mt_text t, struct mt_zone *zone)
{
    char name[64];
    size_t len = (size_t)(t.end - t.at);
    if (len >= sizeof name)
        return false;
    memcpy(name, t.at, len);
    name[len] = '\0';
    for (size_t i = 0; i < sizeof short_ids / sizeof *short_ids; i++)
        if (strcmp(name, short_ids[i].id) == 0)
            strcpy(name, short_ids[i].region);
    zone->region = mt_region_find(name);
    return zone->region != NULL;
}

bool mt_zone_parse(const char *text, int64_t len, struct mt_zone *zone)
{
    static const char *const prefixes[] = {"UTC", "GMT", "UT"};
    struct mt_text t = {text, text + len};
    *zone = (struct mt_zone){0};
    if (len == 0)
        return false;
    if (len == 1 && *text == 'Z')
        return true;
    if (*text == '+' || *text == '-')
        return offset(t, &zone->offset);
    for (int i = 0; i < 3; i++) {
        int64_t n = (int64_t)strlen(prefixes[i]);
        if (len < n || memcmp(text, prefixes[i], (size_t)n) != 0)
            continue;
        if (len == n)
            return true;
        t.at = text + n;
        if (*t.at == '+' || *t.at == '-')
            return offset(t, &zone->offset);
        t.at = text;
        break;
    }
    return region(t, zone);
}

int32_t mt_zone_offset_at(const struct mt_zone *zone, int64_t utc_s)
{
    return zone->region ? mt_region_offset(zone->region, utc_s, false) : zone->offset;
}

int32_t mt_zone_offset_at_local(const struct mt_zone *zone, int64_t local_s)
{
    return zone->region ? mt_region_offset(zone->region, local_s, true) : zone->offset;
}

/* ---- the session's zone */

/* One a thread: two queries of a process may be in different zones while one of them runs a
 * batch that was planned under another. */
static _Thread_local struct mt_zone session;
static _Thread_local char session_name[64] = "UTC";

_Bool mt_session_zone_use(const char *name)
{
    struct mt_zone zone;
    size_t len = strlen(name);
    if (len >= sizeof session_name || !mt_zone_parse(name, (int64_t)len, &zone))
        return false;
    session = zone;
    memcpy(session_name, name, len + 1);
    return true;
}

const struct mt_zone *mt_session_zone(void)
{
    return &session;
}

const char *mt_session_zone_name(void)
{
    return session_name;
}

int32_t mt_session_offset(int64_t seconds, _Bool local)
{
    return local ? mt_zone_offset_at_local(&session, seconds)
                 : mt_zone_offset_at(&session, seconds);
}
