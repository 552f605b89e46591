/* SPDX-License-Identifier: Apache-2.0
 *
 * files_data.c - one file, written whole and durable under a name that readers
 * skip (a leading dot; a bare ".tmp" ending is read by some).
 *
 * The temporary name carries a tag made of query and sink, so that a start finds what
 * an earlier run of the same query dropped, wherever it lies, and leaves alone what
 * another live query is writing in the same folder. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/step.h"
#include "sink/files/files_int.h"

static void set_names(const struct files_data_settings *settings, int64_t number,
                      const char *folder, struct files_data *out)
{
    char *ending = files_ending(settings->format, settings->file.compression);
    char *base = mt_format("part-%05lld-%s.c000%s", (long long)number, settings->attempt, ending);
    const char *slash = *folder ? "/" : "";
    out->name = mt_format("%s%s%s", folder, slash, base);
    out->temporary =
        mt_format("%s/%s%s.%s.%s.tmp", settings->table, folder, slash, base, settings->tag);
    free(base);
    free(ending);
}

static enum mt_status make_folder(const struct files_data_settings *settings, const char *folder,
                                  struct mt_error *err)
{
    char *path = mt_format("%s%s%s", settings->table, *folder ? "/" : "", folder);
    enum mt_status status = files_make_folder(path, err);
    free(path);
    return status;
}

/* The group's rows of the columns that stay, to be released when gathered. */
static enum mt_status take_rows(const struct files_layout *layout, const struct mt_batch *batch,
                                const struct files_group *group, struct mt_batch *out,
                                struct mt_error *err)
{
    int64_t n = layout->data.n_children;
    struct ArrowArray **children = mt_alloc((size_t)n * sizeof *children);
    for (int64_t i = 0; i < n; i++)
        children[i] = batch->array.children[layout->picks[i]];
    struct mt_batch view = *batch;
    view.schema = &layout->data;
    view.array.children = children;
    view.array.n_children = n;
    enum mt_status status = mt_batch_gather(&view, group->rows, group->n_rows, out, err);
    free(children);
    return status;
}

static enum mt_status encode(const struct files_data_settings *settings,
                             const struct ArrowArray *rows, mt_write_fn write, void *to,
                             int64_t *written, struct mt_error *err)
{
    struct mt_file_writer *writer;
    enum mt_status status = mt_file_writer_new(settings->format->file, &settings->layout->data,
                                               &settings->file, write, to, &writer, err);
    if (status != MT_OK)
        return status;
    status = mt_file_write(writer, rows, err);
    if (status == MT_OK)
        return mt_file_finish(writer, written, err);
    mt_file_discard(writer);
    return status;
}

static int count_bytes(void *ctx, const void *bytes, size_t len)
{
    (void)bytes;
    *(int64_t *)ctx += (int64_t)len;
    return 0;
}

static enum mt_status write_rows(const struct files_data_settings *settings,
                                 const struct ArrowArray *rows, struct files_data *out,
                                 struct mt_error *err)
{
    struct files_out to;
    enum mt_status status =
        files_out_open(&to, out->temporary, O_TRUNC, "file.write", settings->batch, err);
    if (status == MT_OK)
        status = encode(settings, rows, files_out_add, &to, &out->rows, err);
    if (to.error && to.fd >= 0) /* the disk's own words say more than the encoder's */
        status = files_fail(err, to.error, "writing", out->temporary);
    mt_step("file.write", settings->batch);
    if (status == MT_OK)
        status = files_out_sync(&to, "file.fsync", &out->size, &out->mtime_ms, err);
    files_out_close(&to);
    if (status == MT_OK)
        mt_step("file.fsync", settings->batch);
    return status;
}

/* The rows of a group in a view of the batch's columns, or gathered; *rows is to be released. */
static enum mt_status rows_of(const struct files_data_settings *settings,
                              const struct mt_batch *batch, const struct files_group *group,
                              struct mt_batch *rows, struct ArrowArray *view, struct mt_error *err)
{
    *rows = (struct mt_batch){0};
    if (group->rows) {
        enum mt_status status = take_rows(settings->layout, batch, group, rows, err);
        *view = rows->array;
        return status;
    }
    *view = batch->array;
    view->offset += group->first;
    view->length = group->n_rows;
    return MT_OK;
}

enum mt_status files_data_write(const struct files_data_settings *settings, int64_t number,
                                const struct mt_batch *batch, const struct files_group *group,
                                struct files_data *out, struct mt_error *err)
{
    *out = (struct files_data){0};
    set_names(settings, number, group->folder, out);
    struct mt_batch rows = {0};
    struct ArrowArray view;
    enum mt_status status = make_folder(settings, group->folder, err);
    if (status == MT_OK)
        status = rows_of(settings, batch, group, &rows, &view, err);
    if (status == MT_OK)
        status = write_rows(settings, &view, out, err);
    mt_batch_release(&rows);
    return status;
}

enum mt_status files_data_measure(const struct files_data_settings *settings,
                                  const struct mt_batch *batch, const struct files_group *group,
                                  int64_t n, int64_t *bytes, struct mt_error *err)
{
    struct files_group first = {group->folder, group->rows, group->first, n};
    struct mt_batch rows;
    struct ArrowArray view;
    int64_t written;
    *bytes = 0;
    enum mt_status status = rows_of(settings, batch, &first, &rows, &view, err);
    if (status == MT_OK)
        status = encode(settings, &view, count_bytes, bytes, &written, err);
    mt_batch_release(&rows);
    return status;
}

void files_data_clear(struct files_data *data)
{
    free(data->name);
    free(data->temporary);
    *data = (struct files_data){0};
}

void files_provenance_add(struct mt_pairs *pairs, const struct mt_sink_batch *batch)
{
    char id[24];
    snprintf(id, sizeof id, "%" PRId64, batch->batch_id);
    const char *const facts[][2] = {
        {"moontide.version", batch->version},  {"moontide.query_id", batch->query_id},
        {"moontide.query", batch->query_name}, {"moontide.batch_id", id},
        {"moontide.offsets", batch->offsets},  {"moontide.bundle", batch->bundle},
        {"moontide.digest", batch->digest},
    };
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
        if (facts[i][1])
            mt_pairs_add(pairs, facts[i][0], facts[i][1]);
}
