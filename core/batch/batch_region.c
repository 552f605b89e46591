/* SPDX-License-Identifier: Apache-2.0
 *
 * batch_region.c - the rules of "Europe/Paris", from the system's time zone files.
 *
 * libc would need TZ in the environment of the whole process, which other threads
 * read; so the file (TZif, RFC 8536) is read here. It lists the switches up to some
 * year and ends with a rule for all years after. That rule is written out for 401
 * years, and what lies beyond is moved back by whole cycles of 400: the calendar, its
 * weekdays included, repeats after these. So a look-up is one binary search.
 *
 * Regions are read once and kept until the process ends; there are some hundreds. */
#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "batch_int.h"

#define ZONE_FILES "/usr/share/zoneinfo/"

enum { LARGEST = 1 << 20, HEADER = 44, DAY_S = 86400, CYCLE_YEARS = 400 };
static const int64_t CYCLE_S = INT64_C(146097) * 86400;

/* From the moment `at` (UTC) clocks go by `after` instead of `before`; seconds. */
struct shift {
    int64_t at;
    int32_t before, after;
};

struct mt_region {
    char *name;
    int32_t first; /* offset before all shifts */
    struct shift *shifts;
    int64_t n;
    bool cyclic; /* the last 400 years of shifts repeat for ever */
    struct mt_region *next;
};

static void add_shift(struct mt_region *region, int64_t at, int32_t after)
{
    size_t n = (size_t)region->n;
    int32_t before = n ? region->shifts[n - 1].after : region->first;
    if ((n & (n - 1)) == 0) /* full at each power of two */
        region->shifts = mt_realloc(region->shifts, (n ? n * 2 : 1) * sizeof *region->shifts);
    region->shifts[region->n++] = (struct shift){at, before, after};
}

/* ---- the rule behind the table: "CET-1CEST,M3.5.0,M10.5.0/3" */

/* When in a year: Jn (1..365, never February 29), n (0..365) or Mm.w.d. */
struct rule_day {
    char kind; /* 'J', 'n' or 'M' */
    int64_t month, week, day;
    int64_t second; /* of that day, local time; may be < 0 or past the day */
};

struct rule {
    int32_t standard, summer; /* seconds east of UTC */
    bool switches;
    struct rule_day to_summer, to_standard;
};

static bool skip_abbreviation(struct mt_text *t)
{
    const char *start = t->at;
    if (mt_text_accept(t, '<')) {
        while (t->at < t->end && *t->at != '>')
            t->at++;
        return mt_text_accept(t, '>');
    }
    while (t->at < t->end && isalpha((unsigned char)*t->at))
        t->at++;
    return t->at > start;
}

/* "[+-]h[:mm[:ss]]" in seconds. */
static bool signed_time(struct mt_text *t, int64_t *seconds)
{
    int64_t h, m = 0, s = 0;
    bool negative = mt_text_accept(t, '-');
    if (!negative)
        mt_text_accept(t, '+');
    if (!mt_text_digits(t, 1, 3, &h))
        return false;
    if (mt_text_accept(t, ':') && !mt_text_digits(t, 2, 2, &m))
        return false;
    if (mt_text_accept(t, ':') && !mt_text_digits(t, 2, 2, &s))
        return false;
    *seconds = h * 3600 + m * 60 + s;
    if (negative)
        *seconds = -*seconds;
    return true;
}

static bool read_day(struct mt_text *t, struct rule_day *day)
{
    *day = (struct rule_day){.kind = 'n', .second = 2 * 3600};
    bool read;
    if (mt_text_accept(t, 'M')) {
        day->kind = 'M';
        read = mt_text_digits(t, 1, 2, &day->month) && mt_text_accept(t, '.') &&
               mt_text_digits(t, 1, 1, &day->week) && mt_text_accept(t, '.') &&
               mt_text_digits(t, 1, 1, &day->day) && day->month >= 1 && day->month <= 12;
    } else {
        if (mt_text_accept(t, 'J'))
            day->kind = 'J';
        read = mt_text_digits(t, 1, 3, &day->day);
    }
    return read && (!mt_text_accept(t, '/') || signed_time(t, &day->second));
}

