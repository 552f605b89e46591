/* SPDX-License-Identifier: Apache-2.0
 *
 * script_ffi.c - the number by which _core.lua knows that the declarations it was
 * given are those of this program. */
#include "script/ffi.h"

int32_t mt_abi(void)
{
    return 5;
}
