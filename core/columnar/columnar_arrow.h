/* SPDX-License-Identifier: Apache-2.0
 *
 * columnar_arrow.h - what the encoders over Arrow C++ share. */
#ifndef MT_COLUMNAR_ARROW_H
#define MT_COLUMNAR_ARROW_H

#include <arrow/api.h>
#include <arrow/io/interfaces.h>

#include "columnar_int.h"

/* The sink's function as a stream. */
struct byte_stream final : arrow::io::OutputStream {
    byte_stream(mt_write_fn write, void *ctx) : write_(write), ctx_(ctx)
    {
    }
    arrow::Status Write(const void *bytes, int64_t len) override;
    arrow::Status Close() override;
    bool closed() const override;
    arrow::Result<int64_t> Tell() const override;

    /* The words of a status, by the errno when there is one. */
    enum mt_status failed(const char *format, const arrow::Status &status, struct mt_error *err);

    int error = 0; /* errno of the write that failed; nothing is written after it */

  private:
    mt_write_fn write_;
    void *ctx_;
    int64_t written_ = 0;
    bool closed_ = false;
};

/* FATAL for an errno of a write. */
enum mt_status mt_write_failed(const char *format, int error, struct mt_error *err);
/* The caller's array under a struct of ours that releases nothing. */
arrow::Result<std::shared_ptr<arrow::RecordBatch>>
borrow_rows(const std::shared_ptr<arrow::Schema> &schema, const struct ArrowArray *array);
/* The field and all in it may be null, as Spark writes them; but the keys of a MAP. */
std::shared_ptr<arrow::Field> as_nullable(const std::shared_ptr<arrow::Field> &field);

#endif
