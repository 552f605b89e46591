/* SPDX-License-Identifier: Apache-2.0
 *
 * utf8_test.c - every code point is UTF-8 in its one form, and in no other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"

/* code in n bytes, whether that is its right form or not */
static void encode(uint32_t code, int n, uint8_t *out)
{
    static const uint8_t lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (int i = n - 1; i > 0; i--, code >>= 6)
        out[i] = (uint8_t)(0x80 | (code & 0x3f));
    out[0] = (uint8_t)(lead[n] | code);
}

static int length_of(uint32_t code)
{
    return code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
}

static void only_the_shortest_form_of_a_code_point_that_is_no_surrogate(void **state)
{
    (void)state;
    static const uint32_t ends[] = {0, 0x80, 0x800, 0x10000, 0x200000};
    for (int n = 1; n <= 4; n++)
        for (uint32_t code = 0; code<ends[n]; code += code> 0x11000 ? 61 : 1) {
            uint8_t bytes[4];
            encode(code, n, bytes);
            bool right =
                length_of(code) == n && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff);
            if (mt_utf8_valid(bytes, (size_t)n) != right)
                fail_msg("U+%04X in %d bytes", code, n);
        }
}

static void characters_that_end_early_are_refused_wherever_they_stand(void **state)
{
    (void)state;
    static const char *const whole[] = {"\xc3\xa4", "\xe2\x82\xac", "\xf0\x9f\x9a\x80"};
    for (size_t before = 0; before < 20; before++)
        for (int i = 0; i < 3; i++)
            for (size_t n = 1; n <= strlen(whole[i]); n++) {
                char text[64];
                memset(text, 'x', sizeof text);
                memcpy(text + before, whole[i], n);
                bool right = n == strlen(whole[i]);
                assert_int_equal(mt_utf8_valid(text, before + n), right);
                assert_int_equal(mt_utf8_valid(text, sizeof text), right);
            }
}

static void single_bytes_of_the_upper_half_are_refused(void **state)
{
    (void)state;
    for (int byte = 0; byte < 256; byte++) {
        uint8_t text[16] = {0};
        text[15] = (uint8_t)byte;
        assert_int_equal(mt_utf8_valid(text, sizeof text), byte < 0x80);
    }
    assert_true(mt_utf8_valid(NULL, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_shortest_form_of_a_code_point_that_is_no_surrogate),
        cmocka_unit_test(characters_that_end_early_are_refused_wherever_they_stand),
        cmocka_unit_test(single_bytes_of_the_upper_half_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
