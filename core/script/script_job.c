/* SPDX-License-Identifier: Apache-2.0
 *
 * script_job.c - a job file as the engine's struct mt_job.
 *
 * The file is loaded by Lua (moontide.job), which hands back a plan: addresses of the source
 * and the sink that the declaration made, and one function that runs all steps over a struct
 * mt_run. That function is the only thing called afterwards, once a batch.
 *
 * A retry begins with a fresh state, so that what a failed attempt left in Lua variables does
 * not reach the next one. The first state lives to the end all the same: schemas that sink and
 * batches borrow are kept alive by it. A later state is made by the same declaration, so it has
 * a source and a sink of its own, which are never opened and go when it goes. */
#include <stdlib.h>
#include <string.h>

#include "script/script_int.h"
#include "sink/sink.h"
#include "source/source.h"

struct state {
    lua_State *L;
    struct mt_source *source; /* NULL once moved */
    struct mt_sink *sink;     /* likewise */
    int run;                  /* the plan's function, in the registry; with it the whole plan */
};

struct mt_script_job {
    const char *file;
    const struct mt_pairs *set;
    struct mt_watch *watch;
    struct state first, fresh; /* fresh.L: NULL until the first reset */
    int64_t rows;
    /* of the plan */
    char *name, *checkpoint, *start_options, *time_zone;
    struct mt_trigger trigger;
    int64_t max_steps;
    char *bundle, bundle_hash[65];
};

/* ---- reading the plan; inside a protected call */

struct loading {
    struct mt_script_job *job;
    struct state *state;
    char *bundle;
};

static void *address(lua_State *L, int plan, const char *key)
{
    lua_getfield(L, plan, key);
    if (!lua_isnumber(L, -1))
        luaL_error(L, "the plan has no %s", key);
    void *p = (void *)(uintptr_t)lua_tonumber(L, -1);
    lua_pop(L, 1);
    return p;
}

static int64_t integer(lua_State *L, int table, const char *key)
{
    lua_getfield(L, table, key);
    int64_t value = (int64_t)luaL_optnumber(L, -1, 0);
    lua_pop(L, 1);
    return value;
}

/* NULL when there is none */
static char *text(lua_State *L, int table, const char *key)
{
    lua_getfield(L, table, key);
    const char *s = luaL_optstring(L, -1, NULL);
    char *copy = s ? mt_strdup(s) : NULL;
    lua_pop(L, 1);
    return copy;
}

static void read_trigger(lua_State *L, int plan, struct mt_trigger *trigger)
{
    static const char *const kinds[] = {"default", "processingTime", "availableNow", "once", NULL};
    static const enum mt_trigger_kind values[] = {MT_TRIGGER_DEFAULT, MT_TRIGGER_PROCESSING,
                                                  MT_TRIGGER_AVAILABLE_NOW, MT_TRIGGER_ONCE};
    lua_getfield(L, plan, "trigger");
    int table = lua_gettop(L);
    lua_getfield(L, table, "kind");
    trigger->kind = values[luaL_checkoption(L, -1, "default", kinds)];
    trigger->interval_ms = integer(L, table, "interval_ms");
    lua_settop(L, table - 1);
}

static void read_plan(lua_State *L, int plan, struct loading *loading)
{
    struct mt_script_job *job = loading->job;
    struct state *state = loading->state;
    state->source = address(L, plan, "source");
    state->sink = address(L, plan, "sink");
    lua_getfield(L, plan, "run");
    luaL_checktype(L, -1, LUA_TFUNCTION);
    state->run = luaL_ref(L, LUA_REGISTRYINDEX);
    lua_pushvalue(L, plan);
    luaL_ref(L, LUA_REGISTRYINDEX); /* keep: to the end of the state */
    if (state != &job->first)
        return;
    read_trigger(L, plan, &job->trigger);
    job->max_steps = integer(L, plan, "max_steps");
    job->name = text(L, plan, "name");
    job->checkpoint = text(L, plan, "checkpoint");
    job->start_options = text(L, plan, "start_options");
    job->time_zone = text(L, plan, "time_zone");
}

static void push_conf(lua_State *L, const struct mt_pairs *set)
{
    lua_newtable(L);
    lua_newtable(L);
    for (size_t i = 0; i < set->n; i++) {
        lua_pushstring(L, set->items[i].value);
        lua_setfield(L, -2, set->items[i].key);
    }
    lua_setfield(L, -2, "set");
}

/* moontide.job.load(file, conf) -> plans, bundle */
static int load(lua_State *L)
{
    struct loading *loading = lua_touserdata(L, 1);
    lua_getglobal(L, "require");
    lua_pushliteral(L, "moontide.job");
    lua_call(L, 1, 1);
    lua_getfield(L, -1, "load");
    lua_pushstring(L, loading->job->file);
    push_conf(L, loading->job->set);
    lua_call(L, 2, 2);
    int bundle = lua_gettop(L), plans = bundle - 1;
    loading->bundle = mt_strdup(luaL_checkstring(L, bundle));
    lua_rawgeti(L, plans, 1);
    read_plan(L, lua_gettop(L), loading);
    return 0;
}

