/* SPDX-License-Identifier: Apache-2.0
 *
 * script_prompt.c - a line from a person, with editing, history and completion by libedit. (Not
 * readline: its licence is not one that this program could be passed on under.)
 *
 * Ctrl-C must not jump out of libedit, which may be changing its lists: characters are read here,
 * and a signal is the end of the input, so that libedit leaves by its own way. */
#include <locale.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

#include <editline/readline.h>

#include "script/script_int.h"

enum { REMEMBERED = 2000 }; /* lines of history */

static lua_State *asking; /* the state whose function completes, at index 2 */

/* Bytes that a and b begin with alike. */
static size_t common(const char *a, const char *b)
{
    size_t n = 0;
    while (a[n] && a[n] == b[n])
        n++;
    return n;
}

/* The next byte; -1: none will come, or a signal came. */
static int next_byte(void)
{
    struct pollfd fds[2] = {{.fd = STDIN_FILENO, .events = POLLIN},
                            {.fd = mt_interrupt_fd(), .events = POLLIN}};
    unsigned char byte;
    do
        if (poll(fds, 2, -1) > 0 && fds[1].revents)
            return -1;
    while (!fds[0].revents);
    return read(STDIN_FILENO, &byte, 1) == 1 ? byte : -1;
}

/* The next character, which libedit takes as a wide one. What is no character is read as U+FFFD. */
static int next_char(FILE *in)
{
    mbstate_t state = {0};
    (void)in;
    for (int byte; (byte = next_byte()) >= 0;) {
        wchar_t wide;
        char one = (char)byte;
        size_t len = mbrtowc(&wide, &one, 1, &state);
        if (len == (size_t)-1)
            return 0xfffd;
        if (len != (size_t)-2)
            return (int)wide;
    }
    return -1;
}

/* Calls the function at index 2. */
static bool ask(lua_State *L, const char *word)
{
    lua_pushvalue(L, 2);
    lua_pushstring(L, word);
    return lua_pcall(L, 1, 1, 0) == 0 && lua_istable(L, -1) && lua_objlen(L, -1) > 0;
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
    setlocale(LC_CTYPE, "C.UTF-8"); /* what is typed is text of UTF-8, as the job's is */
    rl_readline_name = "moontide";
    rl_getc_function = next_char;
    rl_attempted_completion_function = complete;
    static char breaks[] = " \t\n\"'()[]{},;=<>~+-*/%^#";
    rl_completer_word_break_characters = breaks;
    rl_completion_append_character = '\0';
    using_history();
    stifle_history(REMEMBERED);
}

/* prompt(text, complete) -> a line; nil: no more; nil, "interrupted" or "terminated" */
int mt_lua_prompt(lua_State *L)
{
    const char *text = luaL_checkstring(L, 1);
    luaL_checktype(L, 2, LUA_TFUNCTION);
    asking = L;
    if (!rl_attempted_completion_function)
        set_up();
    mt_interrupt_hold();
    char *line = readline(text);
    mt_interrupt_allow(L, false);
    const char *signal = mt_interrupt_take();
    if (signal) {
        fputs("\n", stdout);
        free(line);
        lua_pushnil(L);
        lua_pushstring(L, signal);
        return 2;
    }
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
