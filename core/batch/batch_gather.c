/* SPDX-License-Identifier: Apache-2.0
 *
 * batch_gather.c - chosen rows of a batch as a new batch.
 *
 * A column at a time, with the row list as the inner loop: the branch on the type
 * is taken once a column, and what is left is a load and a store a value. Text and
 * lists are measured first, so that their bytes are allocated once and a result that
 * would pass 2 GiB (rows may repeat) is refused before anything is copied. Cut parents
 * (offset > 0, from Arrow C++) shift the row list of their children. */
#include <stdlib.h>
#include <string.h>

#include "batch_int.h"

/* What is gathered: rows[i] + shift of the array, i in 0..n. */
struct pick {
    const int32_t *rows;
    int64_t n;
    int64_t shift;
};

static enum mt_status gather(const struct ArrowSchema *field, const struct ArrowArray *in,
                             const struct pick *pick, struct ArrowArray *out, struct mt_error *err);

static uint8_t *new_bits(int64_t n, int fill)
{
    size_t bytes = ((size_t)n + 7) / 8;
    uint8_t *bits = mt_realloc(NULL, bytes);
    memset(bits, fill, bytes);
    return bits;
}

/* Validity of the picked rows, or NULL when all are there. at: shift plus offset. */
static uint8_t *gather_validity(const struct ArrowArray *in, const struct pick *pick, int64_t at,
                                int64_t *null_count)
{
    *null_count = 0;
    if (in->null_count == 0 || !in->buffers[0])
        return NULL;
    uint8_t *bits = new_bits(pick->n, 0xff);
    for (int64_t i = 0; i < pick->n; i++) {
        unsigned null = !mt_bit(in->buffers[0], at + pick->rows[i]);
        bits[i >> 3] ^= (uint8_t)(null << (i & 7));
        *null_count += null;
    }
    if (*null_count > 0)
        return bits;
    free(bits);
    return NULL;
}

#define GATHER(type)                                                                               \
    do {                                                                                           \
        const type *from = (const type *)values + at;                                              \
        type *to = result;                                                                         \
        for (int64_t i = 0; i < n; i++)                                                            \
            to[i] = from[rows[i]];                                                                 \
    } while (0)

static void *gather_fixed(const void *values, size_t width, const struct pick *pick, int64_t at)
{
    typedef struct {
        uint64_t halves[2];
    } wide;
    const int32_t *rows = pick->rows;
    int64_t n = pick->n;
    void *result = mt_realloc(NULL, (size_t)n * width);
    switch (width) {
    case 1:
        GATHER(uint8_t);
        break;
    case 2:
        GATHER(uint16_t);
        break;
    case 4:
        GATHER(uint32_t);
        break;
    case 8:
        GATHER(uint64_t);
        break;
    default:
        GATHER(wide);
    }
    return result;
}

static void *gather_bits(const void *values, const struct pick *pick, int64_t at)
{
    uint8_t *bits = new_bits(pick->n, 0);
    for (int64_t i = 0; i < pick->n; i++)
        bits[i >> 3] |= (uint8_t)(mt_bit(values, at + pick->rows[i]) << (i & 7));
    return bits;
}

/* Offsets of the picked text or list rows; REJECT when they would pass 31 bits. */
static enum mt_status gather_offsets(const int32_t *offsets, const struct pick *pick, int64_t at,
                                     int32_t **out, struct mt_error *err)
{
    int32_t *result = mt_realloc(NULL, ((size_t)pick->n + 1) * sizeof *result);
    int64_t total = 0;
    result[0] = 0;
    for (int64_t i = 0; i < pick->n; i++) {
        const int32_t *o = offsets + at + pick->rows[i];
        total += o[1] - o[0];
        result[i + 1] = (int32_t)total;
        if (total > INT32_MAX)
            break;
    }
    *out = result;
    if (total <= INT32_MAX)
        return MT_OK;
    free(result);
    return mt_fail(err, MT_REJECT, MT_CLASS_DATA,
                   "a column would pass 2 GiB in one batch; make the batch smaller "
                   "(maxOffsetsPerTrigger, maxBatchBytes)");
}

static enum mt_status gather_text(const struct ArrowArray *in, const struct pick *pick, int64_t at,
                                  void **buffers, struct mt_error *err)
{
    const int32_t *offsets = in->buffers[1];
    const uint8_t *text = in->buffers[2];
    int32_t *new_offsets;
    enum mt_status status = gather_offsets(offsets, pick, at, &new_offsets, err);
    if (status != MT_OK)
        return status;
    uint8_t *bytes = mt_realloc(NULL, (size_t)new_offsets[pick->n] + MT_TEXT_PADDING);
    for (int64_t i = 0; i < pick->n; i++) {
        size_t len = (size_t)(new_offsets[i + 1] - new_offsets[i]);
        if (len > 0)
            memcpy(bytes + new_offsets[i], text + offsets[at + pick->rows[i]], len);
    }
    memset(bytes + new_offsets[pick->n], 0, MT_TEXT_PADDING);
    buffers[1] = new_offsets;
    buffers[2] = bytes;
    return MT_OK;
}

