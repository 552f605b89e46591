/* SPDX-License-Identifier: Apache-2.0
 *
 * engine_shape.c - what may change between two starts of a query, or at a reload: one look for
 * both, by Spark's table.
 *
 *   number, order, type of the sources   refused: a checkpoint's positions are by place
 *   what a source reads (topics)         told
 *   another sink, or another path        told: older batches stay where they are
 *   columns, partitionBy of the sink     told: older files stay as they are
 *   rate limits, trigger, the script     nothing is said
 *
 * All is looked at for a reason to refuse before anything is told. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "engine/engine_int.h"

static const char *const what_is_read[] = {"subscribe", "subscribePattern", "assign", "path", NULL};
static const char *const names_topics[] = {"subscribe", "assign", "subscribePattern", NULL};

static const char *text_of(json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static enum mt_status refuse(struct mt_error *err, const char *what, const char *before,
                             const char *now)
{
    return mt_fail(
        err, MT_REJECT, MT_CLASS_CHECKPOINT,
        "%s: it was %s and is now %s. Positions in a checkpoint belong to its sources: "
        "put it back as it was, or use a new checkpoint (and a new path, or every row is "
        "written again)",
        what, before, now);
}

static bool is_named(json_t *sources, const char *name)
{
    size_t i;
    json_t *source;
    json_array_foreach (sources, i, source) {
        if (strcmp(text_of(source, "name"), name) == 0)
            return true;
    }
    return false;
}

static enum mt_status refuse_sources(json_t *before, json_t *now, struct mt_error *err)
{
    size_t i, n = json_array_size(now);
    json_t *source;
    if (json_array_size(before) != n) {
        char a[24], b[24];
        snprintf(a, sizeof a, "%zu", json_array_size(before));
        snprintf(b, sizeof b, "%zu", n);
        return refuse(err, "the number of sources cannot change", a, b);
    }
    json_array_foreach (now, i, source) {
        json_t *old = json_array_get(before, i);
        const char *was = text_of(old, "name"), *is = text_of(source, "name");
        if (strcmp(text_of(old, "format"), text_of(source, "format")) != 0)
            return refuse(err, "the type of a source cannot change", text_of(old, "format"),
                          text_of(source, "format"));
        if (strcmp(was, is) != 0 && is_named(before, is))
            return refuse(err, "the order of the sources cannot change", was, is);
    }
    return MT_OK;
}

/* Which of its options names a source's topics; NULL: it has none. */
static const char *topics_by(const json_t *options)
{
    for (const char *const *key = names_topics; *key; key++)
        if (json_object_get(options, *key))
            return *key;
    return NULL;
}

static void tell_source(json_t *before, json_t *now, int64_t batch)
{
    json_t *old = json_object_get(before, "options"), *new = json_object_get(now, "options");
    const char *was_by = topics_by(old), *is_by = topics_by(new);
    if (was_by && is_by && was_by != is_by) {
        mt_log(MT_WARN,
               "source %s has its topics by %s = %s from batch %lld on, and had them by %s = %s; "
               "partitions that both name are read on, new ones from their beginning, others no "
               "more",
               text_of(now, "name"), is_by, text_of(new, is_by), (long long)batch, was_by,
               text_of(old, was_by));
        return;
    }
    for (const char *const *key = what_is_read; *key; key++) {
        json_t *was_json = json_object_get(old, *key), *is_json = json_object_get(new, *key);
        char *was = json_dumps(was_json, JSON_ENCODE_ANY | JSON_COMPACT);
        char *is = json_dumps(is_json, JSON_ENCODE_ANY | JSON_COMPACT);
        if (was_json != is_json && !json_equal(was_json, is_json))
            mt_log(
                MT_WARN,
                "source %s reads something else from batch %lld on: %s was %s and is %s; what is "
                "new is read from its beginning, what is gone is read no more",
                text_of(now, "name"), (long long)batch, *key, was ? was : "not set",
                is ? is : "not set");
        free(was), free(is);
    }
}

static void tell_sink(json_t *before, json_t *now, int64_t batch)
{
    const char *was = text_of(before, "identity"), *is = text_of(now, "identity");
    if (strcmp(was, is) != 0) {
        mt_log(MT_WARN, "the sink changed: batches before %lld are in %s, the next ones go to %s",
               (long long)batch, was, is);
        return;
    }
    if (strcmp(text_of(before, "columns"), text_of(now, "columns")) != 0)
        mt_log(MT_WARN, "%s: from batch %lld on its columns are %s; they were %s", is,
               (long long)batch, text_of(now, "columns"), text_of(before, "columns"));
    json_t *old = json_object_get(before, "partitionBy"),
           *new = json_object_get(now, "partitionBy");
    if (old && new && !json_equal(old, new))
        mt_log(MT_WARN,
               "%s: partitionBy changed; files before batch %lld stay in the folders where they "
               "are, and a reader that looks at folders alone sees both kinds",
               is, (long long)batch);
}

