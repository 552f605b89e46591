/* SPDX-License-Identifier: Apache-2.0
 *
 * files_sink.c - a table of Parquet files on a local disk, each batch in it exactly once.
 *
 * A batch becomes visible by one atomic act, the link of its entry into the table's log
 * (files_log.c), and everything that the entry names is durable before:
 *
 *   write    temporary files, synced, each in its folder
 *   commit   pending list, synced -> renames -> folders, synced -> log entry, synced,
 *            linked -> log's folder, synced -> pending list gone
 *
 * A crash before the link leaves files that the next start deletes (recover: pending
 * list, temporary names); one after it leaves a stored batch, which begin finds in the
 * log. A batch without rows writes nothing, and is NEW again when it is replayed.
 *
 * The tests' named steps say what was just done: file.write (a file's bytes handed to
 * the system), file.fsync, file.pending, file.rename (after each), file.log (entry
 * written, not yet visible), file.link (visible, its folder not yet synced), file.done. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/step.h"
#include "sink/files/files_int.h"

enum { LONGEST_NAME = 180 }; /* bytes of a sink's name: file names have 255 */

struct files_sink {
    struct mt_sink base;
    char *path_option; /* base.path is its absolute form */
    char *compression;
    bool allow_other_queries;
    struct files_layout layout;

    /* of the query that recover named */
    struct files_log log;
    struct files_pending pending;
    char tag[17];         /* of its temporary files */
    bool log_folder_made; /* and durable, by this run */

    /* the attempt that begin started */
    bool open;
    struct mt_sink_record given; /* rows: given to write so far */
    int64_t rows_expected;
    char attempt[37];
    struct mt_pairs provenance; /* for the footers */
    struct files_data *files;
    int64_t n_files;
};

static const struct mt_option files_options[] = {
    {"path", MT_OPT_STRING, NULL, offsetof(struct files_sink, path_option), NULL,
     "folder of the table"},
    {"compression", MT_OPT_STRING, "snappy", offsetof(struct files_sink, compression),
     "none|uncompressed|snappy|gzip|zstd|lz4", "codec of the columns"},
    {"allowOtherQueries", MT_OPT_BOOL, "false", offsetof(struct files_sink, allow_other_queries),
     NULL, "write into a folder that holds data of something else"},
    {0},
};

static const char *const files_not_yet[] = {"retention",
                                            "maxRecordsPerFile",
                                            "partitionOverwriteMode",
                                            "mergeSchema",
                                            "datetimeRebaseMode",
                                            "int96RebaseMode",
                                            "parquet.block.size",
                                            "parquet.page.size",
                                            "parquet.dictionary.page.size",
                                            "parquet.enable.dictionary",
                                            "parquet.compression",
                                            "parquet.writer.version",
                                            NULL};

/* ---- open, close */

static int write_nowhere(void *ctx, const void *bytes, size_t len)
{
    (void)ctx, (void)bytes, (void)len;
    return 0;
}

/* What the encoder refuses is told when the job is declared. */
static enum mt_status try_encoder(const struct files_sink *files, struct mt_error *err)
{
    struct mt_parquet_settings settings = {.compression = files->compression};
    struct mt_parquet_writer *writer;
    enum mt_status status =
        mt_parquet_writer_new(&files->layout.data, &settings, write_nowhere, NULL, &writer, err);
    if (status == MT_OK)
        mt_parquet_discard(writer);
    return status;
}

/* The name is a part of hidden files' names in the table's log. */
static enum mt_status check_name(const struct mt_sink *sink, struct mt_error *err)
{
    struct mt_buf escaped = {0};
    files_escape(sink->marker_identity, strlen(sink->marker_identity), &escaped);
    size_t len = escaped.len;
    mt_buf_free(&escaped);
    if (len <= LONGEST_NAME)
        return MT_OK;
    return mt_fail(err, MT_FATAL, MT_CLASS_JOB,
                   "the sink's name has %zu bytes (escaped as in a file's name) and may have %d",
                   len, LONGEST_NAME);
}

static enum mt_status files_open(struct mt_sink *sink, struct mt_error *err)
{
    struct files_sink *files = (struct files_sink *)sink;
    files->pending.fd = -1;
    enum mt_status status = check_name(sink, err);
    if (status == MT_OK)
        status = files_layout_init(&files->layout, sink, err);
    if (status != MT_OK)
        return status;
    status = try_encoder(files, err);
    if (status != MT_OK)
        files_layout_deinit(&files->layout);
    return status;
}

