/* SPDX-License-Identifier: Apache-2.0
 *
 * files_entry.c - one line of _spark_metadata: Spark's seven fields of a file, and one
 * of ours, "moontide", that says which batch of which query put it there. Spark skips
 * fields that it does not know, so one line serves both. It holds no path of its own:
 * a table that was moved still knows its batches.
 *
 * The path is written as Hadoop prints one: java.net.URI quotes what its grammar does
 * not allow in a path, always the percent sign, and leaves letters of other scripts as
 * they are. When a field is added here, tests/fuzz/sink_entry_fuzz.c has the seeds. */
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "sink/files/files_int.h"

enum { SPARK_BLOCK_BYTES = 33554432 }; /* what Spark writes for local files */

/* ---- names */

/* Java's "other" characters are kept, but for its blanks and controls beyond ASCII. */
static bool is_java_blank(uint32_t c)
{
    return (c >= 0x80 && c <= 0xa0) || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 ||
           c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

static bool is_path_char(uint8_t c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c && strchr("_-!.~'()*/:@&=+$,;", c));
}

void files_uri_path(const char *path, struct mt_buf *buf)
{
    for (const uint8_t *p = (const uint8_t *)path; *p;) {
        int n = *p < 0xc0 ? 1 : *p < 0xe0 ? 2 : *p < 0xf0 ? 3 : 4;
        uint32_t c = n == 1 ? *p : *p & (0xffu >> (n + 1));
        for (int i = 1; i < n; i++)
            c = c << 6 | (p[i] & 0x3fu);
        bool plain = n == 1 ? is_path_char(*p) : !is_java_blank(c);
        if (plain)
            mt_buf_add(buf, p, (size_t)n);
        for (int i = 0; !plain && i < n; i++)
            mt_buf_addf(buf, "%%%02X", p[i]);
        p += n;
    }
}

void files_escape(const char *text, size_t len, struct mt_buf *buf)
{
    for (size_t i = 0; i < len; i++) {
        uint8_t c = (uint8_t)text[i];
        if (c < 0x20 || c == 0x7f || strchr("\"#%'*/:=?\\{[]^", c))
            mt_buf_addf(buf, "%%%02X", c);
        else
            mt_buf_add(buf, text + i, 1);
    }
}

/* ---- out */

void files_marker_print(const char *query, const char *sink, const struct mt_sink_record *record,
                        struct mt_buf *buf)
{
    mt_buf_adds(buf, "\"query\":");
    mt_buf_add_json(buf, query, strlen(query));
    mt_buf_adds(buf, ",\"sink\":");
    mt_buf_add_json(buf, sink, strlen(sink));
    mt_buf_addf(buf,
                ",\"batch\":%" PRId64 ",\"digest\":\"%s\",\"rows\":%" PRId64
                ",\"fingerprint\":\"%016" PRIx64 "\",\"bundle\":\"%s\"",
                record->batch_id, record->digest, record->rows, record->fingerprint,
                record->bundle);
}

void files_entry_print(const struct files_entry *entry, struct mt_buf *buf)
{
    struct mt_buf uri = {0};
    mt_buf_adds(&uri, "file://");
    files_uri_path(entry->path, &uri);
    mt_buf_adds(buf, "{\"path\":");
    mt_buf_add_json(buf, uri.data, uri.len);
    mt_buf_addf(buf,
                ",\"size\":%" PRId64 ",\"isDir\":false,\"modificationTime\":%" PRId64
                ",\"blockReplication\":1,\"blockSize\":%d,\"action\":\"add\"",
                entry->size, entry->mtime_ms, SPARK_BLOCK_BYTES);
    if (entry->ours) {
        mt_buf_adds(buf, ",\"moontide\":{");
        files_marker_print(entry->query, entry->sink, &entry->record, buf);
        mt_buf_adds(buf, "}");
    }
    mt_buf_adds(buf, "}");
    mt_buf_free(&uri);
}

/* ---- in: bytes of others */

static bool get_int(const json_t *object, const char *name, int64_t *value)
{
    const json_t *field = json_object_get(object, name);
    *value = json_integer_value(field);
    return json_is_integer(field) && *value >= 0;
}

/* A text of at most cap - 1 bytes. */
static bool get_text(const json_t *object, const char *name, char *out, size_t cap)
{
    const json_t *field = json_object_get(object, name);
    if (!json_is_string(field) || json_string_length(field) >= cap)
        return false;
    memcpy(out, json_string_value(field), json_string_length(field) + 1);
    return true;
}

static bool get_new_text(const json_t *object, const char *name, char **out)
{
    const json_t *field = json_object_get(object, name);
    if (!json_is_string(field))
        return false;
    *out = mt_strdup(json_string_value(field));
    return true;
}

static bool get_fingerprint(const json_t *object, uint64_t *value)
{
    char text[17], *end;
    if (!get_text(object, "fingerprint", text, sizeof text) || strlen(text) != 16)
        return false;
    *value = strtoull(text, &end, 16);
    return end == text + 16;
}

const char *files_marker_parse(const json_t *marker, char **query, char **sink,
                               struct mt_sink_record *record)
{
    if (!get_new_text(marker, "query", query))
        return "moontide.query";
    if (!get_new_text(marker, "sink", sink))
        return "moontide.sink";
    if (!get_int(marker, "batch", &record->batch_id))
        return "moontide.batch";
    if (!get_text(marker, "digest", record->digest, sizeof record->digest))
        return "moontide.digest";
    if (!get_int(marker, "rows", &record->rows))
        return "moontide.rows";
    if (!get_fingerprint(marker, &record->fingerprint))
        return "moontide.fingerprint";
    if (!get_text(marker, "bundle", record->bundle, sizeof record->bundle))
        return "moontide.bundle";
    return NULL;
}

/* Name of the field at fault, or NULL. */
static const char *parse_ours(const json_t *ours, struct files_entry *entry)
{
    entry->record.bytes = entry->size;
    entry->ours = true;
    return files_marker_parse(ours, &entry->query, &entry->sink, &entry->record);
}

static const char *parse_fields(const json_t *line, struct files_entry *entry)
{
    if (!get_new_text(line, "path", &entry->path))
        return "path";
    if (!get_int(line, "size", &entry->size))
        return "size";
    if (!get_int(line, "modificationTime", &entry->mtime_ms))
        return "modificationTime";
    if (!json_is_string(json_object_get(line, "action")))
        return "action";
    const json_t *ours = json_object_get(line, "moontide");
    return ours ? parse_ours(ours, entry) : NULL;
}

enum mt_status files_entry_parse(const char *line, size_t len, struct files_entry *entry,
                                 struct mt_error *err)
{
    *entry = (struct files_entry){0};
    json_error_t why;
    json_t *root = json_loadb(line, len, 0, &why);
    if (!json_is_object(root)) {
        json_decref(root);
        return mt_fail(err, MT_REJECT, MT_CLASS_SINK, "%s", root ? "not a JSON object" : why.text);
    }
    const char *bad = parse_fields(root, entry);
    json_decref(root);
    if (!bad)
        return MT_OK;
    files_entry_clear(entry);
    return mt_fail(err, MT_REJECT, MT_CLASS_SINK, "field \"%s\" is missing or wrong", bad);
}

void files_entry_clear(struct files_entry *entry)
{
    free(entry->path);
    free(entry->query);
    free(entry->sink);
    *entry = (struct files_entry){0};
}
