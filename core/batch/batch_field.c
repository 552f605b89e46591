/* SPDX-License-Identifier: Apache-2.0
 *
 * batch_field.c - a field of a STRUCT as a column of its own.
 *
 * Arrow lets anything stand under a null STRUCT, and a column that was inside one would
 * show it. Mostly nothing does (our own builders write nulls there), so validity is
 * compared first, and made anew only where it would show what is not there. */
#include <stdlib.h>
#include <string.h>

#include "batch_int.h"

/* Clears the bits of rows that are null in array, where row 0 is at place `at`. */
static void hide_nulls(const struct ArrowArray *array, int64_t at, int64_t rows, uint8_t **there)
{
    size_t bytes = ((size_t)rows + 7) / 8;
    if (array->null_count == 0 || !array->buffers[0])
        return;
    if (!*there)
        *there = memset(mt_alloc(bytes), 0xff, bytes);
    for (int64_t row = 0; row < rows; row++)
        if (!mt_bit(array->buffers[0], at + row))
            (*there)[row >> 3] &= (uint8_t) ~(1u << (row & 7));
}

/* Rows that are there in the column and hidden by a STRUCT. */
static int64_t count_shown(const struct ArrowArray *column, const uint8_t *there)
{
    int64_t n = 0;
    for (int64_t row = 0; row < column->length; row++)
        n += !mt_bit(there, row) && !mt_array_is_null(column, row);
    return n;
}

/* Validity of the column for rows that are there in both. */
static uint8_t *join_validity(const struct ArrowArray *column, const uint8_t *there,
                              int64_t *null_count)
{
    uint8_t *bits = mt_alloc(((size_t)(column->offset + column->length) + 7) / 8);
    *null_count = 0;
    for (int64_t row = 0; row < column->length; row++) {
        int64_t at = column->offset + row;
        bool is = mt_bit(there, row) && !mt_array_is_null(column, row);
        bits[at >> 3] |= (uint8_t)(is << (at & 7));
        *null_count += !is;
    }
    return bits;
}

void mt_batch_field(struct mt_batch *batch, const int32_t *path, int64_t n, struct ArrowArray *out)
{
    struct ArrowArray *array = batch->array.children[path[0]];
    int64_t rows = batch->array.length, at = batch->array.offset;
    uint8_t *there = NULL; /* of the STRUCTs on the way; NULL: all */
    for (int64_t i = 1; i < n; i++) {
        at += array->offset; /* children are shifted by their parents */
        hide_nulls(array, at, rows, &there);
        array = array->children[path[i]];
    }
    bool whole = at == 0 && array->length == rows;
    mt_array_share(array, out);
    out->offset += at;
    out->length = rows;
    if (!whole && out->null_count != 0)
        out->null_count = -1; /* unknown: it was of more rows */
    if (there && count_shown(out, there) > 0) {
        int64_t null_count;
        uint8_t *bits = join_validity(out, there, &null_count);
        mt_array_hide(out, bits, null_count);
    }
    free(there);
}
