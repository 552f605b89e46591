/* SPDX-License-Identifier: Apache-2.0
 *
 * databases.h - SQLite always, PostgreSQL and MariaDB where MOONTIDE_TEST_POSTGRESQL and
 * MOONTIDE_TEST_MARIADB name their ports (scripts/databases): a table for each path, asked by the
 * database's own client. */
#ifndef DATABASES_H
#define DATABASES_H

#include "support.h"

enum database { SQLITE, POSTGRESQL, MARIADB };

static inline const char *port_of(enum database database)
{
    return database == SQLITE ? ""
                              : getenv(database == POSTGRESQL ? "MOONTIDE_TEST_POSTGRESQL"
                                                              : "MOONTIDE_TEST_MARIADB");
}

static inline char *connection_of(enum database database, const char *path)
{
    const char *port = port_of(database);
    if (database == SQLITE)
        return mt_format("Driver=SQLite3;Database=%s;Timeout=1000", path);
    if (database == POSTGRESQL)
        return mt_format(
            "Driver=PostgreSQL Unicode;Server=127.0.0.1;Port=%s;Database=test;Uid=test", port);
    return mt_format("Driver=MariaDB Unicode;Server=127.0.0.1;Port=%s;Database=test;Uid=test;"
                     "Pwd=test-pw",
                     port);
}

/* In a server all paths share a database: "/tmp/mt-sink-ab1/table" is table mt_sink_ab1. */
static inline char *table_of(enum database database, const char *path)
{
    char *name = mt_strdup("orders");
    if (database == SQLITE)
        return name;
    free(name);
    char *copy = mt_strdup(path), *slash = strrchr(copy, '/');
    *slash = '\0';
    slash = strrchr(copy, '/');
    name = mt_strdup(slash ? slash + 1 : copy);
    for (char *at = name; *at; at++)
        *at = *at == '-' ? '_' : *at;
    free(copy);
    return name;
}

/* Lines, columns separated by |; $T in sql is the table. */
static inline char *ask_database(enum database database, const char *path, const char *sql)
{
    char *table = table_of(database, path);
    struct mt_buf text = {0};
    const char *mark = database == MARIADB ? "`" : "\"";
    for (; *sql; sql++) {
        bool is_table = strncmp(sql, "$T", 2) == 0;
        if (is_table)
            mt_buf_addf(&text, "%s%s%s", mark, table, mark);
        else
            mt_buf_add(&text, sql, 1);
        sql += is_table;
    }
    char *command =
        database == SQLITE ? mt_format("sqlite3 '%s' '%s' 2>&1", path, text.data)
        : database == POSTGRESQL
            ? mt_format("psql -qAtX -h 127.0.0.1 -p %s -U test test -c '%s' 2>&1",
                        port_of(database), text.data)
            : mt_format("mariadb --no-defaults -h 127.0.0.1 -P %s -u test -ptest-pw test -N -B -e "
                        "'%s' 2>&1 | tr '\\t' '|'",
                        port_of(database), text.data);
    char *answer = output_of(command);
    free(command), free(table);
    mt_buf_free(&text);
    return answer;
}
#endif