static bool read_rule(struct mt_text t, struct rule *rule)
{
    int64_t west;
    if (!skip_abbreviation(&t) || !signed_time(&t, &west))
        return false;
    *rule = (struct rule){.standard = (int32_t)-west, .summer = (int32_t)-west + 3600};
    if (t.at == t.end)
        return true;
    rule->switches = true;
    if (!skip_abbreviation(&t))
        return false;
    if (t.at < t.end && *t.at != ',') {
        if (!signed_time(&t, &west))
            return false;
        rule->summer = (int32_t)-west;
    }
    return mt_text_accept(&t, ',') && read_day(&t, &rule->to_summer) && mt_text_accept(&t, ',') &&
           read_day(&t, &rule->to_standard) && t.at == t.end;
}

/* The day of Mm.w.d: the w-th weekday d (0 = Sunday) of the month; 5 is the last. */
static int64_t weekday_in_month(int64_t year, const struct rule_day *rule)
{
    int64_t first = mt_day_number(year, (int)rule->month, 1);
    int64_t weekday = mt_floor_mod(first + 4, 7); /* 1970-01-01 was a Thursday */
    int64_t day = first + (rule->day - weekday + 7) % 7 + (rule->week - 1) * 7;
    while (mt_day_of(day).month != rule->month)
        day -= 7;
    return day;
}

static int64_t local_second(int64_t year, const struct rule_day *rule)
{
    int64_t day = mt_day_number(year, 1, 1) + rule->day;
    if (rule->kind == 'M')
        day = weekday_in_month(year, rule);
    if (rule->kind == 'J')
        day -= rule->day < 60 || !mt_day_exists(year, 2, 29);
    return day * DAY_S + rule->second;
}

static void add_year(struct mt_region *region, const struct rule *rule, int64_t year)
{
    struct shift summer = {local_second(year, &rule->to_summer) - rule->standard, 0, rule->summer};
    struct shift standard = {local_second(year, &rule->to_standard) - rule->summer, 0,
                             rule->standard};
    bool north = summer.at < standard.at;
    const struct shift *two[] = {north ? &summer : &standard, north ? &standard : &summer};
    for (int i = 0; i < 2; i++)
        if (region->n == 0 || two[i]->at > region->shifts[region->n - 1].at)
            add_shift(region, two[i]->at, two[i]->after);
}

static bool extend(struct mt_region *region, struct mt_text footer)
{
    struct rule rule;
    if (footer.at == footer.end)
        return true; /* the last shift holds for ever */
    if (!read_rule(footer, &rule))
        return false;
    if (!rule.switches) {
        if (region->n == 0)
            region->first = rule.standard;
        return true;
    }
    int64_t last_s = region->n ? region->shifts[region->n - 1].at : 0;
    int64_t year = mt_day_of(last_s / DAY_S).year;
    for (int i = 0; i <= CYCLE_YEARS + 1; i++)
        add_year(region, &rule, year + i);
    region->cyclic = true;
    return true;
}

/* ---- the file */

static int64_t big_endian(const uint8_t *p, int bytes)
{
    uint64_t value = p[0] & 0x80 ? UINT64_MAX : 0;
    for (int i = 0; i < bytes; i++)
        value = value << 8 | p[i];
    return (int64_t)value;
}

/* One of the file's two blocks: counts from its header, and where its parts are. */
struct block {
    int64_t times, types, chars, leaps, standards, uts;
};

static bool read_header(const uint8_t *p, int64_t len, struct block *block)
{
    if (len < HEADER || memcmp(p, "TZif", 4) != 0)
        return false;
    int64_t counts[6];
    for (int i = 0; i < 6; i++) {
        counts[i] = big_endian(p + 20 + 4 * i, 4);
        if (counts[i] < 0 || counts[i] > LARGEST)
            return false;
    }
    *block = (struct block){.uts = counts[0],
                            .standards = counts[1],
                            .leaps = counts[2],
                            .times = counts[3],
                            .types = counts[4],
                            .chars = counts[5]};
    return block->types > 0;
}

