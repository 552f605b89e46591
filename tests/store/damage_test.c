/* SPDX-License-Identifier: Apache-2.0
 *
 * damage_test.c - every kind of damage to data.mdb is refused with words or changes
 * nothing that is read, and never kills the process.
 *
 * Each case runs in a child, since the failure looked for is a signal. A file that
 * opens must read as before, take more batches, and be sound after them. */
#include "store_util.h"

#include <fcntl.h>
#include <sys/mman.h>

enum { KEEP = 30, BATCHES = 42, CHUNK = 500, FACTS = 3 }; /* 42: its last write is a plan */

static char *image, *older; /* data.mdb, and as it was four batches earlier */
static size_t image_len, older_len;
static char *expected, *previous; /* what reads from it, and before the last write */

static char *read_image(size_t *len)
{
    FILE *file = fopen(in_dir("data.mdb"), "r");
    assert_non_null(file);
    *len = (size_t)size_of(in_dir("data.mdb"));
    char *bytes = mt_alloc(*len);
    assert_int_equal(fread(bytes, 1, *len, file), *len);
    fclose(file);
    return bytes;
}

static void add_value(struct mt_buf *all, enum mt_status status, bool found, struct mt_buf *value)
{
    char hash[65] = "none";
    if (status == MT_OK && found)
        mt_sha256_hex(value->data, value->len, hash);
    mt_buf_addf(all, "%d %s\n", status, hash);
    mt_buf_free(value);
}

static void add_state(struct mt_buf *all, struct mt_state *state)
{
    const void *key = NULL, *value;
    size_t key_len = 0, len;
    do {
        enum mt_status status = mt_state_next(state, NULL, 0, key, key_len, &key, &key_len, &value,
                                              &len, &err);
        struct mt_buf copy = {0};
        if (key)
            mt_buf_add(&copy, value, len);
        add_value(all, status, key != NULL, &copy);
    } while (key);
    mt_buf_addf(all, "%lld keys\n", (long long)mt_state_count(state));
}

/* Everything that can be read, as text. */
static char *read_all(struct mt_store *store)
{
    static const char *const facts[FACTS] = {"start.0", "options", "created"};
    static const char *const hashes[] = {HASH_A, HASH_B};
    struct mt_buf all = {0};
    int64_t plan, commit;
    if (mt_store_last(store, &plan, &commit, &err) != MT_OK) {
        mt_buf_free(&all);
        return NULL;
    }
    mt_buf_addf(&all, "%s %lld %lld\n", mt_store_query_id(store), (long long)plan,
                (long long)commit);
    for (int kind = MT_RECORD_PLAN; kind <= MT_RECORD_COMMIT; kind++)
        for (int64_t id = 0; id < BATCHES + 2; id++) {
            struct mt_buf value = {0};
            bool found = false;
            enum mt_status status =
                mt_store_get(store, (enum mt_record)kind, id, &value, &found, &err);
            add_value(&all, status, found, &value);
        }
    for (int i = 0; i < FACTS + 2; i++) {
        struct mt_buf value = {0};
        bool found = false;
        enum mt_status status =
            i < FACTS ? mt_store_meta_get(store, facts[i], &value, &found, &err)
                      : mt_store_bundle_get(store, hashes[i - FACTS], &value, &found, &err);
        add_value(&all, status, found, &value);
    }
    add_state(&all, mt_store_state(store));
    return all.data;
}

/* Enough keys for pages above pages, and now and then a value on pages of its own. */
static void change_state(struct mt_store *store, int64_t id)
{
    char key[32], value[9000];
    memset(value, 's', sizeof value);
    for (int i = 0; i < 20; i++) {
        size_t key_len = (size_t)snprintf(key, sizeof key, "key %d", (int)(id * 37 + i * 11) % 120);
        size_t len = i == 0 && id == 0 ? sizeof value : (size_t)i;
        expect_ok(mt_state_put(mt_store_state(store), key, key_len, value, len, &err));
    }
}

static void make_batch(struct mt_store *store, int64_t id)
{
    static char bundle[20000];
    memset(bundle, 'b', sizeof bundle - 1);
    char *json = plan_json(id, id % 7 ? HASH_A : HASH_B, (size_t)(id * 97 % 900));
    expect_ok(mt_store_plan_put(store, id, json, id % 7 ? HASH_A : HASH_B, bundle,
                                id % 7 ? sizeof bundle - 1 : 3000, &err));
    free(json);
    if (id % 5 == 0)
        expect_ok(mt_store_calls_put(store, id, "[{\"sink\":\"parquet#1\"}]", &err));
}

