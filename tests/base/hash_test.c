/* SPDX-License-Identifier: Apache-2.0
 *
 * hash_test.c - digests, ids and the clocks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"

static void sha256_is_that_of_the_standard(void **state)
{
    (void)state;
    char hex[65];
    mt_sha256_hex("abc", 3, hex);
    assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    mt_sha256_hex("", 0, hex);
    assert_string_equal(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

static void uuids_are_of_version_4_and_differ(void **state)
{
    (void)state;
    char a[37], b[37];
    mt_uuid(a);
    mt_uuid(b);
    assert_int_equal(strlen(a), 36);
    assert_int_equal(strspn(a, "0123456789abcdef-"), 36);
    assert_true(a[8] == '-' && a[13] == '-' && a[18] == '-' && a[23] == '-');
    assert_int_equal(a[14], '4');
    assert_non_null(strchr("89ab", a[19]));
    assert_string_not_equal(a, b);
}

static void the_monotonic_clock_does_not_go_back(void **state)
{
    (void)state;
    int64_t before = mt_clock_mono_us();
    for (int i = 0; i < 1000; i++) {
        int64_t now = mt_clock_mono_us();
        assert_true(now >= before);
        before = now;
    }
    assert_true(mt_clock_ms() > INT64_C(1700000000000)); /* milliseconds, of this century */
    assert_true(mt_clock_ms() < INT64_C(5000000000000));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sha256_is_that_of_the_standard),
        cmocka_unit_test(uuids_are_of_version_4_and_differ),
        cmocka_unit_test(the_monotonic_clock_does_not_go_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
