/* SPDX-License-Identifier: Apache-2.0
 *
 * columnar_int.h - what the files of this room share: the wall that no C++ exception
 * passes. */
#ifndef MT_COLUMNAR_INT_H
#define MT_COLUMNAR_INT_H

#include <exception>
#include <new>

#include "columnar/columnar.h"

/* A function of columnar.h: all else here is hidden, but these LuaJIT looks up in the
 * executable. */
#define MT_FACE extern "C" __attribute__((visibility("default")))

/* Runs body, which returns a status, and turns what it throws into words. */
template <class Body>
static enum mt_status mt_guarded(const char *doing, struct mt_error *err, Body body) noexcept
{
    try {
        return body();
    } catch (const std::bad_alloc &) {
        return mt_fail(err, MT_FATAL, MT_CLASS_MACHINE, "%s: out of memory", doing);
    } catch (const std::exception &thrown) {
        return mt_fail(err, MT_FATAL, MT_CLASS_INTERNAL, "%s: %s", doing, thrown.what());
    }
}

#endif
