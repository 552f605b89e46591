/* SPDX-License-Identifier: Apache-2.0
 *
 * parts.h - a source, a sink and a job in a few lines of C, whose behaviour a test
 * sets, so that the engine is shown without Kafka, files or Lua. */
#ifndef PARTS_H
#define PARTS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/engine.h"
#include "sink/sink.h"
#include "source/source.h"

/* ---- LMDB calls this one in place of the C library's, once a commit: a test counts what is made
 * durable */
static int durable_writes;

int fdatasync(int fd)
{
    durable_writes++;
    return (int)syscall(SYS_fdatasync, fd);
}

/* ---- a replayable source of the numbers 0..total-1; positions are counts */
struct numbers {
    struct mt_source base;
    int64_t total, most_a_batch;                   /* 0: no limit */
    int64_t most_at_all;                           /* the same, also of MT_REACH_ALL */
    int64_t target;                                /* of an availableNow run, -1: not asked yet */
    int ends_retries, read_retries, start_retries; /* answers of RETRY still to give */
    int asked;                                     /* times that `available` was called */
    int64_t committed;                             /* last position said */
};

/* ---- a destination that outlives queries: what a sink's record of batches would be */
struct vault_batch {
    int64_t id, rows, sum;
    uint64_t fingerprint;
    char digest[65], bundle[65];
};
struct vault {
    struct vault_batch batches[64];
    int n;
    int begins, writes, commits, aborts;
    int commit_retries;         /* commits that answer RETRY, nothing stored */
    int lost_answers;           /* commits that answer RETRY and did store */
    int lies;                   /* rows the sink adds to what it says it stored */
    enum mt_status begin_fails; /* MT_OK: does not */
};
struct vault_sink {
    struct mt_sink base;
    struct vault *vault;
    struct vault_batch open;
    bool dirty;
};

/* ---- a job: keeps even numbers, of two sources too */
struct evens {
    int runs, resets;
    char *name;          /* of its step: gone with the next reset */
    int fails;           /* runs that fail, still to come */
    int miscounts;       /* runs whose account is wrong by one */
    bool ignores_second; /* the rows of a second source are not taken */
};

struct bench {
    char dir[64];
    struct vault vault;
    struct evens job;
    struct mt_query_settings settings;
    struct mt_query *query;
    struct numbers *source;
    const char *sink_name; /* identity of the sink; NULL: "vault" */
    int wake_fd;           /* of the source; 0: none */
    int64_t now_ms, progress_lines;
    char last_json[8192], last_line[1024];
    struct mt_error err;
};

static enum mt_status numbers_open(struct mt_source *base, struct mt_error *err)
{
    (void)base, (void)err;
    return MT_OK;
}

static enum mt_status give_start(struct mt_source *base, int64_t now_ms, char **start,
                                 struct mt_error *err)
{
    struct numbers *self = (struct numbers *)base;
    base->again_ms = now_ms + 50;
    if (self->start_retries-- > 0)
        return mt_fail(err, MT_RETRY, MT_CLASS_SOURCE, "numbers are away");
    *start = mt_strdup("0");
    return MT_OK;
}

static enum mt_status give_ends(struct mt_source *base, const char *start, enum mt_reach reach,
                                int64_t now_ms, struct mt_ends *ends, struct mt_error *err)
{
    struct numbers *self = (struct numbers *)base;
    base->again_ms = now_ms + 50;
    self->asked++;
    if (self->ends_retries-- > 0)
        return mt_fail(err, MT_RETRY, MT_CLASS_SOURCE, "numbers are away");
    int64_t from = atoll(start), end = self->total;
    if (reach == MT_REACH_TARGET || reach == MT_REACH_ALL) {
        self->target = self->target < 0 ? self->total : self->target;
        end = self->target;
    }
    if (reach != MT_REACH_ALL && self->most_a_batch && end - from > self->most_a_batch)
        end = from + self->most_a_batch;
    if (self->most_at_all && end - from > self->most_at_all) {
        end = from + self->most_at_all;
        ends->more = true;
    }
    ends->end = mt_format("%lld", (long long)end);
    ends->latest = mt_format("%lld", (long long)self->total);
    ends->nothing = end == from;
    ends->reached = end == self->target;
    return MT_OK;
}

