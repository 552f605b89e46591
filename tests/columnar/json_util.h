/* SPDX-License-Identifier: Apache-2.0
 *
 * json_util.h - what the tests of the JSON reader share: texts in, printed values out. */
#ifndef MT_JSON_UTIL_H
#define MT_JSON_UTIL_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "columnar/columnar.h"

/* 2026-11-29T12:00:00Z */
enum { NOW_S = 1795953600 };

static struct mt_error err;

struct text {
    const char *bytes; /* NULL: a null row */
    size_t len;
};

/* A batch of one column `value`, with coordinates orders[2]@100... */
static inline void json_batch(const struct text *texts, int64_t n, const char *type,
                              struct ArrowSchema *schema, struct mt_batch *batch)
{
    char *ddl = mt_format("value %s", type);
    struct mt_column root;
    assert_int_equal(mt_schema_parse(ddl, schema, &err), MT_OK);
    free(ddl);
    *batch = (struct mt_batch){.schema = schema, .coords = mt_coords_new()};
    mt_coords_start(batch->coords, "orders", 2);
    mt_column_init(&root, schema);
    for (int64_t i = 0; i < n; i++) {
        struct mt_column *value = &root.children[0];
        assert_int_equal(
            texts[i].bytes ? mt_column_add_bytes(value, texts[i].bytes, (int64_t)texts[i].len, &err)
                           : mt_column_add_null(value, &err),
            MT_OK);
        assert_int_equal(mt_column_close_row(&root, &err), MT_OK);
        mt_coords_add(batch->coords, 100 + i);
    }
    mt_column_finish(&root, &batch->array);
    mt_column_deinit(&root);
}

/* Reads texts as schema; the status, with *out to be cleared when it is MT_OK. */
static inline enum mt_status json_read(const struct ArrowSchema *schema, enum mt_json_mode mode,
                                       const char *corrupt, const struct text *texts, int64_t n,
                                       struct mt_json_result *out)
{
    struct ArrowSchema in;
    struct mt_batch batch;
    struct mt_json_reader *reader;
    json_batch(texts, n, "BINARY", &in, &batch);
    if (mt_json_reader_new(schema, mode, corrupt, &reader, &err) != MT_OK)
        fail_msg("%s", err.text);
    enum mt_status status = mt_json_read(reader, &batch, 0, (int64_t)NOW_S * 1000000, out, &err);
    mt_json_reader_free(reader);
    mt_batch_release(&batch);
    mt_schema_release(&in);
    return status;
}

static inline void json_inside(const struct ArrowSchema *field, const struct ArrowArray *array,
                               int64_t row, struct mt_buf *buf);

/* Elements [from, to) of an array with commas between; pairs: "k -> v" each. */
static inline void json_list(const struct ArrowSchema *field, const struct ArrowArray *array,
                             int64_t from, int64_t to, bool pairs, struct mt_buf *buf)
{
    for (int64_t i = from; i < to; i++) {
        mt_buf_adds(buf, i > from ? ", " : "");
        if (!pairs) {
            json_inside(field, array, i, buf);
            continue;
        }
        json_inside(field->children[0], array->children[0], i, buf);
        mt_buf_adds(buf, " -> ");
        json_inside(field->children[1], array->children[1], i, buf);
    }
}

/* As Spark's cast to STRING has a value that is there: BINARY is its bytes, and inside of
 * others null is "null". Arrays are ours, not cut. */
static inline void json_cast(const struct ArrowSchema *field, const struct ArrowArray *array,
                             int64_t row, struct mt_buf *buf)
{
    const int32_t *offsets = array->n_buffers > 1 ? array->buffers[1] : NULL;
    enum mt_type type = mt_schema_type(field);
    if (type == MT_BINARY) {
        mt_buf_add(buf, (const char *)array->buffers[2] + offsets[row],
                   (size_t)(offsets[row + 1] - offsets[row]));
        return;
    }
    if (field->n_children == 0) {
        mt_value_print(field, array, row, buf);
        return;
    }
    mt_buf_adds(buf, type == MT_ARRAY ? "[" : "{");
    if (type != MT_STRUCT)
        json_list(field->children[0], array->children[0], offsets[row], offsets[row + 1],
                  type == MT_MAP, buf);
    for (int64_t i = 0; type == MT_STRUCT && i < field->n_children; i++) {
        mt_buf_adds(buf, i > 0 ? ", " : "");
        json_inside(field->children[i], array->children[i], row, buf);
    }
    mt_buf_adds(buf, type == MT_ARRAY ? "]" : "}");
}

static inline void json_inside(const struct ArrowSchema *field, const struct ArrowArray *array,
                               int64_t row, struct mt_buf *buf)
{
    if (mt_array_is_null(array, row))
        mt_buf_adds(buf, "null");
    else
        json_cast(field, array, row, buf);
}

static inline void json_value(const struct ArrowSchema *field, const struct ArrowArray *array,
                              int64_t row, struct mt_buf *buf)
{
    if (mt_array_is_null(array, row))
        mt_buf_adds(buf, "NULL");
    else
        json_cast(field, array, row, buf);
}

/* "1|x|NULL" of the first n columns of a row, or "null" for one that is null as a whole.
 * Caller frees the data. */
static inline struct mt_buf json_row(const struct ArrowSchema *schema, int64_t n,
                                     const struct mt_json_result *result, int64_t row)
{
    struct mt_buf buf = {0};
    if (mt_array_is_null(&result->rows, row))
        mt_buf_adds(&buf, "null");
    else
        for (int64_t i = 0; i < n; i++) {
            if (i > 0)
                mt_buf_adds(&buf, "|");
            json_value(schema->children[i], result->rows.children[i], row, &buf);
        }
    return buf;
}

/* One text, PERMISSIVE, without a corrupt column: what its row prints. Caller frees. */
static inline char *json_one(const char *ddl, const char *text, size_t len, bool *malformed)
{
    struct ArrowSchema schema;
    struct mt_json_result result;
    struct text one = {text, len};
    assert_int_equal(mt_schema_parse(ddl, &schema, &err), MT_OK);
    if (json_read(&schema, MT_JSON_PERMISSIVE, NULL, &one, 1, &result) != MT_OK)
        fail_msg("%s: %s", text, err.text);
    assert_int_equal(result.rows.length, 1);
    assert_null(result.kept);
    *malformed = result.malformed == 1;
    struct mt_buf row = json_row(&schema, schema.n_children, &result, 0);
    mt_json_result_clear(&result);
    mt_schema_release(&schema);
    return row.data;
}
#endif
