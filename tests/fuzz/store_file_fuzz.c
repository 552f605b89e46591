/* SPDX-License-Identifier: Apache-2.0
 *
 * store_file_fuzz.c - a checkpoint whose data.mdb was overwritten in places opens and takes
 * batches, or is refused with words.
 *
 * The input is a list of changes to a sound file, since random bytes would never come
 * past its first page: two bytes of place (in words of 8), one of length, the bytes. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/store.h"

#define HASH "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char dir[64], path[80];
static uint8_t *image;
static size_t image_len;
static struct mt_error err;

static void must(bool ok)
{
    if (!ok) {
        fprintf(stderr, "%s\n", err.text);
        abort();
    }
}

static struct mt_store *open_dir(void)
{
    struct mt_store_options options = {dir, "fuzz", 1 << 20, 8};
    struct mt_store *store = NULL;
    bool fresh;
    if (mt_store_open(&options, &store, &fresh, &err) != MT_OK)
        return NULL;
    return store;
}

static void add_batches(struct mt_store *store, int n)
{
    int64_t plan, commit;
    static char bundle[9000];
    memset(bundle, 'b', sizeof bundle);
    must(mt_store_last(store, &plan, &commit, &err) == MT_OK);
    for (int64_t id = commit + 1; id <= commit + n; id++) {
        char *json =
            mt_format("{\"bundle\":\"%s\",\"pad\":\"%0*d\"}", HASH, (int)(id * 131 % 900), 1);
        must(mt_store_plan_put(store, id, json, HASH, bundle, sizeof bundle, &err) == MT_OK);
        must(mt_store_commit_put(store, id, json, &err) == MT_OK);
        free(json);
    }
}

static void remove_dir(void)
{
    const char *const names[] = {"data.mdb", "lock.mdb", "owner"};
    for (size_t i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        unlink(path);
    }
    rmdir(dir);
}

static void make_image(void)
{
    snprintf(dir, sizeof dir, "/dev/shm/mt-store-fuzz-XXXXXX");
    must(mkdtemp(dir) != NULL);
    atexit(remove_dir);
    struct mt_store *store = open_dir();
    must(store != NULL);
    add_batches(store, 20);
    mt_store_close(store);
    snprintf(path, sizeof path, "%s/data.mdb", dir);
    FILE *file = fopen(path, "r");
    must(file != NULL);
    struct stat st;
    fstat(fileno(file), &st);
    image_len = (size_t)st.st_size;
    image = mt_alloc(image_len);
    must(fread(image, 1, image_len, file) == image_len);
    fclose(file);
}

static void write_changed(const uint8_t *data, size_t size)
{
    int fd = open(path, O_RDWR | O_TRUNC);
    must(fd >= 0 && write(fd, image, image_len) == (ssize_t)image_len);
    while (size >= 3) {
        size_t at = (data[0] | (size_t)data[1] << 8) * 8 % image_len, len = data[2] % 32u;
        data += 3, size -= 3;
        len = len < size ? len : size;
        must(pwrite(fd, data, len, (off_t)at) == (ssize_t)len);
        data += len, size -= len;
    }
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!image)
        make_image();
    write_changed(data, size);
    err.text[0] = '\0';
    struct mt_store *store = open_dir();
    int64_t plan, commit;
    if (store && mt_store_last(store, &plan, &commit, &err) == MT_OK)
        add_batches(store, 3);
    else
        must(err.class_ == MT_CLASS_CHECKPOINT && err.text[0]);
    mt_store_close(store);
    return 0;
}
