/* SPDX-License-Identifier: Apache-2.0
 *
 * odbc_statement.c - statements, their answers, and what their errors mean.
 *
 * SQLSTATE alone says too little: MariaDB reports a refused connection, a lock that was waited for
 * in vain and much else as HY000, SQLite everything. The database's own number decides there. What
 * is not known to pass by itself is final: a query that waits forever for what cannot come looks
 * like one that works. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "sink/odbc/odbc_int.h"

/* ---- what an error means */

struct known {
    const char *dbms;  /* "": any */
    const char *state; /* that it begins with; NULL: by number */
    int64_t native;
    enum odbc_trouble trouble;
};

/* The first that fits counts. */
static const struct known knowns[] = {
    {"MariaDB", NULL, 1062, ODBC_DUPLICATE},
    {"MariaDB", NULL, 1205, ODBC_BUSY}, /* lock wait timeout */
    {"MariaDB", NULL, 1213, ODBC_BUSY}, /* deadlock */
    {"MariaDB", NULL, 1020, ODBC_BUSY}, /* record changed since it was read */
    {"MariaDB", NULL, 1969, ODBC_BUSY}, /* statement timeout */
    {"MariaDB", NULL, 1040, ODBC_BUSY}, /* too many connections */
    {"MariaDB", NULL, 2002, ODBC_LOST},
    {"MariaDB", NULL, 2003, ODBC_LOST},
    {"MariaDB", NULL, 2006, ODBC_LOST},
    {"MariaDB", NULL, 2013, ODBC_LOST},
    {"MariaDB", NULL, 1053, ODBC_LOST}, /* shutdown in progress */
    {"MariaDB", NULL, 1927, ODBC_LOST}, /* killed */
    {"MariaDB", NULL, 1021, ODBC_DISK_FULL},
    {"MariaDB", NULL, 1114, ODBC_DISK_FULL}, /* table is full */
    {"MariaDB", NULL, 1146, ODBC_NO_TABLE},
    {"MariaDB", NULL, 1364, ODBC_ROW}, /* no default */
    {"MariaDB", NULL, 1366, ODBC_ROW}, /* incorrect value */
    {"SQLite", NULL, 5, ODBC_BUSY},
    {"SQLite", NULL, 6, ODBC_BUSY},
    {"SQLite", NULL, 13, ODBC_DISK_FULL},
    {"SQLite", NULL, 18, ODBC_ROW}, /* too big */
    {"SQLite", NULL, 20, ODBC_ROW}, /* mismatch */
    {"PostgreSQL", "42P01", 0, ODBC_NO_TABLE},
    {"PostgreSQL", "23505", 0, ODBC_DUPLICATE},
    {"PostgreSQL", "53100", 0, ODBC_DISK_FULL},
    {"PostgreSQL", "53", 0, ODBC_BUSY},
    {"PostgreSQL", "55P03", 0, ODBC_BUSY}, /* lock timeout */
    {"PostgreSQL", "57014", 0, ODBC_BUSY}, /* statement timeout */
    {"PostgreSQL", "57", 0, ODBC_LOST},
    {"PostgreSQL", "P0001", 0, ODBC_ROW}, /* raised by a trigger */
    {"", "42S02", 0, ODBC_NO_TABLE},
    {"", "08", 0, ODBC_LOST},
    {"", "40", 0, ODBC_BUSY},
    {"", "HYT", 0, ODBC_BUSY},
    {"", "22", 0, ODBC_ROW},
    {"", "23", 0, ODBC_ROW},
    {"", "44", 0, ODBC_ROW},
    {"", "45", 0, ODBC_ROW}, /* signalled by a trigger */
};

/* SQLite tells by its words alone which constraint it was, and that a table is not there. */
static enum odbc_trouble trouble_of_sqlite(const struct odbc_fault *fault)
{
    if (fault->native == 19)
        return strstr(fault->text, "UNIQUE") || strstr(fault->text, "PRIMARY KEY") ? ODBC_DUPLICATE
                                                                                   : ODBC_ROW;
    return fault->native == 1 && strstr(fault->text, "no such table") ? ODBC_NO_TABLE : ODBC_NONE;
}

static bool fits(const struct known *known, const char *dbms, const struct odbc_fault *fault)
{
    bool same = !*known->dbms || strcasecmp(known->dbms, dbms) == 0 ||
                (strcmp(known->dbms, "MariaDB") == 0 && strcmp(dbms, "MySQL") == 0);
    if (!same)
        return false;
    return known->state ? strncmp(fault->state, known->state, strlen(known->state)) == 0
                        : fault->native == known->native;
}

static enum odbc_trouble trouble_of(const char *dbms, const struct odbc_fault *fault)
{
    enum odbc_trouble trouble = ODBC_NONE;
    if (strcmp(dbms, "SQLite") == 0)
        trouble = trouble_of_sqlite(fault);
    for (size_t i = 0; trouble == ODBC_NONE && i < sizeof knowns / sizeof *knowns; i++)
        if (fits(&knowns[i], dbms, fault))
            trouble = knowns[i].trouble;
    return trouble == ODBC_NONE ? ODBC_OTHER : trouble;
}

