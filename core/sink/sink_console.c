/* SPDX-License-Identifier: Apache-2.0
 *
 * sink_console.c - a batch as a table on standard output, in the form of Spark's show().
 *
 * A batch is printed at commit, in one go: an aborted one never shows, and lines of
 * others do not come between. What was printed cannot be asked back, so a batch may be
 * printed again after a crash. Cells are measured as Spark does: in UTF-16 units, plus
 * one for a character of East Asian width, which comes out right on most terminals. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "sink/sink_int.h"

enum { SPARK_CUT = 20, NARROWEST = 3 }; /* characters */

struct console_sink {
    struct mt_sink base;
    int64_t num_rows;
    char *truncate;
    int64_t cut; /* characters a cell may have; 0: any */
    bool open;
    struct mt_sink_record given;
    char **cells; /* of the first rows, row by row */
    int64_t n_shown;
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
    if (console->num_rows < 0) {
        mt_fail(err, MT_FATAL, MT_CLASS_JOB, "console: numRows is %lld: 0 or more is expected",
                (long long)console->num_rows);
        option = "numRows";
    } else if (parse_truncate(console->truncate, &console->cut) != MT_OK) {
        mt_fail(err, MT_FATAL, MT_CLASS_JOB,
                "console: truncate is \"%s\": true, false or a number of characters is expected",
                console->truncate);
        option = "truncate";
    }
    if (option)
        snprintf(err->option, sizeof err->option, "%s", option);
    return option ? MT_FATAL : MT_OK;
}

static enum mt_status console_recover(struct mt_sink *sink, const char *query_id, bool first_batch,
                                      struct mt_error *err)
{
    (void)sink, (void)query_id, (void)first_batch, (void)err;
    return MT_OK;
}

