/* SPDX-License-Identifier: Apache-2.0
 *
 * script_interrupt.c - Ctrl-C in a state that drives its queries itself: an error "interrupted",
 * raised where the script is; and SIGTERM: "terminated". While the core is at work it is finished
 * first, so that a batch under way is committed. A second one, before the first was heard, ends the
 * process: a compiled loop hears nothing. */
#include <errno.h>
#include <sys/eventfd.h>

#include "script/script_int.h"

static lua_State *state;
static int fd = -1;                             /* eventfd: ends a wait */
static volatile sig_atomic_t held, interrupted; /* the signal's number, or 0 */

const char *mt_interrupt_take(void)
{
    eventfd_t count;
    int number = interrupted;
    if (number == 0)
        return NULL;
    eventfd_read(fd, &count);
    interrupted = 0;
    return number == SIGTERM ? "terminated" : "interrupted";
}

static void raise_it(lua_State *L)
{
    lua_pushstring(L, mt_interrupt_take());
    lua_error(L);
}

static void on_hook(lua_State *L, lua_Debug *ar)
{
    (void)ar;
    lua_sethook(L, NULL, 0, 0);
    raise_it(L);
}

static void on_signal(int number)
{
    int before = errno;
    if (interrupted) {
        signal(number, SIG_DFL);
        raise(number);
    }
    interrupted = number;
    eventfd_write(fd, 1);
    if (!held)
        lua_sethook(state, on_hook, LUA_MASKCALL | LUA_MASKRET | LUA_MASKCOUNT, 1);
    errno = before;
}

void mt_interrupt_catch(lua_State *L)
{
    struct sigaction action = {.sa_handler = on_signal};
    state = L;
    if (fd < 0)
        fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

int mt_interrupt_fd(void)
{
    return fd;
}

void mt_interrupt_hold(void)
{
    held = 1;
}

void mt_interrupt_allow(lua_State *L, bool now)
{
    held = 0;
    if (interrupted && now)
        raise_it(L);
}
