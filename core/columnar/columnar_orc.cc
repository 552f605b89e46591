/* SPDX-License-Identifier: Apache-2.0
 *
 * columnar_orc.cc - batches into an ORC file, over Arrow C++.
 *
 * Times become ORC's "timestamp with local time zone", an instant, which Spark reads as
 * TIMESTAMP; ORC's plain timestamp moves with the zone of the process that reads it. Arrow
 * offers no place for words in the footer. It says nothing about rows either, so they are
 * counted here. */
#include <arrow/adapters/orc/adapter.h>
#include <arrow/c/bridge.h>

#include <cerrno>
#include <cstring>

#include "columnar_arrow.h"

struct orc_writer final : mt_file_writer {
    ~orc_writer() override
    {
        if (stream->error == 0)
            stream->error = ECANCELED; /* nothing is written by destructors */
    }
    enum mt_status write(const struct ArrowArray *array, struct mt_error *err) override;
    enum mt_status finish(int64_t *rows, struct mt_error *err) override;

    arrow::Status open();
    std::shared_ptr<arrow::Schema> schema;
    arrow::adapters::orc::WriteOptions options;
    std::shared_ptr<byte_stream> stream;
    std::unique_ptr<arrow::adapters::orc::ORCFileWriter> file; /* NULL before the first batch */
    int64_t rows = 0;
};

arrow::Status orc_writer::open()
{
    if (!file) {
        ARROW_ASSIGN_OR_RAISE(file,
                              arrow::adapters::orc::ORCFileWriter::Open(stream.get(), options));
    }
    return arrow::Status::OK();
}

/* Arrow gives ORC a negative fraction for a time before 1970 that has one, and Spark then
 * fails on the file (seen). */
static bool has_bad_time(const arrow::Array &array)
{
    if (array.type_id() == arrow::Type::TIMESTAMP) {
        const auto &times = static_cast<const arrow::TimestampArray &>(array);
        for (int64_t i = 0; i < times.length(); i++)
            if (times.IsValid(i) && times.Value(i) < 0 && times.Value(i) % 1000000 != 0)
                return true;
    }
    for (const auto &child : array.data()->child_data)
        if (has_bad_time(*arrow::MakeArray(child)))
            return true;
    return false;
}

static enum mt_status check_times(const arrow::RecordBatch &batch, struct mt_error *err)
{
    for (int i = 0; i < batch.num_columns(); i++)
        if (has_bad_time(*batch.column(i)))
            return mt_fail(err, MT_REJECT, MT_CLASS_DATA,
                           "column \"%s\" has a time before 1970 with a fraction of a second, "
                           "which Arrow writes into ORC in a form that readers refuse: write "
                           "Parquet, or cut the fraction before the sink",
                           batch.column_name(i).c_str());
    return MT_OK;
}

enum mt_status orc_writer::write(const struct ArrowArray *array, struct mt_error *err)
{
    auto batch = borrow_rows(schema, array);
    arrow::Status status = batch.status();
    if (status.ok() && check_times(**batch, err) != MT_OK)
        return MT_REJECT;
    if (status.ok())
        status = open();
    if (status.ok())
        status = file->Write(**batch);
    rows += array->length;
    return status.ok() ? MT_OK : stream->failed("ORC", status, err);
}

/* A file without a batch has no schema to be opened with: an empty one gives it. */
enum mt_status orc_writer::finish(int64_t *written, struct mt_error *err)
{
    arrow::Status status = arrow::Status::OK();
    if (!file) {
        auto empty = arrow::RecordBatch::MakeEmpty(schema);
        status = empty.ok() ? open() : empty.status();
        if (status.ok())
            status = file->Write(**empty);
    }
    if (status.ok())
        status = file->Close();
    *written = rows;
    return status.ok() ? MT_OK : stream->failed("ORC", status, err);
}

/* ---- a new writer */

static enum mt_status codec_of(const char *name, arrow::Compression::type *out,
                               struct mt_error *err)
{
    static const struct {
        const char *name;
        arrow::Compression::type type;
    } codecs[] = {
        {"none", arrow::Compression::UNCOMPRESSED},
        {"uncompressed", arrow::Compression::UNCOMPRESSED},
        {"snappy", arrow::Compression::SNAPPY},
        {"zlib", arrow::Compression::GZIP},
        {"zstd", arrow::Compression::ZSTD},
        {"lz4", arrow::Compression::LZ4},
    };
    for (const auto &codec : codecs)
        if (strcasecmp(name, codec.name) == 0) {
            *out = codec.type;
            return MT_OK;
        }
    return mt_fail(err, MT_REJECT, MT_CLASS_JOB,
                   "ORC compression \"%s\" is not known; there are none, uncompressed, snappy, "
                   "zlib, zstd and lz4",
                   name);
}

static enum mt_status import_schema(const struct ArrowSchema *schema, orc_writer *writer,
                                    struct mt_error *err)
{
    struct ArrowSchema copy;
    mt_schema_copy(schema, &copy);
    auto given = arrow::ImportSchema(&copy);
    if (!given.ok())
        return mt_fail(err, MT_REJECT, MT_CLASS_JOB, "ORC cannot hold this schema: %s",
                       given.status().message().c_str());
    arrow::FieldVector fields;
    for (const auto &field : (*given)->fields())
        fields.push_back(as_nullable(field));
    if (fields.empty())
        return mt_fail(err, MT_REJECT, MT_CLASS_JOB, "ORC needs at least one column");
    writer->schema = arrow::schema(std::move(fields));
    return MT_OK;
}

enum mt_status mt_make_orc(const struct ArrowSchema *schema,
                           const struct mt_file_settings *settings, mt_write_fn write, void *ctx,
                           std::unique_ptr<mt_file_writer> *out, struct mt_error *err)
{
    auto writer = std::make_unique<orc_writer>();
    writer->stream = std::make_shared<byte_stream>(write, ctx);
    enum mt_status status = codec_of(settings->compression, &writer->options.compression, err);
    if (status == MT_OK)
        status = import_schema(schema, writer.get(), err);
    if (status == MT_OK)
        *out = std::move(writer);
    return status;
}
