/* SPDX-License-Identifier: Apache-2.0
 *
 * script_handle.c - a query that the script itself drives: `require "moontide._query"`, for the
 * handle that :start() gives under `moontide lua`, in the shell and in specs.
 *
 * The steps of a query run Lua again, in the state that asks for them. So they are entered
 * through functions registered here, never by FFI: once compiled, an FFI call that comes back into
 * its own state crashes. The loops around a step (moontide.handle) are Lua.
 *
 * Nothing is loaded again in such a state: a batch that would have to be retried ends the query. */
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "script/script_int.h"

#define TYPE "moontide.query"

struct handle {
    lua_State *L; /* that steps it */
    struct mt_plan plan;
    struct mt_query *query; /* NULL: closed */
    char *bundle, bundle_hash[65];
    char *temporary;        /* checkpoint, or NULL */
    struct mt_buf progress; /* JSON lines that were not taken yet */
};

/* interruptible(): from now on Ctrl-C is an error in this state */
static int query_interruptible(lua_State *L)
{
    mt_interrupt_catch(L);
    return 0;
}

/* ---- the query's job */

static enum mt_status handle_run(void *self, struct mt_run *run, struct mt_error *err)
{
    struct handle *handle = self;
    lua_State *L = handle->L;
    luaL_checkstack(L, 8, "a batch");
    lua_rawgeti(L, LUA_REGISTRYINDEX, handle->plan.run);
    lua_pushnumber(L, (lua_Number)(uintptr_t)run);
    return mt_lua_call(L, 1, 0, MT_CLASS_SCRIPT, err);
}

static enum mt_status handle_reset(void *self, struct mt_error *err)
{
    (void)self;
    return mt_fail_within(err, MT_FATAL,
                          "a query that the script drives is not retried; start the "
                          "script again to run its batch again: ");
}

static enum mt_status handle_replay(void *self, const char *bundle, size_t len,
                                    struct mt_error *err)
{
    (void)self, (void)bundle, (void)len;
    return mt_fail(err, MT_FATAL, MT_CLASS_JOB,
                   "the batch was begun by another text of the script, and a sink holds a part of "
                   "it: that text must finish it, which is for `moontide run`");
}

static enum mt_status handle_secret(void *self, const char *name, char **value,
                                    struct mt_error *err)
{
    const struct handle *handle = self;
    return mt_lua_secret(handle->L, name, value, err);
}

static void on_progress(void *ctx, const char *json)
{
    struct handle *handle = ctx;
    mt_buf_adds(&handle->progress, json);
    mt_buf_adds(&handle->progress, "\n");
}

/* ---- opening and closing */

static struct handle *check_any(lua_State *L)
{
    return luaL_checkudata(L, 1, TYPE);
}

static struct handle *check_open(lua_State *L)
{
    struct handle *handle = check_any(L);
    if (!handle->query)
        luaL_error(L, "the query is over");
    handle->L = L;
    return handle;
}

static void close_handle(lua_State *L, struct handle *handle)
{
    mt_query_close(handle->query);
    mt_plan_clear(&handle->plan, L);
    mt_temporary_remove(handle->temporary);
    mt_buf_free(&handle->progress);
    free(handle->bundle);
    *handle = (struct handle){0};
}

static int handle_close(lua_State *L)
{
    close_handle(L, check_any(L));
    return 0;
}

static enum mt_status open_query(struct handle *handle, struct mt_error *err)
{
    struct mt_query_settings settings;
    mt_plan_settings(&handle->plan, &settings);
    settings.job = (struct mt_job){
        .self = handle, .run = handle_run, .reset = handle_reset, .replay = handle_replay};
    settings.secrets = (struct mt_secrets){.self = handle, .get = handle_secret};
    settings.bundle = handle->bundle;
    settings.bundle_hash = handle->bundle_hash;
    settings.on_progress = on_progress;
    settings.ctx = handle;
    if (!settings.checkpoint) {
        handle->temporary = mt_temporary_checkpoint(err);
        settings.checkpoint = handle->temporary;
        settings.temporary = true;
    }
    if (settings.checkpoint)
        return mt_query_open(&settings, &handle->query, err);
    mt_settings_drop(&settings);
    return MT_FATAL;
}

