/* SPDX-License-Identifier: Apache-2.0
 *
 * wrong_sinks.c - a small sink that keeps every rule of the contract, and one fault a
 * rule that it can be made with. The suite must find each; a suite that finds none of
 * these shows nothing about the real ones.
 *
 * The right one keeps one file: a marker line, then an id a line; a batch is stored by
 * renaming the next version of that file over it. */
#include "contract.h"

enum wrong {
    RIGHT,
    MAKES_ITS_FOLDER_WHEN_DECLARED,
    FORGETS_ITS_MARKER,
    FILLS_NO_RECORD,
    WRITES_A_REPLAY,
    IGNORES_THE_DIGEST,
    IGNORES_LATER_BATCHES,
    GIVES_NO_REASON,
    STORES_AT_WRITE,
    CRASHES_AT_ABORT,
    NEEDS_NO_BEGIN,
    COMMITS_TWICE,
    KEEPS_ONLY_THE_LAST_WRITE,
    KEEPS_A_POINTER,
    LIES_BY_ONE_ROW,
    FAILS_AN_EMPTY_BATCH,
    EMPTIES_ITS_BUFFER_BEFORE_TRYING,
    MARKS_BEFORE_IT_STORES,
    STORES_BEFORE_IT_MARKS,
    LEAVES_TEMPORARY_FILES,
    NAMES_NO_COLUMN,
    LEAVES_OUT_WHAT_ENDS_WITH_NULL,
    PROMISES_TOO_MUCH,
};

struct toy_sink {
    struct mt_sink base;
    enum wrong wrong;
    bool open, failed;
    struct mt_sink_record given;
    int64_t *ids;
    int64_t n_ids;
    const struct mt_batch *kept;
};

static const struct mt_option toy_options[] = {{0}};

static char *toy_file(const struct mt_sink *sink, const char *name)
{
    return mt_format("%s/%s", sink->path, name);
}

static enum mt_status toy_open(struct mt_sink *sink, struct mt_error *err)
{
    struct toy_sink *toy = (struct toy_sink *)sink;
    if (toy->wrong == MAKES_ITS_FOLDER_WHEN_DECLARED)
        mkdir(sink->path, 0777);
    for (int64_t i = 0; i < sink->schema->n_children; i++)
        if (mt_schema_type(sink->schema->children[i]) >= MT_ARRAY)
            return mt_fail(err, MT_REJECT, MT_CLASS_JOB, "column %s is nested",
                           toy->wrong == NAMES_NO_COLUMN ? "?" : sink->schema->children[i]->name);
    return MT_OK;
}

static enum mt_status toy_recover(struct mt_sink *sink, const char *query_id, struct mt_error *err)
{
    (void)query_id, (void)err;
    char *temporary = toy_file(sink, "next");
    if (((struct toy_sink *)sink)->wrong != LEAVES_TEMPORARY_FILES)
        unlink(temporary);
    free(temporary);
    return MT_OK;
}

static void toy_forget(struct toy_sink *toy)
{
    free(toy->ids);
    toy->ids = NULL;
    toy->n_ids = 0;
    toy->open = toy->failed = false;
    toy->kept = NULL;
}

static bool toy_marker(const struct mt_sink *sink, const char *name, struct mt_sink_record *record)
{
    char *path = toy_file(sink, name), *text = read_file(path);
    *record = (struct mt_sink_record){0};
    int n = sscanf(text, "%" SCNd64 " %64s %64s %" SCNd64 " %" SCNu64, &record->batch_id,
                   record->digest, record->bundle, &record->rows, &record->fingerprint);
    free(path);
    free(text);
    return n == 5;
}

