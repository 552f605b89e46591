/* SPDX-License-Identifier: Apache-2.0
 *
 * columnar_text.cc - lines of text on their way into a file, and the values in them.
 *
 * Numbers have Java's form. The shortest digits of a double come from the C++ library,
 * a tenth of what printing and reading back costs; only numbers too small to be normal,
 * where Java wants two digits, go the slow way of batch_number.c. */
#include <arrow/util/compression.h>

#include <cfloat>
#include <charconv>
#include <cmath>
#include <cstring>

#include "columnar_arrow.h"
#include "columnar_text.h"

/* ---- the stream */

text_stream::text_stream(mt_write_fn write, void *ctx) : write_(write), ctx_(ctx)
{
}

text_stream::~text_stream() = default;

static arrow::Result<std::unique_ptr<arrow::util::Codec>> make_codec(std::string_view name)
{
    if (name == "zstd")
        return arrow::util::Codec::Create(arrow::Compression::ZSTD);
    if (name == "bzip2")
        return arrow::util::Codec::Create(arrow::Compression::BZ2);
    arrow::util::GZipCodecOptions options;
    options.gzip_format =
        name == "gzip" ? arrow::util::GZipFormat::GZIP : arrow::util::GZipFormat::ZLIB;
    return arrow::util::Codec::Create(arrow::Compression::GZIP, options);
}

enum mt_status text_stream::use_codec(const char *name, struct mt_error *err)
{
    static const char *const names[] = {"gzip", "zstd", "bzip2", "deflate"};
    if (strcasecmp(name, "none") == 0 || strcasecmp(name, "uncompressed") == 0)
        return MT_OK;
    for (const char *known : names) {
        if (strcasecmp(name, known) != 0)
            continue;
        auto codec = make_codec(known);
        auto compressor = codec.ok() ? (*codec)->MakeCompressor() : codec.status();
        if (!compressor.ok())
            return mt_fail(err, MT_REJECT, MT_CLASS_JOB, "compression \"%s\": %s", name,
                           compressor.status().message().c_str());
        codec_ = std::move(*codec);
        compressor_ = std::move(*compressor);
        packed_.resize(FLUSH_BYTES);
        return MT_OK;
    }
    return mt_fail(err, MT_REJECT, MT_CLASS_JOB,
                   "compression \"%s\" is not known; there are none, uncompressed, gzip, zstd, "
                   "bzip2 and deflate",
                   name);
}

enum mt_status text_stream::pass_on(const void *data, size_t len, const char *format,
                                    struct mt_error *err)
{
    int error = len ? write_(ctx_, data, len) : 0;
    return error ? mt_write_failed(format, error, err) : MT_OK;
}

static enum mt_status compressor_failed(const arrow::Status &status, struct mt_error *err)
{
    return mt_fail(err, MT_FATAL, MT_CLASS_INTERNAL, "cannot compress: %s",
                   status.ToString().c_str());
}

enum mt_status text_stream::compress(const char *format, struct mt_error *err)
{
    auto from = (const uint8_t *)bytes.data();
    for (size_t left = bytes.size(); left > 0;) {
        auto done =
            compressor_->Compress((int64_t)left, from, (int64_t)packed_.size(), packed_.data());
        if (!done.ok())
            return compressor_failed(done.status(), err);
        from += done->bytes_read;
        left -= (size_t)done->bytes_read;
        enum mt_status status = pass_on(packed_.data(), (size_t)done->bytes_written, format, err);
        if (status != MT_OK)
            return status;
        if (done->bytes_read == 0 && done->bytes_written == 0)
            packed_.resize(packed_.size() * 2); /* what it asks for */
    }
    return MT_OK;
}

enum mt_status text_stream::flush(const char *format, struct mt_error *err)
{
    enum mt_status status =
        compressor_ ? compress(format, err) : pass_on(bytes.data(), bytes.size(), format, err);
    bytes.clear();
    return status;
}

