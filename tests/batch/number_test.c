/* SPDX-License-Identifier: Apache-2.0
 *
 * number_test.c - FLOAT and DOUBLE in Java's form: known texts, and any bits come back. */
#include <math.h>

#include "batch/sample.h"

static void doubles_print_as_java_prints_them(void **state)
{
    (void)state;
    static const struct {
        double value;
        const char *text;
    } known[] = {
        {0, "0.0"},
        {-0.0, "-0.0"},
        {1, "1.0"},
        {-1.5, "-1.5"},
        {0.1, "0.1"},
        {100, "100.0"},
        {123456.789, "123456.789"},
        {9999999, "9999999.0"},
        {1e7, "1.0E7"},
        {12345678.9, "1.23456789E7"},
        {0.001, "0.001"},
        {0.0009, "9.0E-4"},
        {1e21, "1.0E21"},
        {1.0 / 3, "0.3333333333333333"},
        {2.0 / 3, "0.6666666666666666"},
        {0.1 + 0.2, "0.30000000000000004"},
        {9007199254740993.0, "9.007199254740992E15"},
        {0x1p-24, "5.960464477539063E-8"},  /* the nearest with 16 digits is another number */
        {0x1p-44, "5.684341886080802E-14"}, /* likewise */
        {1.7976931348623157e308, "1.7976931348623157E308"},
        {2.2250738585072014e-308, "2.2250738585072014E-308"},
        {4.9e-324, "4.9E-324"},
        {9.9e-324, "9.9E-324"},
        {INFINITY, "Infinity"},
        {-INFINITY, "-Infinity"},
        {NAN, "NaN"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        char out[40];
        assert_int_equal(mt_double_print(known[i].value, out), strlen(known[i].text));
        assert_string_equal(out, known[i].text);
    }
}

static void floats_have_digits_of_their_own(void **state)
{
    (void)state;
    static const struct {
        float value;
        const char *text;
    } known[] = {
        {0.1f, "0.1"},
        {16777217.f, "1.6777216E7"},
        {3.4028235e38f, "3.4028235E38"},
        {1.4e-45f, "1.4E-45"},
        {0.3f, "0.3"},
        {1e10f, "1.0E10"},
        {-2.5f, "-2.5"},
        {33554432.f, "3.3554432E7"},
        {0x1p-126f, "1.1754944E-38"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        char out[40];
        assert_int_equal(mt_float_print(known[i].value, out), strlen(known[i].text));
        assert_string_equal(out, known[i].text);
    }
}

static void any_double_comes_back(void **state)
{
    (void)state;
    sample_seed();
    for (int i = 0; i < 50000; i++) {
        uint64_t bits = i < 4096 ? (uint64_t)i << 52 : sample_bits(); /* powers of two first */
        double value;
        char out[40];
        memcpy(&value, &bits, sizeof value);
        if (!isfinite(value))
            continue;
        assert_true(mt_double_print(value, out) < 26);
        double read = strtod(out, NULL);
        if (memcmp(&read, &value, sizeof value) != 0)
            fail_msg("%a prints as %s", value, out);
    }
}

static void any_float_comes_back(void **state)
{
    (void)state;
    sample_seed();
    for (int i = 0; i < 50000; i++) {
        uint32_t bits = i < 512 ? (uint32_t)i << 23 : (uint32_t)sample_bits();
        float value;
        char out[40];
        memcpy(&value, &bits, sizeof value);
        if (!isfinite(value))
            continue;
        assert_true(mt_float_print(value, out) < 16);
        float read = strtof(out, NULL);
        if (memcmp(&read, &value, sizeof value) != 0)
            fail_msg("%a prints as %s", (double)value, out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(doubles_print_as_java_prints_them),
        cmocka_unit_test(floats_have_digits_of_their_own),
        cmocka_unit_test(any_double_comes_back),
        cmocka_unit_test(any_float_comes_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
