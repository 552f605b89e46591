/* SPDX-License-Identifier: Apache-2.0
 *
 * engine_show.c - what a checkpoint says of itself, as JSON, and for the saves of a foreachBatch
 * what their destinations hold. Reads beside a running owner; changes nothing. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine_int.h"

/* The record as a JSON value, positions unfolded; null when there is none. */
static enum mt_status record_json(struct mt_store *store, enum mt_record kind, int64_t id,
                                  json_t **out, struct mt_error *err)
{
    struct mt_buf text = {0};
    bool found = false;
    *out = json_null();
    if (id < 0)
        return MT_OK;
    enum mt_status status = mt_store_get(store, kind, id, &text, &found, err);
    json_t *json = status == MT_OK && found ? json_loads(text.data, 0, NULL) : NULL;
    mt_buf_free(&text);
    if (status != MT_OK)
        return status;
    if (!json)
        return mt_fail(err, MT_FATAL, MT_CLASS_CHECKPOINT, "record %lld is damaged", (long long)id);
    *out = json;
    return MT_OK;
}

static void unfold(json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    json_t *value = text ? json_loads(text, JSON_DECODE_ANY, NULL) : NULL;
    if (value)
        json_object_set_new(object, key, value);
}

static void unfold_positions(json_t *plan)
{
    size_t i;
    json_t *source;
    json_array_foreach (json_object_get(plan, "sources"), i, source) {
        unfold(source, "start");
        unfold(source, "end");
    }
}

/* The saves of a batch as calls[N] has them, each with what its destination holds now. */
static enum mt_status sinks_json(struct mt_store *store, int64_t id,
                                 const struct mt_secrets *secrets, json_t **out,
                                 struct mt_error *err)
{
    struct mt_calls calls = {0};
    struct mt_buf text = {0};
    bool found = false;
    *out = json_array();
    enum mt_status status =
        id < 0 ? MT_OK : mt_store_get(store, MT_RECORD_CALLS, id, &text, &found, err);
    if (status == MT_OK && found)
        status = calls_from_json(text.data, &calls, err);
    for (int64_t i = 0; status == MT_OK && i < calls.n; i++) {
        const struct call *call = &calls.items[i];
        json_array_append_new(
            *out,
            json_pack("{s:s, s:s, s:I, s:I, s:o}", "sink", call->identity, "columns", call->columns,
                      "attempt", (json_int_t)call->attempt, "rows", (json_int_t)call->rows, "about",
                      call_describe(call, mt_store_query_id(store), secrets)));
    }
    calls_clear(&calls);
    mt_buf_free(&text);
    return status;
}

/* The one state there is: of the foreachBatch function. */
static json_t *state_json(json_t *plan, json_t *about)
{
    const char *sink = json_string_value(json_array_get(json_object_get(plan, "sinks"), 0));
    if (!sink || strcmp(sink, FOREACH_BATCH) != 0)
        return json_array();
    return json_pack("[{s:s, s:O, s:O}]", "name", FOREACH_BATCH, "keys",
                     json_object_get(about, "state"), "bytes",
                     json_object_get(about, "stateBytes"));
}

/* What a checkpoint holds, read piece by piece. */
struct shown {
    int64_t plan_id, commit_id;
    json_t *plan, *commit, *last, *sinks; /* last: the plan of the last commit */
};

static enum mt_status read_shown(struct mt_store *store, const struct mt_secrets *secrets,
                                 struct shown *shown, struct mt_error *err)
{
    enum mt_status status = mt_store_last(store, &shown->plan_id, &shown->commit_id, err);
    if (status == MT_OK)
        status = record_json(store, MT_RECORD_PLAN, shown->plan_id, &shown->plan, err);
    if (status == MT_OK)
        status = record_json(store, MT_RECORD_COMMIT, shown->commit_id, &shown->commit, err);
    if (status == MT_OK)
        status = record_json(store, MT_RECORD_PLAN, shown->commit_id, &shown->last, err);
    return status == MT_OK ? sinks_json(store, shown->plan_id, secrets, &shown->sinks, err)
                           : status;
}

static char *print_shown(struct mt_store *store, const char *dir, const struct shown *shown)
{
    char *about = mt_store_describe(store);
    json_t *held = json_loads(about, 0, NULL);
    free(about);
    unfold_positions(shown->plan);
    unfold_positions(shown->last);
    json_t *json = json_pack(
        "{s:s, s:s, s:I, s:I, s:O, s:O, s:O, s:O, s:o, s:o}", "checkpoint", dir, "queryId",
        mt_store_query_id(store), "lastPlan", (json_int_t)shown->plan_id, "lastCommit",
        (json_int_t)shown->commit_id, "plan", shown->plan, "commit", shown->commit, "committedPlan",
        shown->last, "sinks", shown->sinks, "state", state_json(shown->plan, held), "store", held);
    char *text = json_dumps(json, JSON_COMPACT);
    json_decref(json);
    return text;
}

enum mt_status mt_checkpoint_show(const char *dir, const struct mt_secrets *secrets, char **out,
                                  struct mt_error *err)
{
    struct mt_store *store = NULL;
    struct shown shown = {.plan_id = -1, .commit_id = -1};
    enum mt_status status = mt_store_open_read(dir, &store, err);
    if (status == MT_OK)
        status = read_shown(store, secrets, &shown, err);
    if (status == MT_OK)
        *out = print_shown(store, dir, &shown);
    json_decref(shown.plan), json_decref(shown.commit), json_decref(shown.last);
    json_decref(shown.sinks);
    mt_store_close(store);
    return status;
}
