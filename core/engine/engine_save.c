/* SPDX-License-Identifier: Apache-2.0
 *
 * engine_save.c - the saves of a foreachBatch.
 *
 * A save is a sink's whole batch: begin, write, intent, commit. Its sink is made from the
 * settings that the script gave and kept for the next batches, because making one reads the
 * destination. It is known by its name, else by its destination and the how-manieth call to it in
 * this batch this is: never by the ordinal among all calls, so that a save under an `if` does not
 * rename those behind it.
 *
 * What is kept of a save keeps no secret: an option that has one stands in the record with the
 * secret's name, and its value is asked for again when a start must ask the sink.
 *
 * After a failure that may have stored something the batch is doomed: whatever the script makes of
 * the error, every later save answers it again and the batch fails. So no sink is given a batch
 * that another one of it may hold in other form. */
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine_int.h"

enum { OUTLETS_KEPT = 32 }; /* a script may make a path of each date */

/* A sink of saves, from batch to batch. */
struct outlet {
    char *settings, *columns; /* what it was made of; with the ordinal its key */
    char *secrets;            /* values that settings have the names of */
    int64_t ordinal;
    char *base; /* identity without the ordinal */
    struct ArrowSchema schema;
    struct mt_sink *sink;
    bool recovered, used; /* used: in this batch */
};

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

static int64_t calls_to(const struct mt_calls *calls, const char *base)
{
    int64_t n = 0;
    for (int64_t i = 0; i < calls->n; i++)
        n += calls->items[i].done && strcmp(calls->items[i].base, base) == 0;
    return n;
}

static enum mt_status outlet_of(struct mt_query *query, const struct mt_sink_settings *settings,
                                const struct ArrowSchema *schema, int64_t ordinal,
                                struct outlet **out, struct mt_error *err)
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

static enum mt_status recover_outlet(struct mt_query *query, struct outlet *outlet,
                                     struct mt_error *err)
{
    enum mt_status status = MT_OK;
    if (!outlet->recovered)
        status = outlet->sink->type->recover(outlet->sink, mt_store_query_id(query->store), err);
    outlet->recovered = status == MT_OK;
    return status;
}

/* The sink of this save: the first to its destination is asked for its identity, and counted by
 * that. */
static enum mt_status sink_of_save(struct mt_query *query, const struct mt_sink_settings *settings,
                                   const struct ArrowSchema *schema, struct outlet **out,
                                   struct mt_error *err)
{
    enum mt_status status = outlet_of(query, settings, schema, 1, out, err);
    if (status != MT_OK)
        return status;
    if (!(*out)->base)
        (*out)->base = mt_strdup((*out)->sink->identity);
    char *base = mt_strdup((*out)->base);
    int64_t before = calls_to(&query->calls, base);
    if (before > 0 && settings->name)
        status = mt_fail(err, MT_REJECT, MT_CLASS_JOB,
                         "a second save is named \"%s\" in this batch: by its name the destination "
                         "knows what it holds, give each its own",
                         settings->name);
    else if (before > 0)
        status = outlet_of(query, settings, schema, before + 1, out, err);
    if (status == MT_OK && !(*out)->base)
        (*out)->base = mt_strdup(base);
    free(base);
    return status;
}

/* ---- the same again? */

enum mt_status calls_refuse(const struct mt_calls *calls, struct mt_error *err, const char *words)
{
    struct mt_buf held = {0};
    long long id = (long long)calls->query->plan.id;
    calls_tell(calls, &held);
    mt_fail(
        err, MT_FATAL, MT_CLASS_CHECKPOINT,
        "%s. Of this batch %s. Run it with what makes the same again; or, once, with "
        "--finish-with-new-script: the script of today ends the batch, what is stored stays; or "
        "with --accept-replay %lld: the script that began it goes on, differences are let be",
        words, held.len ? held.data : "no sink holds anything", id);
    mt_buf_free(&held);
    return MT_FATAL;
}

/* The next line of the record, if this save is what it says. */
static enum mt_status expect_line(struct mt_calls *calls, const struct outlet *outlet, int64_t rows,
                                  uint64_t fingerprint, struct call **out, struct mt_error *err)
{
    struct call *line = &calls->items[calls->next];
    char *words = NULL;
    if (strcmp(line->identity, outlet->sink->identity) != 0)
        words = mt_format("run again, the script saves to %s where it saved to %s",
                          outlet->sink->identity, line->identity);
    else if (line->rows != rows || line->fingerprint != fingerprint)
        words =
            mt_format("run again, the script gives %s %" PRId64 " rows where it gave %" PRId64 "%s",
                      line->identity, rows, line->rows, line->rows == rows ? " others" : "");
    if (!words) {
        *out = line;
        return MT_OK;
    }
    enum mt_status status = calls_refuse(calls, err, words);
    free(words);
    return status;
}

static struct call *find_undone(struct mt_calls *calls, const char *identity)
{
    for (int64_t i = 0; i < calls->n; i++)
        if (!calls->items[i].done && strcmp(calls->items[i].identity, identity) == 0)
            return &calls->items[i];
    return NULL;
}

static struct call *add_line(struct mt_calls *calls, const struct outlet *outlet)
{
    struct call *call = calls_push(calls);
    call->identity = mt_strdup(outlet->sink->identity);
    call->settings = mt_strdup(outlet->settings);
    call->columns = mt_strdup(outlet->columns);
    call->ordinal = outlet->ordinal;
    call->attempt = calls->query->plan.attempt;
    return call;
}

