/* SPDX-License-Identifier: Apache-2.0
 *
 * columnar_json.cc - a column of JSON texts to the columns of a schema, as Spark's
 * from_json does it.
 *
 * Values go straight into the columns; what a record has written is taken back when it
 * turns out to be malformed further on. */
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "columnar_json_int.h"

/* ---- one record */

static json_verdict read_tokens(struct mt_json_reader *reader, const json_record &record)
{
    uint32_t i = 1, last = record.n - 1;
    if (record.byte(0) != '{')
        return mt_json_broken(reader, record.at[0], "expected an opening brace");
    if (last == 0 || record.byte(last) != '}')
        return mt_json_broken(reader, record.at[record.n], "expected a closing brace");
    json_verdict all = JSON_FINE;
    if (i < last)
        all = mt_json_members(reader, reader->fields, record, &i, &reader->root, 1);
    if (all >= JSON_BROKEN)
        return all;
    if (record.byte(i) != '}')
        return mt_json_broken(reader, record.at[i], "expected a comma or a closing brace");
    if (i != last)
        return mt_json_broken(reader, record.at[i + 1], "text behind the object");
    return all;
}

/* What simdjson's first stage found wrong; it does not say where. */
static json_verdict not_tokens(struct mt_json_reader *reader, sj::error_code code)
{
    switch (code) {
    case sj::UTF8_ERROR:
        return mt_json_broken(reader, -1, "bytes that are not UTF-8");
    case sj::UNESCAPED_CHARS:
        return mt_json_broken(reader, -1, "a bare control character in a string");
    case sj::UNCLOSED_STRING:
        return mt_json_broken(reader, -1, "a string without end");
    default:
        return mt_json_broken(reader, -1, sj::error_message(code));
    }
}

/* text has padding behind it. */
static json_verdict read_record(struct mt_json_reader *reader, std::string_view text)
{
    sj::dom::parser *parser = &reader->parser;
    reader->row = reader->root.length;
    reader->wrong = nullptr;
    if (text.size() > parser->capacity()) {
        size_t capacity = std::max(text.size(), parser->capacity() * 2);
        if (parser->allocate(capacity) != sj::SUCCESS)
            throw std::bad_alloc();
    }
    auto *stage = parser->implementation.get();
    auto code = stage->stage1((const uint8_t *)text.data(), text.size(), sj::stage1_mode::regular);
    if (code != sj::SUCCESS)
        return not_tokens(reader, code);
    json_record record = {text.data(), stage->structural_indexes.get(), stage->n_structural_indexes,
                          memchr(text.data(), '\\', text.size()) != nullptr};
    return read_tokens(reader, record);
}

/* ---- rows */

static enum mt_status close_row(struct mt_json_reader *reader)
{
    return mt_json_close_struct(reader, &reader->root) ? MT_OK : MT_REJECT;
}

static void unwind_row(struct mt_json_reader *reader)
{
    mt_column_cut(&reader->root, reader->root.length);
}

/* Length of the UTF-8 character at the start of text, 0: none. */
static size_t char_length(std::string_view text)
{
    for (size_t n = 1; n <= 4 && n <= text.size(); n++)
        if (mt_utf8_valid(text.data(), n))
            return n;
    return 0;
}

/* The text, with U+FFFD for every byte that is not UTF-8: a STRING holds nothing else. */
static std::string_view as_utf8(struct mt_json_reader *reader, std::string_view text)
{
    if (mt_utf8_valid(text.data(), text.size()))
        return text;
    struct mt_buf *buf = &reader->compact;
    buf->len = 0;
    for (size_t at = 0, n; at < text.size(); at += n ? n : 1) {
        n = char_length(text.substr(at));
        mt_buf_add(buf, n ? text.data() + at : "\xef\xbf\xbd", n ? n : 3);
    }
    return {buf->data, buf->len};
}

/* PERMISSIVE: a record that is no object has no fields, and the raw text is kept. */
static enum mt_status keep_malformed(struct mt_json_reader *reader, std::string_view text,
                                     json_verdict verdict)
{
    if (verdict == JSON_BROKEN)
        unwind_row(reader);
    if (reader->corrupt >= 0 && mt_json_put_text(reader, &reader->root.children[reader->corrupt],
                                                 as_utf8(reader, text)) != JSON_FINE)
        return MT_REJECT;
    return close_row(reader);
}