static void forget_rows(struct console_sink *console)
{
    int64_t n = console->n_shown * console->base.schema->n_children;
    for (int64_t i = 0; i < n; i++)
        free(console->cells[i]);
    free(console->cells);
    console->cells = NULL;
    console->n_shown = 0;
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

/* ---- cells: text, measured and cut */

/* The next character of UTF-8 text (valid, or one byte at a time). */
static uint32_t next_char(const char **text)
{
    const uint8_t *p = (const uint8_t *)*text;
    int more = *p >= 0xf0 ? 3 : *p >= 0xe0 ? 2 : *p >= 0xc0 ? 1 : 0;
    uint32_t c = more ? *p & (0x3fu >> more) : *p;
    for (int i = 1; i <= more && (p[i] & 0xc0) == 0x80; i++) {
        c = c << 6 | (p[i] & 0x3f);
        (*text)++;
    }
    (*text)++;
    return c;
}

static bool is_wide(uint32_t c)
{
    static const uint32_t wide[][2] = {{0x1100, 0x115f}, {0x2e80, 0xa4cf}, {0xac00, 0xd7a3},
                                       {0xf900, 0xfaff}, {0xfe30, 0xfe6f}, {0xff00, 0xff60},
                                       {0xffe0, 0xffe6}};
    for (size_t i = 0; i < sizeof wide / sizeof *wide; i++)
        if (c >= wide[i][0] && c <= wide[i][1])
            return true;
    return false;
}

static int64_t units(uint32_t c)
{
    return c > 0xffff ? 2 : 1;
}

static int64_t length_of(const char *text)
{
    int64_t n = 0;
    while (*text)
        n += units(next_char(&text));
    return n;
}

static int64_t width_of(const char *text)
{
    int64_t n = 0;
    while (*text) {
        uint32_t c = next_char(&text);
        n += units(c) + is_wide(c);
    }
    return n;
}

static void cut_cell(char *text, int64_t cut)
{
    if (cut == 0 || length_of(text) <= cut)
        return;
    int64_t keep = cut < 4 ? cut : cut - 3; /* no dots in the shortest */
    const char *end = text;
    for (const char *next = text; keep > 0; end = next) {
        keep -= units(next_char(&next));
        if (keep < 0)
            break;
    }
    strcpy(text + (end - text), cut < 4 ? "" : "...");
}

/* What would break the table or steer the terminal stands as \n, \t, \x1B. The cell has
 * room for the dots of a cut. */
static char *make_cell(const char *text, size_t len, int64_t cut)
{
    static const char plain[] = "\n\r\t\f\b\v\a", names[] = "nrtfbva";
    struct mt_buf cell = {0};
    for (size_t i = 0; i < len; i++) {
        const char *meta = text[i] ? strchr(plain, text[i]) : NULL;
        if (meta)
            mt_buf_addf(&cell, "\\%c", names[meta - plain]);
        else if ((uint8_t)text[i] < 0x20 || text[i] == 0x7f)
            mt_buf_addf(&cell, "\\x%02X", text[i]);
        else
            mt_buf_add(&cell, text + i, 1);
    }
    mt_buf_reserve(&cell, 3);
    cell.data[cell.len] = '\0';
    cut_cell(cell.data, cut);
    return cell.data;
}

static void keep_row(struct console_sink *console, const struct mt_batch *rows, int64_t row)
{
    const struct ArrowSchema *schema = console->base.schema;
    struct mt_buf text = {0};
    for (int64_t i = 0; i < schema->n_children; i++) {
        text.len = 0;
        mt_buf_adds(&text, "");
        mt_value_print(schema->children[i], rows->array.children[i], rows->array.offset + row,
                       &text);
        console->cells[console->n_shown * schema->n_children + i] =
            make_cell(text.data, text.len, console->cut);
    }
    console->n_shown++;
    mt_buf_free(&text);
}

static enum mt_status console_write(struct mt_sink *sink, const struct mt_batch *rows,
                                    struct mt_error *err)
{
    struct console_sink *console = (struct console_sink *)sink;
    if (!console->open)
        return sink_not_open(sink, "write", err);
    int64_t n = console->num_rows - console->n_shown;
    n = n < rows->array.length ? n : rows->array.length;
    int64_t cells = (console->n_shown + n) * sink->schema->n_children;
    console->cells = mt_realloc(console->cells, (size_t)cells * sizeof *console->cells + 1);
    for (int64_t row = 0; row < n; row++)
        keep_row(console, rows, row);
    console->given.rows += rows->array.length;
    return MT_OK;
}

/* ---- the table */

static void add_line(struct mt_buf *out, const int64_t *widths, int64_t n)
{
    mt_buf_adds(out, "+");
    for (int64_t i = 0; i < n; i++) {
        for (int64_t k = 0; k < widths[i]; k++)
            mt_buf_adds(out, "-");
        mt_buf_adds(out, "+");
    }
    mt_buf_adds(out, "\n");
}

static void add_blanks(struct mt_buf *out, int64_t n)
{
    for (; n > 0; n--)
        mt_buf_adds(out, " ");
}

static void add_row(struct mt_buf *out, char *const *cells, const int64_t *widths, int64_t n,
                    bool align_right)
{
    mt_buf_adds(out, "|");
    for (int64_t i = 0; i < n; i++) {
        int64_t pad = widths[i] - width_of(cells[i]);
        add_blanks(out, align_right ? pad : 0);
        mt_buf_adds(out, cells[i]);
        add_blanks(out, align_right ? 0 : pad);
        mt_buf_adds(out, "|");
    }
    mt_buf_adds(out, "\n");
}

static int64_t *measure(const struct console_sink *console, char *const *names, int64_t n)
{
    int64_t *widths = mt_alloc((size_t)n * sizeof *widths);
    for (int64_t i = 0; i < n; i++) {
        int64_t most = width_of(names[i]);
        for (int64_t row = 0; row < console->n_shown; row++) {
            int64_t width = width_of(console->cells[row * n + i]);
            most = width > most ? width : most;
        }
        widths[i] = most > NARROWEST ? most : NARROWEST;
    }
    return widths;
}

static void add_table(struct mt_buf *out, const struct console_sink *console)
{
    const struct ArrowSchema *schema = console->base.schema;
    int64_t n = schema->n_children;
    char **names = mt_alloc((size_t)n * sizeof *names);
    for (int64_t i = 0; i < n; i++)
        names[i] = make_cell(schema->children[i]->name, strlen(schema->children[i]->name), 0);
    int64_t *widths = measure(console, names, n);
    add_line(out, widths, n);
    add_row(out, names, widths, n, console->cut > 0);
    add_line(out, widths, n);
    for (int64_t row = 0; row < console->n_shown; row++)
        add_row(out, console->cells + row * n, widths, n, console->cut > 0);
    add_line(out, widths, n);
    for (int64_t i = 0; i < n; i++)
        free(names[i]);
    free(names);
    free(widths);
}

static enum mt_status print(const struct console_sink *console, struct mt_error *err)
{
    static const char rule[] = "-------------------------------------------\n";
    struct mt_buf out = {0};
    mt_buf_addf(&out, "%sBatch: %lld\n%s", rule, (long long)console->given.batch_id, rule);
    add_table(&out, console);
    if (console->given.rows > console->n_shown)
        mt_buf_addf(&out, "only showing top %lld row%s\n", (long long)console->num_rows,
                    console->num_rows == 1 ? "" : "s");
    else
        mt_buf_adds(&out, "\n");
    errno = 0;
    bool done = fwrite(out.data, 1, out.len, stdout) == out.len && fflush(stdout) == 0;
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
