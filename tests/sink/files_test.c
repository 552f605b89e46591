/* SPDX-License-Identifier: Apache-2.0
 *
 * files_test.c - the table of files: its log as Spark writes and reads it, its
 * folders, its neighbours, and what it refuses. Tables are read back by pyarrow. */
#include <sys/file.h>
#include <time.h>
#include <utime.h>

#include "support.h"

#include "sink/files/files_int.h"

struct place {
    char *root, *table;
    struct ArrowSchema schema;
};

static int set_up(void **state)
{
    struct place *place = calloc(1, sizeof *place);
    place->root = new_folder();
    place->table = mt_format("%s/table", place->root);
    schema_of(ROWS_DDL, &place->schema);
    *state = place;
    return 0;
}

static int tear_down(void **state)
{
    struct place *place = *state;
    free(place->table);
    drop_folder(place->root);
    mt_schema_release(&place->schema);
    free(place);
    return 0;
}

/* One that may write beside others. */
static struct mt_sink *guest_at(struct place *place)
{
    struct setup setup = {
        .format = "parquet", .path = place->table, .options = {"allowOtherQueries", "true"}};
    return need_sink(&setup, &place->schema);
}

static struct mt_sink *sink_at(struct place *place, const char *partition_by)
{
    struct setup setup = {
        .format = "parquet", .path = place->table, .partition_by = {partition_by}};
    return need_sink(&setup, &place->schema);
}

/* A sink that is recovered for the query, as the engine has it. */
static struct mt_sink *running(struct place *place, const char *partition_by)
{
    struct mt_sink *sink = sink_at(place, partition_by);
    need_recover(sink, QUERY);
    return sink;
}

static char *log_file(struct place *place, const char *name)
{
    return mt_format("%s/" FILES_LOG_FOLDER "/%s", place->table, name);
}

static bool log_has(struct place *place, const char *name)
{
    char *path = log_file(place, name);
    bool has = access(path, F_OK) == 0;
    free(path);
    return has;
}

static char *log_text(struct place *place, const char *name)
{
    char *path = log_file(place, name), *text = read_file(path);
    free(path);
    return text;
}

static void put_log(struct place *place, const char *name, const char *text)
{
    char *folder = log_file(place, ""), *path = log_file(place, name);
    mkdir(place->table, 0777);
    mkdir(folder, 0777);
    write_file(path, text);
    free(folder);
    free(path);
}

/* ---- the log */

static void an_entry_is_sparks_line_with_one_field_more(void **state)
{
    struct place *place = *state;
    struct mt_sink *sink = running(place, NULL);
    store_ids(sink, QUERY, 0, 0, 10);
    char *text = log_text(place, "0");
    assert_memory_equal(text, "v1\n{", 4);
    assert_null(strchr(text + 3, '\n')); /* one file, one line, no end of line */
    json_t *line = json_loads(text + 3, 0, NULL);
    char *prefix = mt_format("file://%s/part-00000-", place->table);
    const char *path = json_string_value(json_object_get(line, "path"));
    assert_memory_equal(path, prefix, strlen(prefix));
    assert_string_equal(path + strlen(path) - 20, ".c000.snappy.parquet");
    struct stat info;
    assert_int_equal(stat(path + strlen("file://"), &info), 0);
    assert_int_equal(json_integer_value(json_object_get(line, "size")), info.st_size);
    assert_int_equal(json_integer_value(json_object_get(line, "modificationTime")) / 1000,
                     info.st_mtime);
    assert_true(json_is_false(json_object_get(line, "isDir")));
    assert_int_equal(json_integer_value(json_object_get(line, "blockReplication")), 1);
    assert_int_equal(json_integer_value(json_object_get(line, "blockSize")), 33554432);
    assert_string_equal(json_string_value(json_object_get(line, "action")), "add");
    json_t *ours = json_object_get(line, "moontide");
    assert_int_equal(json_object_size(line), 8);
    assert_int_equal(json_object_size(ours), 7);
    assert_string_equal(json_string_value(json_object_get(ours, "query")), QUERY);
    assert_string_equal(json_string_value(json_object_get(ours, "sink")), "parquet#1");
    assert_int_equal(json_integer_value(json_object_get(ours, "batch")), 0);
    assert_int_equal(json_integer_value(json_object_get(ours, "rows")), 10);
    assert_string_equal(json_string_value(json_object_get(ours, "fingerprint")),
                        "fedcba9876543210");
    free(prefix);
    json_decref(line);
    free(text);
    mt_sink_free(sink);
}

static void thirty_batches_some_of_them_empty_make_a_log_without_gaps(void **state)
{
    struct place *place = *state;
    int64_t next = 0;
    struct mt_sink *sink = running(place, "kind");
    for (int64_t id = 0; id < 30; id++) {
        int64_t n = id % 4 == 2 ? 0 : 5;
        if (id % 7 == 6) { /* a restart now and then */
            mt_sink_free(sink);
            sink = sink_at(place, "kind");
            need_recover(sink, QUERY);
        }
        store_ids(sink, QUERY, id, next, n);
        next += n;
    }
    mt_sink_free(sink);
    assert_true(next == 23 * 5); /* 23 entries: 0..22 */
    assert_true(log_has(place, "0") && log_has(place, "8") && log_has(place, "22"));
    assert_true(log_has(place, "9.compact") && log_has(place, "19.compact"));
    assert_false(log_has(place, "9") || log_has(place, "19") || log_has(place, "23"));
    assert_ids(place->table, "0-114");
}

static void a_compact_entry_repeats_every_line_before_it_unchanged(void **state)
{
    struct place *place = *state;
    struct mt_sink *sink = running(place, NULL);
    struct mt_buf before = {0};
    for (int64_t id = 0; id < 10; id++) {
        store_ids(sink, QUERY, id, id, 1);
        char name[8];
        snprintf(name, sizeof name, "%d", (int)id);
        char *text = log_text(place, name);
        mt_buf_adds(&before, id < 9 ? strchr(text, '\n') : "");
        free(text);
    }
    char *compact = log_text(place, "9.compact");
    assert_memory_equal(compact, "v1", 2);
    assert_memory_equal(compact + 2, before.data, before.len);
    free(compact);
    mt_buf_free(&before);
    mt_sink_free(sink);
    sink = sink_at(place, NULL); /* a fresh reader finds batch 9 in the compact entry */
    need_recover(sink, QUERY);
    struct mt_sink_batch batch = batch_of(QUERY, 9, 1);
    struct mt_sink_record record = {0};
    enum mt_sink_answer answer;
    struct mt_error err;
    assert_int_equal(sink->type->begin(sink, &batch, &answer, &record, &err), MT_OK);
    assert_int_equal(answer, MT_SINK_STORED);
    assert_int_equal(record.rows, 1);
    assert_true(record.bytes > 0);
    mt_sink_free(sink);
}

