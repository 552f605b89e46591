/* SPDX-License-Identifier: Apache-2.0
 *
 * ddl_test.c - DDL text to schema and back: every type and synonym, what is refused
 * and with which words, and a round trip of random schemas (the seed is printed;
 * SEED=n repeats one). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "batch/batch.h"

static struct mt_error err;

static void reads_as(const char *ddl, const char *expected)
{
    struct ArrowSchema schema;
    if (mt_schema_parse(ddl, &schema, &err) != MT_OK)
        fail_msg("%s: %s", ddl, err.text);
    char *text = mt_schema_ddl(&schema);
    assert_string_equal(text, expected);
    mt_free(text);
    mt_schema_release(&schema);
    assert_null(schema.release);
}

static void refused(const char *ddl, const char *words)
{
    struct ArrowSchema schema;
    assert_int_equal(mt_schema_parse(ddl, &schema, &err), MT_FATAL);
    assert_int_equal(err.class_, MT_CLASS_JOB);
    assert_null(schema.release);
    if (!strstr(err.text, words))
        fail_msg("%s: \"%s\" is not in: %s", ddl, words, err.text);
}

static void every_type_and_its_synonyms_are_read(void **state)
{
    (void)state;
    reads_as("a BOOLEAN, b TINYINT, c SMALLINT, d INT, e BIGINT, f FLOAT, g DOUBLE, h STRING, "
             "i BINARY, j DATE, k TIMESTAMP",
             "a BOOLEAN, b TINYINT, c SMALLINT, d INT, e BIGINT, f FLOAT, g DOUBLE, h STRING, "
             "i BINARY, j DATE, k TIMESTAMP");
    reads_as("a byte, b short, c integer, d long, e real, f timestamp_ltz",
             "a TINYINT, b SMALLINT, c INT, d BIGINT, e FLOAT, f TIMESTAMP");
    reads_as("a DECIMAL, b dec(5), c NUMERIC ( 38 , 38 ), d decimal(1,0)",
             "a DECIMAL(10,0), b DECIMAL(5,0), c DECIMAL(38,38), d DECIMAL(1,0)");
    reads_as("a array<int>, s struct<x: int, y : array < string >>, m map<string,map<int,date>>",
             "a ARRAY<INT>, s STRUCT<x: INT, y: ARRAY<STRING>>, m MAP<STRING, MAP<INT, DATE>>");
}

static void arrow_formats_are_those_of_the_interface(void **state)
{
    (void)state;
    struct ArrowSchema s;
    assert_int_equal(
        mt_schema_parse("d DECIMAL(7,3) NOT NULL, t TIMESTAMP, m MAP<INT, STRING>", &s, &err),
        MT_OK);
    assert_string_equal(s.format, "+s");
    assert_string_equal(s.children[0]->format, "d:7,3");
    assert_int_equal(s.children[0]->flags, 0);
    assert_string_equal(s.children[1]->format, "tsu:UTC");
    assert_int_equal(s.children[1]->flags, ARROW_FLAG_NULLABLE);
    struct ArrowSchema *entries = s.children[2]->children[0];
    assert_string_equal(entries->format, "+s");
    assert_int_equal(entries->flags, 0);
    assert_string_equal(entries->children[0]->name, "key");
    assert_int_equal(entries->children[0]->flags, 0);
    assert_int_equal(entries->children[1]->flags, ARROW_FLAG_NULLABLE);
    int32_t precision, scale;
    mt_schema_decimal(s.children[0], &precision, &scale);
    assert_int_equal(precision, 7);
    assert_int_equal(scale, 3);
    mt_schema_decimal(s.children[1], &precision, &scale);
    assert_int_equal(precision, 0);
    mt_schema_release(&s);
    mt_schema_release(&s); /* fine on a released one */
}

static void names_may_be_anything_in_backquotes_and_no_word_is_reserved(void **state)
{
    (void)state;
    reads_as("`odd name` INT, `a``b` INT, comment STRING, not INT, `9` INT, _x1 INT",
             "`odd name` INT, `a``b` INT, comment STRING, not INT, `9` INT, _x1 INT");
    reads_as("größe INT", "`größe` INT");
    reads_as("a INT, A INT", "a INT, A INT"); /* JSON tells them apart */
}

static void not_null_stays_and_comments_are_left_out(void **state)
{
    (void)state;
    reads_as("a INT NOT NULL COMMENT 'it''s', b struct<c: int not null comment \"x\\\"y\">",
             "a INT NOT NULL, b STRUCT<c: INT NOT NULL>");
    reads_as("\n\ta\tINT\n", "a INT");
    reads_as("a: INT", "a INT");
}