static enum mt_status give_rows(struct mt_source *base, const char *start, const char *end,
                                const char *facts, int64_t now_ms, struct mt_batch *out,
                                struct mt_error *err)
{
    struct numbers *self = (struct numbers *)base;
    (void)facts;
    base->again_ms = now_ms + 50;
    if (self->read_retries-- > 0)
        return mt_fail(err, MT_RETRY, MT_CLASS_SOURCE, "numbers are away");
    struct mt_column column;
    mt_column_init(&column, base->schema.children[0]);
    for (int64_t i = atoll(start); i < atoll(end); i++)
        assert_int_equal(mt_column_add_int(&column, i, err), MT_OK);
    struct ArrowArray child;
    mt_column_finish(&column, &child);
    mt_column_deinit(&column);
    memset(out, 0, sizeof *out);
    out->schema = &base->schema;
    mt_array_struct(&child, 1, child.length, &out->array);
    return MT_OK;
}

static enum mt_status note_committed(struct mt_source *base, const char *end, struct mt_error *err)
{
    (void)err;
    ((struct numbers *)base)->committed = atoll(end);
    return MT_OK;
}

static void describe_numbers(struct mt_source *base, const char *end, const char *latest,
                             struct mt_buf *buf)
{
    (void)base;
    mt_buf_adds(buf, "{\"description\":\"Numbers\"");
    if (latest)
        mt_buf_addf(buf, ",\"behind\":%lld", atoll(latest) - atoll(end));
    mt_buf_adds(buf, ",\"metrics\":{}}");
}

static void close_nothing(struct mt_source *base)
{
    (void)base;
}

static const struct mt_option no_options[] = {{0}};

static struct mt_source_type numbers_type = {.name = "numbers",
                                             .help = "0, 1, 2, ...",
                                             .options = no_options,
                                             .size = sizeof(struct numbers),
                                             .replayable = true,
                                             .open = numbers_open,
                                             .resolve_start = give_start,
                                             .available = give_ends,
                                             .read = give_rows,
                                             .committed = note_committed,
                                             .describe = describe_numbers,
                                             .close = close_nothing};

static enum mt_status vault_open(struct mt_sink *base, struct mt_error *err)
{
    (void)base, (void)err;
    return MT_OK;
}

static int vaults_recovered, vault_recover_retries; /* calls; answers of RETRY still to give */

static enum mt_status vault_recover(struct mt_sink *base, const char *id, struct mt_error *err)
{
    (void)base, (void)id;
    vaults_recovered++;
    if (vault_recover_retries > 0 && vault_recover_retries--)
        return mt_fail(err, MT_RETRY, MT_CLASS_SINK, "the vault is away");
    return MT_OK;
}

static enum mt_status vault_begin(struct mt_sink *base, const struct mt_sink_batch *batch,
                                  enum mt_sink_answer *answer, struct mt_sink_record *record,
                                  struct mt_error *err)
{
    struct vault_sink *self = (struct vault_sink *)base;
    struct vault *vault = self->vault;
    vault->begins++;
    if (vault->begin_fails != MT_OK)
        return mt_fail(err, vault->begin_fails, MT_CLASS_SINK, "the vault is away");
    *answer = MT_SINK_NEW;
    for (int i = 0; i < vault->n; i++) {
        const struct vault_batch *b = &vault->batches[i];
        if (b->id != batch->batch_id)
            continue;
        *answer = strcmp(b->digest, batch->digest) == 0 ? MT_SINK_STORED : MT_SINK_CONFLICT;
        record->rows = b->rows;
        record->fingerprint = b->fingerprint;
        if (*answer == MT_SINK_CONFLICT)
            mt_fail(err, MT_FATAL, MT_CLASS_CHECKPOINT, "batch %lld is here under another digest",
                    (long long)b->id);
    }
    self->open = (struct vault_batch){.id = batch->batch_id, .fingerprint = batch->fingerprint};
    memcpy(self->open.digest, batch->digest, 65);
    memcpy(self->open.bundle, batch->bundle, 65);
    return MT_OK;
}

static enum mt_status vault_write(struct mt_sink *base, const struct mt_batch *batch,
                                  struct mt_error *err)
{
    struct vault_sink *self = (struct vault_sink *)base;
    (void)err;
    self->vault->writes++;
    const int64_t *values = batch->array.children[0]->buffers[1];
    for (int64_t i = 0; i < batch->array.length; i++)
        self->open.sum += values[i];
    self->open.rows += batch->array.length;
    return MT_OK;
}

