/* SPDX-License-Identifier: Apache-2.0
 *
 * engine_plan.c - the plan and commit records as JSON.
 *
 * Positions are kept as the text the source wrote, not as a JSON value: two positions
 * are equal when their texts are, and a printer in between must not change that. The
 * digest covers what decides the rows of a batch and its time, nothing else: a replay
 * under a mended script has the same digest, so its sink recognises the batch. */
#include <assert.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine_int.h"

enum { FORMAT = 1 };

void plan_clear(struct plan *plan)
{
    for (int64_t i = 0; i < plan->n_spans; i++) {
        free(plan->spans[i].start), free(plan->spans[i].end);
        free(plan->spans[i].latest), free(plan->spans[i].facts);
    }
    free(plan->spans);
    free(plan->sink);
    *plan = (struct plan){.id = -1};
}

void plan_seal(struct plan *plan, const char *query_id)
{
    struct mt_buf text = {0};
    mt_buf_addf(&text, "%s\n%lld\n%lld\n", query_id, (long long)plan->id, (long long)plan->time_us);
    for (int64_t i = 0; i < plan->n_spans; i++)
        mt_buf_addf(&text, "%s\n%s\n", plan->spans[i].start, plan->spans[i].end);
    mt_sha256_hex(text.data, text.len, plan->digest);
    mt_buf_free(&text);
    char head[14] = {0};
    memcpy(head, plan->digest, 13); /* 52 bits */
    plan->seed = strtoll(head, NULL, 16);
}

static json_t *span_json(const struct span *span, const char *name)
{
    json_t *facts = span->facts ? json_loads(span->facts, 0, NULL) : NULL;
    return json_pack("{s:s, s:s, s:s, s:o*}", "name", name, "start", span->start, "end", span->end,
                     "facts", facts);
}

/* Appends what json_pack made. It makes nothing of text that is not UTF-8, and a record
 * without one of its parts must never be written: names and paths are checked before. */
static void append(json_t *list, json_t *item)
{
    int failed = json_array_append_new(list, item);
    assert(!failed);
}

static char *dump_and_free(json_t *json)
{
    char *text = json_dumps(json, JSON_COMPACT);
    assert(text);
    json_decref(json);
    return text;
}

char *plan_to_json(const struct mt_query *query, bool unheld)
{
    const struct plan *plan = &query->plan;
    json_t *sources = json_array();
    for (int64_t i = 0; i < plan->n_spans; i++)
        append(sources, span_json(&plan->spans[i], query->sources[i]->name));
    return dump_and_free(json_pack(
        "{s:i, s:s, s:I, s:s, s:o, s:I, s:s, s:I, s:s, s:[s], s:b, s:I, s:[], s:n}", "format",
        FORMAT, "moontide", MT_VERSION, "batchId", (json_int_t)plan->id, "digest", plan->digest,
        "sources", sources, "batchTimeUs", (json_int_t)plan->time_us, "timeZone", plan->time_zone,
        "seed", (json_int_t)plan->seed, "bundle", plan->bundle, "sinks", plan->sink, "unheld",
        unheld, "attempt", (json_int_t)plan->attempt, "excluded", "watermark"));
}

static enum mt_status bad_plan(struct mt_error *err, const char *what)
{
    return mt_fail(err, MT_FATAL, MT_CLASS_CHECKPOINT,
                   "the checkpoint's last plan cannot be read: %s; put back a copy of the "
                   "folder, or use a new checkpoint and a new path",
                   what);
}

static enum mt_status spans_from_json(json_t *sources, int64_t n_sources, struct plan *plan,
                                      struct mt_error *err)
{
    if ((int64_t)json_array_size(sources) != n_sources)
        return mt_fail(err, MT_FATAL, MT_CLASS_CHECKPOINT,
                       "the checkpoint was made with %zu sources and the job now has %lld; the "
                       "number of sources cannot change: use a new checkpoint",
                       json_array_size(sources), (long long)n_sources);
    plan->spans = mt_alloc((size_t)n_sources * sizeof *plan->spans);
    plan->n_spans = n_sources;
    for (int64_t i = 0; i < n_sources; i++) {
        const char *start, *end;
        json_t *facts = NULL;
        if (json_unpack(json_array_get(sources, (size_t)i), "{s:s, s:s, s?:o}", "start", &start,
                        "end", &end, "facts", &facts) != 0)
            return bad_plan(err, "a source without start and end");
        char *text = facts ? json_dumps(facts, JSON_COMPACT) : NULL;
        plan->spans[i] = (struct span){mt_strdup(start), mt_strdup(end), NULL, text};
    }
    return MT_OK;
}

