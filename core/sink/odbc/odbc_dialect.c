/* SPDX-License-Identifier: Apache-2.0
 *
 * odbc_dialect.c - what differs between databases, as data. Which one it is, the driver says
 * (SQL_DBMS_NAME); one that is not here gets standard SQL and no upsert.
 *
 * Each line has its case. PostgreSQL: with its own Protocol=7.4-2 the driver sets savepoints, a
 * failed statement is forgotten and the rest is committed, and the victim of a deadlock keeps its
 * locks. SQLite: its driver rounds a bound double to 15 digits and cuts times to milliseconds;
 * DECIMAL would become a float. MariaDB: TEXT ends at 64 KiB, names of columns aside everything is
 * compared without case, and TIMESTAMP ends in 2038. */
#include <string.h>
#include <strings.h>

#include "sink/odbc/odbc_int.h"

#define N_TYPES (MT_MAP + 1)

static const char *const standard_types[N_TYPES] = {
    [MT_BOOLEAN] = "BOOLEAN",
    [MT_TINYINT] = "SMALLINT",
    [MT_SMALLINT] = "SMALLINT",
    [MT_INT] = "INTEGER",
    [MT_BIGINT] = "BIGINT",
    [MT_FLOAT] = "REAL",
    [MT_DOUBLE] = "DOUBLE PRECISION",
    [MT_DECIMAL] = "DECIMAL(%d,%d)",
    [MT_STRING] = "TEXT",
    [MT_BINARY] = "BLOB",
    [MT_DATE] = "DATE",
    [MT_TIMESTAMP] = "TIMESTAMP(6)",
};

static const char *const postgresql_types[N_TYPES] = {
    [MT_BOOLEAN] = "BOOLEAN",
    [MT_TINYINT] = "SMALLINT",
    [MT_SMALLINT] = "SMALLINT",
    [MT_INT] = "INTEGER",
    [MT_BIGINT] = "BIGINT",
    [MT_FLOAT] = "REAL",
    [MT_DOUBLE] = "DOUBLE PRECISION",
    [MT_DECIMAL] = "NUMERIC(%d,%d)",
    [MT_STRING] = "TEXT",
    [MT_BINARY] = "BYTEA",
    [MT_DATE] = "DATE",
    [MT_TIMESTAMP] = "TIMESTAMP(6)",
};

static const char *const mariadb_types[N_TYPES] = {
    [MT_BOOLEAN] = "BOOLEAN",
    [MT_TINYINT] = "TINYINT",
    [MT_SMALLINT] = "SMALLINT",
    [MT_INT] = "INTEGER",
    [MT_BIGINT] = "BIGINT",
    [MT_FLOAT] = "FLOAT",
    [MT_DOUBLE] = "DOUBLE",
    [MT_DECIMAL] = "DECIMAL(%d,%d)",
    [MT_STRING] = "LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
    [MT_BINARY] = "LONGBLOB",
    [MT_DATE] = "DATE",
    [MT_TIMESTAMP] = "DATETIME(6)",
};

static const char *const sqlite_types[N_TYPES] = {
    [MT_BOOLEAN] = "BOOLEAN", [MT_TINYINT] = "INTEGER", [MT_SMALLINT] = "INTEGER",
    [MT_INT] = "INTEGER",     [MT_BIGINT] = "INTEGER",  [MT_FLOAT] = "REAL",
    [MT_DOUBLE] = "REAL",     [MT_DECIMAL] = "TEXT",    [MT_STRING] = "TEXT",
    [MT_BINARY] = "BLOB",     [MT_DATE] = "TEXT",       [MT_TIMESTAMP] = "TEXT",
};

static const char *const nothing[] = {NULL};
static const char *const in_utc[] = {"SET TIME ZONE 'UTC'", NULL};
static const char *const strict_and_in_utc[] = {
    "SET time_zone = '+00:00'", "SET sql_mode = CONCAT(@@sql_mode, ',STRICT_ALL_TABLES')", NULL};

static const struct odbc_dialect dialects[] = {
    {
        .dbms = "PostgreSQL",
        .driver = "Protocol=7.4-1",
        .keyword = "Protocol",
        .at_start = in_utc,
        .types = postgresql_types,
        .key_text = "TEXT",
        .ledger_text = "VARCHAR(%d)",
        .table_ending = "",
        .is_open = "CASE WHEN txid_current_if_assigned() IS NULL THEN 0 ELSE 1 END",
        .upsert = ODBC_ON_CONFLICT,
        .keeps_doubles = true,
        .keeps_times = true,
        .has_nan = true,
        .has_nul = false,
    },
    {
        .dbms = "MariaDB",
        .driver = "Charset=utf8mb4",
        .keyword = "Charset",
        .at_start = strict_and_in_utc,
        .types = mariadb_types,
        .key_text = "VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
        .ledger_text = "VARCHAR(%d) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
        .table_ending = " ENGINE=InnoDB",
        .is_open = "@@in_transaction",
        .upsert = ODBC_ON_DUPLICATE_KEY,
        .keeps_doubles = true,
        .keeps_times = true,
        .has_nan = false,
        .has_nul = true,
    },
    {
        .dbms = "MySQL", /* has no @@in_transaction */
        .driver = "Charset=utf8mb4",
        .keyword = "Charset",
        .at_start = strict_and_in_utc,
        .types = mariadb_types,
        .key_text = "VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
        .ledger_text = "VARCHAR(%d) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
        .table_ending = " ENGINE=InnoDB",
        .is_open = "1",
        .upsert = ODBC_ON_DUPLICATE_KEY,
        .keeps_doubles = true,
        .keeps_times = true,
        .has_nan = false,
        .has_nul = true,
    },
    {
        .dbms = "SQLite",
        .at_start = nothing,
        .types = sqlite_types,
        .key_text = "TEXT",
        .ledger_text = "VARCHAR(%d)",
        .table_ending = "",
        .is_open = "1",
        .upsert = ODBC_ON_CONFLICT,
        .keeps_doubles = false,
        .keeps_times = false,
        .has_nan = false,
        .has_nul = false,
        .is_plain = true,
    },
};

static const struct odbc_dialect standard = {
    .dbms = "",
    .at_start = nothing,
    .types = standard_types,
    .key_text = "VARCHAR(255)",
    .ledger_text = "VARCHAR(%d)",
    .table_ending = "",
    .is_open = "1",
    .upsert = ODBC_UPSERT_UNKNOWN,
    .keeps_doubles = true,
    .keeps_times = true,
    .has_nan = false,
    .has_nul = false,
};

const struct odbc_dialect *odbc_dialect_of(const char *dbms)
{
    for (size_t i = 0; i < sizeof dialects / sizeof *dialects; i++)
        if (strncasecmp(dbms, dialects[i].dbms, strlen(dialects[i].dbms)) == 0)
            return &dialects[i];
    return &standard;
}
