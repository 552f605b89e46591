/* SPDX-License-Identifier: Apache-2.0
 *
 * columnar_read.cc - a Parquet file as batches, over Arrow C++.
 *
 * Files of others are read too, and their types become ours as Spark has it: unsigned numbers the
 * next larger ones, times of any unit microseconds, those without a zone UTC. A value that would
 * not be the same then is an error and never another value. Row groups are read one after the
 * other: memory is bounded by the largest of them, not by the file. */
#include <arrow/api.h>
#include <arrow/array/concatenate.h>
#include <arrow/c/bridge.h>
#include <arrow/compute/cast.h>
#include <arrow/io/file.h>
#include <parquet/arrow/reader.h>
#include <parquet/arrow/schema.h>

#include <numeric>

#include "columnar_int.h"

struct mt_parquet_reader {
    std::string path;
    std::unique_ptr<parquet::arrow::FileReader> file;
    arrow::FieldVector fields;                         /* of types of ours */
    struct ArrowSchema schema;                         /* of these */
    std::vector<int> wanted;                           /* numbers of fields */
    std::shared_ptr<arrow::RecordBatchReader> batches; /* NULL before the first one */
    int64_t row;                                       /* of the file, that comes next */
};

/* ---- types */

static arrow::Result<std::shared_ptr<arrow::DataType>>
type_of_ours(const std::shared_ptr<arrow::DataType> &type);

static arrow::Result<std::shared_ptr<arrow::Field>>
field_of_ours(const std::shared_ptr<arrow::Field> &field)
{
    ARROW_ASSIGN_OR_RAISE(auto type, type_of_ours(field->type()));
    return arrow::field(field->name(), type, field->nullable());
}

static arrow::Result<std::shared_ptr<arrow::DataType>>
nested_of_ours(const std::shared_ptr<arrow::DataType> &type)
{
    arrow::FieldVector fields;
    for (const auto &field : type->fields()) {
        ARROW_ASSIGN_OR_RAISE(auto ours, field_of_ours(field));
        fields.push_back(std::move(ours));
    }
    if (type->id() == arrow::Type::STRUCT)
        return arrow::struct_(std::move(fields));
    if (type->id() != arrow::Type::MAP)
        return arrow::list(fields[0]);
    const auto &pair = fields[0]->type();
    return std::make_shared<arrow::MapType>(pair->field(0)->WithNullable(false), pair->field(1));
}

static arrow::Result<std::shared_ptr<arrow::DataType>>
type_of_ours(const std::shared_ptr<arrow::DataType> &type)
{
    switch (type->id()) {
    case arrow::Type::BOOL:
    case arrow::Type::INT8:
    case arrow::Type::INT16:
    case arrow::Type::INT32:
    case arrow::Type::INT64:
    case arrow::Type::FLOAT:
    case arrow::Type::DOUBLE:
    case arrow::Type::DATE32:
        return type;
    case arrow::Type::UINT8:
        return arrow::int16();
    case arrow::Type::UINT16:
        return arrow::int32();
    case arrow::Type::UINT32:
        return arrow::int64();
    case arrow::Type::UINT64:
        return arrow::decimal128(20, 0);
    case arrow::Type::HALF_FLOAT:
        return arrow::float32();
    case arrow::Type::DATE64:
        return arrow::date32();
    case arrow::Type::DECIMAL32:
    case arrow::Type::DECIMAL64:
    case arrow::Type::DECIMAL128: {
        const auto &decimal = static_cast<const arrow::DecimalType &>(*type);
        return arrow::decimal128(decimal.precision(), decimal.scale());
    }
    case arrow::Type::STRING:
    case arrow::Type::LARGE_STRING:
    case arrow::Type::STRING_VIEW:
        return arrow::utf8();
    case arrow::Type::BINARY:
    case arrow::Type::LARGE_BINARY:
    case arrow::Type::BINARY_VIEW:
    case arrow::Type::FIXED_SIZE_BINARY:
        return arrow::binary();
    case arrow::Type::TIMESTAMP:
        return arrow::timestamp(arrow::TimeUnit::MICRO, "UTC");
    case arrow::Type::DICTIONARY:
        return type_of_ours(static_cast<const arrow::DictionaryType &>(*type).value_type());
    case arrow::Type::LIST:
    case arrow::Type::LARGE_LIST:
    case arrow::Type::FIXED_SIZE_LIST:
    case arrow::Type::STRUCT:
    case arrow::Type::MAP:
        return nested_of_ours(type);
    default:
        return arrow::Status::TypeError("it is ", type->ToString(), ", which is no type of ours");
    }
}

static bool is_shifted(const arrow::ArrayData &data)
{
    if (data.offset != 0)
        return true;
    for (const auto &child : data.child_data)
        if (is_shifted(*child))
            return true;
    return false;
}

/* Of the type of ours, and with no offset anywhere, as Moontide's own columns are. */
static arrow::Result<std::shared_ptr<arrow::Array>>
as_ours(std::shared_ptr<arrow::Array> column, const std::shared_ptr<arrow::DataType> &type)
{
    if (!column->type()->Equals(*type)) {
        ARROW_ASSIGN_OR_RAISE(column, arrow::compute::Cast(*column, type));
    }
    if (!is_shifted(*column->data()))
        return column;
    return arrow::Concatenate({column});
}

