/* SPDX-License-Identifier: Apache-2.0
 *
 * columnar_json.cc - a column of JSON texts to the columns of a schema, as Spark's
 * from_json does it.
 *
 * Records of a stream look alike, so the reader remembers which key stood at which
 * place of the last records and what it meant, known field or not; a key that differs
 * is looked up. Values go straight into the columns; what a record has written is taken
 * back when it turns out to be malformed further on. */
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "columnar_json_int.h"

/* ---- one record */

static inline uint64_t word(const char *p)
{
    uint64_t value;
    memcpy(&value, p, sizeof value);
    return value;
}

/* Whether the key at text, which a quote opened, is the slot's. Both are padded: keys
 * are short, a word or two and no call. */
static inline bool is_key(const json_slot *slot, const char *text)
{
    const char *key = slot->key;
    uint32_t len = slot->len + 1; /* and the closing quote, which the slot has too */
    for (; len > 8; len -= 8, key += 8, text += 8)
        if (word(key) != word(text))
            return false;
    return (word(key) ^ word(text)) << (64 - 8 * len) == 0;
}

/* Looks the key up and, if it is written plainly, remembers it. False: a bad escape. */
static bool find_field(struct mt_json_reader *reader, const json_record &record, uint32_t i,
                       json_slot *slot, int32_t *field)
{
    std::string_view key;
    if (!mt_json_text(reader, record, i, &key))
        return false;
    auto found = reader->fields.find(key);
    *field = found == reader->fields.end() ? -1 : found->second;
    if (key.size() < sizeof slot->key && key.data() != reader->unescaped.data) {
        memcpy(slot->key, key.data(), key.size() + 1);
        slot->len = (uint32_t)key.size();
        slot->field = *field;
    }
    return true;
}

static json_verdict broken(struct mt_json_reader *reader, int64_t where, const char *why)
{
    reader->where = where;
    reader->why = why;
    return JSON_BROKEN;
}

/* A value at token *i that no column takes, or takes as the text that it is. */
[[gnu::noinline]] static json_verdict read_nested(struct mt_json_reader *reader,
                                                  const json_record &record, uint32_t *i,
                                                  struct mt_column *column)
{
    bool wanted = column && column->type == MT_STRING;
    struct mt_buf *text = wanted ? &reader->compact : nullptr;
    reader->compact.len = 0;
    reader->why = "expected other JSON";
    if (!mt_json_walk(reader, record, i, 1, text) || *i >= record.n)
        return broken(reader, record.at[*i], reader->why);
    if (wanted)
        return mt_json_put_text(reader, column, {text->data, text->len});
    return column ? JSON_WRONG : JSON_FINE;
}

/* The string at token i, when no escape is in it and no blank behind it. */
static inline bool plain_string(const json_record &record, uint32_t i, std::string_view *out)
{
    const char *start = record.text + record.at[i] + 1, *end = record.text + record.at[i + 1] - 1;
    *out = {start, (size_t)(end - start)};
    return !record.escapes && *end == '"' && end >= start;
}

/* The value at token *i into the column. */
static inline json_verdict read_value(struct mt_json_reader *reader, const json_record &record,
                                      uint32_t *i, struct mt_column *column)
{
    char byte = record.text[record.at[*i]];
    if (byte == '"') {
        std::string_view text;
        if (!plain_string(record, *i, &text) && !mt_json_text(reader, record, *i, &text))
            return broken(reader, record.at[*i], "a bad escape in the string");
        ++*i;
        return mt_json_put_string(reader, column, text);
    }
    if (byte == '{' || byte == '[')
        return read_nested(reader, record, i, column);
    std::string_view token = record.token(*i);
    json_number number;
    if (mt_json_number(token, &number)) {
        ++*i;
        return mt_json_put_number(reader, column, token, number);
    }
    if (token != "true" && token != "false" && token != "null")
        return broken(reader, record.at[*i], "expected a value");
    ++*i;
    return mt_json_put_word(reader, column, token);
}

/* The members of the root, whose last token is a brace: no step here passes it unseen. */
static json_verdict read_members(struct mt_json_reader *reader, const json_record &record,
                                 uint32_t *i)
{
    json_verdict all = JSON_FINE;
    for (json_slot *slot = reader->slots;; slot += slot < reader->slots + JSON_SLOTS - 1) {
        const char *key = record.text + record.at[*i];
        if (*key != '"' || record.text[record.at[*i + 1]] != ':')
            return broken(reader, record.at[*i], "expected a key and a colon");
        int32_t field = slot->field;
        if (!is_key(slot, key + 1) && !find_field(reader, record, *i, slot, &field))
            return broken(reader, record.at[*i], "a bad escape in the key");
        *i += 2;
        json_verdict one = field < 0 ? read_nested(reader, record, i, nullptr)
                                     : read_value(reader, record, i, &reader->root.children[field]);
        if (one >= JSON_BROKEN)
            return one;
        if (one == JSON_WRONG && all == JSON_FINE) {
            all = JSON_WRONG;
            reader->wrong = field;
        }
        if (record.text[record.at[*i]] != ',')
            return all;
        ++*i;
    }
}