static int make_image(void **state)
{
    if (make_root(state) != 0)
        return -1;
    struct mt_store *store = open_sized(1 << 20, KEEP);
    expect_ok(mt_store_meta_put(store, "start.0", "{\"orders\":{\"0\":0}}", &err));
    expect_ok(mt_store_meta_put(store, "options", "{}", &err));
    for (int64_t id = 0; id < BATCHES; id++) {
        if (id == BATCHES - 4)
            older = read_image(&older_len);
        make_batch(store, id);
        change_state(store, id);
        expect_ok(put_commit(store, id));
    }
    previous = read_all(store);
    make_batch(store, BATCHES);
    expected = read_all(store);
    mt_store_close(store);
    image = read_image(&image_len);
    return 0;
}

static int forget_image(void **state)
{
    free(image), free(older), free(expected), free(previous);
    return remove_root(state);
}

/* ---- one case */

enum outcome { REFUSED, SAME, PREVIOUS, WRONG };

static bool well_said(void)
{
    return err.class_ == MT_CLASS_CHECKPOINT && strstr(err.text, dir) &&
           strstr(err.text, "ckpt backup");
}

static bool goes_on(struct mt_store *store)
{
    int64_t plan, commit;
    bool fresh;
    if (mt_store_last(store, &plan, &commit, &err) != MT_OK)
        return false;
    for (int64_t id = commit + 1; id < commit + 6; id++)
        if (put_plan(store, id, HASH_A, "script") != MT_OK || put_commit(store, id) != MT_OK)
            return false;
    mt_store_close(store);
    if (try_open(1 << 20, KEEP, &store, &fresh) != MT_OK)
        return false;
    mt_store_close(store);
    return true;
}

/* Opens what lies in dir. */
static enum outcome examine(void)
{
    struct mt_store *store;
    bool fresh;
    enum outcome outcome = WRONG;
    if (try_open(1 << 20, KEEP, &store, &fresh) != MT_OK)
        return well_said() ? REFUSED : WRONG;
    char *all = read_all(store);
    if (!all)
        outcome = well_said() ? REFUSED : WRONG;
    else if (!fresh && strcmp(all, expected) == 0)
        outcome = SAME;
    else if (!fresh && strcmp(all, previous) == 0)
        outcome = PREVIOUS;
    free(all);
    if (outcome == REFUSED || outcome == WRONG)
        mt_store_close(store);
    else if (!goes_on(store))
        outcome = WRONG;
    return outcome;
}

/* ---- many cases */

/* Writes case i into data.mdb; false when there is no such case. */
typedef bool (*damage_fn)(size_t i, char *bytes, size_t *len);

struct tally {
    size_t at; /* the case being run */
    size_t n[WRONG + 1];
    bool ended;
    char text[400];
};

static void run_chunk(damage_fn damage, struct tally *tally)
{
    char *bytes = mt_alloc(image_len + 1);
    for (size_t last = tally->at + CHUNK; tally->at < last; tally->at++) {
        size_t len = image_len;
        memcpy(bytes, image, image_len);
        if (!damage(tally->at, bytes, &len)) {
            tally->ended = true;
            break;
        }
        write_file(in_dir("data.mdb"), bytes, len);
        err.text[0] = '\0';
        enum outcome outcome = examine();
        tally->n[outcome]++;
        if (outcome == WRONG) {
            snprintf(tally->text, sizeof tally->text, "class %d: %.300s", err.class_, err.text);
            _exit(1);
        }
    }
    free(bytes);
}

static struct tally run_cases(damage_fn damage)
{
    struct tally *tally =
        mmap(NULL, sizeof *tally, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(tally != MAP_FAILED);
    while (!tally->ended) {
        int status;
        fflush(NULL);
        pid_t pid = fork();
        if (pid == 0) {
            run_chunk(damage, tally);
            _exit(0);
        }
        waitpid(pid, &status, 0);
        if (status != 0)
            fail_msg("case %zu: %s %d: %s", tally->at, WIFSIGNALED(status) ? "signal" : "exit",
                     WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), tally->text);
    }
    struct tally copy = *tally;
    munmap(tally, sizeof *tally);
    print_message("%zu cases: %zu refused, %zu unharmed, %zu as before the last write\n", copy.at,
                  copy.n[REFUSED], copy.n[SAME], copy.n[PREVIOUS]);
    return copy;
}

