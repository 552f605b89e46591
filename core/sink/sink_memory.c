/* SPDX-License-Identifier: Apache-2.0
 *
 * sink_memory.c - rows kept in this process under the query's name, for tests and the
 * shell.
 *
 * Tables outlive their sink, so that rows can be looked at after the query ended, and
 * are read by another thread than the query's: one mutex guards them all. A table is a
 * list of batches, copied when they are committed; reading makes one batch of them and
 * keeps that, so that the next look costs nothing. A batch id that is there already is
 * ignored, as Spark does; but the memory goes with the process, so the guarantee is at
 * least once. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "sink/sink_int.h"

struct table {
    char *name;
    struct ArrowSchema schema;
    struct ArrowArray *parts; /* "+s" each */
    int64_t n_parts;
    int64_t last_batch; /* -1: none */
    struct table *next;
};

struct memory_sink {
    struct mt_sink base;
    bool open;
    struct mt_sink_record given;
    struct mt_batch *rows; /* copies, until commit */
    int64_t n_rows;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct table *tables;

static const struct mt_option memory_options[] = {{0}};

/* ---- tables, under the lock */

static struct table *find_table(const char *name)
{
    struct table *table = tables;
    while (table && strcmp(table->name, name) != 0)
        table = table->next;
    return table;
}

static void drop_parts(struct table *table)
{
    for (int64_t i = 0; i < table->n_parts; i++)
        table->parts[i].release(&table->parts[i]);
    free(table->parts);
    table->parts = NULL;
    table->n_parts = 0;
}

static void add_part(struct table *table, struct ArrowArray *part)
{
    table->parts = mt_realloc(table->parts, (size_t)(table->n_parts + 1) * sizeof *table->parts);
    table->parts[table->n_parts++] = *part;
    part->release = NULL;
}

static void drop_table(const char *name)
{
    for (struct table **link = &tables; *link; link = &(*link)->next) {
        struct table *table = *link;
        if (strcmp(table->name, name) != 0)
            continue;
        *link = table->next;
        drop_parts(table);
        mt_schema_release(&table->schema);
        free(table->name);
        free(table);
        return;
    }
}

static void make_table(const char *name, const struct ArrowSchema *schema)
{
    drop_table(name);
    struct table *table = mt_alloc(sizeof *table);
    table->name = mt_strdup(name);
    mt_schema_copy(schema, &table->schema);
    table->last_batch = -1;
    table->next = tables;
    tables = table;
}

/* ---- many batches into one */

/* All parts of one column. */
static enum mt_status join_column(const struct table *table, int64_t column, struct ArrowArray *out,
                                  struct mt_error *err)
{
    struct mt_column joined;
    mt_column_init(&joined, table->schema.children[column]);
    enum mt_status status = MT_OK;
    for (int64_t i = 0; status == MT_OK && i < table->n_parts; i++) {
        const struct ArrowArray *part = &table->parts[i];
        status =
            mt_column_add_array(&joined, part->children[column], part->offset, part->length, err);
    }
    if (status == MT_OK)
        mt_column_finish(&joined, out);
    mt_column_deinit(&joined);
    return status;
}

/* Makes one part of all; fails when a text column would pass 2 GiB. */
static enum mt_status join_parts(struct table *table, struct mt_error *err)
{
    int64_t n = table->schema.n_children, length = 0, done = 0;
    struct ArrowArray *columns = mt_alloc((size_t)n * sizeof *columns);
    for (int64_t i = 0; i < table->n_parts; i++)
        length += table->parts[i].length;
    enum mt_status status = MT_OK;
    while (status == MT_OK && done < n) {
        status = join_column(table, done, &columns[done], err);
        done += status == MT_OK;
    }
    if (status == MT_OK) {
        struct ArrowArray whole;
        mt_array_struct(columns, n, length, &whole);
        drop_parts(table);
        add_part(table, &whole);
    } else {
        for (int64_t i = 0; i < done; i++)
            columns[i].release(&columns[i]);
    }
    free(columns);
    return status;
}

bool mt_memory_table(const char *query_name, struct mt_batch *out)
{
    struct mt_error err;
    pthread_mutex_lock(&lock);
    struct table *table = find_table(query_name);
    enum mt_status status = MT_OK;
    if (table && table->n_parts != 1)
        status = join_parts(table, &err);
    if (table && status == MT_OK) {
        *out = (struct mt_batch){.schema = &table->schema};
        mt_array_share(&table->parts[0], &out->array);
    }
    pthread_mutex_unlock(&lock);
    if (status != MT_OK)
        mt_log(MT_ERROR, "memory table %s: %s", query_name, err.text);
    return table && status == MT_OK;
}

void mt_memory_table_drop(const char *query_name)
{
    pthread_mutex_lock(&lock);
    drop_table(query_name);
    pthread_mutex_unlock(&lock);
}

/* ---- the sink */

static enum mt_status memory_open(struct mt_sink *sink, struct mt_error *err)
{
    if (!sink->query_name)
        return mt_fail(err, MT_FATAL, MT_CLASS_JOB,
                       "memory keeps its rows under the query's name: add :queryName \"...\"");
    return MT_OK;
}

/* A start begins with an empty table: what another run held is not this one's. */
static enum mt_status memory_recover(struct mt_sink *sink, const char *query_id,
                                     struct mt_error *err)
{
    (void)query_id, (void)err;
    pthread_mutex_lock(&lock);
    make_table(sink->query_name, sink->schema);
    pthread_mutex_unlock(&lock);
    return MT_OK;
}

static void forget_rows(struct memory_sink *memory)
{
    for (int64_t i = 0; i < memory->n_rows; i++)
        mt_batch_release(&memory->rows[i]);
    free(memory->rows);
    memory->rows = NULL;
    memory->n_rows = 0;
    memory->open = false;
}

static enum mt_status memory_begin(struct mt_sink *sink, const struct mt_sink_batch *batch,
                                   enum mt_sink_answer *answer, struct mt_sink_record *record,
                                   struct mt_error *err)
{
    (void)record, (void)err;
    struct memory_sink *memory = (struct memory_sink *)sink;
    forget_rows(memory);
    memory->open = true;
    memory->given = sink_record_of(batch);
    *answer = MT_SINK_NEW;
    return MT_OK;
}

static enum mt_status copy_rows(const struct mt_batch *rows, struct mt_batch *out,
                                struct mt_error *err)
{
    int64_t n = rows->array.length;
    int32_t *all = mt_alloc((size_t)n * sizeof *all + 1);
    for (int64_t i = 0; i < n; i++)
        all[i] = (int32_t)i;
    enum mt_status status = mt_batch_gather(rows, all, n, out, err);
    free(all);
    return status;
}

static enum mt_status memory_write(struct mt_sink *sink, const struct mt_batch *rows,
                                   struct mt_error *err)
{
    struct memory_sink *memory = (struct memory_sink *)sink;
    if (!memory->open)
        return sink_not_open(sink, "write", err);
    memory->rows = mt_realloc(memory->rows, (size_t)(memory->n_rows + 1) * sizeof *memory->rows);
    struct mt_batch *copy = &memory->rows[memory->n_rows];
    *copy = (struct mt_batch){0};
    enum mt_status status = copy_rows(rows, copy, err);
    if (status != MT_OK) {
        forget_rows(memory);
        return status;
    }
    memory->n_rows++;
    memory->given.rows += rows->array.length;
    return MT_OK;
}

/* The table may have been dropped meanwhile; then there is nobody to keep rows for. */
static void keep_rows(struct memory_sink *memory)
{
    pthread_mutex_lock(&lock);
    struct table *table = find_table(memory->base.query_name);
    if (table && memory->given.batch_id > table->last_batch) {
        table->last_batch = memory->given.batch_id;
        for (int64_t i = 0; i < memory->n_rows; i++)
            add_part(table, &memory->rows[i].array);
    }
    pthread_mutex_unlock(&lock);
}

static enum mt_status memory_commit(struct mt_sink *sink, struct mt_sink_record *record,
                                    struct mt_error *err)
{
    struct memory_sink *memory = (struct memory_sink *)sink;
    if (!memory->open)
        return sink_not_open(sink, "commit", err);
    keep_rows(memory);
    *record = memory->given;
    forget_rows(memory);
    return MT_OK;
}

static void memory_abort(struct mt_sink *sink)
{
    forget_rows((struct memory_sink *)sink);
}

static void memory_describe(struct mt_sink *sink, const char *query_id, struct mt_buf *json)
{
    (void)sink, (void)query_id;
    mt_buf_adds(json,
                "{\"description\":\"MemorySink\",\"guarantee\":\"at least once\",\"marker\":null}");
}

static void memory_close(struct mt_sink *sink)
{
    forget_rows((struct memory_sink *)sink);
}

const struct mt_sink_type sink_memory = {
    .name = "memory",
    .help = "keeps rows in this process under the query's name",
    .options = memory_options,
    .size = sizeof(struct memory_sink),
    .open = memory_open,
    .recover = memory_recover,
    .begin = memory_begin,
    .write = memory_write,
    .commit = memory_commit,
    .abort = memory_abort,
    .describe = memory_describe,
    .close = memory_close,
};