static json_verdict read_tokens(struct mt_json_reader *reader, const json_record &record)
{
    uint32_t i = 1, last = record.n - 1;
    if (record.byte(0) != '{')
        return broken(reader, record.at[0], "expected an opening brace");
    if (last == 0 || record.byte(last) != '}')
        return broken(reader, record.at[record.n], "expected a closing brace");
    json_verdict all = i == last ? JSON_FINE : read_members(reader, record, &i);
    if (all >= JSON_BROKEN)
        return all;
    if (record.byte(i) != '}')
        return broken(reader, record.at[i], "expected a comma or a closing brace");
    if (i != last)
        return broken(reader, record.at[i + 1], "text behind the object");
    return all;
}

/* What simdjson's first stage found wrong; it does not say where. */
static json_verdict not_tokens(struct mt_json_reader *reader, sj::error_code code)
{
    switch (code) {
    case sj::UTF8_ERROR:
        return broken(reader, -1, "bytes that are not UTF-8");
    case sj::UNESCAPED_CHARS:
        return broken(reader, -1, "a bare control character in a string");
    case sj::UNCLOSED_STRING:
        return broken(reader, -1, "a string without end");
    default:
        return broken(reader, -1, sj::error_message(code));
    }
}

/* text has padding behind it. */
static json_verdict read_record(struct mt_json_reader *reader, std::string_view text)
{
    sj::dom::parser *parser = &reader->parser;
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

static enum mt_status fill_with_nulls(struct mt_json_reader *reader)
{
    struct mt_column *root = &reader->root;
    for (int64_t i = 0; i < root->n_children; i++) {
        struct mt_column *column = &root->children[i];
        if (column->length > root->length)
            continue;
        enum mt_status status = mt_column_add_null(column, reader->err);
        if (status != MT_OK)
            return status;
    }
    root->length++;
    return MT_OK;
}

static void unwind_row(struct mt_json_reader *reader)
{
    for (int64_t i = 0; i < reader->root.n_children; i++)
        mt_json_unwind(reader, &reader->root.children[i]);
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
    return fill_with_nulls(reader);
}

/* FAILFAST: the words for a malformed record. */
static enum mt_status refuse(struct mt_json_reader *reader, const struct mt_batch *in, int64_t row,
                             std::string_view text, json_verdict verdict)
{
    char where[300], quoted[800], what[200];
    mt_batch_where(in, row, where, sizeof where);
    mt_quote(text.data(), text.size(), quoted, sizeof quoted);
    if (verdict == JSON_WRONG) {
        const struct ArrowSchema *field = reader->schema->children[reader->wrong];
        char *type = mt_schema_type_name(field);
        snprintf(what, sizeof what, "the value of field \"%.100s\" does not fit %s", field->name,
                 type);
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
        return fill_with_nulls(reader);
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
    enum mt_status status = mt_column_reserve(root, all.n, 0, reader->err);
    for (int64_t i = 0; i < root->n_children && status == MT_OK; i++)
        status = mt_column_reserve(&root->children[i], all.n, all.n, reader->err);
    if (status != MT_OK)
        return status;
    for (int64_t row = 0; row < all.n; row++) {
        int64_t before = root->length;
        bool null = mt_array_is_null(array, in->array.offset + row) || is_blank(all.at(row));
        status = null ? mt_column_add_null(root, reader->err) : read_row(reader, in, all, row, out);
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

static enum mt_status check_fields(struct mt_json_reader *reader, struct mt_error *err)
{
    for (int64_t i = 0; i < reader->schema->n_children; i++) {
        const struct ArrowSchema *field = reader->schema->children[i];
        if (field->n_children > 0) {
            char *type = mt_schema_type_name(field);
            mt_fail(err, MT_REJECT, MT_CLASS_JOB,
                    "fromJson: column \"%s\" is %s: nested types are not here yet; STRING takes "
                    "such a value as its JSON text",
                    field->name, type);
            mt_free(type);
            return MT_REJECT;
        }
        if (i != reader->corrupt)
            reader->fields.emplace(field->name, (int32_t)i);
    }
    return MT_OK;
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
            status = check_fields(reader, err);
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
