/* SPDX-License-Identifier: Apache-2.0
 *
 * host_test.c - a Lua state of ours, and what errors become on their way into C. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "script/script_int.h"

static lua_State *L;
static struct mt_error err;

static int open_lua(void **state)
{
    (void)state;
    L = mt_lua_new(&err);
    assert_non_null(L);
    err = (struct mt_error){0};
    return 0;
}

static int close_lua(void **state)
{
    (void)state;
    lua_close(L);
    return 0;
}

static enum mt_status run(const char *code)
{
    assert_int_equal(luaL_loadbuffer(L, code, strlen(code), "=job.lua"), 0);
    return mt_lua_call(L, 0, 0, MT_CLASS_SCRIPT, &err);
}

static void expect_ok(const char *code)
{
    if (run(code) != MT_OK)
        fail_msg("%s", err.text);
}

static void contains(const char *part)
{
    if (!strstr(err.text, part))
        fail_msg("no \"%s\" in: %s", part, err.text);
}

static void declarations_load_into_ffi(void **state)
{
    (void)state;
    expect_ok("local ffi = require 'ffi'; ffi.cdef(require 'moontide._cdef')"
              "assert(ffi.sizeof 'struct ArrowArray' == 80)"
              "assert(ffi.offsetof('struct mt_run', 'inputs') == 24)");
}

static void modules_of_the_system_load(void **state)
{
    (void)state;
}

static void own_modules_come_before_the_path(void **state)
{
    (void)state;
    expect_ok("package.path = package.path .. ';/nowhere/?.lua'"
              "local ok, why = pcall(require, 'moontide.none_of_ours'); assert(not ok)"
              "assert(why:find '/lua/moontide/none_of_ours.lua' < why:find '/nowhere/')"
              "assert(debug.getinfo(require 'moontide.cli.ckpt'.show, 'S').source == "
              "  '@<moontide>/moontide/cli/ckpt.lua')");
}

static void many_loops_stay_compiled(void **state)
{
    (void)state;
    expect_ok("local flushed = 0; jit.attach(function(what)"
              "  if what == 'flush' then flushed = flushed + 1 end end, 'trace')"
              "local kept = {} for i = 1, 1500 do"
              "  local f = loadstring 'local s = 0; for i = 1, 100 do s = s + i end; return s'"
              "  kept[i] = f; f() end "
              "jit.attach(function() end); assert(flushed == 0, flushed)");
}

static void error_table_keeps_class_status_and_words(void **state)
{
    (void)state;
    enum mt_status status =
        run("error { class = 'DATA', status = 'REJECT', text = 'orders[2]@7: no' }");
    assert_int_equal(status, MT_REJECT);
    assert_int_equal(err.class_, MT_CLASS_DATA);
    assert_string_equal(err.text, "orders[2]@7: no");
}

static void every_class_has_its_name(void **state)
{
    (void)state;
    static const char *const names[] = {"INTERNAL", "USAGE",     "JOB",  "SCRIPT",     "DATA",
                                        "SOURCE",   "DATA_LOSS", "SINK", "CHECKPOINT", "MACHINE"};
    for (int i = 0; i < 10; i++) {
        char code[100];
        snprintf(code, sizeof code, "error { class = '%s', text = 'x' }", names[i]);
        assert_int_equal(run(code), MT_FATAL);
        assert_int_equal(err.class_, i + 1);
    }
}

static void plain_error_gets_the_callers_class(void **state)
{
    (void)state;
    assert_int_equal(
        run("local function inner() local x = nil; return x.y end\nreturn 1 + inner()"), MT_FATAL);
    assert_int_equal(err.class_, MT_CLASS_SCRIPT);
    assert_string_equal(err.text, "job.lua:1: attempt to index local 'x' (a nil value)");
}

static void error_without_a_place_gets_a_traceback(void **state)
{
    (void)state;
    run("local function inner() error('lost', 0) end\nreturn 1 + inner()");
    contains("lost\nstack traceback");
    contains("job.lua:2:");
    run("return 1 + require 'moontide.cli.ckpt'.show(nil)");
    contains("<moontide>/moontide/cli/ckpt.lua:");
    contains("stack traceback");
}

static void any_value_can_be_an_error(void **state)
{
    (void)state;
    assert_int_equal(run("error()"), MT_FATAL);
    contains("nil value");
    run("error(setmetatable({}, { __tostring = function() return 'my own words' end }))");
    contains("my own words");
    run("error { class = 'DATA' }");
    contains("table value");
    run("error { class = 'NOSUCH', text = 'words' }");
    assert_string_equal(err.text, "words");
    assert_int_equal(err.class_, MT_CLASS_SCRIPT);
}

static void failed_calls_leave_nothing_on_the_stack(void **state)
{
    (void)state;
    int top = lua_gettop(L);
    assert_int_equal(run("error 'x'"), MT_FATAL);
    expect_ok("return 1, 2, 3");
    assert_int_equal(lua_gettop(L), top);
}

static void a_script_without_memory_says_so_and_can_go_on(void **state)
{
    (void)state;
    mt_lua_bound(L, 8 << 20);
    static const char *const greedy[] = {
        "local t = {} for i = 1, 1e9 do t[i] = 'x' .. i end",
        "local s = ('x'):rep(2e7)",
        "local ok, why = pcall(string.rep, 'x', 2e7) error({text = 'job.lua:7: ' .. why}, 0)",
    };
    for (size_t i = 0; i < sizeof greedy / sizeof *greedy; i++) {
        assert_int_equal(run(greedy[i]), MT_FATAL);
        assert_int_equal(err.class_, MT_CLASS_MACHINE);
        contains("not enough memory: script out of memory: it held ");
        contains("maxBatchBytes");
    }
    contains("job.lua:7: ");
    expect_ok("local s = ('x'):rep(1e6)");
}

static void what_a_script_lets_go_counts_no_more(void **state)
{
    (void)state;
    mt_lua_bound(L, 64 << 20);
    expect_ok("for i = 1, 1000 do local s = ('x'):rep(1e6 + i) end");
}

/* Texts that are all different are garbage of a few bytes each; the job's code is what lives. */
static void a_small_heap_is_not_searched_for_every_bit_of_garbage(void **state)
{
    (void)state;
    expect_ok("collectgarbage() collectgarbage()\n"
              "local live, most = collectgarbage('count'), 0\n"
              "for i = 1, 300000 do\n"
              "  local s = 'x' .. i\n"
              "  most = math.max(most, collectgarbage('count') - live)\n"
              "end\n"
              "assert(most > 8 * 1024 and most < 64 * 1024, most)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(declarations_load_into_ffi, open_lua, close_lua),
        cmocka_unit_test_setup_teardown(modules_of_the_system_load, open_lua, close_lua),
        cmocka_unit_test_setup_teardown(own_modules_come_before_the_path, open_lua, close_lua),
        cmocka_unit_test_setup_teardown(many_loops_stay_compiled, open_lua, close_lua),
        cmocka_unit_test_setup_teardown(error_table_keeps_class_status_and_words, open_lua,
                                        close_lua),
        cmocka_unit_test_setup_teardown(every_class_has_its_name, open_lua, close_lua),
        cmocka_unit_test_setup_teardown(plain_error_gets_the_callers_class, open_lua, close_lua),
        cmocka_unit_test_setup_teardown(error_without_a_place_gets_a_traceback, open_lua,
                                        close_lua),
        cmocka_unit_test_setup_teardown(any_value_can_be_an_error, open_lua, close_lua),
        cmocka_unit_test_setup_teardown(a_script_without_memory_says_so_and_can_go_on, open_lua,
                                        close_lua),
        cmocka_unit_test_setup_teardown(what_a_script_lets_go_counts_no_more, open_lua, close_lua),
        cmocka_unit_test_setup_teardown(a_small_heap_is_not_searched_for_every_bit_of_garbage,
                                        open_lua, close_lua),
        cmocka_unit_test_setup_teardown(failed_calls_leave_nothing_on_the_stack, open_lua,
                                        close_lua),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
