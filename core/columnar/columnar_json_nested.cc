/* SPDX-License-Identifier: Apache-2.0
 *
 * columnar_json_nested.cc - objects and arrays as rows of columns: the record itself, and
 * what is STRUCT, ARRAY or MAP in it.
 *
 * Records of a stream look alike, so each STRUCT remembers which key stood at which place
 * of its last objects and what it meant, known field or not; a key that differs is
 * looked up.
 *
 * What a wrong value costs is Spark's: in an object that field alone, which stays null (or
 * what an equal key before it was); in an array or a map the whole of it. An object with
 * something left out is a value all the same, so a wrong value never goes up past the
 * next object. The rest of the text is read in any case, for it may be no JSON. */
#include <cstring>

#include "columnar_json_int.h"

json_verdict mt_json_broken(struct mt_json_reader *reader, int64_t where, const char *why)
{
    reader->where = where;
    reader->why = why;
    return JSON_BROKEN;
}

static json_verdict worse(json_verdict a, json_verdict b)
{
    return a > b ? a : b;
}

/* ---- room */

bool mt_json_room(struct mt_json_reader *reader, struct mt_column *column, int64_t rows)
{
    bool room = mt_column_reserve(column, rows, rows, reader->err) == MT_OK;
    if (column->type == MT_STRUCT)
        for (int64_t i = 0; room && i < column->n_children; i++)
            room = mt_json_room(reader, &column->children[i], rows);
    return room;
}

static bool has_room(const struct mt_column *column)
{
    bool room = column->length < column->capacity;
    if (column->type == MT_STRUCT)
        for (int64_t i = 0; room && i < column->n_children; i++)
            room = has_room(&column->children[i]);
    return room;
}

/* Makes the next row of an ARRAY's or MAP's child the running one. */
static bool next_row(struct mt_json_reader *reader, struct mt_column *column)
{
    reader->row = column->length;
    return has_room(column) || mt_json_room(reader, column, 1);
}

bool mt_json_close_struct(struct mt_json_reader *reader, struct mt_column *column)
{
    for (int64_t i = 0; i < column->n_children; i++) {
        struct mt_column *child = &column->children[i];
        if (child->length <= column->length && mt_column_add_null(child, reader->err) != MT_OK)
            return false;
    }
    column->length++;
    return true;
}

/* ---- keys */

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
static bool find_field(struct mt_json_reader *reader, const json_field &field,
                       const json_record &record, uint32_t i, json_slot *slot, int32_t *child)
{
    std::string_view key;
    if (!mt_json_text(reader, record, i, &key))
        return false;
    auto found = field.names.find(key);
    *child = found == field.names.end() ? -1 : found->second;
    if (key.size() < sizeof slot->key && key.data() != reader->unescaped.data) {
        memcpy(slot->key, key.data(), key.size() + 1);
        slot->len = (uint32_t)key.size();
        slot->field = *child;
    }
    return true;
}

/* ---- values */

static json_verdict read_nested(struct mt_json_reader *reader, const json_field &field,
                                const json_record &record, uint32_t *i, struct mt_column *column,
                                int depth);

/* A value at token *i that no column takes. */
[[gnu::noinline]] static json_verdict skip_value(struct mt_json_reader *reader,
                                                 const json_record &record, uint32_t *i, int depth,
                                                 struct mt_buf *text = nullptr)
{
    reader->why = "expected other JSON";
    if (!mt_json_walk(reader, record, i, depth, text) || *i >= record.n)
        return mt_json_broken(reader, record.at[*i], reader->why);
    return JSON_FINE;
}

/* An object or array as the text that it is. */
static json_verdict read_as_text(struct mt_json_reader *reader, const json_record &record,
                                 uint32_t *i, struct mt_column *column, int depth)
{
    struct mt_buf *text = &reader->compact;
    text->len = 0;
    json_verdict verdict = skip_value(reader, record, i, depth, text);
    return verdict == JSON_FINE ? mt_json_put_text(reader, column, {text->data, text->len})
                                : verdict;
}

/* The string at token i, when no escape is in it and no blank behind it. */
static inline bool plain_string(const json_record &record, uint32_t i, std::string_view *out)
{
    const char *start = record.text + record.at[i] + 1, *end = record.text + record.at[i + 1] - 1;
    *out = {start, (size_t)(end - start)};
    return !record.escapes && *end == '"' && end >= start;
}

