/* SPDX-License-Identifier: Apache-2.0
 *
 * columnar_time.cc - dates and times in files of text.
 *
 * Without a pattern they have Spark's form, yyyy-MM-dd'T'HH:mm:ss[.SSS][XXX], but for what
 * that would lose: Spark cuts microseconds off there, here six digits stand when three
 * are not enough (and seconds of an offset that has some). A pattern says what is wanted,
 * and is followed. Names are English. */
#include <chrono>
#include <cstring>

#include "columnar_text.h"

static const char *const MONTHS[] = {"January",   "February", "March",    "April",
                                     "May",       "June",     "July",     "August",
                                     "September", "October",  "November", "December"};
static const char *const DAYS[] = {"Monday", "Tuesday",  "Wednesday", "Thursday",
                                   "Friday", "Saturday", "Sunday"};

struct clock_parts {
    int64_t year;
    int month, day, year_day, weekday; /* weekday: 0 = Monday */
    int hour, minute, second, micros;
    int32_t offset; /* seconds east of UTC */
};

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

/* Days since 1970 taken apart; a 400-year cycle of the calendar has 146097 days. */
static void set_date(int64_t days, struct clock_parts *clock)
{
    int64_t cycle = floor_div(days, 146097);
    std::chrono::sys_days within{std::chrono::days{days - cycle * 146097}};
    std::chrono::year_month_day date{within};
    clock->year = (int)date.year() + cycle * 400;
    clock->month = (int)(unsigned)date.month();
    clock->day = (int)(unsigned)date.day();
    clock->year_day =
        (int)(within - std::chrono::sys_days{date.year() / std::chrono::January / 1}).count() + 1;
    clock->weekday = (int)std::chrono::weekday{within}.iso_encoding() - 1;
}

static void set_time(int64_t micros, struct clock_parts *clock)
{
    int64_t utc_s = floor_div(micros, 1000000);
    clock->micros = (int)(micros - utc_s * 1000000);
    clock->offset = mt_session_offset(utc_s, false);
    int64_t local_s = utc_s + clock->offset, days = floor_div(local_s, 86400);
    int second = (int)(local_s - days * 86400);
    clock->hour = second / 3600;
    clock->minute = second / 60 % 60;
    clock->second = second % 60;
    set_date(days, clock);
}

static void add_padded(int64_t n, int width, std::string *out)
{
    char text[24];
    int at = sizeof text;
    for (; n > 0 || width > 0; n /= 10, width--)
        text[--at] = (char)('0' + n % 10);
    out->append(text + at, sizeof text - (size_t)at);
}

/* ---- Spark's default */

static void add_year(int64_t year, int width, std::string *out)
{
    if (year < 0)
        out->append(1, '-');
    else if (width >= 4 && year > 9999)
        out->append(1, '+');
    add_padded(year < 0 ? -year : year, width, out);
}

static void add_day(const struct clock_parts *clock, std::string *out)
{
    add_year(clock->year, 4, out);
    out->append(1, '-');
    add_padded(clock->month, 2, out);
    out->append(1, '-');
    add_padded(clock->day, 2, out);
}

/* "+02:00", "+0200", "+02" by the count of letters; zulu: Z stands for zero. */
static void add_offset(int32_t offset, int count, bool zulu, std::string *out)
{
    int size = offset < 0 ? -offset : offset, minutes = size / 60 % 60, seconds = size % 60;
    const char *colon = count == 3 || count == 5 ? ":" : "";
    if (offset == 0 && zulu) {
        out->append(1, 'Z');
        return;
    }
    out->append(1, offset < 0 ? '-' : '+');
    add_padded(size / 3600, 2, out);
    if (count > 1 || minutes > 0) {
        out->append(colon);
        add_padded(minutes, 2, out);
    }
    if (count > 3 && seconds > 0) {
        out->append(colon);
        add_padded(seconds, 2, out);
    }
}

static void add_default(const struct clock_parts *clock, std::string *out)
{
    add_day(clock, out);
    const int parts[] = {clock->hour, clock->minute, clock->second};
    for (int i = 0; i < 3; i++) {
        out->append(1, "T::"[i]);
        add_padded(parts[i], 2, out);
    }
    bool whole = clock->micros % 1000 == 0;
    out->append(1, '.');
    add_padded(whole ? clock->micros / 1000 : clock->micros, whole ? 3 : 6, out);
    add_offset(clock->offset, 5, true, out);
}

/* ---- patterns */

