/* SPDX-License-Identifier: Apache-2.0
 *
 * files_log.c - _spark_metadata, the list of a table's files in Spark's own format: the
 * one place where a batch becomes visible.
 *
 * The log is the path's own sequence 0, 1, 2, ... without a gap; Spark refuses one with
 * a hole. Its numbers are therefore not batch ids: two queries may share a path, and an
 * empty batch takes no number. Whoever creates number N first has it (link(2) never
 * replaces), the others read what he wrote and try the next one. Every tenth entry is
 * N.compact and repeats all before it, so that readers open a few files only; then the
 * oldest go, as Spark does it: never one of the last hundred, none younger than ten
 * minutes, since a reader may be in the middle of its list.
 *
 * In memory there is only what `begin` asks for: our own latest batch. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/step.h"
#include "sink/files/files_int.h"

enum { COMPACT_EVERY = 10, KEEP_ENTRIES = 100, KEEP_SECONDS = 600 };

struct number {
    int64_t n;
    bool compact;
};
struct numbers {
    struct number *items;
    int64_t n;
};

void files_log_init(struct files_log *log, const char *table, const char *query, const char *sink)
{
    *log = (struct files_log){.last = -1, .compact = -1, .interval = COMPACT_EVERY};
    log->dir = mt_format("%s/" FILES_LOG_FOLDER, table);
    log->query = query ? mt_strdup(query) : NULL;
    log->sink = mt_strdup(sink);
}

void files_log_deinit(struct files_log *log)
{
    free(log->dir);
    free(log->query);
    free(log->sink);
    free(log->stranger);
    *log = (struct files_log){0};
}

static char *name_of(const struct files_log *log, struct number number)
{
    return mt_format("%s/%" PRId64 "%s", log->dir, number.n, number.compact ? ".compact" : "");
}

char *files_log_temporary(const struct files_log *log)
{
    return files_own_name(log->dir, log->query, log->sink, "entry.tmp");
}

/* ---- which numbers there are */

static bool parse_number(const char *name, struct number *number)
{
    char *end;
    errno = 0;
    number->n = strtoll(name, &end, 10);
    number->compact = strcmp(end, ".compact") == 0;
    bool canonical = *name >= '0' && *name <= '9' && (*name != '0' || end == name + 1);
    return canonical && !errno && (number->compact || !*end);
}

static int by_number(const void *a, const void *b)
{
    const struct number *x = a, *y = b;
    return x->n != y->n ? (x->n > y->n) - (x->n < y->n) : x->compact - y->compact;
}

/* All numbers, ascending. A number that is there both ways counts as its compact one. */
static enum mt_status list(const struct files_log *log, struct numbers *numbers,
                           struct mt_error *err)
{
    *numbers = (struct numbers){0};
    DIR *dir = opendir(log->dir);
    if (!dir)
        return errno == ENOENT ? MT_OK : files_fail(err, errno, "listing", log->dir);
    for (struct dirent *entry; (errno = 0, entry = readdir(dir));) {
        struct number number;
        if (!parse_number(entry->d_name, &number))
            continue;
        if ((numbers->n & (numbers->n - 1)) == 0)
            numbers->items =
                mt_realloc(numbers->items, (size_t)(numbers->n * 2 + 1) * sizeof *numbers->items);
        numbers->items[numbers->n++] = number;
    }
    int error = errno;
    closedir(dir);
    if (error) {
        free(numbers->items);
        return files_fail(err, error, "listing", log->dir);
    }
    if (numbers->n > 0)
        qsort(numbers->items, (size_t)numbers->n, sizeof *numbers->items, by_number);
    int64_t kept = 0;
    for (int64_t i = 0; i < numbers->n; i++)
        if (i + 1 == numbers->n || numbers->items[i].n != numbers->items[i + 1].n)
            numbers->items[kept++] = numbers->items[i];
    numbers->n = kept;
    return MT_OK;
}

/* The interval that a log with these compact numbers was written with, as Spark finds
 * it: the distance of the last two, else the smallest divisor of the only one that is
 * not below the usual. */
