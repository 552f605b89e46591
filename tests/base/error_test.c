/* SPDX-License-Identifier: Apache-2.0
 *
 * error_test.c - the words of a failure, and records quoted in them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"

static struct mt_error err;

static void a_failure_has_class_words_and_status(void **state)
{
    (void)state;
    strcpy(err.option, "of an earlier failure");
    assert_int_equal(mt_fail(&err, MT_REJECT, MT_CLASS_DATA, "row %d of %s", 7, "orders"),
                     MT_REJECT);
    assert_int_equal(err.class_, MT_CLASS_DATA);
    assert_string_equal(err.text, "row 7 of orders");
    assert_string_equal(err.option, "");
}

static void within_puts_words_in_front_also_its_own(void **state)
{
    (void)state;
    mt_fail(&err, MT_FATAL, MT_CLASS_SINK, "disk full");
    assert_int_equal(mt_fail_within(&err, MT_RETRY, "writing %s: ", "part-0"), MT_RETRY);
    assert_string_equal(err.text, "writing part-0: disk full");
    assert_int_equal(err.class_, MT_CLASS_SINK);
    mt_fail(&err, MT_FATAL, MT_CLASS_SINK, "again: %s", err.text);
    assert_string_equal(err.text, "again: writing part-0: disk full");
}

static void words_that_are_too_long_are_cut_at_the_end(void **state)
{
    (void)state;
    char longer[4000];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    mt_fail(&err, MT_FATAL, MT_CLASS_DATA, "%s", longer);
    assert_int_equal(strlen(err.text), sizeof err.text - 1);
    mt_fail_within(&err, MT_FATAL, "where: ");
    assert_int_equal(strncmp(err.text, "where: xxx", 10), 0);
    assert_int_equal(strlen(err.text), sizeof err.text - 1);
    mt_fail_within(&err, MT_FATAL, "%s", longer);
    assert_int_equal(strlen(err.text), sizeof err.text - 1);
}

static void quotes(const char *bytes, size_t len, size_t cap, const char *expected)
{
    char out[900];
    memset(out, 'Q', sizeof out);
    assert_ptr_equal(mt_quote(bytes, len, out, cap), out);
    assert_string_equal(out, expected);
    assert_int_equal(out[cap], 'Q');
}

static void quotes_show_control_bytes_and_broken_utf8_as_numbers(void **state)
{
    (void)state;
    quotes("{\"a\":1}", 7, 100, "{\"a\":1}");
    quotes("", 0, 8, "");
    quotes("a\0b\n\x1b[31m\x7f", 10, 100, "a\\x00b\\x0A\\x1B[31m\\x7F");
    quotes("gr\xc3\xb6\xc3\x9f"
           "e \xf0\x9f\x9a\x80",
           12, 100, "größe 🚀");
    quotes("\xff\xc3(\xed\xa0\x80", 6, 100, "\\xFF\\xC3(\\xED\\xA0\\x80");
    quotes("\xc2\x9b"
           "31m",
           5, 100, "\\xC2\\x9B31m"); /* a terminal obeys it */
}

static void long_records_are_cut_between_characters(void **state)
{
    (void)state;
    char record[300], expected[300];
    memset(record, 'a', sizeof record);
    memset(expected, 'a', 200);
    quotes(record, 200, 300, (expected[200] = '\0', expected));
    strcpy(expected + 200, "...");
    quotes(record, 201, 300, expected);
    memcpy(record + 199, "\xc3\xa4", 2); /* would be cut in the middle */
    strcpy(expected + 199, "...");
    quotes(record, 300, 300, expected);
    quotes("abcdefgh", 8, 8, "abcd...");
    quotes("abcdefg", 7, 8, "abcdefg");
    quotes("\x01\x02\x03", 3, 8, "\\x01...");
    quotes("ab\xc3\xa4\xc3\xa4zz", 8, 8, "abä...");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failure_has_class_words_and_status),
        cmocka_unit_test(within_puts_words_in_front_also_its_own),
        cmocka_unit_test(words_that_are_too_long_are_cut_at_the_end),
        cmocka_unit_test(quotes_show_control_bytes_and_broken_utf8_as_numbers),
        cmocka_unit_test(long_records_are_cut_between_characters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
