/* SPDX-License-Identifier: Apache-2.0
 *
 * json_junk_test.c - a record is well-formed only if all of it is, also what the schema
 * does not ask for; and what is around a record in memory does not matter. */
#include <jansson.h>
#include <time.h>

#include "columnar/json_util.h"

/* Not JSON, wherever a value may stand. */
static const char *const junk_values[] = {
    "nope",
    "tru",
    "truee",
    "True",
    "nul",
    "NaN",
    "Infinity",
    "-",
    "+1",
    "01",
    "-01",
    "00",
    "1.",
    ".5",
    "1.e1",
    "1e",
    "1e+",
    "1e5x",
    "0x10",
    "1_000",
    "1 2",
    "--1",
    "1.2.3",
    "1e5.5",
    "'x'",
    "x",
    "\"a\"b",
    "\"a\"\"b\"",
    "\"\\x\"",
    "\"\\u12\"",
    "\"\\u12g4\"",
    "\"\\\"",
    "\"a\tb\"",
    "\"a\nb\"",
    "\"\x01\"",
    "\"\xff\"",
    "\"\xc1\x81\"",
    "\"\xed\xa0\xbd\"",
    "\"\xe2\x82\"",
    "\"\xf8\x88\x80\x80\x80\"",
    "\x0c"
    "1",
    "1\x0b",
    "[1,]",
    "[,1]",
    "[1 2]",
    "[1",
    "1]",
    "[}",
    "{]",
    "{,}",
    "{\"b\"}",
    "{\"b\":}",
    "{\"b\":1,}",
    "{\"b\":1 \"c\":2}",
    "{b:1}",
    "{1:1}",
    "{\"b\":nope}",
    "{\"b\":{\"c\":[1,{\"d\":tru}]}}",
    "[[[[01]]]]",
    "[\"\\q\"]",
    "{\"\\q\":1}",
    "{\"b\"::1}",
    "{\"b\":1}}",
    "/**/1",
    "#1",
    "",
    ",",
    ":",
    "1:2",
    "\"unclosed",
};

static const char *const good_values[] = {
    "null",
    "true",
    "false",
    "0",
    "-0",
    "0.0",
    "-0.0e-0",
    "1E+5",
    "1e400",
    "12345678901234567890123",
    "\"\"",
    "\"\\ud83d\"",
    "\"\\/\\b\\f\\n\\r\\t\\\"\\\\\\u0000\"",
    "\"\xed\x9f\xbf\xf4\x8f\xbf\xbf\"",
    "[]",
    "[ ]",
    "{}",
    "{ }",
    "[[],{},[{}]]",
    "{\"\":{\"\":[null,true,1.5,\"x\"]}}",
    " [ 1 , 2 ] ",
    "{\"b\":1,\"b\":2}",
    "\"}\"",
    "\"{[,:\\\"\"",
    "[\"a\",\"b\"]\t\r\n",
};

/* The document with the value in its middle, moved by blanks across simdjson's blocks. */
static bool is_malformed(const char *ddl, const char *before, const char *value, const char *after,
                         int blanks)
{
    bool malformed;
    char *text = mt_format("{\"a\":1,%*s%s%s%s}", blanks, "", before, value, after);
    free(json_one(ddl, text, strlen(text), &malformed));
    free(text);
    return malformed;
}

static void junk_that_the_schema_skips_makes_a_record_malformed(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof junk_values / sizeof *junk_values; i++)
        for (int blanks = 0; blanks < 64; blanks += 7) {
            const char *junk = junk_values[i];
            if (!is_malformed("a INT", "\"x\":", junk, "", blanks) ||
                !is_malformed("a INT", "\"x\":", junk, ",\"b\":2", blanks) ||
                !is_malformed("a INT", "\"x\":[1,{\"y\":", junk, "}]", blanks) ||
                !is_malformed("x STRING", "\"x\":", junk, "", blanks) ||
                !is_malformed("x STRING", "\"x\":[", junk, ",1]", blanks) ||
                !is_malformed("x DOUBLE", "\"x\":", junk, ",\"b\":2", blanks))
                fail_msg("passed: %s", junk);
        }
}

