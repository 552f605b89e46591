/* SPDX-License-Identifier: Apache-2.0
 *
 * contract.h - what every sink must keep, one rule a function, so that the same rules
 * run over each sink in the table and over sinks that are wrong on purpose.
 *
 * A rule gets a bench with a fresh sink of the subject, does what an engine may do, and
 * returns NULL or words for what was broken. Rows are always released right after
 * write, so that a sink which keeps a pointer is caught by the address sanitizer. */
#ifndef CONTRACT_H
#define CONTRACT_H

#include <poll.h>
#include <signal.h>

#include "databases.h"

struct subject {
    const char *label;
    struct mt_sink *(*make)(const struct subject *, const char *path,
                            const struct ArrowSchema *schema, struct mt_error *err);
    const char *format, *partition_by; /* for make */
    int wrong;                         /* for make, of wrong_sinks.c */
    const char *text;                  /* its column of ids as text, needed; NULL: has kind */
    char *(*held)(const char *path);   /* ids as text, or what is wrong; NULL: nobody knows */
    const char *const *steps;          /* where a process may be killed; ends with NULL */
    const char *const *fails;          /* calls that may fail; ends with NULL */
    const char *server;                /* environment variable that names it; NULL: needs none */
    const char *ddl;                   /* of the rows it is given; NULL: id, text, amount */
};

struct bench {
    const struct subject *subject;
    char *path; /* not there yet */
    struct ArrowSchema schema;
    struct mt_sink *sink;
    struct mt_sink_record record; /* of the last begin or commit */
    struct mt_error err;
    char words[4000];
};

#define BROKEN(bench, ...)                                                                         \
    (snprintf((bench)->words, sizeof(bench)->words, __VA_ARGS__), (bench)->words)
#define NEED(bench, condition, ...)                                                                \
    do {                                                                                           \
        if (!(condition))                                                                          \
            return BROKEN(bench, __VA_ARGS__);                                                     \
    } while (0)

/* ---- what an engine does */

/* As the engine does: a server that is not ready yet (RETRY) is asked again, for half a minute. */
static enum mt_status recover_when_ready(struct bench *b)
{
    enum mt_status status = MT_RETRY;
    for (int tries = 0; status == MT_RETRY && tries < 300; tries++) {
        if (tries > 0)
            poll(NULL, 0, 100);
        status = b->sink->type->recover(b->sink, QUERY, &b->err);
    }
    return status;
}

static const char *start(struct bench *b)
{
    b->sink = b->subject->make(b->subject, b->path, &b->schema, &b->err);
    NEED(b, b->sink, "cannot be made: %s", b->err.text);
    NEED(b, recover_when_ready(b) == MT_OK, "recover: %s", b->err.text);
    return NULL;
}

static void drop_sink(struct bench *b)
{
    mt_sink_free(b->sink);
    b->sink = NULL;
}

static const char *restart(struct bench *b)
{
    drop_sink(b);
    return start(b);
}

static enum mt_status begin_as(struct bench *b, int64_t id, const char *seed, int64_t rows,
                               enum mt_sink_answer *answer)
{
    struct mt_sink_batch batch = batch_of(QUERY, id, rows);
    batch.digest = digest_of(id, seed);
    *answer = MT_SINK_NEW;
    b->record = (struct mt_sink_record){.rows = -1};
    b->err = (struct mt_error){0};
    return b->sink->type->begin(b->sink, &batch, answer, &b->record, &b->err);
}

static enum mt_status give(struct bench *b, int64_t first, int64_t n)
{
    struct mt_batch rows = make_rows(&b->schema, first, n);
    enum mt_status status = b->sink->type->write(b->sink, &rows, &b->err);
    mt_batch_release(&rows);
    return status;
}

static enum mt_status commit(struct bench *b)
{
    return b->sink->type->commit(b->sink, &b->record, &b->err);
}

