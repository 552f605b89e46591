/* SPDX-License-Identifier: Apache-2.0
 *
 * script_host.c - a Lua state as Moontide wants it, and calls into it.
 *
 * Moontide's own modules come before every path, so that a folder named moontide beside
 * somebody's job cannot replace them; all else is looked up where LuaJIT looks, so that the
 * system's cjson, lpeg and whatever a user installed are found. An error value crosses into
 * C inside the message handler's protection: by then it is a string or a table of strings,
 * and reading it raises nothing. */
#include <glob.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "script/script_int.h"

/* Written by scripts/embed.cmake: "ffi_cdef" and, unless MT_LUA_DIR, all of lua/. */
struct mt_embedded {
    const char *name;
    const unsigned char *bytes;
    size_t len;
};
extern const struct mt_embedded mt_embedded_files[];

/* Many row functions, a loop generated for each: LuaJIT's own limits (1000 traces, 512 KiB
 * of machine code) are those of 2010, and when they are reached everything is thrown away. */
static const char JIT_LIMITS[] =
    "jit.opt.start('maxtrace=8000', 'maxrecord=16000', 'sizemcode=64', 'maxmcode=16384')";

/* ---- memory
 *
 * LuaJIT's own limit (128 TB) is none, and where the machine's memory ends the kernel kills
 * without a word. So a state is refused memory before that, which is an error like others. What
 * counts a state's bytes stands in front of LuaJIT's allocator, is a userdata of that state,
 * and steps aside when the state is closed: LuaJIT frees its heap at once only by itself. */

struct bounded {
    lua_Alloc get;
    void *ud;
    size_t held, most; /* bytes */
};

static void *get_bounded(void *ud, void *p, size_t old, size_t size)
{
    struct bounded *bounded = ud;
    if (size > old && size - old > bounded->most - bounded->held)
        return NULL;
    void *got = bounded->get(bounded->ud, p, old, size);
    if (got || size == 0)
        bounded->held += size - old;
    return got;
}

static int step_aside(lua_State *L)
{
    struct bounded *bounded = lua_touserdata(L, 1);
    lua_setallocf(L, bounded->get, bounded->ud);
    return 0;
}

static size_t held_by(lua_State *L)
{
    return (size_t)lua_gc(L, LUA_GCCOUNT, 0) * 1024 + (size_t)lua_gc(L, LUA_GCCOUNTB, 0);
}

void mt_lua_bound(lua_State *L, size_t most)
{
    struct bounded *bounded = lua_newuserdata(L, sizeof *bounded);
    lua_createtable(L, 0, 1);
    lua_pushcfunction(L, step_aside);
    lua_setfield(L, -2, "__gc");
    lua_setmetatable(L, -2);
    luaL_ref(L, LUA_REGISTRYINDEX);
    size_t held = held_by(L);
    *bounded = (struct bounded){.held = held, .most = most > held ? most : held};
    bounded->get = lua_getallocf(L, &bounded->ud);
    lua_setallocf(L, get_bounded, bounded);
}

/* Three quarters of what there is: of the machine's memory, or of the container's. */
static size_t memory_for_scripts(void)
{
    static const char *const limits[] = {"/sys/fs/cgroup/memory.max",
                                         "/sys/fs/cgroup/memory/memory.limit_in_bytes"};
    size_t most = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        size_t limit; /* the file says "max" where there is none */
        FILE *in = fopen(limits[i], "re");
        if (in && fscanf(in, "%zu", &limit) == 1 && limit < most)
            most = limit;
        if (in)
            fclose(in);
    }
    return most / 4 * 3;
}

/* LuaJIT collects whenever the heap has doubled. A job's heap is 2 MB, nearly all of it code, and a
 * function over texts that are all different fills as much again every 60,000 rows: half of what
 * it costs is then looking through that code for what lives. So a collection waits for some
 * garbage at least. What lives is known when a collection ends and finalizers run: something
 * that nobody holds is finalized then, sets when the next one begins, and leaves its like. */
