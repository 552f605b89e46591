/* SPDX-License-Identifier: Apache-2.0
 *
 * batch_coords.c - where each row came from, kept beside the rows.
 *
 * A job may drop the topic, partition and offset columns in its first step, and its
 * tenth step must still name them in an error. So a source's batch carries one offset
 * a row and a run per partition, and every batch made from it only carries row
 * numbers of that batch (`origin`), or nothing while no row moved. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "batch_int.h"

struct mt_coords *mt_coords_new(void)
{
    struct mt_coords *coords = mt_alloc(sizeof *coords);
    coords->refs = 1;
    return coords;
}

void mt_coords_start(struct mt_coords *coords, const char *topic, int32_t partition)
{
    size_t n = (size_t)coords->n_runs;
    if ((n & (n - 1)) == 0) /* full at each power of two */
        coords->runs = mt_realloc(coords->runs, (n ? n * 2 : 1) * sizeof *coords->runs);
    coords->runs[coords->n_runs++] =
        (struct mt_coords_run){mt_strdup(topic), partition, coords->n_rows};
}

void mt_coords_add(struct mt_coords *coords, int64_t offset)
{
    size_t n = (size_t)coords->n_rows;
    if ((n & (n - 1)) == 0)
        coords->offsets = mt_realloc(coords->offsets, (n ? n * 2 : 1) * sizeof *coords->offsets);
    coords->offsets[coords->n_rows++] = offset;
}

/* Batches of one query may be let go of by other threads, hence atomic. */
struct mt_coords *mt_coords_ref(struct mt_coords *coords)
{
    if (coords)
        __atomic_add_fetch(&coords->refs, 1, __ATOMIC_RELAXED);
    return coords;
}

void mt_coords_unref(struct mt_coords *coords)
{
    if (!coords || __atomic_sub_fetch(&coords->refs, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    for (int64_t i = 0; i < coords->n_runs; i++)
        free(coords->runs[i].topic);
    free(coords->runs);
    free(coords->offsets);
    free(coords);
}

/* The last run that begins at or before row. */
static const struct mt_coords_run *run_of(const struct mt_coords *coords, int64_t row)
{
    int64_t low = 0, high = coords->n_runs;
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (coords->runs[middle].first_row <= row)
            low = middle;
        else
            high = middle;
    }
    return &coords->runs[low];
}

const char *mt_batch_where(const struct mt_batch *batch, int64_t row, char *out, int64_t cap)
{
    const struct mt_coords *coords = batch->coords;
    if (batch->origin.release)
        row = ((const int32_t *)batch->origin.buffers[1])[batch->origin.offset + row];
    if (!coords || coords->n_runs == 0 || row < 0 || row >= coords->n_rows) {
        snprintf(out, (size_t)cap, "row %" PRId64, row);
        return out;
    }
    const struct mt_coords_run *run = run_of(coords, row);
    if (run->partition < 0)
        snprintf(out, (size_t)cap, "row %" PRId64 " of %s", coords->offsets[row], run->topic);
    else
        snprintf(out, (size_t)cap, "%s[%d]@%" PRId64, run->topic, run->partition,
                 coords->offsets[row]);
    return out;
}