static int64_t interval_of(const struct numbers *numbers, int64_t *latest)
{
    int64_t before = -1;
    *latest = -1;
    for (int64_t i = 0; i < numbers->n; i++) {
        if (!numbers->items[i].compact)
            continue;
        before = *latest;
        *latest = numbers->items[i].n;
    }
    if (*latest < 0)
        return COMPACT_EVERY;
    if (before >= 0)
        return *latest - before;
    int64_t entries = *latest + 1;
    for (int64_t i = COMPACT_EVERY; COMPACT_EVERY < entries / 2 && i <= entries / 2; i++)
        if (entries % i == 0)
            return i;
    return entries;
}

/* ---- reading */

typedef enum mt_status (*line_fn)(void *ctx, const char *line, size_t len, struct mt_error *err);

static enum mt_status damaged(enum mt_status status, const char *path, int64_t line,
                              struct mt_error *err)
{
    char reason[sizeof err->text];
    if (status != MT_REJECT)
        return status;
    strcpy(reason, err->text);
    return mt_fail(err, MT_FATAL, MT_CLASS_SINK,
                   "the table's log is damaged: %s, line %" PRId64 ": %s; put the file back from a "
                   "backup, or write to a new path with a new checkpoint",
                   path, line, reason);
}

static enum mt_status check_version(const char *line, struct mt_error *err)
{
    char quoted[64];
    if (strcmp(line, "v1") == 0)
        return MT_OK;
    return mt_fail(err, MT_REJECT, MT_CLASS_SINK, "\"v1\" is expected, there is \"%s\"",
                   mt_quote(line, strlen(line), quoted, sizeof quoted));
}

static enum mt_status read_lines(FILE *file, const char *path, line_fn take, void *ctx,
                                 struct mt_error *err)
{
    char *line = NULL;
    size_t cap = 0;
    int64_t at = 1;
    enum mt_status status = MT_OK;
    for (ssize_t len; status == MT_OK && (errno = 0, len = getline(&line, &cap, file)) >= 0; at++) {
        if (len > 0 && line[len - 1] == '\n')
            line[--len] = '\0';
        status = at == 1 ? check_version(line, err) : take(ctx, line, (size_t)len, err);
        status = damaged(status, path, at, err);
    }
    if (status == MT_OK && ferror(file))
        status = files_fail(err, errno, "reading", path);
    else if (status == MT_OK && at == 1)
        status = damaged(mt_fail(err, MT_REJECT, MT_CLASS_SINK, "the file is empty"), path, 1, err);
    free(line);
    return status;
}

static enum mt_status read_number(const struct files_log *log, struct number number, line_fn take,
                                  void *ctx, struct mt_error *err)
{
    char *path = name_of(log, number);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
    enum mt_status status;
    if (!file)
        status = files_fail(err, errno, "reading", path);
    else
        status = read_lines(file, path, take, ctx, err);
    if (file)
        fclose(file);
    free(path);
    return status;
}

/* Everything the log says now: the latest compact entry and what came after it. */
static enum mt_status read_all(const struct files_log *log, line_fn take, void *ctx,
                               struct mt_error *err)
{
    enum mt_status status = MT_OK;
    for (int64_t n = log->compact < 0 ? 0 : log->compact; status == MT_OK && n <= log->last; n++)
        status = read_number(log, (struct number){n, n == log->compact}, take, ctx, err);
    return status;
}

static enum mt_status take_ours(struct files_log *log, const struct mt_sink_record *record,
                                struct mt_error *err)
{
    bool same = log->holds && record->batch_id == log->record.batch_id;
    if (same && strcmp(record->digest, log->record.digest) != 0)
        return mt_fail(err, MT_REJECT, MT_CLASS_SINK,
                       "batch %" PRId64 " of query %s is there twice, with different digests",
                       record->batch_id, log->query);
    if (same)
        log->record.bytes += record->bytes;
    else if (!log->holds || record->batch_id > log->record.batch_id)
        log->record = *record;
    log->holds = true;
    return MT_OK;
}

