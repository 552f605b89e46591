/* SPDX-License-Identifier: Apache-2.0
 *
 * store_create.c - a new checkpoint, and the folders above it.
 *
 * It is whole before it has its name: built in DIR.new, made durable, renamed. What a crash leaves
 * as DIR.new never had an owner that committed anything, and is built again. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/step.h"
#include "store/store_int.h"

static const char *const our_files[] = {"owner", "data.mdb", "lock.mdb"};

static int sync_path(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    int code = fd < 0 || fsync(fd) != 0 ? errno : 0;
    if (fd >= 0)
        close(fd);
    return code;
}

int mt_store_sync_parent(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *parent = slash == path ? mt_strdup("/") : mt_strndup(path, (size_t)(slash - path));
    int code = sync_path(parent);
    free(parent);
    return code;
}

/* Makes the folders above path, durably. */
static int make_parents(const char *path)
{
    int code = 0;
    char *at = mt_strdup(path);
    for (char *slash = strchr(at + 1, '/'); slash && code == 0; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(at, 0777) == 0)
            code = mt_store_sync_parent(at);
        else if (errno != EEXIST)
            code = errno;
        *slash = '/';
    }
    free(at);
    return code;
}

static bool is_ours(const char *name)
{
    for (size_t i = 0; i < sizeof our_files / sizeof our_files[0]; i++)
        if (strcmp(name, our_files[i]) == 0)
            return true;
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* 0, or the errno of a look that failed. */
static int only_ours(const char *dir, bool *ours)
{
    *ours = false;
    DIR *entries = opendir(dir);
    if (!entries)
        return errno;
    *ours = true;
    for (struct dirent *entry; *ours && (entry = readdir(entries));)
        *ours = is_ours(entry->d_name);
    closedir(entries);
    return 0;
}

static int remove_in(const char *dir, const char *name)
{
    char *path = mt_format("%s/%s", dir, name);
    int code = unlink(path) == 0 || errno == ENOENT ? 0 : errno;
    free(path);
    return code;
}

void mt_store_remove_leftover(const char *dir)
{
    struct mt_error ignored;
    int fd = -1;
    bool ours;
    char *building = mt_format("%s.new", dir);
    if (only_ours(building, &ours) == 0 && ours &&
        mt_store_owner_lock(building, "", &fd, &ignored) == MT_OK && fd >= 0) {
        for (size_t i = 0; i < sizeof our_files / sizeof our_files[0]; i++)
            remove_in(building, our_files[i]);
        rmdir(building);
        close(fd);
    }
    free(building);
}

/* ---- a new checkpoint */

struct fact {
    const char *key, *value;
};

static int put_facts_in(struct store_env *env, MDB_txn *txn, void *ctx, struct mt_error *err)
{
    (void)err;
    int code = 0;
    for (const struct fact *fact = ctx; fact->key && code == 0; fact++) {
        MDB_val key = {strlen(fact->key), (void *)fact->key};
        code = mt_store_value_put(env, txn, STORE_META, &key, fact->value, strlen(fact->value));
    }
    return code;
}

static int put_first_facts(struct store_env *env, struct mt_error *err)
{
    char query_id[37], created[32], format[12];
    time_t now = (time_t)(mt_clock_ms() / 1000);
    struct tm utc;
    mt_uuid(query_id);
    gmtime_r(&now, &utc);
    strftime(created, sizeof created, "%Y-%m-%dT%H:%M:%SZ", &utc);
    snprintf(format, sizeof format, "%d", STORE_FORMAT);
    struct fact facts[] = {
        {"query.id", query_id}, {"format", format}, {"version", MT_VERSION},
        {"created", created},   {NULL, NULL},
    };
    return mt_store_write(env, "store.first", -1, put_facts_in, facts, err);
}

/* Everything in `building`, durable; its owner file is locked by us. */
static enum mt_status build(const char *building, int64_t map_bytes, struct mt_error *err)
{
    struct store_env *env;
    bool ours;
    int code = only_ours(building, &ours);
    if (code == 0 && !ours)
        return mt_fail(err, MT_FATAL, MT_CLASS_CHECKPOINT,
                       "%s is where a new checkpoint is built, and it holds other files: move them "
                       "away",
                       building);
    if (code == 0)
        code = remove_in(building, "data.mdb");
    if (code == 0)
        code = remove_in(building, "lock.mdb");
    if (code != 0)
        return mt_store_fail(building, code, "removing what a crash left", err);
    if (mt_store_env_open(building, false, true, map_bytes, &env, err) != MT_OK)
        return MT_FATAL;
    code = put_first_facts(env, err);
    mt_store_env_close(env);
    char *data = mt_format("%s/data.mdb", building);
    if (code == 0)
        code = sync_path(data);
    if (code == 0)
        code = sync_path(building);
    free(data);
    return mt_store_fail(building, code, "making a new checkpoint", err);
}

/* *again: another process came in between, look again. */
static enum mt_status give_name(const char *building, const char *dir, bool *again,
                                struct mt_error *err)
{
    mt_step("store.built", -1);
    if (rename(building, dir) == 0) {
        mt_step("store.renamed", -1);
        return mt_store_fail(dir, mt_store_sync_parent(dir), "making its name durable", err);
    }
    *again = errno == ENOTEMPTY || errno == EEXIST || errno == ENOENT;
    if (*again)
        return MT_OK;
    if (errno == EBUSY || errno == EXDEV)
        return mt_fail(
            err, MT_FATAL, MT_CLASS_CHECKPOINT,
            "checkpoint %s is a mount point, which a new checkpoint cannot replace: give "
            "checkpointLocation a folder inside it",
            dir);
    return mt_store_fail(dir, errno, "giving the new checkpoint its name", err);
}

enum mt_status mt_store_create(const struct mt_store_options *options, const char *dir, int *owner,
                               bool *again, struct mt_error *err)
{
    char *building = mt_format("%s.new", dir);
    enum mt_status status = MT_OK;
    int code = make_parents(dir);
    *owner = -1;
    if (code == 0 && mkdir(building, 0777) != 0 && errno != EEXIST)
        code = errno;
    if (code != 0)
        status = mt_store_fail(dir, code, "making its folder", err);
    if (status == MT_OK)
        status = mt_store_owner_lock(building, options->run_id, owner, err);
    *again = status == MT_OK && *owner < 0;
    if (status == MT_OK && !*again)
        status = build(building, options->map_bytes, err);
    if (status == MT_OK && !*again)
        status = give_name(building, dir, again, err);
    if ((status != MT_OK || *again) && *owner >= 0)
        close(*owner);
    free(building);
    return status;
}
