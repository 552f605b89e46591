// SPDX-License-Identifier: Apache-2.0
// The Kafka source against a real broker: what the mock cluster does not have.
// Runs when MOONTIDE_TEST_BROKERS names one (scripts/kafka start), else says SKIPPED.
#include "kafka_util.h"

enum { SKIPPED = 77 };

static const char *brokers;

/* ---- topics */

static void name_topic(char *out, size_t cap)
{
    static int n;
    snprintf(out, cap, "real-%d-%lld-%d", (int)getpid(), (long long)mt_clock_ms(), n++);
}

/* Waits for the one result of an admin request. */
static void wait_admin(rd_kafka_queue_t *queue)
{
    rd_kafka_event_t *event = rd_kafka_queue_poll(queue, PATIENCE_MS);
    assert_non_null(event);
    if (rd_kafka_event_error(event)) {
        print_message("%s\n", rd_kafka_event_error_string(event));
        fail();
    }
    rd_kafka_event_destroy(event);
    rd_kafka_queue_destroy(queue);
}

static bool is_there(struct client *client, const char *topic, int partitions)
{
    const struct rd_kafka_metadata *md;
    assert_int_equal(rd_kafka_metadata(client->rk, 1, NULL, &md, PATIENCE_MS), 0);
    int found = 0;
    for (int i = 0; i < md->topic_cnt; i++)
        for (int p = 0; strcmp(md->topics[i].topic, topic) == 0 && p < md->topics[i].partition_cnt;
             p++)
            found += md->topics[i].partitions[p].leader >= 0;
    rd_kafka_metadata_destroy(md);
    return found == partitions;
}

static void await_topic(struct client *client, const char *topic, int partitions)
{
    int64_t until = mt_clock_ms() + PATIENCE_MS;
    while (!is_there(client, topic, partitions)) {
        assert_true(mt_clock_ms() < until);
        poll(NULL, 0, 20);
    }
}

static void make_topic(struct client *client, const char *topic, int partitions,
                       const char *const *config)
{
    char why[300];
    rd_kafka_NewTopic_t *request = rd_kafka_NewTopic_new(topic, partitions, 1, why, sizeof why);
    for (; config && *config; config += 2)
        rd_kafka_NewTopic_set_config(request, config[0], config[1]);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(client->rk);
    rd_kafka_CreateTopics(client->rk, &request, 1, NULL, queue);
    wait_admin(queue);
    rd_kafka_NewTopic_destroy(request);
    await_topic(client, topic, partitions);
}

static void delete_topic(struct client *client, const char *topic)
{
    rd_kafka_DeleteTopic_t *request = rd_kafka_DeleteTopic_new(topic);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(client->rk);
    rd_kafka_DeleteTopics(client->rk, &request, 1, NULL, queue);
    wait_admin(queue);
    rd_kafka_DeleteTopic_destroy(request);
    await_topic(client, topic, 0);
}

static void delete_records(struct client *client, const char *topic, int64_t before)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(list, topic, 0)->offset = before;
    rd_kafka_DeleteRecords_t *request = rd_kafka_DeleteRecords_new(list);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(client->rk);
    rd_kafka_DeleteRecords(client->rk, &request, 1, NULL, queue);
    wait_admin(queue);
    rd_kafka_DeleteRecords_destroy(request);
    rd_kafka_topic_partition_list_destroy(list);
}

static void grow_topic(struct client *client, const char *topic, int partitions)
{
    char why[300];
    rd_kafka_NewPartitions_t *request =
        rd_kafka_NewPartitions_new(topic, (size_t)partitions, why, sizeof why);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(client->rk);
    rd_kafka_CreatePartitions(client->rk, &request, 1, NULL, queue);
    wait_admin(queue);
    rd_kafka_NewPartitions_destroy(request);
    await_topic(client, topic, partitions);
}

/* A client and a topic of its own, of one partition unless said. */
struct place {
    struct client client;
    char topic[80];
};

static struct place place_new(int partitions, const char *const *config)
{
    struct place place = {client_of(brokers, NULL), ""};
    name_topic(place.topic, sizeof place.topic);
    make_topic(&place.client, place.topic, partitions, config);
    return place;
}

static void place_free(struct place *place)
{
    delete_topic(&place->client, place->topic);
    client_free(&place->client);
}

