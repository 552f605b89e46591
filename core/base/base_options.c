/* SPDX-License-Identifier: Apache-2.0
 *
 * base_options.c - options as data: one table per source and sink says what there
 * is; this file fills the struct from it.
 *
 * An unknown name is an error, never ignored: with "startingOffset" for
 * "startingOffsets" Spark reads from the wrong place without a word. Presets go
 * through the same text as a job's values, so the reference shows what is used. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/base.h"

static void *field_of(const struct mt_option *option, void *instance)
{
    return (char *)instance + option->offset;
}

/* Length of "kafka." of a MT_OPT_MAP named "kafka.*". */
static size_t prefix_len(const struct mt_option *option)
{
    return strlen(option->name) - 1;
}

static const struct mt_option *find(const struct mt_option *table, const char *key)
{
    for (const struct mt_option *o = table; o->name; o++)
        if (o->type != MT_OPT_MAP && strcasecmp(o->name, key) == 0)
            return o;
    for (const struct mt_option *o = table; o->name; o++)
        if (o->type == MT_OPT_MAP && strncasecmp(o->name, key, prefix_len(o)) == 0 &&
            key[prefix_len(o)])
            return o;
    return NULL;
}

/* The spelling that `values` has of text, or NULL; its length in *len. */
static const char *allowed(const char *values, const char *text, size_t *len)
{
    *len = strlen(text);
    for (const char *v = values; v; v = strchr(v, '|')) {
        v += *v == '|';
        if (strncasecmp(v, text, *len) == 0 && (v[*len] == '|' || v[*len] == '\0'))
            return v;
    }
    return NULL;
}

static enum mt_status set_string(const struct mt_option *option, char **field, const char *text,
                                 struct mt_error *err)
{
    size_t len = strlen(text);
    const char *spelled = option->values ? allowed(option->values, text, &len) : text;
    if (!spelled)
        return mt_fail(err, MT_FATAL, MT_CLASS_JOB, "one of %s is expected", option->values);
    free(*field);
    *field = mt_strndup(spelled, len);
    return MT_OK;
}

static enum mt_status set_int(int64_t *field, const char *text, struct mt_error *err)
{
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (end == text || *end || (*text != '-' && (*text < '0' || *text > '9')))
        return mt_fail(err, MT_FATAL, MT_CLASS_JOB, "a whole number is expected");
    if (errno == ERANGE)
        return mt_fail(err, MT_FATAL, MT_CLASS_JOB, "the number does not fit 64 bits");
    *field = value;
    return MT_OK;
}

static enum mt_status set_bool(bool *field, const char *text, struct mt_error *err)
{
    *field = strcasecmp(text, "true") == 0;
    if (!*field && strcasecmp(text, "false") != 0)
        return mt_fail(err, MT_FATAL, MT_CLASS_JOB, "true or false is expected");
    return MT_OK;
}

static enum mt_status set(const struct mt_option *option, const char *key, const char *text,
                          void *instance, struct mt_error *err)
{
    void *field = field_of(option, instance);
    switch (option->type) {
    case MT_OPT_STRING:
    case MT_OPT_SECRET:
        return set_string(option, field, text, err);
    case MT_OPT_INT:
        return set_int(field, text, err);
    case MT_OPT_BOOL:
        return set_bool(field, text, err);
    case MT_OPT_BYTES:
        return mt_parse_bytes(text, field, err);
    case MT_OPT_DURATION:
        return mt_parse_duration(text, field, err);
    case MT_OPT_MAP:
        mt_pairs_add(field, key + prefix_len(option), text);
        return MT_OK;
    }
    return mt_fail(err, MT_FATAL, MT_CLASS_INTERNAL, "option type %d is unknown", option->type);
}

