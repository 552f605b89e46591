/* SPDX-License-Identifier: Apache-2.0
 *
 * odbc_merge.c - rows of one key into the last one of them.
 *
 * A statement of many rows may not touch a key twice (PostgreSQL refuses it), and only the last
 * row of a key would be left anyway. A key that is null finds no row in any database: such a row
 * would be added by every batch, so it is refused. */
#include <stdlib.h>
#include <string.h>

#include "sink/odbc/odbc_int.h"

static size_t width_of(enum mt_type type)
{
    static const size_t widths[] = {
        [MT_TINYINT] = 1, [MT_SMALLINT] = 2, [MT_INT] = 4,  [MT_BIGINT] = 8,    [MT_FLOAT] = 4,
        [MT_DOUBLE] = 8,  [MT_DECIMAL] = 16, [MT_DATE] = 4, [MT_TIMESTAMP] = 8,
    };
    return widths[type];
}

static bool same_value(enum mt_type type, const struct ArrowArray *column, int64_t a, int64_t b)
{
    const uint8_t *values = column->buffers[1];
    a += column->offset, b += column->offset;
    if (type == MT_BOOLEAN)
        return (values[a >> 3] >> (a & 7) & 1) == (values[b >> 3] >> (b & 7) & 1);
    if (type != MT_STRING && type != MT_BINARY) {
        size_t width = width_of(type);
        return memcmp(values + (size_t)a * width, values + (size_t)b * width, width) == 0;
    }
    const int32_t *offsets = column->buffers[1];
    const char *bytes = column->buffers[2];
    int32_t len = offsets[a + 1] - offsets[a];
    return len == offsets[b + 1] - offsets[b] &&
           (len == 0 || memcmp(bytes + offsets[a], bytes + offsets[b], (size_t)len) == 0);
}

static bool same_key(const struct odbc_sink *odbc, const struct mt_batch *rows, int64_t a,
                     int64_t b)
{
    for (int64_t i = 0; i < odbc->n_keys; i++) {
        int32_t column = odbc->keys[i];
        if (!same_value(mt_schema_type(rows->schema->children[column]),
                        rows->array.children[column], a, b))
            return false;
    }
    return true;
}

static enum mt_status check_keys(const struct odbc_sink *odbc, const struct mt_batch *rows,
                                 struct mt_error *err)
{
    char where[200];
    for (int64_t i = 0; i < odbc->n_keys; i++) {
        const struct ArrowArray *column = rows->array.children[odbc->keys[i]];
        for (int64_t row = 0; column->null_count != 0 && row < rows->array.length; row++)
            if (mt_array_is_null(column, row))
                return mt_fail(err, MT_REJECT, MT_CLASS_DATA,
                               "%s: %s: the key \"%s\" is null: no row is ever found by it",
                               odbc->base.identity, mt_batch_where(rows, row, where, sizeof where),
                               rows->schema->children[odbc->keys[i]]->name);
    }
    return MT_OK;
}

/* From the last row on, each whose key was not met yet. */
static int64_t pick(const struct odbc_sink *odbc, const struct mt_batch *rows, int32_t *picked)
{
    int64_t n = rows->array.length, first = n;
    size_t size = 16;
    while (size < (size_t)n * 2)
        size *= 2;
    int32_t *slots = mt_alloc(size * sizeof *slots); /* row + 1; 0: free */
    uint64_t *hashes = mt_alloc((size_t)n * sizeof *hashes);
    mt_batch_hash_rows(rows, odbc->keys, odbc->n_keys, hashes);
    for (int64_t row = n - 1; row >= 0; row--) {
        size_t slot = hashes[row] & (size - 1);
        while (slots[slot] && !same_key(odbc, rows, slots[slot] - 1, row))
            slot = (slot + 1) & (size - 1);
        if (slots[slot])
            continue;
        slots[slot] = (int32_t)row + 1;
        picked[--first] = (int32_t)row;
    }
    free(slots), free(hashes);
    memmove(picked, picked + first, (size_t)(n - first) * sizeof *picked);
    return n - first;
}

enum mt_status odbc_merge(const struct odbc_sink *odbc, const struct mt_batch *rows,
                          int32_t **picked, int64_t *n, struct mt_error *err)
{
    *picked = NULL;
    *n = rows->array.length;
    if (odbc->mode != ODBC_UPSERT)
        return MT_OK;
    enum mt_status status = check_keys(odbc, rows, err);
    if (status != MT_OK)
        return status;
    *picked = mt_alloc((size_t)(*n + 1) * sizeof **picked);
    *n = pick(odbc, rows, *picked);
    return MT_OK;
}
