/* SPDX-License-Identifier: Apache-2.0
 *
 * sample.h - random columns for the tests of batch/. The seed is printed; SEED=n
 * repeats a run. */
#ifndef MT_SAMPLE_H
#define MT_SAMPLE_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "batch/batch.h"

static struct mt_error err;

static inline void sample_seed(void)
{
    const char *given = getenv("SEED");
    unsigned seed = given ? (unsigned)atoi(given) : (unsigned)time(NULL);
    print_message("SEED=%u\n", seed);
    srand(seed);
}

static inline int sample_below(int n)
{
    return rand() % n;
}

static inline uint64_t sample_bits(void)
{
    return (uint64_t)rand() << 42 ^ (uint64_t)rand() << 21 ^ (uint64_t)rand();
}

static inline void sample_schema(const char *ddl, struct ArrowSchema *schema)
{
    if (mt_schema_parse(ddl, schema, &err) != MT_OK)
        fail_msg("%s: %s", ddl, err.text);
}

static inline void sample_add(struct mt_column *column);

static inline void sample_add_list(struct mt_column *column)
{
    for (int n = sample_below(4); n > 0; n--)
        sample_add(&column->children[0]);
    assert_int_equal(mt_column_close_row(column, &err), MT_OK);
}

static inline void sample_add_struct(struct mt_column *column)
{
    for (int64_t i = 0; i < column->n_children; i++)
        sample_add(&column->children[i]);
    assert_int_equal(mt_column_close_row(column, &err), MT_OK);
}

/* One value, null one time in five. */
static inline void sample_add(struct mt_column *column)
{
    char text[16];
    uint64_t decimal[2] = {sample_bits(), 0};
    if (sample_below(5) == 0) {
        assert_int_equal(mt_column_add_null(column, &err), MT_OK);
        return;
    }
    switch (column->type) {
    case MT_STRING:
    case MT_BINARY:
        memset(text, 'a' + sample_below(26), sizeof text);
        assert_int_equal(mt_column_add_bytes(column, text, sample_below(sizeof text), &err), MT_OK);
        break;
    case MT_FLOAT:
    case MT_DOUBLE:
        assert_int_equal(mt_column_add_double(column, sample_below(1000) / 8.0, &err), MT_OK);
        break;
    case MT_DECIMAL:
        assert_int_equal(mt_column_add_decimal(column, decimal, &err), MT_OK);
        break;
    case MT_ARRAY:
    case MT_MAP:
        sample_add_list(column);
        break;
    case MT_STRUCT:
        sample_add_struct(column);
        break;
    default:
        assert_int_equal(mt_column_add_int(column, sample_below(120), &err), MT_OK);
    }
}

/* A batch of `rows` random rows whose top level is never null. */
static inline void sample_batch(const struct ArrowSchema *schema, int rows, struct mt_batch *out)
{
    struct mt_column column;
    *out = (struct mt_batch){.schema = schema};
    mt_column_init(&column, schema);
    for (int i = 0; i < rows; i++)
        sample_add_struct(&column);
    mt_column_finish(&column, &out->array);
    mt_column_deinit(&column);
}

/* Row of the batch as text; caller frees. */
static inline char *sample_row(const struct mt_batch *batch, int64_t row)
{
    struct mt_buf buf = {0};
    mt_value_print(batch->schema, &batch->array, row, &buf);
    return buf.data;
}

static inline void sample_same_row(const struct mt_batch *a, int64_t row_a,
                                   const struct mt_batch *b, int64_t row_b)
{
    char *text_a = sample_row(a, row_a), *text_b = sample_row(b, row_b);
    assert_string_equal(text_a, text_b);
    free(text_a);
    free(text_b);
}

/* Shows rows first..first+n only, as Arrow C++ cuts: by the offset of the parent. */
static inline void sample_cut(struct mt_batch *batch, int64_t first, int64_t n)
{
    batch->array.offset += first;
    batch->array.length = n;
}

static const char all_types[] =
    "a BOOLEAN, b TINYINT, c SMALLINT, d INT, e BIGINT, f FLOAT, g DOUBLE, h DECIMAL(20,3), "
    "i STRING, j BINARY, k DATE, l TIMESTAMP, m ARRAY<STRING>, n STRUCT<x: INT, y: BOOLEAN>, "
    "o MAP<STRING, ARRAY<INT>>, p ARRAY<STRUCT<q: ARRAY<DECIMAL(5,1)>, r: STRING>>";
#endif