static char *at(const struct place *place, int64_t offset)
{
    return mt_format("{\"%s\":{\"0\":%lld}}", place->topic, (long long)offset);
}

static struct mt_source *committed_source(const struct place *place, const char *limit)
{
    return source_of(brokers, place->topic, "kafka.isolation.level", "read_committed",
                     "maxOffsetsPerTrigger", limit, NULL);
}

/* ---- transactions: markers and aborted records have offsets and never come */

/* "c2 a3": two records committed, then three aborted. Values count the committed ones.
 * Returns how many those are. */
static int64_t transact(const struct place *place, const char *script)
{
    char id[100], value[30];
    int64_t committed = 0;
    snprintf(id, sizeof id, "tx-%s", place->topic);
    struct client client = client_of(brokers, id);
    assert_null(rd_kafka_init_transactions(client.rk, PATIENCE_MS));
    for (const char *step = script; *step; step += strcspn(step, " "), step += *step == ' ') {
        bool commit = *step == 'c';
        assert_null(rd_kafka_begin_transaction(client.rk));
        for (int64_t i = atoll(step + 1); i > 0; i--) {
            snprintf(value, sizeof value, "%lld", commit ? (long long)committed++ : -1LL);
            put(&client, place->topic, 0, NULL, value);
        }
        flush(&client);
        assert_null(commit ? rd_kafka_commit_transaction(client.rk, PATIENCE_MS)
                           : rd_kafka_abort_transaction(client.rk, PATIENCE_MS));
    }
    client_free(&client);
    return committed;
}

/* Reads all of it in batches of `limit` offsets; every batch reads the same again. */
static void assert_committed(const struct place *place, const char *limit, int64_t rows,
                             int64_t end)
{
    struct mt_source *source = committed_source(place, limit),
                     *second = committed_source(place, limit);
    char *start = start_of(source), *last = at(place, end);
    int64_t seen = 0;
    for (;;) {
        struct mt_ends ends = ends_of(source, start, MT_REACH_TARGET);
        if (ends.nothing) {
            assert_true(ends.reached);
            mt_ends_clear(&ends);
            break;
        }
        struct mt_batch batch = batch_of(source, start, ends.end, ends.facts);
        struct mt_batch again = batch_of(second, start, ends.end, ends.facts);
        assert_numbers(&batch, 0, batch.array.length, seen);
        assert_int_equal(mt_batch_fingerprint(&batch), mt_batch_fingerprint(&again));
        seen += batch.array.length;
        mt_batch_release(&batch), mt_batch_release(&again);
        free(start);
        start = mt_strdup(ends.end);
        mt_ends_clear(&ends);
    }
    assert_int_equal(seen, rows);
    assert_string_equal(start, last);
    free(start), free(last);
    mt_source_free(source), mt_source_free(second);
}

static void a_range_ends_wherever_its_invisible_offsets_are(void **state)
{
    (void)state;
    static const struct {
        const char *script;
        int64_t end;
    } cases[] = {
        {"c1", 2},          /* one record and its marker */
        {"a3", 4},          /* nothing visible */
        {"a3 c2", 7},       /* the first invisible */
        {"c2 a3", 7},       /* the last */
        {"c2 a3 c2 a1", 12} /* the middle and the last */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct place place = place_new(1, NULL);
        int64_t rows = transact(&place, cases[i].script);
        assert_committed(&place, "1", rows, cases[i].end);
        assert_committed(&place, "1000", rows, cases[i].end);
        place_free(&place);
    }
}

static void a_long_run_of_aborted_records_ends_at_the_one_committed(void **state)
{
    (void)state;
    struct place place = place_new(1, NULL);
    transact(&place, "a30000 c1");
    assert_committed(&place, "1000000", 1, 30003);
    place_free(&place);
}