/* FAILFAST: the words for a malformed record. */
static enum mt_status refuse(struct mt_json_reader *reader, const struct mt_batch *in, int64_t row,
                             std::string_view text, json_verdict verdict)
{
    char where[300], quoted[800], what[240];
    mt_batch_where(in, row, where, sizeof where);
    mt_quote(text.data(), text.size(), quoted, sizeof quoted);
    if (verdict == JSON_PARTIAL) {
        char *type = mt_schema_type_name(reader->wrong->schema);
        snprintf(what, sizeof what, "the value of field \"%.100s\" does not fit %.80s",
                 reader->wrong->path.c_str(), type);
        mt_free(type);
    } else if (reader->where >= 0) {
        snprintf(what, sizeof what, "it is not one JSON object: %s at byte %lld", reader->why,
                 (long long)reader->where);
    } else {
        snprintf(what, sizeof what, "it is not one JSON object: %s", reader->why);
    }
    return mt_fail(reader->err, MT_REJECT, MT_CLASS_DATA,
                   "fromJson: %s is malformed, %s; the record: %s; mend it at its producer, or "
                   "read with mode PERMISSIVE or DROPMALFORMED",
                   where, what, quoted);
}

/* Leaves input row `row` out of the result, and notes from now on which rows are in. */
static void drop(struct mt_json_reader *reader, int64_t n, struct mt_json_result *out)
{
    unwind_row(reader);
    if (out->kept)
        return;
    out->kept = (int32_t *)mt_alloc((size_t)n * sizeof *out->kept);
    for (int64_t i = 0; i < reader->root.length; i++)
        out->kept[i] = (int32_t)i;
}

/* The texts of a column. */
struct texts {
    const int32_t *offsets;
    const char *bytes;
    int64_t n;

    std::string_view at(int64_t row) const
    {
        return {bytes + offsets[row], (size_t)(offsets[row + 1] - offsets[row])};
    }
};

/* The text where at least SIMDJSON_PADDING bytes follow it: where it is, or, at the end
 * of its buffer, in a copy. */
static std::string_view padded(struct mt_json_reader *reader, const texts &all,
                               std::string_view text)
{
    if (text.data() + text.size() + sj::SIMDJSON_PADDING <= all.bytes + all.offsets[all.n])
        return text;
    struct mt_buf *copy = &reader->padded;
    copy->len = 0;
    mt_buf_reserve(copy, text.size() + sj::SIMDJSON_PADDING);
    memset(copy->data + text.size(), 0, sj::SIMDJSON_PADDING);
    memcpy(copy->data, text.data(), text.size());
    return {copy->data, text.size()};
}

static inline bool is_blank(std::string_view text)
{
    return text.empty() ||
           ((uint8_t)text[0] <= ' ' && text.find_first_not_of(" \t\r\n") == text.npos);
}

static enum mt_status read_row(struct mt_json_reader *reader, const struct mt_batch *in,
                               const texts &all, int64_t row, struct mt_json_result *out)
{
    std::string_view text = padded(reader, all, all.at(row));
    json_verdict verdict = read_record(reader, text);
    out->malformed += verdict != JSON_FINE;
    if (verdict == JSON_FINE)
        return close_row(reader);
    if (verdict == JSON_STOP)
        return MT_REJECT;
    if (reader->mode == MT_JSON_FAILFAST)
        return refuse(reader, in, row, text, verdict);
    if (reader->mode == MT_JSON_DROPMALFORMED)
        return drop(reader, all.n, out), MT_OK;
    return keep_malformed(reader, text, verdict);
}

static enum mt_status read_rows(struct mt_json_reader *reader, const struct mt_batch *in,
                                const struct ArrowArray *array, const texts &all,
                                struct mt_json_result *out)
{
    struct mt_column *root = &reader->root;
    if (!mt_json_room(reader, root, all.n))
        return MT_REJECT;
    for (int64_t row = 0; row < all.n; row++) {
        int64_t before = root->length;
        bool null = mt_array_is_null(array, in->array.offset + row) || is_blank(all.at(row));
        enum mt_status status =
            null ? mt_column_add_null(root, reader->err) : read_row(reader, in, all, row, out);
        if (status != MT_OK)
            return status;
        if (out->kept && root->length > before)
            out->kept[before] = (int32_t)row;
    }
    return MT_OK;
}

