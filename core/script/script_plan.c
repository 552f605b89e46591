/* SPDX-License-Identifier: Apache-2.0
 *
 * script_plan.c - one query as Lua declares it (mt.Plan of moontide.query), for whoever drives
 * it: a thread of `run`, or the script itself through a handle. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "script/script_int.h"
#include "sink/sink.h"
#include "source/source.h"

/* ---- reading; inside a protected call */

static void *address(lua_State *L, int plan, const char *key)
{
    lua_getfield(L, plan, key);
    void *p = (void *)(uintptr_t)lua_tonumber(L, -1);
    lua_pop(L, 1);
    return p;
}

static void read_sources(lua_State *L, int table, struct mt_plan *plan)
{
    lua_getfield(L, table, "sources");
    int list = lua_gettop(L);
    luaL_checktype(L, list, LUA_TTABLE);
    int n = (int)lua_objlen(L, list);
    plan->sources = mt_alloc((size_t)n * sizeof *plan->sources);
    for (; plan->n_sources < n; plan->n_sources++) {
        lua_rawgeti(L, list, (int)plan->n_sources + 1);
        plan->sources[plan->n_sources] = (void *)(uintptr_t)lua_tonumber(L, -1);
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
}

static int64_t integer(lua_State *L, int table, const char *key)
{
    lua_getfield(L, table, key);
    int64_t value = (int64_t)luaL_optnumber(L, -1, 0);
    lua_pop(L, 1);
    return value;
}

char *mt_lua_text(lua_State *L, int table, const char *key)
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

void mt_plan_read(lua_State *L, int table, struct mt_plan *plan)
{
    read_sources(L, table, plan);
    plan->sink = address(L, table, "sink"); /* NULL: foreachBatch */
    lua_getfield(L, table, "run");
    luaL_checktype(L, -1, LUA_TFUNCTION);
    lua_pushvalue(L, table);
    plan->keep = luaL_ref(L, LUA_REGISTRYINDEX);
    plan->run = luaL_ref(L, LUA_REGISTRYINDEX);
    read_trigger(L, table, &plan->trigger);
    plan->max_steps = integer(L, table, "max_steps");
    plan->name = mt_lua_text(L, table, "name");
    plan->checkpoint = mt_lua_text(L, table, "checkpoint");
    plan->start_options = mt_lua_text(L, table, "start_options");
    plan->time_zone = mt_lua_text(L, table, "time_zone");
    plan->shape = mt_lua_text(L, table, "shape");
}

/* ---- what became of it */

void mt_plan_settings(struct mt_plan *plan, struct mt_query_settings *settings)
{
    *settings = (struct mt_query_settings){
        .name = plan->name,
        .checkpoint = plan->checkpoint,
        .trigger = plan->trigger,
        .sources = plan->sources,
        .n_sources = plan->n_sources,
        .sink = plan->sink,
        .time_zone = plan->time_zone ? plan->time_zone : "UTC",
        .shape = plan->shape,
        .start_options = plan->start_options ? plan->start_options : "{}",
        .accept_replay = -1,
        .max_steps = plan->max_steps,
    };
    plan->sources = NULL;
    plan->n_sources = 0;
    plan->sink = NULL;
}

void mt_settings_drop(struct mt_query_settings *settings)
{
    mt_sink_free(settings->sink);
    for (int64_t i = 0; i < settings->n_sources; i++)
        mt_source_free(settings->sources[i]);
    free(settings->sources);
}

void mt_plan_clear(struct mt_plan *plan, lua_State *L)
{
    if (plan->run) {
        luaL_unref(L, LUA_REGISTRYINDEX, plan->run);
        luaL_unref(L, LUA_REGISTRYINDEX, plan->keep);
    }
    mt_sink_free(plan->sink); /* before its schema, which the Lua state keeps */
    for (int64_t i = 0; i < plan->n_sources; i++)
        mt_source_free(plan->sources[i]);
    free(plan->sources);
    free(plan->name);
    free(plan->checkpoint);
    free(plan->start_options);
    free(plan->time_zone);
    free(plan->shape);
    *plan = (struct mt_plan){0};
}

/* ---- a place for a checkpoint that nobody asked for */

char *mt_temporary_folder(struct mt_error *err)
{
    const char *tmp = getenv("TMPDIR");
    char *dir = mt_format("%s/moontide-XXXXXX", tmp && *tmp == '/' ? tmp : "/tmp");
    if (mkdtemp(dir))
        return dir;
    mt_fail(err, MT_FATAL, MT_CLASS_MACHINE, "cannot make a temporary folder %s: %s", dir,
            strerror(errno));
    free(dir);
    return NULL;
}

char *mt_temporary_checkpoint(struct mt_error *err)
{
    char *dir = mt_temporary_folder(err);
    char *path = dir ? mt_format("%s/checkpoint", dir) : NULL;
    free(dir);
    return path;
}

void mt_temporary_remove(char *checkpoint)
{
    if (!checkpoint)
        return;
    *strrchr(checkpoint, '/') = '\0';
    rmdir(checkpoint); /* the checkpoint in it went with its query */
    free(checkpoint);
}