static enum mt_status toy_begin(struct mt_sink *sink, const struct mt_sink_batch *batch,
                                enum mt_sink_answer *answer, struct mt_sink_record *record,
                                struct mt_error *err)
{
    struct toy_sink *toy = (struct toy_sink *)sink;
    struct mt_sink_record held;
    toy_forget(toy);
    *answer = MT_SINK_NEW;
    if (toy->wrong != FORGETS_ITS_MARKER && toy_marker(sink, "table", &held)) {
        if (held.batch_id == batch->batch_id)
            *answer = strcmp(held.digest, batch->digest) == 0 || toy->wrong == IGNORES_THE_DIGEST
                          ? MT_SINK_STORED
                          : MT_SINK_CONFLICT;
        else if (held.batch_id > batch->batch_id && toy->wrong != IGNORES_LATER_BATCHES)
            *answer = MT_SINK_CONFLICT;
    }
    if (*answer == MT_SINK_STORED && toy->wrong != FILLS_NO_RECORD)
        *record = held;
    if (*answer == MT_SINK_CONFLICT && toy->wrong != GIVES_NO_REASON)
        mt_fail(err, MT_OK, MT_CLASS_CHECKPOINT, "this checkpoint is older than the destination");
    toy->open = *answer == MT_SINK_NEW || toy->wrong == WRITES_A_REPLAY;
    toy->given =
        (struct mt_sink_record){.batch_id = batch->batch_id, .fingerprint = batch->fingerprint};
    snprintf(toy->given.digest, sizeof toy->given.digest, "%s", batch->digest);
    snprintf(toy->given.bundle, sizeof toy->given.bundle, "%s", batch->bundle);
    return MT_OK;
}

static void toy_take(struct toy_sink *toy, const struct mt_batch *rows)
{
    const int64_t *values = rows->array.children[0]->buffers[1];
    int64_t n = rows->array.length;
    const struct ArrowArray *last = rows->array.children[rows->array.n_children - 1];
    toy->ids = mt_realloc(toy->ids, (size_t)(toy->n_ids + n + 1) * sizeof *toy->ids);
    for (int64_t i = 0; i < n; i++)
        if (toy->wrong != LEAVES_OUT_WHAT_ENDS_WITH_NULL || !mt_array_is_null(last, i))
            toy->ids[toy->n_ids++] = values[i];
}

static void toy_add_marker(const struct toy_sink *toy, FILE *file)
{
    fprintf(file, "%" PRId64 " %s %s %" PRId64 " %" PRIu64 "\n", toy->given.batch_id,
            toy->given.digest, toy->given.bundle, toy->given.rows, toy->given.fingerprint);
}

/* What is stored now, behind its marker line. */
static char *toy_rows(const struct mt_sink *sink)
{
    char *path = toy_file(sink, "table"), *text = read_file(path);
    const char *line = strchr(text, '\n');
    char *rows = mt_strdup(line ? line + 1 : "");
    free(path);
    free(text);
    return rows;
}

static void toy_replace(const struct toy_sink *toy, bool marker, bool rows)
{
    const struct mt_sink *sink = &toy->base;
    struct mt_sink_record held;
    bool holds = toy_marker(sink, "table", &held);
    char *from = toy_file(sink, "next"), *to = toy_file(sink, "table"), *old = toy_rows(sink);
    FILE *file = fopen(from, "w");
    if (marker)
        toy_add_marker(toy, file);
    else if (holds)
        fprintf(file, "%" PRId64 " %s %s %" PRId64 " %" PRIu64 "\n", held.batch_id, held.digest,
                held.bundle, held.rows, held.fingerprint);
    else
        fprintf(file, "none\n");
    fputs(old, file);
    for (int64_t i = 0; rows && i < toy->n_ids; i++)
        fprintf(file, "%" PRId64 "\n", toy->ids[i]);
    fclose(file);
    mt_step("toy.written", toy->given.batch_id);
    rename(from, to);
    free(from);
    free(to);
    free(old);
}

static enum mt_status toy_refuse(struct mt_error *err)
{
    return mt_fail(err, MT_FATAL, MT_CLASS_INTERNAL, "no batch is open");
}

static enum mt_status toy_write(struct mt_sink *sink, const struct mt_batch *rows,
                                struct mt_error *err)
{
    struct toy_sink *toy = (struct toy_sink *)sink;
    if (!toy->open && toy->wrong != NEEDS_NO_BEGIN)
        return toy_refuse(err);
    if (toy->wrong == KEEPS_ONLY_THE_LAST_WRITE)
        toy->n_ids = 0;
    toy->kept = rows;
    if (toy->wrong != KEEPS_A_POINTER)
        toy_take(toy, rows);
    toy->given.rows += rows->array.length;
    mkdir(sink->path, 0777);
    if (toy->wrong == STORES_AT_WRITE)
        toy_replace(toy, false, true);
    return MT_OK;
}