static void forget_attempt(struct files_sink *files)
{
    for (int64_t i = 0; i < files->n_files; i++)
        files_data_clear(&files->files[i]);
    free(files->files);
    files->files = NULL;
    files->n_files = 0;
    mt_pairs_free(&files->provenance);
    files->open = false;
}

static void forget_query(struct files_sink *files)
{
    if (!files->log.dir)
        return;
    files_pending_deinit(&files->pending);
    files_log_deinit(&files->log);
}

static void files_close(struct mt_sink *sink)
{
    struct files_sink *files = (struct files_sink *)sink;
    sink->type->abort(sink);
    forget_query(files);
    files_layout_deinit(&files->layout);
}

/* ---- recover */

static void set_query(struct files_sink *files, const char *query_id)
{
    char hex[65];
    char *name = mt_format("%s %s", query_id, files->base.marker_identity);
    mt_sha256_hex(name, strlen(name), hex);
    free(name);
    memcpy(files->tag, hex, 16);
    files->tag[16] = '\0';
    forget_query(files);
    files_log_init(&files->log, files->base.path, query_id, files->base.marker_identity);
    files_pending_init(&files->pending, &files->log);
}

static bool find_data(void *ctx, const char *path, const char *name)
{
    (void)path;
    bool *found = ctx;
    *found = name[0] != '.' && name[0] != '_';
    return !*found;
}

/* What is in the path that this query did not put there, in words; *words NULL: nothing. */
static enum mt_status find_stranger(const struct files_sink *files, char **words,
                                    struct mt_error *err)
{
    bool data = false;
    *words = NULL;
    if (files->log.stranger) {
        *words = mt_format("data of %s", files->log.stranger);
        return MT_OK;
    }
    if (files->log.last >= 0)
        return MT_OK;
    enum mt_status status = files_walk(files->base.path, find_data, &data, err);
    if (data)
        *words = mt_strdup("files and no log: readers of the log that is begun there now will not "
                           "see them");
    return status;
}

/* A path that is new to this query and not empty: mostly the checkpoint was lost or
 * changed, and going on would put the same rows into the table again. */
static enum mt_status check_strangers(const struct files_sink *files, struct mt_error *err)
{
    char *words;
    enum mt_status status = find_stranger(files, &words, err);
    if (status == MT_OK && words && files->allow_other_queries)
        mt_log(MT_WARN, "path %s holds %s; writing there too, as allowOtherQueries says",
               files->base.path, words);
    else if (status == MT_OK && words)
        status =
            mt_fail(err, MT_FATAL, MT_CLASS_SINK,
                    "path %s holds %s, and nothing of this query yet (with a new checkpoint it "
                    "would double the table): choose another path, or set "
                    "allowOtherQueries=true to add to it",
                    files->base.path, words);
    free(words);
    return status;
}

struct sweep {
    char ending[32]; /* ".<tag>.tmp" */
    struct mt_error *err;
    enum mt_status status;
};

static bool sweep_file(void *ctx, const char *path, const char *name)
{
    struct sweep *sweep = ctx;
    size_t len = strlen(name), end = strlen(sweep->ending);
    if (len > end && strncmp(name, ".part-", 6) == 0 &&
        strcmp(name + len - end, sweep->ending) == 0)
        sweep->status = files_unlink(path, sweep->err);
    return sweep->status == MT_OK;
}

/* Temporary files of an earlier run of this query, in whatever folder. */
static enum mt_status sweep_table(const struct files_sink *files, struct mt_error *err)
{
    struct sweep sweep = {.err = err};
    snprintf(sweep.ending, sizeof sweep.ending, ".%s.tmp", files->tag);
    enum mt_status status = files_walk(files->base.path, sweep_file, &sweep, err);
    char *entry = files_log_temporary(&files->log);
    if (status == MT_OK)
        status = sweep.status;
    if (status == MT_OK)
        status = files_unlink(entry, err);
    free(entry);
    return status;
}

static enum mt_status files_recover(struct mt_sink *sink, const char *query_id, bool first_batch,
                                    struct mt_error *err)
{
    (void)first_batch; /* what the path holds says more: the path itself may be new */
    struct files_sink *files = (struct files_sink *)sink;
    sink->type->abort(sink);
    set_query(files, query_id);
    enum mt_status status = files_log_refresh(&files->log, err);
    if (status == MT_OK)
        status = files_pending_settle(&files->pending, &files->log, sink->path, err);
    if (status == MT_OK && !files->log.holds)
        status = check_strangers(files, err);
    if (status == MT_OK)
        status = sweep_table(files, err);
    return status;
}

