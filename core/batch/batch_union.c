/* SPDX-License-Identifier: Apache-2.0
 *
 * batch_union.c - the rows of one batch behind those of another. Columns go by their place. Where
 * the rows came from goes along when both came from one batch of a source, which is what parts of
 * it that are put together again did; rows of two sources have no place in common. */
#include <stdlib.h>
#include <string.h>

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

static void join_origin(const struct mt_batch *const both[2], struct ArrowArray *out)
{
    int64_t length = both[0]->array.length + both[1]->array.length;
    int32_t *rows = mt_realloc(NULL, ((size_t)length + 1) * sizeof *rows), *to = rows;
    for (int k = 0; k < 2; k++) {
        const struct ArrowArray *origin = &both[k]->origin;
        const int32_t *from =
            origin->release ? (const int32_t *)origin->buffers[1] + origin->offset : NULL;
        for (int64_t i = 0; i < both[k]->array.length; i++)
            *to++ = from ? from[i] : (int32_t)i;
    }
    void *buffers[] = {NULL, rows};
    mt_array_make(length, 0, buffers, 2, NULL, 0, out);
}

enum mt_status mt_batch_union(const struct mt_batch *one, const struct mt_batch *other,
                              const struct ArrowSchema *schema, struct mt_batch *out,
                              struct mt_error *err)
{
    const struct mt_batch *const both[2] = {one, other};
    int64_t n = schema->n_children;
    struct ArrowArray *columns = mt_alloc((size_t)n * sizeof *columns);
    memset(columns, 0, (size_t)n * sizeof *columns);
    *out = (struct mt_batch){0};
    enum mt_status status = MT_OK;
    for (int64_t i = 0; i < n && status == MT_OK; i++)
        status = add_column(schema->children[i], both, i, &columns[i], err);
    if (status == MT_OK) {
        out->schema = schema;
        mt_array_struct(columns, n, one->array.length + other->array.length, &out->array);
        if (one->coords && one->coords == other->coords) {
            out->coords = mt_coords_ref(one->coords);
            join_origin(both, &out->origin);
        }
    }
    for (int64_t i = 0; i < n && status != MT_OK; i++)
        if (columns[i].release)
            columns[i].release(&columns[i]);
    free(columns);
    return status;
}