enum mt_status shape_refuse(const char *before, const char *now, struct mt_error *err)
{
    json_t *old = json_loads(before, 0, NULL), *new = json_loads(now, 0, NULL);
    enum mt_status status =
        refuse_sources(json_object_get(old, "sources"), json_object_get(new, "sources"), err);
    json_decref(old), json_decref(new);
    return status;
}

void shape_tell(const char *before, const char *now, int64_t batch)
{
    json_t *old = json_loads(before, 0, NULL), *new = json_loads(now, 0, NULL), *source;
    size_t i;
    json_array_foreach (json_object_get(new, "sources"), i, source)
        tell_source(json_array_get(json_object_get(old, "sources"), i), source, batch);
    tell_sink(json_object_get(old, "sink"), json_object_get(new, "sink"), batch);
    json_decref(old), json_decref(new);
}

/* The next name of a comma list from *at on; NULL: none. *at: behind it. */
static const char *next_name(const char **at, size_t *len)
{
    const char *name = *at + strspn(*at, ", ");
    size_t n = strcspn(name, ",");
    *at = name + n;
    while (n > 0 && name[n - 1] == ' ')
        n--;
    *len = n;
    return n ? name : NULL;
}

static bool is_listed(const char *list, const char *wanted, size_t len)
{
    size_t n;
    for (const char *name; (name = next_name(&list, &n));)
        if (n == len && strncmp(name, wanted, len) == 0)
            return true;
    return false;
}

/* Whether a source of these options reads the topic. One with a pattern may: what it matches is not
 * known here. */
static bool reads_topic(const json_t *options, const char *topic, size_t len)
{
    const char *list = json_string_value(json_object_get(options, "subscribe"));
    const char *assign = json_string_value(json_object_get(options, "assign"));
    if (list)
        return is_listed(list, topic, len);
    if (!assign)
        return json_object_get(options, "subscribePattern") != NULL;
    json_t *partitions = json_loads(assign, 0, NULL);
    char *name = mt_strndup(topic, len);
    bool reads = json_object_get(partitions, name) != NULL;
    free(name);
    json_decref(partitions);
    return reads;
}

static char *first_gone(const json_t *before, const json_t *now)
{
    const char *was = json_string_value(json_object_get(before, "subscribe"));
    size_t n;
    if (!was)
        was = "";
    for (const char *name; (name = next_name(&was, &n));)
        if (!reads_topic(now, name, n))
            return mt_format("%.*s", (int)n, name);
    return NULL;
}

char *shape_topic_gone(const char *before, const char *now)
{
    json_t *old = json_loads(before, 0, NULL), *new = json_loads(now, 0, NULL);
    json_t *old_sources = json_object_get(old, "sources"), *source;
    char *topic = NULL;
    size_t i;
    json_array_foreach (json_object_get(new, "sources"), i, source) {
        json_t *old_source = json_array_get(old_sources, i);
        json_t *was = json_object_get(old_source, "options");
        json_t *is = json_object_get(source, "options");
        if (strcmp(text_of(old_source, "format"), text_of(source, "format")) != 0)
            continue; /* refused for that */
        if (!topic && strcasecmp(text_of(is, "failondataloss"), "false") != 0)
            topic = first_gone(was, is);
    }
    json_decref(old), json_decref(new);
    return topic;
}

bool shape_same_source(const char *before, const char *now, int64_t i)
{
    json_t *old = json_loads(before, 0, NULL), *new = json_loads(now, 0, NULL);
    json_t *a = json_array_get(json_object_get(old, "sources"), (size_t)i);
    json_t *b = json_array_get(json_object_get(new, "sources"), (size_t)i);
    bool same = a && json_equal(a, b);
    json_decref(old), json_decref(new);
    return same;
}

char *shape_of(const struct mt_query_settings *settings)
{
    if (settings->shape)
        return mt_strdup(settings->shape);
    const char *sink = settings->sink ? settings->sink->identity : FOREACH_BATCH;
    json_t *sources = json_array();
    for (int64_t i = 0; i < settings->n_sources; i++)
        json_array_append_new(sources, json_pack("{s:s, s:s}", "name", settings->sources[i]->name,
                                                 "format", settings->sources[i]->type->name));
    json_t *json = json_pack("{s:o, s:{s:s}}", "sources", sources, "sink", "identity", sink);
    char *text = json_dumps(json, JSON_COMPACT);
    json_decref(json);
    return text;
}
