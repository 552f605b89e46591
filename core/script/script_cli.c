/* SPDX-License-Identifier: Apache-2.0
 *
 * script_cli.c - the program's main function, and what it lends to the command line:
 * `require "moontide._host"`. The command line is Lua (moontide.cli); jobs never see this
 * table, since they run in states of their own. */
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "columnar/columnar.h"
#include "script/script.h"
#include "script/script_int.h"
#include "script/script_run.h"
#include "sink/sink.h"
#include "source/source.h"
#include "store/store.h"

/* ---- reading a table of options, at index 1 */

static const char *text_field(lua_State *L, const char *key)
{
    lua_getfield(L, 1, key);
    const char *text = luaL_optstring(L, -1, NULL);
    lua_pop(L, 1); /* the table keeps it */
    return text;
}

static int64_t number_field(lua_State *L, const char *key, int64_t otherwise)
{
    lua_getfield(L, 1, key);
    int64_t n = (int64_t)luaL_optnumber(L, -1, (lua_Number)otherwise);
    lua_pop(L, 1);
    return n;
}

static bool flag_field(lua_State *L, const char *key)
{
    lua_getfield(L, 1, key);
    bool flag = lua_toboolean(L, -1);
    lua_pop(L, 1);
    return flag;
}

static void pairs_field(lua_State *L, const char *key, struct mt_pairs *pairs)
{
    lua_getfield(L, 1, key);
    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1))
        mt_pairs_add(pairs, luaL_checkstring(L, -2), luaL_checkstring(L, -1));
    lua_pop(L, 1);
}

static void set_field(lua_State *L, const char *key, const char *text)
{
    lua_pushstring(L, text); /* NULL: nil */
    lua_setfield(L, -2, key);
}

/* ---- the table */

static void push_sinks(lua_State *L, const struct mt_run_answer *answer)
{
    lua_newtable(L);
    for (int64_t i = 0; i < answer->n_sinks; i++) {
        lua_newtable(L);
        set_field(L, "format", answer->sinks[i].format);
        set_field(L, "path", answer->sinks[i].path);
        lua_rawseti(L, -2, (int)i + 1);
    }
}

/* run{file=, set=, once=, json=, terminal=, no_reload=, finish_with_new_script=, accept_replay=,
 * said_batch=, said_held=, interval_ms=, max_batches=, max_rows=, max_ms=} -> {code=, error=,
 * rows=, sinks={{format=, path=}}} */
static int host_run(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    struct mt_run_request request = {
        .file = text_field(L, "file"),
        .once = flag_field(L, "once"),
        .json = flag_field(L, "json"),
        .terminal = flag_field(L, "terminal"),
        .no_reload = flag_field(L, "no_reload"),
        .finish_with_new_script = flag_field(L, "finish_with_new_script"),
        .accept_replay = number_field(L, "accept_replay", -1),
        .said_batch = number_field(L, "said_batch", -1),
        .said_held = flag_field(L, "said_held"),
        .interval_ms = number_field(L, "interval_ms", -1),
        .max_batches = number_field(L, "max_batches", 0),
        .max_rows = number_field(L, "max_rows", 0),
        .max_ms = number_field(L, "max_ms", 0),
    };
    pairs_field(L, "set", &request.set);
    struct mt_run_answer answer;
    mt_script_run(&request, &answer);
    mt_pairs_free(&request.set);
    lua_newtable(L);
    lua_pushinteger(L, answer.code);
    lua_setfield(L, -2, "code");
    lua_pushnumber(L, (lua_Number)answer.rows);
    lua_setfield(L, -2, "rows");
    set_field(L, "error", answer.error.text[0] ? answer.error.text : NULL);
    push_sinks(L, &answer);
    lua_setfield(L, -2, "sinks");
    mt_run_answer_clear(&answer);
    return 1;
}

int mt_lua_failure(lua_State *L, const struct mt_error *err)
{
    struct mt_error shown = *err;
    mt_mask(shown.text, strlen(shown.text));
    lua_pushnil(L);
    lua_pushstring(L, shown.text);
    lua_pushinteger(L, err->class_);
    return 3;
}

static int push_errno(lua_State *L, enum mt_class class_, const char *path)
{
    struct mt_error err;
    mt_fail(&err, MT_FATAL, class_, "%s: %s", path, strerror(errno));
    return mt_lua_failure(L, &err);
}

