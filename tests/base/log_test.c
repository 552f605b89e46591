/* SPDX-License-Identifier: Apache-2.0
 *
 * log_test.c - one line a message, with level, query and batch, on standard error. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/base.h"

static char lines[8192];

/* What `write` puts on standard error. */
static const char *caught(void (*write)(void))
{
    fflush(stderr);
    FILE *file = tmpfile();
    int real = dup(STDERR_FILENO);
    dup2(fileno(file), STDERR_FILENO);
    write();
    dup2(real, STDERR_FILENO);
    close(real);
    rewind(file);
    lines[fread(lines, 1, sizeof lines - 1, file)] = '\0';
    fclose(file);
    return lines;
}

static void two_lines(void)
{
    mt_log_context("orders", 41);
    mt_log(MT_WARN, "broker %s is away\n(refused)", "b:9092");
    mt_log_context(NULL, -1);
    mt_log(MT_ERROR, "plain");
}

static void a_line_has_time_level_query_and_batch_and_stays_one_line(void **state)
{
    (void)state;
    const char *out = caught(two_lines);
    int year, length = -1;
    assert_int_equal(sscanf(out, "%4d-%*2d-%*2dT%*2d:%*2d:%*2d.%*3dZ%n", &year, &length), 1);
    assert_int_equal(length, 24);
    const char *rest = " WARN  [orders] batch 41: broker b:9092 is away\\n(refused)\n";
    assert_int_equal(strncmp(out + length, rest, strlen(rest)), 0);
    const char *second = strchr(out, '\n') + 1;
    assert_string_equal(second + length, " ERROR plain\n");
}

static void below_the_level(void)
{
    mt_log_level(MT_ERROR);
    mt_log(MT_WARN, "not shown");
    mt_log_text(MT_ERROR, "100% shown %s");
    mt_log_level(MT_INFO);
    mt_log(MT_DEBUG, "not shown");
}

static void less_than_the_level_is_silent_and_text_is_no_format(void **state)
{
    (void)state;
    const char *out = caught(below_the_level);
    assert_null(strstr(out, "not shown"));
    assert_non_null(strstr(out, " ERROR 100% shown %s\n"));
}

static void *log_much(void *name)
{
    mt_log_context(name, 1);
    for (int i = 0; i < 20; i++)
        mt_log(MT_INFO, "%s", (const char *)name);
    return NULL;
}

static void two_threads(void)
{
    pthread_t threads[2];
    pthread_create(&threads[0], NULL, log_much, "one");
    pthread_create(&threads[1], NULL, log_much, "two");
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
}

static void threads_keep_their_own_context_and_do_not_mix_lines(void **state)
{
    (void)state;
    char *rest = (char *)caught(two_threads);
    int n = 0;
    for (char *line; (line = strsep(&rest, "\n")) && *line; n++)
        assert_true(strstr(line, "Z INFO  [one] batch 1: one") ||
                    strstr(line, "Z INFO  [two] batch 1: two"));
    assert_int_equal(n, 40);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_has_time_level_query_and_batch_and_stays_one_line),
        cmocka_unit_test(less_than_the_level_is_silent_and_text_is_no_format),
        cmocka_unit_test(threads_keep_their_own_context_and_do_not_mix_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
