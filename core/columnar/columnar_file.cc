/* SPDX-License-Identifier: Apache-2.0
 *
 * columnar_file.cc - the encoders of files behind one face.
 *
 * The bytes go to a function of the sink and never to a file of a library's: what is
 * durable, and when, is the sink's own business, and an errno stays an errno. */
#include <arrow/c/bridge.h>

#include <cerrno>
#include <cstring>

#include "columnar_arrow.h"

/* ---- over Arrow */

arrow::Status byte_stream::Write(const void *bytes, int64_t len)
{
    if (error == 0)
        error = write_(ctx_, bytes, (size_t)len);
    if (error != 0)
        return arrow::Status::IOError(strerror(error));
    written_ += len;
    return arrow::Status::OK();
}

arrow::Status byte_stream::Close()
{
    closed_ = true;
    return arrow::Status::OK();
}

bool byte_stream::closed() const
{
    return closed_;
}

arrow::Result<int64_t> byte_stream::Tell() const
{
    return written_;
}

enum mt_status mt_write_failed(const char *format, int error, struct mt_error *err)
{
    if (error == ENOSPC || error == EDQUOT)
        return mt_fail(err, MT_FATAL, MT_CLASS_MACHINE, "cannot write %s: disk full (%s)", format,
                       strerror(error));
    enum mt_class class_ =
        error == ENOMEM || error == EMFILE || error == ENFILE ? MT_CLASS_MACHINE : MT_CLASS_SINK;
    return mt_fail(err, MT_FATAL, class_, "cannot write %s: %s", format, strerror(error));
}

enum mt_status byte_stream::failed(const char *format, const arrow::Status &status,
                                   struct mt_error *err)
{
    if (error != 0)
        return mt_write_failed(format, error, err);
    return mt_fail(err, MT_FATAL, status.IsOutOfMemory() ? MT_CLASS_MACHINE : MT_CLASS_INTERNAL,
                   "cannot write %s: %s", format, status.ToString().c_str());
}

arrow::Result<std::shared_ptr<arrow::RecordBatch>>
borrow_rows(const std::shared_ptr<arrow::Schema> &schema, const struct ArrowArray *array)
{
    struct ArrowArray borrowed = *array;
    borrowed.release = [](struct ArrowArray *self) { self->release = nullptr; };
    ARROW_ASSIGN_OR_RAISE(auto rows,
                          arrow::ImportArray(&borrowed, arrow::struct_(schema->fields())));
    if (rows->null_count() != 0)
        return arrow::Status::Invalid("a row is null as a whole");
    arrow::ArrayVector columns;
    for (int i = 0; i < schema->num_fields(); i++)
        columns.push_back(static_cast<const arrow::StructArray &>(*rows).field(i));
    return arrow::RecordBatch::Make(schema, rows->length(), std::move(columns));
}

std::shared_ptr<arrow::Field> as_nullable(const std::shared_ptr<arrow::Field> &field)
{
    std::shared_ptr<arrow::DataType> type = field->type();
    if (type->id() == arrow::Type::LIST) {
        type = arrow::list(as_nullable(type->field(0)));
    } else if (type->id() == arrow::Type::STRUCT) {
        arrow::FieldVector inside;
        for (const auto &child : type->fields())
            inside.push_back(as_nullable(child));
        type = arrow::struct_(std::move(inside));
    } else if (type->id() == arrow::Type::MAP) {
        const auto &map = static_cast<const arrow::MapType &>(*type);
        type = std::make_shared<arrow::MapType>(map.key_field()->WithNullable(false),
                                                as_nullable(map.item_field()));
    }
    return field->WithType(type)->WithNullable(true);
}

/* ---- the face */

MT_FACE enum mt_status mt_file_writer_new(enum mt_file_format format,
                                          const struct ArrowSchema *schema,
                                          const struct mt_file_settings *settings,
                                          mt_write_fn write, void *ctx, struct mt_file_writer **out,
                                          struct mt_error *err)
{
    static const mt_file_maker makers[] = {mt_make_parquet, mt_make_orc, mt_make_json, mt_make_csv,
                                           mt_make_text};
    return mt_guarded("cannot make a file's encoder", err, [&] {
        std::unique_ptr<mt_file_writer> writer;
        enum mt_status status = makers[format](schema, settings, write, ctx, &writer, err);
        *out = writer.release();
        return status;
    });
}

MT_FACE enum mt_status mt_file_write(struct mt_file_writer *writer, const struct ArrowArray *array,
                                     struct mt_error *err)
{
    return mt_guarded("cannot encode rows", err, [&] { return writer->write(array, err); });
}

MT_FACE enum mt_status mt_file_finish(struct mt_file_writer *writer, int64_t *rows,
                                      struct mt_error *err)
{
    enum mt_status status =
        mt_guarded("cannot end a file", err, [&] { return writer->finish(rows, err); });
    delete writer;
    return status;
}

MT_FACE void mt_file_discard(struct mt_file_writer *writer)
{
    delete writer;
}
