/* SPDX-License-Identifier: Apache-2.0
 *
 * support.h - what the tests of sinks share: rows, batches, folders, and tables read
 * back by pyarrow. Failures that a test must survive come back as words. */
#ifndef SUPPORT_H
#define SUPPORT_H

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h> /* needs the ones above */
#include <jansson.h>

#include "base/step.h"
#include "sink/sink.h"

#define QUERY "2f1d0f0a-5f0e-4c0b-9a31-0d8f6f1f9a10"
#define OTHER_QUERY "b8a6f2f6-65a1-4a1a-8a0c-1d4c9b0a7c55"

/* ---- folders */

static inline char *new_folder(void)
{
    const char *under = getenv("TMPDIR");
    char *path = mt_format("%s/mt-sink-XXXXXX", under ? under : "/tmp");
    if (!mkdtemp(path))
        abort();
    return path;
}

static inline void drop_folder(char *path)
{
    char *command = mt_format("rm -rf '%s'", path);
    if (system(command) != 0)
        abort();
    free(command);
    free(path);
}

static inline char *read_file(const char *path)
{
    struct mt_buf text = {0};
    FILE *file = fopen(path, "r");
    mt_buf_adds(&text, "");
    for (int c; file && (c = fgetc(file)) != EOF;)
        mt_buf_add(&text, &(char){(char)c}, 1);
    if (file)
        fclose(file);
    return text.data;
}

static inline void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    if (!file || fputs(text, file) < 0 || fclose(file) != 0)
        abort();
}

static inline char *output_of(const char *command)
{
    struct mt_buf text = {0};
    FILE *pipe = popen(command, "r");
    mt_buf_adds(&text, "");
    for (int c; pipe && (c = fgetc(pipe)) != EOF;)
        mt_buf_add(&text, &(char){(char)c}, 1);
    if (!pipe || pclose(pipe) != 0)
        mt_buf_adds(&text, "(the command failed)");
    return text.data;
}

/* tests/sink/read_table.py, started at the first question: it takes half a second. */
static FILE *reader_in, *reader_out;

static inline void start_reader(void)
{
    const char *deps = getenv("MOONTIDE_DEPS");
    char *program =
        mt_format("%s%s/venv/bin/python", deps ? deps : MT_TEST_DATA, deps ? "" : "/../../.deps");
    int to[2], from[2];
    if (pipe2(to, O_CLOEXEC) != 0 || pipe2(from, O_CLOEXEC) != 0)
        abort();
    if (fork() == 0) {
        dup2(to[0], STDIN_FILENO);
        dup2(from[1], STDOUT_FILENO);
        execl(program, program, MT_TEST_DATA "/../sink/read_table.py", (char *)NULL);
        perror(program);
        _exit(127);
    }
    close(to[0]);
    close(from[1]);
    reader_in = fdopen(to[1], "w");
    reader_out = fdopen(from[0], "r");
    free(program);
}

/* The lines that it answers; what: "ids", "rows", "log", "meta". */
static inline char *ask_reader(const char *what, const char *place)
{
    struct mt_buf text = {0};
    char *line = NULL;
    size_t cap = 0;
    mt_buf_adds(&text, "");
    if (!reader_in)
        start_reader();
    fprintf(reader_in, "%s %s\n", what, place);
    fflush(reader_in);
    for (ssize_t len; (len = getline(&line, &cap, reader_out)) > 0 && *line;)
        mt_buf_add(&text, line, (size_t)len);
    free(line);
    return text.data;
}

static inline int stop_reader(void)
{
    if (reader_in)
        fclose(reader_in);
    if (reader_out)
        fclose(reader_out);
    return 0;
}

/* ---- rows */

static inline void schema_of(const char *ddl, struct ArrowSchema *schema)
{
    struct mt_error err;
    if (mt_schema_parse(ddl, schema, &err) != MT_OK) {
        fprintf(stderr, "%s: %s\n", ddl, err.text);
        abort();
    }
}

static inline void finish_column(struct mt_column *column, struct ArrowArray *out)
{
    mt_column_finish(column, out);
    mt_column_deinit(column);
}

#define ROWS_DDL "id BIGINT, kind STRING, amount DOUBLE"