static void old_entries_go_when_a_hundred_newer_ones_are_there(void **state)
{
    struct place *place = *state;
    struct mt_sink *sink = running(place, NULL);
    for (int64_t id = 0; id < 120; id++) {
        if (id == 119) { /* an hour later */
            for (int64_t old = 0; old < 119; old++) {
                char name[24];
                snprintf(name, sizeof name, "%d%s", (int)old, old % 10 == 9 ? ".compact" : "");
                char *path = log_file(place, name);
                struct utimbuf times = {time(NULL) - 3600, time(NULL) - 3600};
                if (old != 5) /* this one is young: a reader may still want it */
                    assert_int_equal(utime(path, &times), 0);
                free(path);
            }
        }
        store_ids(sink, QUERY, id, id, 1);
    }
    mt_sink_free(sink);
    assert_false(log_has(place, "0") || log_has(place, "9.compact") || log_has(place, "18"));
    assert_true(log_has(place, "5") && log_has(place, "19.compact") && log_has(place, "20"));
    char *five = log_file(place, "5");
    unlink(five);
    free(five);
    sink = sink_at(place, NULL);
    need_recover(sink, QUERY);
    store_ids(sink, QUERY, 120, 120, 1);
    mt_sink_free(sink);
    assert_ids(place->table, "0-120");
}

static int64_t interval_with(struct place *place, const char *const *names)
{
    struct files_log log;
    struct mt_error err = {0};
    char *command = mt_format("rm -rf '%s'", place->table);
    assert_int_equal(system(command), 0);
    free(command);
    for (; *names; names++)
        put_log(place, *names, "v1");
    files_log_init(&log, place->table, QUERY, "parquet#1");
    if (files_log_refresh(&log, &err) != MT_OK)
        fail_msg("%s", err.text);
    int64_t interval = log.interval;
    files_log_deinit(&log);
    return interval;
}

/* The values are those of Spark's CompactibleFileStreamLog for a default of 10. */
static void the_interval_of_an_existing_log_is_found_as_spark_finds_it(void **state)
{
    struct place *place = *state;
    assert_int_equal(interval_with(place, (const char *[]){NULL}), 10);
    assert_int_equal(interval_with(place, (const char *[]){"0", "1", NULL}), 10);
    assert_int_equal(interval_with(place, (const char *[]){"2.compact", NULL}), 3);
    assert_int_equal(
        interval_with(place, (const char *[]){"2.compact", "3", "4", "5.compact", NULL}), 3);
    assert_int_equal(interval_with(place, (const char *[]){"9.compact", NULL}), 10);
    assert_int_equal(interval_with(place, (const char *[]){"11.compact", NULL}), 12);
    assert_int_equal(interval_with(place, (const char *[]){"19.compact", NULL}), 20);
    assert_int_equal(interval_with(place, (const char *[]){"21.compact", NULL}), 11);
    assert_int_equal(interval_with(place, (const char *[]){"29.compact", "30", NULL}), 10);
    assert_int_equal(interval_with(place, (const char *[]){"43.compact", NULL}), 11);
    assert_int_equal(interval_with(place, (const char *[]){"46.compact", NULL}), 47);
}

static void sparks_own_log_is_read_and_gone_on_with(void **state)
{
    struct place *place = *state;
    struct files_log log;
    struct mt_error err = {0};
    char *command = mt_format("cp -r '%s/spark-orders/table' '%s'", MT_TEST_DATA, place->table);
    assert_int_equal(system(command), 0);
    free(command);
    files_log_init(&log, place->table, QUERY, "parquet#1");
    assert_int_equal(files_log_refresh(&log, &err), MT_OK);
    assert_int_equal(log.last, 3);
    assert_false(log.holds);
    assert_string_equal(log.stranger, "Spark, or a writer like it");
    files_log_deinit(&log);
    char *lines = ask_reader("log", place->table);
    int n = 0;
    for (const char *p = lines; (p = strstr(p, "\"action\": \"add\"")); p++)
        n++;
    assert_int_equal(n, 22);
    free(lines);
    struct mt_sink *sink = sink_at(place, NULL);
    assert_int_equal(sink->type->recover(sink, QUERY, &err), MT_FATAL);
    assert_non_null(strstr(err.text, "Spark"));
    assert_non_null(strstr(err.text, "allowOtherQueries"));
    mt_sink_free(sink);
    sink = guest_at(place);
    need_recover(sink, QUERY);
    store_ids(sink, QUERY, 0, 100, 3);
    assert_true(log_has(place, "4"));
    mt_sink_free(sink);
}

static void assert_damage(struct place *place, const char *name, const char *text,
                          const char *words)
{
    struct mt_error err = {0};
    put_log(place, name, text);
    struct mt_sink *sink = sink_at(place, NULL);
    enum mt_status status = sink->type->recover(sink, QUERY, &err);
    if (status != MT_FATAL || !strstr(err.text, words) || !strstr(err.text, FILES_LOG_FOLDER))
        fail_msg("%s: status %d, \"%s\"", words, status, err.text);
    assert_int_equal(err.class_, MT_CLASS_SINK);
    mt_sink_free(sink);
}

static void damage_of_the_log_is_told_with_file_and_line(void **state)
{
    struct place *place = *state;
    assert_damage(place, "0", "", "the file is empty");
    assert_damage(place, "0", "v2\n", "\"v1\" is expected");
    assert_damage(place, "0", "v1\n{\"path\":\"file:///a\"", "0, line 2");
    assert_damage(place, "0", "v1\n[]", "not a JSON object");
    assert_damage(place, "0",
                  "v1\n{\"path\":\"file:///a\",\"modificationTime\":1,\"action\":\"add\"}",
                  "\"size\" is missing");
    assert_damage(place, "0",
                  "v1\n{\"path\":\"file:///a\",\"size\":1,\"modificationTime\":1,"
                  "\"action\":\"add\",\"moontide\":{\"query\":\"q\",\"sink\":\"s\"}}",
                  "moontide.batch");
    put_log(place, "0", "v1");
    assert_damage(place, "2", "v1", "1 is missing");
}

