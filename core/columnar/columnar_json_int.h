/* SPDX-License-Identifier: Apache-2.0
 *
 * columnar_json_int.h - what the four files of the JSON reader share: a record as tokens
 * (walk), a token as a value of a column (value), objects and arrays as rows of columns
 * (nested), and the reader itself. */
#ifndef MT_COLUMNAR_JSON_INT_H
#define MT_COLUMNAR_JSON_INT_H

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "columnar_int.h"
#include "simdjson.h"

namespace sj = simdjson;

/* What became of a value or of a record, the worst last. */
enum json_verdict {
    JSON_FINE,
    JSON_PARTIAL, /* there, but something in it is wrong and was left out */
    JSON_WRONG,   /* well-formed, but not a value of its field's type */
    JSON_BROKEN,  /* not one JSON object and nothing else */
    JSON_STOP,    /* a column is full: reader->err says which */
};

static inline bool json_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* A record after simdjson's first stage: token i starts at text[at[i]] and at[n] is the
 * length. Strings are closed, hold no bare control bytes and all of it is UTF-8. Behind
 * the text SIMDJSON_PADDING bytes are readable. */
struct json_record {
    const char *text;
    const uint32_t *at;
    uint32_t n;
    bool escapes; /* there is a backslash in it */

    /* First byte of token i; NUL behind the last. */
    char byte(uint32_t i) const
    {
        return i < n ? text[at[i]] : '\0';
    }

    /* Token i < n without the blanks behind it. */
    std::string_view token(uint32_t i) const
    {
        const char *start = text + at[i], *end = text + at[i + 1];
        while (json_blank(end[-1]))
            end--; /* a token starts with no blank */
        return {start, (size_t)(end - start)};
    }
};

/* The key that stood at some place of the object in the last records, as it is written
 * up to its closing quote; none has a backslash. Zeroes: no key. */
struct json_slot {
    char key[64];
    uint32_t len;  /* without the quote */
    int32_t field; /* -1: no field of ours */
};

constexpr uint32_t JSON_SLOTS = 64;

/* What a column of the schema is read by; the root is a STRUCT. */
struct json_field {
    const struct ArrowSchema *schema;
    std::string path; /* "items.element.sku", for people */
    std::vector<json_field> children;
    std::unordered_map<std::string_view, int32_t> names; /* STRUCT: of the children */
    std::unique_ptr<json_slot[]> slots;                  /* STRUCT: JSON_SLOTS of them */
};

constexpr int JSON_MAX_DEPTH = 1000;  /* of nesting, and the next: Spark's limits */
constexpr int JSON_MAX_DIGITS = 1000; /* of one number */

struct mt_json_reader {
    const struct ArrowSchema *schema;
    enum mt_json_mode mode;
    int64_t corrupt; /* column that takes the text of malformed records; -1: none */
    json_field fields;
    sj::dom::parser parser; /* its first stage is all we use */

    /* of one read */
    struct mt_column root; /* STRUCT; children that the running row has reached are one longer */
    int64_t row; /* place of the running value in its column, which is longer if it is there */
    int64_t now_us;
    struct mt_error *err;

    /* of one record */
    const char *why;         /* BROKEN: what was met ... */
    int64_t where;           /* ... at this byte; -1: somewhere */
    const json_field *wrong; /* the first one whose value does not fit, or NULL */
    struct mt_buf padded, unescaped, compact;
};

/* ---- columnar_json_walk.cc */

/* A number token, digits gathered. */
struct json_number {
    uint64_t digits;  /* the first 19 significant ones */
    int64_t exponent; /* of 10, for `digits` */
    bool negative;
    bool integer; /* neither point nor exponent */
    bool whole;   /* `digits` are all of them */
};
/* False when the token is not a JSON number or has too many digits. */
bool mt_json_number(std::string_view token, json_number *out);
/* What Spark's STRING is for a number token. */
std::string_view mt_json_number_text(std::string_view token, const json_number &number,
                                     char *cap64);
/* The string that token i is: in place, or unescaped into reader->unescaped (never added
 * to, hence padded too), where half surrogate pairs are three bytes. False: a bad escape. */
bool mt_json_text(struct mt_json_reader *reader, const json_record &record, uint32_t i,
                  std::string_view *out);
/* Checks the value at token *i and all in it, moves *i behind it and, unless out is
 * NULL, adds it to out as Spark prints it: no blanks, its own escapes and numbers.
 * depth: of the object or array that it stands in, the root being 1. */
bool mt_json_walk(struct mt_json_reader *reader, const json_record &record, uint32_t *i, int depth,
                  struct mt_buf *out);

/* ---- columnar_json_value.cc */

double mt_json_double(std::string_view token, const json_number &number);
/* Add a value to the column as row reader->row, in place of what is there. WRONG leaves
 * the column as it was. */
json_verdict mt_json_put_text(struct mt_json_reader *reader, struct mt_column *column,
                              std::string_view text); /* STRING; padded */
json_verdict mt_json_put_string(struct mt_json_reader *reader, struct mt_column *column,
                                std::string_view text); /* a JSON string; padded */
json_verdict mt_json_put_number(struct mt_json_reader *reader, struct mt_column *column,
                                std::string_view token, const json_number &number);
json_verdict mt_json_put_word(struct mt_json_reader *reader, struct mt_column *column,
                              std::string_view token); /* true, false, null */

/* ---- columnar_json_nested.cc */

json_verdict mt_json_broken(struct mt_json_reader *reader, int64_t where, const char *why);
/* Room for `rows` more rows in the column and in the STRUCTs of it: values are written
 * without looking, but for text that is longer than a byte a row. False: full. */
bool mt_json_room(struct mt_json_reader *reader, struct mt_column *column, int64_t rows);
/* Reads the members of an object, whose first key is token *i, into the children of a
 * STRUCT; *i is then at what follows the last value. The record ends with a brace: no
 * step here passes it unseen. Never WRONG. depth: of the object, the root being 1. */
json_verdict mt_json_members(struct mt_json_reader *reader, const json_field &field,
                             const json_record &record, uint32_t *i, struct mt_column *column,
                             int depth);
/* Closes a row of a STRUCT, with nulls for what it lacks. False: full. */
bool mt_json_close_struct(struct mt_json_reader *reader, struct mt_column *column);

#endif
