/* SPDX-License-Identifier: Apache-2.0
 *
 * columnar_text.h - what the encoders of JSON, CSV and text share: where bytes go, and
 * values as Spark writes them. */
#ifndef MT_COLUMNAR_TEXT_H
#define MT_COLUMNAR_TEXT_H

#include <string>
#include <string_view>
#include <vector>

#include "columnar_int.h"

namespace arrow::util
{
class Codec;
class Compressor;
} // namespace arrow::util

/* Bytes on their way to the sink, through a compressor when there is one. */
struct text_stream {
    text_stream(mt_write_fn write, void *ctx);
    ~text_stream();
    /* REJECT for an unknown name. */
    enum mt_status use_codec(const char *name, struct mt_error *err);
    /* Passes on what has gathered; `format` is for the words. */
    enum mt_status flush(const char *format, struct mt_error *err);
    enum mt_status end(const char *format, struct mt_error *err);

    std::string bytes; /* add here, and flush once there are FLUSH_BYTES */
    static constexpr size_t FLUSH_BYTES = 64 * 1024;

  private:
    enum mt_status pass_on(const void *data, size_t len, const char *format, struct mt_error *err);
    enum mt_status compress(const char *format, struct mt_error *err);
    mt_write_fn write_;
    void *ctx_;
    std::unique_ptr<arrow::util::Codec> codec_;
    std::shared_ptr<arrow::util::Compressor> compressor_;
    std::vector<uint8_t> packed_;
};

/* A pattern of Java's DateTimeFormatter, read once. */
struct time_pattern {
    struct piece {
        char letter; /* '\0': text */
        int count;
        std::string text;
    };
    std::vector<piece> pieces; /* none: the default */
    /* REJECT for a letter that is not known. option: whose value it is. */
    enum mt_status read(const char *option, const char *pattern, struct mt_error *err);
    void add_date(int32_t days, std::string *out) const;
    void add_timestamp(int64_t micros, std::string *out) const;
};

void text_add_int(int64_t value, std::string *out);
void text_add_double(double value, bool is_float, std::string *out); /* Java's form */
void text_add_decimal(const uint64_t unscaled[2], int32_t scale, std::string *out);
void text_add_base64(std::string_view bytes, std::string *out);

/* STRING or BINARY at an absolute place. */
static inline std::string_view text_at(const struct ArrowArray *array, int64_t at)
{
    const int32_t *offsets = (const int32_t *)array->buffers[1] + at;
    return {(const char *)array->buffers[2] + offsets[0], (size_t)(offsets[1] - offsets[0])};
}
static inline bool bit_at(const struct ArrowArray *array, int64_t at)
{
    return ((const uint8_t *)array->buffers[1])[at >> 3] >> (at & 7) & 1;
}
/* TINYINT ... BIGINT at an absolute place. */
static inline int64_t int_at(enum mt_type type, const struct ArrowArray *array, int64_t at)
{
    const void *values = array->buffers[1];
    switch (type) {
    case MT_TINYINT:
        return ((const int8_t *)values)[at];
    case MT_SMALLINT:
        return ((const int16_t *)values)[at];
    case MT_INT:
        return ((const int32_t *)values)[at];
    default:
        return ((const int64_t *)values)[at];
    }
}

/* REJECT: bytes that are no text, in words that name the column. */
enum mt_status text_refuse_bytes(const char *format, const char *column, std::string_view bytes,
                                 struct mt_error *err);

#endif