static void toy_store(struct toy_sink *toy)
{
    if (toy->wrong == MARKS_BEFORE_IT_STORES || toy->wrong == STORES_BEFORE_IT_MARKS) {
        bool marker_first = toy->wrong == MARKS_BEFORE_IT_STORES;
        toy_replace(toy, marker_first, !marker_first);
        mt_step("toy.between", toy->given.batch_id);
        toy_replace(toy, true, marker_first);
    } else {
        toy_replace(toy, true, toy->wrong != STORES_AT_WRITE);
    }
    mt_step("toy.stored", toy->given.batch_id);
}

static enum mt_status toy_commit(struct mt_sink *sink, struct mt_sink_record *record,
                                 struct mt_error *err)
{
    struct toy_sink *toy = (struct toy_sink *)sink;
    if ((!toy->open || toy->failed) && toy->wrong != NEEDS_NO_BEGIN && toy->wrong != COMMITS_TWICE)
        return toy_refuse(err);
    if (toy->wrong == FAILS_AN_EMPTY_BATCH && toy->given.rows == 0)
        return toy_refuse(err);
    if (toy->wrong == KEEPS_A_POINTER && toy->kept)
        toy_take(toy, toy->kept);
    int error = toy->n_ids ? mt_step_fails("toy.store", toy->given.batch_id) : 0;
    if (error && toy->wrong == EMPTIES_ITS_BUFFER_BEFORE_TRYING) {
        toy->n_ids = 0; /* and the next commit finds nothing left to do */
        return mt_fail(err, MT_FATAL, MT_CLASS_SINK, "storing: %s", strerror(error));
    }
    toy->failed = error != 0;
    if (error)
        return mt_fail(err, MT_FATAL, MT_CLASS_SINK, "storing: %s", strerror(error));
    if (toy->n_ids > 0)
        toy_store(toy);
    *record = toy->given;
    record->rows += toy->wrong == LIES_BY_ONE_ROW;
    if (toy->wrong == COMMITS_TWICE)
        toy->kept = NULL;
    else
        toy_forget(toy);
    return MT_OK;
}

static void toy_abort(struct mt_sink *sink)
{
    struct toy_sink *toy = (struct toy_sink *)sink;
    if (toy->wrong == CRASHES_AT_ABORT && !toy->open)
        raise(SIGSEGV);
    toy_forget(toy);
}

static void toy_describe(struct mt_sink *sink, const char *query_id, struct mt_buf *json)
{
    (void)query_id;
    struct mt_sink_record held;
    if (((struct toy_sink *)sink)->wrong == PROMISES_TOO_MUCH || !toy_marker(sink, "table", &held))
        mt_buf_adds(json, "{\"description\":\"Toy\",\"guarantee\":\"never lost\",\"marker\":null}");
    else
        mt_buf_addf(json,
                    "{\"description\":\"Toy\",\"guarantee\":\"exactly once\","
                    "\"marker\":{\"batch\":%" PRId64 "}}",
                    held.batch_id);
}

static void toy_close(struct mt_sink *sink)
{
    toy_forget((struct toy_sink *)sink);
}

static const struct mt_sink_type toy_type = {
    .name = "toy",
    .help = "for tests of the tests",
    .options = toy_options,
    .size = sizeof(struct toy_sink),
    .exactly_once = true,
    .needs_path = true,
    .open = toy_open,
    .recover = toy_recover,
    .begin = toy_begin,
    .write = toy_write,
    .commit = toy_commit,
    .abort = toy_abort,
    .describe = toy_describe,
    .close = toy_close,
};

static struct mt_sink *toy_make(const struct subject *subject, const char *path,
                                const struct ArrowSchema *schema, struct mt_error *err)
{
    struct toy_sink *toy = mt_alloc(sizeof *toy);
    toy->base = (struct mt_sink){.type = &toy_type, .schema = schema, .path = mt_strdup(path)};
    toy->base.identity = mt_strdup("toy");
    toy->base.marker_identity = mt_strdup("toy#1");
    toy->wrong = (enum wrong)subject->wrong;
    if (toy_open(&toy->base, err) == MT_OK)
        return &toy->base;
    mt_sink_free(&toy->base);
    return NULL;
}

