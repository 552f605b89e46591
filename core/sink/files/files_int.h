/* SPDX-License-Identifier: Apache-2.0
 *
 * files_int.h - the parts of the file sink:
 *
 *   files_types     the formats: their options, names of codecs and endings
 *   files_sink      the eight functions
 *   files_recover   what a start finds, and clears
 *   files_commit    how a batch becomes visible
 *   files_layout    which rows go into which folder
 *   files_spread    which of them into which file
 *   files_data      one file under a name that readers skip
 *   files_rename    files get the names that readers see
 *   files_sweep     what an attempt that died left in the folders
 *   files_pending   what an attempt is about to make visible
 *   files_log       _spark_metadata: the path's own sequence of entries
 *   files_entry     one line of it
 *   files_copy      which lines a compact entry repeats
 *   files_disk      calls of the local disk that survive power loss, or say why not
 */
#ifndef MT_FILES_INT_H
#define MT_FILES_INT_H

#include <stdio.h>

#include "columnar/columnar.h"
#include "sink/sink_int.h"

#define FILES_LOG_FOLDER "_spark_metadata"

/* ---- disk: each returns MT_OK or FATAL with the path and the cure. `step` names the
 * call for tests that fail it; a failed fsync is never repeated on the same file. */

/* FATAL with strerror's words; machine trouble (disk full, no handles) told from the rest. */
enum mt_status files_fail(struct mt_error *err, int error, const char *doing, const char *path);
/* Makes path and what is missing above it; their names are durable after a sync of the
 * folders above, which is the caller's. */
enum mt_status files_make_folder(const char *path, struct mt_error *err);
enum mt_status files_sync_folder(const char *path, int64_t batch, struct mt_error *err);
/* Path and every folder above it on the same file system, as far as they may be opened. */
enum mt_status files_sync_upwards(const char *path, int64_t batch, struct mt_error *err);
enum mt_status files_unlink(const char *path, struct mt_error *err); /* gone already is fine */

/* A new file, written through a buffer. */
struct files_out {
    int fd; /* -1: none */
    int error;
    const char *step; /* "file.write", ... */
    int64_t batch;
    char *path;
    struct mt_buf buf;
};
/* Opens path with O_CREAT and `how` (O_EXCL or O_TRUNC); on failure out->error has the errno. */
enum mt_status files_out_open(struct files_out *out, const char *path, int how, const char *step,
                              int64_t batch, struct mt_error *err);
/* Returns 0 or an errno, which files_out_sync tells too: a mt_write_fn over files_out. */
int files_out_add(void *out, const void *bytes, size_t len);
/* Everything is on the disk after this. fsync is named sync_step. */
enum mt_status files_out_sync(struct files_out *out, const char *sync_step, int64_t *size,
                              int64_t *mtime_ms, struct mt_error *err);
void files_out_close(struct files_out *out);

/* ---- entry: one line of the log */

struct files_entry {
    char *path; /* absolute; in the line a file:// URI */
    int64_t size, mtime_ms;
    bool ours; /* written by Moontide: what follows is set */
    char *query, *sink;
    struct mt_sink_record record; /* of the whole batch; bytes = size */
};
void files_entry_print(const struct files_entry *entry, struct mt_buf *buf);
/* REJECT with the reason alone when the line is none; entry is then clear. */
enum mt_status files_entry_parse(const char *line, size_t len, struct files_entry *entry,
                                 struct mt_error *err);
void files_entry_clear(struct files_entry *entry);
/* The fields of a batch's marker, without braces; and back: *query and *sink are the caller's.
 * Returns the name of the field at fault, or NULL. */
void files_marker_print(const char *query, const char *sink, const struct mt_sink_record *record,
                        struct mt_buf *buf);
struct json_t;
const char *files_marker_parse(const struct json_t *marker, char **query, char **sink,
                               struct mt_sink_record *record);
/* A path as that of a URI. */
void files_uri_path(const char *path, struct mt_buf *buf);
/* A part of a file name, escaped as Spark does for col=value folders. */
void files_escape(const char *text, size_t len, struct mt_buf *buf);

/* ---- log */

