/* SPDX-License-Identifier: Apache-2.0
 *
 * columnar_lines.cc - one STRING column as lines of text; null is an empty line, as in
 * Spark. What is in the text is not looked at: a line feed in it makes two lines. */
#include "columnar_text.h"

struct lines_writer final : mt_file_writer {
    lines_writer(mt_write_fn out, void *ctx) : stream(out, ctx)
    {
    }
    enum mt_status write(const struct ArrowArray *array, struct mt_error *err) override
    {
        enum mt_status status = MT_OK;
        const struct ArrowArray *column = array->children[0];
        for (int64_t i = 0; status == MT_OK && i < array->length; i++, rows++) {
            int64_t row = array->offset + i;
            if (!mt_array_is_null(column, row))
                stream.bytes.append(text_at(column, column->offset + row));
            stream.bytes.append(line_sep);
            if (stream.bytes.size() >= text_stream::FLUSH_BYTES)
                status = stream.flush("text", err);
        }
        return status;
    }
    enum mt_status finish(int64_t *written, struct mt_error *err) override
    {
        *written = rows;
        return stream.end("text", err);
    }

    text_stream stream;
    std::string line_sep;
    int64_t rows = 0;
};

static enum mt_status check_column(const struct ArrowSchema *schema, struct mt_error *err)
{
    std::string names;
    for (int64_t i = 0; i < schema->n_children; i++)
        names.append(i ? ", " : "").append(schema->children[i]->name);
    if (schema->n_children != 1)
        return mt_fail(err, MT_REJECT, MT_CLASS_JOB,
                       "text holds one STRING column, there are %s: choose one with select, or "
                       "write JSON or CSV",
                       names.c_str());
    const struct ArrowSchema *column = schema->children[0];
    if (mt_schema_type(column) == MT_STRING)
        return MT_OK;
    char *type = mt_schema_type_name(column);
    mt_fail(err, MT_REJECT, MT_CLASS_JOB,
            "text holds one STRING column, and \"%s\" is %s: make a STRING of it before the sink",
            column->name, type);
    mt_free(type);
    return MT_REJECT;
}

enum mt_status mt_make_text(const struct ArrowSchema *schema,
                            const struct mt_file_settings *settings, mt_write_fn write, void *ctx,
                            std::unique_ptr<mt_file_writer> *out, struct mt_error *err)
{
    auto writer = std::make_unique<lines_writer>(write, ctx);
    writer->line_sep = settings->line_sep ? settings->line_sep : "\n";
    enum mt_status status = check_column(schema, err);
    if (status == MT_OK)
        status = writer->stream.use_codec(settings->compression, err);
    if (status == MT_OK)
        *out = std::move(writer);
    return status;
}
