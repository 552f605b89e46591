/* SPDX-License-Identifier: Apache-2.0
 *
 * script.h - the LuaJIT host. The only room that knows lua.h. It gives the engine a
 * struct mt_job and gives Lua the leaf functions of ffi.h. */
#ifndef MT_SCRIPT_H
#define MT_SCRIPT_H

#include "base/base.h"

/* Runs lua/moontide/cli/init.lua with the process's arguments; returns the exit code. */
int mt_script_main(int argc, char **argv);
#endif
