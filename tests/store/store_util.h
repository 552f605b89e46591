/* SPDX-License-Identifier: Apache-2.0
 *
 * store_util.h - a folder for each test, plans and commits in one line, and children
 * that die. */
#ifndef STORE_UTIL_H
#define STORE_UTIL_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "store/store.h"

#define HASH_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define HASH_B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

static char root[64], dir[80]; /* dir is not there at first */
static struct mt_error err;

static inline int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

static inline int make_root(void **state)
{
    (void)state;
    /* in memory where there is such a folder: the cases are many and each is durable */
    snprintf(root, sizeof root, "/dev/shm/mt-store-XXXXXX");
    if (!mkdtemp(root)) {
        snprintf(root, sizeof root, "/tmp/mt-store-XXXXXX");
        if (!mkdtemp(root))
            return -1;
    }
    snprintf(dir, sizeof dir, "%s/out.checkpoint", root);
    memset(&err, 0, sizeof err);
    return 0;
}

static inline int remove_root(void **state)
{
    (void)state;
    unsetenv("MOONTIDE_KILL");
    unsetenv("MOONTIDE_FAIL");
    return nftw(root, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

#define store_test(fn) cmocka_unit_test_setup_teardown(fn, make_root, remove_root)

static inline void expect_ok(enum mt_status status)
{
    if (status != MT_OK)
        fail_msg("%s", err.text);
}

static inline void expect_fatal(enum mt_status status, enum mt_class class_, const char *words)
{
    assert_int_equal(status, MT_FATAL);
    if (err.class_ != class_ || !strstr(err.text, words))
        fail_msg("class %d, \"%s\" (expected class %d, \"%s\")", err.class_, err.text, class_,
                 words);
}

static inline enum mt_status try_open(int64_t map_bytes, int64_t keep, struct mt_store **store,
                                      bool *fresh)
{
    struct mt_store_options options = {dir, "run-1", map_bytes, keep};
    *store = NULL;
    return mt_store_open(&options, store, fresh, &err);
}

static inline struct mt_store *open_sized(int64_t map_bytes, int64_t keep)
{
    struct mt_store *store;
    bool fresh;
    expect_ok(try_open(map_bytes, keep, &store, &fresh));
    return store;
}

static inline struct mt_store *open_store(void)
{
    return open_sized(1 << 20, 0);
}

static inline char *plan_json(int64_t id, const char *hash, size_t padding)
{
    char *pad = mt_alloc(padding + 1);
    memset(pad, 'p', padding);
    char *json =
        mt_format("{\"batchId\":%" PRId64 ",\"bundle\":\"%s\",\"pad\":\"%s\"}", id, hash, pad);
    free(pad);
    return json;
}

static inline enum mt_status put_plan(struct mt_store *store, int64_t id, const char *hash,
                                      const char *bundle)
{
    char *json = plan_json(id, hash, 300);
    enum mt_status status = mt_store_plan_put(store, id, json, hash, bundle, strlen(bundle), &err);
    free(json);
    return status;
}

static inline enum mt_status put_commit(struct mt_store *store, int64_t id)
{
    char json[64];
    snprintf(json, sizeof json, "{\"commit\":%" PRId64 "}", id);
    return mt_store_commit_put(store, id, json, &err);
}

static inline void run_batch(struct mt_store *store, int64_t id)
{
    expect_ok(put_plan(store, id, HASH_A, "the script"));
    expect_ok(put_commit(store, id));
}

static inline void expect_last(struct mt_store *store, int64_t plan, int64_t commit)
{
    int64_t p, c;
    expect_ok(mt_store_last(store, &p, &c, &err));
    assert_int_equal(p, plan);
    assert_int_equal(c, commit);
}

/* The value, or NULL; the caller frees. */
static inline char *get(struct mt_store *store, enum mt_record kind, int64_t id)
{
    struct mt_buf value = {0};
    bool found;
    expect_ok(mt_store_get(store, kind, id, &value, &found, &err));
    assert_true(found == (value.data != NULL));
    return value.data;
}

static inline bool has(struct mt_store *store, enum mt_record kind, int64_t id)
{
    char *value = get(store, kind, id);
    free(value);
    return value != NULL;
}

static inline bool has_bundle(struct mt_store *store, const char *hash)
{
    struct mt_buf value = {0};
    bool found;
    expect_ok(mt_store_bundle_get(store, hash, &value, &found, &err));
    mt_buf_free(&value);
    return found;
}

static inline bool exists(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0;
}

static inline const char *in_dir(const char *name)
{
    static char path[200];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

static inline int64_t size_of(const char *path)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    return st.st_size;
}

static inline void write_file(const char *path, const void *bytes, size_t len)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, len, file), len);
    fclose(file);
}

/* Runs fn in a child and returns how it ended (wait status). */
static inline int in_child(void (*fn)(void *), void *ctx)
{
    int status;
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        fn(ctx);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}
#endif
