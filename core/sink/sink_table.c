/* SPDX-License-Identifier: Apache-2.0
 *
 * sink_table.c - rows as a table, in the form of Spark's show().
 *
 * Cells are measured as Spark does: in UTF-16 units, plus one for a character of East Asian
 * width, which comes out right on most terminals. */
#include <stdlib.h>
#include <string.h>

#include "sink/sink_int.h"

enum { NARROWEST = 3 }; /* characters */

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

static void add_cells(struct sink_table *table, const struct ArrowArray *rows, int64_t row)
{
    int64_t n = table->schema->n_children;
    struct mt_buf text = {0};
    for (int64_t i = 0; i < n; i++) {
        text.len = 0;
        mt_buf_adds(&text, "");
        mt_value_print(table->schema->children[i], rows->children[i], rows->offset + row, &text);
        table->cells[table->n_rows * n + i] = make_cell(text.data, text.len, table->cut);
    }
    table->n_rows++;
    mt_buf_free(&text);
}

void sink_table_add(struct sink_table *table, const struct ArrowArray *rows, int64_t n)
{
    int64_t cells = (table->n_rows + n) * table->schema->n_children;
    table->cells = mt_realloc(table->cells, (size_t)cells * sizeof *table->cells + 1);
    for (int64_t row = 0; row < n; row++)
        add_cells(table, rows, row);
}

void sink_table_clear(struct sink_table *table)
{
    for (int64_t i = 0; i < table->n_rows * table->schema->n_children; i++)
        free(table->cells[i]);
    free(table->cells);
    table->cells = NULL;
    table->n_rows = 0;
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

static int64_t *measure(const struct sink_table *table, char *const *names, int64_t n)
{
    int64_t *widths = mt_alloc((size_t)n * sizeof *widths);
    for (int64_t i = 0; i < n; i++) {
        int64_t most = width_of(names[i]);
        for (int64_t row = 0; row < table->n_rows; row++) {
            int64_t width = width_of(table->cells[row * n + i]);
            most = width > most ? width : most;
        }
        widths[i] = most > NARROWEST ? most : NARROWEST;
    }
    return widths;
}

void sink_table_print(const struct sink_table *table, struct mt_buf *out)
{
    const struct ArrowSchema *schema = table->schema;
    int64_t n = schema->n_children;
    char **names = mt_alloc((size_t)n * sizeof *names);
    for (int64_t i = 0; i < n; i++)
        names[i] = make_cell(schema->children[i]->name, strlen(schema->children[i]->name), 0);
    int64_t *widths = measure(table, names, n);
    add_line(out, widths, n);
    add_row(out, names, widths, n, table->cut > 0);
    add_line(out, widths, n);
    for (int64_t row = 0; row < table->n_rows; row++)
        add_row(out, table->cells + row * n, widths, n, table->cut > 0);
    add_line(out, widths, n);
    for (int64_t i = 0; i < n; i++)
        free(names[i]);
    free(names);
    free(widths);
}

void mt_table_print(const struct ArrowSchema *schema, const struct ArrowArray *rows, int64_t cut,
                    struct mt_buf *out)
{
    struct sink_table table = {.schema = schema, .cut = cut};
    sink_table_add(&table, rows, rows->length);
    sink_table_print(&table, out);
    sink_table_clear(&table);
}

char *mt_table_text(const struct ArrowSchema *schema, const struct ArrowArray *rows, int64_t cut)
{
    struct mt_buf text = {0};
    mt_table_print(schema, rows, cut, &text);
    char *copy = mt_strdup(text.data);
    mt_buf_free(&text);
    return copy;
}
