/* SPDX-License-Identifier: Apache-2.0
 *
 * sink_console.c - a batch as a table on standard output, in the form of Spark's show().
 *
 * A batch is printed at commit, in one go: an aborted one never shows, and lines of
 * others do not come between. A host that writes to standard output itself takes the text
 * and keeps the order. What was printed cannot be asked back, so a batch may be
 * printed again after a crash. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "sink/sink_int.h"

enum { SPARK_CUT = 20 }; /* characters */

struct console_sink {
    struct mt_sink base;
    int64_t num_rows;
    char *truncate;
    bool open;
    struct mt_sink_record given;
    struct sink_table table; /* of the first rows */
};

static const struct mt_option console_options[] = {
    {"numRows", MT_OPT_INT, "20", offsetof(struct console_sink, num_rows), NULL,
     "rows of a batch that are printed"},
    {"truncate", MT_OPT_STRING, "true", offsetof(struct console_sink, truncate), NULL,
     "true: cut cells to 20 characters and align right; false: neither; a number: cut to it"},
    {0},
};

static enum mt_status parse_truncate(const char *text, int64_t *cut)
{
    char *end;
    *cut = strcasecmp(text, "true") == 0 ? SPARK_CUT : 0;
    if (*cut || strcasecmp(text, "false") == 0)
        return MT_OK;
    errno = 0;
    *cut = strtoll(text, &end, 10);
    return end != text && !*end && !errno && *cut >= 0 ? MT_OK : MT_FATAL;
}

static enum mt_status console_open(struct mt_sink *sink, struct mt_error *err)
{
    struct console_sink *console = (struct console_sink *)sink;
    const char *option = NULL;
    console->table.schema = sink->schema;
    if (console->num_rows < 0) {
        mt_fail(err, MT_FATAL, MT_CLASS_JOB, "console: numRows is %lld: 0 or more is expected",
                (long long)console->num_rows);
        option = "numRows";
    } else if (parse_truncate(console->truncate, &console->table.cut) != MT_OK) {
        mt_fail(err, MT_FATAL, MT_CLASS_JOB,
                "console: truncate is \"%s\": true, false or a number of characters is expected",
                console->truncate);
        option = "truncate";
    }
    if (option)
        snprintf(err->option, sizeof err->option, "%s", option);
    return option ? MT_FATAL : MT_OK;
}

static enum mt_status console_recover(struct mt_sink *sink, const char *query_id,
                                      struct mt_error *err)
{
    (void)sink, (void)query_id, (void)err;
    return MT_OK;
}

static void forget_rows(struct console_sink *console)
{
    sink_table_clear(&console->table);
    console->open = false;
}

static enum mt_status console_begin(struct mt_sink *sink, const struct mt_sink_batch *batch,
                                    enum mt_sink_answer *answer, struct mt_sink_record *record,
                                    struct mt_error *err)
{
    (void)record, (void)err;
    struct console_sink *console = (struct console_sink *)sink;
    forget_rows(console);
    console->open = true;
    console->given = sink_record_of(batch);
    *answer = MT_SINK_NEW;
    return MT_OK;
}

static enum mt_status console_write(struct mt_sink *sink, const struct mt_batch *rows,
                                    struct mt_error *err)
{
    struct console_sink *console = (struct console_sink *)sink;
    if (!console->open)
        return sink_not_open(sink, "write", err);
    int64_t n = console->num_rows - console->table.n_rows;
    sink_table_add(&console->table, &rows->array, n < rows->array.length ? n : rows->array.length);
    console->given.rows += rows->array.length;
    return MT_OK;
}

static enum mt_status print(const struct console_sink *console, struct mt_error *err)
{
    static const char rule[] = "-------------------------------------------\n";
    struct mt_buf out = {0};
    mt_buf_addf(&out, "%sBatch: %lld\n%s", rule, (long long)console->given.batch_id, rule);
    sink_table_print(&console->table, &out);
    if (console->given.rows > console->table.n_rows)
        mt_buf_addf(&out, "only showing top %lld row%s\n", (long long)console->num_rows,
                    console->num_rows == 1 ? "" : "s");
    else
        mt_buf_adds(&out, "\n");
    bool done = true;
    errno = 0;
    if (console->base.print)
        console->base.print(console->base.print_ctx, out.data);
    else
        done = fwrite(out.data, 1, out.len, stdout) == out.len && fflush(stdout) == 0;
    mt_buf_free(&out);
    if (!done)
        return mt_fail(err, MT_FATAL, errno == ENOSPC ? MT_CLASS_MACHINE : MT_CLASS_SINK,
                       "console: writing to standard output: %s", strerror(errno));
    return MT_OK;
}

static enum mt_status console_commit(struct mt_sink *sink, struct mt_sink_record *record,
                                     struct mt_error *err)
{
    struct console_sink *console = (struct console_sink *)sink;
    if (!console->open)
        return sink_not_open(sink, "commit", err);
    enum mt_status status = print(console, err);
    *record = console->given;
    forget_rows(console);
    return status;
}

static void console_abort(struct mt_sink *sink)
{
    forget_rows((struct console_sink *)sink);
}

static void console_describe(struct mt_sink *sink, const char *query_id, struct mt_buf *json)
{
    (void)sink, (void)query_id;
    mt_buf_adds(
        json, "{\"description\":\"ConsoleTable\",\"guarantee\":\"at least once\",\"marker\":null}");
}

static void console_close(struct mt_sink *sink)
{
    forget_rows((struct console_sink *)sink);
}

const struct mt_sink_type sink_console = {
    .name = "console",
    .help = "prints each batch as a table on standard output",
    .options = console_options,
    .size = sizeof(struct console_sink),
    .open = console_open,
    .recover = console_recover,
    .begin = console_begin,
    .write = console_write,
    .commit = console_commit,
    .abort = console_abort,
    .describe = console_describe,
    .close = console_close,
};
