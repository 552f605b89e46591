/* SPDX-License-Identifier: Apache-2.0
 *
 * batch_print.c - one value as Spark's show() prints it: numbers as Java does, lists in
 * brackets, bytes in hexadecimal since they may be anything. */
#include <inttypes.h>
#include <string.h>

#include "batch_int.h"

static void print_fixed(const struct ArrowSchema *field, const void *values, int64_t at,
                        struct mt_buf *buf)
{
    char text[64];
    int32_t precision, scale;
    switch (mt_schema_type(field)) {
    case MT_BOOLEAN:
        mt_buf_adds(buf, mt_bit(values, at) ? "true" : "false");
        return;
    case MT_TINYINT:
        mt_buf_addf(buf, "%d", ((const int8_t *)values)[at]);
        return;
    case MT_SMALLINT:
        mt_buf_addf(buf, "%d", ((const int16_t *)values)[at]);
        return;
    case MT_INT:
        mt_buf_addf(buf, "%" PRId32, ((const int32_t *)values)[at]);
        return;
    case MT_BIGINT:
        mt_buf_addf(buf, "%" PRId64, ((const int64_t *)values)[at]);
        return;
    case MT_FLOAT:
        mt_float_print(((const float *)values)[at], text);
        break;
    case MT_DOUBLE:
        mt_double_print(((const double *)values)[at], text);
        break;
    case MT_DATE:
        mt_date_print(((const int32_t *)values)[at], text);
        break;
    case MT_TIMESTAMP:
        mt_timestamp_print(((const int64_t *)values)[at], text);
        break;
    default:
        mt_schema_decimal(field, &precision, &scale);
        mt_decimal_print((const uint64_t *)values + 2 * at, scale, text);
    }
    mt_buf_adds(buf, text);
}

static void print_text(const struct ArrowArray *array, bool hex, int64_t at, struct mt_buf *buf)
{
    const int32_t *offsets = (const int32_t *)array->buffers[1] + at;
    const uint8_t *bytes = (const uint8_t *)array->buffers[2] + offsets[0];
    size_t len = (size_t)(offsets[1] - offsets[0]);
    if (!hex) {
        mt_buf_add(buf, bytes, len);
        return;
    }
    mt_buf_adds(buf, "[");
    for (size_t i = 0; i < len; i++)
        mt_buf_addf(buf, "%s%02X", i ? " " : "", bytes[i]);
    mt_buf_adds(buf, "]");
}

static void print_array(const struct ArrowSchema *field, const struct ArrowArray *array, int64_t at,
                        struct mt_buf *buf)
{
    const int32_t *offsets = (const int32_t *)array->buffers[1] + at;
    mt_buf_adds(buf, "[");
    for (int32_t e = offsets[0]; e < offsets[1]; e++) {
        mt_buf_adds(buf, e > offsets[0] ? ", " : "");
        mt_value_print(field->children[0], array->children[0], e, buf);
    }
    mt_buf_adds(buf, "]");
}

static void print_map(const struct ArrowSchema *field, const struct ArrowArray *array, int64_t at,
                      struct mt_buf *buf)
{
    const int32_t *offsets = (const int32_t *)array->buffers[1] + at;
    const struct ArrowSchema *entry = field->children[0];
    const struct ArrowArray *entries = array->children[0];
    mt_buf_adds(buf, "{");
    for (int32_t e = offsets[0]; e < offsets[1]; e++) {
        mt_buf_adds(buf, e > offsets[0] ? ", " : "");
        mt_value_print(entry->children[0], entries->children[0], entries->offset + e, buf);
        mt_buf_adds(buf, " -> ");
        mt_value_print(entry->children[1], entries->children[1], entries->offset + e, buf);
    }
    mt_buf_adds(buf, "}");
}

static void print_struct(const struct ArrowSchema *field, const struct ArrowArray *array,
                         int64_t at, struct mt_buf *buf)
{
    mt_buf_adds(buf, "{");
    for (int64_t i = 0; i < field->n_children; i++) {
        mt_buf_adds(buf, i ? ", " : "");
        mt_value_print(field->children[i], array->children[i], at, buf);
    }
    mt_buf_adds(buf, "}");
}

static void print(const struct ArrowSchema *field, const struct ArrowArray *array, int64_t at,
                  struct mt_buf *buf)
{
    enum mt_type type = mt_schema_type(field);
    switch (type) {
    case MT_STRING:
    case MT_BINARY:
        print_text(array, type == MT_BINARY, at, buf);
        break;
    case MT_ARRAY:
        print_array(field, array, at, buf);
        break;
    case MT_MAP:
        print_map(field, array, at, buf);
        break;
    case MT_STRUCT:
        print_struct(field, array, at, buf);
        break;
    default:
        print_fixed(field, array->buffers[1], at, buf);
    }
}

void mt_value_print(const struct ArrowSchema *field, const struct ArrowArray *array, int64_t row,
                    struct mt_buf *buf)
{
    if (mt_array_is_null(array, row))
        mt_buf_adds(buf, "NULL");
    else
        print(field, array, array->offset + row, buf);
}
