// SPDX-License-Identifier: Apache-2.0
// What a job may set, and what each mistake is told.
#include "kafka_util.h"

static void refuse(const char *option, const char *words, const char *topics, ...)
{
    struct mt_error err = {0};
    va_list more;
    va_start(more, topics);
    struct mt_source *source = try_source(&err, "localhost:9092", topics, more);
    va_end(more);
    assert_null(source);
    assert_int_equal(err.class_, MT_CLASS_JOB);
    assert_contains(err.text, words);
    assert_string_equal(err.option, option);
}

static void names_are_checked_down_to_the_client_s_settings(void **state)
{
    (void)state;
    refuse("kafka.boostrap.servers", "did you mean \"kafka.bootstrap.servers\"?", "t",
           "kafka.boostrap.servers", "b:9092", NULL);
    refuse("kafka.isolation.levl", "did you mean \"kafka.isolation.level\"?", "t",
           "kafka.isolation.levl", "read_committed", NULL);
    refuse("startingOffset", "did you mean \"startingOffsets\"?", "t", "startingOffset", "latest",
           NULL);
    refuse("kafka.isolation.level", "kafka.isolation.level", "t", "kafka.isolation.level",
           "sometimes", NULL);
    refuse("kafka.zzz.zzz", "no such setting", "t", "kafka.zzz.zzz", "1", NULL);
}

static void a_mistyped_required_option_is_told_as_the_typo(void **state)
{
    (void)state;
    struct mt_error err = {0};
    struct mt_source *source;
    struct mt_pairs options = {0};
    mt_pairs_add(&options, "kafka.boostrap.servers", "b:9092");
    mt_pairs_add(&options, "subscribe", "t");
    assert_int_equal(mt_source_new("kafka", &options, &source, &err), MT_FATAL);
    assert_string_equal(err.option, "kafka.boostrap.servers");
    mt_pairs_free(&options);
    mt_pairs_add(&options, "subscribe", "t");
    assert_int_equal(mt_source_new("kafka", &options, &source, &err), MT_FATAL);
    assert_string_equal(err.option, "kafka.bootstrap.servers");
    assert_contains(err.text, "must be specified");
    mt_pairs_free(&options);
}

static void brokers_are_hosts_and_ports_with_a_protocol_of_kafkas_at_most(void **state)
{
    (void)state;
    refuse("kafka.bootstrap.servers", "hosts and ports are expected", "t",
           "kafka.bootstrap.servers", "http://b:9092", NULL);
    refuse("kafka.bootstrap.servers", "hosts and ports are expected", "t",
           "kafka.bootstrap.servers", "SSL://b:9092, kafka://c:9092", NULL);
    mt_source_free(source_of("PLAINTEXT://b:9092,SASL_SSL://c:9093", "t", NULL));
}

static void a_port_that_is_none_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"b:99999", "b:0", "b:65536,c:9092", "c:9092,[::1]:70000"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        refuse("kafka.bootstrap.servers", "a port is 1 to 65535", "t", "kafka.bootstrap.servers",
               bad[i], NULL);
    mt_source_free(source_of("b:65535,[::1]:1,c", "t", NULL));
}

static void what_spark_refuses_is_refused_with_its_reason(void **state)
{
    (void)state;
    refuse("endingOffsets", "ending offset not valid in streaming queries", "t", "endingOffsets",
           "latest", NULL);
    refuse("kafka.auto.offset.reset", "startingOffsets", "t", "kafka.auto.offset.reset", "earliest",
           NULL);
    refuse("kafka.key.deserializer", "BINARY", "t", "kafka.key.deserializer", "x", NULL);
    refuse("kafka.value.deserializer", "BINARY", "t", "kafka.value.deserializer", "x", NULL);
    refuse("kafka.enable.auto.commit", "commits nothing", "t", "kafka.enable.auto.commit", "true",
           NULL);
    refuse("kafka.interceptor.classes", "interceptor", "t", "kafka.interceptor.classes", "x", NULL);
    refuse("subscribe", "no topics to subscribe to", " , ", NULL);
    refuse("assign", "only one of the following", "t", "assign", "{\"t\":[0]}", NULL);
}

