/* SPDX-License-Identifier: Apache-2.0
 *
 * source.c - the table of sources and what all of them have in common: options,
 * projection, life. A new source is its type and one line in the table. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "source/source_int.h"

const struct mt_source_type *const mt_source_types[] = {&mt_source_kafka, &mt_source_memory, NULL};

const struct mt_source_type *mt_source_type_of(const char *name)
{
    for (size_t i = 0; mt_source_types[i]; i++)
        if (strcasecmp(mt_source_types[i]->name, name) == 0)
            return mt_source_types[i];
    return NULL;
}

static enum mt_status unknown_format(const char *format, struct mt_error *err)
{
    const char *names[sizeof mt_source_types / sizeof *mt_source_types] = {0};
    struct mt_buf all = {0};
    for (size_t i = 0; mt_source_types[i]; i++) {
        names[i] = mt_source_types[i]->name;
        mt_buf_addf(&all, "%s%s", i ? ", " : "", names[i]);
    }
    const char *near = mt_suggest(format, names);
    mt_fail(err, MT_FATAL, MT_CLASS_JOB, "there is no source \"%s\"; %s%s%s", format,
            near ? "did you mean \"" : "there are: ", near ? near : all.data, near ? "\"?" : "");
    mt_buf_free(&all);
    return MT_FATAL;
}

static enum mt_status refuse_options(const struct mt_source_type *type,
                                     const struct mt_pairs *options, struct mt_error *err)
{
    for (size_t i = 0; type->refusals && i < options->n; i++)
        for (const struct mt_refusal *r = type->refusals; r->name; r++)
            if (strcasecmp(options->items[i].key, r->name) == 0) {
                mt_fail(err, MT_FATAL, MT_CLASS_JOB, "%s: option \"%s\": %s", type->name,
                        options->items[i].key, r->why);
                snprintf(err->option, sizeof err->option, "%s", options->items[i].key);
                return MT_FATAL;
            }
    return MT_OK;
}

static void want_all_columns(struct mt_source *source)
{
    int64_t n = source->full_schema.n_children;
    int32_t *all = mt_alloc((size_t)(n + 1) * sizeof *all);
    for (int32_t i = 0; i < n; i++)
        all[i] = i;
    mt_source_project(source, all, n);
    free(all);
}

enum mt_status mt_source_new(const char *format, const struct mt_pairs *options,
                             struct mt_source **out, struct mt_error *err)
{
    const struct mt_source_type *type = mt_source_type_of(format);
    if (!type)
        return unknown_format(format, err);
    enum mt_status status = refuse_options(type, options, err);
    if (status != MT_OK)
        return status;
    struct mt_source *source = mt_alloc(type->size);
    source->type = type;
    source->wake_fd = -1;
    status = mt_options_apply(type->options, type->name, options, source, err);
    if (status != MT_OK) {
        free(source);
        return status;
    }
    status = type->open(source, err);
    if (status != MT_OK) {
        mt_source_free(source);
        return status;
    }
    want_all_columns(source);
    *out = source;
    return MT_OK;
}

void mt_source_project(struct mt_source *source, const int32_t *wanted, int64_t n)
{
    const struct ArrowSchema **fields = mt_alloc((size_t)(n + 1) * sizeof *fields);
    for (int64_t i = 0; i < n; i++)
        fields[i] = source->full_schema.children[wanted[i]];
    mt_schema_release(&source->schema);
    mt_schema_of(fields, NULL, n, &source->schema);
    free(fields);
    source->wanted = mt_realloc(source->wanted, (size_t)(n + 1) * sizeof *source->wanted);
    memcpy(source->wanted, wanted, (size_t)n * sizeof *wanted);
}

void mt_source_rename(struct mt_source *source, const char *name)
{
    free(source->name);
    source->name = mt_strdup(name);
}

void mt_source_remember(struct mt_source *source, const char *facts)
{
    free(source->past);
    source->past = facts ? mt_strdup(facts) : NULL;
}

void mt_source_free(struct mt_source *source)
{
    if (!source)
        return;
    source->type->close(source);
    mt_options_clear(source->type->options, source);
    mt_schema_release(&source->schema);
    mt_schema_release(&source->full_schema);
    free(source->wanted);
    free(source->name);
    free(source->past);
    free(source);
}

const struct ArrowSchema *mt_source_schema(const struct mt_source *source)
{
    return &source->schema;
}

const char *mt_source_name(const struct mt_source *source)
{
    return source->name;
}

void mt_ends_clear(struct mt_ends *ends)
{
    free(ends->end);
    free(ends->latest);
    free(ends->facts);
    *ends = (struct mt_ends){0};
}
