/* SPDX-License-Identifier: Apache-2.0
 *
 * script_prompt.c - a line from a person, with editing, history and completion by libedit. (Not
 * readline: its licence is not one that this program could be passed on under.) */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <editline/readline.h>

#include "script/script_int.h"

enum { REMEMBERED = 2000 }; /* lines of history */

static lua_State *asking;  /* the state whose function completes, at index 2 */
static sigjmp_buf outside; /* where Ctrl-C goes while a line is read */

/* Bytes that a and b begin with alike. */
static size_t common(const char *a, const char *b)
{
    size_t n = 0;
    while (a[n] && a[n] == b[n])
        n++;
    return n;
}

/* Calls the function at index 2. Ctrl-C must not jump out of Lua: meanwhile it is an error there.
 */
static bool ask(lua_State *L, const char *word)
{
    lua_pushvalue(L, 2);
    lua_pushstring(L, word);
    mt_interrupt_jump(NULL);
    bool known = lua_pcall(L, 1, 1, 0) == 0 && lua_istable(L, -1) && lua_objlen(L, -1) > 0;
    mt_interrupt_jump(&outside);
    return known;
}

/* What the function at index 2 says of a word, as libedit wants it: the common beginning first. */
static char **complete(const char *word, int start, int end)
{
    lua_State *L = asking;
    (void)start, (void)end;
    rl_attempted_completion_over = 1;
    if (!ask(L, word)) {
        lua_pop(L, 1);
        return NULL;
    }
    size_t n = lua_objlen(L, -1);
    char **matches = mt_alloc((n + 2) * sizeof *matches);
    for (size_t i = 1; i <= n; i++) {
        lua_rawgeti(L, -1, (int)i);
        matches[i] = mt_strdup(lua_tostring(L, -1));
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    size_t shared = strlen(matches[1]);
    for (size_t i = 2; i <= n; i++)
        if (common(matches[1], matches[i]) < shared)
            shared = common(matches[1], matches[i]);
    matches[0] = mt_strndup(matches[1], shared);
    return matches;
}

static void set_up(void)
{
    rl_readline_name = "moontide";
    rl_attempted_completion_function = complete;
    static char breaks[] = " \t\n\"'()[]{},;=<>~+-*/%^#";
    rl_completer_word_break_characters = breaks;
    rl_completion_append_character = '\0';
    using_history();
    stifle_history(REMEMBERED);
}

/* prompt(text, complete) -> a line; nil: no more; false: interrupted */
int mt_lua_prompt(lua_State *L)
{
    const char *text = luaL_checkstring(L, 1);
    luaL_checktype(L, 2, LUA_TFUNCTION);
    asking = L;
    if (!rl_attempted_completion_function)
        set_up();
    if (sigsetjmp(outside, 1)) { /* out of libedit, in the midst of a line */
        mt_interrupt_jump(NULL);
        rl_deprep_terminal();
        fputs("\n", stdout);
        lua_pushboolean(L, false);
        return 1;
    }
    mt_interrupt_jump(&outside);
    char *line = readline(text);
    mt_interrupt_jump(NULL);
    if (line && *line)
        add_history(line);
    lua_pushstring(L, line); /* NULL: nil */
    free(line);
    return 1;
}

/* history(file, write): reads it, or writes it */
int mt_lua_history(lua_State *L)
{
    const char *file = luaL_checkstring(L, 1);
    if (!rl_attempted_completion_function)
        set_up();
    if (lua_toboolean(L, 2))
        write_history(file);
    else
        read_history(file);
    return 0;
}
