/* SPDX-License-Identifier: Apache-2.0
 *
 * batch_union.c - the rows of one batch behind those of another. Columns go by their place. Where
 * the rows came from goes along: parts of one batch of a source that are put together again share
 * its coordinates, rows of two sources get the coordinates of both, one behind the other. */
#include <stdlib.h>

#include "batch_int.h"

static enum mt_status add_column(const struct ArrowSchema *field,
                                 const struct mt_batch *const both[2], int64_t i,
                                 struct ArrowArray *out, struct mt_error *err)
{
    struct mt_column column;
    enum mt_status status = MT_OK;
    mt_column_init(&column, field);
    for (int k = 0; k < 2 && status == MT_OK; k++)
        status = mt_column_add_array(&column, both[k]->array.children[i], both[k]->array.offset,
                                     both[k]->array.length, err);
    if (status == MT_OK)
        mt_column_finish(&column, out);
    mt_column_deinit(&column);
    return status;
}

/* second: what the rows of the second count from. */
static void join_origin(const struct mt_batch *const both[2], int64_t second,
                        struct ArrowArray *out)
{
    int64_t length = both[0]->array.length + both[1]->array.length;
    int32_t *rows = mt_realloc(NULL, ((size_t)length + 1) * sizeof *rows), *to = rows;
    for (int k = 0; k < 2; k++) {
        const struct ArrowArray *origin = &both[k]->origin;
        const int32_t *from =
            origin->release ? (const int32_t *)origin->buffers[1] + origin->offset : NULL;
        for (int64_t i = 0; i < both[k]->array.length; i++)
            *to++ = (int32_t)((k ? second : 0) + (from ? from[i] : i));
    }
    void *buffers[] = {NULL, rows};
    mt_array_make(length, 0, buffers, 2, NULL, 0, out);
}

static void add_coords(struct mt_coords *out, const struct mt_coords *coords)
{
    for (int64_t r = 0; r < coords->n_runs; r++) {
        const struct mt_coords_run *run = &coords->runs[r];
        int64_t end = r + 1 < coords->n_runs ? run[1].first_row : coords->n_rows;
        mt_coords_start(out, run->topic, run->partition);
        for (int64_t row = run->first_row; row < end; row++)
            mt_coords_add(out, coords->offsets[row]);
    }
}

static void join_coords(const struct mt_batch *const both[2], struct mt_batch *out)
{
    struct mt_coords *one = both[0]->coords, *other = both[1]->coords;
    if (!one || !other)
        return;
    if (one == other) {
        out->coords = mt_coords_ref(one);
        join_origin(both, 0, &out->origin);
        return;
    }
    out->coords = mt_coords_new();
    add_coords(out->coords, one);
    add_coords(out->coords, other);
    join_origin(both, one->n_rows, &out->origin);
}

/* Rows of a batch are numbered by int32, here and in Lua. */
static enum mt_status check_length(const struct mt_batch *const both[2], struct mt_error *err)
{
    if (both[0]->array.length <= INT32_MAX - both[1]->array.length)
        return MT_OK;
    return mt_fail(err, MT_REJECT, MT_CLASS_DATA,
                   "a union of %lld and %lld rows is more than the 2147483647 that a batch can "
                   "have; make batches smaller (maxBatchBytes, maxOffsetsPerTrigger)",
                   (long long)both[0]->array.length, (long long)both[1]->array.length);
}

enum mt_status mt_batch_union(const struct mt_batch *one, const struct mt_batch *other,
                              const struct ArrowSchema *schema, struct mt_batch *out,
                              struct mt_error *err)
{
    const struct mt_batch *const both[2] = {one, other};
    int64_t n = schema->n_children;
    struct ArrowArray *columns = mt_alloc((size_t)n * sizeof *columns);
    *out = (struct mt_batch){0};
    enum mt_status status = check_length(both, err);
    for (int64_t i = 0; i < n && status == MT_OK; i++)
        status = add_column(schema->children[i], both, i, &columns[i], err);
    if (status == MT_OK) {
        out->schema = schema;
        mt_array_struct(columns, n, one->array.length + other->array.length, &out->array);
        join_coords(both, out);
    }
    for (int64_t i = 0; i < n && status != MT_OK; i++)
        if (columns[i].release)
            columns[i].release(&columns[i]);
    free(columns);
    return status;
}
