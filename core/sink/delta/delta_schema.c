/* SPDX-License-Identifier: Apache-2.0
 *
 * delta_schema.c - columns as Delta's schema JSON, and rows held against a table's.
 *
 * Rows must have the table's names and types to the letter: nothing is cast on the way
 * in, so what is read back is what was written. A column of the table that the rows lack
 * is read back as null, when the table allows null there. */
#include <stdlib.h>
#include <string.h>

#include "sink/delta/delta_int.h"

static const char *const type_names[] = {
    [MT_BOOLEAN] = "boolean", [MT_TINYINT] = "byte",        [MT_SMALLINT] = "short",
    [MT_INT] = "integer",     [MT_BIGINT] = "long",         [MT_FLOAT] = "float",
    [MT_DOUBLE] = "double",   [MT_STRING] = "string",       [MT_BINARY] = "binary",
    [MT_DATE] = "date",       [MT_TIMESTAMP] = "timestamp",
};

/* ---- names */

/* Readers put names into places where these mean something; Delta refuses them, too. */
enum mt_status delta_check_names(const struct ArrowSchema *schema, struct mt_error *err)
{
    enum mt_status status = MT_OK;
    for (int64_t i = 0; status == MT_OK && i < schema->n_children; i++) {
        const struct ArrowSchema *field = schema->children[i];
        if (!*field->name || strpbrk(field->name, " ,;{}()\n\t="))
            return mt_fail(err, MT_REJECT, MT_CLASS_JOB,
                           "delta: a column named \"%s\" cannot be stored: Delta's names have no "
                           "blank and none of ,;{}()= in them; rename it before the sink",
                           field->name);
        status = delta_check_names(field, err);
    }
    return status;
}

/* ---- out */

static void print_type(const struct ArrowSchema *field, struct mt_buf *json)
{
    int32_t precision, scale;
    switch (mt_schema_type(field)) {
    case MT_DECIMAL:
        mt_schema_decimal(field, &precision, &scale);
        mt_buf_addf(json, "\"decimal(%d,%d)\"", precision, scale);
        break;
    case MT_ARRAY:
        mt_buf_adds(json, "{\"type\":\"array\",\"elementType\":");
        print_type(field->children[0], json);
        mt_buf_adds(json, ",\"containsNull\":true}");
        break;
    case MT_MAP:
        mt_buf_adds(json, "{\"type\":\"map\",\"keyType\":");
        print_type(field->children[0]->children[0], json);
        mt_buf_adds(json, ",\"valueType\":");
        print_type(field->children[0]->children[1], json);
        mt_buf_adds(json, ",\"valueContainsNull\":true}");
        break;
    case MT_STRUCT:
        delta_schema_print(field, json);
        break;
    default:
        mt_buf_addf(json, "\"%s\"", type_names[mt_schema_type(field)]);
    }
}

void delta_schema_print(const struct ArrowSchema *schema, struct mt_buf *json)
{
    mt_buf_adds(json, "{\"type\":\"struct\",\"fields\":[");
    for (int64_t i = 0; i < schema->n_children; i++) {
        const struct ArrowSchema *field = schema->children[i];
        mt_buf_adds(json, i ? ",{\"name\":" : "{\"name\":");
        mt_buf_add_json(json, field->name, strlen(field->name));
        mt_buf_adds(json, ",\"type\":");
        print_type(field, json);
        mt_buf_adds(json, ",\"nullable\":true,\"metadata\":{}}");
    }
    mt_buf_adds(json, "]}");
}

/* ---- a table's */

static const json_t *field_of(const json_t *fields, const char *name)
{
    for (size_t i = 0; i < json_array_size(fields); i++) {
        const json_t *field = json_array_get(fields, i);
        const char *other = json_string_value(json_object_get(field, "name"));
        if (other && strcmp(other, name) == 0)
            return field;
    }
    return NULL;
}

bool delta_schema_requires(const json_t *table, const char *column)
{
    const json_t *field = field_of(json_object_get(table, "fields"), column);
    return json_is_false(json_object_get(field, "nullable"));
}

static enum mt_status refuse(const char *column, const char *why, struct mt_error *err)
{
    return mt_fail(err, MT_REJECT, MT_CLASS_SINK, "column \"%s\" %s", column, why);
}

static char *text_of(const json_t *type)
{
    if (json_is_string(type))
        return mt_strdup(json_string_value(type));
    char *text = json_dumps(type, JSON_COMPACT);
    return text ? text : mt_strdup("of no type");
}

