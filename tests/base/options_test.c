/* SPDX-License-Identifier: Apache-2.0
 *
 * options_test.c - options as data: presets, values, and words for what is wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"

struct thing {
    char *subscribe, *start, *password;
    int64_t rows, bytes, delay_ms;
    bool loss;
    struct mt_pairs kafka;
};

static const struct mt_option table[] = {
    {"subscribe", MT_OPT_STRING, NULL, offsetof(struct thing, subscribe), NULL, "topics"},
    {"startingOffsets", MT_OPT_STRING, "latest", offsetof(struct thing, start), "earliest|latest",
     "where to start"},
    {"maxOffsetsPerTrigger", MT_OPT_INT, NULL, offsetof(struct thing, rows), NULL, "rows"},
    {"maxBatchBytes", MT_OPT_BYTES, "64m", offsetof(struct thing, bytes), NULL, "bytes"},
    {"maxTriggerDelay", MT_OPT_DURATION, "15 minutes", offsetof(struct thing, delay_ms), NULL,
     "delay"},
    {"failOnDataLoss", MT_OPT_BOOL, "true", offsetof(struct thing, loss), NULL, "loss"},
    {"password", MT_OPT_SECRET, NULL, offsetof(struct thing, password), NULL, "of the user"},
    {"kafka.*", MT_OPT_MAP, NULL, offsetof(struct thing, kafka), NULL, "for librdkafka"},
    {0},
};

static struct thing thing;
static struct mt_error err;
static struct mt_pairs given;

static int clear(void **state)
{
    (void)state;
    mt_options_clear(table, &thing);
    mt_pairs_free(&given);
    memset(&err, 0, sizeof err);
    return 0;
}

static enum mt_status apply(void)
{
    return mt_options_apply(table, "kafka source", &given, &thing, &err);
}

static void a_secret_is_refused_where_it_was_written_down(void **state)
{
    (void)state;
    mt_pairs_add(&given, "password", "hunter2");
    assert_int_equal(apply(), MT_FATAL);
    assert_non_null(strstr(err.text, "option \"password\" takes a secret"));
    assert_null(strstr(err.text, "hunter2"));
    mt_pairs_free(&given);
    mt_pairs_add_secret(&given, "password", "hunter2", "{\"secret\":\"PW\"}");
    assert_int_equal(apply(), MT_OK);
    assert_string_equal(thing.password, "hunter2");
}

static void a_value_with_a_secret_in_it_is_not_shown(void **state)
{
    (void)state;
    mt_pairs_add_secret(&given, "maxBatchBytes", "hunter2", "{\"secret\":\"PW\"}");
    assert_int_equal(apply(), MT_FATAL);
    assert_non_null(strstr(err.text, "option \"maxBatchBytes\" cannot be this secret"));
    assert_null(strstr(err.text, "hunter2"));
}

static void presets_fill_what_is_not_given(void **state)
{
    (void)state;
    assert_int_equal(apply(), MT_OK);
    assert_null(thing.subscribe);
    assert_string_equal(thing.start, "latest");
    assert_int_equal(thing.rows, 0);
    assert_int_equal(thing.bytes, 64 << 20);
    assert_int_equal(thing.delay_ms, 15 * 60 * 1000);
    assert_true(thing.loss);
    assert_int_equal(thing.kafka.n, 0);
}

static void names_and_listed_values_match_in_any_case_and_the_last_one_counts(void **state)
{
    (void)state;
    mt_pairs_add(&given, "SUBSCRIBE", "a");
    mt_pairs_add(&given, "subscribe", "b,c");
    mt_pairs_add(&given, "startingoffsets", "EARLIEST");
    mt_pairs_add(&given, "failondataloss", "False");
    mt_pairs_add(&given, "maxOffsetsPerTrigger", "-5");
    assert_int_equal(apply(), MT_OK);
    assert_string_equal(thing.subscribe, "b,c");
    assert_string_equal(thing.start, "earliest");
    assert_false(thing.loss);
    assert_int_equal(thing.rows, -5);
}

static void a_map_takes_what_has_its_prefix_without_it(void **state)
{
    (void)state;
    mt_pairs_add(&given, "kafka.bootstrap.servers", "b:9092");
    mt_pairs_add(&given, "Kafka.client.id", "me");
    assert_int_equal(apply(), MT_OK);
    assert_int_equal(thing.kafka.n, 2);
    assert_string_equal(mt_pairs_get(&thing.kafka, "bootstrap.servers"), "b:9092");
    assert_string_equal(thing.kafka.items[1].key, "client.id");
}

static void refused(const char *key, const char *value, const char *words)
{
    mt_pairs_add(&given, "subscribe", "kept until the failure");
    mt_pairs_add(&given, key, value);
    assert_int_equal(apply(), MT_FATAL);
    assert_int_equal(err.class_, MT_CLASS_JOB);
    assert_string_equal(err.option, key);
    if (!strstr(err.text, words))
        fail_msg("\"%s\" is not in: %s", words, err.text);
    assert_null(thing.subscribe);
    mt_pairs_free(&given);
}

static void what_is_wrong_is_said_with_option_value_and_expectation(void **state)
{
    (void)state;
    refused("startingOffset", "earliest", "did you mean \"startingOffsets\"?");
    refused("zzz", "1", "there are: subscribe, startingOffsets, max");
    refused("kafka.", "1", "unknown option \"kafka.\"");
    refused("startingOffsets", "late", "\"startingOffsets\" is \"late\": one of earliest|latest");
    refused("maxOffsetsPerTrigger", "10k", "\"10k\": a whole number");
    refused("maxOffsetsPerTrigger", " 1", "a whole number");
    refused("maxOffsetsPerTrigger", "", "a whole number");
    refused("maxOffsetsPerTrigger", "9223372036854775808", "does not fit 64 bits");
    refused("maxBatchBytes", "64q", "as in \"1024\", \"64m\" or \"1g\"");
    refused("maxTriggerDelay", "10", "a whole number and a unit");
    refused("failOnDataLoss", "yes", "true or false");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(presets_fill_what_is_not_given, clear),
        cmocka_unit_test_teardown(a_secret_is_refused_where_it_was_written_down, clear),
        cmocka_unit_test_teardown(a_value_with_a_secret_in_it_is_not_shown, clear),
        cmocka_unit_test_teardown(names_and_listed_values_match_in_any_case_and_the_last_one_counts,
                                  clear),
        cmocka_unit_test_teardown(a_map_takes_what_has_its_prefix_without_it, clear),
        cmocka_unit_test_teardown(what_is_wrong_is_said_with_option_value_and_expectation, clear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
