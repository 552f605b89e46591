/* SPDX-License-Identifier: Apache-2.0
 *
 * memory_source.c - a stream of rows that a test adds, so that a job's steps can be
 * tried without a broker.
 *
 * A position is the number of rows before it ("17"). Rows stay as long as the stream
 * does: a batch may be read again within the process, and a second query may read from
 * the start. They do not outlive it, so the source calls itself not replayable.
 *
 * A source is a reader of the stream: each query has its own, and the script keeps one to
 * add rows by, so that neither goes with the other. Adding and reading may happen in two
 * threads; the stream is all they share. */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "source/source_int.h"

struct chunk {
    struct ArrowArray rows; /* "+s" of the full schema */
    int64_t first;          /* rows before it */
};

struct memory_source;

struct stream {
    pthread_mutex_t lock; /* over all of it */
    struct chunk *chunks;
    int64_t n_chunks;
    int64_t total;                 /* rows */
    struct memory_source *readers; /* the stream goes with the last one */
};

struct memory_source {
    struct mt_source base;
    char *ddl, *stream_name; /* options */
    struct stream *stream;
    struct memory_source *next; /* of the stream's readers */
    int64_t target;             /* of a run with MT_REACH_TARGET; -1: not set yet */
};

static const struct mt_option options[] = {
    {"schema", MT_OPT_STRING, NULL, offsetof(struct memory_source, ddl), NULL,
     "columns of the rows, as in \"id BIGINT, name STRING\""},
    {"name", MT_OPT_STRING, "memory", offsetof(struct memory_source, stream_name), NULL,
     "name in error texts"},
    {0},
};

/* ---- the stream */

static void join(struct memory_source *self, struct stream *stream)
{
    pthread_mutex_lock(&stream->lock);
    self->stream = stream;
    self->next = stream->readers;
    stream->readers = self;
    pthread_mutex_unlock(&stream->lock);
}

static void stream_free(struct stream *stream)
{
    for (int64_t i = 0; i < stream->n_chunks; i++)
        stream->chunks[i].rows.release(&stream->chunks[i].rows);
    free(stream->chunks);
    pthread_mutex_destroy(&stream->lock);
    free(stream);
}

static void leave(struct memory_source *self)
{
    struct stream *stream = self->stream;
    pthread_mutex_lock(&stream->lock);
    struct memory_source **link = &stream->readers;
    while (*link != self)
        link = &(*link)->next;
    *link = self->next;
    bool last = !stream->readers;
    pthread_mutex_unlock(&stream->lock);
    if (last)
        stream_free(stream);
}

/* ---- the source */

static enum mt_status memory_open(struct mt_source *base, struct mt_error *err)
{
    struct memory_source *self = (struct memory_source *)base;
    struct stream *stream = mt_alloc(sizeof *stream);
    pthread_mutex_init(&stream->lock, NULL);
    join(self, stream);
    self->target = -1;
    base->name = mt_strdup(self->stream_name);
    base->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (base->wake_fd < 0)
        return mt_fail(err, MT_FATAL, MT_CLASS_MACHINE, "memory: no file handle is left");
    if (!self->ddl)
        return mt_fail(err, MT_FATAL, MT_CLASS_JOB, "memory: option \"schema\" must be specified");
    return mt_schema_parse(self->ddl, &base->full_schema, err);
}

static enum mt_status memory_resolve_start(struct mt_source *base, int64_t now_ms, char **start,
                                           struct mt_error *err)
{
    (void)base, (void)now_ms, (void)err;
    *start = mt_strdup("0");
    return MT_OK;
}