static void a_log_that_starts_late_is_refused(void **state)
{
    assert_damage(*state, "3", "v1", "0 is missing");
}

static void names_that_are_no_entries_are_left_alone(void **state)
{
    struct place *place = *state;
    put_log(place, "007", "junk");
    put_log(place, ".0.crc", "junk");
    put_log(place, "x.compact", "junk");
    put_log(place, "99999999999999999999", "junk");
    struct mt_sink *sink = running(place, NULL);
    store_ids(sink, QUERY, 0, 0, 4);
    mt_sink_free(sink);
    assert_true(log_has(place, "0") && log_has(place, "007"));
}

/* ---- neighbours */

static void another_querys_table_is_refused(void **state)
{
    struct place *place = *state;
    struct mt_error err = {0};
    struct mt_sink *sink = running(place, NULL);
    store_ids(sink, QUERY, 0, 0, 10);
    mt_sink_free(sink);
    sink = sink_at(place, NULL);
    assert_int_equal(sink->type->recover(sink, OTHER_QUERY, &err), MT_FATAL);
    assert_non_null(strstr(err.text, QUERY));
    assert_non_null(strstr(err.text, "allowOtherQueries=true"));
    assert_int_equal(err.class_, MT_CLASS_SINK);
    /* nor later, when the path of a running query was changed to it */
    assert_int_equal(sink->type->recover(sink, OTHER_QUERY, &err), MT_FATAL);
    need_recover(sink, QUERY); /* its own is no stranger */
    mt_sink_free(sink);
}

static void files_without_a_log_are_refused(void **state)
{
    struct place *place = *state;
    struct mt_error err = {0};
    char *folder = mt_format("%s/day=1", place->table), *file = mt_format("%s/x.parquet", folder);
    mkdir(place->table, 0777);
    mkdir(folder, 0777);
    struct mt_sink *sink = sink_at(place, NULL);
    need_recover(sink, QUERY); /* empty folders hold nothing */
    write_file(file, "PAR1");
    assert_int_equal(sink->type->recover(sink, QUERY, &err), MT_FATAL);
    assert_non_null(strstr(err.text, "files and no log"));
    mt_sink_free(sink);
    free(folder);
    free(file);
}

static void two_queries_share_a_path_when_they_are_told_to(void **state)
{
    struct place *place = *state;
    struct mt_sink *one = running(place, "kind"), *two = guest_at(place);
    store_ids(one, QUERY, 0, 0, 10);
    need_recover(two, OTHER_QUERY);
    for (int64_t id = 0; id < 15; id++) {
        store_ids(two, OTHER_QUERY, id, 1000 + id, 1);
        store_ids(one, QUERY, id + 1, 10 + id, 1);
    }
    mt_sink_free(one);
    mt_sink_free(two);
    one = sink_at(place, "kind");
    need_recover(one, QUERY);
    char *about = mt_sink_describe(one, QUERY), *other = mt_sink_describe(one, OTHER_QUERY);
    assert_non_null(strstr(about, "\"batch\":15"));
    assert_non_null(strstr(other, "\"batch\":14"));
    free(about);
    free(other);
    mt_sink_free(one);
    assert_true(log_has(place, "30") && log_has(place, "29.compact"));
    assert_ids(place->table, "0-24,1000-1014");
}

static void one_querys_leftovers_are_not_anothers(void **state)
{
    struct place *place = *state;
    struct mt_error err;
    struct mt_sink *other = running(place, NULL), *sink = guest_at(place);
    store_ids(other, QUERY, 0, 0, 10);
    struct mt_sink_batch batch = batch_of(QUERY, 1, 10);
    struct mt_sink_record record;
    enum mt_sink_answer answer;
    struct mt_batch rows = make_rows(&place->schema, 10, 10);
    assert_int_equal(other->type->begin(other, &batch, &answer, &record, &err), MT_OK);
    assert_int_equal(other->type->write(other, &rows, &err), MT_OK);
    need_recover(sink, OTHER_QUERY); /* while the other is in the middle of a batch */
    store_ids(sink, OTHER_QUERY, 0, 100, 5);
    assert_int_equal(other->type->commit(other, &record, &err), MT_OK);
    mt_batch_release(&rows);
    mt_sink_free(sink);
    mt_sink_free(other);
    assert_ids(place->table, "0-19,100-104");
}

/* Stores `n` batches of one row each in a process of its own. */
static pid_t start_writer(struct place *place, const char *query, int64_t first, int64_t n)
{
    pid_t child = fork();
    if (child != 0)
        return child;
    struct setup setup = {
        .format = "parquet", .path = place->table, .options = {"allowOtherQueries", "true"}};
    struct mt_sink *sink = NULL;
    struct mt_error err;
    enum mt_sink_answer answer;
    enum mt_status status = make_sink(&setup, &place->schema, &sink, &err);
    if (status == MT_OK)
        status = sink->type->recover(sink, query, &err);
    for (int64_t id = 0; status == MT_OK && id < n; id++) {
        struct mt_batch rows = make_rows(&place->schema, first + id, 1);
        status = store_rows(sink, query, id, &rows, &answer, &err);
        mt_batch_release(&rows);
    }
    if (status != MT_OK)
        fprintf(stderr, "writer: %s\n", err.text);
    _exit(status == MT_OK ? 0 : 1);
}

static void writers_that_race_for_numbers_all_get_theirs(void **state)
{
    struct place *place = *state;
    pid_t writers[] = {start_writer(place, QUERY, 0, 40),
                       start_writer(place, OTHER_QUERY, 1000, 40),
                       start_writer(place, "11111111-2222-4333-8444-555555555555", 2000, 40)};
    for (int i = 0; i < 3; i++) {
        int status = -1;
        waitpid(writers[i], &status, 0);
        assert_int_equal(status, 0);
    }
    assert_true(log_has(place, "119.compact") && !log_has(place, "120"));
    assert_ids(place->table, "0-39,1000-1039,2000-2039");
}

