/* SPDX-License-Identifier: Apache-2.0
 *
 * contract_test.c - every sink in the table keeps the contract; and the suite finds
 * every sink that is wrong on purpose (wrong_sinks.c).
 *
 * A new sink is covered as it is. One that says exactly_once adds a line to `known`
 * below: how its rows are read back, where it may be killed, which calls may fail. One that needs
 * a server is passed over when the environment names none. */
#include "kafka_reader.h"
#include "wrong_sinks.c"

static struct mt_sink *make_one(const struct subject *subject, const char *path,
                                const struct ArrowSchema *schema, struct mt_error *err)
{
    const struct mt_sink_type *type = mt_sink_type_of(subject->format);
    struct setup setup = {.format = subject->format,
                          .path = type->needs_path ? path : NULL,
                          .query_name = "contract",
                          .partition_by = {subject->partition_by}};
    struct mt_sink *sink = NULL;
    return make_sink(&setup, schema, &sink, err) == MT_OK ? sink : NULL;
}

static char *held_by_a_table(const char *path)
{
    char *text = ask_reader("ids", path);
    text[strcspn(text, "\n")] = '\0';
    return text;
}

static char *held_by_memory(const char *path)
{
    (void)path;
    struct mt_batch rows = {0};
    if (!mt_memory_table("contract", &rows))
        return mt_strdup("no table");
    char *text = print_ids(rows.array.children[0]->buffers[1], rows.array.length);
    mt_batch_release(&rows);
    return text;
}

static enum database database_of(const struct subject *subject)
{
    return strstr(subject->label, "PostgreSQL") ? POSTGRESQL
           : strstr(subject->label, "MariaDB")  ? MARIADB
                                                : SQLITE;
}

static struct mt_sink *make_table(const struct subject *subject, const char *path,
                                  const struct ArrowSchema *schema, struct mt_error *err)
{
    enum database database = database_of(subject);
    char *connection = connection_of(database, path), *table = table_of(database, path);
    struct setup setup = {.format = subject->format,
                          .query_name = "contract",
                          .options = {"connection", connection, "table", table}};
    struct mt_sink *sink = NULL;
    enum mt_status status = make_sink(&setup, schema, &sink, err);
    free(connection), free(table);
    return status == MT_OK ? sink : NULL;
}

static char *held_by_a_database(enum database database, const char *path)
{
    int64_t ids[100], n = 0;
    if (database == SQLITE && access(path, F_OK) != 0)
        return mt_strdup("");
    char *text = ask_database(database, path, "SELECT id FROM $T ORDER BY id"), *rest = text, *line;
    while (n < 100 && (line = strsep(&rest, "\n")) && *line >= '0' && *line <= '9')
        ids[n++] = strtoll(line, NULL, 10);
    free(text);
    return print_ids(ids, n);
}

static char *held_by_sqlite(const char *path)
{
    return held_by_a_database(SQLITE, path);
}

static char *held_by_postgresql(const char *path)
{
    return held_by_a_database(POSTGRESQL, path);
}

static char *held_by_mariadb(const char *path)
{
    return held_by_a_database(MARIADB, path);
}

static const char *const odbc_steps[] = {"odbc.ledger", "odbc.rows", "odbc.commit", NULL};
static const char *const odbc_fails[] = {"odbc.insert", "odbc.commit", NULL};

/* A path's own topic: its folder's name is there once. */
static char *topic_of(const char *path)
{
    char *folder = mt_strdup(path);
    *strrchr(folder, '/') = '\0';
    char *topic = mt_strdup(strrchr(folder, '/') + 1);
    free(folder);
    return topic;
}

static struct mt_sink *make_kafka(const struct subject *subject, const char *path,
                                  const struct ArrowSchema *schema, struct mt_error *err)
{
    char *topic = topic_of(path);
    struct setup setup = {.format = subject->format,
                          .options = {"kafka.bootstrap.servers", test_brokers(), "topic", topic}};
    struct mt_sink *sink = NULL;
    enum mt_status status = make_sink(&setup, schema, &sink, err);
    free(topic);
    return status == MT_OK ? sink : NULL;
}

struct ids {
    int64_t items[200], n;
};