static enum mt_status position_of(const struct memory_source *self, const char *text,
                                  int64_t *position, struct mt_error *err)
{
    int used = 0;
    if (sscanf(text, "%" SCNd64 "%n", position, &used) != 1 || text[used] || *position < 0)
        return mt_fail(err, MT_FATAL, MT_CLASS_CHECKPOINT,
                       "%s: \"%s\" is no position of a memory stream (a number of rows)",
                       self->base.name, text);
    int64_t total = self->stream->total;
    if (*position > total)
        return mt_fail(err, MT_FATAL, MT_CLASS_DATA_LOSS,
                       "%s: the checkpoint is at row %" PRId64 " and the stream has %" PRId64
                       " rows; rows of a memory stream do not outlive their process: use a new "
                       "checkpoint",
                       self->base.name, *position, total);
    return MT_OK;
}

static enum mt_status memory_available(struct mt_source *base, const char *start,
                                       enum mt_reach reach, int64_t now_ms, struct mt_ends *ends,
                                       struct mt_error *err)
{
    struct memory_source *self = (struct memory_source *)base;
    int64_t from, end;
    uint64_t wakes;
    (void)now_ms;
    if (read(base->wake_fd, &wakes, sizeof wakes) < 0)
        wakes = 0; /* nothing was added since the last time */
    pthread_mutex_lock(&self->stream->lock);
    enum mt_status status = position_of(self, start, &from, err);
    end = self->stream->total;
    pthread_mutex_unlock(&self->stream->lock);
    if (status != MT_OK)
        return status;
    if (reach == MT_REACH_TARGET || reach == MT_REACH_ALL) {
        self->target = self->target < 0 ? end : self->target;
        end = self->target > from ? self->target : from;
        ends->reached = true;
    }
    ends->end = mt_format("%" PRId64, end);
    ends->latest = mt_strdup(ends->end);
    ends->facts = mt_strdup("{}");
    ends->nothing = end == from;
    return MT_OK;
}

/* ---- rows of several chunks as one batch */

/* Column `which` of rows [start, end) of the stream. */
static enum mt_status column_of(const struct memory_source *self, int32_t which, int64_t start,
                                int64_t end, struct ArrowArray *out, struct mt_error *err)
{
    struct mt_column column;
    enum mt_status status = MT_OK;
    mt_column_init(&column, self->base.full_schema.children[which]);
    for (int64_t i = 0; status == MT_OK && i < self->stream->n_chunks; i++) {
        const struct chunk *chunk = &self->stream->chunks[i];
        int64_t first = start > chunk->first ? start - chunk->first : 0;
        int64_t last = end - chunk->first;
        if (last > chunk->rows.length)
            last = chunk->rows.length;
        if (first < last)
            status = mt_column_add_array(&column, chunk->rows.children[which],
                                         chunk->rows.offset + first, last - first, err);
    }
    if (status == MT_OK)
        mt_column_finish(&column, out);
    mt_column_deinit(&column);
    return status;
}

static struct mt_coords *coords_of(const struct memory_source *self, int64_t start, int64_t end)
{
    struct mt_coords *coords = mt_coords_new();
    mt_coords_start(coords, self->base.name, -1);
    for (int64_t row = start; row < end; row++)
        mt_coords_add(coords, row);
    return coords;
}

static enum mt_status read_range(struct memory_source *self, int64_t start, int64_t end,
                                 struct mt_batch *out, struct mt_error *err)
{
    int64_t n = self->base.schema.n_children;
    struct ArrowArray *columns = mt_alloc((size_t)(n + 1) * sizeof *columns);
    enum mt_status status = MT_OK;
    for (int64_t i = 0; status == MT_OK && i < n; i++)
        status = column_of(self, self->base.wanted[i], start, end, &columns[i], err);
    if (status == MT_OK) {
        *out = (struct mt_batch){.schema = &self->base.schema};
        mt_array_struct(columns, n, end - start, &out->array);
        out->coords = coords_of(self, start, end);
    }
    for (int64_t i = 0; i < n; i++)
        if (columns[i].release)
            columns[i].release(&columns[i]);
    free(columns);
    return status;
}

