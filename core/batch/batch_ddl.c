/* SPDX-License-Identifier: Apache-2.0
 *
 * batch_ddl.c - "id BIGINT, tags ARRAY<STRING>" as a schema.
 *
 * A recursive descent over the text itself: one function a rule, no token list.
 * A type name decides what may follow, and a name comes first in its column, so no
 * word is reserved and a column may be called `comment` or `not`. Everything that
 * is refused says at which character and what would have been right there; DDL is
 * typed by hand and its typos are the first thing a newcomer meets.
 *
 *   columns = column {"," column}
 *   column  = name [":"] type ["NOT" "NULL"] ["COMMENT" string]
 *   type    = word | "DECIMAL" ["(" p ["," s] ")"] | "ARRAY" "<" type ">"
 *           | "MAP" "<" type "," type ">" | "STRUCT" "<" columns ">"
 *
 * A COMMENT is read and left out: it is for people and changes no value. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "batch_int.h"

enum { DEEPEST = 32 }; /* nesting; Arrow and Parquet readers recurse too */

struct ddl {
    const char *what; /* that is read, for messages */
    const char *text, *at;
    int depth;
    struct mt_error *err;
};

struct type_name {
    const char *word, *format;
};

static const struct type_name type_names[] = {
    {"BOOLEAN", "b"},
    {"TINYINT", "c"},
    {"BYTE", "c"},
    {"SMALLINT", "s"},
    {"SHORT", "s"},
    {"INT", "i"},
    {"INTEGER", "i"},
    {"BIGINT", "l"},
    {"LONG", "l"},
    {"FLOAT", "f"},
    {"REAL", "f"},
    {"DOUBLE", "g"},
    {"DECIMAL", "d"},
    {"DEC", "d"},
    {"NUMERIC", "d"},
    {"STRING", "u"},
    {"BINARY", "z"},
    {"DATE", "tdD"},
    {"TIMESTAMP", "tsu:UTC"},
    {"TIMESTAMP_LTZ", "tsu:UTC"},
    {"ARRAY", "+l"},
    {"STRUCT", "+s"},
    {"MAP", "+m"},
};
enum { N_TYPES = sizeof type_names / sizeof *type_names };

static const struct {
    const char *word, *cure;
} elsewhere[] = {
    {"CHAR", "write STRING"},
    {"CHARACTER", "write STRING"},
    {"VARCHAR", "write STRING"},
    {"TEXT", "write STRING"},
    {"TIMESTAMP_NTZ", "write TIMESTAMP, which counts from 1970 UTC"},
    {"INTERVAL", "write BIGINT and keep microseconds"},
    {"VARIANT", "write STRING and keep the JSON text"},
    {"VOID", "name the type"},
};

/* ---- what is wrong, and where */

static int column_of(const struct ddl *p, const char *at)
{
    int n = 1;
    for (const char *s = p->text; s < at; s++)
        n += ((unsigned char)*s & 0xc0) != 0x80;
    return n;
}

static enum mt_status refuse(struct ddl *p, const char *at, const char *fmt, ...)
    MT_PRINTF(3, 4) MT_NODISCARD;
static enum mt_status refuse(struct ddl *p, const char *at, const char *fmt, ...)
{
    char words[600];
    va_list args;
    va_start(args, fmt);
    vsnprintf(words, sizeof words, fmt, args);
    va_end(args);
    return mt_fail(p->err, MT_FATAL, MT_CLASS_JOB, "%s, character %d: %s", p->what,
                   column_of(p, at), words);
}

/* What stands at p->at, for a message. */
static const char *found(const struct ddl *p, char out[48])
{
    char quoted[40];
    if (*p->at == '\0')
        return "the end";
    size_t len = strcspn(p->at, " \t\r\n,<>()");
    snprintf(out, 48, "\"%s\"", mt_quote(p->at, len ? len : 1, quoted, sizeof quoted));
    return out;
}

/* ---- words and signs */

static void skip_blanks(struct ddl *p)
{
    while (isspace((unsigned char)*p->at))
        p->at++;
}

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_' || (unsigned char)c >= 0x80;
}