MT_FACE enum mt_status mt_json_read(struct mt_json_reader *reader, const struct mt_batch *in,
                                    int32_t column, int64_t now_us, struct mt_json_result *out,
                                    struct mt_error *err)
{
    const struct ArrowArray *array = in->array.children[column];
    int64_t first = array->offset + in->array.offset;
    texts all = {(const int32_t *)array->buffers[1] + first, (const char *)array->buffers[2],
                 in->array.length};
    *out = {};
    reader->now_us = now_us;
    reader->err = err;
    mt_column_init(&reader->root, reader->schema);
    enum mt_status status =
        mt_guarded("fromJson", err, [&] { return read_rows(reader, in, array, all, out); });
    if (status == MT_OK)
        mt_column_finish(&reader->root, &out->rows);
    else
        mt_json_result_clear(out);
    mt_column_deinit(&reader->root);
    return status;
}

MT_FACE void mt_json_result_clear(struct mt_json_result *result)
{
    if (result->rows.release)
        result->rows.release(&result->rows);
    mt_free(result->kept);
    *result = {};
}

/* ---- the reader */

/* Keys of a JSON object are text. */
static enum mt_status check_map(const json_field &map, struct mt_error *err)
{
    if (mt_schema_type(map.children[0].children[0].schema) == MT_STRING)
        return MT_OK;
    char *type = mt_schema_type_name(map.schema);
    mt_fail(err, MT_REJECT, MT_CLASS_JOB,
            "fromJson: field \"%s\" is %s, but JSON has only STRING as the key type of a MAP",
            map.path.c_str(), type);
    mt_free(type);
    return MT_REJECT;
}

static enum mt_status set_up_field(json_field *field, struct mt_error *err)
{
    enum mt_type type = mt_schema_type(field->schema);
    field->children.resize((size_t)field->schema->n_children);
    for (size_t i = 0; i < field->children.size(); i++) {
        json_field *child = &field->children[i];
        child->schema = field->schema->children[i];
        child->path = field->path + (field->path.empty() ? "" : ".") + child->schema->name;
        field->names.emplace(child->schema->name, (int32_t)i);
        enum mt_status status = set_up_field(child, err);
        if (status != MT_OK)
            return status;
    }
    if (type == MT_STRUCT)
        field->slots = std::make_unique<json_slot[]>(JSON_SLOTS);
    return type == MT_MAP ? check_map(*field, err) : MT_OK;
}

static enum mt_status set_up_fields(struct mt_json_reader *reader, struct mt_error *err)
{
    reader->fields.schema = reader->schema;
    enum mt_status status = set_up_field(&reader->fields, err);
    if (reader->corrupt >= 0)
        reader->fields.names.erase(reader->schema->children[reader->corrupt]->name);
    return status;
}

static enum mt_status find_corrupt(struct mt_json_reader *reader, const char *name,
                                   struct mt_error *err)
{
    reader->corrupt = -1;
    for (int64_t i = 0; name && i < reader->schema->n_children; i++)
        if (strcmp(reader->schema->children[i]->name, name) == 0)
            reader->corrupt = i;
    if (!name)
        return MT_OK;
    if (reader->corrupt < 0)
        return mt_fail(err, MT_REJECT, MT_CLASS_JOB,
                       "fromJson: the schema has no column \"%s\" for malformed records; add it "
                       "as STRING",
                       name);
    if (mt_schema_type(reader->schema->children[reader->corrupt]) != MT_STRING)
        return mt_fail(err, MT_REJECT, MT_CLASS_JOB,
                       "fromJson: column \"%s\" takes the text of malformed records and must be "
                       "STRING",
                       name);
    return MT_OK;
}

MT_FACE enum mt_status mt_json_reader_new(const struct ArrowSchema *schema, enum mt_json_mode mode,
                                          const char *corrupt, struct mt_json_reader **out,
                                          struct mt_error *err)
{
    return mt_guarded("fromJson", err, [&] {
        auto *reader = new mt_json_reader();
        reader->schema = schema;
        reader->mode = mode;
        enum mt_status status = find_corrupt(reader, corrupt, err);
        if (status == MT_OK)
            status = set_up_fields(reader, err);
        if (status == MT_OK)
            *out = reader;
        else
            mt_json_reader_free(reader);
        return status;
    });
}

MT_FACE void mt_json_reader_free(struct mt_json_reader *reader)
{
    if (!reader)
        return;
    mt_buf_free(&reader->padded);
    mt_buf_free(&reader->unescaped);
    mt_buf_free(&reader->compact);
    delete reader;
}

MT_FACE const char *mt_simdjson_version(void)
{
    return SIMDJSON_VERSION;
}
