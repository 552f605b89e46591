/* SPDX-License-Identifier: Apache-2.0
 *
 * columnar_csv.cc - rows into CSV, as Spark's CSV files have them: the same values get
 * quotes, the same blanks are dropped, null is nothing and the empty text "".
 *
 * A quoted value has its quotes, and the escape sign itself, behind the escape sign. In one
 * place this leaves Spark: there a row of one null column makes no line at all, here an empty
 * one. */
#include <cstring>

#include "columnar_text.h"
#include "simdjson.h"

struct csv_field {
    std::string name;
    enum mt_type type;
    int32_t scale;
};

struct csv_writer final : mt_file_writer {
    csv_writer(mt_write_fn out, void *ctx) : stream(out, ctx)
    {
    }
    enum mt_status write(const struct ArrowArray *array, struct mt_error *err) override;
    enum mt_status finish(int64_t *rows, struct mt_error *err) override;

    text_stream stream;
    time_pattern date, timestamp;
    std::string line_sep, sep, null_value, empty_value;
    char quote, escape;
    bool header, quote_all, bare_quotes, trim_before, trim_behind;
    /* MAYBE: when the rest of sep follows */
    enum trigger : uint8_t {
        NO,
        MAYBE,
        YES
    } triggers[256] = {};     /* bytes for which a value is quoted */
    bool odd_numbers = false; /* a trigger may stand in a number */
    std::vector<csv_field> fields;
    int64_t rows = 0;
    bool begun = false;
    std::string scratch;

    void set_triggers();
    void add_header();
    void add_value(const csv_field &field, const struct ArrowArray *array, int64_t at, bool first);
    void print(const csv_field &field, const struct ArrowArray *array, int64_t at,
               std::string *out);
    void add_text(std::string_view text, bool first);
    void add_cell(std::string_view text, bool first, bool stands_for);
    bool wants_quotes(std::string_view text, bool first) const;
    void add_quoted(std::string_view text);
};

/* ---- cells */

void csv_writer::set_triggers()
{
    triggers[(uint8_t)sep[0]] = sep.size() > 1 ? MAYBE : YES;
    triggers[(uint8_t)quote] = bare_quotes ? NO : YES;
    triggers[(uint8_t)'\n'] = triggers[(uint8_t)'\r'] = YES;
    for (char c : line_sep)
        triggers[(uint8_t)c] = YES;
    for (char c : std::string_view("0123456789+-.EINaftyruels"))
        odd_numbers = odd_numbers || triggers[(uint8_t)c] != NO;
}

bool csv_writer::wants_quotes(std::string_view text, bool first) const
{
    if (quote_all)
        return true;
    if (text.empty())
        return false;
    if (text[0] == quote || (first && text[0] == '#'))
        return true;
    for (size_t i = 0; i < text.size(); i++) {
        enum trigger trigger = triggers[(uint8_t)text[i]];
        if (trigger == YES || (trigger == MAYBE && text.compare(i, sep.size(), sep) == 0))
            return true;
    }
    return false;
}

void csv_writer::add_quoted(std::string_view text)
{
    stream.bytes.append(1, quote);
    size_t from = 0;
    for (size_t i = 0; i < text.size(); i++) {
        if (text[i] != quote && text[i] != escape)
            continue;
        stream.bytes.append(text.substr(from, i - from)).append(1, escape);
        from = i;
    }
    stream.bytes.append(text.substr(from)).append(1, quote);
}

/* stands_for: for null or the empty text; what is in quotes already is taken as it is. */
void csv_writer::add_cell(std::string_view text, bool first, bool stands_for)
{
    bool ready = stands_for && text.size() >= 2 && text.front() == quote && text.back() == quote;
    if (!ready && wants_quotes(text, first))
        add_quoted(text);
    else
        stream.bytes.append(text);
}

static bool is_blank(char c)
{
    return (uint8_t)c <= ' ';
}