static enum mt_status get_secret(void *self, const char *name, char **value, struct mt_error *err)
{
    return mt_lua_secret(self, name, value, err);
}

/* show(dir) -> JSON, or nil, message, class */
static int host_show(lua_State *L)
{
    struct mt_error err = {0};
    char *json, dir[PATH_MAX];
    if (!realpath(luaL_checkstring(L, 1), dir))
        return push_errno(L, MT_CLASS_CHECKPOINT, lua_tostring(L, 1));
    struct mt_secrets secrets = {.self = L, .get = get_secret};
    if (mt_checkpoint_show(dir, &secrets, &json, &err) != MT_OK)
        return mt_lua_failure(L, &err);
    lua_pushstring(L, json);
    free(json);
    return 1;
}

/* backup(dir, file) -> true, or nil, message, class */
static int host_backup(lua_State *L)
{
    struct mt_error err = {0};
    char dir[PATH_MAX];
    if (!realpath(luaL_checkstring(L, 1), dir))
        return push_errno(L, MT_CLASS_CHECKPOINT, lua_tostring(L, 1));
    if (mt_store_backup(dir, luaL_checkstring(L, 2), &err) != MT_OK)
        return mt_lua_failure(L, &err);
    lua_pushboolean(L, true);
    return 1;
}

/* realpath(path) -> path, or nil, message, class */
static int host_realpath(lua_State *L)
{
    char path[PATH_MAX];
    if (!realpath(luaL_checkstring(L, 1), path))
        return push_errno(L, MT_CLASS_JOB, lua_tostring(L, 1));
    lua_pushstring(L, path);
    return 1;
}

/* tempdir() -> a new folder, or nil, message, class */
static int host_tempdir(lua_State *L)
{
    struct mt_error err = {0};
    char *dir = mt_temporary_folder(&err);
    if (!dir)
        return mt_lua_failure(L, &err);
    lua_pushstring(L, dir);
    free(dir);
    return 1;
}

/* chdir(dir) -> true, or nil, message, class */
static int host_chdir(lua_State *L)
{
    if (chdir(luaL_checkstring(L, 1)) != 0)
        return push_errno(L, MT_CLASS_MACHINE, lua_tostring(L, 1));
    lua_pushboolean(L, true);
    return 1;
}

/* create(path, text) -> true, or nil, message, class; a file that is there is left as it is */
static int host_create(lua_State *L)
{
    size_t len;
    const char *path = luaL_checkstring(L, 1), *text = luaL_checklstring(L, 2, &len);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0)
        return push_errno(L, errno == EEXIST || errno == ENOENT ? MT_CLASS_USAGE : MT_CLASS_MACHINE,
                          path);
    bool whole = write(fd, text, len) == (ssize_t)len;
    if (close(fd) != 0 || !whole)
        return push_errno(L, MT_CLASS_MACHINE, path);
    lua_pushboolean(L, true);
    return 1;
}

/* now() -> milliseconds since 1970 */
static int host_now(lua_State *L)
{
    lua_pushnumber(L, (lua_Number)mt_clock_ms());
    return 1;
}

/* wait(handle, ms): until the handle is readable, so long at most */
static int host_wait(lua_State *L)
{
    struct pollfd one = {.fd = luaL_checkint(L, 1), .events = POLLIN};
    poll(&one, 1, luaL_checkint(L, 2));
    return 0;
}

static int by_name(const FTSENT **a, const FTSENT **b)
{
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

static bool ends_with(const char *text, const char *end)
{
    size_t a = strlen(text), b = strlen(end);
    return a >= b && strcmp(text + a - b, end) == 0;
}

/* files(folder, ending) -> list of {name=, bytes=} below it, no hidden ones */
static int host_files(lua_State *L)
{
    char *roots[] = {(char *)luaL_checkstring(L, 1), NULL};
    const char *ending = luaL_checkstring(L, 2);
    FTS *tree = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, by_name);
    if (!tree)
        return push_errno(L, MT_CLASS_MACHINE, roots[0]);
    lua_newtable(L);
    for (FTSENT *entry; (entry = fts_read(tree));) {
        if (entry->fts_info != FTS_F || entry->fts_name[0] == '.' ||
            !ends_with(entry->fts_name, ending))
            continue;
        lua_newtable(L);
        set_field(L, "name", entry->fts_path + strlen(roots[0]) + 1);
        lua_pushnumber(L, (lua_Number)entry->fts_statp->st_size);
        lua_setfield(L, -2, "bytes");
        lua_rawseti(L, -2, (int)lua_objlen(L, -2) + 1);
    }
    fts_close(tree);
    return 1;
}