/* open(plan, bundle) -> handle; or a failure */
static int query_open(lua_State *L)
{
    struct mt_error err = {0};
    luaL_checktype(L, 1, LUA_TTABLE);
    const char *bundle = luaL_checkstring(L, 2);
    struct handle *handle = lua_newuserdata(L, sizeof *handle);
    *handle = (struct handle){.L = L, .bundle = mt_strdup(bundle)};
    mt_sha256_hex(bundle, strlen(bundle), handle->bundle_hash);
    luaL_getmetatable(L, TYPE);
    lua_setmetatable(L, -2);
    mt_plan_read(L, 1, &handle->plan);
    enum mt_status status = open_query(handle, &err);
    if (status == MT_OK)
        return 1;
    close_handle(L, handle);
    return mt_lua_failure(L, &err);
}

/* ---- what the loops are made of */

/* handle:step() -> "again"; "wait", until when (ms); "ended"; or a failure */
static int handle_step(lua_State *L)
{
    struct handle *handle = check_open(L);
    struct mt_error err = {0};
    enum mt_turn turn;
    int64_t at_ms;
    mt_interrupt_hold();
    enum mt_status status = mt_query_step(handle->query, mt_clock_ms(), &turn, &at_ms, &err);
    mt_log_context(NULL, -1);
    bool between = status != MT_OK || turn != MT_TURN_AGAIN || handle->progress.len > 0;
    mt_interrupt_allow(L, between); /* a batch under way is finished */
    if (status != MT_OK)
        return mt_lua_failure(L, &err);
    static const char *const names[] = {
        [MT_TURN_AGAIN] = "again", [MT_TURN_WAIT] = "wait", [MT_TURN_ENDED] = "ended"};
    lua_pushstring(L, names[turn]);
    lua_pushnumber(L, (lua_Number)at_ms);
    return 2;
}

/* wait(until_ms, handles): until then, or until a source of theirs has something */
static int query_wait(lua_State *L)
{
    int64_t ms = (int64_t)luaL_checknumber(L, 1) - mt_clock_ms();
    luaL_checktype(L, 2, LUA_TTABLE);
    size_t n = lua_objlen(L, 2);
    struct pollfd *fds = lua_newuserdata(L, (n + 1) * sizeof *fds);
    fds[0] = (struct pollfd){.fd = mt_interrupt_fd(), .events = POLLIN};
    for (size_t i = 1; i <= n; i++) {
        lua_rawgeti(L, 2, (int)i);
        const struct handle *handle = luaL_checkudata(L, -1, TYPE);
        int fd = handle->query ? mt_query_wake_fd(handle->query) : -1;
        fds[i] = (struct pollfd){.fd = fd, .events = POLLIN};
        lua_pop(L, 1);
    }
    mt_interrupt_hold();
    poll(fds, n + 1, ms < 0 ? 0 : ms < 60000 ? (int)ms : 60000);
    mt_interrupt_allow(L, true);
    return 0;
}

static int query_now(lua_State *L)
{
    lua_pushnumber(L, (lua_Number)mt_clock_ms());
    return 1;
}

/* handle:progress() -> JSON lines since the last time */
static int handle_progress(lua_State *L)
{
    struct handle *handle = check_open(L);
    lua_pushlstring(L, handle->progress.data ? handle->progress.data : "", handle->progress.len);
    handle->progress.len = 0;
    return 1;
}

static int handle_stop(lua_State *L)
{
    mt_query_stop(check_open(L)->query);
    return 0;
}

static int handle_drain(lua_State *L)
{
    mt_query_drain(check_open(L)->query);
    return 0;
}

static int handle_drained(lua_State *L)
{
    lua_pushboolean(L, mt_query_drained(check_open(L)->query));
    return 1;
}

/* handle:about() -> id, run id, status */
static int handle_about(lua_State *L)
{
    const struct mt_query *query = check_open(L)->query;
    lua_pushstring(L, mt_query_id(query));
    lua_pushstring(L, mt_query_run_id(query));
    lua_pushstring(L, mt_query_status(query));
    return 3;
}

int mt_lua_query(lua_State *L)
{
    static const luaL_Reg methods[] = {
        {"step", handle_step},       {"progress", handle_progress},
        {"stop", handle_stop},       {"drain", handle_drain},
        {"drained", handle_drained}, {"about", handle_about},
        {"close", handle_close},     {NULL, NULL},
    };
    static const luaL_Reg functions[] = {
        {"open", query_open}, {"wait", query_wait},
        {"now", query_now},   {"interruptible", query_interruptible},
        {NULL, NULL},
    };
    luaL_newmetatable(L, TYPE);
    lua_newtable(L);
    luaL_register(L, NULL, methods);
    lua_setfield(L, -2, "__index");
    lua_pushcfunction(L, handle_close);
    lua_setfield(L, -2, "__gc");
    lua_newtable(L);
    luaL_register(L, NULL, functions);
    return 1;
}