enum mt_status plan_from_json(const char *text, int64_t n_sources, struct plan *plan,
                              struct mt_error *err)
{
    json_error_t at;
    json_t *json = json_loads(text, 0, &at), *sources;
    json_int_t format, id, time_us, seed, attempt;
    const char *digest, *zone, *bundle, *sink;
    int unheld = 0;
    if (!json)
        return bad_plan(err, at.text);
    enum mt_status status;
    if (json_unpack_ex(json, &at, 0, "{s:I, s:I, s:s, s:o, s:I, s:s, s:I, s:s, s:I, s:[s], s?:b}",
                       "format", &format, "batchId", &id, "digest", &digest, "sources", &sources,
                       "batchTimeUs", &time_us, "timeZone", &zone, "seed", &seed, "bundle", &bundle,
                       "attempt", &attempt, "sinks", &sink, "unheld", &unheld) != 0 ||
        strlen(digest) != 64 || strlen(bundle) != 64)
        status = bad_plan(err, at.text);
    else if (format != FORMAT)
        status =
            mt_fail(err, MT_FATAL, MT_CLASS_CHECKPOINT,
                    "the checkpoint has format %lld, this Moontide reads %d: use the version that "
                    "wrote it",
                    (long long)format, FORMAT);
    else {
        *plan = (struct plan){.id = id, .time_us = time_us, .seed = seed, .attempt = attempt};
        plan->sink = mt_strdup(sink);
        plan->unheld = unheld;
        memcpy(plan->digest, digest, 65);
        memcpy(plan->bundle, bundle, 65);
        snprintf(plan->time_zone, sizeof plan->time_zone, "%s", zone);
        status = spans_from_json(sources, n_sources, plan, err);
        if (status != MT_OK)
            plan_clear(plan);
    }
    json_decref(json);
    return status;
}

static json_t *steps_json(const struct mt_run *run)
{
    json_t *steps = json_array();
    for (int64_t i = 0; i < run->n_steps; i++) {
        const struct mt_step_count *s = &run->steps[i];
        append(steps, json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I}", "step", s->name, "in",
                                (json_int_t)s->in, "out", (json_int_t)s->out, "filtered",
                                (json_int_t)s->filtered, "malformed", (json_int_t)s->malformed,
                                "made", (json_int_t)s->made, "nulled", (json_int_t)s->nulled));
    }
    return steps;
}

/* A batch that the sink held already was not run again, and after a restart not read either:
 * what is not known is null, the sink's record is its account. */
static json_t *rows_json(const struct mt_query *query)
{
    json_int_t rows = 0;
    for (int64_t i = 0; i < query->n_sources; i++) {
        if (!query->run.inputs[i].array.release)
            return json_null();
        rows += query->run.inputs[i].array.length;
    }
    return json_integer(rows);
}

char *commit_to_json(const struct mt_query *query, int64_t now_ms)
{
    bool not_run = query->sink && calls_all_replayed(&query->calls) && query->run.n_steps == 0;
    return dump_and_free(json_pack(
        "{s:i, s:s, s:I, s:I, s:s, s:o, s:o, s:o, s:n}", "format", FORMAT, "moontide", MT_VERSION,
        "batchId", (json_int_t)query->plan.id, "committedAtMs", (json_int_t)now_ms, "bundle",
        query->plan.bundle, "steps", not_run ? json_null() : steps_json(&query->run), "rowsRead",
        rows_json(query), "sinks", calls_account(&query->calls), "watermark"));
}

const char *batch_offsets(struct mt_query *query)
{
    if (query->offsets)
        return query->offsets;
    struct mt_buf list = {0};
    for (int64_t i = 0; i < query->plan.n_spans; i++) {
        const struct span *span = &query->plan.spans[i];
        const char *name = query->sources[i]->name;
        mt_buf_adds(&list, i ? ",{\"source\":" : "[{\"source\":");
        mt_buf_add_json(&list, name, strlen(name));
        mt_buf_addf(&list, ",\"start\":%s,\"end\":%s}", span->start, span->end);
    }
    mt_buf_adds(&list, "]");
    return query->offsets = list.data;
}

const char *sink_identity(const struct mt_query *query)
{
    return query->sink ? query->sink->identity : FOREACH_BATCH;
}