/* ---- kinds of damage */

static bool cut(size_t i, char *bytes, size_t *len)
{
    (void)bytes;
    const size_t around[] = {0, 1, 8, 152, 2048, 4095};
    *len = i / 6 * 4096 + around[i % 6];
    return *len < image_len;
}

static void a_file_cut_anywhere_is_refused(void **unused)
{
    (void)unused;
    struct tally tally = run_cases(cut);
    assert_int_equal(tally.n[PREVIOUS], 0);
    assert_true(tally.n[REFUSED] > tally.at * 9 / 10); /* the last pages may be free ones */
}

static bool blank(size_t i, char *bytes, size_t *len)
{
    const int fill[] = {0, 0xff, 0x2a};
    if (i / 3 * 4096 >= *len)
        return false;
    memset(bytes + i / 3 * 4096, fill[i % 3], 4096);
    return true;
}

static void a_blank_page_is_refused_unless_it_is_free(void **unused)
{
    (void)unused;
    struct tally tally = run_cases(blank);
    assert_int_equal(tally.n[PREVIOUS], 0);
    assert_true(tally.n[REFUSED] > tally.at / 3);
    assert_true(tally.n[SAME] > 0); /* LMDB keeps free pages: not every page is read */
}

static bool misplace(size_t i, char *bytes, size_t *len)
{
    size_t pages = *len / 4096, to = i / pages, from = i % pages;
    if (to >= pages)
        return false;
    memcpy(bytes + to * 4096, image + from * 4096, 4096);
    return true;
}

static void a_page_in_the_place_of_another_is_refused_unless_it_is_free(void **unused)
{
    (void)unused;
    struct tally tally = run_cases(misplace);
    assert_int_equal(tally.n[PREVIOUS], 0);
    assert_true(tally.n[REFUSED] > tally.at / 3);
}

static bool lose_write(size_t i, char *bytes, size_t *len)
{
    if ((i + 1) * 4096 > *len || (i + 1) * 4096 > older_len)
        return false;
    memcpy(bytes + i * 4096, older + i * 4096, 4096);
    return true;
}

static void a_page_that_kept_an_older_content_is_refused_or_not_used(void **unused)
{
    (void)unused;
    struct tally tally = run_cases(lose_write);
    assert_int_equal(tally.n[PREVIOUS], 0);
    assert_true(tally.n[REFUSED] > 0);
}

/* Every bit of both head pages' 152 bytes. */
static bool flip_in_heads(size_t i, char *bytes, size_t *len)
{
    (void)len;
    size_t page = i / (152 * 8), bit = i % (152 * 8);
    if (page > 1)
        return false;
    bytes[page * 4096 + bit / 8] ^= (char)(1 << bit % 8);
    return true;
}

/* Two bits of the transaction ids can swap which head page is the newer one: then the
 * state before the last write is read, as from a backup, and the markers tell. */
static void a_bit_flipped_in_a_head_page_is_refused_or_harmless(void **unused)
{
    (void)unused;
    struct tally tally = run_cases(flip_in_heads);
    assert_true(tally.n[PREVIOUS] <= 2);
    assert_true(tally.n[REFUSED] > tally.at / 3);
}

/* Every third bit of the first 24 bytes of each page: head and slots. */
static bool flip_in_page_heads(size_t i, char *bytes, size_t *len)
{
    size_t page = 2 + i / 64, bit = i % 64 * 3;
    if (page * 4096 >= *len)
        return false;
    bytes[page * 4096 + bit / 8] ^= (char)(1 << bit % 8);
    return true;
}

static void a_bit_flipped_in_a_page_head_is_refused_or_not_used(void **unused)
{
    (void)unused;
    struct tally tally = run_cases(flip_in_page_heads);
    assert_int_equal(tally.n[PREVIOUS], 0);
    assert_true(tally.n[REFUSED] > tally.at / 10);
}

/* One bit in every 53rd byte behind the head pages. */
static bool flip_anywhere(size_t i, char *bytes, size_t *len)
{
    size_t at = 2 * 4096 + 53 * i;
    if (at >= *len)
        return false;
    bytes[at] ^= (char)(1 << i % 8);
    return true;
}