/* The line that this save is; *added: it is a new one, which is not in the record. */
static enum mt_status take_line(struct mt_calls *calls, const struct outlet *outlet, int64_t rows,
                                uint64_t fingerprint, struct call **out, bool *added,
                                struct mt_error *err)
{
    enum mt_status status = MT_OK;
    *out = NULL;
    if (calls->mode == CALLS_REPLAY && calls->next < calls->n)
        status = expect_line(calls, outlet, rows, fingerprint, out, err);
    else if (calls->mode == CALLS_ACCEPT)
        *out = find_undone(calls, outlet->sink->identity);
    if (status != MT_OK)
        return status;
    *added = !*out;
    if (*added)
        *out = add_line(calls, outlet);
    struct call *call = *out;
    call->memory = mt_sink_is_exactly_once(outlet->sink);
    call->intent = call->memory && (*added || calls->mode == CALLS_ACCEPT);
    call->rows = rows;
    call->fingerprint = fingerprint;
    if (!call->base)
        call->base = mt_strdup(outlet->base);
    return MT_OK;
}

/* ---- the face */

static enum mt_status save(struct mt_query *query, struct outlet *outlet,
                           const struct mt_batch *rows, struct mt_sink_record *stored,
                           struct mt_error *err)
{
    struct mt_calls *calls = &query->calls;
    struct call *call;
    bool added;
    enum mt_status status = recover_outlet(query, outlet, err);
    if (status == MT_OK)
        status = take_line(calls, outlet, rows->array.length, mt_batch_fingerprint(rows), &call,
                           &added, err);
    if (status != MT_OK)
        return status;
    status = sink_deliver(query, outlet->sink, rows, call, err);
    if (status == MT_OK) {
        *stored = call->stored;
        outlet->used = true;
        calls->next++;
    } else if (added) {
        calls_pop(calls);
    }
    return status;
}

enum mt_status mt_run_save(struct mt_run *run, const struct mt_sink_settings *settings,
                           const struct mt_batch *rows, struct mt_sink_record *stored,
                           struct mt_error *err)
{
    struct mt_calls *calls = run->calls;
    struct outlet *outlet;
    if (calls->doomed != MT_OK) {
        *err = calls->doom;
        return calls->doomed;
    }
    enum mt_status status = sink_of_save(calls->query, settings, rows->schema, &outlet, err);
    if (status == MT_OK)
        status = save(calls->query, outlet, rows, stored, err);
    else if (err->class_ == MT_CLASS_JOB)
        status = MT_REJECT; /* the settings are wrong: nothing was touched */
    if (status == MT_RETRY || status == MT_FATAL) {
        calls->doomed = status;
        calls->doom = *err;
    }
    return status;
}

enum mt_status calls_finish(struct mt_calls *calls, enum mt_status status, struct mt_error *err)
{
    if (calls->doomed != MT_OK) {
        if (status == MT_OK || calls->doomed == MT_RETRY || !strstr(err->text, calls->doom.text))
            *err = calls->doom;
        err->class_ = calls->doom.class_; /* with the script's line, but it is not its fault */
        return calls->doomed;
    }
    if (calls->mode != CALLS_REPLAY)
        return status;
    if (status != MT_OK) {
        struct mt_error why = *err;
        return calls_refuse(calls, err, why.text);
    }
    if (calls->next >= calls->n)
        return MT_OK;
    char *words = mt_format("run again, the script ends before it saves to %s",
                            calls->items[calls->next].identity);
    status = calls_refuse(calls, err, words);
    free(words);
    return status;
}

/* The sink of a line of a record. */
static enum mt_status outlet_of_line(struct mt_query *query, const struct call *call,
                                     struct outlet **out, struct mt_error *err)
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

/* Asks a sink of the record. */
static enum mt_status ask_line(struct mt_query *query, struct call *call, struct mt_error *err)
{
    struct outlet *outlet;
    enum mt_status status = outlet_of_line(query, call, &outlet, err);
    if (status != MT_OK)
        return mt_fail_within(err, status == MT_RETRY ? MT_RETRY : MT_FATAL,
                              "asking %s whether it holds it: ", call->identity);
    call->memory = mt_sink_is_exactly_once(outlet->sink);
    if (!call->memory)
        return MT_OK;
    status = recover_outlet(query, outlet, err);
    return status == MT_OK ? sink_ask(query, outlet->sink, call, err) : status;
}

enum mt_status calls_ask(struct mt_calls *calls, int64_t *held, struct mt_error *err)
{
    enum mt_status status = MT_OK;
    *held = 0;
    for (int64_t i = 0; status == MT_OK && i < calls->n; i++) {
        status = ask_line(calls->query, &calls->items[i], err);
        *held += calls->items[i].held;
    }
    return status;
}

/* What an owner that died left in a sink of the last commit. No batch hangs on it: the sink holds
 * that one, and another is asked for by the record of its own. */
static enum mt_status settle_line(struct mt_query *query, const struct call *call,
                                  struct mt_error *err)
{
    struct outlet *outlet;
    enum mt_status status = outlet_of_line(query, call, &outlet, err);
    if (status == MT_OK && outlet->sink->type->exactly_once)
        status = recover_outlet(query, outlet, err);
    if (status == MT_OK || status == MT_RETRY)
        return status;
    mt_log(MT_WARN, "%s, which batch %lld was saved to, is not looked after: %s", call->identity,
           (long long)query->committed, err->text);
    return MT_OK;
}

enum mt_status calls_settle(struct mt_query *query, struct mt_error *err)
{
    struct mt_calls last = {.query = query};
    enum mt_status status = MT_OK;
    if (query->committed >= 0)
        status = calls_read(&last, query->committed, err);
    for (int64_t i = 0; status == MT_OK && i < last.n; i++)
        status = settle_line(query, &last.items[i], err);
    calls_clear(&last);
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