static void what_is_json_is_skipped_in_peace(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof good_values / sizeof *good_values; i++)
        for (int blanks = 0; blanks < 64; blanks += 7) {
            const char *value = good_values[i];
            if (is_malformed("a INT", "\"x\":", value, "", blanks) ||
                is_malformed("a INT", "\"x\":", value, ",\"b\":2", blanks) ||
                is_malformed("a INT", "\"x\":[1,{\"y\":", value, "}]", blanks) ||
                is_malformed("x STRING", "\"x\":", value, ",\"b\":2", blanks))
                fail_msg("refused: %s", value);
        }
}

static void only_one_object_is_a_record(void **state)
{
    (void)state;
    static const char *const whole[] = {
        "{",          "}",         "{}}",         "{}{}",
        "{} {}",      "{}\n{}",    "{},",         "{}x",
        "{}\"x\"",    "[]",        "[{}]",        "1",
        "null",       "\"x\"",     "tru",         "\xef\xbb\xbf{}",
        "{\"a\"",     "{\"a\":",   "{\"a\":1",    "{\"a\":1,",
        "{\"a\":1]",  "{,}",       "{\"a\":1,}",  "{\"a\":1,,}",
        "{,\"a\":1}", "{\"a\" 1}", "{\"a\":1:2}", "{a:1}",
        "{\"a\":[1}", "{\"a\":{}", "{\"a\":[[]}", ":",
        ",",          "\"",        "{\"",
    };
    bool malformed;
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) {
        free(json_one("a INT", whole[i], strlen(whole[i]), &malformed));
        if (!malformed)
            fail_msg("passed: %s", whole[i]);
    }
    free(json_one("a INT", "{\"a\":1}\0", 8, &malformed));
    assert_true(malformed);
    free(json_one("a INT", " \t\r\n{ \"a\" : 1 } \t\r\n", 19, &malformed));
    assert_false(malformed);
}

/* {"x": depth times open, value, depth times close} */
static char *nested(const char *open, const char *close, int depth, const char *value)
{
    struct mt_buf buf = {0};
    mt_buf_adds(&buf, "{\"x\":");
    for (int i = 0; i < depth; i++)
        mt_buf_adds(&buf, open);
    mt_buf_adds(&buf, value);
    for (int i = 0; i < depth; i++)
        mt_buf_adds(&buf, close);
    mt_buf_adds(&buf, ",\"a\":1}");
    return buf.data;
}

static bool nested_is_malformed(const char *ddl, const char *open, const char *close, int depth)
{
    bool malformed;
    char *text = nested(open, close, depth, "1");
    free(json_one(ddl, text, strlen(text), &malformed));
    free(text);
    return malformed;
}

static void nesting_ends_at_a_thousand_as_in_spark(void **state)
{
    (void)state;
    static const char *const ddls[] = {"a INT", "x STRING", "x INT"};
    for (int i = 0; i < 2; i++) {
        assert_false(nested_is_malformed(ddls[i], "[", "]", 999));
        assert_false(nested_is_malformed(ddls[i], "{\"y\":", "}", 999));
    }
    for (int i = 0; i < 3; i++) {
        assert_true(nested_is_malformed(ddls[i], "[", "]", 1000));
        assert_true(nested_is_malformed(ddls[i], "{\"y\":", "}", 1000));
        assert_true(nested_is_malformed(ddls[i], "[", "]", 500000));
        assert_true(nested_is_malformed(ddls[i], "[", "", 500000));
    }
}

static void numbers_end_at_a_thousand_digits_as_in_spark(void **state)
{
    (void)state;
    static const char *const ddls[] = {"a INT", "x STRING", "x DOUBLE", "x DECIMAL(38,10)"};
    for (int i = 0; i < 4; i++)
        for (int digits = 1000; digits <= 1001; digits++) {
            bool malformed;
            char *text = mt_format("{\"x\":0.%0*d,\"a\":1}", digits - 1, 7);
            free(json_one(ddls[i], text, strlen(text), &malformed));
            free(text);
            assert_int_equal(malformed, digits > 1000);
        }
}

/* ---- neighbours */

