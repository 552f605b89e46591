/* SPDX-License-Identifier: Apache-2.0
 *
 * files_layout.c - partitionBy: a folder col=value for every value, rows sorted into
 * them, the columns that became folders left out of the files.
 *
 * Rows are told apart by their raw values, and only the first of each group is printed
 * as text: a million rows of ten values cost ten prints. Null and the empty text both
 * go to __HIVE_DEFAULT_PARTITION__, as Spark has it, and read back as null. The text
 * "__HIVE_DEFAULT_PARTITION__" itself would too: it is refused rather than changed. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <xxhash.h>

#include "sink/files/files_int.h"

#define NULL_FOLDER "__HIVE_DEFAULT_PARTITION__"
enum { LONGEST_NAME = 255 }; /* bytes of one folder's name, on Linux file systems */

/* ---- the columns */

static enum mt_status refuse_key(const struct ArrowSchema *field, const char *why,
                                 struct mt_error *err)
{
    char *type = mt_schema_type_name(field);
    mt_fail(err, MT_REJECT, MT_CLASS_JOB, "partitionBy: column \"%s\" is %s: %s", field->name, type,
            why);
    mt_free(type);
    return MT_REJECT;
}

static enum mt_status check_key(const struct ArrowSchema *field, struct mt_error *err)
{
    if (field->name[0] == '.' || field->name[0] == '\0')
        return refuse_key(field, "a folder of that name is skipped by readers", err);
    switch (mt_schema_type(field)) {
    case MT_FLOAT:
    case MT_DOUBLE:
        return refuse_key(field, "a fraction makes no folder; round it to a DECIMAL or BIGINT",
                          err);
    case MT_BINARY:
        return refuse_key(field, "bytes make no folder; make a STRING of them", err);
    case MT_ARRAY:
    case MT_STRUCT:
    case MT_MAP:
        return refuse_key(field, "a nested value makes no folder; take a field of it", err);
    default:
        return MT_OK;
    }
}

static enum mt_status refuse_names(const char *column, const char *one, const char *other,
                                   struct mt_error *err)
{
    char what[160] = "columns";
    if (column)
        snprintf(what, sizeof what, "fields in column \"%.120s\"", column);
    return mt_fail(err, MT_REJECT, MT_CLASS_JOB,
                   "two %s are named \"%s\" and \"%s\": readers take them for one; choose another "
                   "name or rename the existing column",
                   what, one, other);
}

/* Readers mostly do not tell upper from lower case: Spark writes such a file as a stream
 * and cannot read it. column: whose fields these are; NULL: they are the columns. */
static enum mt_status check_names(const struct ArrowSchema *parent, const char *column,
                                  struct mt_error *err)
{
    enum mt_status status = MT_OK;
    for (int64_t i = 0; status == MT_OK && i < parent->n_children; i++) {
        const char *name = parent->children[i]->name;
        if (!mt_utf8_valid(name, strlen(name)))
            return mt_fail(err, MT_REJECT, MT_CLASS_JOB, "the name of %s %lld is not UTF-8",
                           column ? "field" : "column", (long long)i + 1);
        for (int64_t k = 0; k < i; k++)
            if (strcasecmp(name, parent->children[k]->name) == 0)
                return refuse_names(column, parent->children[k]->name, name, err);
        status = check_names(parent->children[i], column ? column : name, err);
    }
    return status;
}

static bool is_key(const struct mt_sink *sink, const char *name)
{
    for (int64_t i = 0; i < sink->n_partition_by; i++)
        if (strcmp(sink->partition_by[i], name) == 0)
            return true;
    return false;
}

static int32_t index_of(const struct ArrowSchema *schema, const char *name)
{
    int32_t i = 0;
    while (strcmp(schema->children[i]->name, name) != 0)
        i++;
    return i;
}

static enum mt_status find_keys(struct files_layout *layout, const struct mt_sink *sink,
                                struct mt_error *err)
{
    enum mt_status status = MT_OK;
    for (int64_t i = 0; status == MT_OK && i < sink->n_partition_by; i++) {
        int32_t column = index_of(sink->schema, sink->partition_by[i]);
        layout->keys[layout->n_keys++] = column;
        status = check_key(sink->schema->children[column], err);
    }
    return status;
}

static void find_picks(struct files_layout *layout, const struct mt_sink *sink)
{
    int64_t n = 0, columns = sink->schema->n_children;
    const struct ArrowSchema **fields = mt_alloc((size_t)columns * sizeof *fields);
    for (int64_t i = 0; i < columns; i++) {
        if (is_key(sink, sink->schema->children[i]->name))
            continue;
        fields[n] = sink->schema->children[i];
        layout->picks[n++] = (int32_t)i;
    }
    mt_schema_of(fields, NULL, n, &layout->data);
    free(fields);
}