static enum mt_status refuse_type(const json_t *type, const struct ArrowSchema *field,
                                  const char *column, struct mt_error *err)
{
    struct mt_buf ours = {0};
    print_type(field, &ours);
    char *name = mt_schema_type_name(field), *theirs = text_of(type);
    mt_fail(err, MT_REJECT, MT_CLASS_SINK,
            "column \"%s\" is %s (%s) in the rows and %s in the table: cast it before the sink",
            column, name, ours.data, theirs);
    free(name), free(theirs);
    mt_buf_free(&ours);
    return MT_REJECT;
}

static enum mt_status type_fits(const json_t *type, const struct ArrowSchema *field,
                                const char *column, struct mt_error *err);

static enum mt_status missing_fits(const json_t *fields, const struct ArrowSchema *schema,
                                   const char *within, struct mt_error *err)
{
    for (size_t i = 0; i < json_array_size(fields); i++) {
        const json_t *field = json_array_get(fields, i);
        const char *name = json_string_value(json_object_get(field, "name"));
        int64_t at = 0;
        while (name && at < schema->n_children && strcmp(schema->children[at]->name, name) != 0)
            at++;
        if (!name || at < schema->n_children || !json_is_false(json_object_get(field, "nullable")))
            continue;
        return mt_fail(err, MT_REJECT, MT_CLASS_SINK,
                       "the table needs a value in column \"%s%s\", and the rows have no such "
                       "column: add it with withColumn",
                       within, name);
    }
    return MT_OK;
}

/* within: "" at the top, else "address." */
static enum mt_status fields_fit(const json_t *fields, const struct ArrowSchema *schema,
                                 const char *within, struct mt_error *err)
{
    enum mt_status status = missing_fits(fields, schema, within, err);
    for (int64_t i = 0; status == MT_OK && i < schema->n_children; i++) {
        const struct ArrowSchema *ours = schema->children[i];
        const json_t *theirs = field_of(fields, ours->name);
        char *column = mt_format("%s%s", within, ours->name);
        if (!theirs)
            status = refuse(column,
                            "is not in the table: leave it out with select, or add it to "
                            "the table first",
                            err);
        else if (*within && json_is_false(json_object_get(theirs, "nullable")))
            status = refuse(column,
                            "is NOT NULL in the table, inside another column: that is not "
                            "checked here yet",
                            err);
        else
            status = type_fits(json_object_get(theirs, "type"), ours, column, err);
        free(column);
    }
    return status;
}

/* What a list or map says of the nulls in it. */
static enum mt_status parts_fit(const json_t *type, const char *nulls, const char *column,
                                struct mt_error *err)
{
    if (json_is_true(json_object_get(type, nulls)))
        return MT_OK;
    return refuse(column, "may have no null inside it in the table: that is not checked here yet",
                  err);
}

static enum mt_status nested_fits(const json_t *type, const struct ArrowSchema *field,
                                  const char *column, struct mt_error *err)
{
    enum mt_status status;
    if (mt_schema_type(field) == MT_STRUCT) {
        char *within = mt_format("%s.", column);
        status = fields_fit(json_object_get(type, "fields"), field, within, err);
        free(within);
        return status;
    }
    if (mt_schema_type(field) == MT_ARRAY) {
        status = parts_fit(type, "containsNull", column, err);
        return status == MT_OK ? type_fits(json_object_get(type, "elementType"), field->children[0],
                                           column, err)
                               : status;
    }
    const struct ArrowSchema *pair = field->children[0];
    status = parts_fit(type, "valueContainsNull", column, err);
    if (status == MT_OK)
        status = type_fits(json_object_get(type, "keyType"), pair->children[0], column, err);
    if (status == MT_OK)
        status = type_fits(json_object_get(type, "valueType"), pair->children[1], column, err);
    return status;
}

static enum mt_status type_fits(const json_t *type, const struct ArrowSchema *field,
                                const char *column, struct mt_error *err)
{
    struct mt_buf ours = {0};
    print_type(field, &ours);
    json_t *mine = json_loadb(ours.data, ours.len, JSON_DECODE_ANY, NULL);
    bool nested = json_is_object(mine);
    bool same = nested ? json_is_object(type) && json_equal(json_object_get(mine, "type"),
                                                            json_object_get(type, "type"))
                       : json_equal(mine, type);
    json_decref(mine);
    mt_buf_free(&ours);
    if (!same)
        return refuse_type(type, field, column, err);
    return nested ? nested_fits(type, field, column, err) : MT_OK;
}

enum mt_status delta_schema_fits(const json_t *table, const struct ArrowSchema *schema,
                                 struct mt_error *err)
{
    return fields_fit(json_object_get(table, "fields"), schema, "", err);
}
