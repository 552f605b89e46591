/* SPDX-License-Identifier: Apache-2.0
 *
 * saves.h - a foreachBatch in a few lines of C: sinks that outlive queries and processes, and a
 * script that is a C function. The linker hands mt_sink_new to us (--wrap), so that format "vault"
 * is a sink of ours. */
#ifndef SAVES_H
#define SAVES_H

#include "parts.h"
#include "store/store.h"

#include <sys/mman.h>

enum { VAULTS = 8 };

struct room {
    char identity[64];
    struct vault vault;
};
static struct room *rooms; /* shared with children */
static int sinks_made;
static enum mt_status making_fails; /* so many times: */
static enum mt_class making_class;
static int making_failures;
static char given_password[32]; /* to the sink that was made last */

static struct vault *vault_of(const char *identity)
{
    for (int i = 0; i < VAULTS; i++) {
        if (!rooms[i].identity[0])
            snprintf(rooms[i].identity, sizeof rooms[i].identity, "%s", identity);
        if (strcmp(rooms[i].identity, identity) == 0)
            return &rooms[i].vault;
    }
    fail_msg("more than %d vaults", VAULTS);
    return NULL;
}

static enum mt_status begin_anew(struct mt_sink *base, const struct mt_sink_batch *batch,
                                 enum mt_sink_answer *answer, struct mt_sink_record *record,
                                 struct mt_error *err)
{
    enum mt_status status = vault_begin(base, batch, answer, record, err);
    *answer = MT_SINK_NEW;
    return status;
}

static struct mt_sink_type forgetful_type;

enum mt_status __real_mt_sink_new(const struct mt_sink_settings *settings,
                                  const struct ArrowSchema *schema, struct mt_sink **out,
                                  struct mt_error *err);
enum mt_status __wrap_mt_sink_new(const struct mt_sink_settings *settings,
                                  const struct ArrowSchema *schema, struct mt_sink **out,
                                  struct mt_error *err);

enum mt_status __wrap_mt_sink_new(const struct mt_sink_settings *settings,
                                  const struct ArrowSchema *schema, struct mt_sink **out,
                                  struct mt_error *err)
{
    bool forgets = strcmp(settings->format, "forgetful") == 0;
    if (!forgets && strcmp(settings->format, "vault") != 0)
        return __real_mt_sink_new(settings, schema, out, err);
    if (making_failures > 0 && making_failures--)
        return mt_fail(err, making_fails, making_class, "the vault's door is shut");
    sinks_made++;
    const char *password = mt_pairs_get(&settings->options, "password");
    snprintf(given_password, sizeof given_password, "%s", password ? password : "");
    forgetful_type = vault_type;
    forgetful_type.name = "forgetful";
    forgetful_type.exactly_once = false;
    forgetful_type.begin = begin_anew;
    struct vault_sink *sink = mt_alloc(sizeof *sink);
    sink->base.type = forgets ? &forgetful_type : &vault_type;
    sink->base.schema = schema;
    if (settings->name)
        sink->base.identity = mt_strdup(settings->name);
    else if (settings->ordinal > 1)
        sink->base.identity = mt_format("%s %s #%lld", settings->format, settings->path,
                                        (long long)settings->ordinal);
    else
        sink->base.identity = mt_format("%s %s", settings->format, settings->path);
    sink->base.marker_identity = mt_strdup(sink->base.identity);
    sink->vault = vault_of(sink->base.identity);
    *out = &sink->base;
    return MT_OK;
}

/* ---- a script */

typedef enum mt_status (*script_fn)(struct mt_run *run, struct mt_error *err);

struct script {
    script_fn today, planned; /* planned: that of another bundle, which replay asks for */
    bool replaying;
    int runs, resets, replays;
    char bundle[64]; /* that replay was given */
};

static enum mt_status script_run(void *ctx, struct mt_run *run, struct mt_error *err)
{
    struct script *script = ctx;
    script->runs++;
    return (script->replaying ? script->planned : script->today)(run, err);
}

static enum mt_status script_reset(void *ctx, struct mt_error *err)
{
    struct script *script = ctx;
    (void)err;
    script->resets++;
    script->replaying = false;
    return MT_OK;
}

static enum mt_status script_replay(void *ctx, const char *bundle, size_t len, struct mt_error *err)
{
    struct script *script = ctx;
    (void)err;
    script->replays++;
    script->replaying = true;
    snprintf(script->bundle, sizeof script->bundle, "%.*s", (int)len, bundle);
    return MT_OK;
}

/* A save of the numbers [first, first + n) of the batch. */
static enum mt_status save_of(struct mt_run *run, const char *format, const char *path,
                              const char *name, int32_t first, int32_t n, struct mt_error *err)
{
    struct mt_sink_settings settings = {.format = format, .path = path, .name = name};
    struct mt_sink_record stored;
    struct mt_batch rows = {0};
    int32_t *picks = mt_alloc((size_t)(n + 1) * sizeof *picks);
    for (int32_t i = 0; i < n; i++)
        picks[i] = first + i;
    enum mt_status status = mt_batch_gather(&run->inputs[0], picks, n, &rows, err);
    free(picks);
    if (status == MT_OK)
        status = mt_run_save(run, &settings, &rows, &stored, err);
    mt_batch_release(&rows);
    return status;
}