static const struct {
    char letter;
    int most;
} LETTERS[] = {{'y', 6}, {'u', 6}, {'M', 4}, {'L', 4}, {'d', 2}, {'D', 3},
               {'E', 4}, {'a', 1}, {'H', 2}, {'k', 2}, {'K', 2}, {'h', 2},
               {'m', 2}, {'s', 2}, {'S', 9}, {'X', 5}, {'x', 5}, {'Z', 3}};

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static int most_of(char letter)
{
    for (const auto &known : LETTERS)
        if (known.letter == letter)
            return known.most;
    return 0;
}

/* The text in quotes that begins at p; '' is a quote, alone too. NULL: not closed. */
static const char *read_quoted(const char *p, std::string *text)
{
    if (p[1] == '\'') {
        *text = "'";
        return p + 2;
    }
    for (p++; *p; p++) {
        if (*p == '\'' && p[1] != '\'')
            return p + 1;
        p += *p == '\'';
        text->append(1, *p);
    }
    return nullptr;
}

enum mt_status time_pattern::read(const char *option, const char *pattern, struct mt_error *err)
{
    for (const char *p = pattern; *p;) {
        piece next = {'\0', 0, ""};
        if (is_letter(*p)) {
            next.letter = *p;
            for (; *p == next.letter; p++)
                next.count++;
        } else if (*p == '\'') {
            p = read_quoted(p, &next.text);
        } else if (*p == '[' || *p == ']') {
            p++; /* what may be missing when it is read is there when it is written */
            continue;
        } else {
            next.text.assign(1, *p++);
        }
        if (!p || *pattern == '\0' || next.count > most_of(next.letter))
            return mt_fail(err, MT_REJECT, MT_CLASS_JOB,
                           "option \"%s\" is \"%s\": %s; there are the letters y u M L d D E a H k "
                           "K h m s S X x Z, and text in single quotes",
                           option, pattern,
                           !p ? "a quote is not closed"
                              : "a letter is not known, or there is too much of it");
        pieces.push_back(std::move(next));
    }
    return MT_OK;
}

static void add_name(const char *name, int count, std::string *out)
{
    out->append(name, count == 4 ? strlen(name) : 3);
}

static void add_year_of(int64_t year, int count, std::string *out)
{
    if (count == 2)
        add_padded(((year % 100) + 100) % 100, 2, out);
    else
        add_year(year, count, out);
}

static void add_fraction(int micros, int count, std::string *out)
{
    std::string digits;
    add_padded(micros, 6, &digits);
    out->append((digits + "000").substr(0, (size_t)count));
}

static void add_piece(const time_pattern::piece &piece, const struct clock_parts *clock,
                      std::string *out)
{
    int n = piece.count;
    switch (piece.letter) {
    case '\0':
        out->append(piece.text);
        break;
    case 'y':
        add_year_of(clock->year > 0 ? clock->year : 1 - clock->year, n, out);
        break;
    case 'u':
        add_year_of(clock->year, n, out);
        break;
    case 'M':
    case 'L':
        n > 2 ? add_name(MONTHS[clock->month - 1], n, out) : add_padded(clock->month, n, out);
        break;
    case 'E':
        add_name(DAYS[clock->weekday], n, out);
        break;
    case 'a':
        out->append(clock->hour < 12 ? "AM" : "PM");
        break;
    case 'S':
        add_fraction(clock->micros, n, out);
        break;
    case 'X':
    case 'x':
    case 'Z':
        add_offset(clock->offset, piece.letter == 'Z' ? 2 : n, piece.letter == 'X', out);
        break;
    default: {
        int h = clock->hour;
        const struct {
            char letter;
            int value;
        } numbers[] = {{'d', clock->day},        {'D', clock->year_day}, {'H', h},
                       {'k', (h + 23) % 24 + 1}, {'K', h % 12},          {'h', (h + 11) % 12 + 1},
                       {'m', clock->minute},     {'s', clock->second}};
        for (const auto &number : numbers)
            if (number.letter == piece.letter)
                add_padded(number.value, n, out);
    }
    }
}

void time_pattern::add_date(int32_t days, std::string *out) const
{
    struct clock_parts clock = {};
    set_date(days, &clock);
    if (pieces.empty())
        add_day(&clock, out);
    for (const piece &one : pieces)
        add_piece(one, &clock, out);
}

void time_pattern::add_timestamp(int64_t micros, std::string *out) const
{
    struct clock_parts clock = {};
    set_time(micros, &clock);
    if (pieces.empty())
        add_default(&clock, out);
    for (const piece &one : pieces)
        add_piece(one, &clock, out);
}
