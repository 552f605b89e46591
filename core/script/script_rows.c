/* SPDX-License-Identifier: Apache-2.0
 *
 * script_rows.c - rows for functions that the JIT has given up on.
 *
 * Compiled, `row.amount` is a load through an FFI struct and nothing is faster. Interpreted, each
 * step of that load is a call into the FFI library that allocates: 700 ns to 2 µs a row. A plain
 * C function as __index does not care whether its caller is compiled. What only Lua can make
 * (64-bit integers beyond 2^53, decimals, nested values) and the error for an unknown name come
 * from a function of Lua's, `other(name, number, row)`. */
#include <lauxlib.h>

#include "script/script_int.h"

struct row_field {
    enum mt_type type;
    const struct ArrowArray *array;
    int64_t first; /* row of the array that is row 0 of the batch */
};
struct row_view {
    int32_t *row; /* where the turn is; read by whoever names the row in an error */
    int n;
    struct row_field fields[];
};

/* new(types) -> view; types are numbers of enum mt_type */
static int rows_new(lua_State *L)
{
    int n = (int)lua_objlen(L, 1);
    struct row_view *view = lua_newuserdata(L, sizeof *view + (size_t)n * sizeof *view->fields);
    view->n = n;
    for (int i = 0; i < n; i++) {
        lua_rawgeti(L, 1, i + 1);
        view->fields[i] = (struct row_field){.type = (enum mt_type)lua_tointeger(L, -1)};
        lua_pop(L, 1);
    }
    return 1;
}

static void *address_at(lua_State *L, int table, int i)
{
    lua_rawgeti(L, table, i);
    void *address = (void *)(intptr_t)lua_tonumber(L, -1); /* NOLINT: _core.address made it */
    lua_pop(L, 1);
    return address;
}

/* bind(view, address of the row number, addresses of the arrays, their first rows) */
static int rows_bind(lua_State *L)
{
    struct row_view *view = lua_touserdata(L, 1);
    view->row = (int32_t *)(intptr_t)lua_tonumber(L, 2); /* NOLINT */
    for (int i = 0; i < view->n; i++) {
        view->fields[i].array = address_at(L, 3, i + 1);
        lua_rawgeti(L, 4, i + 1);
        view->fields[i].first = (int64_t)lua_tonumber(L, -1);
        lua_pop(L, 1);
    }
    return 0;
}

#define LIMIT (INT64_C(1) << 53)

/* True when the value was pushed. */
static bool push_integer(lua_State *L, int64_t value)
{
    if (value < -LIMIT || value > LIMIT)
        return false;
    lua_pushnumber(L, (lua_Number)value);
    return true;
}

static bool push_value(lua_State *L, enum mt_type type, const struct ArrowArray *array, int64_t row)
{
    const void *values = array->buffers[1];
    int64_t i = array->offset + row;
    char day[48];
    switch (type) {
    case MT_BOOLEAN:
        return lua_pushboolean(L, ((const uint8_t *)values)[i >> 3] >> (i & 7) & 1), true;
    case MT_TINYINT:
        return push_integer(L, ((const int8_t *)values)[i]);
    case MT_SMALLINT:
        return push_integer(L, ((const int16_t *)values)[i]);
    case MT_INT:
        return push_integer(L, ((const int32_t *)values)[i]);
    case MT_BIGINT:
    case MT_TIMESTAMP:
        return push_integer(L, ((const int64_t *)values)[i]);
    case MT_FLOAT:
        return lua_pushnumber(L, (lua_Number)((const float *)values)[i]), true;
    case MT_DOUBLE:
        return lua_pushnumber(L, ((const double *)values)[i]), true;
    case MT_DATE:
        lua_pushlstring(L, day, (size_t)mt_date_print(((const int32_t *)values)[i], day));
        return true;
    case MT_STRING:
    case MT_BINARY: {
        const int32_t *offsets = values;
        lua_pushlstring(L, (const char *)array->buffers[2] + offsets[i],
                        (size_t)(offsets[i + 1] - offsets[i]));
        return true;
    }
    default:
        return false;
    }
}

