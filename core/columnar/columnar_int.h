/* SPDX-License-Identifier: Apache-2.0
 *
 * columnar_int.h - what the files of this room share: the wall that no C++ exception
 * passes. */
#ifndef MT_COLUMNAR_INT_H
#define MT_COLUMNAR_INT_H

#include <exception>
#include <memory>
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

/* ---- files: one encoder a format */

struct mt_file_writer {
    virtual ~mt_file_writer() = default;
    virtual enum mt_status write(const struct ArrowArray *array, struct mt_error *err) = 0;
    virtual enum mt_status finish(int64_t *rows, struct mt_error *err) = 0;
};

/* Each returns through *out, or refuses the schema or a setting. */
using mt_file_maker = enum mt_status (*)(const struct ArrowSchema *schema,
                                         const struct mt_file_settings *settings, mt_write_fn write,
                                         void *ctx, std::unique_ptr<mt_file_writer> *out,
                                         struct mt_error *err);
enum mt_status mt_make_parquet(const struct ArrowSchema *, const struct mt_file_settings *,
                               mt_write_fn, void *, std::unique_ptr<mt_file_writer> *,
                               struct mt_error *);
enum mt_status mt_make_orc(const struct ArrowSchema *, const struct mt_file_settings *, mt_write_fn,
                           void *, std::unique_ptr<mt_file_writer> *, struct mt_error *);
enum mt_status mt_make_json(const struct ArrowSchema *, const struct mt_file_settings *,
                            mt_write_fn, void *, std::unique_ptr<mt_file_writer> *,
                            struct mt_error *);
enum mt_status mt_make_csv(const struct ArrowSchema *, const struct mt_file_settings *, mt_write_fn,
                           void *, std::unique_ptr<mt_file_writer> *, struct mt_error *);
enum mt_status mt_make_text(const struct ArrowSchema *, const struct mt_file_settings *,
                            mt_write_fn, void *, std::unique_ptr<mt_file_writer> *,
                            struct mt_error *);

#endif
