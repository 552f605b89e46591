/* SPDX-License-Identifier: Apache-2.0
 *
 * engine_progress.c - Spark's StreamingQueryProgress as one line of JSON, field for
 * field, and the same batch as a short line for people. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine_int.h"

/* One decimal, half up, as Spark rounds its rates. */
static void add_rate(struct mt_buf *buf, const char *key, double rate)
{
    mt_buf_addf(buf, ",\"%s\":%.1f", key, floor(rate * 10 + 0.5) / 10);
}

/* position: JSON, or NULL. */
static void add_position(struct mt_buf *buf, const char *key, const char *position)
{
    mt_buf_addf(buf, ",\"%s\":", key);
    mt_buf_adds(buf, position ? position : "null");
}

static int64_t ms(int64_t us)
{
    return (us + 500) / 1000;
}

struct figures {
    int64_t rows, duration_ms;
    double input_rate, processed_rate; /* rows a second */
};

static struct figures figures_of(const struct mt_query *query)
{
    struct figures f = {.duration_ms = ms(mt_clock_mono_us() - query->timing.began)};
    for (int64_t i = 0; i < query->n_sources; i++)
        f.rows += query->run.inputs[i].array.length;
    int64_t since = query->trigger_ms - query->pace.last_trigger_ms;
    if (query->pace.last_trigger_ms > 0 && since > 0)
        f.input_rate = (double)f.rows * 1000 / (double)since;
    f.processed_rate = (double)f.rows * 1000 / (double)(f.duration_ms > 0 ? f.duration_ms : 1);
    return f;
}

/* As Spark: a batch that runs again has no latestOffset and no walCommit. */
static void add_durations(struct mt_buf *buf, const struct mt_query *query, const struct figures *f)
{
    const struct timing *t = &query->timing;
    mt_buf_addf(buf, ",\"durationMs\":{\"addBatch\":%lld,\"commitOffsets\":%lld,\"getBatch\":%lld",
                (long long)ms(t->add), (long long)ms(t->commit), (long long)ms(t->get));
    if (t->planned)
        mt_buf_addf(buf, ",\"latestOffset\":%lld", (long long)ms(t->latest_offset));
    mt_buf_addf(buf, ",\"queryPlanning\":%lld,\"triggerExecution\":%lld",
                (long long)ms(t->planning), (long long)f->duration_ms);
    if (t->planned)
        mt_buf_addf(buf, ",\"walCommit\":%lld", (long long)ms(t->wal));
    mt_buf_adds(buf, "}");
}

/* Members of the object that `describe` gave, without its braces. */
static json_t *described(struct mt_buf *text)
{
    json_t *json = text->data ? json_loads(text->data, 0, NULL) : NULL;
    mt_buf_free(text);
    return json ? json : json_object();
}

static json_t *describe_source(const struct mt_query *query, int64_t i)
{
    struct mt_buf text = {0};
    struct mt_source *source = query->sources[i];
    source->type->describe(source, query->plan.spans[i].end, query->plan.spans[i].latest, &text);
    return described(&text);
}

static void add_member(struct mt_buf *buf, const char *key, json_t *value)
{
    char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    mt_buf_addf(buf, "\"%s\":%s", key, text ? text : "null");
    free(text);
}

static void add_source(struct mt_buf *buf, const struct mt_query *query, int64_t i,
                       const struct figures *f)
{
    json_t *about = describe_source(query, i);
    const struct span *span = &query->plan.spans[i];
    int64_t rows = query->run.inputs[i].array.length;
    double part = f->rows > 0 ? (double)rows / (double)f->rows : 0;
    mt_buf_adds(buf, i ? ",{" : "{");
    add_member(buf, "description", json_object_get(about, "description"));
    add_position(buf, "startOffset", query->plan.id > 0 ? span->start : NULL); /* as Spark */
    add_position(buf, "endOffset", span->end);
    add_position(buf, "latestOffset", span->latest);
    mt_buf_addf(buf, ",\"numInputRows\":%lld", (long long)rows);
    add_rate(buf, "inputRowsPerSecond", f->input_rate * part);
    add_rate(buf, "processedRowsPerSecond", f->processed_rate * part);
    json_t *metrics = json_object_get(about, "metrics");
    if (json_object_size(metrics) > 0) {
        mt_buf_adds(buf, ",");
        add_member(buf, "metrics", metrics);
    }
    mt_buf_adds(buf, "}");
    json_decref(about);
}

/* Spark's file sink does not count its rows (-1); the others do. */
static void add_sink(struct mt_buf *buf, const struct mt_query *query)
{
    struct mt_buf text = {0};
    if (!query->sink) {
        mt_buf_adds(buf, ",\"sink\":{\"description\":\"ForeachBatchSink\",\"numOutputRows\":-1}");
        return;
    }
    query->sink->type->describe(query->sink, NULL, &text);
    json_t *about = described(&text);
    mt_buf_adds(buf, ",\"sink\":{");
    add_member(buf, "description", json_object_get(about, "description"));
    mt_buf_addf(buf, ",\"numOutputRows\":%lld}",
                query->sink->type->needs_path ? -1LL : (long long)calls_stored_rows(&query->calls));
    json_decref(about);
}

