/* SPDX-License-Identifier: Apache-2.0
 *
 * base_files.c - what lies below a folder. */
#include <errno.h>
#include <fts.h>
#include <string.h>

#include "base/base.h"

static int by_name(const FTSENT **a, const FTSENT **b)
{
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

static enum mt_status refuse(const char *path, int error, struct mt_error *err)
{
    bool machine = error == EMFILE || error == ENFILE || error == ENOMEM;
    return mt_fail(err, MT_FATAL, machine ? MT_CLASS_MACHINE : MT_CLASS_DATA, "cannot read %s: %s",
                   path, strerror(error));
}

enum mt_status mt_path_files(const char *path, char **json, struct mt_error *err)
{
    char *roots[] = {(char *)path, NULL};
    FTS *tree = fts_open(roots, FTS_LOGICAL | FTS_NOCHDIR, by_name);
    struct mt_buf out = {0};
    enum mt_status status = tree ? MT_OK : refuse(path, errno, err);
    mt_buf_adds(&out, "[");
    for (FTSENT *entry; status == MT_OK && (entry = fts_read(tree));) {
        const char *name = entry->fts_path + strlen(path);
        name += *name == '/';
        if (entry->fts_info == FTS_NS || entry->fts_info == FTS_DNR || entry->fts_info == FTS_ERR)
            status = refuse(entry->fts_path, entry->fts_errno, err);
        if (entry->fts_info != FTS_F)
            continue;
        mt_buf_adds(&out, out.len > 1 ? "," : "");
        mt_buf_add_json(&out, name, strlen(name));
    }
    if (tree)
        fts_close(tree);
    mt_buf_adds(&out, "]");
    if (status == MT_OK)
        *json = out.data;
    else
        mt_buf_free(&out);
    return status;
}
