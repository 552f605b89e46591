/* SPDX-License-Identifier: Apache-2.0
 *
 * delta_fit.c - whether a table is one that may be appended to here.
 *
 * What a table uses that is not known here is refused by name, never overlooked: a writer
 * that does not see a constraint breaks it, and one that forgets old transactions takes a
 * batch twice. Checked before a batch is written and again when another writer came
 * between, for he may have changed the table. */
#include <stdlib.h>
#include <string.h>

#include "sink/delta/delta_int.h"

enum { READER_VERSION = 1, WRITER_VERSION = 4, FEATURES_READER = 3, FEATURES_WRITER = 7 };

/* An append has nothing to do for these, where the properties below are not set. */
static const char *const writer_features[] = {
    "appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns", NULL};

static enum mt_status refuse(const struct delta_sink *delta, struct mt_error *err, const char *what)
{
    return mt_fail(err, MT_FATAL, MT_CLASS_SINK,
                   "the Delta table %s %s: it is not written to here; write to another table, or "
                   "take that away from this one",
                   delta->base.path, what);
}

static bool listed(const char *const *names, const char *name)
{
    for (; *names; names++)
        if (strcmp(*names, name) == 0)
            return true;
    return false;
}

/* ---- protocol */

static enum mt_status features_fit(const struct delta_sink *delta, const char *which,
                                   const char *const *known, struct mt_error *err)
{
    const json_t *names = json_object_get(delta->log.state.protocol, which);
    for (size_t i = 0; i < json_array_size(names); i++) {
        const char *name = json_string_value(json_array_get(names, i));
        char what[200];
        if (name && listed(known, name))
            continue;
        snprintf(what, sizeof what, "needs the table feature \"%.100s\", which is not known here",
                 name ? name : "?");
        return refuse(delta, err, what);
    }
    return MT_OK;
}

static enum mt_status protocol_fits(const struct delta_sink *delta, struct mt_error *err)
{
    static const char *const none[] = {NULL};
    const json_t *protocol = delta->log.state.protocol;
    json_int_t reader = json_integer_value(json_object_get(protocol, "minReaderVersion"));
    json_int_t writer = json_integer_value(json_object_get(protocol, "minWriterVersion"));
    char what[120];
    bool known = (reader <= READER_VERSION || reader == FEATURES_READER) &&
                 (writer <= WRITER_VERSION || writer == FEATURES_WRITER);
    if (!known) {
        snprintf(what, sizeof what,
                 "needs reader version %lld and writer version %lld of Delta's protocol",
                 (long long)reader, (long long)writer);
        return refuse(delta, err, what);
    }
    enum mt_status status = features_fit(delta, "readerFeatures", none, err);
    return status == MT_OK ? features_fit(delta, "writerFeatures", writer_features, err) : status;
}

/* ---- properties */

static bool is_on(const char *value)
{
    return strcmp(value, "true") == 0;
}

static bool is_refused(const char *key, const char *value)
{
    static const char *const switches[] = {"delta.enableDeletionVectors",
                                           "delta.enableInCommitTimestamps",
                                           "delta.enableRowTracking", NULL};
    if (strcmp(key, "delta.columnMapping.mode") == 0)
        return strcmp(value, "none") != 0;
    return strncmp(key, "delta.constraints.", strlen("delta.constraints.")) == 0 ||
           strcmp(key, "delta.setTransactionRetentionDuration") == 0 ||
           (listed(switches, key) && is_on(value));
}

static enum mt_status properties_fit(const struct delta_sink *delta, struct mt_error *err)
{
    json_t *properties = json_object_get(delta->log.state.metadata, "configuration");
    const char *key;
    json_t *item;
    json_object_foreach (properties, key, item) {
        const char *value = json_string_value(item);
        char what[300];
        if (!value || !is_refused(key, value))
            continue;
        snprintf(what, sizeof what, "has the property %.120s = %.80s%s", key, value,
                 strstr(key, "setTransactionRetention")
                     ? ", under which it forgets which batches it holds"
                     : ", which is not known here");
        return refuse(delta, err, what);
    }
    return MT_OK;
}

static enum mt_status columns_fit(const struct delta_sink *delta, struct mt_error *err)
{
    static const char *const marks[] = {"delta.invariants",       "delta.generationExpression",
                                        "delta.identity.start",   "delta.identity.step",
                                        "delta.columnMapping.id", NULL};
    const json_t *fields = json_object_get(delta->log.state.schema, "fields");
    for (size_t i = 0; i < json_array_size(fields); i++) {
        const json_t *field = json_array_get(fields, i);
        for (const char *const *mark = marks; *mark; mark++) {
            char what[300];
            if (!json_object_get(json_object_get(field, "metadata"), *mark))
                continue;
            snprintf(what, sizeof what, "has %s on column \"%.120s\", which is not known here",
                     *mark, json_string_value(json_object_get(field, "name")));
            return refuse(delta, err, what);
        }
    }
    return MT_OK;
}

/* ---- columns */

static bool same_partitions(const struct delta_sink *delta, const json_t *theirs)
{
    if (json_array_size(theirs) != (size_t)delta->base.n_partition_by)
        return false;
    for (size_t i = 0; i < json_array_size(theirs); i++) {
        const char *name = json_string_value(json_array_get(theirs, i));
        if (!name || strcmp(name, delta->base.partition_by[i]) != 0)
            return false;
    }
    return true;
}

static enum mt_status partitions_fit(const struct delta_sink *delta, struct mt_error *err)
{
    const json_t *theirs = json_object_get(delta->log.state.metadata, "partitionColumns");
    if (same_partitions(delta, theirs))
        return MT_OK;
    struct mt_buf cure = {0};
    mt_buf_adds(&cure, json_array_size(theirs) ? "say :partitionBy(" : "leave partitionBy out");
    for (size_t i = 0; i < json_array_size(theirs); i++)
        mt_buf_addf(&cure, "%s\"%s\"", i ? ", " : "", json_string_value(json_array_get(theirs, i)));
    mt_buf_adds(&cure, json_array_size(theirs) ? ")" : "");
    mt_fail(err, MT_FATAL, MT_CLASS_SINK,
            "the Delta table %s is not partitioned as the job says: %s, or write to another table",
            delta->base.path, cure.data);
    mt_buf_free(&cure);
    return MT_FATAL;
}

enum mt_status delta_fits(const struct delta_sink *delta, struct mt_error *err)
{
    if (delta->log.last < 0)
        return MT_OK;
    enum mt_status status = protocol_fits(delta, err);
    if (status == MT_OK)
        status = properties_fit(delta, err);
    if (status == MT_OK)
        status = columns_fit(delta, err);
    if (status == MT_OK)
        status = partitions_fit(delta, err);
    if (status != MT_OK)
        return status;
    status = delta_schema_fits(delta->log.state.schema, delta->base.schema, err);
    return status == MT_OK ? MT_OK
                           : mt_fail_within(err, MT_FATAL, "the Delta table %s", delta->base.path);
}