void csv_writer::add_text(std::string_view text, bool first)
{
    while (trim_before && !text.empty() && is_blank(text.front()))
        text.remove_prefix(1);
    while (trim_behind && !text.empty() && is_blank(text.back()))
        text.remove_suffix(1);
    add_cell(text.empty() ? empty_value : text, first, text.empty());
}

/* ---- values */

void csv_writer::print(const csv_field &field, const struct ArrowArray *array, int64_t at,
                       std::string *out)
{
    const void *values = array->buffers[1];
    switch (field.type) {
    case MT_BOOLEAN:
        out->append(bit_at(array, at) ? "true" : "false");
        break;
    case MT_FLOAT:
        text_add_double(((const float *)values)[at], true, out);
        break;
    case MT_DOUBLE:
        text_add_double(((const double *)values)[at], false, out);
        break;
    case MT_DECIMAL:
        text_add_decimal((const uint64_t *)values + 2 * at, field.scale, out);
        break;
    case MT_DATE:
        date.add_date(((const int32_t *)values)[at], out);
        break;
    case MT_TIMESTAMP:
        timestamp.add_timestamp(((const int64_t *)values)[at], out);
        break;
    default:
        text_add_int(int_at(field.type, array, at), out);
    }
}

/* BINARY as Spark has it: [68 69]. */
static void print_bytes(std::string_view bytes, std::string *out)
{
    static const char digits[] = "0123456789ABCDEF";
    out->append(1, '[');
    for (size_t i = 0; i < bytes.size(); i++) {
        uint8_t c = (uint8_t)bytes[i];
        const char text[] = {' ', digits[c >> 4], digits[c & 15]};
        out->append(text + (i == 0), i == 0 ? 2 : 3);
    }
    out->append(1, ']');
}

void csv_writer::add_value(const csv_field &field, const struct ArrowArray *array, int64_t at,
                           bool first)
{
    bool is_time = field.type == MT_DATE || field.type == MT_TIMESTAMP;
    if (field.type == MT_STRING) {
        add_text(text_at(array, at), first);
        return;
    }
    if (field.type != MT_BINARY && !is_time && !quote_all && !odd_numbers) {
        print(field, array, at, &stream.bytes);
        return;
    }
    scratch.clear();
    if (field.type == MT_BINARY)
        print_bytes(text_at(array, at), &scratch);
    else
        print(field, array, at, &scratch);
    add_text(scratch, first);
}

/* ---- the writer */

void csv_writer::add_header()
{
    for (size_t i = 0; header && i < fields.size(); i++) {
        if (i > 0)
            stream.bytes.append(sep);
        add_text(fields[i].name, i == 0);
    }
    if (header)
        stream.bytes.append(line_sep);
    begun = true;
}

static enum mt_status check_text(const csv_field &field, const struct ArrowArray *array,
                                 int64_t row, struct mt_error *err)
{
    std::string_view text = text_at(array, array->offset + row);
    if (simdjson::validate_utf8(text.data(), text.size()))
        return MT_OK;
    return text_refuse_bytes("CSV", field.name.c_str(), text, err);
}

enum mt_status csv_writer::write(const struct ArrowArray *array, struct mt_error *err)
{
    enum mt_status status = MT_OK;
    if (!begun)
        add_header();
    for (int64_t row = array->offset; row < array->offset + array->length; row++) {
        for (size_t i = 0; status == MT_OK && i < fields.size(); i++) {
            const struct ArrowArray *column = array->children[i];
            if (i > 0)
                stream.bytes.append(sep);
            if (mt_array_is_null(column, row)) {
                add_cell(null_value, i == 0, true);
                continue;
            }
            if (fields[i].type == MT_STRING)
                status = check_text(fields[i], column, row, err);
            if (status == MT_OK)
                add_value(fields[i], column, column->offset + row, i == 0);
        }
        stream.bytes.append(line_sep);
        if (status == MT_OK && stream.bytes.size() >= text_stream::FLUSH_BYTES)
            status = stream.flush("CSV", err);
        if (status != MT_OK)
            return status;
        rows++;
    }
    return MT_OK;
}

