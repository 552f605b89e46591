/* SPDX-License-Identifier: Apache-2.0
 *
 * columnar_parquet.cc - batches into a Parquet file, over Arrow C++.
 *
 * The bytes go to a function of the sink and never to a file of Arrow's: what is
 * durable, and when, is the sink's own business, and an errno stays an errno. The file
 * is opened by the first batch, because only rows show where a dictionary pays: on a
 * column of user ids it is built, found too large and thrown away, for 10-30 % of the
 * time; on a column of event names it makes the file small. */
#include <arrow/api.h>
#include <arrow/c/bridge.h>
#include <parquet/arrow/schema.h>
#include <parquet/arrow/writer.h>
#include <parquet/metadata.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <unordered_set>

#include "columnar_arrow.h"

struct parquet_writer final : mt_file_writer {
    std::shared_ptr<arrow::Schema> schema;
    std::shared_ptr<arrow::KeyValueMetadata> metadata;
    parquet::WriterProperties::Builder properties;
    std::shared_ptr<byte_stream> stream;
    std::unique_ptr<parquet::arrow::FileWriter> file; /* NULL before the first batch */

    ~parquet_writer() override
    {
        if (stream->error == 0)
            stream->error = ECANCELED; /* Arrow's destructor would write a footer */
    }
    enum mt_status write(const struct ArrowArray *array, struct mt_error *err) override;
    enum mt_status finish(int64_t *rows, struct mt_error *err) override;
};

/* ---- which columns get a dictionary */

constexpr int64_t SAMPLE_ROWS = 4096;

/* A quarter of the first values, or fewer, differ. */
static bool few_distinct(const arrow::Array &leaf)
{
    bool text = arrow::is_base_binary_like(leaf.type_id());
    int width = text ? 0 : leaf.type()->byte_width();
    const uint8_t *fixed = text ? nullptr : leaf.data()->GetValues<uint8_t>(1, 0);
    int64_t n = std::min(leaf.length(), SAMPLE_ROWS);
    std::unordered_set<std::string_view> seen;
    for (int64_t i = 0; i < n && (int64_t)seen.size() <= n / 4; i++) {
        if (leaf.IsNull(i))
            continue;
        if (text)
            seen.insert(static_cast<const arrow::BinaryArray &>(leaf).GetView(i));
        else
            seen.emplace((const char *)fixed + (leaf.offset() + i) * width, (size_t)width);
    }
    return n > 0 && (int64_t)seen.size() <= n / 4;
}

/* The arrays that hold values, in the order of Parquet's columns. */
static void collect_leaves(const std::shared_ptr<arrow::Array> &array, arrow::ArrayVector *leaves)
{
    if (array->type_id() == arrow::Type::STRUCT) {
        const auto &record = static_cast<const arrow::StructArray &>(*array);
        for (int i = 0; i < record.num_fields(); i++)
            collect_leaves(record.field(i), leaves);
    } else if (array->type_id() == arrow::Type::MAP) {
        const auto &map = static_cast<const arrow::MapArray &>(*array);
        collect_leaves(map.keys(), leaves);
        collect_leaves(map.items(), leaves);
    } else if (array->type_id() == arrow::Type::LIST) {
        collect_leaves(static_cast<const arrow::ListArray &>(*array).values(), leaves);
    } else {
        leaves->push_back(array);
    }
}

static arrow::Status choose_dictionaries(parquet_writer *writer, const arrow::RecordBatch &batch)
{
    std::shared_ptr<parquet::SchemaDescriptor> columns;
    ARROW_RETURN_NOT_OK(parquet::arrow::ToParquetSchema(writer->schema.get(),
                                                        *writer->properties.build(), &columns));
    arrow::ArrayVector leaves;
    for (const auto &column : batch.columns())
        collect_leaves(column, &leaves);
    for (size_t i = 0; i < leaves.size(); i++)
        if (leaves[i]->type_id() != arrow::Type::BOOL && few_distinct(*leaves[i]))
            writer->properties.enable_dictionary(columns->Column((int)i)->path());
    return arrow::Status::OK();
}

/* ---- writing */

static arrow::Status open_file(parquet_writer *writer)
{
    ARROW_ASSIGN_OR_RAISE(writer->file, parquet::arrow::FileWriter::Open(
                                            *writer->schema, arrow::default_memory_pool(),
                                            writer->stream, writer->properties.build()));
    return arrow::Status::OK();
}