static enum mt_status take_line(void *ctx, const char *line, size_t len, struct mt_error *err)
{
    struct files_log *log = ctx;
    struct files_entry entry;
    enum mt_status status = files_entry_parse(line, len, &entry, err);
    if (status != MT_OK)
        return status;
    if (!entry.ours && !log->stranger)
        log->stranger = mt_strdup("Spark, or a writer like it");
    else if (entry.ours && strcmp(entry.query, log->query) != 0 && !log->stranger)
        log->stranger = mt_format("query %s", entry.query);
    else if (entry.ours && strcmp(entry.query, log->query) == 0 &&
             strcmp(entry.sink, log->sink) == 0)
        status = take_ours(log, &entry.record, err);
    files_entry_clear(&entry);
    return status;
}

/* A compact entry says again what was counted before: it starts the count anew, and
 * where a writer left our fields out of it, what we knew stays. */
static enum mt_status take_number(struct files_log *log, struct number number, struct mt_error *err)
{
    struct mt_sink_record known = log->record;
    bool held = log->holds;
    if (number.compact)
        log->holds = false;
    enum mt_status status = read_number(log, number, take_line, log, err);
    if (!log->holds && held) {
        log->holds = true;
        log->record = known;
    }
    return status;
}

static enum mt_status fail_gap(const struct files_log *log, int64_t missing, int64_t highest,
                               struct mt_error *err)
{
    return mt_fail(err, MT_FATAL, MT_CLASS_SINK,
                   "the table's log has a hole: %s goes up to %" PRId64 " and %" PRId64
                   " is missing; put it back from a backup, or write to a new path with a new "
                   "checkpoint",
                   log->dir, highest, missing);
}

static enum mt_status read_new(struct files_log *log, const struct numbers *numbers,
                               struct mt_error *err)
{
    int64_t highest = numbers->n ? numbers->items[numbers->n - 1].n : -1;
    int64_t next = log->compact > log->last ? log->compact : log->last + 1;
    if (highest < log->last)
        return fail_gap(log, log->last, highest, err);
    enum mt_status status = MT_OK;
    for (int64_t i = 0; status == MT_OK && i < numbers->n; i++) {
        struct number number = numbers->items[i];
        if (number.n < next)
            continue;
        if (number.n > next)
            return fail_gap(log, next, highest, err);
        status = take_number(log, number, err);
        log->last = status == MT_OK ? number.n : log->last;
        next++;
    }
    return status;
}

enum mt_status files_log_refresh(struct files_log *log, struct mt_error *err)
{
    struct numbers numbers;
    enum mt_status status = list(log, &numbers, err);
    if (status != MT_OK)
        return status;
    log->interval = interval_of(&numbers, &log->compact);
    status = read_new(log, &numbers, err);
    free(numbers.items);
    return status;
}

struct search {
    const char *word;
    bool found;
};

static enum mt_status search_line(void *ctx, const char *line, size_t len, struct mt_error *err)
{
    (void)len, (void)err;
    struct search *search = ctx;
    search->found = search->found || strstr(line, search->word);
    return MT_OK;
}

enum mt_status files_logged(void *log, const char *word, bool *found, struct mt_error *err)
{
    struct search search = {.word = word};
    enum mt_status status = read_all(log, search_line, &search, err);
    *found = search.found;
    return status;
}

/* ---- writing */

static enum mt_status write_copy(const struct files_log *log, struct files_copy *copy,
                                 struct mt_error *err)
{
    enum mt_status status = MT_OK;
    if (copy->forget_ms > 0)
        status = read_all(log, files_copy_learn, copy, err);
    if (status == MT_OK)
        status = read_all(log, files_copy_line, copy, err);
    files_copy_clear(copy);
    return status;
}

/* copy: what a compact entry repeats; NULL: the entry is none. */
static enum mt_status write_entry(const struct files_log *log, const char *temporary,
                                  struct files_copy *copy, const struct mt_buf *text, int64_t batch,
                                  struct mt_error *err)
{
    struct files_out out;
    int64_t size, mtime_ms;
    enum mt_status status = files_out_open(&out, temporary, O_TRUNC, "file.log", batch, err);
    if (status == MT_OK) {
        files_out_add(&out, "v1", 2); /* errors are kept until the sync */
        if (copy) {
            copy->out = &out;
            status = write_copy(log, copy, err);
        }
        files_out_add(&out, text->data, text->len);
    }
    if (status == MT_OK)
        status = files_out_sync(&out, "file.log", &size, &mtime_ms, err);
    files_out_close(&out);
    return status;
}