static void take_id(void *ctx, const rd_kafka_message_t *message)
{
    struct ids *ids = ctx;
    char *text = mt_strndup(message->payload, message->len);
    ids->items[ids->n++] = strtoll(text, NULL, 10);
    free(text);
}

static char *held_by_a_topic(const char *path)
{
    struct ids ids = {.n = 0};
    char *topic = topic_of(path);
    read_committed(topic, take_id, &ids);
    free(topic);
    qsort(ids.items, (size_t)ids.n, sizeof *ids.items, by_id);
    return print_ids(ids.items, ids.n);
}

static const char *const kafka_steps[] = {"kafka.written", "kafka.marked", "kafka.committed", NULL};
static const char *const kafka_fails[] = {"kafka.produce", "kafka.mark", "kafka.commit", NULL};

static const char *const file_steps[] = {"file.write", "file.fsync", "file.pending", "file.rename",
                                         "file.log",   "file.link",  "file.done",    NULL};
static const char *const file_fails[] = {
    "file.open=24", "file.write=5", "file.write", "file.fsync=5",  "file.folder", "file.pending",
    "file.rename",  "file.log",     "file.link",  "file.logged=5", NULL};

static const char *const delta_steps[] = {"file.write", "file.fsync", "file.pending",
                                          "file.rename", "delta.log", "delta.link",
                                          "delta.done", NULL};
static const char *const delta_fails[] = {
    "file.open=24", "file.write=5", "file.write", "file.fsync=5", "file.folder",
    "file.pending", "file.rename", "delta.log", "delta.link", "delta.linked=5", NULL};

static const struct subject known[] = {
    {.label = "delta",
     .make = make_one,
     .format = "delta",
     .held = held_by_a_table,
     .steps = delta_steps,
     .fails = delta_fails},
    {.label = "delta by kind",
     .make = make_one,
     .format = "delta",
     .partition_by = "kind",
     .held = held_by_a_table,
     .steps = delta_steps,
     .fails = delta_fails},
    {.label = "parquet",
     .make = make_one,
     .format = "parquet",
     .held = held_by_a_table,
     .steps = file_steps,
     .fails = file_fails},
    {.label = "parquet by kind",
     .make = make_one,
     .format = "parquet",
     .partition_by = "kind",
     .held = held_by_a_table,
     .steps = file_steps,
     .fails = file_fails},
    {.label = "orc",
     .make = make_one,
     .format = "orc",
     .held = held_by_a_table,
     .steps = file_steps,
     .fails = file_fails},
    {.label = "json",
     .make = make_one,
     .format = "json",
     .held = held_by_a_table,
     .steps = file_steps,
     .fails = file_fails},
    {.label = "csv",
     .make = make_one,
     .format = "csv",
     .held = held_by_a_table,
     .steps = file_steps,
     .fails = file_fails},
    {.label = "csv by kind",
     .make = make_one,
     .format = "csv",
     .partition_by = "kind",
     .held = held_by_a_table,
     .steps = file_steps,
     .fails = file_fails},
    {.label = "text",
     .make = make_one,
     .format = "text",
     .held = held_by_a_table,
     .steps = file_steps,
     .fails = file_fails,
     .ddl = "line STRING"},
    {.label = "memory", .make = make_one, .format = "memory", .held = held_by_memory},
    {.label = "kafka",
     .make = make_kafka,
     .format = "kafka",
     .text = "value",
     .held = held_by_a_topic,
     .steps = kafka_steps,
     .fails = kafka_fails,
     .server = "MOONTIDE_TEST_BROKERS"},
    {.label = "odbc to SQLite",
     .make = make_table,
     .format = "odbc",
     .held = held_by_sqlite,
     .steps = odbc_steps,
     .fails = odbc_fails},
    {.label = "odbc to PostgreSQL",
     .make = make_table,
     .format = "odbc",
     .held = held_by_postgresql,
     .steps = odbc_steps,
     .fails = odbc_fails,
     .server = "MOONTIDE_TEST_POSTGRESQL"},
    {.label = "odbc to MariaDB",
     .make = make_table,
     .format = "odbc",
     .held = held_by_mariadb,
     .steps = odbc_steps,
     .fails = odbc_fails,
     .server = "MOONTIDE_TEST_MARIADB"},
};
enum { N_KNOWN = sizeof known / sizeof *known };

