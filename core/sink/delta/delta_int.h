/* SPDX-License-Identifier: Apache-2.0
 *
 * delta_int.h - the parts of the Delta sink. Data files are those of the file sink
 * (files/): its folders, its encoder, its disk, its pending list.
 *
 *   delta_sink      the eight functions
 *   delta_commit    how a batch becomes visible
 *   delta_log       _delta_log: the table's versions
 *   delta_state     what its actions say: protocol, schema, whose batches
 *   delta_action    the actions that are written
 *   delta_fit       whether a table is one that is understood, and takes the rows
 *   delta_schema    columns as Delta's JSON
 */
#ifndef MT_DELTA_INT_H
#define MT_DELTA_INT_H

#include <jansson.h>

#include "sink/files/files_int.h"

#define DELTA_LOG_FOLDER "_delta_log"
#define DELTA_APP "moontide " /* appId: this, query id, blank, sink */

/* ---- schema */

enum mt_status delta_check_names(const struct ArrowSchema *schema, struct mt_error *err);
/* {"type":"struct","fields":[...]} of columns or of a STRUCT's fields. */
void delta_schema_print(const struct ArrowSchema *schema, struct mt_buf *json);
/* Whether rows of schema may go into a table of Delta's schema. REJECT names the column. */
enum mt_status delta_schema_fits(const json_t *table, const struct ArrowSchema *schema,
                                 struct mt_error *err);
/* Whether the table says that column may not be null. */
bool delta_schema_requires(const json_t *table, const char *column);

/* ---- state */

struct delta_state {
    char *query, *sink, *app; /* whose batches are looked for */
    json_t *protocol;         /* of the newest such action; NULL: no table yet */
    json_t *metadata;
    json_t *schema; /* of metadata, parsed */
    bool holds;     /* a batch of ours is in the table */
    bool known;     /* with its marker, so that record is whole */
    struct mt_sink_record record;
    char nonce[37]; /* of that batch's attempt */
    char *stranger; /* another query that wrote here; NULL: none */
};
/* What one version adds to it; begun and ended around its lines. */
struct delta_version {
    json_t *ours; /* commitInfo.moontide, of our query and sink */
    int64_t txn;  /* of our app; -1: none */
    int64_t bytes;
};
/* One line of a version, or a row of a checkpoint: an object with one action. REJECT with the
 * reason alone. */
enum mt_status delta_state_take(struct delta_state *state, struct delta_version *version,
                                const char *line, size_t len, struct mt_error *err);
enum mt_status delta_state_end(struct delta_state *state, struct delta_version *version,
                               struct mt_error *err);
void delta_state_deinit(struct delta_state *state);

/* ---- log */

struct delta_log {
    char *dir;
    int64_t last; /* newest version read; -1: no table yet */
    struct delta_state state;
};
/* Touches nothing. */
void delta_log_init(struct delta_log *log, const char *table, const char *query, const char *sink);
void delta_log_deinit(struct delta_log *log);
/* Reads the versions that are new since the last time. FATAL for damage, a gap. */
enum mt_status delta_log_refresh(struct delta_log *log, struct mt_error *err);
/* Whether a version names files of this attempt: a files_logged_fn. */
enum mt_status delta_logged(void *log, const char *attempt, bool *logged, struct mt_error *err);
/* Makes text the version after the last one. *taken: another writer has that number. */
enum mt_status delta_log_append(struct delta_log *log, const struct mt_buf *text, int64_t batch,
                                bool *taken, struct mt_error *err);
/* The name that a version of ours has before it is one. Caller frees. */
char *delta_log_temporary(const struct delta_log *log);

/* ---- the sink */

struct delta_sink {
    struct mt_sink base;
    char *path_option; /* base.path is its absolute form */
    char *compression;
    bool allow_other_queries;
    struct files_layout layout;

    /* of the query that recover named */
    struct delta_log log;
    struct files_pending pending;
    char tag[FILES_TAG];  /* of its temporary files */
    bool log_folder_made; /* and durable, by this run */

    /* the attempt that begin started */
    bool open;
    struct mt_sink_record given; /* rows: given to write so far */
    int64_t rows_expected;
    char attempt[37];
    struct mt_pairs provenance; /* for the footers */
    struct files_data *files;
    char **partitions; /* of each file: {"day":"2026-11-29"} */
    int64_t n_files;
};

void delta_forget_attempt(struct delta_sink *delta);
enum mt_status delta_commit(struct mt_sink *sink, struct mt_sink_record *record,
                            struct mt_error *err);

/* ---- fit */

/* FATAL, with the reason, for a table that is not understood or does not take the rows. */
enum mt_status delta_fits(const struct delta_sink *delta, struct mt_error *err);

/* ---- actions */

/* {"day":"2026-11-29","shop":null}: the values of a row's partition columns. */
void delta_partition_print(const struct files_layout *layout, const struct mt_batch *batch,
                           int64_t row, struct mt_buf *json);
/* The lines of the version that stores the attempt. */
void delta_version_print(const struct delta_sink *delta, struct mt_buf *text);
#endif