static void a_second_process_of_the_query_finds_the_batch_stored_and_stops(void **state)
{
    struct place *place = *state;
    struct mt_error err = {0};
    struct mt_sink_record record;
    enum mt_sink_answer answer;
    struct mt_sink *one = running(place, NULL), *two = running(place, NULL);
    struct mt_sink_batch batch = batch_of(QUERY, 0, 10);
    struct mt_batch rows = make_rows(&place->schema, 0, 10);
    assert_int_equal(two->type->begin(two, &batch, &answer, &record, &err), MT_OK);
    assert_int_equal(two->type->write(two, &rows, &err), MT_OK);
    store_ids(one, QUERY, 0, 0, 10);
    assert_int_equal(two->type->commit(two, &record, &err), MT_FATAL);
    assert_non_null(strstr(err.text, "two processes"));
    assert_int_equal(err.class_, MT_CLASS_CHECKPOINT);
    two->type->abort(two);
    mt_batch_release(&rows);
    mt_sink_free(one);
    mt_sink_free(two);
    assert_ids(place->table, "0-9");
}

/* The list of an attempt that is alive: nobody else may settle it. */
static void a_pending_list_in_use_is_not_settled_by_another_process(void **state)
{
    struct place *place = *state;
    struct mt_error err = {0};
    struct mt_sink *sink = running(place, NULL);
    store_ids(sink, QUERY, 0, 0, 10);
    char *path = log_file(place, ".mt-" QUERY "-parquet%231.pending");
    write_file(path, "{\"batch\":1,\"digest\":\"\",\"attempt\":\"x\",\"files\":[]}");
    int fd = open(path, O_RDWR);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    assert_int_equal(sink->type->recover(sink, QUERY, &err), MT_FATAL);
    assert_non_null(strstr(err.text, "another process"));
    assert_true(access(path, F_OK) == 0);
    close(fd);
    need_recover(sink, QUERY);
    assert_true(access(path, F_OK) != 0);
    free(path);
    mt_sink_free(sink);
}

#define ATTEMPT "1c9e6f2a-0000-4000-8000-3b7d5a9f0e42" /* no part of a path's chance name */

static void a_pending_list_deletes_only_its_own_files_inside_the_table(void **state)
{
    struct place *place = *state;
    struct mt_sink *sink = running(place, NULL);
    store_ids(sink, QUERY, 0, 0, 10);
    char *list = log_file(place, ".mt-" QUERY "-parquet%231.pending");
    char *outside = mt_format("%s/part-00000-" ATTEMPT ".parquet", place->root);
    char *inside = mt_format("%s/part-00000-" ATTEMPT ".parquet", place->table);
    char *foreign = mt_format("%s/part-00000-y.parquet", place->table);
    write_file(outside, "");
    write_file(inside, "");
    write_file(foreign, "");
    write_file(list, "{\"batch\":1,\"digest\":\"\",\"attempt\":\"" ATTEMPT "\",\"files\":["
                     "\"part-00000-" ATTEMPT ".parquet\",\"../part-00000-" ATTEMPT ".parquet\","
                     "\"a/../../part-00000-" ATTEMPT ".parquet\",\"part-00000-y.parquet\"]}");
    need_recover(sink, QUERY);
    assert_true(access(inside, F_OK) != 0);
    assert_true(access(outside, F_OK) == 0);
    assert_true(access(foreign, F_OK) == 0);
    write_file(list, "{\"batch\":1,\"dig"); /* cut short: nothing was renamed yet */
    need_recover(sink, QUERY);
    assert_true(access(list, F_OK) != 0);
    mt_sink_free(sink);
    free(list);
    free(outside);
    free(inside);
    free(foreign);
}

/* ---- folders */

static struct mt_batch texts(const struct ArrowSchema *schema, const char *const *values, int64_t n)
{
    struct mt_error err;
    struct mt_column columns[2];
    struct ArrowArray arrays[2];
    enum mt_status status = MT_OK;
    for (int i = 0; i < 2; i++)
        mt_column_init(&columns[i], schema->children[i]);
    for (int64_t i = 0; i < n; i++) {
        status |= mt_column_add_int(&columns[0], i, &err);
        status |= values[i] ? mt_column_add_bytes(&columns[1], values[i],
                                                  (int64_t)strlen(values[i]), &err)
                            : mt_column_add_null(&columns[1], &err);
    }
    assert_int_equal(status, MT_OK);
    for (int i = 0; i < 2; i++)
        finish_column(&columns[i], &arrays[i]);
    struct mt_batch batch = {.schema = schema};
    mt_array_struct(arrays, 2, n, &batch.array);
    return batch;
}

static void partition_values_make_sparks_folders_and_read_back_equal(void **state)
{
    struct place *place = *state;
    const char *values[] = {
        "a b",       NULL,      "null",        "x/y=z:50%",      "", "żółć", "a b",
        "Ärger?#[]", "'q'\"\\", "line\nbreak", "~!$&()+,;@`|<>", "7"};
    int64_t n = sizeof values / sizeof *values;
    struct ArrowSchema schema;
    schema_of("id BIGINT, `odd key` STRING", &schema);
    struct setup setup = {.format = "parquet", .path = place->table, .partition_by = {"odd key"}};
    struct mt_sink *sink = need_sink(&setup, &schema);
    struct mt_batch rows = texts(&schema, values, n);
    enum mt_sink_answer answer;
    struct mt_error err = {0};
    need_recover(sink, QUERY);
    if (store_rows(sink, QUERY, 0, &rows, &answer, &err) != MT_OK)
        fail_msg("%s", err.text);
    static const char *const folders[] = {"a b",
                                          "__HIVE_DEFAULT_PARTITION__",
                                          "null",
                                          "x%2Fy%3Dz%3A50%25",
                                          "żółć",
                                          "Ärger%3F%23%5B%5D",
                                          "%27q%27%22%5C",
                                          "line%0Abreak",
                                          "~!$&()+,;@`|<>",
                                          "7"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        char *path = mt_format("%s/odd key=%s", place->table, folders[i]);
        if (access(path, F_OK) != 0)
            fail_msg("%s is missing", path);
        free(path);
    }
    char *text = log_text(place, "0"); /* as java.net.URI prints these folders */
    assert_non_null(strstr(text, "/odd%20key=a%20b/part-"));
    assert_non_null(strstr(text, "/odd%20key=x%252Fy%253Dz%253A50%2525/part-"));
    assert_non_null(strstr(text, "/odd%20key=żółć/part-"));
    assert_non_null(strstr(text, "/odd%20key=~!$&()+,;@%60%7C%3C%3E/part-"));
    free(text);
    char *found = ask_reader("rows", place->table);
    for (int64_t i = 0; i < n; i++) {
        struct mt_buf line = {0};
        mt_buf_addf(&line, "{\"id\": %d, \"odd key\": ", (int)i);
        if (values[i] && values[i][0])
            mt_buf_add_json(&line, values[i], strlen(values[i]));
        else
            mt_buf_adds(&line, "null");
        mt_buf_adds(&line, "}\n");
        if (!strstr(found, line.data))
            fail_msg("%s is not in %s", line.data, found);
        mt_buf_free(&line);
    }
    free(found);
    mt_batch_release(&rows);
    mt_sink_free(sink);
    mt_schema_release(&schema);
    assert_ids(place->table, "0-11");
}