/* Links the written entry under its number. *taken: another writer has that number. */
static enum mt_status link_entry(const struct files_log *log, const char *temporary,
                                 struct number number, int64_t batch, bool *taken,
                                 struct mt_error *err)
{
    char *name = name_of(log, number);
    int error = mt_step_fails("file.link", batch);
    if (!error && link(temporary, name) != 0)
        error = errno;
    *taken = error == EEXIST;
    enum mt_status status = MT_OK;
    if (error && !*taken)
        status = files_fail(err, error, "linking (the file system must have hard links)", name);
    if (!error) {
        mt_step("file.link", batch);
        error = mt_step_fails("file.logged", batch);
        status = error ? files_fail(err, error, "making the folder durable:", log->dir)
                       : files_sync_folder(log->dir, batch, err);
    }
    free(name);
    return status;
}

/* Deletes what nobody reads any more; what cannot be deleted is tried at the next one. */
static void trim(const struct files_log *log)
{
    struct numbers numbers;
    struct mt_error ignored;
    if (list(log, &numbers, &ignored) != MT_OK)
        return;
    int64_t oldest = -1;
    struct stat now = {0}, info;
    for (int64_t i = 0; i < numbers.n; i++)
        if (numbers.items[i].compact && numbers.items[i].n <= log->last - KEEP_ENTRIES)
            oldest = numbers.items[i].n;
    for (int64_t i = numbers.n; i-- > 0;) { /* the last one is new: its time is now */
        char *name = name_of(log, numbers.items[i]);
        bool known = stat(name, &info) == 0;
        if (i == numbers.n - 1 && known)
            now = info;
        if (known && numbers.items[i].n < oldest && info.st_mtime < now.st_mtime - KEEP_SECONDS)
            unlink(name);
        free(name);
    }
    free(numbers.items);
}

/* Makes text the entry of that number, a compact one when there is a copy. */
static enum mt_status put_entry(struct files_log *log, const char *temporary, struct number number,
                                struct files_copy *copy, const struct mt_buf *text, int64_t batch,
                                bool *taken, struct mt_error *err)
{
    enum mt_status status =
        write_entry(log, temporary, number.compact ? copy : NULL, text, batch, err);
    if (status == MT_OK) {
        mt_step("file.log", batch);
        status = link_entry(log, temporary, number, batch, taken, err);
    }
    if (unlink(temporary) != 0 && errno != ENOENT && status == MT_OK && !*taken)
        mt_log(MT_WARN, "deleting %s: %s", temporary, strerror(errno));
    if (status != MT_OK || *taken)
        return status;
    log->last = number.n;
    log->compact = number.compact ? number.n : log->compact;
    if (number.compact)
        trim(log);
    return MT_OK;
}

static struct number next_number(const struct files_log *log)
{
    struct number number = {.n = log->last + 1};
    number.compact = (number.n + 1) % log->interval == 0;
    return number;
}

enum mt_status files_log_append(struct files_log *log, const struct mt_sink_record *record,
                                const struct mt_buf *text, bool *lost, struct mt_error *err)
{
    char *temporary = files_log_temporary(log);
    enum mt_status status;
    bool taken;
    do {
        taken = false;
        status = files_log_refresh(log, err);
        *lost = status == MT_OK && log->holds && log->record.batch_id >= record->batch_id;
        struct files_copy copy = {.forget_ms = log->forget_ms};
        if (status == MT_OK && !*lost)
            status = put_entry(log, temporary, next_number(log), &copy, text, record->batch_id,
                               &taken, err);
    } while (status == MT_OK && taken && !*lost);
    free(temporary);
    if (status == MT_OK && !*lost) {
        log->holds = true;
        log->record = *record;
    }
    return status;
}
