/* SPDX-License-Identifier: Apache-2.0
 *
 * durable_test.c - the order in which the file sink makes things durable, seen from the
 * calls themselves. A kill -9 loses nothing that was written, so no test that kills a
 * process can show a missing fsync; here the calls are noted as they pass. */
#include <sys/syscall.h>

#include "support.h"

enum { MOST = 400 };
static struct event {
    char what; /* 's' synced, 'r' renamed to, 'l' linked to, 'u' deleted, 'd' folder made */
    char path[400];
} events[MOST];
static int n_events;
static bool noting;

static void note(char what, const char *path)
{
    if (!noting || n_events == MOST)
        return;
    events[n_events].what = what;
    snprintf(events[n_events++].path, sizeof events->path, "%s", path);
}

/* These stand before the C library's. */
int fsync(int fd)
{
    char link[64], path[400];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t len = readlink(link, path, sizeof path - 1);
    path[len > 0 ? len : 0] = '\0';
    note('s', path);
    return (int)syscall(SYS_fsync, fd);
}

int rename(const char *from, const char *to)
{
    note('r', to);
    return (int)syscall(SYS_renameat, AT_FDCWD, from, AT_FDCWD, to);
}

int link(const char *from, const char *to)
{
    note('l', to);
    return (int)syscall(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int unlink(const char *path)
{
    note('u', path);
    return (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}

int mkdir(const char *path, mode_t mode)
{
    int result = (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
    if (result == 0)
        note('d', path);
    return result;
}

static int find(char what, const char *ending, int from)
{
    for (int i = from; i < n_events; i++) {
        size_t len = strlen(events[i].path), end = strlen(ending);
        if (events[i].what == what && len >= end && !strcmp(events[i].path + len - end, ending))
            return i;
    }
    return -1;
}

static int need(char what, const char *ending, int from)
{
    int at = find(what, ending, from);
    if (at < 0) {
        for (int i = 0; i < n_events; i++)
            print_error("%3d %c %s\n", i, events[i].what, events[i].path);
        fail_msg("no %c of ...%s after %d", what, ending, from);
    }
    return at;
}

static int count(char what)
{
    int n = 0;
    for (int i = 0; i < n_events; i++)
        n += events[i].what == what;
    return n;
}

struct place {
    char *root, *table;
    struct ArrowSchema schema;
    struct mt_sink *sink;
};

static int set_up(void **state)
{
    struct place *place = calloc(1, sizeof *place);
    char *made = new_folder();
    place->root = realpath(made, NULL);
    free(made);
    place->table = mt_format("%s/deep/table", place->root);
    schema_of(ROWS_DDL, &place->schema);
    struct setup setup = {.format = "parquet", .path = place->table, .partition_by = {"kind"}};
    place->sink = need_sink(&setup, &place->schema);
    need_recover(place->sink, QUERY);
    n_events = 0;
    noting = true;
    *state = place;
    return 0;
}

static int tear_down(void **state)
{
    struct place *place = *state;
    noting = false;
    mt_sink_free(place->sink);
    free(place->table);
    drop_folder(place->root);
    mt_schema_release(&place->schema);
    free(place);
    return 0;
}

static void a_batch_is_durable_piece_by_piece_before_the_next_names_it(void **state)
{
    struct place *place = *state;
    store_ids(place->sink, QUERY, 0, 0, 9);
    int pending = need('s', ".pending", 0), pending_dir = need('s', "/_spark_metadata", pending);
    int entry = need('s', ".entry.tmp", 0), entry_link = need('l', "/_spark_metadata/0", 0);
    int entry_dir = need('s', "/_spark_metadata", entry_link);
    int pending_gone = need('u', ".pending", 0);
    int first_rename = n_events, last_rename = -1;
    for (int i = 0; i < n_events; i++) {
        if (events[i].what != 'r')
            continue;
        first_rename = i < first_rename ? i : first_rename;
        last_rename = i;
        char folder[400];
        snprintf(folder, sizeof folder, "%s", events[i].path);
        *strrchr(folder, '/') = '\0';
        int synced = need('s', folder, i);
        assert_in_range(synced, i, entry);
    }
    assert_int_equal(count('r'), 3);
    int temporary = -1, n_temporary = 0;
    while ((temporary = find('s', ".tmp", temporary + 1)) >= 0 && temporary < pending)
        n_temporary++;
    assert_int_equal(n_temporary, 3);
    assert_in_range(pending_dir, pending, first_rename);
    int table = need('s', "/deep/table", last_rename), above = need('s', "/deep", 0);
    assert_in_range(table, last_rename, entry);
    assert_in_range(above, need('d', "/_spark_metadata", 0), pending);
    assert_in_range(entry, last_rename, entry_link);
    assert_in_range(entry_dir, entry_link, pending_gone);
}

static void every_folder_that_is_made_is_made_durable_by_the_one_above(void **state)
{
    struct place *place = *state;
    store_ids(place->sink, QUERY, 0, 0, 9);
    int made = 0, entry = need('l', "/_spark_metadata/0", 0);
    for (int i = 0; i < n_events; i++) {
        if (events[i].what != 'd')
            continue;
        char above[400];
        snprintf(above, sizeof above, "%s", events[i].path);
        *strrchr(above, '/') = '\0';
        assert_in_range(need('s', above, i), i, entry);
        made++;
    }
    assert_int_equal(made, 6); /* deep, table, three kinds, the log's */
}

static void a_stored_batch_found_by_a_start_is_made_durable_before_it_is_believed(void **state)
{
    struct place *place = *state;
    struct mt_error err;
    struct mt_sink_record record;
    enum mt_sink_answer answer;
    struct mt_sink_batch batch = batch_of(QUERY, 0, 9);
    store_ids(place->sink, QUERY, 0, 0, 9);
    n_events = 0;
    assert_int_equal(place->sink->type->begin(place->sink, &batch, &answer, &record, &err), MT_OK);
    assert_int_equal(answer, MT_SINK_STORED);
    need('s', "/_spark_metadata", 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        TEST(a_batch_is_durable_piece_by_piece_before_the_next_names_it),
        TEST(every_folder_that_is_made_is_made_durable_by_the_one_above),
        TEST(a_stored_batch_found_by_a_start_is_made_durable_before_it_is_believed),
#undef TEST
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