static enum mt_status vault_commit(struct mt_sink *base, struct mt_sink_record *record,
                                   struct mt_error *err)
{
    struct vault_sink *self = (struct vault_sink *)base;
    struct vault *vault = self->vault;
    vault->commits++;
    if (vault->commit_retries > 0 && vault->commit_retries--)
        return mt_fail(err, MT_RETRY, MT_CLASS_SINK, "the vault is away");
    vault->batches[vault->n++] = self->open;
    record->rows = self->open.rows + vault->lies;
    record->fingerprint = self->open.fingerprint;
    if (vault->lost_answers > 0 && vault->lost_answers--)
        return mt_fail(err, MT_RETRY, MT_CLASS_SINK, "no answer from the vault");
    return MT_OK;
}

static void vault_abort(struct mt_sink *base)
{
    struct vault_sink *self = (struct vault_sink *)base;
    self->vault->aborts++;
    self->open = (struct vault_batch){0};
}

static void vault_describe(struct mt_sink *base, const char *query_id, struct mt_buf *buf)
{
    (void)base, (void)query_id;
    mt_buf_adds(buf, "{\"description\":\"Vault\",\"guarantee\":\"exactly once\",\"marker\":null}");
}

static void vault_close(struct mt_sink *base)
{
    (void)base;
}

static struct mt_sink_type vault_type = {.name = "vault",
                                         .help = "",
                                         .options = no_options,
                                         .size = sizeof(struct vault_sink),
                                         .exactly_once = true,
                                         .open = vault_open,
                                         .recover = vault_recover,
                                         .begin = vault_begin,
                                         .write = vault_write,
                                         .commit = vault_commit,
                                         .abort = vault_abort,
                                         .describe = vault_describe,
                                         .close = vault_close};

/* The rows of two sources as those of one. */
static enum mt_status put_together(struct mt_run *run, struct mt_batch *both, struct mt_error *err)
{
    const struct mt_batch *one = &run->inputs[0], *other = &run->inputs[1];
    int64_t rows = one->array.length + other->array.length;
    run->steps[run->n_steps++] =
        (struct mt_step_count){.name = "union", .in = rows, .out = rows, .from = {-1, -2}};
    return mt_batch_union(one, other, one->schema, both, err);
}

static inline enum mt_status keep_evens(void *ctx, struct mt_run *run, struct mt_error *err)
{
    struct evens *self = ctx;
    struct mt_batch both = {0}, *in = &run->inputs[0];
    self->runs++;
    if (self->fails > 0 && self->fails--)
        return mt_fail(err, MT_REJECT, MT_CLASS_SCRIPT, "job.lua:3: amount is null here");
    run->n_steps = 0;
    if (run->n_inputs > 1 && !self->ignores_second) {
        assert_int_equal(put_together(run, &both, err), MT_OK);
        in = &both;
    }
    int32_t *picks = mt_alloc((size_t)(in->array.length + 1) * sizeof *picks);
    int64_t n = 0;
    const int64_t *values = in->array.children[0]->buffers[1];
    for (int64_t i = 0; i < in->array.length; i++)
        if (values[i] % 2 == 0)
            picks[n++] = (int32_t)i;
    enum mt_status status = mt_batch_gather(in, picks, n, &run->output, err);
    free(picks);
    if (!self->name)
        self->name = mt_strdup("filter");
    struct mt_step_count *filter = &run->steps[run->n_steps];
    *filter = (struct mt_step_count){.name = self->name,
                                     .in = in->array.length,
                                     .out = n,
                                     .filtered = in->array.length - n,
                                     .from = {run->n_steps > 0 ? (int32_t)run->n_steps : -1}};
    if (self->miscounts > 0 && self->miscounts--)
        filter->filtered++;
    run->n_steps++;
    mt_batch_release(&both);
    return status;
}

static inline enum mt_status count_reset(void *ctx, struct mt_error *err)
{
    struct evens *self = ctx;
    (void)err;
    self->resets++;
    free(self->name);
    self->name = NULL;
    return MT_OK;
}

static void note_progress(void *ctx, const char *json)
{
    struct bench *bench = ctx;
    bench->progress_lines++;
    snprintf(bench->last_json, sizeof bench->last_json, "%s", json);
}

static void note_line(void *ctx, const char *line)
{
    struct bench *bench = ctx;
    snprintf(bench->last_line, sizeof bench->last_line, "%s", line);
}

/* ---- the bench: a query over these parts */