static int64_t block_size(const struct block *b, int time_bytes)
{
    return HEADER + b->times * (time_bytes + 1) + b->types * 6 + b->chars +
           b->leaps * (time_bytes + 4) + b->standards + b->uts;
}

static bool read_shifts(const uint8_t *p, const struct block *block, struct mt_region *region)
{
    const uint8_t *times = p + HEADER, *indexes = times + block->times * 8;
    const uint8_t *types = indexes + block->times;
    region->first = (int32_t)big_endian(types, 4);
    for (int64_t i = 0; i < block->times; i++) {
        if (indexes[i] >= block->types)
            return false;
        add_shift(region, big_endian(times + 8 * i, 8),
                  (int32_t)big_endian(types + 6 * indexes[i], 4));
    }
    return true;
}

/* The first block has 32-bit times and is passed over; the second is read. */
static bool read_file(const uint8_t *p, int64_t len, struct mt_region *region)
{
    struct block block;
    if (!read_header(p, len, &block) || p[4] < '2')
        return false;
    int64_t first = block_size(&block, 4);
    if (first > len || !read_header(p + first, len - first, &block))
        return false;
    int64_t second = block_size(&block, 8);
    if (second > len - first || !read_shifts(p + first, &block, region))
        return false;
    const char *footer = (const char *)p + first + second;
    return extend(region, mt_text_trimmed(footer, (const char *)p + len - footer));
}

/* A region and nothing else below the folder: all of Java's begin with a capital,
 * what else lies there (right/, posixrules, localtime) does not. */
static bool is_region_name(const char *name)
{
    if (*name < 'A' || *name > 'Z' || strstr(name, ".."))
        return false;
    for (; *name; name++)
        if (!isalnum((unsigned char)*name) && !strchr("~/._+-", *name))
            return false;
    return true;
}

static void free_region(struct mt_region *region)
{
    free(region->name);
    free(region->shifts);
    free(region);
}

static struct mt_region *load(const char *name)
{
    char *path = mt_format(ZONE_FILES "%s", name);
    FILE *file = fopen(path, "rbe");
    free(path);
    if (!file)
        return NULL;
    uint8_t *bytes = mt_realloc(NULL, LARGEST);
    size_t len = fread(bytes, 1, LARGEST, file);
    struct mt_region *region = mt_alloc(sizeof *region);
    region->name = mt_strdup(name);
    if (!read_file(bytes, (int64_t)len, region)) {
        free_region(region);
        region = NULL;
    }
    free(bytes);
    fclose(file);
    return region;
}

const struct mt_region *mt_region_find(const char *name)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct mt_region *known;
    if (!is_region_name(name))
        return NULL;
    pthread_mutex_lock(&lock);
    struct mt_region *region = known;
    while (region && strcmp(region->name, name) != 0)
        region = region->next;
    if (!region && (region = load(name))) {
        region->next = known;
        known = region;
    }
    pthread_mutex_unlock(&lock);
    return region;
}

/* When the clocks of this time have changed. In the hour that a switch skips or repeats
 * the local time counts as before the switch. */
static int64_t reached_at(const struct shift *shift, bool local)
{
    int32_t ahead = shift->before > shift->after ? shift->before : shift->after;
    return shift->at + (local ? ahead : 0);
}

int32_t mt_region_offset(const struct mt_region *region, int64_t at, bool local)
{
    if (region->cyclic) {
        int64_t limit = region->shifts[region->n - 1].at - 30 * DAY_S;
        if (at > limit)
            at -= ((at - limit) / CYCLE_S + 1) * CYCLE_S;
    }
    int64_t low = 0, high = region->n; /* how many shifts are behind `at` */
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (reached_at(&region->shifts[middle], local) <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 ? region->shifts[low - 1].after : region->first;
}