static void an_open_transaction_is_the_end_until_it_ends(void **state)
{
    (void)state;
    struct place place = place_new(1, NULL);
    char id[100];
    snprintf(id, sizeof id, "tx-%s", place.topic);
    put_numbers(&place.client, place.topic, 0, 0, 1);
    struct client client = client_of(brokers, id);
    assert_null(rd_kafka_init_transactions(client.rk, PATIENCE_MS));
    assert_null(rd_kafka_begin_transaction(client.rk));
    put_numbers(&client, place.topic, 0, 1, 1);
    put_numbers(&place.client, place.topic, 0, 2, 1);
    struct mt_source *source = committed_source(&place, "0");
    char *start = start_of(source);
    take_rows(source, &start, MT_REACH_LATEST, 1);
    struct mt_ends ends = ends_of(source, start, MT_REACH_LATEST);
    assert_true(ends.nothing);
    mt_ends_clear(&ends);
    assert_null(rd_kafka_commit_transaction(client.rk, PATIENCE_MS));
    take_rows(source, &start, MT_REACH_LATEST, 2);
    struct mt_source *all = source_of(brokers, place.topic, NULL); /* Spark's default sees all */
    char *first = start_of(all);
    take_rows(all, &first, MT_REACH_TARGET, 3);
    free(start), free(first);
    mt_source_free(source), mt_source_free(all);
    client_free(&client);
    place_free(&place);
}

static void a_marker_alone_makes_no_batch_at_a_trickle(void **state)
{
    (void)state;
    struct place place = place_new(1, NULL);
    transact(&place, "c2");
    struct mt_source *source = committed_source(&place, "0");
    char *start = start_of(source);
    take_rows(source, &start, MT_REACH_ARRIVED, 2);
    transact(&place, "a5");
    int64_t until = mt_clock_ms() + 500; /* long enough for the marker to come */
    while (mt_clock_ms() < until) {
        struct mt_ends ends = ends_of(source, start, MT_REACH_ARRIVED);
        assert_true(ends.nothing);
        mt_ends_clear(&ends);
        rest(source, false);
    }
    transact(&place, "c1");
    take_rows(source, &start, MT_REACH_ARRIVED, 1);
    free(start);
    mt_source_free(source);
    place_free(&place);
}

/* ---- compaction */

static int64_t rows_in(const struct place *place, int64_t from, int64_t to)
{
    struct mt_source *source = source_of(brokers, place->topic, NULL);
    char *start = at(place, from), *end = at(place, to);
    struct mt_batch batch = batch_of(source, start, end, "{}");
    int64_t n = batch.array.length;
    for (int64_t i = 0; i < n; i++)
        assert_in_range(number_at(&batch, "offset", i), from, to - 1);
    mt_batch_release(&batch);
    free(start), free(end);
    mt_source_free(source);
    return n;
}

static void a_compacted_topic_is_read_across_its_gaps(void **state)
{
    (void)state;
    static const char *const config[] = {"cleanup.policy",
                                         "compact",
                                         "segment.ms",
                                         "100",
                                         "min.cleanable.dirty.ratio",
                                         "0.001",
                                         "max.compaction.lag.ms",
                                         "100",
                                         NULL};
    struct place place = place_new(1, config);
    char key[10], value[10];
    int64_t end = 0, until = mt_clock_ms() + 60000;
    for (; end < 60; end++) {
        snprintf(key, sizeof key, "k%d", (int)(end % 7));
        snprintf(value, sizeof value, "%d", (int)end);
        put(&place.client, place.topic, 0, key, value);
    }
    flush(&place.client);
    while (rows_in(&place, 0, 60) > 30) { /* a record more rolls the segment */
        assert_true(mt_clock_ms() < until);
        put_numbers(&place.client, place.topic, 0, end++, 0);
        put(&place.client, place.topic, 0, "roll", "x");
        flush(&place.client);
        poll(NULL, 0, 300);
    }
    int64_t sum = 0, whole = rows_in(&place, 0, 60);
    for (int64_t from = 0; from < 60; from += 6) /* ends in gaps, whole ranges in gaps */
        sum += rows_in(&place, from, from + 6);
    assert_int_equal(sum, whole);
    struct mt_source *source = source_of(brokers, place.topic, "maxOffsetsPerTrigger", "5", NULL);
    char *start = start_of(source);
    int64_t seen = 0, last = -1;
    struct mt_batch batch;
    while (next_batch(source, &start, MT_REACH_TARGET, &batch)) {
        for (int64_t i = 0; i < batch.array.length; i++) {
            assert_true(number_at(&batch, "offset", i) > last);
            last = number_at(&batch, "offset", i);
            seen += last < 60;
        }
        mt_batch_release(&batch);
    }
    assert_int_equal(seen, whole);
    free(start);
    mt_source_free(source);
    place_free(&place);
}

/* ---- sizes and bytes */

