/* SPDX-License-Identifier: Apache-2.0
 *
 * buf_test.c - bytes that grow, and JSON strings in them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"

static void what_is_added_stands_in_order_and_ends_with_nul(void **state)
{
    (void)state;
    struct mt_buf buf = {0};
    for (int i = 0; i < 5000; i++)
        mt_buf_addf(&buf, "%04d", i);
    mt_buf_adds(&buf, "x");
    mt_buf_add(&buf, "\0y", 2);
    mt_buf_add(&buf, NULL, 0);
    assert_int_equal(buf.len, 20003);
    assert_int_equal(memcmp(buf.data + 4 * 4999, "4999x\0y", 8), 0);
    mt_buf_free(&buf);
    assert_null(buf.data);
    mt_buf_free(&buf);
}

static void json(const char *bytes, size_t len, const char *expected)
{
    struct mt_buf buf = {0};
    mt_buf_add_json(&buf, bytes, len);
    assert_string_equal(buf.data, expected);
    mt_buf_free(&buf);
}

static void json_strings_are_quoted_escaped_and_always_utf8(void **state)
{
    (void)state;
    json("", 0, "\"\"");
    json("a\"b\\c/", 6, "\"a\\\"b\\\\c/\"");
    json("\b\f\n\r\t\x01\x1f\x7f", 8, "\"\\b\\f\\n\\r\\t\\u0001\\u001f\x7f\"");
    json("\0", 1, "\"\\u0000\"");
    json("größe", 7, "\"größe\"");
    json("a\xff\xc3z", 4, "\"a\xef\xbf\xbd\xef\xbf\xbdz\"");
}

static void format_and_strndup_make_strings(void **state)
{
    (void)state;
    char *text = mt_format("%s-%d", "part", 7), *copy = mt_strndup("abcdef", 3);
    char *all = mt_strndup("ab", 9), *zeros = mt_alloc(100);
    assert_string_equal(text, "part-7");
    assert_string_equal(copy, "abc");
    assert_string_equal(all, "ab");
    for (int i = 0; i < 100; i++)
        assert_int_equal(zeros[i], 0);
    free(text);
    free(copy);
    free(all);
    free(zeros);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_added_stands_in_order_and_ends_with_nul),
        cmocka_unit_test(json_strings_are_quoted_escaped_and_always_utf8),
        cmocka_unit_test(format_and_strndup_make_strings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