enum mt_status files_layout_init(struct files_layout *layout, const struct mt_sink *sink,
                                 struct mt_error *err)
{
    size_t columns = (size_t)sink->schema->n_children;
    *layout = (struct files_layout){.schema = sink->schema};
    layout->keys = mt_alloc(columns * sizeof *layout->keys);
    layout->picks = mt_alloc(columns * sizeof *layout->picks);
    enum mt_status status = check_names(sink->schema, NULL, err);
    if (status == MT_OK)
        status = find_keys(layout, sink, err);
    if (status == MT_OK && sink->n_partition_by == sink->schema->n_children)
        status = mt_fail(err, MT_REJECT, MT_CLASS_JOB,
                         "partitionBy takes every column: leave one for the files");
    if (status == MT_OK)
        find_picks(layout, sink);
    else
        files_layout_deinit(layout);
    return status;
}

void files_layout_deinit(struct files_layout *layout)
{
    free(layout->keys);
    free(layout->picks);
    mt_schema_release(&layout->data);
    *layout = (struct files_layout){0};
}

/* ---- values as bytes */

struct bytes {
    const void *data;
    size_t len; /* 0: null or empty, which share a folder */
};

static size_t width_of(enum mt_type type)
{
    static const uint8_t widths[] = {
        [MT_TINYINT] = 1, [MT_SMALLINT] = 2, [MT_INT] = 4,       [MT_BIGINT] = 8,
        [MT_DATE] = 4,    [MT_DECIMAL] = 16, [MT_TIMESTAMP] = 8,
    };
    return widths[type];
}

static struct bytes value_at(enum mt_type type, const struct ArrowArray *column, int64_t row)
{
    int64_t i = column->offset + row;
    if (mt_array_is_null(column, row))
        return (struct bytes){0};
    if (type == MT_BOOLEAN) {
        bool set = ((const uint8_t *)column->buffers[1])[i >> 3] >> (i & 7) & 1;
        return (struct bytes){set ? "t" : "f", 1};
    }
    if (type == MT_STRING) {
        const int32_t *offsets = column->buffers[1];
        return (struct bytes){(const char *)column->buffers[2] + offsets[i],
                              (size_t)(offsets[i + 1] - offsets[i])};
    }
    size_t width = width_of(type);
    return (struct bytes){(const char *)column->buffers[1] + (size_t)i * width, width};
}

static struct bytes key_at(const struct files_layout *layout, const struct mt_batch *batch,
                           int64_t key, int64_t row)
{
    int32_t column = layout->keys[key];
    return value_at(mt_schema_type(layout->schema->children[column]), batch->array.children[column],
                    batch->array.offset + row);
}

static uint64_t hash_row(const struct files_layout *layout, const struct mt_batch *batch,
                         int64_t row)
{
    uint64_t hash = 0;
    for (int64_t key = 0; key < layout->n_keys; key++) {
        struct bytes value = key_at(layout, batch, key, row);
        hash = XXH3_64bits_withSeed(value.data, value.len, hash + value.len);
    }
    return hash;
}

static bool same_row(const struct files_layout *layout, const struct mt_batch *batch, int64_t a,
                     int64_t b)
{
    for (int64_t key = 0; key < layout->n_keys; key++) {
        struct bytes x = key_at(layout, batch, key, a), y = key_at(layout, batch, key, b);
        if (x.len != y.len || (x.len && memcmp(x.data, y.data, x.len) != 0))
            return false;
    }
    return true;
}

/* ---- folder names */

static enum mt_status refuse_value(const struct ArrowSchema *field, const struct mt_batch *batch,
                                   int64_t row, const char *why, struct mt_error *err)
{
    char where[160];
    return mt_fail(err, MT_REJECT, MT_CLASS_DATA, "%s: partition column \"%s\": %s",
                   mt_batch_where(batch, row, where, sizeof where), field->name, why);
}

static enum mt_status add_folder(const struct files_layout *layout, const struct mt_batch *batch,
                                 int64_t key, int64_t row, struct mt_buf *path,
                                 struct mt_error *err)
{
    int32_t column = layout->keys[key];
    const struct ArrowSchema *field = layout->schema->children[column];
    struct mt_buf text = {0};
    bool empty = key_at(layout, batch, key, row).len == 0;
    mt_buf_adds(&text, "");
    if (!empty)
        mt_value_print(field, batch->array.children[column], batch->array.offset + row, &text);
    const char *bad = NULL;
    if (text.len == strlen(NULL_FOLDER) && memcmp(text.data, NULL_FOLDER, text.len) == 0)
        bad = "the text \"" NULL_FOLDER "\" would be read back as null; change it before the sink";
    else if (!mt_utf8_valid(text.data, text.len))
        bad = "the text is not UTF-8 and makes no folder";
    size_t start = path->len + (key > 0);
    mt_buf_adds(path, key > 0 ? "/" : "");
    files_escape(field->name, strlen(field->name), path);
    mt_buf_adds(path, "=");
    if (empty)
        mt_buf_adds(path, NULL_FOLDER);
    else
        files_escape(text.data, text.len, path);
    mt_buf_free(&text);
    if (!bad && path->len - start > LONGEST_NAME)
        bad = "the value is too long for a folder's name, which may have 255 bytes; shorten it "
              "before the sink";
    return bad ? refuse_value(field, batch, row, bad, err) : MT_OK;
}

