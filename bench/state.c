/* SPDX-License-Identifier: Apache-2.0
 *
 * state.c DIR [KEYS…] - what keyed state costs at 200,000 and 5,000,000 keys: reading and changing
 * 10,000 and 100,000 keys a batch, its commit, walking over all, starting with it. DIR must not be
 * there. CPU time but for commit and start, which wait for the disk; the best of three. A line of
 * JSON for each. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "store/store.h"

#define HASH "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
enum { FILL = 200000, ROUNDS = 3, VALUE = 24 };

static struct mt_error err;

static void need(enum mt_status status)
{
    if (status == MT_OK)
        return;
    fprintf(stderr, "bench: %s\n", err.text);
    exit(1);
}

static double seconds(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static struct mt_store *open_store(const char *dir)
{
    struct mt_store_options options = {dir, "bench", 0, 0};
    struct mt_store *store;
    bool fresh;
    need(mt_store_open(&options, &store, &fresh, &err));
    return store;
}

static void plan(struct mt_store *store, int64_t id)
{
    need(mt_store_ensure_space(store, &err));
    need(mt_store_plan_put(store, id, "{\"bundle\":\"" HASH "\"}", HASH, "", 0, &err));
}

/* Keys of 10 bytes, neighbours in number far apart in order. */
static size_t key_of(int64_t i, char out[24])
{
    return (size_t)snprintf(out, 24, "s%09" PRIu64, (uint64_t)i * 2654435761u % 1000000000u);
}

static void put(struct mt_state *state, int64_t i)
{
    static const char value[VALUE];
    char key[24];
    need(mt_state_put(state, key, key_of(i, key), value, VALUE, &err));
}

static int64_t fill(struct mt_store *store, int64_t keys)
{
    int64_t id = 0;
    for (int64_t at = 0; at < keys; id++) {
        plan(store, id);
        for (int64_t end = at + FILL < keys ? at + FILL : keys; at < end; at++)
            put(mt_store_state(store), at);
        need(mt_store_commit_put(store, id, "{}", &err));
    }
    return id;
}

static void touch(struct mt_state *state, int64_t keys, int64_t dirty, uint64_t *chance)
{
    for (int64_t i = 0; i < dirty; i++) {
        const void *value;
        size_t len;
        char key[24];
        *chance ^= *chance << 13, *chance ^= *chance >> 7, *chance ^= *chance << 17;
        int64_t which = (int64_t)(*chance % (uint64_t)keys);
        need(mt_state_get(state, key, key_of(which, key), &value, &len, &err));
        put(state, which);
    }
}

/* From here until the line's end: what was measured, as JSON. */
static void begin_line(int64_t keys, const char *what)
{
    printf("{\"keys\":%" PRId64 ",\"what\":\"%s\"", keys, what);
}

static void measure_batches(struct mt_store *store, int64_t id, int64_t keys, int64_t dirty)
{
    uint64_t chance = 88172645463325252u;
    double change = 1e9, commit = 1e9;
    for (int64_t end = id + ROUNDS; id < end; id++) {
        plan(store, id);
        double began = seconds(CLOCK_PROCESS_CPUTIME_ID);
        touch(mt_store_state(store), keys, dirty, &chance);
        double changed = seconds(CLOCK_PROCESS_CPUTIME_ID) - began;
        began = seconds(CLOCK_MONOTONIC);
        need(mt_store_commit_put(store, id, "{}", &err));
        double committed = seconds(CLOCK_MONOTONIC) - began;
        change = changed < change ? changed : change;
        commit = committed < commit ? committed : commit;
    }
    begin_line(keys, "batch");
    printf(",\"dirty\":%" PRId64 ",\"get_put_ns\":%.0f,\"commit_ms\":%.1f}\n", dirty,
           change * 1e9 / (double)dirty, commit * 1e3);
}

static void measure_walk(struct mt_store *store)
{
    const void *key = NULL, *value;
    size_t key_len = 0, len;
    int64_t n = 0;
    double began = seconds(CLOCK_PROCESS_CPUTIME_ID);
    for (;; n++) {
        need(mt_state_next(mt_store_state(store), NULL, 0, key, key_len, &key, &key_len, &value,
                           &len, &err));
        if (!key)
            break;
    }
    begin_line(n, "walk");
    printf(",\"key_ns\":%.0f}\n", (seconds(CLOCK_PROCESS_CPUTIME_ID) - began) * 1e9 / (double)n);
}

static void measure(const char *root, int64_t keys)
{
    char *dir = mt_format("%s/%" PRId64, root, keys);
    struct mt_store *store = open_store(dir);
    int64_t id = fill(store, keys);
    measure_batches(store, id, keys, 10000);
    measure_batches(store, id + ROUNDS, keys, 100000);
    measure_walk(store);
    mt_store_close(store);
    double began = seconds(CLOCK_MONOTONIC);
    store = open_store(dir);
    begin_line(keys, "start");
    printf(",\"seconds\":%.2f}\n", seconds(CLOCK_MONOTONIC) - began);
    mt_store_close(store);
    free(dir);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: bench_state DIR [KEYS...]\n");
        return 2;
    }
    for (int i = 2; i < argc; i++)
        measure(argv[1], atoll(argv[i]));
    if (argc == 2) {
        measure(argv[1], 200000);
        measure(argv[1], 5000000);
    }
    return 0;
}