static void what_is_wrong_is_named_with_its_character(void **state)
{
    (void)state;
    refused("", "character 1: expected a column name, found the end");
    refused("a", "character 2: expected the type of \"a\", found the end");
    refused("a INT,", "character 7: expected a column name, found the end");
    refused("a INT b INT", "character 7: expected ',' or the end, found \"b\"");
    refused("order-id INT", "stands in backquotes");
    refused("a BIGNIT", "character 3: unknown type \"BIGNIT\"; did you mean BIGINT?");
    refused("ä STRNG", "character 3: unknown type \"STRNG\"; did you mean STRING?");
    refused("a QQQQQQQQ", "there are BOOLEAN, TINYINT");
    refused("a VARCHAR(10)", "VARCHAR is not here yet; write STRING");
    refused("a INT, b INT, a DATE", "character 15: there are two columns named \"a\"");
    refused("s STRUCT<x: INT, x: INT>", "two columns named \"x\"");
    refused("a DECIMAL(39,0)", "precision of a DECIMAL is a whole number from 1 to 38, not \"39\"");
    refused("a DECIMAL(0)", "precision");
    refused("a DECIMAL(5,6)", "scale of a DECIMAL is a whole number from 0 to 5, not \"6\"");
    refused("a DECIMAL(5,-1)", "scale");
    refused("a DECIMAL(5", "expected ')'");
    refused("a ARRAY", "expected '<' after ARRAY, found the end");
    refused("a ARRAY<INT", "expected '>'");
    refused("a MAP<INT>", "expected ',' after the key type");
    refused("a STRUCT<>", "expected a column name, found \">\"");
    refused("`a INT", "character 1: this backquote is never closed");
    refused("`` INT", "a column needs a name");
    refused("7 INT", "write `7` if that is its name");
    refused("a INT NOT", "expected NULL after NOT");
    refused("a INT COMMENT x", "expected text in quotes");
    refused("a INT COMMENT 'x", "this quote is never closed");
    refused("a INT COMMENT 'x\\", "this quote is never closed");
    refused("\xff INT", "not UTF-8");
}

static void nesting_ends_at_32(void **state)
{
    (void)state;
    for (int deep = 31; deep <= 32; deep++) {
        struct mt_buf ddl = {0};
        struct ArrowSchema s;
        mt_buf_adds(&ddl, "a ");
        for (int i = 0; i < deep; i++)
            mt_buf_adds(&ddl, "ARRAY<");
        mt_buf_adds(&ddl, "INT");
        for (int i = 0; i < deep; i++)
            mt_buf_adds(&ddl, ">");
        assert_int_equal(mt_schema_parse(ddl.data, &s, &err), deep < 32 ? MT_OK : MT_FATAL);
        mt_schema_release(&s);
        mt_buf_free(&ddl);
    }
    assert_non_null(strstr(err.text, "nested more than 32 deep"));
}

static void one_type_alone_is_a_nullable_field(void **state)
{
    (void)state;
    struct ArrowSchema field;
    assert_int_equal(mt_schema_parse_type(" DECIMAL(10,2) ", "price", &field, &err), MT_OK);
    assert_string_equal(field.name, "price");
    assert_int_equal(field.flags, ARROW_FLAG_NULLABLE);
    char *text = mt_schema_type_name(&field);
    assert_string_equal(text, "DECIMAL(10,2)");
    mt_free(text);
    mt_schema_release(&field);
    assert_int_equal(mt_schema_parse_type("INT NOT NULL", "x", &field, &err), MT_FATAL);
    assert_non_null(strstr(err.text, "character 5: expected the end, found \"NOT\""));
}

static void schema_of_copies_and_renames(void **state)
{
    (void)state;
    struct ArrowSchema from, out;
    assert_int_equal(mt_schema_parse("a INT NOT NULL, b ARRAY<STRUCT<x: INT>>", &from, &err),
                     MT_OK);
    const struct ArrowSchema *fields[] = {from.children[1], from.children[0]};
    const char *names[] = {NULL, "z"};
    mt_schema_of(fields, names, 2, &out);
    mt_schema_release(&from);
    char *text = mt_schema_ddl(&out);
    assert_string_equal(text, "b ARRAY<STRUCT<x: INT>>, z INT NOT NULL");
    mt_free(text);
    mt_schema_release(&out);
}

