/* SPDX-License-Identifier: Apache-2.0
 *
 * ffi.h - all that Lua may call by FFI: leaf functions only, none of which runs Lua.
 * The build preprocesses this file with MT_CDEF into the text that _core.lua hands
 * to ffi.cdef, so the compiler and LuaJIT read the same declarations. */
#ifndef MT_FFI_H
#define MT_FFI_H

#include "base/base.h"
#include "batch/batch.h"
#include "columnar/columnar.h"
#include "engine/engine.h"
#include "sink/sink.h"
#include "source/source.h"
#include "store/store.h"
#include "trigger/trigger.h"

/* Raised when a declaration above changes shape; _core.lua refuses another number. */
int32_t mt_abi(void);

#endif