static void add_time(struct mt_buf *buf, int64_t at_ms)
{
    char text[48];
    int32_t len = mt_timestamp_print_iso(at_ms * 1000, text);
    mt_buf_addf(buf, "\"timestamp\":\"%.*s\"", (int)len, text);
}

static char *progress_json(const struct mt_query *query, const struct figures *f)
{
    struct mt_buf buf = {0};
    mt_buf_addf(&buf, "{\"id\":\"%s\",\"runId\":\"%s\",\"name\":", mt_store_query_id(query->store),
                query->run_id);
    if (query->name)
        mt_buf_add_json(&buf, query->name, strlen(query->name));
    else
        mt_buf_adds(&buf, "null");
    mt_buf_adds(&buf, ",");
    add_time(&buf, query->trigger_ms);
    mt_buf_addf(&buf, ",\"batchId\":%lld,\"batchDuration\":%lld,\"numInputRows\":%lld",
                (long long)query->plan.id, (long long)f->duration_ms, (long long)f->rows);
    add_rate(&buf, "inputRowsPerSecond", f->input_rate);
    add_rate(&buf, "processedRowsPerSecond", f->processed_rate);
    add_durations(&buf, query, f);
    mt_buf_adds(&buf, ",\"stateOperators\":[],\"sources\":[");
    for (int64_t i = 0; i < query->n_sources; i++)
        add_source(&buf, query, i, f);
    mt_buf_adds(&buf, "]");
    add_sink(&buf, query);
    mt_buf_adds(&buf, "}");
    return buf.data;
}

/* 1234567 -> "1,234,567" */
static const char *grouped(int64_t n, char out[32])
{
    char digits[24];
    int len = snprintf(digits, sizeof digits, "%lld", (long long)n), w = 0;
    for (int i = 0; i < len; i++) {
        if (i > 0 && (len - i) % 3 == 0 && digits[i - 1] != '-')
            out[w++] = ',';
        out[w++] = digits[i];
    }
    out[w] = '\0';
    return out;
}

static const char *short_rate(double rate, char out[32])
{
    if (rate >= 1e6)
        snprintf(out, 32, "%.2fM", rate / 1e6);
    else if (rate >= 1e4)
        snprintf(out, 32, "%.0fk", rate / 1e3);
    else
        snprintf(out, 32, "%.0f", rate);
    return out;
}

/* Rows behind the origin, summed over sources; -1 when it was not asked. */
static int64_t lag_of(const struct mt_query *query)
{
    int64_t lag = -1;
    for (int64_t i = 0; i < query->n_sources; i++) {
        json_t *about = describe_source(query, i);
        json_t *behind = json_object_get(about, "behind");
        if (behind)
            lag = (lag < 0 ? 0 : lag) + json_integer_value(behind);
        json_decref(about);
    }
    return lag;
}

/* Malformed records of the batch, dropped or kept with nulls. */
static int64_t malformed_of(const struct mt_run *run)
{
    int64_t n = 0;
    for (int64_t i = 0; i < run->n_steps; i++)
        n += run->steps[i].malformed + run->steps[i].nulled;
    return n;
}

static char *progress_line(const struct mt_query *query, const struct figures *f)
{
    char a[32], b[32], c[32], d[32];
    struct mt_buf buf = {0};
    const struct timing *t = &query->timing;
    bool unread = !query->run.inputs[0].array.release; /* the sink held it when we started */
    mt_buf_addf(&buf, "batch %-5lld %9s rows in %9s out %7s rows/s", (long long)query->plan.id,
                unread ? "-" : grouped(f->rows, a), grouped(calls_stored_rows(&query->calls), b),
                short_rate(f->processed_rate, c));
    int64_t malformed = malformed_of(&query->run), lag = lag_of(query);
    if (malformed > 0)
        mt_buf_addf(&buf, "  %s malformed", grouped(malformed, d));
    if (lag >= 0)
        mt_buf_addf(&buf, "  lag %s", grouped(lag, d));
    mt_buf_addf(&buf, "  %lld ms (fetch %lld, plan %lld, run+write %lld, commit %lld)%s",
                (long long)f->duration_ms, (long long)ms(t->latest_offset + t->get),
                (long long)ms(t->planning + t->wal), (long long)ms(t->add),
                (long long)ms(t->commit),
                calls_all_replayed(&query->calls) ? "  already stored" : "");
    if (strcmp(query->plan.bundle, query->told_bundle) != 0)
        mt_buf_addf(&buf, "  script %.12s", query->plan.bundle);
    return buf.data;
}

void progress_send(struct mt_query *query)
{
    struct figures f = figures_of(query);
    query->pace.last_trigger_ms = query->trigger_ms;
    if (query->on_progress) {
        char *json = progress_json(query, &f);
        query->on_progress(query->ctx, json);
        free(json);
    }
    if (query->on_line) {
        char *line = progress_line(query, &f);
        query->on_line(query->ctx, line);
        free(line);
    }
    memcpy(query->told_bundle, query->plan.bundle, sizeof query->told_bundle);
}