static void what_spark_has_and_we_have_not_is_said_so(void **state)
{
    (void)state;
    static const char *const known[] = {
        "subscribePattern",     "startingTimestamp", "startingOffsetsByTimestamp",
        "minOffsetsPerTrigger", "maxTriggerDelay",   "minPartitions"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        refuse(known[i], "known in Spark, not here yet", "t", known[i], "1", NULL);
    refuse("SUBSCRIBEPATTERN", "known in Spark, not here yet", "t", "SUBSCRIBEPATTERN", "t.*",
           NULL);
}

static void bad_values_are_told_with_their_option(void **state)
{
    (void)state;
    refuse("startingOffsets", "neither earliest nor latest nor good JSON", "t", "startingOffsets",
           "{\"t\":{\"0\":-3}}", NULL);
    refuse("startingOffsets", "not JSON", "t", "startingOffsets", "newest", NULL);
    refuse("maxOffsetsPerTrigger", "above 0", "t", "maxOffsetsPerTrigger", "-5", NULL);
    refuse("maxOffsetsPerTrigger", "whole number", "t", "maxOffsetsPerTrigger", "many", NULL);
    refuse("maxBatchBytes", "between 1 and 1g", "t", "maxBatchBytes", "2g", NULL);
    refuse("failOnDataLoss", "true or false", "t", "failOnDataLoss", "maybe", NULL);
    refuse("assign", "not JSON", "{\"t\":[0}", NULL);
    refuse("assign", "no topicpartitions to assign", "{}", NULL);
    refuse("assign", "comes twice", "{\"t\":[1,1]}", NULL);
    refuse("assign", "whole number from 0 on", "{\"t\":[\"0\"]}", NULL);
    refuse("assign", "a list of partitions", "{\"t\":1}", NULL);
}

static void names_of_the_java_client_are_taken_or_told_what_to_use(void **state)
{
    (void)state;
    struct mt_source *source =
        source_of("localhost:9092", "t", "kafka.security.protocol", "SASL_SSL",
                  "kafka.sasl.mechanism", "SCRAM-SHA-512", "kafka.sasl.jaas.config",
                  "org.apache.kafka.common.security.scram.ScramLoginModule required username=\"u\" "
                  "password=\"p\";",
                  "kafka.ssl.endpoint.identification.algorithm", "", "kafka.fetch.max.wait.ms",
                  "50", "kafka.max.partition.fetch.bytes", "2000000", "Kafka.Client.Id", "me",
                  "kafka.group.id", "g", NULL);
    char value[100];
    size_t size = sizeof value;
    const struct kafka *k = (const struct kafka *)source;
    static const char *const pairs[][2] = {
        {"sasl.username", "u"},
        {"sasl.password", "p"},
        {"fetch.wait.max.ms", "50"},
        {"ssl.endpoint.identification.algorithm", "none"},
        {"client.id", "me"},
        {"fetch.message.max.bytes", "2000000"},
        {"group.id", ""},
        {"isolation.level", "read_uncommitted"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++, size = sizeof value) {
        value[0] = '\0';
        rd_kafka_conf_get(k->conf, pairs[i][0], value, &size);
        assert_string_equal(value, pairs[i][1]);
    }
    mt_source_free(source);
    refuse("kafka.ssl.truststore.location", "PEM", "t", "kafka.ssl.truststore.location", "x.jks",
           NULL);
    refuse("kafka.sasl.jaas.config", "only PlainLoginModule", "t", "kafka.sasl.jaas.config",
           "com.sun.security.auth.module.Krb5LoginModule required;", NULL);
}

static void a_secret_is_not_in_the_message_that_refuses_it(void **state)
{
    (void)state;
    struct mt_error err = {0};
    struct mt_source *source;
    struct mt_pairs options = {0};
    mt_pairs_add(&options, "kafka.bootstrap.servers", "b:9092");
    mt_pairs_add(&options, "subscribe", "t");
    mt_pairs_add(&options, "kafka.sasl.jaas.config",
                 "PlainLoginModule required username=\"bob\" pasword=\"hunter2\";");
    assert_int_equal(mt_source_new("kafka", &options, &source, &err), MT_FATAL);
    assert_null(strstr(err.text, "hunter2"));
    mt_pairs_free(&options);
}

static void a_source_that_is_not_there_is_told_with_the_nearest(void **state)
{
    (void)state;
    struct mt_error err = {0};
    struct mt_source *source;
    struct mt_pairs none = {0};
    assert_int_equal(mt_source_new("kafak", &none, &source, &err), MT_FATAL);
    assert_contains(err.text, "did you mean \"kafka\"?");
}

static void every_option_has_its_line_for_the_reference(void **state)
{
    (void)state;
    for (size_t i = 0; mt_source_types[i]; i++) {
        assert_ptr_equal(mt_source_type_of(mt_source_types[i]->name), mt_source_types[i]);
        for (const struct mt_option *o = mt_source_types[i]->options; o->name; o++)
            assert_true(o->help && *o->help);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_checked_down_to_the_client_s_settings),
        cmocka_unit_test(a_mistyped_required_option_is_told_as_the_typo),
        cmocka_unit_test(brokers_are_hosts_and_ports_with_a_protocol_of_kafkas_at_most),
        cmocka_unit_test(a_port_that_is_none_is_refused),
        cmocka_unit_test(what_spark_refuses_is_refused_with_its_reason),
        cmocka_unit_test(what_spark_has_and_we_have_not_is_said_so),
        cmocka_unit_test(bad_values_are_told_with_their_option),
        cmocka_unit_test(names_of_the_java_client_are_taken_or_told_what_to_use),
        cmocka_unit_test(a_secret_is_not_in_the_message_that_refuses_it),
        cmocka_unit_test(a_source_that_is_not_there_is_told_with_the_nearest),
        cmocka_unit_test(every_option_has_its_line_for_the_reference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