static arrow::Status write_batch(parquet_writer *writer, const struct ArrowArray *array)
{
    ARROW_ASSIGN_OR_RAISE(auto batch, borrow_rows(writer->schema, array));
    if (!writer->file) {
        ARROW_RETURN_NOT_OK(choose_dictionaries(writer, *batch));
        ARROW_RETURN_NOT_OK(open_file(writer));
    }
    return writer->file->WriteRecordBatch(*batch);
}

enum mt_status parquet_writer::write(const struct ArrowArray *array, struct mt_error *err)
{
    arrow::Status status = write_batch(this, array);
    return status.ok() ? MT_OK : stream->failed("Parquet", status, err);
}

static arrow::Status close_file(parquet_writer *writer, int64_t *rows)
{
    if (!writer->file)
        ARROW_RETURN_NOT_OK(open_file(writer));
    if (writer->metadata->size() > 0)
        ARROW_RETURN_NOT_OK(writer->file->AddKeyValueMetadata(writer->metadata));
    ARROW_RETURN_NOT_OK(writer->file->Close());
    *rows = writer->file->metadata()->num_rows();
    return arrow::Status::OK();
}

enum mt_status parquet_writer::finish(int64_t *rows, struct mt_error *err)
{
    arrow::Status status = close_file(this, rows);
    return status.ok() ? MT_OK : stream->failed("Parquet", status, err);
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
        {"gzip", arrow::Compression::GZIP},
        {"zstd", arrow::Compression::ZSTD},
        {"lz4", arrow::Compression::LZ4},
    };
    for (const auto &codec : codecs)
        if (strcasecmp(name, codec.name) == 0) {
            *out = codec.type;
            return MT_OK;
        }
    return mt_fail(err, MT_REJECT, MT_CLASS_JOB,
                   "Parquet compression \"%s\" is not known; there are none, uncompressed, snappy, "
                   "gzip, zstd and lz4",
                   name);
}

/* Refuses what Parquet has no form for. */
static enum mt_status import_schema(const struct ArrowSchema *schema, parquet_writer *writer,
                                    struct mt_error *err)
{
    struct ArrowSchema copy;
    mt_schema_copy(schema, &copy);
    auto given = arrow::ImportSchema(&copy);
    if (!given.ok())
        return mt_fail(err, MT_REJECT, MT_CLASS_JOB, "Parquet cannot hold this schema: %s",
                       given.status().message().c_str());
    std::shared_ptr<parquet::SchemaDescriptor> unused;
    arrow::FieldVector fields;
    for (const auto &field : given.ValueOrDie()->fields()) {
        fields.push_back(as_nullable(field));
        arrow::Schema alone({fields.back()});
        arrow::Status status =
            parquet::arrow::ToParquetSchema(&alone, *writer->properties.build(), &unused);
        if (!status.ok())
            return mt_fail(err, MT_REJECT, MT_CLASS_JOB, "Parquet cannot hold column \"%s\": %s",
                           field->name().c_str(), status.message().c_str());
    }
    if (fields.empty())
        return mt_fail(err, MT_REJECT, MT_CLASS_JOB, "Parquet needs at least one column");
    writer->schema = arrow::schema(std::move(fields));
    return MT_OK;
}

static enum mt_status set_up(parquet_writer *writer, const struct ArrowSchema *schema,
                             const struct mt_file_settings *settings, struct mt_error *err)
{
    arrow::Compression::type codec;
    enum mt_status status = codec_of(settings->compression, &codec, err);
    if (status != MT_OK)
        return status;
    writer->properties.compression(codec)->disable_dictionary()->enable_store_decimal_as_integer();
    if (settings->row_group_rows > 0)
        writer->properties.max_row_group_length(settings->row_group_rows);
    writer->metadata = arrow::KeyValueMetadata::Make({}, {});
    for (size_t i = 0; settings->metadata && i < settings->metadata->n; i++)
        writer->metadata->Append(settings->metadata->items[i].key,
                                 settings->metadata->items[i].value);
    return import_schema(schema, writer, err);
}

enum mt_status mt_make_parquet(const struct ArrowSchema *schema,
                               const struct mt_file_settings *settings, mt_write_fn write,
                               void *ctx, std::unique_ptr<mt_file_writer> *out,
                               struct mt_error *err)
{
    auto writer = std::make_unique<parquet_writer>();
    writer->stream = std::make_shared<byte_stream>(write, ctx);
    enum mt_status status = set_up(writer.get(), schema, settings, err);
    if (status == MT_OK)
        *out = std::move(writer);
    return status;
}