/* ---- reading */

/* Numbers of Parquet's columns below a field. */
static void collect_columns(const parquet::arrow::SchemaField &field, std::vector<int> *columns)
{
    if (field.is_leaf())
        columns->push_back(field.column_index);
    for (const auto &child : field.children)
        collect_columns(child, columns);
}

static arrow::Status begin(mt_parquet_reader *reader)
{
    std::vector<int> columns, groups((size_t)reader->file->num_row_groups());
    std::iota(groups.begin(), groups.end(), 0);
    for (int i : reader->wanted)
        collect_columns(reader->file->manifest().schema_fields[(size_t)i], &columns);
    ARROW_ASSIGN_OR_RAISE(reader->batches, reader->file->GetRecordBatchReader(groups, columns));
    return arrow::Status::OK();
}

static struct mt_coords *coords_of(const mt_parquet_reader *reader, int64_t n)
{
    struct mt_coords *coords = mt_coords_new();
    mt_coords_start(coords, reader->path.c_str(), -1);
    for (int64_t i = 0; i < n; i++)
        mt_coords_add(coords, reader->row + i);
    return coords;
}

static arrow::Status next(mt_parquet_reader *reader, struct mt_batch *out)
{
    if (!reader->batches)
        ARROW_RETURN_NOT_OK(begin(reader));
    ARROW_ASSIGN_OR_RAISE(auto batch, reader->batches->Next());
    if (!batch)
        return arrow::Status::OK();
    arrow::ArrayVector columns;
    arrow::FieldVector fields;
    for (size_t i = 0; i < reader->wanted.size(); i++) {
        const auto &field = reader->fields[(size_t)reader->wanted[i]];
        auto column = as_ours(batch->column((int)i), field->type());
        if (!column.ok())
            return column.status().WithMessage("column \"", field->name(),
                                               "\": ", column.status().message());
        columns.push_back(column.MoveValueUnsafe());
        fields.push_back(field);
    }
    auto ours = arrow::RecordBatch::Make(arrow::schema(fields), batch->num_rows(), columns);
    ARROW_RETURN_NOT_OK(arrow::ExportRecordBatch(*ours, &out->array));
    out->coords = coords_of(reader, batch->num_rows());
    reader->row += batch->num_rows();
    return arrow::Status::OK();
}

static enum mt_status refuse(const char *path, const arrow::Status &status, struct mt_error *err)
{
    bool machine = status.IsOutOfMemory();
    return mt_fail(err, machine ? MT_FATAL : MT_REJECT, machine ? MT_CLASS_MACHINE : MT_CLASS_DATA,
                   "cannot read %s: %s", path, status.message().c_str());
}

MT_FACE enum mt_status mt_parquet_next(struct mt_parquet_reader *reader, struct mt_batch *out,
                                       struct mt_error *err)
{
    *out = {};
    return mt_guarded(reader->path.c_str(), err, [&] {
        arrow::Status status = next(reader, out);
        return status.ok() ? MT_OK : refuse(reader->path.c_str(), status, err);
    });
}

/* ---- a new reader */

static arrow::Status open_file(mt_parquet_reader *reader, int64_t batch_rows)
{
    parquet::ArrowReaderProperties properties;
    properties.set_coerce_int96_timestamp_unit(arrow::TimeUnit::MICRO);
    properties.set_batch_size(batch_rows);
    properties.set_pre_buffer(false); /* it would hold several row groups */
    parquet::arrow::FileReaderBuilder builder;
    ARROW_ASSIGN_OR_RAISE(auto file, arrow::io::ReadableFile::Open(reader->path));
    ARROW_RETURN_NOT_OK(builder.Open(std::move(file)));
    ARROW_ASSIGN_OR_RAISE(reader->file, builder.properties(properties)->Build());
    std::shared_ptr<arrow::Schema> schema;
    ARROW_RETURN_NOT_OK(reader->file->GetSchema(&schema));
    for (const auto &field : schema->fields()) {
        auto ours = field_of_ours(field);
        if (!ours.ok())
            return ours.status().WithMessage("column \"", field->name(),
                                             "\": ", ours.status().message());
        reader->fields.push_back(ours.MoveValueUnsafe());
    }
    return arrow::ExportSchema(arrow::Schema(reader->fields), &reader->schema);
}

MT_FACE enum mt_status mt_parquet_open(const char *path, int64_t batch_rows,
                                       struct mt_parquet_reader **out, struct mt_error *err)
{
    return mt_guarded(path, err, [&] {
        std::unique_ptr<mt_parquet_reader> reader(new mt_parquet_reader{});
        reader->path = path;
        arrow::Status status = open_file(reader.get(), batch_rows);
        if (!status.ok())
            return refuse(path, status, err);
        *out = reader.release();
        return MT_OK;
    });
}

MT_FACE const struct ArrowSchema *mt_parquet_schema(const struct mt_parquet_reader *reader)
{
    return &reader->schema;
}

MT_FACE void mt_parquet_project(struct mt_parquet_reader *reader, const int32_t *columns, int64_t n)
{
    reader->wanted.assign(columns, columns + n);
}

MT_FACE void mt_parquet_close(struct mt_parquet_reader *reader)
{
    if (!reader)
        return;
    mt_schema_release(&reader->schema);
    delete reader;
}