static int pace_garbage(lua_State *L)
{
    enum { LEAST = 16 << 20 };
    size_t live = held_by(L);
    lua_gc(L, LUA_GCSETPAUSE, live < LEAST ? 100 + (int)(100 * (size_t)LEAST / live) : 200);
    lua_newuserdata(L, 0);
    lua_getmetatable(L, 1);
    lua_setmetatable(L, -2);
    return 0;
}

static void begin_pacing(lua_State *L)
{
    lua_newuserdata(L, 0);
    lua_createtable(L, 0, 1);
    lua_pushcfunction(L, pace_garbage);
    lua_setfield(L, -2, "__gc");
    lua_setmetatable(L, -2);
    lua_pop(L, 1);
}

static int no_memory(lua_State *L)
{
    const char *text = lua_tostring(L, -1);
    mt_log(MT_ERROR, "Lua: %s", text ? text : "an error outside any call");
    _exit(MT_CLASS_MACHINE);
}

/* ---- modules */

#define OWN_FRAMES "<moontide>/"

static int return_cdef(lua_State *L)
{
    const struct mt_embedded *file = lua_touserdata(L, lua_upvalueindex(1));
    lua_pushlstring(L, (const char *)file->bytes, file->len);
    return 1;
}

/* Both ways name a chunk "<moontide>/row.lua", which no file of a job's author is called: so
 * our frames and theirs are told apart. */
static int load_chunk(lua_State *L, const char *name, const char *bytes, size_t len)
{
    lua_pushfstring(L, "@" OWN_FRAMES "%s", name);
    if (luaL_loadbuffer(L, bytes, len, lua_tostring(L, -1)) != 0)
        return lua_error(L);
    return 1;
}

#ifdef MT_LUA_DIR
/* The text of a file of the source tree; false: it cannot be read. */
static bool push_text(lua_State *L, const char *path)
{
    FILE *in = fopen(path, "r");
    if (!in)
        return false;
    luaL_Buffer text;
    luaL_buffinit(L, &text);
    size_t n;
    do
        luaL_addsize(&text, n = fread(luaL_prepbuffer(&text), 1, LUAL_BUFFERSIZE, in));
    while (n > 0);
    fclose(in);
    luaL_pushresult(&text);
    return true;
}

/* A searcher: "moontide.row" is moontide/row.lua or moontide/row/init.lua in the source tree. */
static int search_tree(lua_State *L)
{
    const char *name = luaL_checkstring(L, 1);
    static const char *const tails[] = {".lua", "/init.lua"};
    if (strncmp(name, "moontide", 8) != 0)
        return 0;
    const char *stem = luaL_gsub(L, name, ".", "/");
    for (int i = 0; i < 2; i++) {
        const char *file = lua_pushfstring(L, "%s%s", stem, tails[i]);
        if (push_text(L, lua_pushfstring(L, "%s/%s", MT_LUA_DIR, file)))
            return load_chunk(L, file, lua_tostring(L, -1), lua_objlen(L, -1));
    }
    lua_pushfstring(L, "\n\tno file '%s/%s.lua'", MT_LUA_DIR, stem);
    return 1;
}

int mt_lua_sources(lua_State *L)
{
    glob_t found;
    lua_newtable(L);
    if (glob(MT_LUA_DIR "/moontide/{*,*/*}.lua", GLOB_BRACE, NULL, &found) != 0)
        return 1;
    for (size_t i = 0; i < found.gl_pathc; i++)
        if (push_text(L, found.gl_pathv[i]))
            lua_setfield(L, -2, found.gl_pathv[i] + strlen(MT_LUA_DIR "/"));
    globfree(&found);
    return 1;
}