/* ---- reading it */

/* "[unixODBC][MariaDB][ma-3.1.15]Lost connection" without what stands in brackets, in one line. */
static void clean(const char *from, char *to, size_t cap)
{
    while (*from == '[' && strchr(from, ']'))
        from = strchr(from, ']') + 1;
    from += strspn(from, " ");
    size_t n = 0;
    for (; *from && n + 1 < cap; from++) {
        bool blank = *from == '\n' || *from == '\r' || *from == '\t';
        if (!blank || (n > 0 && to[n - 1] != ' '))
            to[n++] = blank ? ' ' : *from;
    }
    while (n > 0 && (to[n - 1] == ' ' || to[n - 1] == ';'))
        n--;
    to[n] = '\0';
}

static void read_fault(const struct odbc_connection *connection, SQLSMALLINT kind, SQLHANDLE handle,
                       struct odbc_fault *fault)
{
    SQLWCHAR state[6] = {0}, text[1024] = {0};
    SQLINTEGER native = 0;
    SQLSMALLINT len = 0;
    struct mt_buf words = {0}, code = {0};
    *fault = (struct odbc_fault){.state = "HY000"};
    SQLCHAR plain[1024] = "", plain_state[6] = "";
    SQLRETURN rc = connection->is_plain
                       ? SQLGetDiagRec(kind, handle, 1, plain_state, &native, plain, 1024, &len)
                       : SQLGetDiagRecW(kind, handle, 1, state, &native, text, 1024, &len);
    if (SQL_SUCCEEDED(rc) && connection->is_plain) {
        mt_buf_adds(&words, (char *)plain);
        mt_buf_adds(&code, (char *)plain_state);
    } else if (SQL_SUCCEEDED(rc)) {
        odbc_narrow(text, len < 1023 ? len : 1023, &words);
        odbc_narrow(state, 5, &code);
    }
    if (code.len == 5)
        memcpy(fault->state, code.data, 5);
    fault->native = native;
    clean(words.data ? words.data : "no reason is given", fault->text, sizeof fault->text);
    mt_buf_free(&words);
    mt_buf_free(&code);
    fault->trouble = trouble_of(connection->dialect ? connection->dialect->dbms : "", fault);
}

static enum mt_status status_of(enum odbc_trouble trouble)
{
    if (trouble == ODBC_LOST || trouble == ODBC_BUSY)
        return MT_RETRY;
    return trouble == ODBC_DUPLICATE || trouble == ODBC_ROW ? MT_REJECT : MT_FATAL;
}

enum mt_status odbc_failed(struct odbc_connection *connection, SQLSMALLINT kind, SQLHANDLE handle,
                           const char *doing, struct mt_error *err)
{
    struct odbc_fault *fault = &connection->fault;
    char native[32] = "";
    read_fault(connection, kind, handle, fault);
    connection->failed = true;
    if (fault->native != 0)
        snprintf(native, sizeof native, ", %" PRId64, fault->native);
    enum mt_status status = status_of(fault->trouble);
    enum mt_class class_ = status == MT_REJECT                ? MT_CLASS_DATA
                           : fault->trouble == ODBC_DISK_FULL ? MT_CLASS_MACHINE
                                                              : MT_CLASS_SINK;
    return mt_fail(err, status, class_, "%s: %s (%s%s)", doing, fault->text, fault->state, native);
}

/* ---- statements */

enum mt_status odbc_statement(struct odbc_connection *connection, SQLHSTMT *statement,
                              struct mt_error *err)
{
    *statement = NULL;
    if (!SQL_SUCCEEDED(SQLAllocHandle(SQL_HANDLE_STMT, connection->dbc, statement))) {
        enum mt_status status =
            odbc_failed(connection, SQL_HANDLE_DBC, connection->dbc, "making a statement", err);
        *statement = NULL;
        return status;
    }
    if (connection->timeout_s == 0)
        return MT_OK;
    SQLRETURN rc = SQLSetStmtAttr(*statement, SQL_ATTR_QUERY_TIMEOUT,
                                  (SQLPOINTER)(intptr_t)connection->timeout_s, 0);
    if (SQL_SUCCEEDED(rc))
        return MT_OK;
    enum mt_status status =
        odbc_failed(connection, SQL_HANDLE_STMT, *statement, "setting queryTimeout", err);
    odbc_statement_free(*statement);
    *statement = NULL;
    return status;
}

void odbc_statement_free(SQLHSTMT statement)
{
    if (statement)
        SQLFreeHandle(SQL_HANDLE_STMT, statement);
}

