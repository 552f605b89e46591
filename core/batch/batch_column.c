/* SPDX-License-Identifier: Apache-2.0
 *
 * batch_column.c - a column that grows by one value at a time.
 *
 * The fields are public because the fast writers (the JSON reader, generated Lua
 * loops) reserve once and then store. What makes that safe:
 *   - growth is geometric, so reserving row by row costs nothing to speak of;
 *   - validity bits past `length` are 1 and boolean values past it are 0: a value that
 *     is there need not touch validity, only a null clears its bit;
 *   - offsets[length] is always set once there is room for a row;
 *   - 64 bytes behind the text are readable, since simdjson reads past the end.
 * Validity is allocated at the first null: most columns never have one. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "batch_int.h"

size_t mt_type_width(enum mt_type type)
{
    static const size_t widths[MT_MAP + 1] = {
        [MT_TINYINT] = 1, [MT_SMALLINT] = 2, [MT_INT] = 4,  [MT_BIGINT] = 8,    [MT_FLOAT] = 4,
        [MT_DOUBLE] = 8,  [MT_DECIMAL] = 16, [MT_DATE] = 4, [MT_TIMESTAMP] = 8,
    };
    return widths[type];
}

static bool is_text(enum mt_type type)
{
    return type == MT_STRING || type == MT_BINARY;
}

static bool has_offsets(enum mt_type type)
{
    return is_text(type) || type == MT_ARRAY || type == MT_MAP;
}

static size_t bits(int64_t rows)
{
    return ((size_t)rows + 7) / 8;
}

void mt_column_init(struct mt_column *column, const struct ArrowSchema *field)
{
    *column = (struct mt_column){.type = mt_schema_type(field), .n_children = field->n_children};
    mt_schema_decimal(field, &column->precision, &column->scale);
    if (field->n_children)
        column->children = mt_alloc((size_t)field->n_children * sizeof *column->children);
    for (int64_t i = 0; i < field->n_children; i++)
        mt_column_init(&column->children[i], field->children[i]);
}

void mt_column_deinit(struct mt_column *column)
{
    for (int64_t i = 0; i < column->n_children; i++)
        mt_column_deinit(&column->children[i]);
    free(column->children);
    free(column->validity);
    free(column->offsets);
    free(column->values);
    *column = (struct mt_column){0};
}

/* ---- room */

static void grow_bits(uint8_t **bytes, int64_t from, int64_t to, int fill)
{
    *bytes = mt_realloc(*bytes, bits(to));
    memset(*bytes + bits(from), fill, bits(to) - bits(from));
}

static void grow_rows(struct mt_column *column, int64_t need)
{
    int64_t cap = column->capacity * 2 > need ? column->capacity * 2 : need;
    cap = (cap + 63) / 64 * 64; /* whole bytes of bits */
    size_t width = mt_type_width(column->type);
    if (column->validity)
        grow_bits(&column->validity, column->capacity, cap, 0xff);
    if (column->type == MT_BOOLEAN)
        grow_bits(&column->values, column->capacity, cap, 0);
    if (width)
        column->values = mt_realloc(column->values, (size_t)cap * width);
    if (has_offsets(column->type)) {
        column->offsets = mt_realloc(column->offsets, ((size_t)cap + 1) * sizeof(int32_t));
        if (column->capacity == 0)
            column->offsets[0] = 0;
    }
    column->capacity = cap;
}

static enum mt_status grow_text(struct mt_column *column, int64_t bytes, struct mt_error *err)
{
    if (bytes > INT32_MAX - column->values_len)
        return mt_fail(err, MT_REJECT, MT_CLASS_DATA,
                       "a column's text would pass 2 GiB in one batch; make the batch smaller "
                       "(maxOffsetsPerTrigger, maxBatchBytes)");
    int64_t need = column->values_len + bytes;
    int64_t cap = column->values_cap * 2 > need ? column->values_cap * 2 : need;
    column->values = mt_realloc(column->values, (size_t)cap + MT_TEXT_PADDING);
    column->values_cap = cap;
    return MT_OK;
}

enum mt_status mt_column_reserve(struct mt_column *column, int64_t rows, int64_t bytes,
                                 struct mt_error *err)
{
    if (column->length + rows > column->capacity)
        grow_rows(column, column->length + rows);
    if (is_text(column->type) && column->values_len + bytes > column->values_cap)
        return grow_text(column, bytes, err);
    return MT_OK;
}

/* ---- appending */

static void clear_validity(struct mt_column *column, int64_t row)
{
    if (!column->validity)
        grow_bits(&column->validity, 0, column->capacity, 0xff);
    column->validity[row >> 3] &= (uint8_t) ~(1u << (row & 7));
    column->null_count++;
}

enum mt_status mt_column_add_null(struct mt_column *column, struct mt_error *err)
{
    enum mt_status status = mt_column_reserve(column, 1, 0, err);
    if (column->type == MT_STRUCT) /* its children are as long as it is */
        for (int64_t i = 0; i < column->n_children && status == MT_OK; i++)
            status = mt_column_add_null(&column->children[i], err);
    if (status != MT_OK)
        return status;
    int64_t row = column->length++;
    size_t width = mt_type_width(column->type);
    clear_validity(column, row);
    if (width)
        memset(column->values + (size_t)row * width, 0, width);
    if (column->offsets)
        column->offsets[row + 1] = column->offsets[row];
    return MT_OK;
}