/* ---- random schemas */

static int below(int n)
{
    return rand() % n;
}

static void random_name(struct mt_buf *buf, int unique)
{
    static const char *const odd[] = {"`", "ü", " ", "'", "\"", "<", ",", "(", "\n", "1", "e"};
    char name[64];
    int len = snprintf(name, sizeof name, "c%d", unique);
    for (int i = below(4); i > 0; i--)
        len += snprintf(name + len, sizeof name - (size_t)len, "%s",
                        odd[below(sizeof odd / sizeof *odd)]);
    mt_buf_adds(buf, "`");
    for (const char *c = name; *c; c++)
        mt_buf_add(buf, *c == '`' ? "``" : c, *c == '`' ? 2 : 1);
    mt_buf_adds(buf, "`");
}

static void random_columns(struct mt_buf *buf, int depth, const char *between);

static void random_type(struct mt_buf *buf, int depth)
{
    static const char *const plain[] = {"boolean", "tinyint", "smallint", "int",
                                        "bigint",  "float",   "double",   "string",
                                        "binary",  "date",    "timestamp"};
    switch (below(depth > 0 ? 16 : 12)) {
    case 11: {
        int precision = 1 + below(38);
        mt_buf_addf(buf, "decimal(%d,%d)", precision, below(precision + 1));
        break;
    }
    case 12:
    case 13:
        mt_buf_adds(buf, "array<");
        random_type(buf, depth - 1);
        mt_buf_adds(buf, ">");
        break;
    case 14:
        mt_buf_adds(buf, "map<");
        random_type(buf, 0);
        mt_buf_adds(buf, ",");
        random_type(buf, depth - 1);
        mt_buf_adds(buf, ">");
        break;
    case 15:
        mt_buf_adds(buf, "struct<");
        random_columns(buf, depth - 1, ":");
        mt_buf_adds(buf, ">");
        break;
    default:
        mt_buf_adds(buf, plain[below(11)]);
    }
}

static void random_columns(struct mt_buf *buf, int depth, const char *between)
{
    int n = 1 + below(5);
    for (int i = 0; i < n; i++) {
        mt_buf_adds(buf, i ? "," : "");
        random_name(buf, i);
        mt_buf_adds(buf, between);
        random_type(buf, depth);
        mt_buf_adds(buf, below(4) ? "" : " not null");
        mt_buf_adds(buf, below(4) ? "" : " comment 'x, y INT'");
    }
}

static void assert_same(const struct ArrowSchema *a, const struct ArrowSchema *b)
{
    assert_string_equal(a->format, b->format);
    assert_string_equal(a->name, b->name);
    assert_int_equal(a->flags, b->flags);
    assert_int_equal(a->n_children, b->n_children);
    for (int64_t i = 0; i < a->n_children; i++)
        assert_same(a->children[i], b->children[i]);
}

static void a_printed_schema_reads_back_equal(void **state)
{
    (void)state;
    const char *given = getenv("SEED");
    unsigned seed = given ? (unsigned)atoi(given) : (unsigned)time(NULL);
    print_message("SEED=%u\n", seed);
    srand(seed);
    for (int round = 0; round < 500; round++) {
        struct mt_buf ddl = {0};
        struct ArrowSchema first, second, copy;
        random_columns(&ddl, 3, " ");
        if (mt_schema_parse(ddl.data, &first, &err) != MT_OK)
            fail_msg("%s: %s", ddl.data, err.text);
        char *text = mt_schema_ddl(&first);
        if (mt_schema_parse(text, &second, &err) != MT_OK)
            fail_msg("%s: %s", text, err.text);
        mt_schema_copy(&second, &copy);
        assert_same(&first, &second);
        assert_same(&first, &copy);
        mt_schema_release(&first);
        mt_schema_release(&second);
        mt_schema_release(&copy);
        mt_free(text);
        mt_buf_free(&ddl);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_and_its_synonyms_are_read),
        cmocka_unit_test(arrow_formats_are_those_of_the_interface),
        cmocka_unit_test(names_may_be_anything_in_backquotes_and_no_word_is_reserved),
        cmocka_unit_test(not_null_stays_and_comments_are_left_out),
        cmocka_unit_test(what_is_wrong_is_named_with_its_character),
        cmocka_unit_test(nesting_ends_at_32),
        cmocka_unit_test(one_type_alone_is_a_nullable_field),
        cmocka_unit_test(schema_of_copies_and_renames),
        cmocka_unit_test(a_printed_schema_reads_back_equal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