static void zero(const struct mt_option *option, void *instance)
{
    static const size_t sizes[] = {
        [MT_OPT_STRING] = sizeof(char *),    [MT_OPT_INT] = sizeof(int64_t),
        [MT_OPT_BOOL] = sizeof(bool),        [MT_OPT_BYTES] = sizeof(int64_t),
        [MT_OPT_DURATION] = sizeof(int64_t), [MT_OPT_MAP] = sizeof(struct mt_pairs),
        [MT_OPT_SECRET] = sizeof(char *),
    };
    memset(field_of(option, instance), 0, sizes[option->type]);
}

static enum mt_status unknown(const struct mt_option *table, const char *owner, const char *key,
                              struct mt_error *err)
{
    size_t n = 0;
    while (table[n].name)
        n++;
    const char **names = mt_alloc((n + 1) * sizeof *names);
    struct mt_buf all = {0};
    for (size_t i = 0; i < n; i++) {
        names[i] = table[i].name;
        mt_buf_addf(&all, "%s%s", i ? ", " : "", names[i]);
    }
    const char *near = mt_suggest(key, names);
    if (near)
        mt_fail(err, MT_FATAL, MT_CLASS_JOB, "%s: unknown option \"%s\"; did you mean \"%s\"?",
                owner, key, near);
    else
        mt_fail(err, MT_FATAL, MT_CLASS_JOB, "%s: unknown option \"%s\"; there are: %s", owner, key,
                n ? all.data : "none");
    free(names);
    mt_buf_free(&all);
    return MT_FATAL;
}

static enum mt_status apply_one(const struct mt_option *table, const char *owner,
                                const struct mt_pair *pair, void *instance, struct mt_error *err)
{
    const struct mt_option *option = find(table, pair->key);
    if (!option)
        return unknown(table, owner, pair->key, err);
    if (option->type == MT_OPT_SECRET && !pair->secret)
        return mt_fail(
            err, MT_FATAL, MT_CLASS_JOB,
            "%s: option \"%s\" takes a secret, and a job file is kept in the checkpoint; "
            "write mt.secret \"NAME\" and run with --set NAME=file:PATH",
            owner, pair->key);
    char quoted[160];
    enum mt_status status = set(option, pair->key, pair->value, instance, err);
    if (status != MT_OK && pair->secret) /* the reason may show it too */
        mt_fail(err, status, MT_CLASS_JOB, "%s: option \"%s\" cannot be this secret (not shown)",
                owner, pair->key);
    else if (status != MT_OK)
        mt_fail_within(err, status, "%s: option \"%s\" is \"%s\": ", owner, pair->key,
                       mt_quote(pair->value, strlen(pair->value), quoted, sizeof quoted));
    return status;
}

enum mt_status mt_options_apply(const struct mt_option *table, const char *owner,
                                const struct mt_pairs *given, void *instance, struct mt_error *err)
{
    for (const struct mt_option *o = table; o->name; o++)
        zero(o, instance);
    for (const struct mt_option *o = table; o->name; o++) {
        struct mt_pair preset = {(char *)o->name, (char *)o->preset, NULL};
        if (o->preset && apply_one(table, owner, &preset, instance, err) != MT_OK) {
            err->class_ = MT_CLASS_INTERNAL; /* the table is ours */
            mt_options_clear(table, instance);
            return MT_FATAL;
        }
    }
    for (size_t i = 0; i < given->n; i++) {
        enum mt_status status = apply_one(table, owner, &given->items[i], instance, err);
        if (status != MT_OK) {
            strncpy(err->option, given->items[i].key, sizeof err->option - 1);
            err->option[sizeof err->option - 1] = '\0';
            mt_options_clear(table, instance);
            return status;
        }
    }
    return MT_OK;
}

void mt_options_clear(const struct mt_option *table, void *instance)
{
    for (const struct mt_option *o = table; o->name; o++) {
        if (o->type == MT_OPT_STRING || o->type == MT_OPT_SECRET)
            free(*(char **)field_of(o, instance));
        if (o->type == MT_OPT_MAP)
            mt_pairs_free(field_of(o, instance));
        zero(o, instance);
    }
}