struct files_log {
    char *dir;
    char *query, *sink; /* whose batches are looked for */
    int64_t last;       /* highest number read; -1: none */
    int64_t compact;    /* highest compact number; -1: none */
    int64_t interval;   /* every how many entries one is compact */
    bool holds;         /* a batch of ours is in it; record is the latest */
    struct mt_sink_record record;
    char *stranger;    /* another query that wrote here, in words; NULL: none */
    int64_t forget_ms; /* files older than this are left out of compact entries; 0: none */
};
/* Touches nothing. */
void files_log_init(struct files_log *log, const char *table, const char *query, const char *sink);
void files_log_deinit(struct files_log *log);
/* Reads the entries that are new since the last time. FATAL for damage, a gap. */
enum mt_status files_log_refresh(struct files_log *log, struct mt_error *err);
/* Makes text (lines of record's batch) the next entry, with what a compact one needs
 * in front. *lost: meanwhile another process stored this batch or a later one. */
enum mt_status files_log_append(struct files_log *log, const struct mt_sink_record *record,
                                const struct mt_buf *text, bool *lost, struct mt_error *err);
/* Whether a line of the log contains word: a files_logged_fn. */
enum mt_status files_logged(void *log, const char *word, bool *found, struct mt_error *err);
/* The name that temporary entries of ours have. Caller frees. */
char *files_log_temporary(const struct files_log *log);

/* ---- copy */

struct files_copy {
    struct files_out *out;
    int64_t forget_ms; /* files older than this are left out; 0: none */
    struct files_owner {
        char *query, *sink;
        int64_t last; /* batch */
    } * owners;
    int64_t n_owners;
};
/* First for every line of the log when something is to be forgotten, then files_copy_line. */
enum mt_status files_copy_learn(void *copy, const char *line, size_t len, struct mt_error *err);
enum mt_status files_copy_line(void *copy, const char *line, size_t len, struct mt_error *err);
void files_copy_clear(struct files_copy *copy);

/* ---- layout */

struct files_layout {
    const struct ArrowSchema *schema;
    int32_t *keys; /* columns that make the folders */
    int64_t n_keys;
    int32_t *picks;          /* columns that stay in the files */
    struct ArrowSchema data; /* of these */
};
struct files_group {
    char *folder;        /* "event=view/day=2026-11-29", "" without partition columns */
    const int32_t *rows; /* NULL: those from `first` on */
    int64_t first;
    int64_t n_rows;
};
struct files_groups {
    struct files_group *items;
    int64_t n;
    int32_t *rows;
};
enum mt_status files_layout_init(struct files_layout *layout, const struct mt_sink *sink,
                                 struct mt_error *err);
void files_layout_deinit(struct files_layout *layout);
/* REJECT with the row's coordinates for a value that no folder can say. */
enum mt_status files_group(const struct files_layout *layout, const struct mt_batch *batch,
                           struct files_groups *groups, struct mt_error *err);
void files_groups_clear(struct files_groups *groups);

/* ---- spread */

/* Groups of a batch as those of its files: each in as many as repartition says. */
void files_spread(const struct mt_sink *sink, const struct mt_batch *batch,
                  struct files_groups *groups);

/* ---- formats */

struct files_format {
    const char *name; /* of the sink */
    enum mt_file_format file;
    const char *ending;             /* ".parquet" */
    bool codec_first;               /* ".snappy.parquet", else ".json.gz" */
    const char *const (*codecs)[2]; /* value of compression, part of the name; ends with NULL */
};
const struct files_format *files_format_of(const char *name);
/* The end of a file's name: ".snappy.parquet". */
char *files_ending(const struct files_format *format, const char *compression);

/* ---- data */

struct files_data {
    char *name;      /* relative: "event=view/part-00000-....parquet" */
    char *temporary; /* absolute */
    int64_t rows;    /* by the footer, or as the encoder counted them */
    int64_t size, mtime_ms;
};
struct files_data_settings {
    const struct files_layout *layout;
    const struct files_format *format;
    struct mt_file_settings file;
    const char *table, *attempt, *tag;
    int64_t batch;
};
/* Writes one group's rows into file number `number`, durable under its temporary name. */
enum mt_status files_data_write(const struct files_data_settings *settings, int64_t number,
                                const struct mt_batch *batch, const struct files_group *group,
                                struct files_data *out, struct mt_error *err);
/* Bytes that the first n rows of a group take in a file. */
enum mt_status files_data_measure(const struct files_data_settings *settings,
                                  const struct mt_batch *batch, const struct files_group *group,
                                  int64_t n, int64_t *bytes, struct mt_error *err);
