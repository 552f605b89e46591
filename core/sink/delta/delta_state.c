/* SPDX-License-Identifier: Apache-2.0
 *
 * delta_state.c - what the actions of a log say to one that appends: which protocol and
 * schema the table has, and which batches of a query are in it.
 *
 * A batch is known by its txn action (appId and version), which checkpoints keep. Its
 * marker, with the digest, is in commitInfo of the same version, which they do not: only
 * the version's own file has it. Fields and actions that are not ours are skipped; what
 * they could mean to a writer is told by the protocol. */
#include <stdlib.h>
#include <string.h>

#include "sink/delta/delta_int.h"

static bool is_ours(const struct delta_state *state, const json_t *marker)
{
    const char *query = json_string_value(json_object_get(marker, "query"));
    const char *sink = json_string_value(json_object_get(marker, "sink"));
    return query && sink && state->query && strcmp(query, state->query) == 0 &&
           strcmp(sink, state->sink) == 0;
}

static void replace(json_t **to, json_t *value)
{
    json_decref(*to);
    *to = json_incref(value);
}

static enum mt_status take_metadata(struct delta_state *state, json_t *metadata,
                                    struct mt_error *err)
{
    const char *text = json_string_value(json_object_get(metadata, "schemaString"));
    json_error_t why;
    json_t *schema = text ? json_loads(text, 0, &why) : NULL;
    if (!json_is_array(json_object_get(schema, "fields"))) {
        json_decref(schema);
        return mt_fail(err, MT_REJECT, MT_CLASS_SINK, "metaData has no schema that can be read");
    }
    replace(&state->metadata, metadata);
    json_decref(state->schema);
    state->schema = schema;
    return MT_OK;
}

/* Of another query, as its id is written in an appId. */
static void take_stranger(struct delta_state *state, const char *app)
{
    const char *query = app + strlen(DELTA_APP);
    size_t len = strcspn(query, " ");
    bool same = state->query && strlen(state->query) == len && !strncmp(query, state->query, len);
    if (!same && !state->stranger)
        state->stranger = mt_strndup(query, len);
}

static enum mt_status take_txn(struct delta_state *state, struct delta_version *version,
                               const json_t *txn, struct mt_error *err)
{
    const char *app = json_string_value(json_object_get(txn, "appId"));
    const json_t *number = json_object_get(txn, "version");
    if (!app || !json_is_integer(number))
        return mt_fail(err, MT_REJECT, MT_CLASS_SINK, "txn has no appId and version");
    if (state->app && strcmp(app, state->app) == 0)
        version->txn = json_integer_value(number);
    else if (strncmp(app, DELTA_APP, strlen(DELTA_APP)) == 0)
        take_stranger(state, app);
    return MT_OK;
}

static enum mt_status take_action(struct delta_state *state, struct delta_version *version,
                                  const json_t *action, struct mt_error *err)
{
    json_t *value = json_object_get(action, "commitInfo");
    if (value) {
        json_t *marker = json_object_get(value, "moontide");
        if (is_ours(state, marker))
            replace(&version->ours, marker);
        return MT_OK;
    }
    if ((value = json_object_get(action, "add"))) {
        version->bytes += json_integer_value(json_object_get(value, "size"));
        return MT_OK;
    }
    if ((value = json_object_get(action, "txn")))
        return take_txn(state, version, value, err);
    if ((value = json_object_get(action, "metaData")))
        return take_metadata(state, value, err);
    if ((value = json_object_get(action, "protocol")))
        replace(&state->protocol, value);
    return MT_OK;
}

enum mt_status delta_state_take(struct delta_state *state, struct delta_version *version,
                                const char *line, size_t len, struct mt_error *err)
{
    json_error_t why;
    json_t *action = json_loadb(line, len, 0, &why);
    enum mt_status status;
    if (json_is_object(action))
        status = take_action(state, version, action, err);
    else
        status =
            mt_fail(err, MT_REJECT, MT_CLASS_SINK, "%s", action ? "not a JSON object" : why.text);
    json_decref(action);
    return status;
}

enum mt_status delta_state_end(struct delta_state *state, struct delta_version *version,
                               struct mt_error *err)
{
    const char *bad = NULL;
    if (version->txn >= 0) {
        char *query = NULL, *sink = NULL;
        state->holds = true;
        state->known = version->ours != NULL;
        state->record = (struct mt_sink_record){.bytes = version->bytes};
        if (version->ours)
            bad = files_marker_parse(version->ours, &query, &sink, &state->record);
        const char *nonce = json_string_value(json_object_get(version->ours, "nonce"));
        snprintf(state->nonce, sizeof state->nonce, "%s", nonce ? nonce : "");
        state->record.batch_id = version->txn;
        free(query), free(sink);
    }
    json_decref(version->ours);
    version->ours = NULL;
    return bad ? mt_fail(err, MT_REJECT, MT_CLASS_SINK,
                         "commitInfo: field \"%s\" is missing or "
                         "wrong",
                         bad)
               : MT_OK;
}

void delta_state_deinit(struct delta_state *state)
{
    json_decref(state->protocol);
    json_decref(state->metadata);
    json_decref(state->schema);
    free(state->query), free(state->sink), free(state->app), free(state->stranger);
    *state = (struct delta_state){0};
}
