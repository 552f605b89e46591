/* SPDX-License-Identifier: Apache-2.0
 *
 * script_mock.c - the Kafka inside this process, as the command line's demo sees it. */
#include <pthread.h>
#include <signal.h>

#include "script/script_int.h"
#include "source/kafka/kafka_mock.h"

enum { SEED = 1 }; /* a demo shows the same orders each time */

static const char TYPE[] = "moontide.mock";

static struct mt_mock *check_mock(lua_State *L)
{
    return *(struct mt_mock **)luaL_checkudata(L, 1, TYPE);
}

/* Signals are for the main thread: threads made now inherit that they are blocked. */
static void hold_signals(sigset_t *before)
{
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, before);
}

static int mock_brokers(lua_State *L)
{
    lua_pushstring(L, mt_mock_brokers(check_mock(L)));
    return 1;
}

/* mock:produce(rows, seconds): on a thread of its own */
static int mock_produce(lua_State *L)
{
    sigset_t before;
    struct mt_mock *mock = check_mock(L);
    int64_t rows = (int64_t)luaL_checknumber(L, 2);
    double seconds = luaL_checknumber(L, 3);
    hold_signals(&before);
    mt_mock_produce(mock, rows, seconds, SEED);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return 0;
}

static int mock_stop(lua_State *L)
{
    mt_mock_stop(check_mock(L));
    return 0;
}

static int mock_free(lua_State *L)
{
    mt_mock_free(check_mock(L));
    return 0;
}

static void push_type(lua_State *L)
{
    static const luaL_Reg methods[] = {
        {"brokers", mock_brokers},
        {"produce", mock_produce},
        {"stop", mock_stop},
        {NULL, NULL},
    };
    if (!luaL_newmetatable(L, TYPE))
        return;
    lua_newtable(L);
    luaL_register(L, NULL, methods);
    lua_setfield(L, -2, "__index");
    lua_pushcfunction(L, mock_free);
    lua_setfield(L, -2, "__gc");
}

int mt_lua_mock(lua_State *L)
{
    sigset_t before;
    struct mt_error err = {0};
    const char *topic = luaL_checkstring(L, 1);
    int32_t partitions = luaL_checkint(L, 2);
    struct mt_mock **mock = lua_newuserdata(L, sizeof *mock);
    hold_signals(&before);
    *mock = mt_mock_new(topic, partitions, &err);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!*mock)
        return mt_lua_failure(L, &err);
    push_type(L);
    lua_setmetatable(L, -2);
    return 1;
}