void files_data_clear(struct files_data *data);
/* What a footer says of the batch that its rows came with. */
void files_provenance_add(struct mt_pairs *pairs, const struct mt_sink_batch *batch);

/* ---- rename */

/* Gives n files their names, and makes these durable, with the table's folder. */
enum mt_status files_rename(const char *table, int64_t batch, const struct files_data *files,
                            int64_t n, struct mt_error *err);

/* ---- sweep */

/* Refuses a sink's name that is too long for hidden files' names in a table's log. */
enum mt_status files_check_name(const struct mt_sink *sink, struct mt_error *err);
enum { FILES_TAG = 17 };
/* What temporary files of this query and sink have in their names. */
void files_tag_of(const char *query, const char *sink, char tag[FILES_TAG]);
/* Deletes those, in whatever folder of the table. */
enum mt_status files_sweep(const char *table, const char *tag, struct mt_error *err);
/* Whether the table's folders hold files that readers see. */
enum mt_status files_find_data(const char *table, bool *found, struct mt_error *err);

/* ---- pending: the list of what an attempt is about to make visible */

struct files_pending {
    char *path; /* the list's own */
    int fd;     /* locked while an attempt is alive; -1 */
};
/* Whether a table's log names files of this attempt. */
typedef enum mt_status (*files_logged_fn)(void *ctx, const char *attempt, bool *logged,
                                          struct mt_error *err);
/* A hidden file's name in folder, of this query and sink alone. Caller frees. */
char *files_own_name(const char *folder, const char *query, const char *sink, const char *what);
void files_pending_init(struct files_pending *pending, const char *folder, const char *query,
                        const char *sink);
void files_pending_deinit(struct files_pending *pending);
/* Durable on return, and locked until files_pending_remove or the process's end. */
enum mt_status files_pending_put(struct files_pending *pending, const struct mt_sink_record *record,
                                 const char *attempt, const struct files_data *files, int64_t n,
                                 struct mt_error *err);
/* Gives the lock up and leaves the list, to be settled. */
void files_pending_release(struct files_pending *pending);
enum mt_status files_pending_remove(struct files_pending *pending, struct mt_error *err);
/* Deletes the files of a list that nobody holds, unless the log has them, then the
 * list. FATAL when another process holds it. */
enum mt_status files_pending_settle(struct files_pending *pending, const char *table,
                                    files_logged_fn is_logged, void *ctx, struct mt_error *err);

/* ---- the sink */

struct files_sink {
    struct mt_sink base;
    char *path_option; /* base.path is its absolute form */
    bool allow_other_queries;
    int64_t max_records;  /* a file; 0: any number */
    int64_t target_bytes; /* of a file; 0: any size */
    int64_t retention_ms; /* 0: the log forgets nothing */
    bool ignore_null_fields, escape_quotes, trim_before, trim_behind; /* Spark's senses of them */
    struct mt_file_settings file;                                     /* its texts are options */
    const struct files_format *format;
    struct files_layout layout;

    /* of the query that recover named */
    struct files_log log;
    struct files_pending pending;
    char tag[FILES_TAG];  /* of its temporary files */
    bool log_folder_made; /* and durable, by this run */

    /* the attempt that begin started */
    bool open;
    struct mt_sink_record given; /* rows: given to write so far */
    int64_t rows_expected;
    char attempt[37];
    struct mt_pairs provenance; /* for the footers */
    int64_t planned_ms;
    double row_bytes; /* that a row takes in a file, as far as known; 0: not yet */
    struct files_data *files;
    int64_t n_files;
};

void files_set_query(struct files_sink *files, const char *query_id);
void files_forget_query(struct files_sink *files);
void files_forget_attempt(struct files_sink *files);
enum mt_status files_open(struct mt_sink *sink, struct mt_error *err);
enum mt_status files_begin(struct mt_sink *sink, const struct mt_sink_batch *batch,
                           enum mt_sink_answer *answer, struct mt_sink_record *record,
                           struct mt_error *err);
enum mt_status files_write(struct mt_sink *sink, const struct mt_batch *rows, struct mt_error *err);
void files_abort(struct mt_sink *sink);
void files_describe(struct mt_sink *sink, const char *query_id, struct mt_buf *json);
void files_close(struct mt_sink *sink);
enum mt_status files_recover(struct mt_sink *sink, const char *query_id, struct mt_error *err);
enum mt_status files_commit(struct mt_sink *sink, struct mt_sink_record *record,
                            struct mt_error *err);
#endif
