/* SPDX-License-Identifier: Apache-2.0
 *
 * batch_append.c - rows of arrays behind one another in one column, value by value: for
 * tables and streams that are kept as they came and are asked for as a whole. Gathering
 * (batch_gather.c) is faster and knows one array only. */
#include "batch_int.h"

static enum mt_status add_list(struct mt_column *column, const struct ArrowArray *from, int64_t i,
                               struct mt_error *err)
{
    const int32_t *offsets = (const int32_t *)from->buffers[1] + i;
    enum mt_status status = mt_column_add_array(&column->children[0], from->children[0], offsets[0],
                                                offsets[1] - offsets[0], err);
    return status == MT_OK ? mt_column_close_row(column, err) : status;
}

static enum mt_status add_struct(struct mt_column *column, const struct ArrowArray *from, int64_t i,
                                 struct mt_error *err)
{
    enum mt_status status = MT_OK;
    for (int64_t c = 0; status == MT_OK && c < column->n_children; c++)
        status = mt_column_add_array(&column->children[c], from->children[c], i, 1, err);
    return status == MT_OK ? mt_column_close_row(column, err) : status;
}

static enum mt_status add_text(struct mt_column *column, const struct ArrowArray *from, int64_t i,
                               struct mt_error *err)
{
    const int32_t *offsets = (const int32_t *)from->buffers[1] + i;
    const char *text = from->buffers[2];
    return mt_column_add_bytes(column, text + offsets[0], offsets[1] - offsets[0], err);
}

/* The value at place i of the buffers, which is there. */
static enum mt_status add_value(struct mt_column *column, const struct ArrowArray *from, int64_t i,
                                struct mt_error *err)
{
    const void *values = from->n_buffers > 1 ? from->buffers[1] : NULL;
    switch (column->type) {
    case MT_BOOLEAN:
        return mt_column_add_int(column, mt_bit(values, i), err);
    case MT_TINYINT:
        return mt_column_add_int(column, ((const int8_t *)values)[i], err);
    case MT_SMALLINT:
        return mt_column_add_int(column, ((const int16_t *)values)[i], err);
    case MT_INT:
    case MT_DATE:
        return mt_column_add_int(column, ((const int32_t *)values)[i], err);
    case MT_BIGINT:
    case MT_TIMESTAMP:
        return mt_column_add_int(column, ((const int64_t *)values)[i], err);
    case MT_FLOAT:
        return mt_column_add_double(column, (double)((const float *)values)[i], err);
    case MT_DOUBLE:
        return mt_column_add_double(column, ((const double *)values)[i], err);
    case MT_DECIMAL:
        return mt_column_add_decimal(column, (const uint64_t *)values + 2 * i, err);
    case MT_STRING:
    case MT_BINARY:
        return add_text(column, from, i, err);
    case MT_ARRAY:
    case MT_MAP:
        return add_list(column, from, i, err);
    case MT_STRUCT:
        return add_struct(column, from, i, err);
    }
    return mt_fail(err, MT_FATAL, MT_CLASS_INTERNAL, "column type %d is unknown",
                   (int)column->type);
}

enum mt_status mt_column_add_array(struct mt_column *column, const struct ArrowArray *from,
                                   int64_t first, int64_t n, struct mt_error *err)
{
    enum mt_status status = MT_OK;
    for (int64_t row = first; status == MT_OK && row < first + n; row++)
        status = mt_array_is_null(from, row) ? mt_column_add_null(column, err)
                                             : add_value(column, from, from->offset + row, err);
    return status;
}
