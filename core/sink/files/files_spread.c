/* SPDX-License-Identifier: Apache-2.0
 *
 * files_spread.c - repartition(n): the rows of a batch in n files, or n a folder.
 *
 * Which of the n a row belongs to is told by its place in the batch, so that the parts are even
 * and in order, or by the hash of columns, so that rows with equal values stand together. A part
 * without rows makes no file. The same batch is spread the same way again. */
#include <stdlib.h>
#include <string.h>

#include "sink/files/files_int.h"

/* The part of each row, 0 .. n-1. */
static int32_t *number_parts(const struct mt_sink *sink, const struct mt_batch *batch, int64_t n)
{
    int64_t rows = batch->array.length;
    int32_t *parts = mt_alloc((size_t)rows * sizeof *parts);
    if (sink->n_spread_by == 0) {
        for (int64_t row = 0; row < rows; row++)
            parts[row] = (int32_t)(row * n / rows);
        return parts;
    }
    uint64_t *hashes = mt_alloc((size_t)rows * sizeof *hashes);
    mt_batch_hash_rows(batch, sink->spread_by, sink->n_spread_by, hashes);
    for (int64_t row = 0; row < rows; row++)
        parts[row] = (int32_t)(hashes[row] % (uint64_t)n);
    free(hashes);
    return parts;
}

static int64_t row_of(const struct files_group *group, int64_t i)
{
    return group->rows ? group->rows[i] : i;
}

/* Adds the parts of a group to out; counts has room for n. */
static void add_parts(const struct files_group *group, const int32_t *parts, int64_t n,
                      int64_t *counts, struct files_groups *out, int32_t *rows)
{
    memset(counts, 0, (size_t)n * sizeof *counts);
    for (int64_t i = 0; i < group->n_rows; i++)
        counts[parts[row_of(group, i)]]++;
    int64_t at = 0;
    for (int64_t part = 0; part < n; part++) {
        int64_t count = counts[part];
        counts[part] = at; /* from here on where its next row goes */
        if (count > 0)
            out->items[out->n++] =
                (struct files_group){mt_strdup(group->folder), rows + at, 0, count};
        at += count;
    }
    for (int64_t i = 0; i < group->n_rows; i++) {
        int64_t row = row_of(group, i);
        rows[counts[parts[row]]++] = (int32_t)row;
    }
}

void files_spread(const struct mt_sink *sink, const struct mt_batch *batch,
                  struct files_groups *groups)
{
    int64_t rows = batch->array.length, n = sink->n_files < rows ? sink->n_files : rows, at = 0;
    if (n <= 1)
        return;
    struct files_groups out = {0};
    int32_t *parts = number_parts(sink, batch, n);
    int64_t *counts = mt_alloc((size_t)n * sizeof *counts), most = 0;
    for (int64_t i = 0; i < groups->n; i++)
        most += groups->items[i].n_rows < n ? groups->items[i].n_rows : n;
    out.items = mt_alloc((size_t)most * sizeof *out.items);
    out.rows = mt_alloc((size_t)rows * sizeof *out.rows);
    for (int64_t i = 0; i < groups->n; i++) {
        add_parts(&groups->items[i], parts, n, counts, &out, out.rows + at);
        at += groups->items[i].n_rows;
    }
    free(parts);
    free(counts);
    files_groups_clear(groups);
    *groups = out;
}