enum mt_status text_stream::end(const char *format, struct mt_error *err)
{
    enum mt_status status = flush(format, err);
    for (bool more = compressor_ != nullptr; status == MT_OK && more;) {
        auto done = compressor_->End((int64_t)packed_.size(), packed_.data());
        if (!done.ok())
            return compressor_failed(done.status(), err);
        more = done->should_retry;
        status = pass_on(packed_.data(), (size_t)done->bytes_written, format, err);
        if (more && done->bytes_written == 0)
            packed_.resize(packed_.size() * 2);
    }
    return status;
}

/* ---- numbers */

void text_add_int(int64_t value, std::string *out)
{
    char text[24];
    out->append(text, std::to_chars(text, text + sizeof text, value).ptr);
}

/* "d.ddde-07" apart: digits without the point, exponent of the first. */
static int take_apart(char *text, const char *end, std::string_view *digits)
{
    char *e = (char *)memchr(text, 'e', (size_t)(end - text));
    int exponent = 0;
    std::from_chars(e + (e[1] == '+' ? 2 : 1), end, exponent);
    size_t n = 1;
    if (text[1] == '.') {
        n = (size_t)(e - text) - 1;
        memmove(text + 1, text + 2, n - 1);
    }
    *digits = {text, n};
    return exponent;
}

static void add_digits(std::string_view digits, int exponent, std::string *out)
{
    bool scientific = exponent < -3 || exponent >= 7;
    size_t whole = scientific ? 1 : exponent < 0 ? 0 : (size_t)exponent + 1;
    if (!scientific && exponent < 0) {
        out->append("0.").append((size_t)-exponent - 1, '0').append(digits);
        return;
    }
    if (digits.size() <= whole)
        out->append(digits).append(whole - digits.size(), '0').append(".0");
    else
        out->append(digits.substr(0, whole)).append(1, '.').append(digits.substr(whole));
    if (scientific) {
        out->append(1, 'E');
        text_add_int(exponent, out);
    }
}

void text_add_double(double value, bool is_float, std::string *out)
{
    char text[48];
    double size = std::fabs(value);
    if (!(size >= (is_float ? (double)FLT_MIN : DBL_MIN) && size <= DBL_MAX)) {
        int32_t len = is_float ? mt_float_print((float)value, text) : mt_double_print(value, text);
        out->append(text, (size_t)len); /* zeros, NaN, infinities, the smallest */
        return;
    }
    auto scientific = std::chars_format::scientific;
    auto end = is_float ? std::to_chars(text, text + sizeof text, (float)size, scientific)
                        : std::to_chars(text, text + sizeof text, size, scientific);
    std::string_view digits;
    int exponent = take_apart(text, end.ptr, &digits);
    if (value < 0)
        out->append(1, '-');
    add_digits(digits, exponent, out);
}

void text_add_decimal(const uint64_t unscaled[2], int32_t scale, std::string *out)
{
    char text[48];
    out->append(text, (size_t)mt_decimal_print(unscaled, scale, text));
}

/* ---- bytes */

void text_add_base64(std::string_view bytes, std::string *out)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < bytes.size(); i += 3) {
        size_t n = bytes.size() - i < 3 ? bytes.size() - i : 3;
        uint32_t three = 0;
        for (size_t k = 0; k < 3; k++)
            three = three << 8 | (k < n ? (uint8_t)bytes[i + k] : 0u);
        char four[4];
        for (int k = 0; k < 4; k++)
            four[k] = (size_t)k <= n ? letters[three >> (18 - 6 * k) & 63] : '=';
        out->append(four, 4);
    }
}

enum mt_status text_refuse_bytes(const char *format, const char *column, std::string_view bytes,
                                 struct mt_error *err)
{
    char quoted[160];
    return mt_fail(err, MT_REJECT, MT_CLASS_DATA,
                   "column \"%s\": \"%s\" is not UTF-8, and %s holds text alone; keep the column "
                   "as BINARY, or mend its text before the sink",
                   column, mt_quote(bytes.data(), bytes.size(), quoted, sizeof quoted), format);
}
