/* SPDX-License-Identifier: Apache-2.0
 *
 * batch_ddl_print.c - a schema as Spark's DDL text; batch_ddl.c reads it back equal. */
#include <ctype.h>
#include <string.h>

#include "batch_int.h"

static void add_type(const struct ArrowSchema *field, struct mt_buf *buf);

static bool is_plain(const char *name)
{
    if (!isalpha((unsigned char)*name) && *name != '_')
        return false;
    while (isalnum((unsigned char)*name) || *name == '_')
        name++;
    return *name == '\0';
}

static void add_name(const char *name, struct mt_buf *buf)
{
    if (is_plain(name)) {
        mt_buf_adds(buf, name);
        return;
    }
    mt_buf_adds(buf, "`");
    for (; *name; name++)
        mt_buf_add(buf, *name == '`' ? "``" : name, *name == '`' ? 2 : 1);
    mt_buf_adds(buf, "`");
}

static void add_columns(const struct ArrowSchema *schema, const char *between, struct mt_buf *buf)
{
    for (int64_t i = 0; i < schema->n_children; i++) {
        const struct ArrowSchema *column = schema->children[i];
        mt_buf_adds(buf, i ? ", " : "");
        add_name(column->name, buf);
        mt_buf_adds(buf, between);
        add_type(column, buf);
        mt_buf_adds(buf, column->flags & ARROW_FLAG_NULLABLE ? "" : " NOT NULL");
    }
}

static void add_decimal(const struct ArrowSchema *field, struct mt_buf *buf)
{
    int32_t precision, scale;
    mt_schema_decimal(field, &precision, &scale);
    mt_buf_addf(buf, "DECIMAL(%d,%d)", precision, scale);
}

static void add_map(const struct ArrowSchema *field, struct mt_buf *buf)
{
    const struct ArrowSchema *entries = field->children[0];
    mt_buf_adds(buf, "MAP<");
    add_type(entries->children[0], buf);
    mt_buf_adds(buf, ", ");
    add_type(entries->children[1], buf);
    mt_buf_adds(buf, ">");
}

static void add_type(const struct ArrowSchema *field, struct mt_buf *buf)
{
    static const char *const plain[] = {
        [MT_BOOLEAN] = "BOOLEAN", [MT_TINYINT] = "TINYINT",     [MT_SMALLINT] = "SMALLINT",
        [MT_INT] = "INT",         [MT_BIGINT] = "BIGINT",       [MT_FLOAT] = "FLOAT",
        [MT_DOUBLE] = "DOUBLE",   [MT_STRING] = "STRING",       [MT_BINARY] = "BINARY",
        [MT_DATE] = "DATE",       [MT_TIMESTAMP] = "TIMESTAMP",
    };
    enum mt_type type = mt_schema_type(field);
    switch (type) {
    case MT_DECIMAL:
        add_decimal(field, buf);
        break;
    case MT_ARRAY:
        mt_buf_adds(buf, "ARRAY<");
        add_type(field->children[0], buf);
        mt_buf_adds(buf, ">");
        break;
    case MT_STRUCT:
        mt_buf_adds(buf, "STRUCT<");
        add_columns(field, ": ", buf);
        mt_buf_adds(buf, ">");
        break;
    case MT_MAP:
        add_map(field, buf);
        break;
    default:
        mt_buf_adds(buf, plain[type]);
    }
}

char *mt_schema_ddl(const struct ArrowSchema *schema)
{
    struct mt_buf buf = {0};
    mt_buf_adds(&buf, "");
    add_columns(schema, " ", &buf);
    return buf.data;
}

char *mt_schema_type_name(const struct ArrowSchema *field)
{
    struct mt_buf buf = {0};
    add_type(field, &buf);
    return buf.data;
}