static void offer_modules(lua_State *L)
{
    lua_getglobal(L, "package");
    lua_getfield(L, -1, "loaders");
    for (int i = (int)lua_objlen(L, -1); i >= 2; i--) {
        lua_rawgeti(L, -1, i);
        lua_rawseti(L, -2, i + 1);
    }
    lua_pushcfunction(L, search_tree);
    lua_rawseti(L, -2, 2);
    lua_pop(L, 2);
}
#else
static int load_embedded(lua_State *L)
{
    const struct mt_embedded *file = lua_touserdata(L, lua_upvalueindex(1));
    load_chunk(L, file->name, (const char *)file->bytes, file->len);
    lua_pushvalue(L, 1);
    lua_call(L, 1, 1);
    return 1;
}

int mt_lua_sources(lua_State *L)
{
    lua_newtable(L);
    for (const struct mt_embedded *file = mt_embedded_files + 1; file->name; file++) {
        lua_pushlstring(L, (const char *)file->bytes, file->len);
        lua_setfield(L, -2, file->name);
    }
    return 1;
}

/* "moontide/init.lua" is module "moontide", "moontide/row.lua" is "moontide.row". */
static void push_module_name(lua_State *L, const char *file)
{
    const char *name = luaL_gsub(L, file, "/init.lua", "");
    name = luaL_gsub(L, name, ".lua", "");
    luaL_gsub(L, name, "/", ".");
    lua_replace(L, -3);
    lua_pop(L, 1);
}

static void offer_modules(lua_State *L)
{
    luaL_findtable(L, LUA_REGISTRYINDEX, "_PRELOAD", 0);
    for (const struct mt_embedded *file = mt_embedded_files + 1; file->name; file++) {
        push_module_name(L, file->name);
        lua_pushlightuserdata(L, (void *)file);
        lua_pushcclosure(L, load_embedded, 1);
        lua_rawset(L, -3);
    }
    lua_pop(L, 1);
}
#endif

static int fill_state(lua_State *L)
{
    luaL_openlibs(L);
    offer_modules(L);
    luaL_findtable(L, LUA_REGISTRYINDEX, "_PRELOAD", 0);
    lua_pushlightuserdata(L, (void *)&mt_embedded_files[0]);
    lua_pushcclosure(L, return_cdef, 1);
    lua_setfield(L, -2, "moontide._cdef");
    lua_pushcfunction(L, mt_lua_rows);
    lua_setfield(L, -2, "moontide._rows");
    if (luaL_loadstring(L, JIT_LIMITS) != 0)
        return lua_error(L);
    lua_call(L, 0, 0);
    mt_lua_bound(L, memory_for_scripts());
    begin_pacing(L);
    return 0;
}

enum mt_status mt_lua_enter(lua_State *L, lua_CFunction fn, void *self, struct mt_error *err)
{
    if (lua_cpcall(L, fn, self) == 0)
        return MT_OK;
    const char *text = lua_tostring(L, -1);
    mt_fail(err, MT_FATAL, MT_CLASS_MACHINE, "a Lua state: %s", text ? text : "no memory");
    lua_pop(L, 1);
    return MT_FATAL;
}

lua_State *mt_lua_new(struct mt_error *err)
{
    lua_State *L = luaL_newstate();
    if (!L) {
        mt_fail(err, MT_FATAL, MT_CLASS_MACHINE, "a Lua state: no memory");
        return NULL;
    }
    lua_atpanic(L, no_memory);
    if (mt_lua_enter(L, fill_state, NULL, err) == MT_OK)
        return L;
    lua_close(L);
    return NULL;
}

/* ---- calls */

/* "job.lua:12: amount is not a number": a place in somebody's own file says it all. */
static bool names_a_place(const char *text)
{
    const char *colon = strchr(text, ':');
    if (!colon || strncmp(text, OWN_FRAMES, strlen(OWN_FRAMES)) == 0)
        return false;
    size_t digits = strspn(colon + 1, "0123456789");
    return digits > 0 && colon[1 + digits] == ':';
}

/* LuaJIT's words for it, with or without a place in front. */
static bool says_no_memory(const char *text)
{
    static const char end[] = "not enough memory";
    size_t len = text ? strlen(text) : 0;
    return len >= strlen(end) && strcmp(text + len - strlen(end), end) == 0;
}

