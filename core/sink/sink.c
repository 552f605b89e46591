/* SPDX-License-Identifier: Apache-2.0
 *
 * sink.c - the sinks there are, and how one is made from what a job declares.
 *
 * A plain table, one line a sink: whoever looks for where "parquet" comes from finds it
 * by reading. Everything that is equal for all sinks is checked here once (format,
 * options, path, partition columns), so that a sink's own file holds only what is its
 * own. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "sink/sink_int.h"

const struct mt_sink_type *const mt_sink_types[] = {
    &sink_parquet,                                                /* files/, as the next four */
    &sink_orc,     &sink_json, &sink_csv, &sink_text, &sink_odbc, /* odbc/ */
    &sink_delta,                                                  /* delta/ */
    &sink_kafka,                                                  /* kafka/ */
    &sink_console,                                                /* at least once, like the rest */
    &sink_memory,                                                 /* tables of this process */
    &sink_noop,                                                   /* read this one first */
    NULL,
};

/* What Spark writes to and Moontide does not, yet. */
static const char *const formats_not_yet[] = {"foreach", NULL};

const struct mt_sink_type *mt_sink_type_of(const char *name)
{
    for (const struct mt_sink_type *const *type = mt_sink_types; *type; type++)
        if (strcasecmp((*type)->name, name) == 0 ||
            ((*type)->alias && strcasecmp((*type)->alias, name) == 0))
            return *type;
    return NULL;
}

static bool listed(const char *const *names, const char *name)
{
    for (; names && *names; names++)
        if (strcasecmp(*names, name) == 0)
            return true;
    return false;
}

static enum mt_status unknown_format(const char *format, struct mt_error *err)
{
    const char *names[sizeof mt_sink_types / sizeof *mt_sink_types];
    struct mt_buf all = {0};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        names[i] = mt_sink_types[i] ? mt_sink_types[i]->name : NULL;
        if (names[i])
            mt_buf_addf(&all, "%s%s", i ? ", " : "", names[i]);
    }
    const char *near = mt_suggest(format, names);
    if (strcasecmp(format, "avro") == 0)
        mt_fail(err, MT_FATAL, MT_CLASS_JOB, "format \"avro\" is not written here: use parquet");
    else if (listed(formats_not_yet, format))
        mt_fail(err, MT_FATAL, MT_CLASS_JOB,
                "format \"%s\" is known in Spark, not here yet; there are: %s", format, all.data);
    else if (near)
        mt_fail(err, MT_FATAL, MT_CLASS_JOB, "unknown format \"%s\"; did you mean \"%s\"?", format,
                near);
    else
        mt_fail(err, MT_FATAL, MT_CLASS_JOB, "unknown format \"%s\"; there are: %s", format,
                all.data);
    mt_buf_free(&all);
    return MT_FATAL;
}

static enum mt_status fail_option(struct mt_error *err, const char *option)
{
    strncpy(err->option, option, sizeof err->option - 1);
    err->option[sizeof err->option - 1] = '\0';
    return MT_FATAL;
}

static enum mt_status refuse_options(const struct mt_sink_type *type,
                                     const struct mt_pairs *options, struct mt_error *err)
{
    for (size_t i = 0; type->refusals && i < options->n; i++)
        for (const struct mt_refusal *r = type->refusals; r->name; r++)
            if (strcasecmp(options->items[i].key, r->name) == 0) {
                mt_fail(err, MT_FATAL, MT_CLASS_JOB, "%s: option \"%s\": %s", type->name,
                        options->items[i].key, r->why);
                return fail_option(err, options->items[i].key);
            }
    return MT_OK;
}

static enum mt_status apply_options(struct mt_sink *sink, const struct mt_sink_settings *settings,
                                    struct mt_error *err)
{
    for (size_t i = 0; i < settings->options.n; i++) {
        const char *key = settings->options.items[i].key;
        if (!listed(sink->type->not_yet, key))
            continue;
        mt_fail(err, MT_FATAL, MT_CLASS_JOB,
                "%s: option \"%s\" is known in Spark, not here yet: leave it out", sink->type->name,
                key);
        return fail_option(err, key);
    }
    if (refuse_options(sink->type, &settings->options, err) != MT_OK)
        return MT_FATAL;
    return mt_options_apply(sink->type->options, sink->type->name, &settings->options, sink, err);
}