enum mt_status odbc_prepare(struct odbc_connection *connection, SQLHSTMT statement, const char *sql,
                            struct mt_error *err)
{
    SQLWCHAR *wide = connection->is_plain ? NULL : odbc_wide(sql);
    SQLRETURN rc = wide ? SQLPrepareW(statement, wide, SQL_NTS)
                        : SQLPrepare(statement, (SQLCHAR *)(uintptr_t)sql, SQL_NTS);
    free(wide);
    return SQL_SUCCEEDED(rc)
               ? MT_OK
               : odbc_failed(connection, SQL_HANDLE_STMT, statement, "preparing", err);
}

static SQLLEN null_terminated = SQL_NTS;

enum mt_status odbc_bind_text(struct odbc_connection *connection, SQLHSTMT statement, int place,
                              const char *text, struct mt_error *err)
{
    size_t len = strlen(text);
    SQLRETURN rc = SQLBindParameter(statement, (SQLUSMALLINT)place, SQL_PARAM_INPUT, SQL_C_CHAR,
                                    SQL_VARCHAR, len ? len : 1, 0, (SQLPOINTER)(uintptr_t)text,
                                    (SQLLEN)len + 1, &null_terminated);
    return SQL_SUCCEEDED(rc) ? MT_OK
                             : odbc_failed(connection, SQL_HANDLE_STMT, statement, "binding", err);
}

SQLRETURN odbc_execute(const struct odbc_connection *connection, SQLHSTMT statement,
                       const char *sql)
{
    SQLWCHAR *wide = connection->is_plain ? NULL : odbc_wide(sql);
    SQLRETURN rc = wide ? SQLExecDirectW(statement, wide, SQL_NTS)
                        : SQLExecDirect(statement, (SQLCHAR *)(uintptr_t)sql, SQL_NTS);
    free(wide);
    return rc;
}

/* Runs it; a statement that touches no row answers SQL_NO_DATA. */
static enum mt_status execute(struct odbc_connection *connection, SQLHSTMT statement,
                              const char *doing, const char *sql, const char *const *args,
                              struct mt_error *err)
{
    enum mt_status status = MT_OK;
    for (int i = 0; status == MT_OK && args && args[i]; i++)
        status = odbc_bind_text(connection, statement, i + 1, args[i], err);
    if (status != MT_OK)
        return status;
    SQLRETURN rc = odbc_execute(connection, statement, sql);
    if (SQL_SUCCEEDED(rc) || rc == SQL_NO_DATA)
        return MT_OK;
    return odbc_failed(connection, SQL_HANDLE_STMT, statement, doing, err);
}

enum mt_status odbc_run(struct odbc_connection *connection, const char *doing, const char *sql,
                        const char *const *args, struct mt_error *err)
{
    SQLHSTMT statement;
    enum mt_status status = odbc_statement(connection, &statement, err);
    if (status == MT_OK)
        status = execute(connection, statement, doing, sql, args, err);
    odbc_statement_free(statement);
    return status;
}

/* A cell of up to a few hundred characters. */
static enum mt_status read_cell(struct odbc_connection *connection, SQLHSTMT statement, int i,
                                const char *doing, char **cell, struct mt_error *err)
{
    char text[1024];
    SQLLEN len = 0;
    SQLRETURN rc =
        SQLGetData(statement, (SQLUSMALLINT)(i + 1), SQL_C_CHAR, text, sizeof text, &len);
    if (!SQL_SUCCEEDED(rc))
        return odbc_failed(connection, SQL_HANDLE_STMT, statement, doing, err);
    *cell = len == SQL_NULL_DATA ? NULL : mt_strdup(text);
    return MT_OK;
}

enum mt_status odbc_ask(struct odbc_connection *connection, const char *doing, const char *sql,
                        const char *const *args, char **cells, int n, struct mt_error *err)
{
    SQLHSTMT statement;
    memset(cells, 0, (size_t)n * sizeof *cells);
    enum mt_status status = odbc_statement(connection, &statement, err);
    if (status == MT_OK)
        status = execute(connection, statement, doing, sql, args, err);
    if (status == MT_OK) {
        SQLRETURN rc = SQLFetch(statement);
        if (rc != SQL_NO_DATA && !SQL_SUCCEEDED(rc))
            status = odbc_failed(connection, SQL_HANDLE_STMT, statement, doing, err);
        for (int i = 0; status == MT_OK && rc != SQL_NO_DATA && i < n; i++)
            status = read_cell(connection, statement, i, doing, &cells[i], err);
    }
    odbc_statement_free(statement);
    return status;
}

void odbc_quote(const struct odbc_connection *connection, const char *name, struct mt_buf *sql)
{
    const char *quote = connection->quote;
    size_t len = strlen(quote);
    mt_buf_adds(sql, quote);
    for (const char *at = name; *at; at++) {
        if (len > 0 && strncmp(at, quote, len) == 0)
            mt_buf_adds(sql, quote);
        mt_buf_add(sql, at, 1);
    }
    mt_buf_adds(sql, quote);
}