/* What the files of a batch of n rows get, as "folder:row,row;…". */
static char *spread_text(struct place *place, const struct setup *setup, int64_t n)
{
    struct mt_error err = {0};
    struct mt_buf text = {0};
    struct files_groups groups;
    struct mt_sink *sink = need_sink(setup, &place->schema);
    struct mt_batch rows = make_rows(&place->schema, 0, n);
    assert_int_equal(files_group(&((struct files_sink *)sink)->layout, &rows, &groups, &err),
                     MT_OK);
    files_spread(sink, &rows, &groups);
    mt_buf_adds(&text, "");
    for (int64_t i = 0; i < groups.n; i++) {
        mt_buf_addf(&text, "%s%s:", i ? ";" : "", groups.items[i].folder);
        for (int64_t k = 0; k < groups.items[i].n_rows; k++)
            mt_buf_addf(&text, "%s%d", k ? "," : "", groups.items[i].rows[k]);
    }
    files_groups_clear(&groups);
    mt_batch_release(&rows);
    mt_sink_free(sink);
    return text.data;
}

static void assert_spread(struct place *place, const struct setup *setup, int64_t n,
                          const char *expected)
{
    char *text = spread_text(place, setup, n);
    assert_string_equal(text, expected);
    free(text);
}

static void a_batch_is_spread_over_files_in_even_parts_and_in_order(void **state)
{
    struct place *place = *state;
    struct setup setup = {.format = "parquet", .path = place->table, .n_files = 3};
    assert_spread(place, &setup, 10, ":0,1,2,3;:4,5,6;:7,8,9");
    assert_spread(place, &setup, 2, ":0;:1");
    assert_spread(place, &setup, 0, "");
    setup.partition_by[0] = "kind";
    setup.n_files = 2;
    assert_spread(place, &setup, 8,
                  "kind=__HIVE_DEFAULT_PARTITION__:0,3;"
                  "kind=__HIVE_DEFAULT_PARTITION__:6;kind=a:1;kind=a:4,7;kind=b:2;kind=b:5");
}

static void rows_with_equal_values_are_spread_to_one_file(void **state)
{
    struct place *place = *state;
    struct setup setup = {
        .format = "parquet", .path = place->table, .n_files = 1000, .spread_by = "kind"};
    assert_spread(place, &setup, 6, ":1,2,4,5;:0,3"); /* kinds: null, a, b, null, ... */
    setup.spread_by = "no_such";
    struct mt_sink *sink;
    struct mt_error err = {0};
    assert_int_equal(make_sink(&setup, &place->schema, &sink, &err), MT_FATAL);
    assert_non_null(
        strstr(err.text, "repartition by \"no_such\": there is no such column any more"));
}

static void a_batch_in_several_files_is_stored_with_all_of_them(void **state)
{
    struct place *place = *state;
    struct setup setup = {.format = "parquet", .path = place->table, .n_files = 4};
    struct mt_sink *sink = need_sink(&setup, &place->schema);
    need_recover(sink, QUERY);
    store_ids(sink, QUERY, 0, 0, 9);
    mt_sink_free(sink);
    char *text = log_text(place, "0");
    int64_t lines = 0;
    for (const char *at = text; (at = strstr(at, "\"path\"")); at++)
        lines++;
    assert_int_equal(lines, 4);
    free(text);
    sink = need_sink(&setup, &place->schema);
    need_recover(sink, QUERY);
    struct mt_error err = {0};
    enum mt_sink_answer answer;
    assert_int_equal(store_rows(sink, QUERY, 0, NULL, &answer, &err), MT_OK);
    assert_int_equal(answer, MT_SINK_STORED);
    mt_sink_free(sink);
}

static void assert_value_refused(struct place *place, const char *value, const char *words)
{
    struct ArrowSchema schema;
    schema_of("id BIGINT, kind STRING", &schema);
    struct setup setup = {.format = "parquet", .path = place->table, .partition_by = {"kind"}};
    struct mt_sink *sink = need_sink(&setup, &schema);
    struct mt_batch rows = texts(&schema, (const char *[]){"fine", value}, 2);
    enum mt_sink_answer answer;
    struct mt_error err = {0};
    rows.coords = mt_coords_new();
    mt_coords_start(rows.coords, "orders", 3);
    mt_coords_add(rows.coords, 41);
    mt_coords_add(rows.coords, 42);
    need_recover(sink, QUERY);
    assert_int_equal(store_rows(sink, QUERY, 0, &rows, &answer, &err), MT_REJECT);
    assert_int_equal(err.class_, MT_CLASS_DATA);
    if (!strstr(err.text, words) || !strstr(err.text, "kind") || !strstr(err.text, "orders[3]@42"))
        fail_msg("%s", err.text);
    mt_batch_release(&rows);
    mt_sink_free(sink);
    mt_schema_release(&schema);
    assert_ids(place->table, "");
}

static void values_that_no_folder_can_say_are_refused_with_their_row(void **state)
{
    char *longest = mt_alloc(252);
    memset(longest, 'x', 251);
    assert_value_refused(*state, "__HIVE_DEFAULT_PARTITION__", "read back as null");
    assert_value_refused(*state, longest, "255 bytes");
    assert_value_refused(*state, "\xff", "UTF-8");
    free(longest);
}

