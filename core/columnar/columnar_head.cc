/* SPDX-License-Identifier: Apache-2.0
 *
 * columnar_head.cc - the first rows of a Parquet file, for people to look at. Files of
 * others may be shown too, as far as their types are ours: Spark's own INT96 times and
 * times without a zone are taken as UTC. */
#include <arrow/api.h>
#include <arrow/c/bridge.h>
#include <arrow/io/file.h>
#include <parquet/arrow/reader.h>

#include <algorithm>

#include "columnar_int.h"

static bool is_ours(const arrow::DataType &type)
{
    switch (type.id()) {
    case arrow::Type::BOOL:
    case arrow::Type::INT8:
    case arrow::Type::INT16:
    case arrow::Type::INT32:
    case arrow::Type::INT64:
    case arrow::Type::FLOAT:
    case arrow::Type::DOUBLE:
    case arrow::Type::DECIMAL128:
    case arrow::Type::STRING:
    case arrow::Type::BINARY:
    case arrow::Type::DATE32:
        return true;
    case arrow::Type::TIMESTAMP:
        return type.Equals(arrow::timestamp(arrow::TimeUnit::MICRO, "UTC"));
    case arrow::Type::LIST:
    case arrow::Type::STRUCT:
    case arrow::Type::MAP:
        for (const auto &field : type.fields())
            if (!is_ours(*field->type()))
                return false;
        return true;
    default:
        return false;
    }
}

/* The column as a type of ours. */
static arrow::Result<std::shared_ptr<arrow::Array>>
as_ours(const std::string &name, const std::shared_ptr<arrow::Array> &array)
{
    if (array->type()->Equals(arrow::timestamp(arrow::TimeUnit::MICRO)))
        return array->View(arrow::timestamp(arrow::TimeUnit::MICRO, "UTC"));
    if (!is_ours(*array->type()))
        return arrow::Status::TypeError("column \"", name, "\" is ", array->type()->ToString(),
                                        ", which is no type of ours");
    return array;
}

static arrow::Result<std::unique_ptr<parquet::arrow::FileReader>> open_reader(const char *path,
                                                                              int64_t batch_rows)
{
    parquet::ArrowReaderProperties properties;
    properties.set_coerce_int96_timestamp_unit(arrow::TimeUnit::MICRO);
    properties.set_batch_size(batch_rows);
    parquet::arrow::FileReaderBuilder builder;
    ARROW_ASSIGN_OR_RAISE(auto file, arrow::io::ReadableFile::Open(path));
    ARROW_RETURN_NOT_OK(builder.Open(std::move(file)));
    return builder.properties(properties)->Build();
}

static arrow::Result<std::shared_ptr<arrow::RecordBatch>>
first_rows(parquet::arrow::FileReader *reader, int64_t limit)
{
    ARROW_ASSIGN_OR_RAISE(auto batches, reader->GetRecordBatchReader());
    arrow::RecordBatchVector some;
    for (int64_t rows = 0; rows < limit;) {
        ARROW_ASSIGN_OR_RAISE(auto batch, batches->Next());
        if (!batch)
            break;
        some.push_back(batch->Slice(0, limit - rows));
        rows += some.back()->num_rows();
    }
    ARROW_ASSIGN_OR_RAISE(auto table, arrow::Table::FromRecordBatches(batches->schema(), some));
    return table->CombineChunksToBatch();
}

static arrow::Status head(const char *path, int64_t limit, struct ArrowSchema *schema,
                          struct ArrowArray *rows, int64_t *total)
{
    ARROW_ASSIGN_OR_RAISE(auto reader, open_reader(path, std::clamp<int64_t>(limit, 1, 65536)));
    ARROW_ASSIGN_OR_RAISE(auto batch, first_rows(reader.get(), limit));
    arrow::ArrayVector columns;
    arrow::FieldVector fields;
    for (int i = 0; i < batch->num_columns(); i++) {
        ARROW_ASSIGN_OR_RAISE(auto column, as_ours(batch->column_name(i), batch->column(i)));
        fields.push_back(arrow::field(batch->column_name(i), column->type()));
        columns.push_back(std::move(column));
    }
    *total = reader->parquet_reader()->metadata()->num_rows();
    auto ours = arrow::RecordBatch::Make(arrow::schema(fields), batch->num_rows(), columns);
    return arrow::ExportRecordBatch(*ours, rows, schema);
}

MT_FACE enum mt_status mt_parquet_head(const char *path, int64_t limit, struct ArrowSchema *schema,
                                       struct ArrowArray *rows, int64_t *total,
                                       struct mt_error *err)
{
    return mt_guarded(path, err, [&] {
        arrow::Status status = head(path, limit, schema, rows, total);
        return status.ok() ? MT_OK
                           : mt_fail(err, MT_REJECT, MT_CLASS_DATA, "cannot read %s: %s", path,
                                     status.ToString().c_str());
    });
}

MT_FACE const char *mt_arrow_version(void)
{
    return arrow::GetBuildInfo().version_string.c_str();
}