enum mt_status mt_column_add_bytes(struct mt_column *column, const void *bytes, int64_t len,
                                   struct mt_error *err)
{
    enum mt_status status = mt_column_reserve(column, 1, len, err);
    if (status != MT_OK)
        return status;
    if (len > 0)
        memcpy(column->values + column->values_len, bytes, (size_t)len);
    column->values_len += len;
    column->offsets[++column->length] = (int32_t)column->values_len;
    return MT_OK;
}

enum mt_status mt_column_add_int(struct mt_column *column, int64_t value, struct mt_error *err)
{
    enum mt_status status = mt_column_reserve(column, 1, 0, err);
    if (status != MT_OK)
        return status;
    int64_t row = column->length++;
    switch (mt_type_width(column->type)) {
    case 0:
        column->values[row >> 3] |= (uint8_t)((value != 0) << (row & 7));
        break;
    case 1:
        ((int8_t *)column->values)[row] = (int8_t)value;
        break;
    case 2:
        ((int16_t *)column->values)[row] = (int16_t)value;
        break;
    case 4:
        ((int32_t *)column->values)[row] = (int32_t)value;
        break;
    default:
        ((int64_t *)column->values)[row] = value;
    }
    return MT_OK;
}

enum mt_status mt_column_add_double(struct mt_column *column, double value, struct mt_error *err)
{
    enum mt_status status = mt_column_reserve(column, 1, 0, err);
    if (status != MT_OK)
        return status;
    int64_t row = column->length++;
    if (column->type == MT_FLOAT)
        ((float *)column->values)[row] = (float)value;
    else
        ((double *)column->values)[row] = value;
    return MT_OK;
}

enum mt_status mt_column_add_decimal(struct mt_column *column, const uint64_t unscaled[2],
                                     struct mt_error *err)
{
    enum mt_status status = mt_column_reserve(column, 1, 0, err);
    if (status == MT_OK)
        memcpy(column->values + column->length++ * 16, unscaled, 16);
    return status;
}

enum mt_status mt_column_close_row(struct mt_column *column, struct mt_error *err)
{
    enum mt_status status = mt_column_reserve(column, 1, 0, err);
    if (status != MT_OK)
        return status;
    column->length++;
    if (column->type == MT_STRUCT) {
        for (int64_t i = 0; i < column->n_children; i++)
            assert(column->children[i].length == column->length);
        return MT_OK;
    }
    if (column->children[0].length > INT32_MAX)
        return mt_fail(err, MT_REJECT, MT_CLASS_DATA,
                       "a column would have more than 2^31 elements in one batch; make the batch "
                       "smaller (maxOffsetsPerTrigger, maxBatchBytes)");
    column->offsets[column->length] = (int32_t)column->children[0].length;
    return MT_OK;
}

/* ---- taking back */

/* Bits past the end: valid, false. */
static void restore_bits(struct mt_column *column, int64_t row)
{
    uint8_t bit = (uint8_t)(1u << (row & 7));
    if (column->validity && !(column->validity[row >> 3] & bit)) {
        column->validity[row >> 3] |= bit;
        column->null_count--;
    }
    if (column->type == MT_BOOLEAN)
        column->values[row >> 3] &= (uint8_t)~bit;
}

void mt_column_cut(struct mt_column *column, int64_t length)
{
    for (; column->length > length; column->length--)
        restore_bits(column, column->length - 1);
    int64_t inside = column->offsets ? column->offsets[column->length] : 0;
    if (is_text(column->type))
        column->values_len = inside;
    for (int64_t i = 0; i < column->n_children; i++)
        mt_column_cut(&column->children[i], column->type == MT_STRUCT ? length : inside);
}

/* ---- done */

void mt_column_finish(struct mt_column *column, struct ArrowArray *out)
{
    if (column->capacity == 0)
        grow_rows(column, 1); /* Arrow's readers want buffers for no rows too */
    if (is_text(column->type)) {
        if (!column->values)
            column->values = mt_alloc(MT_TEXT_PADDING);
        memset(column->values + column->values_len, 0, MT_TEXT_PADDING);
    }
    void *buffers[3] = {column->validity};
    int64_t n_buffers = 1;
    if (column->offsets)
        buffers[n_buffers++] = column->offsets;
    if (column->values)
        buffers[n_buffers++] = column->values;
    int64_t n = column->n_children;
    struct ArrowArray *children = mt_alloc((size_t)n * sizeof *children);
    for (int64_t i = 0; i < n; i++)
        mt_column_finish(&column->children[i], &children[i]);
    mt_array_make(column->length, column->null_count, buffers, n_buffers, children, n, out);
    free(children);
    column->validity = column->values = NULL;
    column->offsets = NULL;
    column->length = column->null_count = column->capacity = 0;
    column->values_len = column->values_cap = 0;
}