static size_t word_len(const char *s)
{
    size_t n = 0;
    while (is_word(s[n]))
        n++;
    return n;
}

static bool accept(struct ddl *p, char sign)
{
    skip_blanks(p);
    if (*p->at != sign)
        return false;
    p->at++;
    return true;
}

static enum mt_status expect(struct ddl *p, char sign, const char *where)
{
    char here[48];
    if (accept(p, sign))
        return MT_OK;
    return refuse(p, p->at, "expected '%c' %s, found %s", sign, where, found(p, here));
}

static bool accept_word(struct ddl *p, const char *word)
{
    skip_blanks(p);
    size_t len = strlen(word);
    if (word_len(p->at) != len || strncasecmp(p->at, word, len) != 0)
        return false;
    p->at += len;
    return true;
}

static bool is_number(const char *s, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!isdigit((unsigned char)s[i]))
            return false;
    return true;
}

/* `a``b` is the name a`b. */
static enum mt_status quoted_name(struct ddl *p, char **name)
{
    const char *start = p->at++;
    struct mt_buf buf = {0};
    for (;; p->at++) {
        if (*p->at == '\0') {
            mt_buf_free(&buf);
            return refuse(p, start, "this backquote is never closed");
        }
        if (*p->at == '`' && *++p->at != '`')
            break;
        mt_buf_add(&buf, p->at, 1);
    }
    if (buf.len == 0)
        return refuse(p, start, "a column needs a name between its backquotes");
    *name = buf.data;
    return MT_OK;
}

static enum mt_status name(struct ddl *p, char **out)
{
    char here[48];
    skip_blanks(p);
    if (*p->at == '`')
        return quoted_name(p, out);
    size_t len = word_len(p->at);
    if (len == 0)
        return refuse(p, p->at, "expected a column name, found %s", found(p, here));
    if (is_number(p->at, len))
        return refuse(p, p->at,
                      "expected a column name, found %s; write `%.*s` if that is its name",
                      found(p, here), (int)(len < 40 ? len : 40), p->at);
    *out = mt_strndup(p->at, len);
    p->at += len;
    return MT_OK;
}

/* ---- types */

static enum mt_status number(struct ddl *p, int least, int most, const char *what, int *out)
{
    char here[48];
    skip_blanks(p);
    size_t len = word_len(p->at);
    bool fits = len > 0 && len <= 9 && is_number(p->at, len);
    *out = fits ? atoi(p->at) : -1;
    if (*out < least || *out > most)
        return refuse(p, p->at, "the %s of a DECIMAL is a whole number from %d to %d, not %s", what,
                      least, most, found(p, here));
    p->at += len;
    return MT_OK;
}

static enum mt_status decimal(struct ddl *p, const char *column, struct ArrowSchema *out)
{
    int precision = 10, scale = 0;
    enum mt_status status = MT_OK;
    if (accept(p, '(')) {
        status = number(p, 1, 38, "precision", &precision);
        if (status == MT_OK && accept(p, ','))
            status = number(p, 0, precision, "scale", &scale);
        if (status == MT_OK)
            status = expect(p, ')', "after the numbers of a DECIMAL");
    }
    char format[24];
    snprintf(format, sizeof format, "d:%d,%d", precision, scale);
    if (status == MT_OK)
        mt_schema_make(format, column, true, 0, out);
    return status;
}

static enum mt_status type(struct ddl *p, const char *column, struct ArrowSchema *out);
static enum mt_status columns(struct ddl *p, const char *column, struct ArrowSchema *out);

static enum mt_status array(struct ddl *p, const char *column, struct ArrowSchema *out)
{
    mt_schema_make("+l", column, true, 1, out);
    enum mt_status status = expect(p, '<', "after ARRAY");
    if (status == MT_OK)
        status = type(p, "element", out->children[0]);
    return status == MT_OK ? expect(p, '>', "after the type of an ARRAY's elements") : status;
}