static void records_of_a_megabyte_come_whole_and_bounded(void **state)
{
    (void)state;
    enum { SIZE = 1000000, COUNT = 30 };
    static const char *const config[] = {"max.message.bytes", "2000000", NULL};
    struct place place = place_new(1, config);
    char *large = mt_alloc(SIZE + 1);
    for (int i = 0; i < COUNT; i++) {
        memset(large, 'a' + i % 26, SIZE);
        put(&place.client, place.topic, 0, NULL, large);
    }
    flush(&place.client);
    struct mt_source *source = source_of(brokers, place.topic, "maxBatchBytes", "5m", NULL);
    char *start = start_of(source);
    int64_t seen = 0;
    struct mt_batch batch;
    while (next_batch(source, &start, MT_REACH_TARGET, &batch)) {
        assert_in_range(batch.array.length, 1, 5);
        for (int64_t i = 0; i < batch.array.length; i++, seen++) {
            char *value = value_at(&batch, "value", i);
            memset(large, 'a' + (int)(seen % 26), SIZE);
            assert_string_equal(value, large);
            free(value);
        }
        mt_batch_release(&batch);
    }
    assert_int_equal(seen, COUNT);
    free(large), free(start);
    mt_source_free(source);
    place_free(&place);
}

static void every_byte_of_keys_and_values_comes_through(void **state)
{
    (void)state;
    struct place place = place_new(1, NULL);
    char bytes[256];
    for (int i = 0; i < 256; i++)
        bytes[i] = (char)i;
    assert_int_equal(
        rd_kafka_producev(place.client.rk, RD_KAFKA_V_TOPIC(place.topic), RD_KAFKA_V_PARTITION(0),
                          RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY), RD_KAFKA_V_KEY(bytes, 256),
                          RD_KAFKA_V_VALUE(bytes, 256), RD_KAFKA_V_END),
        0);
    flush(&place.client);
    struct mt_source *source = source_of(brokers, place.topic, NULL);
    char *start = start_of(source);
    struct mt_batch batch = {0};
    assert_true(next_batch(source, &start, MT_REACH_LATEST, &batch));
    for (int c = 0; c < 2; c++) {
        const struct ArrowArray *column = batch.array.children[c];
        assert_int_equal(((const int32_t *)column->buffers[1])[1], 256);
        assert_memory_equal(column->buffers[2], bytes, 256);
    }
    mt_batch_release(&batch);
    free(start);
    mt_source_free(source);
    place_free(&place);
}

/* ---- loss */

static void assert_loss(struct mt_source *source, const char *start, enum mt_reach reach,
                        const char *words)
{
    struct mt_error err = {0};
    struct mt_ends ends;
    assert_int_equal(try_available(source, start, reach, &ends, &err), MT_FATAL);
    assert_int_equal(err.class_, MT_CLASS_DATA_LOSS);
    assert_contains(err.text, words);
}

static void deleted_records_stop_the_query_or_are_counted(void **state)
{
    (void)state;
    struct place place = place_new(1, NULL);
    put_numbers(&place.client, place.topic, 0, 0, 200);
    delete_records(&place.client, place.topic, 150);
    char *start = at(&place, 100), *end = at(&place, 200);
    struct mt_source *source = source_of(brokers, place.topic, NULL);
    assert_loss(source, start, MT_REACH_TARGET, "offsets 100 to 149 are gone, at most 50 records");
    mt_source_free(source);
    source = source_of(brokers, place.topic, "failOnDataLoss", "false", NULL);
    for (int i = 0; i < 2; i++) { /* planned and replayed */
        struct mt_batch batch = batch_of(source, start, end, "{}");
        assert_int_equal(batch.array.length, 50);
        assert_numbers(&batch, 0, 50, 150);
        mt_batch_release(&batch);
    }
    free(start), free(end);
    mt_source_free(source);
    place_free(&place);
}

static void records_deleted_before_a_running_consumer_came_to_them_are_noticed(void **state)
{
    (void)state;
    struct place place = place_new(1, NULL);
    put_numbers(&place.client, place.topic, 0, 0, 10);
    struct mt_source *source = source_of(brokers, place.topic, NULL);
    char *start = start_of(source);
    take_rows(source, &start, MT_REACH_ARRIVED, 10);
    /* The consumer is parked behind offset 9 while others come and go. */
    kafka_stop(((struct kafka *)source)->parts[0]);
    put_numbers(&place.client, place.topic, 0, 10, 90);
    delete_records(&place.client, place.topic, 60);
    assert_loss(source, start, MT_REACH_ARRIVED, "offsets 10 to 59 are gone, at most 50 records");
    free(start);
    mt_source_free(source);
    place_free(&place);
}