/* The ids as text, for what holds text alone. */
static inline struct mt_batch make_lines(const struct ArrowSchema *schema, int64_t first, int64_t n)
{
    struct mt_error err;
    struct mt_column column;
    struct ArrowArray array;
    char text[24];
    mt_column_init(&column, schema->children[0]);
    for (int64_t id = first; id < first + n; id++)
        if (mt_column_add_bytes(&column, text, sprintf(text, "%" PRId64, id), &err) != MT_OK)
            abort();
    finish_column(&column, &array);
    struct mt_batch batch = {.schema = schema};
    mt_array_struct(&array, 1, n, &batch.array);
    return batch;
}

/* kind: null, "a", "b" in turn; a column of another name: the id as text. */
static inline enum mt_status add_kind(struct mt_column *column, const char *name, int64_t id)
{
    struct mt_error err;
    char text[24];
    if (strcmp(name, "kind") != 0)
        return mt_column_add_bytes(column, text, snprintf(text, sizeof text, "%" PRId64, id), &err);
    return id % 3 == 0 ? mt_column_add_null(column, &err)
                       : mt_column_add_bytes(column, id % 3 == 1 ? "a" : "b", 1, &err);
}

/* id first, first + 1, ...; kind as above; amount null at every fourth. */
static inline struct mt_batch make_rows(const struct ArrowSchema *schema, int64_t first, int64_t n)
{
    struct mt_error err;
    struct mt_column columns[3];
    struct ArrowArray arrays[3];
    enum mt_status status = MT_OK;
    if (schema->n_children == 1)
        return make_lines(schema, first, n);
    for (int i = 0; i < 3; i++)
        mt_column_init(&columns[i], schema->children[i]);
    for (int64_t id = first; id < first + n; id++) {
        status |= mt_column_add_int(&columns[0], id, &err);
        status |= add_kind(&columns[1], schema->children[1]->name, id);
        status |= id % 4 == 0 ? mt_column_add_null(&columns[2], &err)
                              : mt_column_add_double(&columns[2], (double)id / 2, &err);
    }
    if (status != MT_OK)
        abort();
    for (int i = 0; i < 3; i++)
        finish_column(&columns[i], &arrays[i]);
    struct mt_batch batch = {.schema = schema};
    mt_array_struct(arrays, 3, n, &batch.array);
    return batch;
}

/* One value of any type, null every fifth; lists of 0 to 2 elements, maps with other keys. */
static inline enum mt_status add_any(struct mt_column *column, int64_t i)
{
    struct mt_error err;
    enum mt_status status = MT_OK;
    char text[24];
    if (i % 5 == 4)
        return mt_column_add_null(column, &err);
    switch (column->type) {
    case MT_STRING:
    case MT_BINARY:
        return mt_column_add_bytes(column, text, snprintf(text, sizeof text, "t%d", (int)i), &err);
    case MT_FLOAT:
    case MT_DOUBLE:
        return mt_column_add_double(column, (double)i / 4, &err);
    case MT_DECIMAL:
        return mt_column_add_decimal(column, (uint64_t[]){(uint64_t)i, 0}, &err);
    case MT_STRUCT:
        for (int64_t n = 0; n < column->n_children; n++)
            status |= add_any(&column->children[n], i + n);
        return status | mt_column_close_row(column, &err);
    case MT_ARRAY:
        for (int64_t n = 0; n < i % 3; n++)
            status |= add_any(&column->children[0], i + n);
        return status | mt_column_close_row(column, &err);
    case MT_MAP:
        for (int64_t n = 0; n < i % 3; n++) { /* 5 * n + 0 .. 3 is no null */
            status |= add_any(&column->children[0].children[0], 5 * n + i % 3);
            status |= add_any(&column->children[0].children[1], i + n);
            status |= mt_column_close_row(&column->children[0], &err);
        }
        return status | mt_column_close_row(column, &err);
    default:
        return mt_column_add_int(column, column->type == MT_BOOLEAN ? i % 2 : i, &err);
    }
}

/* Rows of a schema that begins with id BIGINT, kind STRING: as make_rows has them, and any
 * values behind. */
static inline struct mt_batch make_any_rows(const struct ArrowSchema *schema, int64_t n)
{
    struct mt_error err;
    struct mt_column root;
    struct mt_batch batch = {.schema = schema};
    enum mt_status status = MT_OK;
    mt_column_init(&root, schema);
    for (int64_t id = 0; id < n; id++) {
        status |= mt_column_add_int(&root.children[0], id, &err);
        status |= add_kind(&root.children[1], schema->children[1]->name, id);
        for (int64_t c = 2; c < root.n_children; c++)
            status |= add_any(&root.children[c], id + c);
        status |= mt_column_close_row(&root, &err);
    }
    if (status != MT_OK)
        abort();
    finish_column(&root, &batch.array);
    return batch;
}