static enum mt_status map(struct ddl *p, const char *column, struct ArrowSchema *out)
{
    mt_schema_make("+m", column, true, 1, out);
    struct ArrowSchema *entries = out->children[0];
    mt_schema_make("+s", "entries", false, 2, entries);
    enum mt_status status = expect(p, '<', "after MAP");
    if (status == MT_OK)
        status = type(p, "key", entries->children[0]);
    if (status == MT_OK)
        status = expect(p, ',', "after the key type of a MAP");
    if (status == MT_OK)
        status = type(p, "value", entries->children[1]);
    if (status != MT_OK)
        return status;
    entries->children[0]->flags = 0; /* a key is never null */
    return expect(p, '>', "after the value type of a MAP");
}

static enum mt_status structure(struct ddl *p, const char *column, struct ArrowSchema *out)
{
    enum mt_status status = expect(p, '<', "after STRUCT");
    if (status == MT_OK)
        status = columns(p, column, out);
    return status == MT_OK ? expect(p, '>', "or ',' after a field of a STRUCT") : status;
}

static enum mt_status unknown_type(struct ddl *p, size_t len)
{
    char quoted[80];
    char *word = mt_strndup(p->at, len);
    const char *names[N_TYPES + 1] = {0};
    for (int i = 0; i < N_TYPES; i++)
        names[i] = type_names[i].word;
    const char *near = mt_suggest(word, names), *cure = NULL;
    for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++)
        if (strcasecmp(word, elsewhere[i].word) == 0)
            cure = elsewhere[i].cure;
    mt_quote(word, len, quoted, sizeof quoted);
    free(word);
    if (cure)
        return refuse(p, p->at, "the type %s is not here yet; %s", quoted, cure);
    if (near)
        return refuse(p, p->at, "unknown type \"%s\"; did you mean %s?", quoted, near);
    return refuse(p, p->at,
                  "unknown type \"%s\"; there are BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, "
                  "DOUBLE, DECIMAL(p,s), STRING, BINARY, DATE, TIMESTAMP, ARRAY<t>, STRUCT<n: t> "
                  "and MAP<k, v>",
                  quoted);
}

static enum mt_status no_type(struct ddl *p, const char *column)
{
    char here[48], quoted[80];
    mt_quote(column, strlen(column), quoted, sizeof quoted);
    if (*p->at && !strchr(",<>()", *p->at))
        return refuse(p, p->at,
                      "expected the type of \"%s\", found %s; a name with other characters than "
                      "letters, digits and _ stands in backquotes",
                      quoted, found(p, here));
    return refuse(p, p->at, "expected the type of \"%s\", found %s", quoted, found(p, here));
}

static enum mt_status type_of_format(struct ddl *p, const char *format, const char *column,
                                     struct ArrowSchema *out)
{
    if (strcmp(format, "d") == 0)
        return decimal(p, column, out);
    if (strcmp(format, "+l") == 0)
        return array(p, column, out);
    if (strcmp(format, "+m") == 0)
        return map(p, column, out);
    if (strcmp(format, "+s") == 0)
        return structure(p, column, out);
    mt_schema_make(format, column, true, 0, out);
    return MT_OK;
}

/* Fills *out, maybe in part: on failure the caller releases what there is. */
static enum mt_status type(struct ddl *p, const char *column, struct ArrowSchema *out)
{
    skip_blanks(p);
    size_t len = word_len(p->at);
    if (len == 0)
        return no_type(p, column);
    if (p->depth == DEEPEST)
        return refuse(p, p->at, "types are nested more than %d deep", DEEPEST);
    for (int i = 0; i < N_TYPES; i++) {
        const char *word = type_names[i].word;
        if (strlen(word) != len || strncasecmp(p->at, word, len) != 0)
            continue;
        p->at += len;
        p->depth++;
        enum mt_status status = type_of_format(p, type_names[i].format, column, out);
        p->depth--;
        return status;
    }
    return unknown_type(p, len);
}

/* ---- columns */