/* Every record means in a batch what it means alone: nothing of the next one is read. */
static void a_record_ends_where_its_neighbour_begins(void **state)
{
    (void)state;
    static const char *const parts[] = {
        "{\"a\":1}",    "{\"a\":1",    "}",
        "{\"a\":",      "2}",          "{\"a\":12",
        "34}",          "{\"s\":\"x",  "y\"}",
        "{\"s\":\"x\\", "\"}",         "{\"s\":\"\\u00",
        "e9\"}",        "{\"x\":[1",   "1111111111111111111111",
        "]}",           "{\"a\":tru",  "e}",
        "{\"b\":t",     "{\"b\":true", "{",
        "\"",           "{\"a\"",      ":1}",
        "{\"x\":{",     "{\"s\":\"xé", "{\"s\":\"\xc3",
        "\xa9\"}",      "{\"a\":1} ",  "{\"a\":-",
        "{\"x\":[[[[",  ", \"a\":1}",
    };
    enum { N = sizeof parts / sizeof *parts };
    struct text texts[N * N * 2];
    struct ArrowSchema schema;
    struct mt_json_result all, one;
    int64_t n = 0;
    for (size_t i = 0; i < N; i++)
        for (size_t k = 0; k < N; k++) {
            texts[n++] = (struct text){parts[i], strlen(parts[i])};
            texts[n++] = (struct text){parts[k], strlen(parts[k])};
        }
    assert_int_equal(mt_schema_parse("a INT, s STRING, b BOOLEAN, _c STRING", &schema, &err),
                     MT_OK);
    assert_int_equal(json_read(&schema, MT_JSON_PERMISSIVE, "_c", texts, n, &all), MT_OK);
    for (int64_t i = 0; i < n; i++) {
        assert_int_equal(json_read(&schema, MT_JSON_PERMISSIVE, "_c", &texts[i], 1, &one), MT_OK);
        struct mt_buf here = json_row(&schema, 4, &all, i), alone = json_row(&schema, 4, &one, 0);
        assert_string_equal(here.data, alone.data);
        mt_buf_free(&here);
        mt_buf_free(&alone);
        mt_json_result_clear(&one);
    }
    mt_json_result_clear(&all);
    mt_schema_release(&schema);
}

/* ---- another reader of JSON as the judge */

static size_t random_text(char *text, size_t cap)
{
    static const char *const words[] = {
        "{",           "}",        "[",        "]",        ":",    ",",   "\"",        "\"a\"",
        "\"x\":",      "1",        "-",        "0",        ".",    "e",   "E5",        "+",
        " ",           "\n",       "true",     "false",    "null", "\\n", "\\",        "\\u00e9",
        "\"\\u",       "\xc3\xa9", "\xff",     "\x01",     "{}",   "[]",  "{\"a\":1}", "[1,2]",
        "\"k\":\"v\"", "12.5e-3",  "\"a\":1,", "\"\\\"\"",
    };
    size_t len = 1, pieces = (size_t)rand() % 12;
    text[0] = '{';
    for (size_t i = 0; i < pieces; i++) {
        const char *word = words[(size_t)rand() % (sizeof words / sizeof *words)];
        if (len + strlen(word) + 2 > cap)
            break;
        memcpy(text + len, word, strlen(word));
        len += strlen(word);
    }
    text[len++] = '}';
    return len;
}

static void random_texts_are_judged_as_jansson_judges_them(void **state)
{
    (void)state;
    const char *given = getenv("SEED");
    unsigned seed = given ? (unsigned)atoi(given) : (unsigned)time(NULL);
    int good = 0;
    print_message("SEED=%u\n", seed);
    srand(seed);
    for (int round = 0; round < 30000; round++) {
        char text[200];
        size_t len = random_text(text, sizeof text);
        bool malformed;
        json_error_t problem;
        json_t *json = json_loadb(text, len, JSON_ALLOW_NUL, &problem);
        free(json_one("none INT", text, len, &malformed));
        if (malformed != !json && json_error_code(&problem) != json_error_numeric_overflow)
            fail_msg("%.*s: %s, but jansson says %s", (int)len, text, malformed ? "bad" : "good",
                     json ? "good" : problem.text);
        good += !malformed;
        json_decref(json);
    }
    print_message("%d of 30000 were well-formed\n", good);
    assert_true(good > 500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(junk_that_the_schema_skips_makes_a_record_malformed),
        cmocka_unit_test(what_is_json_is_skipped_in_peace),
        cmocka_unit_test(only_one_object_is_a_record),
        cmocka_unit_test(nesting_ends_at_a_thousand_as_in_spark),
        cmocka_unit_test(numbers_end_at_a_thousand_digits_as_in_spark),
        cmocka_unit_test(a_record_ends_where_its_neighbour_begins),
        cmocka_unit_test(random_texts_are_judged_as_jansson_judges_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
