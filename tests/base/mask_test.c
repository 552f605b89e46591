/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"

static void expect_masked(const char *text, const char *shown)
{
    char *copy = mt_strdup(text);
    assert_int_equal(mt_mask(copy, strlen(copy)), strlen(shown));
    assert_string_equal(copy, shown);
    free(copy);
}

static void a_secret_is_masked_wherever_it_stands(void **state)
{
    (void)state;
    expect_masked("no secret was given yet: hunter2", "no secret was given yet: hunter2");
    mt_mask_add("hunter2", 7);
    mt_mask_add("hunter2", 7);
    expect_masked("hunter2 and Pwd=hunter2;hunter2", "*** and Pwd=***;***");
    expect_masked("hunter", "hunter");
    expect_masked("", "");
}

static void of_a_secret_within_another_nothing_is_left(void **state)
{
    (void)state;
    mt_mask_add("word", 4);
    mt_mask_add("passwords", 9);
    expect_masked("the passwords", "the ***");
}

static void what_is_too_short_to_be_a_secret_is_let_be(void **state)
{
    (void)state;
    mt_mask_add("abc", 3);
    expect_masked("abcd", "abcd");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_secret_is_masked_wherever_it_stands),
        cmocka_unit_test(of_a_secret_within_another_nothing_is_left),
        cmocka_unit_test(what_is_too_short_to_be_a_secret_is_let_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