static enum mt_status print_folder(const struct files_layout *layout, const struct mt_batch *batch,
                                   int64_t row, char **out, struct mt_error *err)
{
    struct mt_buf path = {0};
    enum mt_status status = MT_OK;
    for (int64_t key = 0; status == MT_OK && key < layout->n_keys; key++)
        status = add_folder(layout, batch, key, row, &path, err);
    if (status == MT_OK)
        *out = path.data;
    else
        mt_buf_free(&path);
    return status;
}

/* ---- groups: a hash table from a row's values to its group */

struct grouping {
    const struct files_layout *layout;
    const struct mt_batch *batch;
    int32_t *slots;         /* group + 1, 0: free */
    int64_t n_slots;        /* a power of two, at least twice n */
    int32_t *first, *count; /* of each group */
    int64_t n;
};

static void place(struct grouping *g, int32_t group)
{
    uint64_t hash = hash_row(g->layout, g->batch, g->first[group]);
    uint64_t at = hash & (uint64_t)(g->n_slots - 1);
    while (g->slots[at])
        at = (at + 1) & (uint64_t)(g->n_slots - 1);
    g->slots[at] = group + 1;
}

static void grow(struct grouping *g)
{
    g->n_slots = g->n_slots ? g->n_slots * 2 : 64;
    free(g->slots);
    g->slots = mt_alloc((size_t)g->n_slots * sizeof *g->slots);
    g->first = mt_realloc(g->first, (size_t)g->n_slots / 2 * sizeof *g->first);
    g->count = mt_realloc(g->count, (size_t)g->n_slots / 2 * sizeof *g->count);
    for (int64_t group = 0; group < g->n; group++)
        place(g, (int32_t)group);
}

static int32_t group_of(struct grouping *g, int64_t row)
{
    uint64_t at = hash_row(g->layout, g->batch, row) & (uint64_t)(g->n_slots - 1);
    for (; g->slots[at]; at = (at + 1) & (uint64_t)(g->n_slots - 1))
        if (same_row(g->layout, g->batch, g->first[g->slots[at] - 1], row))
            return g->slots[at] - 1;
    g->first[g->n] = (int32_t)row;
    g->count[g->n] = 0;
    g->slots[at] = (int32_t)g->n + 1;
    return (int32_t)g->n++;
}

static int32_t *number_rows(struct grouping *g)
{
    int64_t rows = g->batch->array.length;
    int32_t *groups = mt_alloc((size_t)rows * sizeof *groups);
    for (int64_t row = 0; row < rows; row++) {
        if (g->n * 2 >= g->n_slots)
            grow(g);
        groups[row] = group_of(g, row);
        g->count[groups[row]]++;
    }
    return groups;
}

/* Sorts the row numbers by group, in their order within each. */
static void fill_rows(struct grouping *g, const int32_t *of_row, struct files_groups *out)
{
    int64_t rows = g->batch->array.length, at = 0;
    int32_t *next = mt_alloc((size_t)g->n * sizeof *next);
    out->rows = mt_alloc((size_t)rows * sizeof *out->rows);
    for (int64_t group = 0; group < g->n; group++) {
        out->items[group].rows = out->rows + at;
        out->items[group].n_rows = g->count[group];
        next[group] = (int32_t)at;
        at += g->count[group];
    }
    for (int64_t row = 0; row < rows; row++)
        out->rows[next[of_row[row]]++] = (int32_t)row;
    free(next);
}

static enum mt_status sort_rows(const struct files_layout *layout, const struct mt_batch *batch,
                                struct files_groups *out, struct mt_error *err)
{
    struct grouping g = {.layout = layout, .batch = batch};
    int32_t *of_row = number_rows(&g);
    out->n = g.n;
    out->items = mt_alloc((size_t)g.n * sizeof *out->items);
    fill_rows(&g, of_row, out);
    enum mt_status status = MT_OK;
    for (int64_t i = 0; status == MT_OK && i < g.n; i++)
        status = print_folder(layout, batch, g.first[i], &out->items[i].folder, err);
    free(of_row);
    free(g.slots);
    free(g.first);
    free(g.count);
    return status;
}

enum mt_status files_group(const struct files_layout *layout, const struct mt_batch *batch,
                           struct files_groups *groups, struct mt_error *err)
{
    *groups = (struct files_groups){0};
    if (batch->array.length == 0)
        return MT_OK;
    if (layout->n_keys > 0)
        return sort_rows(layout, batch, groups, err);
    groups->items = mt_alloc(sizeof *groups->items);
    groups->items[0] = (struct files_group){mt_strdup(""), NULL, 0, batch->array.length};
    groups->n = 1;
    return MT_OK;
}

void files_groups_clear(struct files_groups *groups)
{
    for (int64_t i = 0; i < groups->n; i++)
        free(groups->items[i].folder);
    free(groups->items);
    free(groups->rows);
    *groups = (struct files_groups){0};
}