/* save("out") and option("path", "out") say the same; two different ones say nothing. */
static enum mt_status set_path(struct mt_sink *sink, const struct mt_sink_settings *settings,
                               struct mt_error *err)
{
    const char *option = mt_pairs_get(&settings->options, "path");
    const char *path = settings->path ? settings->path : option;
    enum mt_status status = MT_OK;
    if (path && !sink->type->needs_path)
        status = mt_fail(err, MT_FATAL, MT_CLASS_JOB, "%s writes to no path: leave \"%s\" out",
                         sink->type->name, path);
    else if (settings->path && option && strcmp(settings->path, option) != 0)
        status = mt_fail(err, MT_FATAL, MT_CLASS_JOB,
                         "two paths are given, \"%s\" and the option path = \"%s\": keep one",
                         settings->path, option);
    else if (!path && sink->type->needs_path)
        status = mt_fail(err, MT_FATAL, MT_CLASS_JOB,
                         "%s needs a path: add :option(\"path\", \"out/...\")", sink->type->name);
    else if (path)
        status = mt_path_absolute(path, &sink->path, err);
    return status == MT_OK ? MT_OK : fail_option(err, "path");
}

/* The column of this name: exact, else without case as Spark finds it; -1 for none. */
static int64_t find_column(const struct ArrowSchema *schema, const char *name)
{
    for (int64_t i = 0; i < schema->n_children; i++)
        if (strcmp(schema->children[i]->name, name) == 0)
            return i;
    for (int64_t i = 0; i < schema->n_children; i++)
        if (strcasecmp(schema->children[i]->name, name) == 0)
            return i;
    return -1;
}

static enum mt_status no_column(const struct mt_sink *sink, const char *name, struct mt_error *err)
{
    const struct ArrowSchema *schema = sink->schema;
    const char **names = mt_alloc((size_t)(schema->n_children + 1) * sizeof *names);
    struct mt_buf all = {0};
    for (int64_t i = 0; i < schema->n_children; i++) {
        names[i] = schema->children[i]->name;
        mt_buf_addf(&all, "%s%s", i ? ", " : "", names[i]);
    }
    const char *near = mt_suggest(name, names);
    if (near)
        mt_fail(err, MT_FATAL, MT_CLASS_JOB,
                "partitionBy: there is no column \"%s\"; did you mean \"%s\"?", name, near);
    else
        mt_fail(err, MT_FATAL, MT_CLASS_JOB,
                "partitionBy: there is no column \"%s\"; there are: %s", name,
                all.data ? all.data : "none");
    mt_buf_free(&all);
    free(names);
    return MT_FATAL;
}

/* Keeps the schema's spelling: it becomes a folder's name. */
static enum mt_status set_partition_by(struct mt_sink *sink,
                                       const struct mt_sink_settings *settings,
                                       struct mt_error *err)
{
    size_t n = settings->partition_by.n;
    if (n > 0 && !sink->type->partitions)
        return mt_fail(err, MT_FATAL, MT_CLASS_JOB, "partitionBy means nothing to %s: leave it out",
                       sink->type->name);
    sink->partition_by = mt_alloc((n + 1) * sizeof *sink->partition_by);
    for (size_t i = 0; i < n; i++) {
        const char *name = settings->partition_by.items[i].key;
        int64_t column = find_column(sink->schema, name);
        if (column < 0)
            return no_column(sink, name, err);
        for (int64_t k = 0; k < sink->n_partition_by; k++)
            if (strcmp(sink->partition_by[k], sink->schema->children[column]->name) == 0)
                return mt_fail(err, MT_FATAL, MT_CLASS_JOB, "partitionBy names column \"%s\" twice",
                               name);
        sink->partition_by[sink->n_partition_by++] =
            mt_strdup(sink->schema->children[column]->name);
    }
    return MT_OK;
}

/* Sinks without files take every number of them. */
static enum mt_status set_spread(struct mt_sink *sink, const struct mt_sink_settings *settings,
                                 struct mt_error *err)
{
    if (!sink->type->partitions)
        return MT_OK;
    sink->n_files = settings->n_files;
    sink->spread_by = mt_alloc((settings->spread_by.n + 1) * sizeof *sink->spread_by);
    for (size_t i = 0; i < settings->spread_by.n; i++) {
        const char *name = settings->spread_by.items[i].key;
        int64_t column = find_column(sink->schema, name);
        if (column < 0)
            return mt_fail(err, MT_FATAL, MT_CLASS_JOB,
                           "repartition by \"%s\": there is no such column any more where the rows "
                           "are written; repartition behind the step that takes it away",
                           name);
        sink->spread_by[sink->n_spread_by++] = (int32_t)column;
    }
    return MT_OK;
}