/* Ids as "0-9,12". */
static char *print_ids(const int64_t *ids, int64_t n)
{
    struct mt_buf text = {0};
    mt_buf_adds(&text, "");
    for (int64_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && ids[end] == ids[end - 1] + 1; end++)
            ;
        mt_buf_addf(&text, "%s%" PRId64, i ? "," : "", ids[i]);
        if (end - i > 1)
            mt_buf_addf(&text, "-%" PRId64, ids[end - 1]);
    }
    return text.data;
}

static int by_id(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static char *toy_held(const char *path)
{
    struct mt_sink at = {.path = (char *)path};
    int64_t ids[1000], n = 0;
    char *next = toy_file(&at, "next"), *rows = toy_rows(&at), *rest = rows;
    bool stray = access(next, F_OK) == 0;
    for (char *line; n < 1000 && (line = strtok_r(rest, "\n", &rest));)
        ids[n++] = strtoll(line, NULL, 10);
    qsort(ids, (size_t)n, sizeof *ids, by_id);
    char *text = stray ? mt_strdup("a stray file") : print_ids(ids, n);
    free(next);
    free(rows);
    return text;
}

static const char *const toy_steps[] = {"toy.written", "toy.between", "toy.stored", NULL};
static const char *const toy_fails[] = {"toy.store", NULL};

static struct subject toy_subject(enum wrong wrong)
{
    return (struct subject){.label = "toy",
                            .make = toy_make,
                            .wrong = (int)wrong,
                            .held = toy_held,
                            .steps = toy_steps,
                            .fails = toy_fails};
}

/* Which rule finds which fault. */
static const struct {
    enum wrong wrong;
    const char *rule;
} faults[] = {
    {MAKES_ITS_FOLDER_WHEN_DECLARED, "making_one_touches_nothing"},
    {FORGETS_ITS_MARKER, "a_stored_batch_is_known_after_a_restart"},
    {FILLS_NO_RECORD, "a_stored_batch_is_known_after_a_restart"},
    {WRITES_A_REPLAY, "a_replay_of_a_stored_batch_writes_nothing"},
    {IGNORES_THE_DIGEST, "the_same_id_with_another_digest_is_a_conflict"},
    {IGNORES_LATER_BATCHES, "a_batch_before_the_last_one_is_a_conflict"},
    {GIVES_NO_REASON, "a_batch_before_the_last_one_is_a_conflict"},
    {STORES_AT_WRITE, "an_aborted_batch_leaves_nothing"},
    {CRASHES_AT_ABORT, "abort_is_always_allowed"},
    {NEEDS_NO_BEGIN, "nothing_is_written_without_a_begin"},
    {COMMITS_TWICE, "a_second_commit_is_refused"},
    {KEEPS_ONLY_THE_LAST_WRITE, "every_write_of_a_batch_counts"},
    {KEEPS_A_POINTER, "every_write_of_a_batch_counts"},
    {LIES_BY_ONE_ROW, "every_write_of_a_batch_counts"},
    {FAILS_AN_EMPTY_BATCH, "an_empty_batch_is_committed_and_makes_nothing"},
    {EMPTIES_ITS_BUFFER_BEFORE_TRYING, "after_an_error_commit_is_refused_and_a_new_try_works"},
    {MARKS_BEFORE_IT_STORES, "a_crash_at_any_step_gives_each_row_once"},
    {STORES_BEFORE_IT_MARKS, "a_crash_at_any_step_gives_each_row_once"},
    {LEAVES_TEMPORARY_FILES, "a_crash_at_any_step_gives_each_row_once"},
    {NAMES_NO_COLUMN, "what_it_cannot_store_is_refused_by_name"},
    {LEAVES_OUT_WHAT_ENDS_WITH_NULL, "all_types_with_nulls_are_stored"},
    {PROMISES_TOO_MUCH, "describe_says_what_the_type_promises"},
};