/* The value at token *i into the column. */
static inline json_verdict read_value(struct mt_json_reader *reader, const json_field &field,
                                      const json_record &record, uint32_t *i,
                                      struct mt_column *column, int depth)
{
    char byte = record.text[record.at[*i]];
    if (byte == '"') {
        std::string_view text;
        if (!plain_string(record, *i, &text) && !mt_json_text(reader, record, *i, &text))
            return mt_json_broken(reader, record.at[*i], "a bad escape in the string");
        ++*i;
        return mt_json_put_string(reader, column, text);
    }
    if (byte == '{' || byte == '[')
        return read_nested(reader, field, record, i, column, depth);
    std::string_view token = record.token(*i);
    json_number number;
    if (mt_json_number(token, &number)) {
        ++*i;
        return mt_json_put_number(reader, column, token, number);
    }
    if (token != "true" && token != "false" && token != "null")
        return mt_json_broken(reader, record.at[*i], "expected a value");
    ++*i;
    return mt_json_put_word(reader, column, token);
}

static void note_wrong(struct mt_json_reader *reader, const json_field &field)
{
    if (!reader->wrong)
        reader->wrong = &field;
}

json_verdict mt_json_members(struct mt_json_reader *reader, const json_field &field,
                             const json_record &record, uint32_t *i, struct mt_column *column,
                             int depth)
{
    json_verdict all = JSON_FINE;
    json_slot *slot = field.slots.get(), *last_slot = slot + JSON_SLOTS - 1;
    for (;; slot += slot < last_slot) {
        const char *key = record.text + record.at[*i];
        if (*key != '"' || record.text[record.at[*i + 1]] != ':')
            return mt_json_broken(reader, record.at[*i], "expected a key and a colon");
        int32_t child = slot->field;
        if (!is_key(slot, key + 1) && !find_field(reader, field, record, *i, slot, &child))
            return mt_json_broken(reader, record.at[*i], "a bad escape in the key");
        *i += 2;
        json_verdict one = child < 0 ? skip_value(reader, record, i, depth)
                                     : read_value(reader, field.children[(size_t)child], record, i,
                                                  &column->children[child], depth);
        if (one >= JSON_BROKEN)
            return one;
        if (one != JSON_FINE) {
            note_wrong(reader, field.children[(size_t)child]);
            all = JSON_PARTIAL;
        }
        if (record.text[record.at[*i]] != ',')
            return all;
        ++*i;
    }
}

/* ---- nested columns; *i is behind the opening brace or bracket */

static json_verdict read_struct(struct mt_json_reader *reader, const json_field &field,
                                const json_record &record, uint32_t *i, struct mt_column *column,
                                int depth)
{
    json_verdict all = JSON_FINE;
    if (record.byte(*i) != '}')
        all = mt_json_members(reader, field, record, i, column, depth);
    if (all >= JSON_BROKEN)
        return all;
    if (record.byte(*i) != '}')
        return mt_json_broken(reader, record.at[*i], "expected a comma or a closing brace");
    ++*i;
    return mt_json_close_struct(reader, column) ? all : JSON_STOP;
}

/* Closes a row of an ARRAY or MAP over its elements. */
static json_verdict close_list(struct mt_json_reader *reader, struct mt_column *column,
                               json_verdict all)
{
    if (all == JSON_WRONG)
        return all;
    return mt_column_close_row(column, reader->err) == MT_OK ? all : JSON_STOP;
}

static json_verdict read_element(struct mt_json_reader *reader, const json_field &field,
                                 const json_record &record, uint32_t *i, struct mt_column *column,
                                 int depth)
{
    if (!next_row(reader, column))
        return JSON_STOP;
    json_verdict one = read_value(reader, field, record, i, column, depth);
    if (one == JSON_WRONG)
        note_wrong(reader, field);
    return one;
}

static json_verdict read_array(struct mt_json_reader *reader, const json_field &field,
                               const json_record &record, uint32_t *i, struct mt_column *column,
                               int depth)
{
    json_verdict all = JSON_FINE;
    bool empty = record.byte(*i) == ']';
    *i += empty;
    for (char next = empty ? ']' : ','; next != ']'; ++*i) {
        json_verdict one = all == JSON_WRONG ? skip_value(reader, record, i, depth)
                                             : read_element(reader, field.children[0], record, i,
                                                            &column->children[0], depth);
        all = worse(all, one);
        if (all >= JSON_BROKEN)
            return all;
        next = record.byte(*i);
        if (next != ',' && next != ']')
            return mt_json_broken(reader, record.at[*i], "expected a comma or a closing bracket");
    }
    return close_list(reader, column, all);
}

