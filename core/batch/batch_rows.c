/* SPDX-License-Identifier: Apache-2.0
 *
 * batch_rows.c - batches out of batches without touching a value: columns are shared,
 * and what says where the rows came from goes along. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "batch_int.h"

void mt_batch_release(struct mt_batch *batch)
{
    if (batch->array.release)
        batch->array.release(&batch->array);
    if (batch->origin.release)
        batch->origin.release(&batch->origin);
    mt_coords_unref(batch->coords);
    *batch = (struct mt_batch){0};
}

void mt_batch_like(struct mt_batch *like, struct ArrowArray *columns, int64_t n,
                   const struct ArrowSchema *schema, struct mt_batch *out)
{
    assert(n == schema->n_children);
    *out = (struct mt_batch){.schema = schema, .coords = mt_coords_ref(like->coords)};
    mt_array_share(&like->origin, &out->origin);
    mt_array_struct(columns, n, like->array.length, &out->array);
}

/* Shows only what a cut parent shows of its child. */
static void cut(const struct ArrowArray *parent, struct ArrowArray *child)
{
    if (child->length == parent->length)
        return;
    child->offset += parent->offset;
    child->length = parent->length;
    if (child->null_count > 0)
        child->null_count = -1; /* unknown: it was of the whole */
}

void mt_batch_select(struct mt_batch *batch, const int32_t *picks, int64_t n,
                     const struct ArrowSchema *schema, struct mt_batch *out)
{
    struct ArrowArray *columns = mt_alloc((size_t)n * sizeof *columns);
    for (int64_t i = 0; i < n; i++) {
        mt_array_share(batch->array.children[picks[i]], &columns[i]);
        cut(&batch->array, &columns[i]);
    }
    mt_batch_like(batch, columns, n, schema, out);
    free(columns);
}