/* __index: view, names -> numbers from 1, other */
static int rows_read(lua_State *L)
{
    const struct row_view *view = lua_touserdata(L, lua_upvalueindex(1));
    lua_pushvalue(L, 2);
    lua_rawget(L, lua_upvalueindex(2));
    int number = (int)lua_tointeger(L, -1);
    if (number > 0) {
        const struct row_field *field = &view->fields[number - 1];
        int64_t row = field->first + *view->row;
        if (mt_array_is_null(field->array, row))
            return 0;
        if (push_value(L, field->type, field->array, row))
            return 1;
    }
    lua_pushvalue(L, lua_upvalueindex(3));
    lua_pushvalue(L, 2);
    lua_pushinteger(L, number);
    lua_pushinteger(L, *view->row);
    lua_call(L, 3, 1);
    return 1;
}

/* index(view, names, other) -> __index */
static int rows_index(lua_State *L)
{
    lua_settop(L, 3);
    lua_pushcclosure(L, rows_read, 3);
    return 1;
}

enum { VIEW = 1, FN, ROW, LIVE, OVER, FROM, N, TAKE, KEPT, SEL };

/* Pushes the row of a turn (a new one, when LIVE is its metatable) and what FN makes of it. */
static void take_turn(lua_State *L, struct row_view *view, int32_t i)
{
    *view->row = i;
    if (lua_isnil(L, LIVE)) {
        lua_pushvalue(L, ROW);
    } else {
        lua_newtable(L);
        lua_pushvalue(L, LIVE);
        lua_setmetatable(L, -2);
    }
    lua_pushvalue(L, FN);
    lua_pushvalue(L, -2);
    lua_call(L, 1, 1);
}

/* OVER: what ends the turn of a row of its own, a metatable or a function. */
static void end_turn(lua_State *L)
{
    if (lua_istable(L, OVER)) {
        lua_pushvalue(L, OVER);
        lua_setmetatable(L, TAKE + 1);
    } else if (!lua_isnil(L, OVER)) {
        lua_pushvalue(L, OVER);
        lua_pushvalue(L, TAKE + 1);
        lua_call(L, 1, 0);
    }
    lua_settop(L, TAKE);
}

/* each(view, fn, row, live, over, from, n, take): take(fn(row), i) */
static int rows_each(lua_State *L)
{
    struct row_view *view = lua_touserdata(L, VIEW);
    int32_t from = (int32_t)lua_tointeger(L, FROM), n = (int32_t)lua_tointeger(L, N);
    lua_settop(L, TAKE);
    for (int32_t i = from; i < n; i++) {
        take_turn(L, view, i);
        lua_pushvalue(L, TAKE);
        lua_insert(L, -2);
        lua_pushinteger(L, i);
        lua_call(L, 2, 0);
        end_turn(L);
    }
    return 0;
}

/* filter(view, fn, row, live, over, from, n, wrong, kept, address of sel) -> kept */
static int rows_filter(lua_State *L)
{
    struct row_view *view = lua_touserdata(L, VIEW);
    int32_t from = (int32_t)lua_tointeger(L, FROM), n = (int32_t)lua_tointeger(L, N);
    int32_t *sel = (int32_t *)(intptr_t)lua_tonumber(L, SEL); /* NOLINT */
    int32_t kept = (int32_t)lua_tointeger(L, KEPT);
    lua_settop(L, TAKE);
    for (int32_t i = from; i < n; i++) {
        take_turn(L, view, i);
        if (lua_isboolean(L, -1) || lua_isnil(L, -1)) {
            if (lua_toboolean(L, -1))
                sel[kept++] = i;
        } else {
            lua_pushvalue(L, TAKE);
            lua_insert(L, -2);
            lua_call(L, 1, 0); /* raises */
        }
        end_turn(L);
    }
    lua_pushinteger(L, kept);
    return 1;
}

int mt_lua_rows(lua_State *L)
{
    static const luaL_Reg functions[] = {
        {"new", rows_new},   {"bind", rows_bind},     {"index", rows_index},
        {"each", rows_each}, {"filter", rows_filter}, {NULL, NULL},
    };
    lua_newtable(L);
    luaL_register(L, NULL, functions);
    return 1;
}
