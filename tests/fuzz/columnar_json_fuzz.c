/* SPDX-License-Identifier: Apache-2.0
 *
 * columnar_json_fuzz.c - any bytes as JSON records (split at byte 0x1e) of every type, in
 * every mode: the modes agree on what is malformed, a record means the same alone as
 * among others, and columns are whole Arrow columns, children too, with UTF-8 in every
 * STRING and nothing under a null. */
#include <stdlib.h>
#include <string.h>

#include "columnar/columnar.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char ddl[] =
    "a BOOLEAN, b TINYINT, c SMALLINT, d INT, e BIGINT, f FLOAT, g DOUBLE, h DECIMAL(10,2), "
    "i DECIMAL(38,18), j STRING, k BINARY, l DATE, m TIMESTAMP, n ARRAY<INT>, "
    "o STRUCT<a: BOOLEAN, b: STRING, n: ARRAY<BOOLEAN>>, p MAP<STRING, DOUBLE>, "
    "q ARRAY<STRUCT<a: INT, o: STRUCT<b: STRING>, p: MAP<STRING, ARRAY<STRING>>>>, "
    "r MAP<STRING, STRUCT<a: DECIMAL(5,1), q: ARRAY<ARRAY<DATE>>>>, _c STRING";
static struct mt_error err;
static struct ArrowSchema in, out;
static struct mt_json_reader *readers[3];

static void check(bool holds)
{
    if (!holds)
        abort();
}

static void set_up(void)
{
    check(mt_schema_parse("value BINARY", &in, &err) == MT_OK);
    check(mt_schema_parse(ddl, &out, &err) == MT_OK);
    for (int mode = 0; mode < 3; mode++)
        check(mt_json_reader_new(&out, mode, "_c", &readers[mode], &err) == MT_OK);
}

/* The records of data from record `first` on, at most n of them. */
static void batch_of(const uint8_t *data, size_t size, int64_t first, int64_t n,
                     struct mt_batch *batch)
{
    struct mt_column root;
    const uint8_t *end = data + size;
    *batch = (struct mt_batch){.schema = &in};
    mt_column_init(&root, &in);
    for (int64_t i = 0; data < end && i < first + n; i++) {
        const uint8_t *stop = memchr(data, 0x1e, (size_t)(end - data));
        stop = stop ? stop : end;
        if (i >= first) {
            check(mt_column_add_bytes(&root.children[0], data, stop - data, &err) == MT_OK);
            check(mt_column_close_row(&root, &err) == MT_OK);
        }
        data = stop + 1;
    }
    mt_column_finish(&root, &batch->array);
    mt_column_deinit(&root);
}

/* A STRUCT hides its children, which are null where it is. */
static void check_column(const struct ArrowSchema *field, const struct ArrowArray *array, int64_t n,
                         const struct ArrowArray *parent);

static void check_offsets(const struct ArrowSchema *field, const struct ArrowArray *array)
{
    const int32_t *offsets = array->buffers[1];
    const char *text = field->n_children ? NULL : array->buffers[2];
    check(offsets[0] == 0);
    for (int64_t i = 0; i < array->length; i++) {
        int32_t len = offsets[i + 1] - offsets[i];
        check(len >= 0 && (len == 0 || !mt_array_is_null(array, i)));
        if (mt_schema_type(field) == MT_STRING)
            check(mt_utf8_valid(text + offsets[i], len));
    }
    if (!text)
        check_column(field->children[0], array->children[0], offsets[array->length], NULL);
}

static void check_column(const struct ArrowSchema *field, const struct ArrowArray *array, int64_t n,
                         const struct ArrowArray *parent)
{
    int64_t nulls = 0;
    check(array->length == n && array->offset == 0);
    for (int64_t i = 0; i < n; i++) {
        nulls += mt_array_is_null(array, i);
        check(!parent || !mt_array_is_null(parent, i) || mt_array_is_null(array, i));
    }
    check(nulls == array->null_count);
    enum mt_type type = mt_schema_type(field);
    if (type == MT_STRING || type == MT_BINARY || type == MT_ARRAY || type == MT_MAP)
        check_offsets(field, array);
    for (int64_t i = 0; type == MT_STRUCT && i < field->n_children; i++)
        check_column(field->children[i], array->children[i], n, array);
}

static void print_row(const struct mt_json_result *result, int64_t row, struct mt_buf *buf)
{
    buf->len = 0;
    mt_value_print(&out, &result->rows, row, buf);
}

/* One of the records alone, against its row among the others. */
static void check_alone(const uint8_t *data, size_t size, const struct mt_json_result *all)
{
    struct mt_buf here = {0}, alone = {0};
    struct mt_batch batch;
    struct mt_json_result one;
    if (all->rows.length == 0)
        return;
    int64_t row = (int64_t)size % all->rows.length;
    batch_of(data, size, row, 1, &batch);
    check(mt_json_read(readers[MT_JSON_PERMISSIVE], &batch, 0, 0, &one, &err) == MT_OK);
    check(one.rows.length == 1);
    print_row(all, row, &here);
    print_row(&one, 0, &alone);
    check(here.len == alone.len && memcmp(here.data, alone.data, here.len) == 0);
    mt_json_result_clear(&one);
    mt_batch_release(&batch);
    mt_buf_free(&here);
    mt_buf_free(&alone);
}

static void check_modes(struct mt_batch *batch, const struct mt_json_result *all)
{
    struct mt_json_result dropped, strict;
    check(mt_json_read(readers[MT_JSON_DROPMALFORMED], batch, 0, 0, &dropped, &err) == MT_OK);
    check(dropped.malformed == all->malformed && !dropped.kept == !all->malformed);
    check(dropped.rows.length == batch->array.length - all->malformed);
    for (int64_t i = 0; dropped.kept && i < dropped.rows.length; i++)
        check(mt_array_is_null(all->rows.children[out.n_children - 1], dropped.kept[i]));
    mt_json_result_clear(&dropped);
    enum mt_status status = mt_json_read(readers[MT_JSON_FAILFAST], batch, 0, 0, &strict, &err);
    check(status == (all->malformed ? MT_REJECT : MT_OK));
    mt_json_result_clear(&strict);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct mt_batch batch;
    struct mt_json_result all;
    if (!readers[0])
        set_up();
    batch_of(data, size, 0, INT64_MAX, &batch);
    check(mt_json_read(readers[MT_JSON_PERMISSIVE], &batch, 0, 0, &all, &err) == MT_OK);
    check(all.rows.length == batch.array.length && !all.kept);
    check_column(&out, &all.rows, all.rows.length, NULL);
    check_alone(data, size, &all);
    check_modes(&batch, &all);
    mt_json_result_clear(&all);
    mt_batch_release(&batch);
    return 0;
}