/* Passes over 'it\'s' or 'it''s'. */
static enum mt_status quoted_text(struct ddl *p)
{
    const char *start = p->at;
    char quote = *start;
    do {
        for (p->at++; *p->at != quote; p->at++) {
            if (*p->at == '\\' && p->at[1])
                p->at++;
            if (*p->at == '\0')
                return refuse(p, start, "this quote is never closed");
        }
    } while (*++p->at == quote);
    return MT_OK;
}

static enum mt_status comment(struct ddl *p)
{
    char here[48];
    skip_blanks(p);
    if (*p->at != '\'' && *p->at != '"')
        return refuse(p, p->at, "expected text in quotes after COMMENT, found %s", found(p, here));
    return quoted_text(p);
}

static enum mt_status column_type(struct ddl *p, const char *column, struct ArrowSchema *out)
{
    char here[48];
    accept(p, ':');
    enum mt_status status = type(p, column, out);
    if (status != MT_OK)
        return status;
    if (accept_word(p, "NOT")) {
        if (!accept_word(p, "NULL"))
            return refuse(p, p->at, "expected NULL after NOT, found %s", found(p, here));
        out->flags = 0;
    }
    return accept_word(p, "COMMENT") ? comment(p) : MT_OK;
}

static enum mt_status one_column(struct ddl *p, struct ArrowSchema *parent, struct ArrowSchema *out)
{
    char *column, quoted[80];
    skip_blanks(p);
    const char *start = p->at;
    enum mt_status status = name(p, &column);
    if (status != MT_OK)
        return status;
    for (int64_t i = 0; i < parent->n_children && status == MT_OK; i++)
        if (strcmp(parent->children[i]->name, column) == 0)
            status = refuse(p, start, "there are two columns named \"%s\"",
                            mt_quote(column, strlen(column), quoted, sizeof quoted));
    if (status == MT_OK)
        status = column_type(p, column, out);
    free(column);
    return status;
}

static void append(struct ArrowSchema *parent, struct ArrowSchema *child)
{
    int64_t n = parent->n_children;
    if ((n & (n - 1)) == 0) /* full at each power of two */
        parent->children =
            mt_realloc(parent->children, (size_t)(n ? n * 2 : 1) * sizeof *parent->children);
    parent->children[n] = child;
    parent->n_children++;
}

static enum mt_status columns(struct ddl *p, const char *column, struct ArrowSchema *out)
{
    mt_schema_make("+s", column, true, 0, out);
    do {
        struct ArrowSchema *child = mt_alloc(sizeof *child);
        enum mt_status status = one_column(p, out, child);
        if (status != MT_OK) {
            mt_schema_release(child);
            free(child);
            return status;
        }
        append(out, child);
    } while (accept(p, ','));
    return MT_OK;
}

/* ---- entry */

static enum mt_status
parse(const char *text, enum mt_status (*rule)(struct ddl *, const char *, struct ArrowSchema *),
      const char *column, struct ArrowSchema *out, struct mt_error *err)
{
    const char *what = rule == columns ? "schema" : "the type";
    struct ddl p = {.text = text, .at = text, .what = what, .err = err};
    char here[48];
    *out = (struct ArrowSchema){0};
    if (!mt_utf8_valid(text, strlen(text)))
        return mt_fail(err, MT_FATAL, MT_CLASS_JOB, "%s: the text is not UTF-8", what);
    enum mt_status status = rule(&p, column, out);
    skip_blanks(&p);
    if (status == MT_OK && *p.at)
        status = refuse(&p, p.at, "expected %s, found %s",
                        rule == columns ? "',' or the end" : "the end", found(&p, here));
    if (status != MT_OK)
        mt_schema_release(out);
    return status;
}

enum mt_status mt_schema_parse(const char *ddl, struct ArrowSchema *out, struct mt_error *err)
{
    enum mt_status status = parse(ddl, columns, "", out, err);
    if (status == MT_OK)
        out->flags = 0; /* a row is always there */
    return status;
}

enum mt_status mt_schema_parse_type(const char *text, const char *name, struct ArrowSchema *out,
                                    struct mt_error *err)
{
    return parse(text, type, name, out, err);
}
