/* SPDX-License-Identifier: Apache-2.0
 *
 * files_rename.c - files get the names that readers see. Each was durable before; the
 * new names are when every folder that a rename touched was synced. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/step.h"
#include "sink/files/files_int.h"

static enum mt_status rename_file(int64_t batch, const struct files_data *data, const char *path,
                                  struct mt_error *err)
{
    int error = mt_step_fails("file.rename", batch);
    if (!error && rename(data->temporary, path) != 0)
        error = errno;
    if (error)
        return files_fail(err, error, "renaming to", path);
    mt_step("file.rename", batch);
    return MT_OK;
}

static enum mt_status rename_all(const char *table, int64_t batch, const struct files_data *files,
                                 int64_t n, struct mt_error *err)
{
    enum mt_status status = MT_OK;
    for (int64_t i = 0; status == MT_OK && i < n; i++) {
        char *path = mt_format("%s/%s", table, files[i].name);
        status = rename_file(batch, &files[i], path, err);
        free(path);
    }
    return status;
}

/* The folder of name and those between it and the table, from below; what `before` (the
 * file synced last) shares with it is done already. */
static enum mt_status sync_folders_of(const char *table, int64_t batch, const char *name,
                                      const char *before, struct mt_error *err)
{
    char *folder = mt_strdup(name);
    enum mt_status status = MT_OK;
    for (char *slash; status == MT_OK && (slash = strrchr(folder, '/'));) {
        slash[1] = '\0';
        bool done = before && strncmp(before, folder, strlen(folder)) == 0;
        *slash = '\0';
        char *path = mt_format("%s/%s", table, folder);
        if (!done)
            status = files_sync_folder(path, batch, err);
        free(path);
    }
    free(folder);
    return status;
}

/* Every folder that a rename touched, those above it up to the table, and the table. */
static enum mt_status sync_folders(const char *table, int64_t batch, const struct files_data *files,
                                   int64_t n, struct mt_error *err)
{
    enum mt_status status = MT_OK;
    for (int64_t i = 0; status == MT_OK && i < n; i++)
        status = sync_folders_of(table, batch, files[i].name, i ? files[i - 1].name : NULL, err);
    return status == MT_OK ? files_sync_folder(table, batch, err) : status;
}

enum mt_status files_rename(const char *table, int64_t batch, const struct files_data *files,
                            int64_t n, struct mt_error *err)
{
    enum mt_status status = rename_all(table, batch, files, n, err);
    return status == MT_OK ? sync_folders(table, batch, files, n, err) : status;
}
