/* SPDX-License-Identifier: Apache-2.0
 *
 * columnar_json_write.cc - rows into lines of JSON, as Spark's JSON files have them: null
 * fields left out, BINARY in base64, numbers as numbers with all their digits, NaN and
 * infinities as text.
 *
 * What each column needs is worked out once (the key with its quotes, the scale), so that
 * the loop over rows only copies. */
#include <cmath>
#include <cstring>

#include "columnar_text.h"
#include "simdjson.h"

struct json_shape {
    std::string name; /* for errors */
    std::string key;  /* "name": */
    enum mt_type type;
    int32_t scale;
    std::vector<json_shape> children; /* ARRAY: element; MAP: key, value; STRUCT: its fields */
};

struct json_writer final : mt_file_writer {
    json_writer(mt_write_fn out, void *ctx) : stream(out, ctx)
    {
    }
    enum mt_status write(const struct ArrowArray *array, struct mt_error *err) override;
    enum mt_status finish(int64_t *rows, struct mt_error *err) override;

    text_stream stream;
    time_pattern date, timestamp;
    std::string line_sep;
    bool keep_nulls = false;
    json_shape root;
    int64_t rows = 0;
    const json_shape *bad = nullptr; /* holds bytes that are no text */
    std::string_view bad_bytes;

    void add_row(const json_shape &field, const struct ArrowArray *array, int64_t row);
    void add_value(const json_shape &field, const struct ArrowArray *array, int64_t row);
    void add_list(const json_shape &field, const struct ArrowArray *array, int64_t at);
    void add_map(const json_shape &field, const struct ArrowArray *array, int64_t at);
    void add_scalar(const json_shape &field, const struct ArrowArray *array, int64_t at);
    void add_text(const json_shape &field, std::string_view text);
    void add_double(double value, bool is_float);
};

/* ---- values */

static void add_escaped(std::string_view text, std::string *out)
{
    static const char names[] = "btn\0fr";
    size_t from = 0;
    for (size_t i = 0; i < text.size(); i++) {
        uint8_t c = (uint8_t)text[i];
        if (c >= 0x20 && c != '"' && c != '\\')
            continue;
        out->append(text, from, i - from);
        from = i + 1;
        char escape[8] = {'\\', (char)c, 0};
        if (c >= 8 && c <= 13 && c != 11)
            escape[1] = names[c - 8];
        else if (c < 0x20)
            snprintf(escape, sizeof escape, "\\u%04X", c);
        out->append(escape);
    }
    out->append(text, from);
}

void json_writer::add_text(const json_shape &field, std::string_view text)
{
    if (!simdjson::validate_utf8(text.data(), text.size())) {
        bad = bad ? bad : &field;
        bad_bytes = text;
    }
    stream.bytes.append(1, '"');
    add_escaped(text, &stream.bytes);
    stream.bytes.append(1, '"');
}

void json_writer::add_double(double value, bool is_float)
{
    const char *quote = std::isfinite(value) ? "" : "\"";
    stream.bytes.append(quote);
    text_add_double(value, is_float, &stream.bytes);
    stream.bytes.append(quote);
}

void json_writer::add_scalar(const json_shape &field, const struct ArrowArray *array, int64_t at)
{
    std::string *out = &stream.bytes;
    const void *values = array->buffers[1];
    switch (field.type) {
    case MT_BOOLEAN:
        out->append(bit_at(array, at) ? "true" : "false");
        break;
    case MT_FLOAT:
        add_double(((const float *)values)[at], true);
        break;
    case MT_DOUBLE:
        add_double(((const double *)values)[at], false);
        break;
    case MT_DECIMAL:
        text_add_decimal((const uint64_t *)values + 2 * at, field.scale, out);
        break;
    case MT_STRING:
        add_text(field, text_at(array, at));
        break;
    case MT_BINARY:
        out->append(1, '"');
        text_add_base64(text_at(array, at), out);
        out->append(1, '"');
        break;
    case MT_DATE:
        out->append(1, '"');
        date.add_date(((const int32_t *)values)[at], out);
        out->append(1, '"');
        break;
    case MT_TIMESTAMP:
        out->append(1, '"');
        timestamp.add_timestamp(((const int64_t *)values)[at], out);
        out->append(1, '"');
        break;
    default:
        text_add_int(int_at(field.type, array, at), out);
    }
}

void json_writer::add_list(const json_shape &field, const struct ArrowArray *array, int64_t at)
{
    const int32_t *offsets = (const int32_t *)array->buffers[1] + at;
    stream.bytes.append(1, '[');
    for (int32_t e = offsets[0]; e < offsets[1]; e++) {
        if (e > offsets[0])
            stream.bytes.append(1, ',');
        add_value(field.children[0], array->children[0], e);
    }
    stream.bytes.append(1, ']');
}