/* ---- begin */

static enum mt_status answer_conflict(const struct files_sink *files,
                                      const struct mt_sink_batch *batch, struct mt_error *err)
{
    const struct mt_sink_record *held = &files->log.record;
    char what[128];
    if (held->batch_id > batch->batch_id)
        snprintf(what, sizeof what, "holds batch %" PRId64 " already", held->batch_id);
    else
        snprintf(what, sizeof what, "holds it with other contents (digest %.12s, now %.12s)",
                 held->digest, batch->digest);
    return mt_fail(err, MT_OK, MT_CLASS_CHECKPOINT,
                   "batch %" PRId64 ": %s %s: this checkpoint is older than the destination, or "
                   "two processes run it",
                   batch->batch_id, files->base.path, what);
}

/* An entry that a crash left visible may not be durable yet, and STORED says it is. */
static enum mt_status answer(struct files_sink *files, const struct mt_sink_batch *batch,
                             enum mt_sink_answer *answer, struct mt_sink_record *record,
                             struct mt_error *err)
{
    const struct mt_sink_record *held = &files->log.record;
    *answer = MT_SINK_NEW;
    if (!files->log.holds || held->batch_id < batch->batch_id)
        return MT_OK;
    if (held->batch_id == batch->batch_id && strcmp(held->digest, batch->digest) == 0) {
        *answer = MT_SINK_STORED;
        *record = *held;
        return files_sync_folder(files->log.dir, batch->batch_id, err);
    }
    *answer = MT_SINK_CONFLICT;
    return answer_conflict(files, batch, err);
}