static void assert_declaration(struct place *place, const char *ddl, const char *partition_by,
                               enum mt_status expected, const char *words)
{
    struct ArrowSchema schema;
    struct mt_sink *sink = NULL;
    struct mt_error err = {0};
    schema_of(ddl, &schema);
    struct setup setup = {
        .format = "parquet", .path = place->table, .partition_by = {partition_by}};
    enum mt_status status = make_sink(&setup, &schema, &sink, &err);
    if (status != expected || (words && !strstr(err.text, words)))
        fail_msg("%s by %s: status %d, \"%s\"", ddl, partition_by, status, err.text);
    if (status != MT_OK)
        assert_int_equal(err.class_, MT_CLASS_JOB);
    mt_sink_free(sink);
    mt_schema_release(&schema);
}

static void columns_that_make_no_folders_are_refused_when_declared(void **state)
{
    assert_declaration(*state, "a INT, b DOUBLE", "b", MT_REJECT, "\"b\" is DOUBLE");
    assert_declaration(*state, "a INT, b FLOAT", "b", MT_REJECT, "\"b\" is FLOAT");
    assert_declaration(*state, "a INT, b BINARY", "b", MT_REJECT, "\"b\" is BINARY");
    assert_declaration(*state, "a INT, b ARRAY<INT>", "b", MT_REJECT, "\"b\" is ARRAY<INT>");
    assert_declaration(*state, "a INT, `.b` INT", ".b", MT_REJECT, "skipped by readers");
    assert_declaration(*state, "a INT", "a", MT_REJECT, "every column");
    assert_declaration(*state, "amount INT, b INT", "amuont", MT_FATAL, "did you mean \"amount\"?");
    assert_declaration(*state, "a INT, b INT", "B", MT_OK, NULL);
    assert_declaration(*state, "a INT, A INT, b INT", "b", MT_REJECT, "rename the existing column");
}

/* ---- values */

static void every_scalar_type_reads_back_as_it_was(void **state)
{
    struct place *place = *state;
    struct ArrowSchema schema;
    struct mt_error err = {0};
    enum mt_sink_answer answer;
    schema_of("id INT, b BOOLEAN, t TINYINT, s SMALLINT, l BIGINT, f FLOAT, g DOUBLE, "
              "d9 DECIMAL(9,2), d38 DECIMAL(38,10), str STRING, bin BINARY, d DATE, ts TIMESTAMP",
              &schema);
    enum { N = 13 };
    struct mt_column c[N];
    struct ArrowArray arrays[N];
    uint64_t minus[2] = {(uint64_t)-1, (uint64_t)-1}, large[2] = {0, 1};
    enum mt_status status = MT_OK;
    for (int i = 0; i < N; i++)
        mt_column_init(&c[i], schema.children[i]);
    static const int64_t ints[] = {0, 1, -128, -32768, INT64_MIN};
    for (int i = 0; i < 5; i++)
        status |= mt_column_add_int(&c[i], ints[i], &err);
    status |= mt_column_add_double(&c[5], 0.5, &err) | mt_column_add_double(&c[6], -1e300, &err);
    status |= mt_column_add_decimal(&c[7], minus, &err) | mt_column_add_decimal(&c[8], large, &err);
    status |= mt_column_add_bytes(&c[9], "zażółć", strlen("zażółć"), &err);
    status |= mt_column_add_bytes(&c[10], "\0\xff", 2, &err);
    status |= mt_column_add_int(&c[11], -1, &err) | mt_column_add_int(&c[12], -1, &err);
    status |= mt_column_add_int(&c[0], 1, &err);
    for (int i = 1; i < N; i++)
        status |= mt_column_add_null(&c[i], &err);
    assert_int_equal(status, MT_OK);
    for (int i = 0; i < N; i++)
        finish_column(&c[i], &arrays[i]);
    struct mt_batch rows = {.schema = &schema};
    mt_array_struct(arrays, N, 2, &rows.array);
    struct setup setup = {.format = "parquet", .path = place->table};
    struct mt_sink *sink = need_sink(&setup, &schema);
    need_recover(sink, QUERY);
    if (store_rows(sink, QUERY, 0, &rows, &answer, &err) != MT_OK)
        fail_msg("%s", err.text);
    char *found = ask_reader("rows", place->table);
    assert_string_equal(
        found,
        "{\"b\": true, \"bin\": {\"bytes\": \"00FF\"}, \"d\": \"1969-12-31\", \"d38\": "
        "\"1844674407.3709551616\", \"d9\": \"-0.01\", \"f\": 0.5, \"g\": -1e+300, \"id\": 0, "
        "\"l\": -9223372036854775808, \"s\": -32768, \"str\": \"zażółć\", \"t\": -128, \"ts\": "
        "\"1969-12-31 23:59:59.999999+00:00\"}\n"
        "{\"b\": null, \"bin\": null, \"d\": null, \"d38\": null, \"d9\": null, \"f\": null, "
        "\"g\": null, \"id\": 1, \"l\": null, \"s\": null, \"str\": null, \"t\": null, \"ts\": "
        "null}\n");
    free(found);
    mt_batch_release(&rows);
    mt_sink_free(sink);
    mt_schema_release(&schema);
}

static void the_footer_says_which_batch_of_which_query_wrote_it(void **state)
{
    struct place *place = *state;
    struct mt_sink *sink = running(place, NULL);
    store_ids(sink, QUERY, 41, 0, 3);
    mt_sink_free(sink);
    char *command = mt_format("echo '%s'/part-*", place->table), *file = output_of(command);
    file[strcspn(file, "\n")] = '\0';
    char *found = ask_reader("meta", file);
    json_t *pairs = json_loads(found, 0, NULL);
    struct mt_sink_batch batch = batch_of(QUERY, 41, 3);
    const char *const expected[][2] = {
        {"moontide.version", batch.version},  {"moontide.query_id", QUERY},
        {"moontide.query", batch.query_name}, {"moontide.batch_id", "41"},
        {"moontide.offsets", batch.offsets},  {"moontide.bundle", batch.bundle},
        {"moontide.digest", batch.digest},
    };
    assert_int_equal(json_object_size(pairs), 7);
    for (int i = 0; i < 7; i++)
        assert_string_equal(json_string_value(json_object_get(pairs, expected[i][0])),
                            expected[i][1]);
    json_decref(pairs);
    free(command);
    free(file);
    free(found);
}

