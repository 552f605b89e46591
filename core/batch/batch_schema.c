/* SPDX-License-Identifier: Apache-2.0
 *
 * batch_schema.c - ArrowSchema as our schema type.
 *
 * There is no schema struct of our own: what the script declares, what Arrow C++
 * imports and what LuaJIT reads are the same bytes. Every node owns its strings and
 * its children, so a child may be moved out of its parent, as Arrow allows. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "batch_int.h"

static void release(struct ArrowSchema *schema)
{
    for (int64_t i = 0; i < schema->n_children; i++) {
        mt_schema_release(schema->children[i]);
        free(schema->children[i]);
    }
    free(schema->children);
    free((char *)schema->format);
    free((char *)schema->name);
    *schema = (struct ArrowSchema){0};
}

void mt_schema_make(const char *format, const char *name, bool nullable, int64_t n_children,
                    struct ArrowSchema *out)
{
    *out = (struct ArrowSchema){
        .format = mt_strdup(format),
        .name = mt_strdup(name),
        .flags = nullable ? ARROW_FLAG_NULLABLE : 0,
        .n_children = n_children,
        .children = n_children ? mt_alloc((size_t)n_children * sizeof(void *)) : NULL,
        .release = release,
    };
    for (int64_t i = 0; i < n_children; i++)
        out->children[i] = mt_alloc(sizeof(struct ArrowSchema));
}

void mt_schema_release(struct ArrowSchema *schema)
{
    if (schema->release)
        schema->release(schema);
}

static void copy_as(const struct ArrowSchema *from, const char *name, struct ArrowSchema *out)
{
    mt_schema_make(from->format, name ? name : "", from->flags & ARROW_FLAG_NULLABLE,
                   from->n_children, out);
    out->flags = from->flags;
    for (int64_t i = 0; i < from->n_children; i++)
        copy_as(from->children[i], from->children[i]->name, out->children[i]);
}

void mt_schema_copy(const struct ArrowSchema *from, struct ArrowSchema *out)
{
    copy_as(from, from->name, out);
}

void mt_schema_of(const struct ArrowSchema *const *fields, const char *const *names, int64_t n,
                  struct ArrowSchema *out)
{
    mt_schema_make("+s", "", false, n, out);
    for (int64_t i = 0; i < n; i++)
        copy_as(fields[i], names && names[i] ? names[i] : fields[i]->name, out->children[i]);
}

enum mt_type mt_schema_type(const struct ArrowSchema *field)
{
    static const char letters[] = "bcsilfgduz";
    static const enum mt_type types[] = {MT_BOOLEAN, MT_TINYINT, MT_SMALLINT, MT_INT,    MT_BIGINT,
                                         MT_FLOAT,   MT_DOUBLE,  MT_DECIMAL,  MT_STRING, MT_BINARY};
    const char *format = field->format;
    const char *letter = strchr(letters, format[0]);
    if (letter && *letter && (format[1] == '\0' || format[0] == 'd'))
        return types[letter - letters];
    if (strcmp(format, "tdD") == 0)
        return MT_DATE;
    if (strncmp(format, "tsu:", 4) == 0)
        return MT_TIMESTAMP;
    if (strcmp(format, "+l") == 0)
        return MT_ARRAY;
    if (strcmp(format, "+s") == 0)
        return MT_STRUCT;
    if (strcmp(format, "+m") == 0)
        return MT_MAP;
    abort(); /* whoever imports a schema turns it into these formats first */
}

void mt_schema_decimal(const struct ArrowSchema *field, int32_t *precision, int32_t *scale)
{
    *precision = *scale = 0;
    if (field->format[0] == 'd')
        sscanf(field->format, "d:%d,%d", precision, scale);
}