static enum mt_status save(struct mt_run *run, const char *path, int32_t first, int32_t n,
                           struct mt_error *err)
{
    return save_of(run, "vault", path, NULL, first, n, err);
}

/* Adds the rows of the batch to the number under "rows". */
static enum mt_status count_rows(struct mt_run *run, struct mt_error *err)
{
    const void *value;
    size_t len;
    int64_t rows = 0;
    enum mt_status status = mt_state_get(run->state, "rows", 4, &value, &len, err);
    if (status != MT_OK)
        return status;
    if (value)
        memcpy(&rows, value, sizeof rows);
    rows += run->inputs[0].array.length;
    return mt_state_put(run->state, "rows", 4, &rows, sizeof rows, err);
}

static inline enum mt_status raise_error(struct mt_error *err)
{
    return mt_fail(err, MT_REJECT, MT_CLASS_SCRIPT, "job.lua:7: amount is null here");
}

/* ---- the bench of parts.h over a script */

static void saves_init(struct bench *bench, struct script *script, script_fn fn, int64_t total)
{
    bench_init(bench, total);
    rooms = mmap(NULL, VAULTS * sizeof *rooms, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                 -1, 0);
    assert_true(rooms != MAP_FAILED);
    *script = (struct script){.today = fn};
    sinks_made = making_failures = 0;
    bench->source->most_a_batch = 10;
}

static enum mt_status saves_open(struct bench *bench, struct script *script)
{
    static char checkpoint[96];
    snprintf(checkpoint, sizeof checkpoint, "%s/ckpt", bench->dir);
    struct numbers *source = new_numbers(bench->source);
    struct mt_source **sources = mt_alloc(sizeof *sources);
    sources[0] = &source->base;
    free(bench->source);
    bench->source = source;
    bench->settings.n_sources = 1;
    bench->settings.checkpoint = checkpoint;
    bench->settings.sources = sources;
    bench->settings.sink = NULL;
    script->replaying = false;
    bench->settings.job = (struct mt_job){script, script_run, script_reset, script_replay};
    enum mt_status status = mt_query_open(&bench->settings, &bench->query, &bench->err);
    if (status != MT_OK)
        bench->query = NULL;
    return status;
}

static enum mt_status saves_run(struct bench *bench, struct script *script)
{
    enum mt_status status = saves_open(bench, script);
    if (status == MT_OK)
        status = bench_run(bench);
    return status;
}

static void saves_run_ok(struct bench *bench, struct script *script)
{
    if (saves_run(bench, script) != MT_OK)
        fail_msg("%s", bench->err.text);
    bench_close(bench);
}

static inline void saves_run_fails(struct bench *bench, struct script *script, const char *words)
{
    assert_int_equal(saves_run(bench, script), MT_FATAL);
    if (!strstr(bench->err.text, words))
        fail_msg("\"%s\" is not in: %s", words, bench->err.text);
    bench_close(bench);
}

static void saves_deinit(struct bench *bench)
{
    munmap(rooms, VAULTS * sizeof *rooms);
    bench_deinit(bench);
}

static void expect_stored(const char *identity, int batches, int64_t rows)
{
    const struct vault *vault = vault_of(identity);
    assert_int_equal(vault->n, batches);
    assert_int_equal(vault_rows(vault), rows);
    for (int i = 1; i < vault->n; i++)
        assert_true(vault->batches[i].id > vault->batches[i - 1].id);
}

static int64_t state_rows(const struct bench *bench)
{
    char checkpoint[96];
    struct mt_store *store;
    struct mt_error err;
    const void *value;
    size_t len;
    int64_t rows = 0;
    snprintf(checkpoint, sizeof checkpoint, "%s/ckpt", bench->dir);
    assert_int_equal(mt_store_open_read(checkpoint, &store, &err), MT_OK);
    assert_int_equal(mt_state_get(mt_store_state(store), "rows", 4, &value, &len, &err), MT_OK);
    if (value)
        memcpy(&rows, value, sizeof rows);
    mt_store_close(store);
    return rows;
}

/* A part of what the checkpoint says of itself. */
static inline void expect_shown(const struct bench *bench, const char *part)
{
    char *json, checkpoint[96];
    struct mt_error err;
    snprintf(checkpoint, sizeof checkpoint, "%s/ckpt", bench->dir);
    assert_int_equal(mt_checkpoint_show(checkpoint, NULL, &json, &err), MT_OK);
    if (!strstr(json, part))
        fail_msg("no %s in %s", part, json);
    free(json);
}
#endif