/* A key is text, whatever its type. */
void json_writer::add_map(const json_shape &field, const struct ArrowArray *array, int64_t at)
{
    const int32_t *offsets = (const int32_t *)array->buffers[1] + at;
    const struct ArrowArray *entries = array->children[0];
    const json_shape &key = field.children[0];
    stream.bytes.append(1, '{');
    for (int32_t e = offsets[0]; e < offsets[1]; e++) {
        if (e > offsets[0])
            stream.bytes.append(1, ',');
        size_t start = stream.bytes.size();
        add_value(key, entries->children[0], entries->offset + e);
        if (stream.bytes[start] != '"') {
            stream.bytes.insert(start, 1, '"');
            stream.bytes.append(1, '"');
        }
        stream.bytes.append(1, ':');
        add_value(field.children[1], entries->children[1], entries->offset + e);
    }
    stream.bytes.append(1, '}');
}

void json_writer::add_row(const json_shape &field, const struct ArrowArray *array, int64_t row)
{
    stream.bytes.append(1, '{');
    bool first = true;
    for (size_t i = 0; i < field.children.size(); i++) {
        const struct ArrowArray *child = array->children[i];
        if (!keep_nulls && mt_array_is_null(child, row))
            continue;
        if (!first)
            stream.bytes.append(1, ',');
        first = false;
        stream.bytes.append(field.children[i].key);
        add_value(field.children[i], child, row);
    }
    stream.bytes.append(1, '}');
}

/* row counts from the array's own offset. */
void json_writer::add_value(const json_shape &field, const struct ArrowArray *array, int64_t row)
{
    int64_t at = array->offset + row;
    if (mt_array_is_null(array, row))
        stream.bytes.append("null");
    else if (field.type == MT_STRUCT)
        add_row(field, array, at);
    else if (field.type == MT_ARRAY)
        add_list(field, array, at);
    else if (field.type == MT_MAP)
        add_map(field, array, at);
    else
        add_scalar(field, array, at);
}

/* ---- the writer */

enum mt_status json_writer::write(const struct ArrowArray *array, struct mt_error *err)
{
    enum mt_status status = MT_OK;
    for (int64_t row = 0; status == MT_OK && row < array->length; row++) {
        add_row(root, array, array->offset + row);
        stream.bytes.append(line_sep);
        if (bad)
            return text_refuse_bytes("JSON", bad->name.c_str(), bad_bytes, err);
        rows++;
        if (stream.bytes.size() >= text_stream::FLUSH_BYTES)
            status = stream.flush("JSON", err);
    }
    return status;
}

enum mt_status json_writer::finish(int64_t *written, struct mt_error *err)
{
    *written = rows;
    return stream.end("JSON", err);
}

/* ---- a new writer */

static enum mt_status plan_field(const struct ArrowSchema *schema, const char *column,
                                 json_shape *out, struct mt_error *err)
{
    int32_t precision;
    out->name = column ? column : schema->name;
    out->type = mt_schema_type(schema);
    mt_schema_decimal(schema, &precision, &out->scale);
    out->key = "\"";
    add_escaped(schema->name, &out->key);
    out->key += "\":";
    const struct ArrowSchema *parent = out->type == MT_MAP ? schema->children[0] : schema;
    out->children.resize((size_t)parent->n_children);
    enum mt_status status = MT_OK;
    for (size_t i = 0; status == MT_OK && i < out->children.size(); i++)
        status = plan_field(parent->children[i], out->name.c_str(), &out->children[i], err);
    if (status == MT_OK && out->type == MT_MAP && out->children[0].type >= MT_ARRAY)
        return mt_fail(err, MT_REJECT, MT_CLASS_JOB,
                       "JSON cannot hold column \"%s\": the keys of a MAP must be single values",
                       out->name.c_str());
    return status;
}

static enum mt_status plan_row(const struct ArrowSchema *schema, json_shape *root,
                               struct mt_error *err)
{
    enum mt_status status = MT_OK;
    root->children.resize((size_t)schema->n_children);
    for (size_t i = 0; status == MT_OK && i < root->children.size(); i++)
        status = plan_field(schema->children[i], NULL, &root->children[i], err);
    return status;
}

enum mt_status mt_make_json(const struct ArrowSchema *schema,
                            const struct mt_file_settings *settings, mt_write_fn write, void *ctx,
                            std::unique_ptr<mt_file_writer> *out, struct mt_error *err)
{
    auto writer = std::make_unique<json_writer>(write, ctx);
    writer->line_sep = settings->line_sep ? settings->line_sep : "\n";
    writer->keep_nulls = settings->keep_null_fields;
    enum mt_status status = writer->stream.use_codec(settings->compression, err);
    if (status == MT_OK && settings->date_format)
        status = writer->date.read("dateFormat", settings->date_format, err);
    if (status == MT_OK && settings->timestamp_format)
        status = writer->timestamp.read("timestampFormat", settings->timestamp_format, err);
    if (status == MT_OK)
        status = plan_row(schema, &writer->root, err);
    if (status == MT_OK)
        *out = std::move(writer);
    return status;
}
