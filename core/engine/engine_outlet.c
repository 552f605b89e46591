/* SPDX-License-Identifier: Apache-2.0
 *
 * engine_outlet.c - the sinks of saves: made from the settings that the script gave, and kept for
 * the next batches, because making one reads the destination.
 *
 * What is kept of a save keeps no secret: an option that has one stands in the record with the
 * secret's name, and its value is asked for again when a start must ask the sink. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine_int.h"

enum { OUTLETS_KEPT = 32 }; /* a script may make a path of each date */

/* ---- settings as text: the key of an outlet, and a part of the intent record */

static json_t *options_json(const struct mt_pairs *pairs)
{
    json_t *list = json_array();
    for (size_t i = 0; i < pairs->n; i++) {
        const struct mt_pair *pair = &pairs->items[i];
        json_t *value = pair->secret ? json_loads(pair->secret, 0, NULL) : json_string(pair->value);
        json_array_append_new(list, json_pack("[s, o]", pair->key, value));
    }
    return list;
}

/* What options_json leaves out, to tell one secret from the next of its name. */
static char *secrets_of(const struct mt_pairs *pairs)
{
    struct mt_buf text = {0};
    mt_buf_adds(&text, "");
    for (size_t i = 0; i < pairs->n; i++)
        if (pairs->items[i].secret)
            mt_buf_addf(&text, "%s\n", pairs->items[i].value);
    return text.data;
}

static json_t *names_json(const struct mt_pairs *pairs)
{
    json_t *list = json_array();
    for (size_t i = 0; i < pairs->n; i++)
        json_array_append_new(list, json_string(pairs->items[i].key));
    return list;
}

/* NULL: not UTF-8. */
static char *settings_to_json(const struct mt_sink_settings *settings)
{
    json_t *options = options_json(&settings->options);
    json_t *json = NULL;
    if (json_array_size(options) == settings->options.n)
        json = json_pack("{s:s, s:s*, s:s*, s:O, s:o, s:I, s:o, s:s*}", "format", settings->format,
                         "path", settings->path, "name", settings->name, "options", options,
                         "partitionBy", names_json(&settings->partition_by), "files",
                         (json_int_t)settings->n_files, "spreadBy",
                         names_json(&settings->spread_by), "queryName", settings->query_name);
    char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;
    json_decref(options), json_decref(json);
    return text;
}

/* Adds a part of an option's value: a text, or what the secret that it names is today. */
static enum mt_status add_part(json_t *part, const struct mt_secrets *secrets, struct mt_buf *value,
                               struct mt_error *err)
{
    const char *name = json_string_value(json_object_get(part, "secret"));
    char *secret = NULL;
    if (!name) {
        mt_buf_adds(value, json_string_value(part));
        return MT_OK;
    }
    if (!secrets || !secrets->get)
        return mt_fail(err, MT_FATAL, MT_CLASS_JOB, "mt.secret \"%s\" cannot be asked for", name);
    enum mt_status status = secrets->get(secrets->self, name, &secret, err);
    if (status == MT_OK)
        mt_buf_adds(value, secret);
    free(secret);
    return status;
}

/* An option whose record is the object or the list that its secret's reference is. */
static enum mt_status add_secret_option(const char *key, json_t *reference,
                                        const struct mt_secrets *secrets, struct mt_pairs *pairs,
                                        struct mt_error *err)
{
    struct mt_buf value = {0};
    json_t *part;
    size_t i;
    enum mt_status status = MT_OK;
    mt_buf_adds(&value, "");
    if (json_is_object(reference))
        status = add_part(reference, secrets, &value, err);
    json_array_foreach (reference, i, part)
        if (status == MT_OK)
            status = add_part(part, secrets, &value, err);
    if (status == MT_OK) {
        char *text = json_dumps(reference, JSON_COMPACT);
        mt_pairs_add_secret(pairs, key, value.data, text);
        free(text);
    }
    mt_buf_free(&value);
    return status;
}

static bool is_reference(const json_t *value)
{
    json_t *part;
    size_t i;
    if (json_is_object(value))
        return json_is_string(json_object_get(value, "secret"));
    json_array_foreach (value, i, part)
        if (!json_is_string(part) && !json_is_string(json_object_get(part, "secret")))
            return false;
    return json_is_array(value);
}

