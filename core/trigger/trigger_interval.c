/* SPDX-License-Identifier: Apache-2.0
 *
 * trigger_interval.c - Spark's interval text as milliseconds.
 *
 * The grammar is Spark's, not that of our own durations (base_units.c): a blank
 * stands between number and unit, the word "interval" may come first, only seconds
 * take a fraction. Where Spark rounds ("500 microseconds" becomes 0, which means "no
 * interval"), this reader refuses: a trigger that is silently another one is found
 * by its bill. */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "trigger/trigger.h"

struct unit {
    const char *name; /* singular */
    int64_t us;
};

static const struct unit units[] = {
    {"microsecond", 1},
    {"millisecond", 1000},
    {"second", INT64_C(1000000)},
    {"minute", INT64_C(60) * 1000000},
    {"hour", INT64_C(3600) * 1000000},
    {"day", INT64_C(86400) * 1000000},
    {"week", INT64_C(7) * 86400 * 1000000},
};

static const char *skip_blanks(const char *p)
{
    while (isspace((unsigned char)*p))
        p++;
    return p;
}

static bool is_word(const char *word, size_t len, const char *name)
{
    size_t n = strlen(name);
    return strncasecmp(word, name, n < len ? n : len) == 0 &&
           (len == n || (len == n + 1 && tolower((unsigned char)word[n]) == 's'));
}

static const struct unit *unit_of(const char *word, size_t len)
{
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (is_word(word, len, units[i].name))
            return &units[i];
    return NULL;
}

/* Digits at *p into *value; false when there is none or they pass 63 bits. */
static bool read_digits(const char **p, int64_t *value)
{
    const char *start = *p;
    for (*value = 0; isdigit((unsigned char)**p); (*p)++)
        if (__builtin_mul_overflow(*value, 10, value) ||
            __builtin_add_overflow(*value, **p - '0', value))
            return false;
    return *p > start;
}

/* ".25" as 250,000 microseconds; false when it has no digits or a finer one. */
static bool read_fraction(const char **p, int64_t *us)
{
    const char *start = ++*p;
    int64_t scale = 100000;
    for (*us = 0; isdigit((unsigned char)**p); (*p)++, scale /= 10) {
        if (scale == 0 && **p != '0')
            return false;
        *us += (**p - '0') * scale;
    }
    return *p > start;
}

/* What is wrong with the part at *p, or NULL after adding it to *us and moving on. */
static const char *read_part(const char **p, int64_t *us)
{
    static const char form[] = "write numbers with a unit from milliseconds to weeks, as in "
                               "\"10 seconds\", \"500 milliseconds\" or \"2 hours 5 minutes\"";
    int64_t number = 0, fraction = 0, part;
    if (**p == '-')
        return "an interval cannot be negative";
    if (**p == '+')
        *p = skip_blanks(*p + 1);
    if (**p != '.' && !read_digits(p, &number))
        return form;
    bool fractional = **p == '.';
    if (fractional && !read_fraction(p, &fraction))
        return form;
    const char *word = skip_blanks(*p);
    bool apart = word > *p;
    for (*p = word; isalpha((unsigned char)**p);)
        (*p)++;
    size_t len = (size_t)(*p - word);
    if (is_word(word, len, "month") || is_word(word, len, "year"))
        return "months and years differ in length; write days";
    const struct unit *unit = unit_of(word, len);
    if (!unit || !apart || (**p && !isspace((unsigned char)**p)))
        return form;
    if (fractional && strcmp(unit->name, "second") != 0)
        return "only seconds can have a fraction";
    if (__builtin_mul_overflow(number, unit->us, &part) ||
        __builtin_add_overflow(part, fraction, &part) || __builtin_add_overflow(*us, part, us))
        return "it is longer than 64 bits of microseconds";
    *p = skip_blanks(*p);
    return NULL;
}

enum mt_status mt_trigger_parse_interval(const char *text, int64_t *ms, struct mt_error *err)
{
    static const char prefix[] = "interval";
    const size_t prefix_len = sizeof prefix - 1;
    const char *p = skip_blanks(text), *wrong;
    int64_t us = 0;
    char quoted[80];
    if (strncasecmp(p, prefix, prefix_len) == 0 && isspace((unsigned char)p[prefix_len]))
        p = skip_blanks(p + prefix_len);
    do
        wrong = read_part(&p, &us);
    while (!wrong && *p);
    if (!wrong && us % 1000)
        wrong = "it is not a whole number of milliseconds";
    *ms = wrong ? 0 : us / 1000;
    if (wrong)
        return mt_fail(err, MT_FATAL, MT_CLASS_JOB, "cannot read \"%s\" as an interval: %s",
                       mt_quote(text, strlen(text), quoted, sizeof quoted), wrong);
    return MT_OK;
}
