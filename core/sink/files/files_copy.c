/* SPDX-License-Identifier: Apache-2.0
 *
 * files_copy.c - which lines a compact entry repeats: all, but for old
 * ones under `retention`.
 *
 * Old lines are known by the time of their file, as in Spark; but the last batch of every
 * query and sink stays, however old: by its line a replay knows that it is stored. */
#include <stdlib.h>
#include <string.h>

#include "sink/files/files_int.h"

static struct files_owner *owner_of(struct files_copy *copy, const struct files_entry *entry)
{
    for (int64_t i = 0; i < copy->n_owners; i++)
        if (strcmp(copy->owners[i].query, entry->query) == 0 &&
            strcmp(copy->owners[i].sink, entry->sink) == 0)
            return &copy->owners[i];
    size_t n = (size_t)copy->n_owners + 1;
    copy->owners = mt_realloc(copy->owners, n * sizeof *copy->owners);
    struct files_owner *owner = &copy->owners[copy->n_owners++];
    *owner = (struct files_owner){mt_strdup(entry->query), mt_strdup(entry->sink), -1};
    return owner;
}

enum mt_status files_copy_learn(void *ctx, const char *line, size_t len, struct mt_error *err)
{
    struct files_copy *copy = ctx;
    struct files_entry entry;
    enum mt_status status = files_entry_parse(line, len, &entry, err);
    if (status != MT_OK)
        return status;
    if (entry.ours) {
        struct files_owner *owner = owner_of(copy, &entry);
        int64_t batch = entry.record.batch_id;
        owner->last = batch > owner->last ? batch : owner->last;
    }
    files_entry_clear(&entry);
    return MT_OK;
}

static bool is_forgotten(struct files_copy *copy, const struct files_entry *entry)
{
    if (entry->mtime_ms >= copy->forget_ms)
        return false;
    return !entry->ours || entry->record.batch_id != owner_of(copy, entry)->last;
}

enum mt_status files_copy_line(void *ctx, const char *line, size_t len, struct mt_error *err)
{
    struct files_copy *copy = ctx;
    if (copy->forget_ms > 0) {
        struct files_entry entry;
        enum mt_status status = files_entry_parse(line, len, &entry, err);
        bool forgotten = status == MT_OK && is_forgotten(copy, &entry);
        files_entry_clear(&entry);
        if (status != MT_OK || forgotten)
            return status;
    }
    if (files_out_add(copy->out, "\n", 1) == 0 && files_out_add(copy->out, line, len) == 0)
        return MT_OK;
    return files_fail(err, copy->out->error, "writing", copy->out->path);
}

void files_copy_clear(struct files_copy *copy)
{
    for (int64_t i = 0; i < copy->n_owners; i++) {
        free(copy->owners[i].query);
        free(copy->owners[i].sink);
    }
    free(copy->owners);
    copy->owners = NULL;
    copy->n_owners = 0;
}