static void remake(const struct place *place, int64_t first, int64_t n)
{
    struct client client = client_of(brokers, NULL);
    delete_topic(&client, place->topic);
    make_topic(&client, place->topic, 1, NULL);
    put_numbers(&client, place->topic, 0, first, n);
    client_free(&client);
}

/* The one that asks nobody finds out by its look every few seconds, or by an offset that
 * the new topic does not have. */
static void a_topic_made_anew_under_a_running_job_is_noticed(void **state)
{
    (void)state;
    for (int longer = 0; longer < 2; longer++) {
        struct place place = place_new(1, NULL);
        put_numbers(&place.client, place.topic, 0, 0, 100);
        struct mt_source *source = source_of(brokers, place.topic, NULL);
        struct mt_error err = {0};
        enum mt_status status = MT_OK;
        char *start = start_of(source);
        int64_t until = mt_clock_ms() + PATIENCE_MS;
        take_rows(source, &start, MT_REACH_ARRIVED, 100);
        remake(&place, 1000, longer ? 500 : 10);
        while (status != MT_FATAL && mt_clock_ms() < until) {
            struct mt_ends ends = {0};
            struct mt_batch batch = {0};
            status = source->type->available(source, start, MT_REACH_ARRIVED, mt_clock_ms(), &ends,
                                             &err);
            if (status == MT_OK && !ends.nothing) { /* offsets that the old one had not yet */
                batch = batch_of(source, start, ends.end, ends.facts);
                free(start);
                start = mt_strdup(ends.end);
                mt_batch_release(&batch);
            }
            mt_ends_clear(&ends);
            rest(source, status == MT_RETRY);
        }
        assert_int_equal(status, MT_FATAL);
        assert_int_equal(err.class_, MT_CLASS_DATA_LOSS);
        assert_contains(err.text, "was deleted and made anew");
        free(start);
        mt_source_free(source);
        place_free(&place);
    }
}

static void going_on_after_a_topic_was_made_anew_misses_nothing_of_it(void **state)
{
    (void)state;
    for (int longer = 0; longer < 2; longer++) {
        struct place place = place_new(1, NULL);
        put_numbers(&place.client, place.topic, 0, 0, 100);
        struct mt_source *source = source_of(brokers, place.topic, "failOnDataLoss", "false", NULL);
        char *start = start_of(source);
        take_rows(source, &start, MT_REACH_LATEST, 100);
        remake(&place, 1000, longer ? 500 : 10);
        struct mt_batch batch = {0};
        assert_true(next_batch(source, &start, MT_REACH_LATEST, &batch));
        assert_int_equal(batch.array.length, longer ? 500 : 10);
        assert_numbers(&batch, 0, batch.array.length, 1000);
        mt_batch_release(&batch);
        free(start);
        mt_source_free(source);
        place_free(&place);
    }
}

static void a_topic_that_is_deleted_under_a_running_job_is_named(void **state)
{
    (void)state;
    struct place place = place_new(1, NULL);
    put_numbers(&place.client, place.topic, 0, 0, 10);
    struct mt_source *source = source_of(brokers, place.topic, NULL);
    char *start = start_of(source);
    take_rows(source, &start, MT_REACH_LATEST, 10);
    delete_topic(&place.client, place.topic);
    assert_loss(source, start, MT_REACH_LATEST, "no longer exists");
    assert_false(is_there(&place.client, place.topic, 1)); /* and asking did not make it */
    free(start);
    mt_source_free(source);
    client_free(&place.client);
}

/* ---- growth */

static void new_partitions_are_read_from_their_beginning(void **state)
{
    (void)state;
    static const enum mt_reach reaches[] = {MT_REACH_LATEST, MT_REACH_ARRIVED};
    for (int i = 0; i < 2; i++) {
        struct place place = place_new(1, NULL);
        put_numbers(&place.client, place.topic, 0, 0, 10);
        struct mt_source *source = source_of(brokers, place.topic, NULL);
        char *start = start_of(source);
        take_rows(source, &start, reaches[i], 10);
        struct client fresh = client_of(brokers, NULL);
        grow_topic(&fresh, place.topic, 3);
        put_numbers(&fresh, place.topic, 2, 0, 7);
        take_rows(source, &start, reaches[i], 7);
        char *expected = mt_format("{\"%s\":{\"0\":10,\"1\":0,\"2\":7}}", place.topic);
        assert_string_equal(start, expected);
        free(start), free(expected);
        client_free(&fresh);
        mt_source_free(source);
        place_free(&place);
    }
}

