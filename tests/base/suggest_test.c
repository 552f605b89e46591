/* SPDX-License-Identifier: Apache-2.0
 *
 * suggest_test.c - the nearest name: typos are found, other words are not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"

static const char *const names[] = {
    "kafka.bootstrap.servers", "subscribe", "assign", "startingOffsets",
    "endingOffsets",           "path",      "mode",   NULL};

static void suggests(const char *word, const char *expected)
{
    const char *near = mt_suggest(word, names);
    if (!near || strcmp(near, expected) != 0)
        fail_msg("%s suggests %s", word, near ? near : "nothing");
}

static void typos_are_found(void **state)
{
    (void)state;
    suggests("kafka.boostrap.servers", "kafka.bootstrap.servers");
    suggests("bootstrap.servers", "kafka.bootstrap.servers");
    suggests("subcsribe", "subscribe");
    suggests("SUBSCRIBES", "subscribe");
    suggests("startingOffset", "startingOffsets");
    suggests("pth", "path");
    suggests("modes", "mode");
}

static void other_words_suggest_nothing(void **state)
{
    (void)state;
    static const char *const words[] = {"", "x", "zz", "format", "compression"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (mt_suggest(words[i], names))
            fail_msg("%s suggests %s", words[i], mt_suggest(words[i], names));
    char longer[200];
    memset(longer, 'a', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    assert_null(mt_suggest(longer, names));
    const char *const none[] = {NULL};
    assert_null(mt_suggest("path", none));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(typos_are_found),
        cmocka_unit_test(other_words_suggest_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