static void bench_init(struct bench *bench, int64_t total)
{
    memset(bench, 0, sizeof *bench);
    snprintf(bench->dir, sizeof bench->dir, "/tmp/mt-engine-XXXXXX");
    assert_non_null(mkdtemp(bench->dir));
    bench->now_ms = 1000000;
    bench->settings = (struct mt_query_settings){
        .name = "evens",
        .trigger = {MT_TRIGGER_AVAILABLE_NOW, 0},
        .bundle_hash = "1111111111111111111111111111111111111111111111111111111111111111",
        .bundle = "{\"files\":[]}",
        .time_zone = "UTC",
        .max_steps = 4,
        .accept_replay = -1,
        .on_progress = note_progress,
        .on_line = note_line,
        .ctx = bench};
    bench->source = mt_alloc(sizeof *bench->source);
    bench->source->total = total;
}

/* A source with the settings of `like`. */
static struct numbers *new_numbers(const struct numbers *like)
{
    struct mt_error err;
    struct numbers *source = mt_alloc(sizeof *source);
    *source = *like;
    source->base =
        (struct mt_source){.type = &numbers_type, .name = mt_strdup("numbers"), .wake_fd = -1};
    source->base.wanted = mt_alloc(sizeof *source->base.wanted);
    source->asked = 0;
    source->target = -1;
    assert_int_equal(mt_schema_parse("n BIGINT", &source->base.schema, &err), MT_OK);
    assert_int_equal(mt_schema_parse("n BIGINT", &source->base.full_schema, &err), MT_OK);
    return source;
}

/* Opens a query whose source has the settings in bench->source (copied), and second's as
 * another one unless that is NULL. */
static inline enum mt_status bench_open_two(struct bench *bench, struct numbers *second)
{
    static char checkpoint[96];
    snprintf(checkpoint, sizeof checkpoint, "%s/ckpt", bench->dir);
    struct numbers *source = new_numbers(bench->source);
    if (bench->wake_fd)
        source->base.wake_fd = bench->wake_fd;
    struct vault_sink *sink = mt_alloc(sizeof *sink);
    sink->base =
        (struct mt_sink){.type = &vault_type,
                         .identity = mt_strdup(bench->sink_name ? bench->sink_name : "vault"),
                         .marker_identity = mt_strdup("vault#1")};
    sink->vault = &bench->vault;
    struct mt_source **sources = mt_alloc(2 * sizeof *sources);
    sources[0] = &source->base;
    if (second)
        sources[1] = &second->base;
    bench->settings.n_sources = second ? 2 : 1;
    free(bench->source);
    bench->source = source;
    bench->settings.checkpoint = checkpoint;
    bench->settings.sources = sources;
    bench->settings.sink = &sink->base;
    bench->settings.job = (struct mt_job){&bench->job, keep_evens, count_reset, NULL};
    enum mt_status status = mt_query_open(&bench->settings, &bench->query, &bench->err);
    if (status != MT_OK)
        bench->query = NULL;
    return status;
}

static inline enum mt_status bench_open(struct bench *bench)
{
    return bench_open_two(bench, NULL);
}

/* Steps until the query ends or fails; time jumps to where it wants to be woken. */
static enum mt_status bench_run(struct bench *bench)
{
    enum mt_turn turn = MT_TURN_AGAIN;
    for (int i = 0; i < 10000; i++) {
        int64_t at_ms = 0;
        enum mt_status status =
            mt_query_step(bench->query, bench->now_ms, &turn, &at_ms, &bench->err);
        if (status != MT_OK || turn == MT_TURN_ENDED)
            return status;
        if (turn == MT_TURN_WAIT) {
            assert_true(at_ms > bench->now_ms);
            bench->now_ms = at_ms;
        }
    }
    fail_msg("the query neither ended nor failed: %s", mt_query_status(bench->query));
    return MT_FATAL;
}

/* Closes the query; its source's settings stay for the next open. */
static void bench_close(struct bench *bench)
{
    struct numbers *kept = mt_alloc(sizeof *kept);
    *kept = *bench->source;
    mt_query_close(bench->query);
    bench->query = NULL;
    bench->source = kept;
}

static void bench_deinit(struct bench *bench)
{
    char command[128];
    if (bench->query)
        mt_query_close(bench->query);
    else
        free(bench->source);
    free(bench->job.name);
    snprintf(command, sizeof command, "rm -rf %s", bench->dir);
    assert_int_equal(system(command), 0);
}

static inline int64_t vault_sum(const struct vault *vault)
{
    int64_t sum = 0;
    for (int i = 0; i < vault->n; i++)
        sum += vault->batches[i].sum;
    return sum;
}

static int64_t vault_rows(const struct vault *vault)
{
    int64_t rows = 0;
    for (int i = 0; i < vault->n; i++)
        rows += vault->batches[i].rows;
    return rows;
}
#endif