/* Keeps a table of ours as it is; makes text of anything else, with a traceback if there is
 * no other way to find where it came from. */
static int on_error(lua_State *L)
{
    if (lua_istable(L, 1)) {
        lua_pushliteral(L, "text");
        lua_rawget(L, 1);
        if (lua_isstring(L, -1)) {
            lua_settop(L, 1);
            return 1;
        }
    }
    lua_settop(L, 1);
    if (!lua_isstring(L, 1) && !luaL_callmeta(L, 1, "__tostring"))
        lua_pushfstring(L, "an error that is a %s value, not text", luaL_typename(L, 1));
    const char *text = lua_tostring(L, -1);
    if (!text || (!names_a_place(text) && !says_no_memory(text)))
        luaL_traceback(L, L, lua_tostring(L, -1), 1);
    return 1;
}

static const char *field(lua_State *L, int table, const char *name)
{
    lua_pushstring(L, name);
    lua_rawget(L, table);
    const char *text = lua_tostring(L, -1);
    lua_pop(L, 1); /* the table keeps it alive */
    return text;
}

static enum mt_class class_of(const char *name, enum mt_class otherwise)
{
    static const char *const names[] = {"",       "INTERNAL",   "USAGE",  "JOB",
                                        "SCRIPT", "DATA",       "SOURCE", "DATA_LOSS",
                                        "SINK",   "CHECKPOINT", "MACHINE"};
    for (size_t i = 1; name && i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            return (enum mt_class)i;
    return otherwise;
}

static enum mt_status take_error(lua_State *L, enum mt_class class_, struct mt_error *err)
{
    int top = lua_gettop(L);
    enum mt_status status = MT_FATAL;
    const char *text = lua_tostring(L, top);
    if (lua_istable(L, top)) {
        const char *word = field(L, top, "status");
        if (word && strcmp(word, "REJECT") == 0)
            status = MT_REJECT;
        class_ = class_of(field(L, top, "class"), class_);
        text = field(L, top, "text");
    }
    bool short_of_memory = says_no_memory(text);
    char *shown = mt_strdup(text ? text : "an error without words");
    mt_mask(shown, strlen(shown));
    if (short_of_memory)
        status = mt_fail(err, MT_FATAL, MT_CLASS_MACHINE,
                         "%s: script out of memory: it held %zu MB and got no more; let it keep "
                         "less in variables, or make batches smaller (maxBatchBytes, "
                         "maxOffsetsPerTrigger)",
                         shown, held_by(L) >> 20);
    else
        mt_fail(err, status, class_, "%s", shown);
    free(shown);
    lua_settop(L, top - 1);
    if (short_of_memory)
        lua_gc(L, LUA_GCCOLLECT, 0); /* what the script left behind */
    return status;
}

enum mt_status mt_lua_call(lua_State *L, int n_args, int n_results, enum mt_class class_,
                           struct mt_error *err)
{
    int at = lua_gettop(L) - n_args; /* of the function */
    lua_pushcfunction(L, on_error);
    lua_insert(L, at);
    int failed = lua_pcall(L, n_args, n_results, at);
    lua_remove(L, at);
    return failed ? take_error(L, class_, err) : MT_OK;
}

/* moontide.config.recall(name) */
static int recall(lua_State *L)
{
    lua_getglobal(L, "require");
    lua_pushliteral(L, "moontide.config");
    lua_call(L, 1, 1);
    lua_getfield(L, -1, "recall");
    lua_pushvalue(L, 1);
    lua_call(L, 1, 1);
    return 1;
}

enum mt_status mt_lua_secret(lua_State *L, const char *name, char **value, struct mt_error *err)
{
    luaL_checkstack(L, 4, "a secret");
    lua_pushcfunction(L, recall);
    lua_pushstring(L, name);
    enum mt_status status = mt_lua_call(L, 1, 1, MT_CLASS_JOB, err);
    if (status != MT_OK)
        return MT_FATAL;
    *value = mt_strdup(lua_tostring(L, -1));
    lua_pop(L, 1);
    return MT_OK;
}
