/* SPDX-License-Identifier: Apache-2.0
 *
 * engine_calls.c - which sinks a batch was given to, and the record of that.
 *
 * A script that saves to several sinks may die between two of them. What it was about to store is
 * then in calls[N], the intent record: a line a save, durable before that sink's commit. By it a
 * start knows whom to ask, and whether the script, run again, does the same again. Sinks without a
 * memory have a line too, which goes out with the next one: it cannot be asked, but compared.
 *
 * A batch with a declared sink has one call and no record: the plan names its sink. */
#include <assert.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine_int.h"

static void call_clear(struct call *call)
{
    free(call->identity), free(call->base), free(call->settings), free(call->columns);
}

void calls_clear(struct mt_calls *calls)
{
    for (int64_t i = 0; i < calls->n; i++)
        call_clear(&calls->items[i]);
    free(calls->items);
    *calls = (struct mt_calls){.query = calls->query};
}

struct call *calls_push(struct mt_calls *calls)
{
    calls->items = mt_realloc(calls->items, (size_t)(calls->n + 1) * sizeof *calls->items);
    calls->items[calls->n] = (struct call){0};
    return &calls->items[calls->n++];
}

void calls_pop(struct mt_calls *calls)
{
    call_clear(&calls->items[--calls->n]);
}

void calls_drop_unheld(struct mt_calls *calls)
{
    int64_t n = 0;
    for (int64_t i = 0; i < calls->n; i++)
        if (calls->items[i].held)
            calls->items[n++] = calls->items[i];
        else
            call_clear(&calls->items[i]);
    calls->n = n;
}

int64_t calls_stored_rows(const struct mt_calls *calls)
{
    int64_t rows = 0;
    for (int64_t i = 0; i < calls->n; i++)
        rows += calls->items[i].stored.rows;
    return rows;
}

bool calls_all_replayed(const struct mt_calls *calls)
{
    int64_t n = 0;
    for (int64_t i = 0; i < calls->n; i++)
        n += calls->items[i].replayed;
    return n > 0 && n == calls->n;
}

void calls_tell(const struct mt_calls *calls, struct mt_buf *text)
{
    const char *between = "";
    for (int64_t i = 0; i < calls->n; i++) {
        const struct call *call = &calls->items[i];
        if (!call->memory)
            continue;
        if (call->held || call->done)
            mt_buf_addf(text, "%s%s holds it (%" PRId64 " rows)", between, call->identity,
                        call->stored.rows);
        else
            mt_buf_addf(text, "%s%s does not", between, call->identity);
        between = ", ";
    }
}

/* ---- calls[N] */

static const char *hex(uint64_t fingerprint, char out[17])
{
    snprintf(out, 17, "%016" PRIx64, fingerprint);
    return out;
}

static json_t *line_json(const struct call *call)
{
    char print[17];
    return json_pack("{s:s, s:o, s:I, s:s, s:I, s:I, s:s}", "sink", call->identity, "settings",
                     json_loads(call->settings, 0, NULL), "ordinal", (json_int_t)call->ordinal,
                     "columns", call->columns, "attempt", (json_int_t)call->attempt, "rows",
                     (json_int_t)call->rows, "fingerprint", hex(call->fingerprint, print));
}

static char *calls_to_json(const struct mt_calls *calls)
{
    json_t *lines = json_array();
    for (int64_t i = 0; i < calls->n; i++) {
        int failed = json_array_append_new(lines, line_json(&calls->items[i]));
        assert(!failed);
    }
    json_t *json = json_pack("{s:i, s:b, s:o}", "format", 1, "accepted",
                             calls->mode == CALLS_ACCEPT, "lines", lines);
    char *text = json_dumps(json, JSON_COMPACT);
    json_decref(json);
    return text;
}