static void a_plan_with_a_new_partition_reads_it_from_where_the_plan_says(void **state)
{
    (void)state;
    struct place place = place_new(2, NULL);
    put_numbers(&place.client, place.topic, 0, 0, 5);
    put_numbers(&place.client, place.topic, 1, 0, 9);
    char *start = at(&place, 5), *end = mt_format("{\"%s\":{\"0\":5,\"1\":6}}", place.topic);
    char *facts = mt_format("{\"from\":{\"%s\":{\"1\":2}}}", place.topic);
    struct mt_source *source = source_of(brokers, place.topic, NULL);
    struct mt_batch batch = batch_of(source, start, end, facts);
    assert_int_equal(batch.array.length, 4);
    assert_numbers(&batch, 0, 4, 2);
    mt_batch_release(&batch);
    batch = batch_of(source, start, end, "{}");
    assert_int_equal(batch.array.length, 6);
    mt_batch_release(&batch);
    free(start), free(end), free(facts);
    mt_source_free(source);
    place_free(&place);
}

static void asking_for_a_topic_does_not_make_it(void **state)
{
    (void)state;
    struct client client = client_of(brokers, NULL);
    struct mt_error err = {0};
    char topic[80], *start = NULL;
    name_topic(topic, sizeof topic);
    struct mt_source *source = source_of(brokers, topic, NULL);
    assert_int_equal(try_start(source, &start, &err), MT_FATAL);
    assert_contains(err.text, topic);
    mt_source_free(source);
    assert_true(is_there(&client, topic, 0));
    client_free(&client);
}

static void a_refused_login_ends_the_start(void **state)
{
    (void)state;
    const char *sasl = getenv("MOONTIDE_TEST_SASL_BROKERS");
    if (!sasl)
        skip();
    struct mt_error err = {0};
    char *start = NULL;
    struct mt_source *source =
        source_of(sasl, "t", "kafka.security.protocol", "SASL_PLAINTEXT", "kafka.sasl.mechanism",
                  "PLAIN", "kafka.sasl.username", "bob", "kafka.sasl.password", "not-his", NULL);
    assert_int_equal(try_start(source, &start, &err), MT_FATAL);
    assert_int_equal(err.class_, MT_CLASS_SOURCE);
    assert_contains(err.text, "refuses the login");
    assert_contains(err.text, sasl);
    assert_null(strstr(err.text, "not-his"));
    mt_source_free(source);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_range_ends_wherever_its_invisible_offsets_are),
        cmocka_unit_test(a_long_run_of_aborted_records_ends_at_the_one_committed),
        cmocka_unit_test(an_open_transaction_is_the_end_until_it_ends),
        cmocka_unit_test(a_marker_alone_makes_no_batch_at_a_trickle),
        cmocka_unit_test(a_compacted_topic_is_read_across_its_gaps),
        cmocka_unit_test(records_of_a_megabyte_come_whole_and_bounded),
        cmocka_unit_test(every_byte_of_keys_and_values_comes_through),
        cmocka_unit_test(deleted_records_stop_the_query_or_are_counted),
        cmocka_unit_test(records_deleted_before_a_running_consumer_came_to_them_are_noticed),
        cmocka_unit_test(a_topic_made_anew_under_a_running_job_is_noticed),
        cmocka_unit_test(going_on_after_a_topic_was_made_anew_misses_nothing_of_it),
        cmocka_unit_test(a_topic_that_is_deleted_under_a_running_job_is_named),
        cmocka_unit_test(new_partitions_are_read_from_their_beginning),
        cmocka_unit_test(a_plan_with_a_new_partition_reads_it_from_where_the_plan_says),
        cmocka_unit_test(asking_for_a_topic_does_not_make_it),
        cmocka_unit_test(a_refused_login_ends_the_start),
    };
    brokers = getenv("MOONTIDE_TEST_BROKERS");
    if (!brokers) {
        printf("SKIPPED: MOONTIDE_TEST_BROKERS names no broker (scripts/kafka start DIR)\n");
        return SKIPPED;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