/* A batch that must be NEW and go well. */
static const char *store(struct bench *b, int64_t id, int64_t first, int64_t n)
{
    enum mt_sink_answer answer;
    NEED(b, begin_as(b, id, "", n, &answer) == MT_OK, "begin: %s", b->err.text);
    NEED(b, answer == MT_SINK_NEW, "batch %d is not NEW but %d", (int)id, answer);
    if (n > 0)
        NEED(b, give(b, first, n) == MT_OK, "write: %s", b->err.text);
    NEED(b, commit(b) == MT_OK, "commit: %s", b->err.text);
    NEED(b, b->record.rows == n && b->record.batch_id == id,
         "was given %d rows of batch %d and says it stored %d of %d", (int)n, (int)id,
         (int)b->record.rows, (int)b->record.batch_id);
    return NULL;
}

static const char *need_held(struct bench *b, const char *expected)
{
    if (!b->subject->held)
        return NULL;
    char *held = b->subject->held(b->path);
    const char *words =
        strcmp(held, expected) == 0 ? NULL : BROKEN(b, "holds %s instead of %s", held, expected);
    free(held);
    return words;
}

#define TRY(call)                                                                                  \
    do {                                                                                           \
        const char *words_ = (call);                                                               \
        if (words_)                                                                                \
            return words_;                                                                         \
    } while (0)

/* Runs one case of a rule where nothing is yet; its words say which case. */
static const char *on_a_fresh_path(struct bench *b, const char *name,
                                   const char *(*run)(struct bench *, const char *))
{
    char *root = new_folder();
    drop_sink(b);
    free(b->path);
    b->path = mt_format("%s/table", root);
    const char *words = run(b, name);
    drop_folder(root);
    if (!words)
        return NULL;
    char *copy = mt_strdup(words);
    words = BROKEN(b, "%s: %s", name ? name : "the end", copy);
    free(copy);
    return words;
}

/* ---- the rules */

static const char *making_one_touches_nothing(struct bench *b)
{
    drop_sink(b);
    b->sink = b->subject->make(b->subject, b->path, &b->schema, &b->err);
    NEED(b, b->sink, "cannot be made: %s", b->err.text);
    NEED(b, access(b->path, F_OK) != 0, "made its destination when it was declared");
    return NULL;
}

static const char *a_stored_batch_is_known_after_a_restart(struct bench *b)
{
    enum mt_sink_answer answer;
    bool remembers = b->sink->type->exactly_once;
    TRY(store(b, 0, 0, 10));
    TRY(restart(b));
    NEED(b, begin_as(b, 0, "", 0, &answer) == MT_OK, "begin: %s", b->err.text);
    NEED(b, answer == (remembers ? MT_SINK_STORED : MT_SINK_NEW), "answers %d", answer);
    if (!remembers)
        return NULL;
    struct mt_sink_batch batch = batch_of(QUERY, 0, 10);
    NEED(b, b->record.batch_id == 0 && b->record.rows == 10, "its record says %d rows of batch %d",
         (int)b->record.rows, (int)b->record.batch_id);
    NEED(b, strcmp(b->record.digest, batch.digest) == 0, "its record has another digest");
    NEED(b, strcmp(b->record.bundle, batch.bundle) == 0, "its record has another bundle");
    NEED(b, b->record.fingerprint == batch.fingerprint, "its record has another fingerprint");
    return NULL;
}

static const char *a_replay_of_a_stored_batch_writes_nothing(struct bench *b)
{
    enum mt_sink_answer answer;
    if (!b->sink->type->exactly_once)
        return NULL;
    TRY(store(b, 0, 0, 10));
    NEED(b, begin_as(b, 0, "", 10, &answer) == MT_OK && answer == MT_SINK_STORED,
         "does not know it: %d", answer);
    NEED(b, give(b, 0, 10) != MT_OK, "takes rows of a batch it holds");
    NEED(b, commit(b) != MT_OK, "commits a batch it holds");
    b->sink->type->abort(b->sink);
    return need_held(b, "0-9");
}

static const char *need_conflict(struct bench *b, int64_t id, const char *seed)
{
    enum mt_sink_answer answer;
    NEED(b, begin_as(b, id, seed, 10, &answer) == MT_OK, "begin: %s", b->err.text);
    NEED(b, answer == MT_SINK_CONFLICT, "answers %d", answer);
    NEED(b, strstr(b->err.text, "older than the destination"), "gives no reason: \"%s\"",
         b->err.text);
    NEED(b, give(b, 0, 10) != MT_OK && commit(b) != MT_OK, "goes on after a conflict");
    b->sink->type->abort(b->sink);
    return need_held(b, "0-19");
}