enum mt_status csv_writer::finish(int64_t *written, struct mt_error *err)
{
    if (!begun)
        add_header();
    *written = rows;
    return stream.end("CSV", err);
}

/* ---- a new writer */

static enum mt_status set_sign(const char *option, const char *text, char preset, char *out,
                               struct mt_error *err)
{
    *out = text ? text[0] : preset;
    if (text && (strlen(text) != 1 || (uint8_t)text[0] > 127))
        return mt_fail(err, MT_REJECT, MT_CLASS_JOB,
                       "option \"%s\" is \"%s\": one character of ASCII is expected", option, text);
    return MT_OK;
}

/* A backslash and t is a tab, as Spark takes it. */
static enum mt_status set_sep(const char *text, std::string *out, struct mt_error *err)
{
    *out = !text ? "," : strcmp(text, "\\t") == 0 ? "\t" : text;
    if (out->empty())
        return mt_fail(err, MT_REJECT, MT_CLASS_JOB,
                       "option \"sep\" is empty: what stands between values is expected");
    return MT_OK;
}

static enum mt_status add_fields(const struct ArrowSchema *schema, csv_writer *writer,
                                 struct mt_error *err)
{
    for (int64_t i = 0; i < schema->n_children; i++) {
        const struct ArrowSchema *child = schema->children[i];
        csv_field field = {child->name, mt_schema_type(child), 0};
        int32_t precision;
        mt_schema_decimal(child, &precision, &field.scale);
        if (field.type >= MT_ARRAY) {
            char *type = mt_schema_type_name(child);
            mt_fail(err, MT_REJECT, MT_CLASS_JOB,
                    "CSV cannot hold column \"%s\" of type %s: take its fields, make a STRING of "
                    "it with mt.json.encode, or write JSON or Parquet",
                    child->name, type);
            mt_free(type);
            return MT_REJECT;
        }
        writer->fields.push_back(std::move(field));
    }
    return MT_OK;
}

static enum mt_status set_formats(const struct mt_file_settings *settings, csv_writer *writer,
                                  struct mt_error *err)
{
    enum mt_status status = writer->stream.use_codec(settings->compression, err);
    if (status == MT_OK && settings->date_format)
        status = writer->date.read("dateFormat", settings->date_format, err);
    if (status == MT_OK && settings->timestamp_format)
        status = writer->timestamp.read("timestampFormat", settings->timestamp_format, err);
    if (status == MT_OK)
        status = set_sep(settings->sep, &writer->sep, err);
    if (status == MT_OK)
        status = set_sign("quote", settings->quote, '"', &writer->quote, err);
    if (status == MT_OK)
        status = set_sign("escape", settings->escape, '\\', &writer->escape, err);
    return status;
}

enum mt_status mt_make_csv(const struct ArrowSchema *schema,
                           const struct mt_file_settings *settings, mt_write_fn write, void *ctx,
                           std::unique_ptr<mt_file_writer> *out, struct mt_error *err)
{
    auto writer = std::make_unique<csv_writer>(write, ctx);
    writer->line_sep = settings->line_sep ? settings->line_sep : "\n";
    writer->null_value = settings->null_value ? settings->null_value : "";
    writer->empty_value = settings->empty_value ? settings->empty_value : "\"\"";
    writer->header = settings->header;
    writer->quote_all = settings->quote_all;
    writer->bare_quotes = settings->bare_quotes;
    writer->trim_before = !settings->keep_blanks_before;
    writer->trim_behind = !settings->keep_blanks_behind;
    enum mt_status status = set_formats(settings, writer.get(), err);
    if (status == MT_OK)
        status = add_fields(schema, writer.get(), err);
    if (status != MT_OK)
        return status;
    writer->set_triggers();
    *out = std::move(writer);
    return MT_OK;
}
