/* SPDX-License-Identifier: Apache-2.0
 *
 * engine_save.c - the saves of a foreachBatch.
 *
 * A save is a sink's whole batch: begin, write, intent, commit. Its sink (engine_outlet.c) is known
 * by its name, else by its destination and the how-manieth call to it in this batch this is: never
 * by the ordinal among all calls, so that a save under an `if` does not rename those behind it.
 *
 * After a failure that may have stored something the batch is doomed: whatever the script makes of
 * the error, every later save answers it again and the batch fails. So no sink is given a batch
 * that another one of it may hold in other form. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine_int.h"

static int64_t calls_to(const struct mt_calls *calls, const char *base)
{
    int64_t n = 0;
    for (int64_t i = 0; i < calls->n; i++)
        n += calls->items[i].done && strcmp(calls->items[i].base, base) == 0;
    return n;
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
    enum mt_status status = outlet_recover(query, outlet, err);
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
    status = outlet_recover(query, outlet, err);
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
        status = outlet_recover(query, outlet, err);
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