/* head(file, n) -> rows in all, table of the first n; or a failure */
static int host_head(lua_State *L)
{
    struct mt_error err = {0};
    struct ArrowSchema schema;
    struct ArrowArray rows;
    struct mt_buf text = {0};
    int64_t total;
    if (mt_parquet_head(luaL_checkstring(L, 1), luaL_checkint(L, 2), &schema, &rows, &total,
                        &err) != MT_OK)
        return mt_lua_failure(L, &err);
    mt_table_print(&schema, &rows, 0, &text);
    rows.release(&rows);
    mt_schema_release(&schema);
    lua_pushnumber(L, (lua_Number)total);
    lua_pushlstring(L, text.data, text.len);
    mt_buf_free(&text);
    return 2;
}

static int host_versions(lua_State *L)
{
    lua_newtable(L);
    set_field(L, "moontide", MT_VERSION);
    set_field(L, "librdkafka", mt_rdkafka_version());
    set_field(L, "arrow", mt_arrow_version());
    set_field(L, "lmdb", mt_lmdb_version());
    set_field(L, "simdjson", mt_simdjson_version());
    return 1;
}

static int host_isatty(lua_State *L)
{
    lua_pushboolean(L, isatty(luaL_checkint(L, 1)));
    return 1;
}

static int open_host(lua_State *L)
{
    static const luaL_Reg functions[] = {
        {"run", host_run},           {"show", host_show},         {"backup", host_backup},
        {"realpath", host_realpath}, {"tempdir", host_tempdir},   {"chdir", host_chdir},
        {"versions", host_versions}, {"isatty", host_isatty},     {"files", host_files},
        {"mock", mt_lua_mock},       {"head", host_head},         {"create", host_create},
        {"wait", host_wait},         {"now", host_now},           {"sources", mt_lua_sources},
        {"prompt", mt_lua_prompt},   {"history", mt_lua_history}, {NULL, NULL},
    };
    lua_newtable(L);
    luaL_register(L, NULL, functions);
    return 1;
}

/* ---- main */

static int run_cli(lua_State *L)
{
    int argc = (int)lua_tointeger(L, 1);
    char **argv = lua_touserdata(L, 2);
    luaL_findtable(L, LUA_REGISTRYINDEX, "_PRELOAD", 0);
    lua_pushcfunction(L, open_host);
    lua_setfield(L, -2, "moontide._host");
    lua_pushcfunction(L, mt_lua_query);
    lua_setfield(L, -2, "moontide._query");
    lua_getglobal(L, "require");
    lua_pushliteral(L, "moontide.cli");
    lua_call(L, 1, 1);
    lua_getfield(L, -1, "main");
    lua_createtable(L, argc, 0);
    for (int i = 0; i < argc; i++) {
        lua_pushstring(L, argv[i]);
        lua_rawseti(L, -2, i);
    }
    lua_call(L, 1, 1);
    luaL_checkint(L, -1);
    return 1;
}

/* A file opened later must not become "standard output". */
static void hold_standard_files(void)
{
    int fd;
    do
        fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
}

int mt_script_main(int argc, char **argv)
{
    struct mt_error err = {0};
    hold_standard_files();
    lua_State *L = mt_lua_new(&err);
    if (!L) {
        fprintf(stderr, "moontide: %s\n", err.text);
        return MT_CLASS_MACHINE;
    }
    lua_pushcfunction(L, run_cli);
    lua_pushinteger(L, argc);
    lua_pushlightuserdata(L, argv);
    int code;
    if (mt_lua_call(L, 2, 1, MT_CLASS_INTERNAL, &err) == MT_OK) {
        code = (int)lua_tointeger(L, -1);
    } else {
        fprintf(stderr, "moontide: %s\n", err.text);
        code = (int)err.class_;
    }
    lua_close(L);
    return code;
}