/* ---- batches */

static inline const char *digest_of(int64_t batch_id, const char *seed)
{
    static char digests[4][65];
    static int turn;
    char text[64];
    char *digest = digests[turn++ & 3];
    snprintf(text, sizeof text, "%" PRId64 " %s", batch_id, seed);
    mt_sha256_hex(text, strlen(text), digest);
    return digest;
}

static inline struct mt_sink_batch batch_of(const char *query, int64_t id, int64_t rows)
{
    return (struct mt_sink_batch){
        .query_id = query,
        .query_name = "orders",
        .batch_id = id,
        .digest = digest_of(id, ""),
        .bundle = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
        .offsets = "[{\"source\":\"orders\",\"start\":{\"orders\":{\"0\":0}},"
                   "\"end\":{\"orders\":{\"0\":9}}}]",
        .version = "0.1.0",
        .rows = rows,
        .fingerprint = 0xfedcba9876543210u + (uint64_t)id,
    };
}

/* ---- sinks */

struct setup {
    const char *format, *path, *name, *query_name;
    const char *options[8]; /* key, value, ... */
    const char *partition_by[4];
    int64_t n_files;
    const char *spread_by; /* or NULL */
};

static inline enum mt_status make_sink(const struct setup *setup, const struct ArrowSchema *schema,
                                       struct mt_sink **sink, struct mt_error *err)
{
    struct mt_sink_settings settings = {.format = setup->format,
                                        .path = setup->path,
                                        .name = setup->name,
                                        .n_files = setup->n_files,
                                        .query_name = setup->query_name};
    for (int i = 0; setup->options[i]; i += 2)
        mt_pairs_add(&settings.options, setup->options[i], setup->options[i + 1]);
    for (int i = 0; setup->partition_by[i]; i++)
        mt_pairs_add(&settings.partition_by, setup->partition_by[i], "");
    if (setup->spread_by)
        mt_pairs_add(&settings.spread_by, setup->spread_by, "");
    enum mt_status status = mt_sink_new(&settings, schema, sink, err);
    mt_pairs_free(&settings.options);
    mt_pairs_free(&settings.partition_by);
    mt_pairs_free(&settings.spread_by);
    return status;
}

static inline struct mt_sink *need_sink(const struct setup *setup, const struct ArrowSchema *schema)
{
    struct mt_sink *sink = NULL;
    struct mt_error err = {0};
    if (make_sink(setup, schema, &sink, &err) != MT_OK)
        fprintf(stderr, "%s\n", err.text);
    assert_non_null(sink);
    return sink;
}

/* begin, and write and commit when it says NEW: what the engine does for a batch. */
static inline enum mt_status store_rows(struct mt_sink *sink, const char *query, int64_t id,
                                        const struct mt_batch *rows, enum mt_sink_answer *answer,
                                        struct mt_error *err)
{
    struct mt_sink_record record;
    struct mt_sink_batch batch = batch_of(query, id, rows ? rows->array.length : 0);
    *answer = MT_SINK_NEW;
    enum mt_status status = sink->type->begin(sink, &batch, answer, &record, err);
    if (status == MT_OK && *answer == MT_SINK_NEW && rows)
        status = sink->type->write(sink, rows, err);
    if (status == MT_OK && *answer == MT_SINK_NEW)
        status = sink->type->commit(sink, &record, err);
    if (status != MT_OK || *answer != MT_SINK_NEW)
        sink->type->abort(sink);
    return status;
}

/* The same with ids first ... first + n - 1, which must succeed. */
static inline void store_ids(struct mt_sink *sink, const char *query, int64_t id, int64_t first,
                             int64_t n)
{
    struct mt_error err = {0};
    enum mt_sink_answer answer;
    struct mt_batch rows = make_rows(sink->schema, first, n);
    if (store_rows(sink, query, id, n ? &rows : NULL, &answer, &err) != MT_OK)
        fail_msg("batch %" PRId64 ": %s", id, err.text);
    mt_batch_release(&rows);
}

static inline void need_recover(struct mt_sink *sink, const char *query)
{
    struct mt_error err = {0};
    if (sink->type->recover(sink, query, &err) != MT_OK)
        fail_msg("recover: %s", err.text);
}

/* "0-9,12" for those ids. */
static inline void assert_ids(const char *table, const char *expected)
{
    char *found = ask_reader("ids", table);
    found[strcspn(found, "\n")] = '\0';
    assert_string_equal(found, expected);
    free(found);
}
#endif