static void add_provenance(struct files_sink *files, const struct mt_sink_batch *batch)
{
    char id[24];
    snprintf(id, sizeof id, "%" PRId64, batch->batch_id);
    const char *const pairs[][2] = {
        {"moontide.version", batch->version},  {"moontide.query_id", batch->query_id},
        {"moontide.query", batch->query_name}, {"moontide.batch_id", id},
        {"moontide.offsets", batch->offsets},  {"moontide.bundle", batch->bundle},
        {"moontide.digest", batch->digest},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (pairs[i][1])
            mt_pairs_add(&files->provenance, pairs[i][0], pairs[i][1]);
}

static enum mt_status files_begin(struct mt_sink *sink, const struct mt_sink_batch *batch,
                                  enum mt_sink_answer *out, struct mt_sink_record *record,
                                  struct mt_error *err)
{
    struct files_sink *files = (struct files_sink *)sink;
    sink->type->abort(sink);
    if (!files->log.dir || strcmp(files->log.query, batch->query_id) != 0)
        set_query(files, batch->query_id);
    enum mt_status status = files_log_refresh(&files->log, err);
    if (status == MT_OK)
        status = files_pending_settle(&files->pending, &files->log, sink->path, err);
    if (status == MT_OK)
        status = answer(files, batch, out, record, err);
    if (status != MT_OK || *out != MT_SINK_NEW)
        return status;
    files->open = true;
    files->given = sink_record_of(batch);
    files->rows_expected = batch->rows;
    mt_uuid(files->attempt);
    add_provenance(files, batch);
    return MT_OK;
}

/* ---- write */

static enum mt_status write_groups(struct files_sink *files, const struct mt_batch *rows,
                                   const struct files_groups *groups, struct mt_error *err)
{
    struct files_data_settings settings = {
        .layout = &files->layout,
        .parquet = {.compression = files->compression, .metadata = &files->provenance},
        .table = files->base.path,
        .attempt = files->attempt,
        .tag = files->tag,
        .batch = files->given.batch_id,
    };
    size_t n = (size_t)(files->n_files + groups->n);
    files->files = mt_realloc(files->files, n * sizeof *files->files);
    enum mt_status status = MT_OK;
    for (int64_t i = 0; status == MT_OK && i < groups->n; i++) {
        status = files_data_write(&settings, files->n_files, rows, &groups->items[i],
                                  &files->files[files->n_files], err);
        files->n_files++; /* on failure too: abort deletes what is there */
    }
    return status;
}

static enum mt_status files_write(struct mt_sink *sink, const struct mt_batch *rows,
                                  struct mt_error *err)
{
    struct files_sink *files = (struct files_sink *)sink;
    if (!files->open)
        return sink_not_open(sink, "write", err);
    struct files_groups groups;
    enum mt_status status = files_group(&files->layout, rows, &groups, err);
    if (status == MT_OK && groups.n > 0)
        status = write_groups(files, rows, &groups, err);
    files_groups_clear(&groups);
    files->given.rows += rows->array.length;
    files->open = status == MT_OK;
    return status;
}

/* ---- commit */

static enum mt_status check_rows(const struct files_sink *files, struct mt_error *err)
{
    int64_t footers = 0;
    for (int64_t i = 0; i < files->n_files; i++)
        footers += files->files[i].rows;
    if (footers == files->given.rows && footers == files->rows_expected)
        return MT_OK;
    return mt_fail(err, MT_FATAL, MT_CLASS_INTERNAL,
                   "%s: batch %" PRId64 " was said to have %" PRId64 " rows, %" PRId64
                   " were written and the files' footers count %" PRId64
                   ": a fault in Moontide; nothing is stored",
                   files->base.identity, files->given.batch_id, files->rows_expected,
                   files->given.rows, footers);
}

static enum mt_status rename_file(const struct files_sink *files, const struct files_data *data,
                                  const char *path, struct mt_error *err)
{
    int error = mt_step_fails("file.rename", files->given.batch_id);
    if (!error && rename(data->temporary, path) != 0)
        error = errno;
    if (error)
        return files_fail(err, error, "renaming to", path);
    mt_step("file.rename", files->given.batch_id);
    return MT_OK;
}

static enum mt_status rename_files(const struct files_sink *files, struct mt_error *err)
{
    enum mt_status status = MT_OK;
    for (int64_t i = 0; status == MT_OK && i < files->n_files; i++) {
        char *path = mt_format("%s/%s", files->base.path, files->files[i].name);
        status = rename_file(files, &files->files[i], path, err);
        free(path);
    }
    return status;
}

/* The folder of name and those between it and the table, from below; what `before` (the
 * file synced last) shares with it is done already. */
static enum mt_status sync_folders_of(const struct files_sink *files, const char *name,
                                      const char *before, struct mt_error *err)
{
    char *folder = mt_strdup(name);
    enum mt_status status = MT_OK;
    for (char *slash; status == MT_OK && (slash = strrchr(folder, '/'));) {
        slash[1] = '\0';
        bool done = before && strncmp(before, folder, strlen(folder)) == 0;
        *slash = '\0';
        char *path = mt_format("%s/%s", files->base.path, folder);
        if (!done)
            status = files_sync_folder(path, files->given.batch_id, err);
        free(path);
    }
    free(folder);
    return status;
}

/* Every folder that a rename touched, those above it up to the table, and the table. */
static enum mt_status sync_folders(const struct files_sink *files, struct mt_error *err)
{
    enum mt_status status = MT_OK;
    for (int64_t i = 0; status == MT_OK && i < files->n_files; i++)
        status =
            sync_folders_of(files, files->files[i].name, i ? files->files[i - 1].name : NULL, err);
    return status == MT_OK ? files_sync_folder(files->base.path, files->given.batch_id, err)
                           : status;
}

static void print_entries(struct files_sink *files, struct mt_buf *text)
{
    for (int64_t i = 0; i < files->n_files; i++) {
        const struct files_data *data = &files->files[i];
        struct files_entry entry = {
            .path = mt_format("%s/%s", files->base.path, data->name),
            .size = data->size,
            .mtime_ms = data->mtime_ms,
            .ours = true,
            .query = files->log.query,
            .sink = files->log.sink,
            .record = files->given,
        };
        mt_buf_adds(text, "\n");
        files_entry_print(&entry, text);
        free(entry.path);
        files->given.bytes += data->size;
    }
}

static enum mt_status append_entry(struct files_sink *files, struct mt_error *err)
{
    struct mt_buf text = {0};
    bool lost = false;
    print_entries(files, &text);
    enum mt_status status = files_log_append(&files->log, &files->given, &text, &lost, err);
    mt_buf_free(&text);
    if (status == MT_OK && lost)
        return mt_fail(err, MT_FATAL, MT_CLASS_CHECKPOINT,
                       "batch %" PRId64 ": another process stored batch %" PRId64
                       " into %s meanwhile: two processes run this query, perhaps with a copied "
                       "checkpoint; stop one",
                       files->given.batch_id, files->log.record.batch_id, files->base.path);
    return status;
}

/* The log's folder and all above it. They change only when they are made, maybe by a
 * run that died right then: so once a run, and before anything in them counts. */
static enum mt_status make_log_folder(struct files_sink *files, struct mt_error *err)
{
    if (files->log_folder_made)
        return MT_OK;
    enum mt_status status = files_make_folder(files->log.dir, err);
    if (status == MT_OK)
        status = files_sync_upwards(files->base.path, files->given.batch_id, err);
    files->log_folder_made = status == MT_OK;
    return status;
}

static enum mt_status store(struct files_sink *files, struct mt_error *err)
{
    enum mt_status status = make_log_folder(files, err);
    if (status == MT_OK)
        status = files_pending_put(&files->pending, &files->given, files->attempt, files->files,
                                   files->n_files, err);
    if (status == MT_OK)
        status = rename_files(files, err);
    if (status == MT_OK)
        status = sync_folders(files, err);
    if (status == MT_OK)
        status = append_entry(files, err);
    if (status == MT_OK)
        status = files_pending_remove(&files->pending, err);
    if (status == MT_OK)
        mt_step("file.done", files->given.batch_id);
    return status;
}

static enum mt_status files_commit(struct mt_sink *sink, struct mt_sink_record *record,
                                   struct mt_error *err)
{
    struct files_sink *files = (struct files_sink *)sink;
    if (!files->open)
        return sink_not_open(sink, "commit", err);
    files->open = false;
    enum mt_status status = check_rows(files, err);
    if (status == MT_OK && files->n_files > 0)
        status = store(files, err);
    if (status != MT_OK)
        return status;
    *record = files->given;
    forget_attempt(files);
    return MT_OK;
}

/* ---- abort: nothing of the attempt stays, unless its entry is in the log already */

static enum mt_status clear_up(struct files_sink *files, struct mt_error *err)
{
    enum mt_status status = MT_OK;
    for (int64_t i = 0; status == MT_OK && i < files->n_files; i++)
        status = files_unlink(files->files[i].temporary, err);
    if (files->pending.fd < 0 || status != MT_OK)
        return status;
    files_pending_release(&files->pending);
    status = files_log_refresh(&files->log, err);
    if (status == MT_OK)
        status = files_pending_settle(&files->pending, &files->log, files->base.path, err);
    return status;
}

static void files_abort(struct mt_sink *sink)
{
    struct files_sink *files = (struct files_sink *)sink;
    struct mt_error err;
    if (clear_up(files, &err) != MT_OK)
        mt_log(MT_WARN, "%s: clearing up after a failed batch: %s; the next start does it",
               sink->identity, err.text);
    forget_attempt(files);
}

/* ---- describe */

static void print_marker(const struct mt_sink_record *record, struct mt_buf *json)
{
    mt_buf_addf(json,
                "{\"batch\":%" PRId64 ",\"digest\":\"%s\",\"rows\":%" PRId64 ",\"bytes\":%" PRId64
                ",\"fingerprint\":\"%016" PRIx64 "\",\"bundle\":\"%s\"}",
                record->batch_id, record->digest, record->rows, record->bytes, record->fingerprint,
                record->bundle);
}

/* The marker, read anew: ckpt show asks a sink that was never recovered. */
static void describe_marker(const struct mt_sink *sink, const char *query_id, struct mt_buf *json)
{
    struct files_log log;
    struct mt_error err;
    files_log_init(&log, sink->path, query_id, sink->marker_identity);
    enum mt_status status = files_log_refresh(&log, &err);
    if (status == MT_OK && log.holds)
        print_marker(&log.record, json);
    else
        mt_buf_adds(json, "null");
    if (status != MT_OK) {
        mt_buf_adds(json, ",\"error\":");
        mt_buf_add_json(json, err.text, strlen(err.text));
    }
    files_log_deinit(&log);
}

static void files_describe(struct mt_sink *sink, const char *query_id, struct mt_buf *json)
{
    char *text = mt_format("FileSink[%s]", sink->path);
    mt_buf_adds(json, "{\"description\":");
    mt_buf_add_json(json, text, strlen(text));
    mt_buf_adds(json, ",\"guarantee\":\"exactly once\",\"marker\":");
    free(text);
    if (query_id)
        describe_marker(sink, query_id, json);
    else
        mt_buf_adds(json, "null");
    mt_buf_adds(json, "}");
}

const struct mt_sink_type sink_parquet = {
    .name = "parquet",
    .help = "a table of Parquet files, with the log by which Spark reads whole batches",
    .options = files_options,
    .not_yet = files_not_yet,
    .size = sizeof(struct files_sink),
    .exactly_once = true,
    .needs_path = true,
    .needs_checkpoint = true,
    .partitions = true,
    .open = files_open,
    .recover = files_recover,
    .begin = files_begin,
    .write = files_write,
    .commit = files_commit,
    .abort = files_abort,
    .describe = files_describe,
    .close = files_close,
};
