/* SPDX-License-Identifier: Apache-2.0
 *
 * batch_fingerprint.c - one number for the rows of a batch, in whatever order.
 *
 * A replayed batch must give its sink the rows it gave the first time, or the sink
 * would hold half of each. Comparing is by a sum of row hashes: addition forgets the
 * order (a script may group rows by a hash table's whim) but, unlike xor, still
 * counts a row that comes twice. Hashing goes column by column over a block of rows,
 * so that the type is looked at once a block and the block's hashes stay in cache.
 * Only values count, not how they are laid out: offsets, spare capacity and bytes
 * under a null do not. */
#define XXH_INLINE_ALL
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "batch_int.h"

enum { BLOCK = 1024 };

static const uint64_t SEED = UINT64_C(0x9e3779b97f4a7c15), NULL_HASH = UINT64_C(0xd1b54a32d192ed03);

/* Rows first .. first+n of a column: mixes each one's hash into hashes[0..n). */
static void mix_column(const struct ArrowSchema *field, const struct ArrowArray *array,
                       int64_t first, int64_t n, uint64_t *hashes);

/* Unlike a plain sum this knows the place of a column in its row. */
static inline uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0xbf58476d1ce4e5b9);
    return hash ^ hash >> 31;
}

static inline bool is_null(const uint8_t *validity, int64_t i)
{
    return validity && !mt_bit(validity, i);
}

static const uint8_t *validity_of(const struct ArrowArray *array)
{
    return array->null_count == 0 ? NULL : array->buffers[0];
}

#define MIX_FIXED(width)                                                                           \
    for (int64_t i = 0; i < n; i++) {                                                              \
        uint64_t value = XXH3_64bits(values + (size_t)i * (width), (width));                       \
        hashes[i] = mix(hashes[i], is_null(validity, at + i) ? NULL_HASH : value);                 \
    }

static void mix_fixed(const struct ArrowArray *array, size_t width, int64_t at, int64_t n,
                      uint64_t *hashes)
{
    const uint8_t *validity = validity_of(array);
    const uint8_t *values = (const uint8_t *)array->buffers[1] + (size_t)at * width;
    switch (width) {
    case 1:
        MIX_FIXED(1)
        break;
    case 2:
        MIX_FIXED(2)
        break;
    case 4:
        MIX_FIXED(4)
        break;
    case 8:
        MIX_FIXED(8)
        break;
    default:
        MIX_FIXED(16)
    }
}

static void mix_bits(const struct ArrowArray *array, int64_t at, int64_t n, uint64_t *hashes)
{
    const uint8_t *validity = validity_of(array);
    for (int64_t i = 0; i < n; i++) {
        uint64_t value = SEED + mt_bit(array->buffers[1], at + i);
        hashes[i] = mix(hashes[i], is_null(validity, at + i) ? NULL_HASH : value);
    }
}

static void mix_text(const struct ArrowArray *array, int64_t at, int64_t n, uint64_t *hashes)
{
    const uint8_t *validity = validity_of(array), *text = array->buffers[2];
    const int32_t *offsets = (const int32_t *)array->buffers[1] + at;
    for (int64_t i = 0; i < n; i++) {
        uint64_t value = NULL_HASH;
        if (!is_null(validity, at + i))
            value = XXH3_64bits(text + offsets[i], (size_t)(offsets[i + 1] - offsets[i]));
        hashes[i] = mix(hashes[i], value);
    }
}

static uint64_t *new_hashes(int64_t n)
{
    uint64_t *hashes = mt_realloc(NULL, (size_t)n * sizeof *hashes);
    for (int64_t i = 0; i < n; i++)
        hashes[i] = SEED;
    return hashes;
}

static void mix_list(const struct ArrowSchema *field, const struct ArrowArray *array, int64_t at,
                     int64_t n, uint64_t *hashes)
{
    const uint8_t *validity = validity_of(array);
    const int32_t *offsets = (const int32_t *)array->buffers[1] + at;
    int32_t low = offsets[0], high = offsets[n];
    uint64_t *elements = new_hashes(high - low);
    mix_column(field->children[0], array->children[0], low, high - low, elements);
    for (int64_t i = 0; i < n; i++) {
        uint64_t value = mix(SEED, (uint64_t)(offsets[i + 1] - offsets[i]));
        for (int32_t e = offsets[i]; e < offsets[i + 1]; e++)
            value = mix(value, elements[e - low]);
        hashes[i] = mix(hashes[i], is_null(validity, at + i) ? NULL_HASH : value);
    }
    free(elements);
}

static void mix_struct(const struct ArrowSchema *field, const struct ArrowArray *array, int64_t at,
                       int64_t n, uint64_t *hashes)
{
    const uint8_t *validity = validity_of(array);
    uint64_t *rows = new_hashes(n);
    for (int64_t i = 0; i < field->n_children; i++)
        mix_column(field->children[i], array->children[i], at, n, rows);
    for (int64_t i = 0; i < n; i++)
        hashes[i] = mix(hashes[i], is_null(validity, at + i) ? NULL_HASH : rows[i]);
    free(rows);
}

static void mix_column(const struct ArrowSchema *field, const struct ArrowArray *array,
                       int64_t first, int64_t n, uint64_t *hashes)
{
    int64_t at = array->offset + first;
    enum mt_type type = mt_schema_type(field);
    if (n == 0)
        return;
    switch (type) {
    case MT_BOOLEAN:
        mix_bits(array, at, n, hashes);
        break;
    case MT_STRING:
    case MT_BINARY:
        mix_text(array, at, n, hashes);
        break;
    case MT_ARRAY:
    case MT_MAP:
        mix_list(field, array, at, n, hashes);
        break;
    case MT_STRUCT:
        mix_struct(field, array, at, n, hashes);
        break;
    default:
        mix_fixed(array, mt_type_width(type), at, n, hashes);
    }
}

uint64_t mt_batch_fingerprint(const struct mt_batch *batch)
{
    uint64_t hashes[BLOCK], sum = 0;
    for (int64_t first = 0; first < batch->array.length; first += BLOCK) {
        int64_t n = batch->array.length - first < BLOCK ? batch->array.length - first : BLOCK;
        for (int64_t i = 0; i < n; i++)
            hashes[i] = SEED;
        mix_column(batch->schema, &batch->array, first, n, hashes);
        for (int64_t i = 0; i < n; i++)
            sum += hashes[i];
    }
    return sum;
}

void mt_batch_hash_rows(const struct mt_batch *batch, const int32_t *columns, int64_t n,
                        uint64_t *hashes)
{
    int64_t rows = batch->array.length;
    for (int64_t i = 0; i < rows; i++)
        hashes[i] = SEED;
    for (int64_t i = 0; i < n; i++)
        mix_column(batch->schema->children[columns[i]], batch->array.children[columns[i]],
                   batch->array.offset, rows, hashes);
}