static enum mt_status check_schema(const struct mt_sink *sink, struct mt_error *err)
{
    if (sink->schema->n_children == 0)
        return mt_fail(err, MT_REJECT, MT_CLASS_JOB, "%s: rows without a column cannot be written",
                       sink->type->name);
    return MT_OK;
}

/* A marker outlives its table's address: the table may be moved with its marker in it. */
static void set_identity(struct mt_sink *sink, const struct mt_sink_settings *settings)
{
    if (settings->name) {
        sink->identity = mt_strdup(settings->name);
        sink->marker_identity = mt_strdup(settings->name);
        return;
    }
    char *place = NULL, *inside = NULL;
    if (sink->type->names)
        sink->type->names(sink, &place, &inside);
    else if (sink->path || sink->query_name)
        place = mt_strdup(sink->path ? sink->path : sink->query_name);
    int64_t ordinal = settings->ordinal > 1 ? settings->ordinal : 1;
    struct mt_buf identity = {0};
    mt_buf_adds(&identity, sink->type->name);
    if (place)
        mt_buf_addf(&identity, " %s", place);
    if (ordinal > 1)
        mt_buf_addf(&identity, " #%lld", (long long)ordinal);
    sink->identity = identity.data;
    sink->marker_identity = mt_format("%s%s%s#%lld", sink->type->name, inside ? " " : "",
                                      inside ? inside : "", (long long)ordinal);
    free(place), free(inside);
}

static enum mt_status set_up(struct mt_sink *sink, const struct mt_sink_settings *settings,
                             struct mt_error *err)
{
    enum mt_status status = set_path(sink, settings, err);
    if (status == MT_OK)
        status = check_schema(sink, err);
    if (status == MT_OK)
        status = set_partition_by(sink, settings, err);
    if (status == MT_OK)
        status = set_spread(sink, settings, err);
    if (status == MT_OK) {
        set_identity(sink, settings);
        status = sink->type->open(sink, err);
    }
    return status;
}

static void free_parts(struct mt_sink *sink)
{
    mt_options_clear(sink->type->options, sink);
    for (int64_t i = 0; i < sink->n_partition_by; i++)
        free(sink->partition_by[i]);
    free(sink->partition_by);
    free(sink->spread_by);
    free(sink->identity);
    free(sink->marker_identity);
    free(sink->query_name);
    free(sink->path);
    free(sink);
}

enum mt_status mt_sink_new(const struct mt_sink_settings *settings,
                           const struct ArrowSchema *schema, struct mt_sink **out,
                           struct mt_error *err)
{
    const struct mt_sink_type *type = mt_sink_type_of(settings->format);
    if (!type)
        return unknown_format(settings->format, err);
    struct mt_sink *sink = mt_alloc(type->size);
    sink->type = type;
    sink->schema = schema;
    sink->query_name = settings->query_name ? mt_strdup(settings->query_name) : NULL;
    enum mt_status status = apply_options(sink, settings, err);
    if (status == MT_OK)
        status = set_up(sink, settings, err);
    if (status != MT_OK) {
        free_parts(sink);
        return status;
    }
    *out = sink;
    return MT_OK;
}

void mt_sink_free(struct mt_sink *sink)
{
    if (!sink)
        return;
    sink->type->close(sink);
    free_parts(sink);
}

char *mt_sink_describe(struct mt_sink *sink, const char *query_id)
{
    struct mt_buf text = {0};
    sink->type->describe(sink, query_id, &text);
    return text.data;
}

const char *mt_sink_identity(const struct mt_sink *sink)
{
    return sink->identity;
}

bool mt_sink_is_exactly_once(const struct mt_sink *sink)
{
    return sink->type->exactly_once && !sink->at_least_once;
}

bool mt_sink_needs_checkpoint(const struct mt_sink *sink)
{
    return sink->type->needs_checkpoint;
}

struct mt_sink_record sink_record_of(const struct mt_sink_batch *batch)
{
    struct mt_sink_record record = {.batch_id = batch->batch_id, .fingerprint = batch->fingerprint};
    snprintf(record.digest, sizeof record.digest, "%s", batch->digest);
    snprintf(record.bundle, sizeof record.bundle, "%s", batch->bundle);
    return record;
}

enum mt_status sink_not_open(const struct mt_sink *sink, const char *call, struct mt_error *err)
{
    return mt_fail(err, MT_FATAL, MT_CLASS_INTERNAL,
                   "%s: %s without an open batch: begin opens one, commit, abort and any error "
                   "close it",
                   sink->identity, call);
}
