/* SPDX-License-Identifier: Apache-2.0
 *
 * decimal_test.c - decimals as text, both ways, against plain 128-bit arithmetic. */
#include "batch/sample.h"

typedef __int128 wide;

static wide power_of_ten(int n)
{
    wide p = 1;
    while (n-- > 0)
        p *= 10;
    return p;
}

static void reads_as(const char *text, int precision, int scale, int status, const char *expected)
{
    uint64_t value[2];
    char out[48];
    int got = mt_decimal_parse(text, (int64_t)strlen(text), precision, scale, value);
    if (got != status)
        fail_msg("\"%s\" as DECIMAL(%d,%d): %d, not %d", text, precision, scale, got, status);
    if (status > 1)
        return;
    int32_t len = mt_decimal_print(value, scale, out);
    assert_int_equal(len, strlen(out));
    if (strcmp(out, expected) != 0)
        fail_msg("\"%s\" as DECIMAL(%d,%d) is %s, not %s", text, precision, scale, out, expected);
}

static void text_is_exact_rounded_half_up_too_long_or_no_number(void **state)
{
    (void)state;
    reads_as("1.23", 10, 2, 0, "1.23");
    reads_as("1.235", 10, 2, 1, "1.24");
    reads_as("1.2349999999999999999999999999999999999999999999", 10, 2, 1, "1.23");
    reads_as("-1.235", 10, 2, 1, "-1.24"); /* away from zero */
    reads_as("-0.004", 10, 2, 1, "0.00");
    reads_as("0.005", 10, 2, 1, "0.01");
    reads_as("1.2300000", 10, 2, 0, "1.23");
    reads_as("1e3", 10, 2, 0, "1000.00");
    reads_as("1.5E+2", 10, 2, 0, "150.00");
    reads_as("15e-1", 10, 0, 1, "2");
    reads_as("+00012.30", 10, 2, 0, "12.30");
    reads_as("-0", 10, 2, 0, "0.00");
    reads_as("1.", 10, 2, 0, "1.00");
    reads_as(".5", 10, 2, 0, "0.50");
    reads_as("99999999.99", 10, 2, 0, "99999999.99");
    reads_as("99999999.994", 10, 2, 1, "99999999.99");
    reads_as("99999999.995", 10, 2, 2, NULL); /* rounding makes it too long */
    reads_as("100000000", 10, 2, 2, NULL);
    reads_as("1e999999999999999999999", 10, 2, 2, NULL);
    reads_as("0e999999999999999999999", 10, 2, 0, "0.00");
    reads_as("1e-999999999999999999999", 10, 2, 1, "0.00");
    static const char *const bad[] = {"",   " ",  ".",   "-",   "+-1",   "1e",  "1e+",   "e5",
                                      "1 ", " 1", "1,5", "abc", "1.2.3", "0x1", "1e5.5", "NaN"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        reads_as(bad[i], 10, 2, 3, NULL);
}

static void thirty_eight_digits_fit_and_not_one_more(void **state)
{
    (void)state;
    const char *nines = "99999999999999999999999999999999999999";
    reads_as(nines, 38, 0, 0, nines);
    reads_as("-99999999999999999999999999999999999999", 38, 0, 0,
             "-99999999999999999999999999999999999999");
    reads_as("99999999999999999999999999999999999999.5", 38, 0, 2, NULL);
    reads_as("100000000000000000000000000000000000000", 38, 0, 2, NULL);
    reads_as("12345678901234567890.123456789012345678", 38, 18, 0,
             "12345678901234567890.123456789012345678");
    reads_as("0.99999999999999999999999999999999999999", 38, 38, 0,
             "0.99999999999999999999999999999999999999");
    reads_as("1", 38, 38, 2, NULL);
}

/* Prints value at scale by arithmetic alone, digits at the end, and asks for it back. */
static void random_decimals_come_back_and_round_like_integers(void **state)
{
    (void)state;
    sample_seed();
    for (int round = 0; round < 20000; round++) {
        int scale = sample_below(39), drop = sample_below(scale + 1), kept = scale - drop;
        wide value = (wide)((unsigned __int128)sample_bits() << 63 | sample_bits());
        value %= power_of_ten(1 + sample_below(38));
        value = sample_below(2) ? -value : value;
        uint64_t in[2], out[2];
        char text[48];
        memcpy(in, &value, sizeof in);
        int64_t len = mt_decimal_print(in, scale, text);
        assert_int_equal(mt_decimal_parse(text, len, 38, scale, out), 0);
        assert_memory_equal(in, out, sizeof in);

        wide unit = power_of_ten(drop), rest = value % unit, expected = value / unit;
        wide far = rest < 0 ? -rest : rest;
        if (far >= unit - far) /* half or more; far * 2 may pass 127 bits */
            expected += value < 0 ? -1 : 1;
        assert_int_equal(mt_decimal_parse(text, len, 38, kept, out), rest != 0);
        assert_memory_equal(&expected, out, sizeof out);
    }
}

static void exponents_only_move_the_point(void **state)
{
    (void)state;
    sample_seed();
    for (int round = 0; round < 5000; round++) {
        wide value = (wide)(sample_bits() % UINT64_C(1000000000000000));
        int scale = sample_below(12), shift = sample_below(30);
        uint64_t in[2], out[2];
        char text[80];
        memcpy(in, &value, sizeof in);
        int len = mt_decimal_print(in, scale + shift, text);
        len += snprintf(text + len, sizeof text - (size_t)len, "e%d", shift);
        assert_int_equal(mt_decimal_parse(text, len, 38, scale, out), 0);
        assert_memory_equal(in, out, sizeof in);
    }
}

static int compare(const char *a, int sa, const char *b, int sb)
{
    uint64_t x[2], y[2];
    assert_int_equal(mt_decimal_parse(a, (int64_t)strlen(a), 38, sa, x), 0);
    assert_int_equal(mt_decimal_parse(b, (int64_t)strlen(b), 38, sb, y), 0);
    assert_int_equal(mt_decimal_compare(x, sa, y, sb), -mt_decimal_compare(y, sb, x, sa));
    return mt_decimal_compare(x, sa, y, sb);
}

static void decimals_of_different_scales_compare_exactly(void **state)
{
    (void)state;
    assert_int_equal(compare("1.5", 1, "1.50", 2), 0);
    assert_int_equal(compare("1.5", 1, "1.51", 2), -1);
    assert_int_equal(compare("-1.5", 1, "-1.51", 2), 1);
    assert_int_equal(compare("-0.1", 1, "0", 0), -1);
    assert_int_equal(compare("0", 0, "0.00", 2), 0);
    assert_int_equal(compare("99999999999999999999999999999999999999", 0,
                             "0.99999999999999999999999999999999999999", 38),
                     1);
    assert_int_equal(compare("1", 0, "0.99999999999999999999999999999999999999", 38), 1);
    assert_int_equal(
        compare("-12345678901234567890.5", 1, "-12345678901234567890.500000000000000001", 18), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_exact_rounded_half_up_too_long_or_no_number),
        cmocka_unit_test(thirty_eight_digits_fit_and_not_one_more),
        cmocka_unit_test(random_decimals_come_back_and_round_like_integers),
        cmocka_unit_test(exponents_only_move_the_point),
        cmocka_unit_test(decimals_of_different_scales_compare_exactly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