static const char *the_same_id_with_another_digest_is_a_conflict(struct bench *b)
{
    if (!b->sink->type->exactly_once)
        return NULL;
    TRY(store(b, 0, 0, 10));
    TRY(store(b, 1, 10, 10));
    TRY(need_conflict(b, 1, "other"));
    TRY(restart(b));
    return need_conflict(b, 1, "other");
}

static const char *a_batch_before_the_last_one_is_a_conflict(struct bench *b)
{
    if (!b->sink->type->exactly_once)
        return NULL;
    TRY(store(b, 0, 0, 10));
    TRY(store(b, 1, 10, 10));
    TRY(need_conflict(b, 0, ""));
    TRY(restart(b));
    return need_conflict(b, 0, "");
}

static const char *an_aborted_batch_leaves_nothing(struct bench *b)
{
    enum mt_sink_answer answer;
    NEED(b, begin_as(b, 0, "", 10, &answer) == MT_OK, "begin: %s", b->err.text);
    NEED(b, give(b, 0, 10) == MT_OK, "write: %s", b->err.text);
    b->sink->type->abort(b->sink);
    TRY(need_held(b, ""));
    TRY(store(b, 0, 0, 10));
    return need_held(b, "0-9");
}

static const char *abort_is_always_allowed(struct bench *b)
{
    enum mt_sink_answer answer;
    b->sink->type->abort(b->sink);
    b->sink->type->abort(b->sink);
    NEED(b, begin_as(b, 0, "", 10, &answer) == MT_OK, "begin: %s", b->err.text);
    b->sink->type->abort(b->sink);
    TRY(store(b, 0, 0, 10));
    b->sink->type->abort(b->sink);
    b->sink->type->abort(b->sink);
    return need_held(b, "0-9");
}

static const char *nothing_is_written_without_a_begin(struct bench *b)
{
    NEED(b, give(b, 0, 10) != MT_OK, "takes rows without a begin");
    NEED(b, commit(b) != MT_OK, "commits without a begin");
    b->sink->type->abort(b->sink);
    return need_held(b, "");
}

static const char *a_second_commit_is_refused(struct bench *b)
{
    TRY(store(b, 0, 0, 10));
    NEED(b, commit(b) != MT_OK, "commits twice");
    b->sink->type->abort(b->sink);
    return need_held(b, "0-9");
}

static const char *every_write_of_a_batch_counts(struct bench *b)
{
    enum mt_sink_answer answer;
    NEED(b, begin_as(b, 0, "", 20, &answer) == MT_OK, "begin: %s", b->err.text);
    NEED(b, give(b, 0, 5) == MT_OK && give(b, 5, 14) == MT_OK && give(b, 19, 1) == MT_OK,
         "write: %s", b->err.text);
    NEED(b, commit(b) == MT_OK, "commit: %s", b->err.text);
    NEED(b, b->record.rows == 20, "says it stored %d of 20 rows", (int)b->record.rows);
    return need_held(b, "0-19");
}

static const char *an_empty_batch_is_committed_and_makes_nothing(struct bench *b)
{
    TRY(store(b, 0, 0, 0));
    TRY(need_held(b, ""));
    TRY(store(b, 1, 0, 10));
    TRY(store(b, 2, 0, 0));
    TRY(store(b, 3, 10, 10));
    TRY(need_held(b, "0-19"));
    if (!b->sink->type->exactly_once)
        return NULL; /* what it held may go with the process */
    TRY(restart(b));
    TRY(store(b, 4, 0, 0));
    return need_held(b, "0-19");
}

static const char *fail_one(struct bench *b, const char *call)
{
    enum mt_sink_answer answer;
    NEED(b, begin_as(b, 1, "", 10, &answer) == MT_OK, "%s fails: begin: %s", call, b->err.text);
    setenv("MOONTIDE_FAIL", call, 1);
    enum mt_status status = give(b, 10, 10);
    if (status == MT_OK)
        status = commit(b);
    unsetenv("MOONTIDE_FAIL");
    NEED(b, status != MT_OK, "%s fails and nobody says so", call);
    NEED(b, b->err.text[0], "%s fails without words", call);
    NEED(b, commit(b) != MT_OK, "commits after %s failed", call);
    b->sink->type->abort(b->sink);
    return NULL;
}

