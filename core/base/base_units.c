/* SPDX-License-Identifier: Apache-2.0
 *
 * base_units.c - "10 seconds" and "64m" as numbers.
 *
 * A duration always has its unit: a bare 10 would be seconds to some and
 * milliseconds to others, and a trigger a thousand times too fast is found late.
 * Bytes may stand bare; their units are powers of 1024, as Spark's are. */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "base/base.h"

struct unit {
    const char *names; /* "s|second|seconds" */
    int64_t scale;
};

static const struct unit durations[] = {
    {"ms|msec|msecs|millisecond|milliseconds", 1},
    {"s|sec|secs|second|seconds", 1000},
    {"m|min|mins|minute|minutes", 60 * 1000},
    {"h|hr|hrs|hour|hours", 60 * 60 * 1000},
    {"d|day|days", 24 * 60 * 60 * 1000},
    {"w|week|weeks", 7 * 24 * 60 * 60 * 1000},
    {0},
};

static const struct unit sizes[] = {
    {"b|byte|bytes", 1},
    {"k|kb|kib", INT64_C(1) << 10},
    {"m|mb|mib", INT64_C(1) << 20},
    {"g|gb|gib", INT64_C(1) << 30},
    {"t|tb|tib", INT64_C(1) << 40},
    {0},
};

static const char *skip_blanks(const char *s)
{
    while (isspace((unsigned char)*s))
        s++;
    return s;
}

static bool in_list(const char *list, const char *word, size_t len)
{
    while (list) {
        if (strncasecmp(list, word, len) == 0 && (list[len] == '|' || list[len] == '\0'))
            return true;
        list = strchr(list, '|');
        list = list ? list + 1 : NULL;
    }
    return false;
}

static int64_t scale_of(const struct unit *units, const char *word, size_t len)
{
    for (; units->names; units++)
        if (in_list(units->names, word, len))
            return units->scale;
    return 0;
}

/* Reads "<digits>[blanks]<letters>" at *s and moves on. bare: scale when no letters
 * follow, 0 to refuse that. False: not of this form, or past 63 bits. */
static bool read_part(const char **s, const struct unit *units, int64_t bare, int64_t *value)
{
    const char *p = skip_blanks(*s);
    int64_t number = 0;
    if (!isdigit((unsigned char)*p))
        return false;
    for (; isdigit((unsigned char)*p); p++)
        if (__builtin_mul_overflow(number, 10, &number) ||
            __builtin_add_overflow(number, *p - '0', &number))
            return false;
    const char *word = skip_blanks(p);
    for (p = word; isalpha((unsigned char)*p);)
        p++;
    int64_t scale = p == word ? bare : scale_of(units, word, (size_t)(p - word));
    *s = skip_blanks(p);
    return scale > 0 && !__builtin_mul_overflow(number, scale, value);
}

enum mt_status mt_parse_duration(const char *text, int64_t *ms, struct mt_error *err)
{
    const char *s = text;
    char quoted[80];
    *ms = 0;
    do {
        int64_t part;
        if (!read_part(&s, durations, 0, &part) || __builtin_add_overflow(*ms, part, ms))
            return mt_fail(
                err, MT_FATAL, MT_CLASS_JOB,
                "cannot read \"%s\" as a duration: write a whole number and a unit from "
                "ms to weeks, as in \"10 seconds\", \"500ms\" or \"1 minute 30 seconds\"",
                mt_quote(text, strlen(text), quoted, sizeof quoted));
    } while (*s);
    return MT_OK;
}

enum mt_status mt_parse_bytes(const char *text, int64_t *bytes, struct mt_error *err)
{
    const char *s = text;
    char quoted[80];
    if (!read_part(&s, sizes, 1, bytes) || *s)
        return mt_fail(err, MT_FATAL, MT_CLASS_JOB,
                       "cannot read \"%s\" as a number of bytes: write a whole number, alone or "
                       "with k, m, g or t, as in \"1024\", \"64m\" or \"1g\"",
                       mt_quote(text, strlen(text), quoted, sizeof quoted));
    return MT_OK;
}
