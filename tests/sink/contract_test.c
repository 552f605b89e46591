/* SPDX-License-Identifier: Apache-2.0
 *
 * contract_test.c - every sink in the table keeps the contract; and the suite finds
 * every sink that is wrong on purpose (wrong_sinks.c).
 *
 * A new sink is covered as it is. One that says exactly_once adds a line to `known`
 * below: how its rows are read back, where it may be killed, which calls may fail. */
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

static const char *const file_steps[] = {"file.write", "file.fsync", "file.pending", "file.rename",
                                         "file.log",   "file.link",  "file.done",    NULL};
static const char *const file_fails[] = {
    "file.open=24", "file.write=5", "file.write", "file.fsync=5",  "file.folder", "file.pending",
    "file.rename",  "file.log",     "file.link",  "file.logged=5", NULL};

static const struct subject known[] = {
    {"parquet", make_one, "parquet", NULL, 0, held_by_a_table, file_steps, file_fails},
    {"parquet by kind", make_one, "parquet", "kind", 0, held_by_a_table, file_steps, file_fails},
    {"orc", make_one, "orc", NULL, 0, held_by_a_table, file_steps, file_fails},
    {"json", make_one, "json", NULL, 0, held_by_a_table, file_steps, file_fails},
    {"csv", make_one, "csv", NULL, 0, held_by_a_table, file_steps, file_fails},
    {"csv by kind", make_one, "csv", "kind", 0, held_by_a_table, file_steps, file_fails},
    {"text", make_one, "text", NULL, 0, held_by_a_table, file_steps, file_fails, "line STRING"},
    {"memory", make_one, "memory", NULL, 0, held_by_memory, NULL, NULL},
    {"odbc to SQLite", make_table, "odbc", NULL, 0, held_by_sqlite, odbc_steps, odbc_fails},
    {"odbc to PostgreSQL", make_table, "odbc", NULL, 0, held_by_postgresql, odbc_steps, odbc_fails},
    {"odbc to MariaDB", make_table, "odbc", NULL, 0, held_by_mariadb, odbc_steps, odbc_fails},
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
    for (int i = 0; i < N_KNOWN; i++)
        if (port_of(database_of(&known[i]))) /* else scripts/databases was not asked for it */
            broken += keep_all(&known[i]);
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