static bool is_known(const char *format)
{
    for (int i = 0; i < N_KNOWN; i++)
        if (strcmp(known[i].format, format) == 0)
            return true;
    return false;
}

/* Standard output of this process into nowhere, for sinks that print. */
static int mute(int fd)
{
    fflush(NULL);
    int saved = dup(fd), nowhere = open("/dev/null", O_WRONLY);
    dup2(nowhere, fd);
    close(nowhere);
    return saved;
}

static void unmute(int fd, int saved)
{
    fflush(NULL);
    dup2(saved, fd);
    close(saved);
}

static int keep_all(const struct subject *subject)
{
    int broken = 0;
    for (int i = 0; i < N_RULES; i++) {
        int saved = mute(STDOUT_FILENO);
        char *words = run_rule(&rules[i], subject);
        unmute(STDOUT_FILENO, saved);
        if (words)
            print_error("%s breaks %s: %s\n", subject->label, rules[i].name, words);
        broken += words != NULL;
        free(words);
    }
    return broken;
}

static void every_sink_keeps_the_contract(void **state)
{
    (void)state;
    int broken = 0;
    for (const struct mt_sink_type *const *type = mt_sink_types; *type; type++) {
        if (is_known((*type)->name))
            continue;
        if ((*type)->exactly_once)
            fail_msg("%s says exactly once: add a line to `known` that reads it back",
                     (*type)->name);
        struct subject plain = {.label = (*type)->name, .make = make_one, .format = (*type)->name};
        broken += keep_all(&plain);
    }
    for (int i = 0; i < N_KNOWN; i++) {
        if (!known[i].server || getenv(known[i].server))
            broken += keep_all(&known[i]);
        else
            print_message("%s is passed over: %s is not set\n", known[i].label, known[i].server);
    }
    assert_int_equal(broken, 0);
}

static void the_right_toy_keeps_the_contract(void **state)
{
    (void)state;
    struct subject right = toy_subject(RIGHT);
    assert_int_equal(keep_all(&right), 0);
}

static const struct rule *rule_named(const char *name)
{
    for (int i = 0; i < N_RULES; i++)
        if (strcmp(rules[i].name, name) == 0)
            return &rules[i];
    fail_msg("no rule %s", name);
    return NULL;
}

/* In a process of its own: what is found may be a crash. */
static bool is_found(enum wrong wrong, const struct rule *rule)
{
    struct subject subject = toy_subject(wrong);
    char *root = new_folder();
    int saved = mute(STDERR_FILENO);
    pid_t child = fork();
    if (child == 0) {
        setenv("TMPDIR", root, 1);
        signal(SIGSEGV, SIG_DFL);
        _exit(run_rule(rule, &subject) ? 1 : 0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    unmute(STDERR_FILENO, saved);
    drop_folder(root);
    return !(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void every_wrong_sink_is_found_by_its_rule(void **state)
{
    (void)state;
    int missed = 0;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
#ifndef MT_SANITIZED
        if (faults[i].wrong == KEEPS_A_POINTER)
            continue; /* the address sanitizer is what finds it */
#endif
        if (is_found(faults[i].wrong, rule_named(faults[i].rule)))
            continue;
        print_error("fault %d passes %s\n", (int)faults[i].wrong, faults[i].rule);
        missed++;
    }
    assert_int_equal(missed, 0);
}

static void every_rule_finds_a_wrong_sink(void **state)
{
    (void)state;
    for (int i = 0; i < N_RULES; i++) {
        bool used = false;
        for (size_t k = 0; k < sizeof faults / sizeof *faults; k++)
            used = used || strcmp(faults[k].rule, rules[i].name) == 0;
        if (!used)
            fail_msg("no wrong sink shows that %s can fail", rules[i].name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_right_toy_keeps_the_contract),
        cmocka_unit_test(every_wrong_sink_is_found_by_its_rule),
        cmocka_unit_test(every_rule_finds_a_wrong_sink),
        cmocka_unit_test(every_sink_keeps_the_contract),
    };
    mt_log_level(MT_ERROR);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    mt_memory_table_drop("contract");
    stop_reader();
    return failed;
}