static void each_codec_has_sparks_ending_and_reads_back(void **state)
{
    struct place *place = *state;
    static const char *const codecs[][2] = {
        {"none", ".c000.parquet"},          {"uncompressed", ".c000.parquet"},
        {"SNAPPY", ".c000.snappy.parquet"}, {"gzip", ".c000.gz.parquet"},
        {"zstd", ".c000.zstd.parquet"},     {"lz4", ".c000.lz4raw.parquet"}};
    for (int64_t i = 0; i < 6; i++) {
        struct setup setup = {
            .format = "parquet", .path = place->table, .options = {"compression", codecs[i][0]}};
        struct mt_sink *sink = need_sink(&setup, &place->schema);
        need_recover(sink, QUERY);
        store_ids(sink, QUERY, i, i * 10, 10);
        mt_sink_free(sink);
        char name[24];
        snprintf(name, sizeof name, "%d", (int)i);
        char *text = log_text(place, name);
        assert_non_null(strstr(text, codecs[i][1]));
        free(text);
    }
    assert_ids(place->table, "0-59");
}

/* ---- trouble */

static void the_rows_given_must_be_the_rows_announced(void **state)
{
    struct place *place = *state;
    struct mt_sink *sink = running(place, NULL);
    struct mt_sink_batch batch = batch_of(QUERY, 0, 11);
    struct mt_sink_record record;
    enum mt_sink_answer answer;
    struct mt_error err = {0};
    struct mt_batch rows = make_rows(&place->schema, 0, 10);
    assert_int_equal(sink->type->begin(sink, &batch, &answer, &record, &err), MT_OK);
    assert_int_equal(sink->type->write(sink, &rows, &err), MT_OK);
    assert_int_equal(sink->type->commit(sink, &record, &err), MT_FATAL);
    assert_int_equal(err.class_, MT_CLASS_INTERNAL);
    assert_non_null(strstr(err.text, "11 rows, 10 were written"));
    sink->type->abort(sink);
    mt_batch_release(&rows);
    mt_sink_free(sink);
    assert_ids(place->table, "");
}

static void trouble_of_the_machine_is_told_from_the_rest(void **state)
{
    struct place *place = *state;
    static const struct {
        const char *fail, *words;
        enum mt_class class_;
    } cases[] = {
        {"file.write=28", "No space left on device; make room", MT_CLASS_MACHINE},
        {"file.open=24", "Too many open files; raise the limit", MT_CLASS_MACHINE},
        {"file.fsync=5", "Input/output error; look at the disk", MT_CLASS_MACHINE},
        {"file.rename=13", "Permission denied; the user", MT_CLASS_SINK},
        {"file.link=1", "the file system must have hard links", MT_CLASS_SINK},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mt_sink *sink = running(place, NULL);
        struct mt_batch rows = make_rows(&place->schema, 0, 10);
        struct mt_error err = {0};
        enum mt_sink_answer answer;
        setenv("MOONTIDE_FAIL", cases[i].fail, 1);
        assert_int_equal(store_rows(sink, QUERY, 0, &rows, &answer, &err), MT_FATAL);
        unsetenv("MOONTIDE_FAIL");
        if (err.class_ != cases[i].class_ || !strstr(err.text, cases[i].words) ||
            !strstr(err.text, place->table))
            fail_msg("%s: class %d, \"%s\"", cases[i].fail, err.class_, err.text);
        mt_batch_release(&rows);
        mt_sink_free(sink);
        assert_ids(place->table, "");
    }
}

static void a_file_in_the_place_of_the_table_is_told(void **state)
{
    struct place *place = *state;
    write_file(place->table, "not a folder");
    struct mt_sink *sink = sink_at(place, NULL);
    struct mt_error err = {0};
    assert_int_equal(sink->type->recover(sink, QUERY, &err), MT_FATAL);
    assert_non_null(strstr(err.text, "a file stands where a folder is expected"));
    mt_sink_free(sink);
}