static void a_bit_flipped_anywhere_is_refused_or_not_used(void **unused)
{
    (void)unused;
    struct tally tally = run_cases(flip_anywhere);
    assert_int_equal(tally.n[PREVIOUS], 0);
    assert_true(tally.n[REFUSED] > tally.at / 10);
}

/* Its newest record says that the root of the main tree may be written over. */
static bool free_what_is_used(size_t i, char *bytes, size_t *len)
{
    (void)len;
    uint64_t ids[2], free_root, main_root;
    uint16_t lower, slot, key_len;
    memcpy(ids, bytes + 144, 8), memcpy(ids + 1, bytes + 4096 + 144, 8);
    const char *head = bytes + (ids[1] > ids[0] ? 4096 : 0);
    memcpy(&free_root, head + 80, 8), memcpy(&main_root, head + 128, 8);
    char *page = bytes + free_root * 4096;
    memcpy(&lower, page + 12, 2);
    memcpy(&slot, page + lower - 2, 2); /* its last node: key, how many, pages */
    memcpy(&key_len, page + slot + 6, 2);
    memcpy(page + slot + 8 + key_len, (uint64_t[]){1, main_root}, 16);
    return i == 0;
}

static void a_free_list_that_names_a_used_page_is_refused(void **unused)
{
    (void)unused;
    struct tally tally = run_cases(free_what_is_used);
    assert_int_equal(tally.n[REFUSED], 1);
}

static bool nonsense(size_t i, char *bytes, size_t *len)
{
    uint64_t x = 88172645463325252u + i;
    if (i >= 300)
        return false;
    *len = i * 331 % image_len;
    for (size_t at = 0; at < *len; at++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        bytes[at] = (char)x;
    }
    return true;
}

static void nonsense_is_refused(void **unused)
{
    (void)unused;
    struct tally tally = run_cases(nonsense);
    assert_int_equal(tally.n[REFUSED], 300);
}

static void a_damaged_file_is_left_as_it_is(void **unused)
{
    (void)unused;
    struct mt_store *store;
    bool fresh;
    const size_t sizes[] = {0, 4096, image_len / 2};
    for (size_t i = 0; i < 3; i++) {
        write_file(in_dir("data.mdb"), image, sizes[i]);
        expect_fatal(try_open(0, 0, &store, &fresh), MT_CLASS_CHECKPOINT, "damaged");
        assert_non_null(strstr(err.text, "Nothing was changed"));
        expect_fatal(mt_store_open_read(dir, &store, &err), MT_CLASS_CHECKPOINT, "damaged");
        size_t len;
        char *bytes = read_image(&len);
        assert_int_equal(len, sizes[i]);
        assert_memory_equal(bytes, image, len);
        free(bytes);
    }
}

static void nonsense_in_lmdbs_lock_file_does_no_harm(void **unused)
{
    (void)unused;
    write_file(in_dir("data.mdb"), image, image_len);
    for (size_t len = 0; len < 20000; len += 4999) {
        write_file(in_dir("lock.mdb"), image, len);
        struct mt_store *store = open_sized(1 << 20, KEEP);
        char *all = read_all(store);
        assert_string_equal(all, expected);
        free(all);
        mt_store_close(store);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_cut_anywhere_is_refused),
        cmocka_unit_test(a_blank_page_is_refused_unless_it_is_free),
        cmocka_unit_test(a_page_in_the_place_of_another_is_refused_unless_it_is_free),
        cmocka_unit_test(a_page_that_kept_an_older_content_is_refused_or_not_used),
        cmocka_unit_test(a_bit_flipped_in_a_head_page_is_refused_or_harmless),
        cmocka_unit_test(a_bit_flipped_in_a_page_head_is_refused_or_not_used),
        cmocka_unit_test(a_bit_flipped_anywhere_is_refused_or_not_used),
        cmocka_unit_test(a_free_list_that_names_a_used_page_is_refused),
        cmocka_unit_test(nonsense_is_refused),
        cmocka_unit_test(a_damaged_file_is_left_as_it_is),
        cmocka_unit_test(nonsense_in_lmdbs_lock_file_does_no_harm),
    };
    return cmocka_run_group_tests(tests, make_image, forget_image);
}
