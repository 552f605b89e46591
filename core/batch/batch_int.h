/* SPDX-License-Identifier: Apache-2.0
 *
 * batch_int.h - what the files of batch/ share. */
#ifndef MT_BATCH_INT_H
#define MT_BATCH_INT_H
#include "batch/batch.h"

enum { MT_TEXT_PADDING = 64 }; /* bytes readable behind STRING and BINARY data */

/* A field that owns copies of format and name, and has room for n_children, each
 * released (all zero) until the caller fills it. */
void mt_schema_make(const char *format, const char *name, bool nullable, int64_t n_children,
                    struct ArrowSchema *out);

/* An array of our own. Takes buffers (malloc'ed; [0] is validity and may be NULL;
 * no other may be) and moves children into it. */
void mt_array_make(int64_t length, int64_t null_count, void *const *buffers, int64_t n_buffers,
                   struct ArrowArray *children, int64_t n_children, struct ArrowArray *out);
/* Gives a view of its own (mt_array_share) other validity: bits (malloc'ed, taken) of the
 * rows from `offset` on. */
void mt_array_hide(struct ArrowArray *view, uint8_t *bits, int64_t null_count);
/* Bytes of one value of a fixed width type; 0 for BOOLEAN and all others. */
size_t mt_type_width(enum mt_type type);
static inline bool mt_bit(const void *bits, int64_t i)
{
    return ((const uint8_t *)bits)[i >> 3] >> (i & 7) & 1;
}

/* ---- decimals: up to 38 digits in 128 bits */
typedef unsigned __int128 mt_wide;
mt_wide mt_power_of_ten(int n);
mt_wide mt_decimal_magnitude(const uint64_t unscaled[2], bool *negative);

/* ---- the calendar: proleptic Gregorian, year 0 is 1 BC */
static inline int64_t mt_floor_div(int64_t a, int64_t b) /* b > 0 */
{
    return a / b - (a % b < 0);
}
static inline int64_t mt_floor_mod(int64_t a, int64_t b) /* 0 .. b-1 */
{
    return a % b + (a % b < 0 ? b : 0);
}
struct mt_day {
    int64_t year;
    int month, day; /* from 1 */
};
int64_t mt_day_number(int64_t year, int month, int day); /* days since 1970-01-01 */
struct mt_day mt_day_of(int64_t number);
bool mt_day_exists(int64_t year, int64_t month, int64_t day);

/* ---- text being read: [at, end) */
struct mt_text {
    const char *at, *end;
};
struct mt_text mt_text_trimmed(const char *text, int64_t len); /* blanks and controls off */
/* Reads all digits that follow: `least` to `most` of them, else false. */
static inline bool mt_text_digits(struct mt_text *text, int least, int most, int64_t *value)
{
    int n = 0;
    for (*value = 0; text->at < text->end && *text->at >= '0' && *text->at <= '9'; text->at++)
        if (++n <= most)
            *value = *value * 10 + (*text->at - '0');
    return n >= least && n <= most;
}
static inline bool mt_text_accept(struct mt_text *text, char sign)
{
    if (text->at == text->end || *text->at != sign)
        return false;
    text->at++;
    return true;
}

/* Reads "[+-]y{4,most_digits}[-m[-d]]"; whole: down to the day. False: no such day. */
bool mt_text_date(struct mt_text *text, int most_digits, int64_t *days, bool *whole);

/* ---- time zones: a fixed offset, or the rules of a region */
struct mt_region;
struct mt_zone {
    int32_t offset;                 /* seconds east of UTC, when region is NULL */
    const struct mt_region *region; /* lives until the process ends */
};
/* Reads what Java's ZoneId knows: Z, +h[h][:m[m][:ss]], +hhmm[ss], UTC, GMT, UT, these
 * with an offset, a region ("Europe/Paris") or a short id ("PST"). */
bool mt_zone_parse(const char *text, int64_t len, struct mt_zone *zone);
int32_t mt_zone_offset_at(const struct mt_zone *zone, int64_t utc_s);
/* At a local time; what a switch skips or repeats counts by the offset before it. */
int32_t mt_zone_offset_at_local(const struct mt_zone *zone, int64_t local_s);
/* The zone of this thread's session; UTC unless mt_session_zone_use named another. */
const struct mt_zone *mt_session_zone(void);
/* The region of this name in the system's time zone files, or NULL. */
const struct mt_region *mt_region_find(const char *name);
/* `local`: at is a local time. */
int32_t mt_region_offset(const struct mt_region *region, int64_t at, bool local);
#endif