static const char *fail_at(struct bench *b, const char *call)
{
    enum mt_sink_answer answer;
    TRY(start(b));
    TRY(store(b, 0, 0, 10));
    TRY(fail_one(b, call));
    NEED(b, begin_as(b, 1, "", 10, &answer) == MT_OK, "begin after it: %s", b->err.text);
    TRY(need_held(b, answer == MT_SINK_STORED ? "0-19" : "0-9"));
    if (answer == MT_SINK_NEW)
        TRY(store(b, 1, 10, 10));
    return need_held(b, "0-19");
}

static const char *after_an_error_commit_is_refused_and_a_new_try_works(struct bench *b)
{
    for (const char *const *call = b->subject->fails; call && *call; call++) {
        const char *words = on_a_fresh_path(b, *call, fail_at);
        if (words)
            return words;
    }
    return NULL;
}

/* Runs batch 1 in a process that dies at `step`, or after the commit. */
static const char *die_at(struct bench *b, const char *step)
{
    pid_t child = fork();
    if (child == 0) {
        enum mt_sink_answer answer;
        if (step)
            setenv("MOONTIDE_KILL", step, 1);
        if (start(b) || begin_as(b, 1, "", 10, &answer) != MT_OK)
            _exit(1);
        if (answer == MT_SINK_NEW && (give(b, 10, 10) != MT_OK || commit(b) != MT_OK))
            _exit(2);
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    NEED(b, killed || (WIFEXITED(status) && WEXITSTATUS(status) == 0),
         "the process at %s ended with %x", step ? step : "the end", status);
    return NULL;
}

static const char *crash_at(struct bench *b, const char *step)
{
    enum mt_sink_answer answer;
    TRY(start(b));
    TRY(store(b, 0, 0, 10));
    drop_sink(b);
    TRY(die_at(b, step));
    TRY(die_at(b, step)); /* again, in the recovery or its replay */
    TRY(start(b));
    NEED(b, begin_as(b, 1, "", 10, &answer) == MT_OK, "begin: %s", b->err.text);
    TRY(need_held(b, answer == MT_SINK_STORED ? "0-19" : "0-9"));
    if (answer == MT_SINK_NEW)
        TRY(store(b, 1, 10, 10));
    TRY(store(b, 2, 20, 5));
    return need_held(b, "0-24");
}

static const char *a_crash_at_any_step_gives_each_row_once(struct bench *b)
{
    if (!b->sink->type->exactly_once)
        return NULL;
    NEED(b, b->subject->steps,
         "has no named steps: add mt_step calls around what it makes visible");
    for (const char *const *step = b->subject->steps;; step++) {
        const char *words = on_a_fresh_path(b, *step, crash_at);
        if (words || !*step)
            return words;
    }
}

static const char *const all_types[] = {"BOOLEAN",
                                        "TINYINT",
                                        "SMALLINT",
                                        "INT",
                                        "BIGINT",
                                        "FLOAT",
                                        "DOUBLE",
                                        "DECIMAL(9,2)",
                                        "DECIMAL(38,10)",
                                        "STRING",
                                        "BINARY",
                                        "DATE",
                                        "TIMESTAMP",
                                        "ARRAY<INT>",
                                        "MAP<STRING, INT>",
                                        "STRUCT<a: INT, b: STRING>",
                                        "ARRAY<STRUCT<a: MAP<STRING, ARRAY<DATE>>, b: BOOLEAN>>",
                                        NULL};

/* A sink for rows whose last column, odd_one, is of this type; NULL when it is refused. */
static struct mt_sink *make_with(struct bench *b, const char *type, struct ArrowSchema *schema)
{
    const char *text = b->subject->text;
    char *ddl = mt_format("id BIGINT, %s STRING, odd_one %s", text ? text : "kind", type);
    schema_of(ddl, schema);
    free(ddl);
    return b->subject->make(b->subject, b->path, schema, &b->err);
}

static const char *what_it_cannot_store_is_refused_by_name(struct bench *b)
{
    drop_sink(b);
    for (const char *const *type = all_types; *type; type++) {
        struct ArrowSchema schema;
        b->sink = make_with(b, *type, &schema);
        bool named = b->sink || strstr(b->err.text, "odd_one");
        drop_sink(b);
        mt_schema_release(&schema);
        NEED(b, named, "refuses %s without naming the column: %s", *type, b->err.text);
    }
    return NULL;
}

static const char *store_any(struct bench *b, const struct ArrowSchema *schema)
{
    enum mt_sink_answer answer;
    NEED(b, recover_when_ready(b) == MT_OK, "recover: %s", b->err.text);
    NEED(b, begin_as(b, 0, "", 20, &answer) == MT_OK, "begin: %s", b->err.text);
    struct mt_batch rows = make_any_rows(schema, 20);
    enum mt_status status = b->sink->type->write(b->sink, &rows, &b->err);
    mt_batch_release(&rows);
    NEED(b, status == MT_OK, "write: %s", b->err.text);
    NEED(b, commit(b) == MT_OK, "commit: %s", b->err.text);
    return need_held(b, "0-19");
}

static const char *store_type(struct bench *b, const char *type)
{
    struct ArrowSchema schema;
    const char *words = NULL;
    b->sink = make_with(b, type, &schema);
    if (b->sink)
        words = store_any(b, &schema);
    drop_sink(b);
    mt_schema_release(&schema);
    return words;
}

static const char *all_types_with_nulls_are_stored(struct bench *b)
{
    for (const char *const *type = all_types; *type; type++)
        TRY(on_a_fresh_path(b, *type, store_type));
    return NULL;
}

static const char *describe_says_what_the_type_promises(struct bench *b)
{
    TRY(store(b, 7, 0, 10));
    struct mt_buf text = {0};
    b->sink->type->describe(b->sink, QUERY, &text);
    json_t *about = json_loads(text.data, 0, NULL);
    const char *guarantee = json_string_value(json_object_get(about, "guarantee"));
    bool exactly = b->sink->type->exactly_once;
    bool right = guarantee && json_is_string(json_object_get(about, "description")) &&
                 strcmp(guarantee, exactly ? "exactly once" : "at least once") == 0;
    json_t *marker = json_object_get(about, "marker");
    bool marked =
        exactly ? json_integer_value(json_object_get(marker, "batch")) == 7 : json_is_null(marker);
    json_decref(about);
    if (!right || !marked)
        BROKEN(b, "says %s", text.data);
    mt_buf_free(&text);
    return right && marked ? NULL : b->words;
}

static const struct rule {
    const char *name;
    const char *(*check)(struct bench *);
} rules[] = {
#define RULE(name)                                                                                 \
    {                                                                                              \
#name, name                                                                                \
    }
    RULE(making_one_touches_nothing),
    RULE(a_stored_batch_is_known_after_a_restart),
    RULE(a_replay_of_a_stored_batch_writes_nothing),
    RULE(the_same_id_with_another_digest_is_a_conflict),
    RULE(a_batch_before_the_last_one_is_a_conflict),
    RULE(an_aborted_batch_leaves_nothing),
    RULE(abort_is_always_allowed),
    RULE(nothing_is_written_without_a_begin),
    RULE(a_second_commit_is_refused),
    RULE(every_write_of_a_batch_counts),
    RULE(an_empty_batch_is_committed_and_makes_nothing),
    RULE(after_an_error_commit_is_refused_and_a_new_try_works),
    RULE(a_crash_at_any_step_gives_each_row_once),
    RULE(what_it_cannot_store_is_refused_by_name),
    RULE(all_types_with_nulls_are_stored),
    RULE(describe_says_what_the_type_promises),
#undef RULE
};
enum { N_RULES = sizeof rules / sizeof *rules };

/* Runs one rule; the caller frees the words. */
static char *run_rule(const struct rule *rule, const struct subject *subject)
{
    struct bench b = {.subject = subject};
    char *root = new_folder();
    b.path = mt_format("%s/table", root);
    char *ddl =
        mt_format("id BIGINT, %s STRING, amount DOUBLE", subject->text ? subject->text : "kind");
    schema_of(subject->ddl ? subject->ddl : ddl, &b.schema);
    free(ddl);
    const char *words = start(&b);
    if (!words)
        words = rule->check(&b);
    char *result = words ? mt_strdup(words) : NULL;
    drop_sink(&b);
    mt_schema_release(&b.schema);
    free(b.path);
    drop_folder(root);
    return result;
}
#endif