/* The elements of the picked lists, as a row list of the child. */
static int32_t *element_rows(const int32_t *offsets, const struct pick *pick, int64_t at, int64_t n)
{
    int32_t *rows = mt_realloc(NULL, (size_t)n * sizeof *rows);
    int64_t used = 0;
    for (int64_t i = 0; i < pick->n; i++) {
        const int32_t *o = offsets + at + pick->rows[i];
        for (int32_t element = o[0]; element < o[1]; element++)
            rows[used++] = element;
    }
    return rows;
}

static enum mt_status gather_list(const struct ArrowSchema *field, const struct ArrowArray *in,
                                  const struct pick *pick, int64_t at, void **buffers,
                                  struct ArrowArray *child, struct mt_error *err)
{
    const int32_t *offsets = in->buffers[1];
    int32_t *new_offsets;
    enum mt_status status = gather_offsets(offsets, pick, at, &new_offsets, err);
    if (status != MT_OK)
        return status;
    int64_t n = new_offsets[pick->n];
    int32_t *rows = element_rows(offsets, pick, at, n);
    struct pick elements = {rows, n, 0};
    status = gather(field->children[0], in->children[0], &elements, child, err);
    free(rows);
    if (status != MT_OK)
        free(new_offsets);
    else
        buffers[1] = new_offsets;
    return status;
}

static enum mt_status gather_struct(const struct ArrowSchema *field, const struct ArrowArray *in,
                                    const struct pick *pick, int64_t at,
                                    struct ArrowArray *children, struct mt_error *err)
{
    struct pick shifted = {pick->rows, pick->n, at};
    for (int64_t i = 0; i < field->n_children; i++) {
        enum mt_status status =
            gather(field->children[i], in->children[i], &shifted, &children[i], err);
        if (status != MT_OK)
            return status;
    }
    return MT_OK;
}

static enum mt_status gather_values(const struct ArrowSchema *field, const struct ArrowArray *in,
                                    const struct pick *pick, int64_t at, void **buffers,
                                    struct ArrowArray *children, struct mt_error *err)
{
    enum mt_type type = mt_schema_type(field);
    switch (type) {
    case MT_BOOLEAN:
        buffers[1] = gather_bits(in->buffers[1], pick, at);
        return MT_OK;
    case MT_STRING:
    case MT_BINARY:
        return gather_text(in, pick, at, buffers, err);
    case MT_ARRAY:
    case MT_MAP:
        return gather_list(field, in, pick, at, buffers, children, err);
    case MT_STRUCT:
        return gather_struct(field, in, pick, at, children, err);
    default:
        buffers[1] = gather_fixed(in->buffers[1], mt_type_width(type), pick, at);
        return MT_OK;
    }
}

static enum mt_status gather(const struct ArrowSchema *field, const struct ArrowArray *in,
                             const struct pick *pick, struct ArrowArray *out, struct mt_error *err)
{
    int64_t at = in->offset + pick->shift, null_count, n = field->n_children;
    void *buffers[3] = {0};
    struct ArrowArray *children = mt_alloc((size_t)n * sizeof *children);
    enum mt_status status = gather_values(field, in, pick, at, buffers, children, err);
    if (status == MT_OK) {
        buffers[0] = gather_validity(in, pick, at, &null_count);
        mt_array_make(pick->n, null_count, buffers, in->n_buffers, children, n, out);
    } else {
        for (int64_t i = 0; i < n; i++)
            if (children[i].release)
                children[i].release(&children[i]);
    }
    free(children);
    return status;
}

/* Rows of the source's batch: those of `batch` through its own origin. */
static void gather_origin(const struct mt_batch *batch, const int32_t *rows, int64_t n,
                          struct ArrowArray *out)
{
    const struct ArrowArray *origin = &batch->origin;
    const int32_t *from =
        origin->release ? (const int32_t *)origin->buffers[1] + origin->offset : NULL;
    int32_t *to = mt_realloc(NULL, (size_t)n * sizeof *to);
    for (int64_t i = 0; i < n; i++)
        to[i] = from ? from[rows[i]] : rows[i];
    void *buffers[2] = {NULL, to};
    mt_array_make(n, 0, buffers, 2, NULL, 0, out);
}

enum mt_status mt_batch_gather(const struct mt_batch *batch, const int32_t *rows, int64_t n,
                               struct mt_batch *out, struct mt_error *err)
{
    struct pick pick = {rows, n, 0};
    *out = (struct mt_batch){.schema = batch->schema};
    enum mt_status status = gather(batch->schema, &batch->array, &pick, &out->array, err);
    if (status != MT_OK)
        return status;
    gather_origin(batch, rows, n, &out->origin);
    out->coords = mt_coords_ref(batch->coords);
    return MT_OK;
}