static void temporary_files_of_a_killed_run_go_wherever_they_lie(void **state)
{
    struct place *place = *state;
    pid_t child = fork();
    if (child == 0) {
        setenv("MOONTIDE_KILL", "file.fsync:0", 1);
        struct mt_sink *sink = running(place, "kind");
        store_ids(sink, QUERY, 0, 0, 10);
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    assert_true(WIFSIGNALED(status));
    char *command = mt_format("find '%s' -name '.part-*' | wc -l", place->table);
    char *before = output_of(command);
    assert_string_equal(before, "1\n");
    struct mt_sink *sink = sink_at(place, "kind");
    need_recover(sink, OTHER_QUERY); /* not another query's business */
    char *between = output_of(command);
    assert_string_equal(between, "1\n");
    need_recover(sink, QUERY); /* a temporary file is no data of a stranger */
    char *after = output_of(command);
    assert_string_equal(after, "0\n");
    mt_sink_free(sink);
    free(command);
    free(before);
    free(between);
    free(after);
}

/* ---- how many rows and bytes a file has, and how long the log knows it */

static struct mt_sink *sink_with(struct place *place, const char *format, const char *option,
                                 const char *value)
{
    struct setup setup = {.format = format, .path = place->table, .options = {option, value}};
    struct mt_sink *sink = need_sink(&setup, &place->schema);
    need_recover(sink, QUERY);
    return sink;
}

/* Sizes of the table's files, in the order of the log; returns how many. */
static int64_t file_sizes(struct place *place, int64_t *sizes)
{
    char *text = ask_reader("log", place->table), *rest = text;
    int64_t n = 0;
    for (char *line; *(line = strsep(&rest, "\n"));) {
        json_t *entry = json_loads(line, 0, NULL);
        sizes[n++] = json_integer_value(json_object_get(entry, "size"));
        json_decref(entry);
    }
    free(text);
    return n;
}

static void no_file_has_more_rows_than_it_may(void **state)
{
    struct place *place = *state;
    int64_t sizes[8];
    struct mt_sink *sink = sink_with(place, "csv", "maxRecordsPerFile", "4");
    store_ids(sink, QUERY, 0, 0, 10);
    mt_sink_free(sink);
    assert_int_equal(file_sizes(place, sizes), 3);
    assert_true(sizes[2] < sizes[0]);
    assert_ids(place->table, "0-9");
}

static void files_are_about_as_large_as_they_should_be(void **state)
{
    struct place *place = *state;
    const char *const formats[] = {"json", "parquet"};
    for (int f = 0; f < 2; f++) {
        int64_t sizes[64];
        struct mt_sink *sink = sink_with(place, formats[f], "targetFileSize", "200000");
        store_ids(sink, QUERY, 0, 0, 100000);
        mt_sink_free(sink);
        int64_t n = file_sizes(place, sizes);
        assert_in_range(n, 3, 63);
        for (int64_t i = 0; i + 1 < n; i++)
            assert_in_range(sizes[i], 150000, 250000);
        assert_ids(place->table, "0-99999");
        free(place->table);
        place->table = mt_format("%s/other", place->root);
    }
}

static void store_when(struct mt_sink *sink, const char *query, int64_t id, int64_t planned_us)
{
    struct mt_error err = {0};
    enum mt_sink_answer answer;
    struct mt_sink_record record;
    struct mt_sink_batch batch = batch_of(query, id, 1);
    struct mt_batch rows = make_rows(sink->schema, id, 1);
    batch.planned_us = planned_us;
    if (sink->type->begin(sink, &batch, &answer, &record, &err) != MT_OK ||
        sink->type->write(sink, &rows, &err) != MT_OK ||
        sink->type->commit(sink, &record, &err) != MT_OK)
        fail_msg("%s", err.text);
    mt_batch_release(&rows);
}

static void the_log_forgets_old_files_but_no_querys_last_batch(void **state)
{
    struct place *place = *state;
    struct mt_sink *guest = guest_at(place);
    need_recover(guest, OTHER_QUERY);
    store_when(guest, OTHER_QUERY, 77, 0);
    mt_sink_free(guest);
    struct setup setup = {.format = "parquet",
                          .path = place->table,
                          .options = {"retention", "1 hour", "allowOtherQueries", "true"}};
    struct mt_sink *sink = need_sink(&setup, &place->schema);
    need_recover(sink, QUERY);
    int64_t day_us = 86400 * (int64_t)1000000, now_us = mt_clock_ms() * 1000;
    for (int64_t id = 0; id < 9; id++) /* the tenth entry is made a day later */
        store_when(sink, QUERY, id, id < 8 ? now_us : now_us + day_us);
    mt_sink_free(sink);
    assert_true(log_has(place, "9.compact"));
    char *text = ask_reader("rows", place->table);
    assert_non_null(strstr(text, "\"id\": 7,"));
    assert_non_null(strstr(text, "\"id\": 8,"));
    assert_non_null(strstr(text, "\"id\": 77,"));
    assert_null(strstr(text, "\"id\": 6,"));
    free(text);
}

static void names_end_as_sparks_do(void **state)
{
    (void)state;
    const char *const cases[][3] = {
        {"json", "none", ".c000.json"},
        {"json", "gzip", ".c000.json.gz"},
        {"csv", "zstd", ".c000.csv.zst"},
        {"text", "bzip2", ".c000.txt.bz2"},
        {"csv", "deflate", ".c000.csv.deflate"},
        {"orc", "zlib", ".c000.zlib.orc"},
        {"orc", "NONE", ".c000.orc"},
        {"parquet", "gzip", ".c000.gz.parquet"},
        {"parquet", "uncompressed", ".c000.parquet"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *ending = files_ending(files_format_of(cases[i][0]), cases[i][1]);
        char *whole = mt_format(".c000%s", ending);
        assert_string_equal(whole, cases[i][2]);
        free(whole);
        free(ending);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        TEST(an_entry_is_sparks_line_with_one_field_more),
        TEST(thirty_batches_some_of_them_empty_make_a_log_without_gaps),
        TEST(a_compact_entry_repeats_every_line_before_it_unchanged),
        TEST(old_entries_go_when_a_hundred_newer_ones_are_there),
        TEST(the_interval_of_an_existing_log_is_found_as_spark_finds_it),
        TEST(sparks_own_log_is_read_and_gone_on_with),
        TEST(damage_of_the_log_is_told_with_file_and_line),
        TEST(a_log_that_starts_late_is_refused),
        TEST(names_that_are_no_entries_are_left_alone),
        TEST(another_querys_table_is_refused),
        TEST(files_without_a_log_are_refused),
        TEST(two_queries_share_a_path_when_they_are_told_to),
        TEST(one_querys_leftovers_are_not_anothers),
        TEST(writers_that_race_for_numbers_all_get_theirs),
        TEST(a_second_process_of_the_query_finds_the_batch_stored_and_stops),
        TEST(a_pending_list_in_use_is_not_settled_by_another_process),
        TEST(a_pending_list_deletes_only_its_own_files_inside_the_table),
        TEST(partition_values_make_sparks_folders_and_read_back_equal),
        TEST(a_batch_is_spread_over_files_in_even_parts_and_in_order),
        TEST(rows_with_equal_values_are_spread_to_one_file),
        TEST(a_batch_in_several_files_is_stored_with_all_of_them),
        TEST(values_that_no_folder_can_say_are_refused_with_their_row),
        TEST(columns_that_make_no_folders_are_refused_when_declared),
        TEST(every_scalar_type_reads_back_as_it_was),
        TEST(the_footer_says_which_batch_of_which_query_wrote_it),
        TEST(each_codec_has_sparks_ending_and_reads_back),
        TEST(the_rows_given_must_be_the_rows_announced),
        TEST(trouble_of_the_machine_is_told_from_the_rest),
        TEST(a_file_in_the_place_of_the_table_is_told),
        TEST(temporary_files_of_a_killed_run_go_wherever_they_lie),
        TEST(no_file_has_more_rows_than_it_may),
        TEST(files_are_about_as_large_as_they_should_be),
        TEST(the_log_forgets_old_files_but_no_querys_last_batch),
        cmocka_unit_test(names_end_as_sparks_do),
#undef TEST
    };
    mt_log_level(MT_ERROR);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    stop_reader();
    return failed;
}