/* ---- states */

static void close_state(struct state *state)
{
    if (!state->L)
        return;
    mt_sink_free(state->sink); /* before its schema, which the Lua state keeps */
    mt_source_free(state->source);
    lua_close(state->L);
    *state = (struct state){0};
}

/* Fills state and takes the bundle that it was loaded from; closed again on failure. */
static enum mt_status open_state(struct mt_script_job *job, struct state *state, char **bundle,
                                 struct mt_error *err)
{
    struct loading loading = {.job = job, .state = state};
    state->L = mt_lua_new();
    lua_pushcfunction(state->L, load);
    lua_pushlightuserdata(state->L, &loading);
    mt_watch_enter(job->watch, NULL, NULL, mt_clock_mono_us() / 1000);
    enum mt_status status = mt_lua_call(state->L, 1, 0, MT_CLASS_JOB, err);
    mt_watch_leave(job->watch);
    if (status != MT_OK) {
        free(loading.bundle);
        close_state(state);
        return MT_FATAL;
    }
    *bundle = loading.bundle;
    return MT_OK;
}

/* ---- struct mt_job */

static enum mt_status job_run(void *self, struct mt_run *run, struct mt_error *err)
{
    struct mt_script_job *job = self;
    struct state *state = job->fresh.L ? &job->fresh : &job->first;
    for (int64_t i = 0; i < run->n_inputs; i++)
        job->rows += run->inputs[i].array.length;
    lua_rawgeti(state->L, LUA_REGISTRYINDEX, state->run);
    lua_pushnumber(state->L, (lua_Number)(uintptr_t)run);
    mt_watch_enter(job->watch, job->name, run, mt_clock_mono_us() / 1000);
    enum mt_status status = mt_lua_call(state->L, 1, 0, MT_CLASS_SCRIPT, err);
    mt_watch_leave(job->watch);
    return status;
}

/* The batch was planned with one text of the script, so it is not run with another: that is
 * for the next start, which writes down which script it uses. */
static enum mt_status job_reset(void *self, struct mt_error *err)
{
    struct mt_script_job *job = self;
    char *bundle, hash[65];
    close_state(&job->fresh);
    if (open_state(job, &job->fresh, &bundle, err) != MT_OK)
        return mt_fail_within(err, MT_FATAL, "loading %s again to retry its batch: ", job->file);
    mt_sha256_hex(bundle, strlen(bundle), hash);
    free(bundle);
    if (strcmp(hash, job->bundle_hash) == 0)
        return MT_OK;
    return mt_fail(err, MT_FATAL, MT_CLASS_JOB,
                   "%s, or a file that it loads, was changed while its batch waited to be retried; "
                   "start the query again to run the batch with the new text",
                   job->file);
}

/* ---- for script_run.c */

enum mt_status mt_script_job_open(const char *file, const struct mt_pairs *set,
                                  struct mt_watch *watch, struct mt_script_job **out,
                                  struct mt_error *err)
{
    struct mt_script_job *job = mt_alloc(sizeof *job);
    *job = (struct mt_script_job){.file = file, .set = set, .watch = watch};
    enum mt_status status = open_state(job, &job->first, &job->bundle, err);
    if (status != MT_OK) {
        mt_script_job_close(job);
        return status;
    }
    mt_sha256_hex(job->bundle, strlen(job->bundle), job->bundle_hash);
    *out = job;
    return MT_OK;
}

void mt_script_job_close(struct mt_script_job *job)
{
    if (!job)
        return;
    close_state(&job->fresh);
    close_state(&job->first);
    free(job->name);
    free(job->checkpoint);
    free(job->start_options);
    free(job->time_zone);
    free(job->bundle);
    free(job);
}

void mt_script_job_settings(struct mt_script_job *job, struct mt_query_settings *settings)
{
    struct mt_source **sources = mt_alloc(sizeof *sources);
    sources[0] = job->first.source;
    *settings = (struct mt_query_settings){
        .name = job->name,
        .checkpoint = job->checkpoint,
        .trigger = job->trigger,
        .sources = sources,
        .n_sources = 1,
        .sink = job->first.sink,
        .job = {.self = job, .run = job_run, .reset = job_reset},
        .bundle_hash = job->bundle_hash,
        .bundle = job->bundle,
        .time_zone = job->time_zone ? job->time_zone : "UTC",
        .start_options = job->start_options ? job->start_options : "{}",
        .max_steps = job->max_steps,
        .accept_replay = -1,
    };
    job->first.source = NULL;
    job->first.sink = NULL;
}

int64_t mt_script_job_rows(const struct mt_script_job *job)
{
    return job->rows;
}