enum mt_status calls_write(struct mt_calls *calls, struct mt_error *err)
{
    struct mt_query *query = calls->query;
    char *json = calls_to_json(calls);
    mt_step("calls.before", query->plan.id);
    enum mt_status status = mt_store_calls_put(query->store, query->plan.id, json, err);
    free(json);
    if (status == MT_OK)
        mt_step("calls.after", query->plan.id);
    return status;
}

static enum mt_status bad_line(struct mt_error *err, const char *what)
{
    return mt_fail(err, MT_FATAL, MT_CLASS_CHECKPOINT,
                   "the record of its sinks cannot be read: %s; put back a copy of the checkpoint",
                   what);
}

static enum mt_status line_from_json(json_t *json, struct call *call, struct mt_error *err)
{
    json_error_t at;
    json_t *settings;
    json_int_t ordinal, attempt, rows;
    const char *identity, *columns, *fingerprint;
    if (json_unpack_ex(json, &at, 0, "{s:s, s:o, s:I, s:s, s:I, s:I, s:s}", "sink", &identity,
                       "settings", &settings, "ordinal", &ordinal, "columns", &columns, "attempt",
                       &attempt, "rows", &rows, "fingerprint", &fingerprint) != 0)
        return bad_line(err, at.text);
    call->identity = mt_strdup(identity);
    call->settings = json_dumps(settings, JSON_COMPACT);
    call->columns = mt_strdup(columns);
    call->ordinal = ordinal;
    call->attempt = attempt;
    call->rows = rows;
    call->fingerprint = strtoull(fingerprint, NULL, 16);
    return MT_OK;
}

enum mt_status calls_from_json(const char *text, struct mt_calls *calls, struct mt_error *err)
{
    json_error_t at;
    json_t *json = json_loads(text, 0, &at), *lines, *line;
    int accepted;
    size_t i;
    if (!json)
        return bad_line(err, at.text);
    enum mt_status status = MT_OK;
    if (json_unpack_ex(json, &at, 0, "{s:b, s:o}", "accepted", &accepted, "lines", &lines) != 0) {
        status = bad_line(err, at.text);
    } else {
        calls->mode = accepted ? CALLS_ACCEPT : CALLS_REPLAY;
        json_array_foreach (lines, i, line) {
            if (status == MT_OK)
                status = line_from_json(line, calls_push(calls), err);
        }
    }
    json_decref(json);
    return status;
}

enum mt_status calls_read(struct mt_calls *calls, int64_t id, struct mt_error *err)
{
    struct mt_buf text = {0};
    bool found = false;
    enum mt_status status =
        mt_store_get(calls->query->store, MT_RECORD_CALLS, id, &text, &found, err);
    if (status == MT_OK && found)
        status = calls_from_json(text.data, calls, err);
    mt_buf_free(&text);
    return status;
}

/* ---- of a commit */

/* What became of the rows that were given and are not stored. */
static void add_unstored(json_t *line, const struct mt_sink_record *record)
{
    const struct {
        const char *name;
        int64_t rows;
    } of[] = {
        {"merged", record->merged}, {"ignored", record->ignored}, {"rejected", record->rejected}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        if (of[i].rows > 0)
            json_object_set_new(line, of[i].name, json_integer(of[i].rows));
}

json_t *calls_account(const struct mt_calls *calls)
{
    json_t *list = json_array();
    for (int64_t i = 0; i < calls->n; i++) {
        const struct call *call = &calls->items[i];
        char print[17];
        if (!call->done && !call->held)
            continue;
        /* what a sink held and nobody made again was given by an earlier attempt */
        json_t *given = call->done ? json_integer(call->rows) : json_null();
        json_t *line = json_pack("{s:s, s:o, s:I, s:s, s:b}", "sink", call->identity, "given",
                                 given, "stored", (json_int_t)call->stored.rows, "fingerprint",
                                 hex(call->stored.fingerprint, print), "replayed",
                                 call->replayed || !call->done);
        add_unstored(line, &call->stored);
        int failed = json_array_append_new(list, line);
        assert(!failed);
    }
    return list;
}