static enum mt_status memory_read(struct mt_source *base, const char *start, const char *end,
                                  const char *facts, int64_t now_ms, struct mt_batch *out,
                                  struct mt_error *err)
{
    struct memory_source *self = (struct memory_source *)base;
    int64_t from, to;
    (void)facts, (void)now_ms;
    pthread_mutex_lock(&self->stream->lock);
    enum mt_status status = position_of(self, start, &from, err);
    if (status == MT_OK)
        status = position_of(self, end, &to, err);
    if (status == MT_OK)
        status = read_range(self, from, to > from ? to : from, out, err);
    pthread_mutex_unlock(&self->stream->lock);
    return status;
}

static enum mt_status memory_committed(struct mt_source *base, const char *end,
                                       struct mt_error *err)
{
    (void)base, (void)end, (void)err;
    return MT_OK;
}

static void memory_describe(struct mt_source *base, const char *end, const char *latest,
                            struct mt_buf *buf)
{
    char text[200];
    (void)end, (void)latest;
    int len = snprintf(text, sizeof text, "MemoryStream[%s]", base->name);
    mt_buf_adds(buf, "{\"description\":");
    mt_buf_add_json(buf, text, len < (int)sizeof text ? (size_t)len : sizeof text - 1);
    mt_buf_adds(buf, ",\"metrics\":{}}");
}

static void memory_close(struct mt_source *base)
{
    struct memory_source *self = (struct memory_source *)base;
    leave(self);
    if (base->wake_fd >= 0)
        close(base->wake_fd);
}

const struct mt_source_type mt_source_memory = {
    .name = "memory",
    .help = "rows that a test adds (mt.memoryStream)",
    .options = options,
    .size = sizeof(struct memory_source),
    .replayable = false,
    .open = memory_open,
    .resolve_start = memory_resolve_start,
    .available = memory_available,
    .read = memory_read,
    .committed = memory_committed,
    .describe = memory_describe,
    .close = memory_close,
};

enum mt_status mt_memory_source_new(const char *ddl, const char *name, struct mt_source **out,
                                    struct mt_error *err)
{
    struct mt_pairs given = {0};
    mt_pairs_add(&given, "schema", ddl);
    if (name)
        mt_pairs_add(&given, "name", name);
    enum mt_status status = mt_source_new("memory", &given, out, err);
    mt_pairs_free(&given);
    return status;
}

enum mt_status mt_memory_source_again(struct mt_source *of, struct mt_source **out,
                                      struct mt_error *err)
{
    struct memory_source *first = (struct memory_source *)of;
    enum mt_status status = mt_memory_source_new(first->ddl, first->stream_name, out, err);
    if (status != MT_OK)
        return status;
    struct memory_source *self = (struct memory_source *)*out;
    leave(self);
    join(self, first->stream);
    return MT_OK;
}

/* Under the lock: a reader of another thread may leave at any time. */
static void wake_readers(const struct stream *stream)
{
    uint64_t one = 1;
    for (const struct memory_source *reader = stream->readers; reader; reader = reader->next)
        if (write(reader->base.wake_fd, &one, sizeof one) < 0)
            mt_log(MT_DEBUG, "%s: the reader is awake already", reader->base.name);
}

enum mt_status mt_memory_source_add(struct mt_source *base, struct ArrowArray *rows,
                                    struct mt_error *err)
{
    struct stream *stream = ((struct memory_source *)base)->stream;
    if (rows->n_children != base->full_schema.n_children)
        return mt_fail(err, MT_FATAL, MT_CLASS_INTERNAL,
                       "%s: rows of %" PRId64 " columns for a stream of %" PRId64, base->name,
                       rows->n_children, base->full_schema.n_children);
    pthread_mutex_lock(&stream->lock);
    stream->chunks =
        mt_realloc(stream->chunks, (size_t)(stream->n_chunks + 1) * sizeof *stream->chunks);
    stream->chunks[stream->n_chunks++] = (struct chunk){*rows, stream->total};
    stream->total += rows->length;
    rows->release = NULL;
    wake_readers(stream);
    pthread_mutex_unlock(&stream->lock);
    return MT_OK;
}
