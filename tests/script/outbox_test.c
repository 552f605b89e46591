/* SPDX-License-Identifier: Apache-2.0
 *
 * outbox_test.c - lines from the query's thread to the one that owns standard output. */
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "script/script_int.h"

static struct mt_outbox *box;
static struct mt_buf lines;
static char waiting[256];
static atomic_bool through;

static int init(void **state)
{
    (void)state;
    box = mt_outbox_new();
    lines = (struct mt_buf){0};
    atomic_store(&through, false);
    return 0;
}

static int deinit(void **state)
{
    (void)state;
    mt_outbox_free(box);
    mt_buf_free(&lines);
    return 0;
}

static bool readable(int timeout_ms)
{
    struct pollfd fd = {.fd = mt_outbox_fd(box), .events = POLLIN};
    return poll(&fd, 1, timeout_ms) == 1;
}

static void lines_come_whole_and_in_order(void **state)
{
    (void)state;
    assert_false(readable(0));
    mt_outbox_put(box, "one\n");
    mt_outbox_put(box, "two\n");
    assert_true(readable(0));
    assert_false(mt_outbox_take(box, &lines, waiting));
    mt_outbox_put(box, "three\n");
    mt_outbox_finish(box);
    assert_true(mt_outbox_take(box, &lines, waiting));
    assert_string_equal(lines.data, "one\ntwo\nthree\n");
    assert_false(readable(0));
}

static void what_is_waited_for_is_told_once(void **state)
{
    (void)state;
    mt_outbox_waits(box, "Waiting for data");
    assert_true(readable(0));
    mt_outbox_take(box, &lines, waiting);
    assert_string_equal(waiting, "Waiting for data");
    mt_outbox_waits(box, "Waiting for data");
    assert_false(readable(0));
}

static void *put_more(void *line)
{
    mt_outbox_put(box, line);
    atomic_store(&through, true);
    return NULL;
}

static void fill(char *line, size_t size)
{
    memset(line, 'x', size - 1);
    line[size - 2] = '\n';
    line[size - 1] = '\0';
    mt_outbox_put(box, line);
}

static void unread_megabyte_holds_the_query_until_it_is_taken(void **state)
{
    (void)state;
    static char line[(1 << 20) + 1];
    pthread_t thread;
    fill(line, sizeof line);
    pthread_create(&thread, NULL, put_more, (void *)"more\n");
    poll(NULL, 0, 50); /* time for a put that does not wait to show itself */
    assert_false(atomic_load(&through));
    mt_outbox_take(box, &lines, waiting);
    assert_int_equal(lines.len, sizeof line - 1);
    pthread_join(thread, NULL);
    mt_outbox_take(box, &lines, waiting);
    assert_string_equal(lines.data + sizeof line - 1, "more\n");
}

static void hurry_lets_the_query_through(void **state)
{
    (void)state;
    static char line[(1 << 20) + 1];
    pthread_t thread;
    fill(line, sizeof line);
    pthread_create(&thread, NULL, put_more, (void *)"last\n");
    mt_outbox_hurry(box);
    pthread_join(thread, NULL);
    mt_outbox_take(box, &lines, waiting);
    assert_string_equal(lines.data + sizeof line - 1, "last\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(lines_come_whole_and_in_order, init, deinit),
        cmocka_unit_test_setup_teardown(what_is_waited_for_is_told_once, init, deinit),
        cmocka_unit_test_setup_teardown(unread_megabyte_holds_the_query_until_it_is_taken, init,
                                        deinit),
        cmocka_unit_test_setup_teardown(hurry_lets_the_query_through, init, deinit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