/* REJECT: that is no list of options. */
static enum mt_status options_from_json(const json_t *list, const struct mt_secrets *secrets,
                                        struct mt_pairs *pairs, struct mt_error *err)
{
    json_t *item, *value;
    size_t i;
    json_array_foreach (list, i, item) {
        const char *key;
        if (json_unpack(item, "[s, o]", &key, &value) != 0)
            return MT_REJECT;
        if (json_is_string(value)) {
            mt_pairs_add(pairs, key, json_string_value(value));
            continue;
        }
        if (!is_reference(value))
            return MT_REJECT;
        enum mt_status status = add_secret_option(key, value, secrets, pairs, err);
        if (status != MT_OK)
            return status;
    }
    return json_is_array(list) ? MT_OK : MT_REJECT;
}

static bool names_from_json(const json_t *list, struct mt_pairs *pairs)
{
    json_t *item;
    size_t i;
    json_array_foreach (list, i, item) {
        if (!json_is_string(item))
            return false;
        mt_pairs_add(pairs, json_string_value(item), "");
    }
    return json_is_array(list);
}

/* The settings that a line of calls[N] holds; strings are of *json. Json and the lists are the
 * caller's to free, on failure too. */
static enum mt_status settings_from_json(const struct call *call, const struct mt_secrets *secrets,
                                         json_t **json, struct mt_sink_settings *settings,
                                         struct mt_error *err)
{
    json_t *options = NULL, *names, *spread = NULL;
    json_int_t n_files = 0;
    *settings = (struct mt_sink_settings){.ordinal = call->ordinal};
    *json = json_loads(call->settings, 0, NULL);
    enum mt_status status = MT_OK;
    if (json_unpack(*json, "{s:s, s?:s, s?:s, s:o, s:o, s?:I, s?:o, s?:s}", "format",
                    &settings->format, "path", &settings->path, "name", &settings->name, "options",
                    &options, "partitionBy", &names, "files", &n_files, "spreadBy", &spread,
                    "queryName", &settings->query_name) != 0 ||
        (status = options_from_json(options, secrets, &settings->options, err)) != MT_OK ||
        !names_from_json(names, &settings->partition_by) ||
        (spread && !names_from_json(spread, &settings->spread_by)))
        return status == MT_FATAL
                   ? status
                   : mt_fail(err, MT_FATAL, MT_CLASS_CHECKPOINT,
                             "the record of its sinks cannot be read: the settings of %s; put back "
                             "a copy of the checkpoint",
                             call->identity);
    settings->n_files = n_files;
    return MT_OK;
}

static void free_settings(struct mt_sink_settings *settings)
{
    mt_pairs_free(&settings->options);
    mt_pairs_free(&settings->partition_by);
    mt_pairs_free(&settings->spread_by);
}

/* ---- outlets */

static void outlet_free(struct outlet *outlet)
{
    mt_sink_free(outlet->sink);
    mt_schema_release(&outlet->schema);
    free(outlet->settings), free(outlet->columns), free(outlet->secrets), free(outlet->base);
    free(outlet);
}

static void drop_outlet(struct mt_query *query, int64_t i)
{
    outlet_free(query->outlets[i]);
    query->outlets[i] = query->outlets[--query->n_outlets];
}

void outlets_free(struct mt_query *query)
{
    while (query->n_outlets > 0)
        drop_outlet(query, 0);
    free(query->outlets);
    query->outlets = NULL;
}

void mt_query_each_saved(const struct mt_query *query,
                         void (*fn)(void *ctx, const struct mt_sink *sink), void *ctx)
{
    for (int64_t i = 0; i < query->n_outlets; i++)
        fn(ctx, query->outlets[i]->sink);
}

void outlets_rest(struct mt_query *query)
{
    for (int64_t i = query->n_outlets - 1; i >= 0; i--) {
        if (!query->outlets[i]->used && query->n_outlets > OUTLETS_KEPT)
            drop_outlet(query, i);
        else
            query->outlets[i]->used = false;
    }
}

/* One with the same identity had other columns or options: they count from now on. */
static void replace_namesake(struct mt_query *query, const struct outlet *outlet)
{
    for (int64_t i = query->n_outlets - 1; i >= 0; i--)
        if (strcmp(query->outlets[i]->sink->identity, outlet->sink->identity) == 0)
            drop_outlet(query, i);
}