/* The key at token *i and its value as one entry of a MAP; equal keys are all kept. */
static json_verdict read_entry(struct mt_json_reader *reader, const json_field &field,
                               const json_record &record, uint32_t *i, struct mt_column *entries,
                               int depth)
{
    std::string_view key;
    if (!plain_string(record, *i, &key) && !mt_json_text(reader, record, *i, &key))
        return mt_json_broken(reader, record.at[*i], "a bad escape in the key");
    *i += 2;
    if (!next_row(reader, entries))
        return JSON_STOP;
    json_verdict verdict = mt_json_put_string(reader, &entries->children[0], key);
    if (verdict == JSON_FINE)
        verdict = read_value(reader, field.children[1], record, i, &entries->children[1], depth);
    if (verdict <= JSON_PARTIAL)
        entries->length++;
    else if (verdict == JSON_WRONG)
        note_wrong(reader, field.children[1]);
    return verdict;
}

/* An entry that no column takes. */
static json_verdict skip_entry(struct mt_json_reader *reader, const json_record &record,
                               uint32_t *i, int depth)
{
    std::string_view key;
    if (!mt_json_text(reader, record, *i, &key))
        return mt_json_broken(reader, record.at[*i], "a bad escape in the key");
    *i += 2;
    return skip_value(reader, record, i, depth);
}

static json_verdict read_map(struct mt_json_reader *reader, const json_field &field,
                             const json_record &record, uint32_t *i, struct mt_column *column,
                             int depth)
{
    json_verdict all = JSON_FINE;
    bool empty = record.byte(*i) == '}';
    *i += empty;
    for (char next = empty ? '}' : ','; next != '}'; ++*i) {
        if (record.byte(*i) != '"' || record.byte(*i + 1) != ':')
            return mt_json_broken(reader, record.at[*i], "expected a key and a colon");
        json_verdict one = all == JSON_WRONG ? skip_entry(reader, record, i, depth)
                                             : read_entry(reader, field.children[0], record, i,
                                                          &column->children[0], depth);
        all = worse(all, one);
        if (all >= JSON_BROKEN)
            return all;
        next = record.byte(*i);
        if (next != ',' && next != '}')
            return mt_json_broken(reader, record.at[*i], "expected a comma or a closing brace");
    }
    return close_list(reader, column, all);
}

static json_verdict read_inside(struct mt_json_reader *reader, const json_field &field,
                                const json_record &record, uint32_t *i, struct mt_column *column,
                                int depth)
{
    int64_t row = reader->row;
    auto *read = column->type == MT_STRUCT  ? read_struct
                 : column->type == MT_ARRAY ? read_array
                                            : read_map;
    ++*i;
    json_verdict verdict = read(reader, field, record, i, column, depth + 1);
    reader->row = row;
    if (verdict >= JSON_BROKEN)
        return verdict;
    if (verdict == JSON_WRONG)
        mt_column_cut(column, row);
    if (*i >= record.n)
        return mt_json_broken(reader, record.at[record.n], "expected a closing brace");
    return verdict;
}

/* A second value of a nested field in one object: apart, for if it is wrong the first one
 * stays. */
static json_verdict read_again(struct mt_json_reader *reader, const json_field &field,
                               const json_record &record, uint32_t *i, struct mt_column *column,
                               int depth)
{
    struct mt_column apart;
    int64_t row = reader->row;
    mt_column_init(&apart, field.schema);
    json_verdict verdict = JSON_STOP;
    if (next_row(reader, &apart))
        verdict = read_inside(reader, field, record, i, &apart, depth);
    reader->row = row;
    if (verdict <= JSON_PARTIAL) {
        struct ArrowArray value;
        mt_column_cut(column, row);
        mt_column_finish(&apart, &value);
        if (mt_column_add_array(column, &value, 0, 1, reader->err) != MT_OK)
            verdict = JSON_STOP;
        value.release(&value);
    }
    mt_column_deinit(&apart);
    return verdict;
}

/* The object or array at token *i into a column of any type. */
[[gnu::noinline]] static json_verdict read_nested(struct mt_json_reader *reader,
                                                  const json_field &field,
                                                  const json_record &record, uint32_t *i,
                                                  struct mt_column *column, int depth)
{
    if (column->type == MT_STRING)
        return read_as_text(reader, record, i, column, depth);
    bool object = column->type == MT_STRUCT || column->type == MT_MAP;
    if (record.byte(*i) != (object ? '{' : '[') || column->n_children == 0)
        return worse(skip_value(reader, record, i, depth), JSON_WRONG);
    if (column->length > reader->row)
        return read_again(reader, field, record, i, column, depth);
    return read_inside(reader, field, record, i, column, depth);
}
