/* SPDX-License-Identifier: Apache-2.0
 *
 * engine_show.c - what a checkpoint says of itself, as JSON. Reads beside a running
 * owner and never asks a server. */
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

enum mt_status mt_checkpoint_show(const char *dir, char **out, struct mt_error *err)
{
    struct mt_store *store = NULL;
    int64_t plan_id = -1, commit_id = -1;
    json_t *plan = NULL, *commit = NULL, *last = NULL;
    enum mt_status status = mt_store_open_read(dir, &store, err);
    if (status == MT_OK)
        status = mt_store_last(store, &plan_id, &commit_id, err);
    if (status == MT_OK)
        status = record_json(store, MT_RECORD_PLAN, plan_id, &plan, err);
    if (status == MT_OK)
        status = record_json(store, MT_RECORD_COMMIT, commit_id, &commit, err);
    if (status == MT_OK)
        status = record_json(store, MT_RECORD_PLAN, commit_id, &last, err);
    if (status == MT_OK) {
        unfold_positions(plan);
        unfold_positions(last);
        char *about = mt_store_describe(store);
        json_t *json =
            json_pack("{s:s, s:s, s:I, s:I, s:O, s:O, s:O, s:o}", "checkpoint", dir, "queryId",
                      mt_store_query_id(store), "lastPlan", (json_int_t)plan_id, "lastCommit",
                      (json_int_t)commit_id, "plan", plan, "commit", commit, "committedPlan", last,
                      "store", json_loads(about, 0, NULL));
        *out = json_dumps(json, JSON_COMPACT);
        json_decref(json);
        free(about);
    }
    json_decref(plan), json_decref(commit), json_decref(last);
    mt_store_close(store);
    return status;
}