static struct outlet *find_outlet(const struct mt_query *query, const char *settings,
                                  const char *columns, const char *secrets, int64_t ordinal)
{
    for (int64_t i = 0; i < query->n_outlets; i++) {
        struct outlet *outlet = query->outlets[i];
        if (outlet->ordinal == ordinal && strcmp(outlet->settings, settings) == 0 &&
            strcmp(outlet->columns, columns) == 0 && strcmp(outlet->secrets, secrets) == 0)
            return outlet;
    }
    return NULL;
}

void sink_prints_to(struct mt_sink *sink, const struct mt_query *query)
{
    sink->print = query->print;
    sink->print_ctx = query->ctx;
}

/* Takes outlet, which is keyed. */
static enum mt_status make_outlet(struct mt_query *query, const struct mt_sink_settings *settings,
                                  const struct ArrowSchema *schema, struct outlet *outlet,
                                  struct mt_error *err)
{
    struct mt_sink_settings numbered = *settings;
    numbered.ordinal = outlet->ordinal;
    mt_schema_copy(schema, &outlet->schema);
    enum mt_status status = mt_sink_new(&numbered, &outlet->schema, &outlet->sink, err);
    if (status != MT_OK) {
        outlet_free(outlet);
        return status;
    }
    sink_prints_to(outlet->sink, query);
    replace_namesake(query, outlet);
    query->outlets =
        mt_realloc(query->outlets, (size_t)(query->n_outlets + 1) * sizeof(struct outlet *));
    query->outlets[query->n_outlets++] = outlet;
    return MT_OK;
}

enum mt_status outlet_of(struct mt_query *query, const struct mt_sink_settings *settings,
                         const struct ArrowSchema *schema, int64_t ordinal, struct outlet **out,
                         struct mt_error *err)
{
    char *text = settings_to_json(settings);
    if (!text)
        return mt_fail(err, MT_REJECT, MT_CLASS_JOB, "save: an option or a name is not UTF-8");
    struct outlet *outlet = mt_alloc(sizeof *outlet);
    *outlet = (struct outlet){.settings = text,
                              .columns = mt_schema_ddl(schema),
                              .secrets = secrets_of(&settings->options),
                              .ordinal = ordinal};
    *out = find_outlet(query, outlet->settings, outlet->columns, outlet->secrets, ordinal);
    if (*out) {
        outlet_free(outlet);
        return MT_OK;
    }
    *out = outlet;
    return make_outlet(query, settings, schema, outlet, err);
}

enum mt_status outlet_recover(struct mt_query *query, struct outlet *outlet, struct mt_error *err)
{
    enum mt_status status = MT_OK;
    if (!outlet->recovered)
        status = outlet->sink->type->recover(outlet->sink, mt_store_query_id(query->store), err);
    outlet->recovered = status == MT_OK;
    return status;
}

enum mt_status outlet_of_line(struct mt_query *query, const struct call *call, struct outlet **out,
                              struct mt_error *err)
{
    struct mt_sink_settings settings;
    struct ArrowSchema schema = {0};
    json_t *json;
    enum mt_status status = settings_from_json(call, &query->secrets, &json, &settings, err);
    if (status == MT_OK)
        status = mt_schema_parse(call->columns, &schema, err);
    if (status == MT_OK)
        status = outlet_of(query, &settings, &schema, call->ordinal, out, err);
    mt_schema_release(&schema);
    free_settings(&settings);
    json_decref(json);
    return status;
}

/* ---- for ckpt show */

json_t *call_describe(const struct call *call, const char *query_id,
                      const struct mt_secrets *secrets)
{
    struct mt_error err;
    struct mt_sink_settings settings;
    struct ArrowSchema schema = {0};
    struct mt_sink *sink = NULL;
    json_t *json, *about = NULL;
    enum mt_status status = settings_from_json(call, secrets, &json, &settings, &err);
    if (status == MT_OK)
        status = mt_schema_parse(call->columns, &schema, &err);
    if (status == MT_OK)
        status = mt_sink_new(&settings, &schema, &sink, &err);
    if (status == MT_OK) {
        char *text = mt_sink_describe(sink, query_id);
        about = json_loads(text, 0, NULL);
        free(text);
    }
    mt_sink_free(sink);
    mt_schema_release(&schema);
    free_settings(&settings);
    json_decref(json);
    if (!about)
        mt_mask(err.text, strlen(err.text));
    return about ? about : json_pack("{s:s}", "error", err.text);
}
