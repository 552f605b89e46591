/* SPDX-License-Identifier: Apache-2.0
 *
 * odbc_connection.c - a connection, shared by all that use it in a thread.
 *
 * Two saves of one batch into one database take turns on one connection: each has a transaction of
 * its own on it, and none waits for a lock that the other holds. So whoever asks in a thread for a
 * connection text gets the same one; threads share nothing.
 *
 * COMMIT is not believed by its answer alone. After a connection was lost in mid-transaction and a
 * statement failed on that, PostgreSQL's driver answers success to it; so a call that failed
 * spoils the transaction, whatever came after, and when all is done the driver is asked whether
 * the connection is dead. */
#include <langinfo.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/step.h"
#include "sink/odbc/odbc_int.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct odbc_connection *connections; /* of all threads */

/* ---- the text of a connection: keyword=value;keyword={value with ; in it};… */

struct entry {
    const char *key, *value; /* value without braces, which are doubled inside */
    size_t key_len, value_len;
    bool braced;
};

/* The entry at *at, which moves behind it; false: no more. */
static bool next_entry(const char **at, struct entry *entry)
{
    const char *s = *at + strspn(*at, "; \t\n");
    size_t key_len = strcspn(s, "=;");
    if (!*s || s[key_len] != '=')
        return *at = s + key_len, *s != '\0' && next_entry(at, entry);
    *entry = (struct entry){.key = s, .key_len = key_len};
    while (entry->key_len > 0 && s[entry->key_len - 1] == ' ')
        entry->key_len--;
    s += key_len + 1;
    s += strspn(s, " ");
    entry->braced = *s == '{';
    entry->value = s + entry->braced;
    const char *end = entry->value;
    if (entry->braced) {
        while (*end && (*end != '}' || end[1] == '}'))
            end += *end == '}' ? 2 : 1;
    } else {
        end += strcspn(end, ";");
    }
    entry->value_len = (size_t)(end - entry->value);
    *at = end + strcspn(end, ";");
    return true;
}

char *odbc_keyword(const char *text, const char *keyword)
{
    struct entry entry;
    for (const char *at = text; next_entry(&at, &entry);)
        if (entry.key_len == strlen(keyword) && strncasecmp(entry.key, keyword, entry.key_len) == 0)
            return mt_strndup(entry.value, entry.value_len);
    return NULL;
}

/* The value of the first of two keywords that is there. */
static char *either(const char *text, const char *one, const char *other)
{
    char *value = odbc_keyword(text, one);
    return value ? value : odbc_keyword(text, other);
}

char *odbc_place_of(const char *text)
{
    char *dsn = odbc_keyword(text, "DSN"), *port = odbc_keyword(text, "Port");
    char *server = either(text, "Server", "Servername");
    char *database = either(text, "Database", "DBQ");
    struct mt_buf place = {0};
    mt_buf_adds(&place, server ? server : dsn ? dsn : "");
    if (server && port)
        mt_buf_addf(&place, ":%s", port);
    if (database)
        mt_buf_addf(&place, "%s%s", place.len ? "/" : "", database);
    if (place.len == 0)
        mt_buf_adds(&place, "its database");
    free(dsn), free(port), free(server), free(database);
    return place.data;
}

/* ---- which one */

struct odbc_connection *odbc_connection_use(const char *text)
{
    pthread_mutex_lock(&lock);
    struct odbc_connection *connection = connections;
    while (connection && (!pthread_equal(connection->thread, pthread_self()) ||
                          strcmp(connection->text, text) != 0))
        connection = connection->next;
    if (!connection) {
        connection = mt_alloc(sizeof *connection);
        connection->text = mt_strdup(text);
        connection->place = odbc_place_of(text);
        connection->thread = pthread_self();
        connection->next = connections;
        connections = connection;
    }
    connection->users++;
    pthread_mutex_unlock(&lock);
    return connection;
}

static void disconnect(struct odbc_connection *connection)
{
    if (!connection->dbc)
        return;
    if (!SQL_SUCCEEDED(SQLDisconnect(connection->dbc))) { /* an open transaction is in the way */
        SQLEndTran(SQL_HANDLE_DBC, connection->dbc, SQL_ROLLBACK);
        SQLDisconnect(connection->dbc);
    }
    SQLFreeHandle(SQL_HANDLE_DBC, connection->dbc);
    connection->dbc = NULL;
    connection->owner = NULL;
}

void odbc_connection_leave(struct odbc_connection *connection)
{
    pthread_mutex_lock(&lock);
    bool last = --connection->users == 0;
    struct odbc_connection **link = &connections;
    while (last && *link != connection)
        link = &(*link)->next;
    if (last)
        *link = connection->next;
    pthread_mutex_unlock(&lock);
    if (!last)
        return;
    disconnect(connection);
    if (connection->env)
        SQLFreeHandle(SQL_HANDLE_ENV, connection->env);
    free(connection->text), free(connection->place);
    free(connection);
}

/* ---- connecting */

static locale_t utf8;

static void make_locale(void)
{
    utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
}

/* PostgreSQL's driver takes bound text for text of the locale. Ours is UTF-8 under any. */
static void speak_utf8(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_locale);
    if (utf8 && strcmp(nl_langinfo(CODESET), "UTF-8") != 0)
        uselocale(utf8);
}

static enum mt_status make_env(struct odbc_connection *connection, struct mt_error *err)
{
    if (connection->env)
        return MT_OK;
    if (!SQL_SUCCEEDED(SQLAllocHandle(SQL_HANDLE_ENV, SQL_NULL_HANDLE, &connection->env)))
        return mt_fail(err, MT_FATAL, MT_CLASS_MACHINE, "unixODBC cannot be started");
    SQLSetEnvAttr(connection->env, SQL_ATTR_ODBC_VERSION, (SQLPOINTER)SQL_OV_ODBC3, 0);
    return MT_OK;
}

/* Before a server is reached, nobody says which database it is: its own words and numbers do.
 * PostgreSQL's driver has one state for a server that is away and for a wrong password. */
static enum mt_status refused(struct odbc_connection *connection, struct mt_error *err)
{
    static const char *const final[] = {
        "does not exist", "authentication failed", "no password", "not permitted",
        "Access denied",  "Unknown database",      "pg_hba.conf", NULL};
    struct odbc_fault *fault = &connection->fault;
    char *doing = mt_format("connecting to %s", connection->place);
    enum mt_status status = odbc_failed(connection, SQL_HANDLE_DBC, connection->dbc, doing, err);
    free(doing);
    bool away = fault->native == 2002 || fault->native == 2003 || fault->native == 2013 ||
                fault->native == 1040 || fault->native == 1053;
    if (away)
        status = MT_RETRY;
    for (const char *const *words = final; *words; words++)
        if (strstr(fault->text, *words))
            status = MT_FATAL;
    bool driver = strncmp(fault->state, "IM00", 4) == 0 || strstr(fault->text, "Can't open lib");
    return driver ? mt_fail_within(err, MT_FATAL,
                                   "there is no such driver or data source (see odbcinst -q -d, "
                                   "odbcinst -q -s): ")
                  : status;
}

static enum mt_status open_with(struct odbc_connection *connection, const char *more,
                                struct mt_error *err)
{
    speak_utf8();
    enum mt_status status = make_env(connection, err);
    if (status != MT_OK)
        return status;
    if (!SQL_SUCCEEDED(SQLAllocHandle(SQL_HANDLE_DBC, connection->env, &connection->dbc)))
        return mt_fail(err, MT_FATAL, MT_CLASS_MACHINE, "unixODBC makes no connection handle");
    char *text = more ? mt_format("%s;%s", connection->text, more) : mt_strdup(connection->text);
    connection->dialect = NULL;
    connection->is_plain = strcasestr(connection->text, "sqlite") != NULL;
    SQLWCHAR *wide = connection->is_plain ? NULL : odbc_wide(text);
    SQLRETURN rc = wide ? SQLDriverConnectW(connection->dbc, NULL, wide, SQL_NTS, NULL, 0, NULL,
                                            SQL_DRIVER_NOPROMPT)
                        : SQLDriverConnect(connection->dbc, NULL, (SQLCHAR *)text, SQL_NTS, NULL, 0,
                                           NULL, SQL_DRIVER_NOPROMPT);
    free(text), free(wide);
    if (SQL_SUCCEEDED(rc))
        return MT_OK;
    status = refused(connection, err);
    SQLFreeHandle(SQL_HANDLE_DBC, connection->dbc);
    connection->dbc = NULL;
    return status;
}

static void ask_info(struct odbc_connection *connection, SQLUSMALLINT what, char *out, size_t cap)
{
    SQLCHAR text[200] = "";
    SQLSMALLINT len;
    if (!SQL_SUCCEEDED(SQLGetInfo(connection->dbc, what, text, sizeof text, &len)))
        text[0] = '\0';
    snprintf(out, cap, "%s", (char *)text);
}

/* What its driver needs to be told besides, unless the user said another thing. */
static bool needs_more(const struct odbc_connection *connection)
{
    const struct odbc_dialect *dialect = connection->dialect;
    if (connection->more || !dialect->driver)
        return false;
    char *given = odbc_keyword(connection->text, dialect->keyword);
    free(given);
    return !given;
}

static enum mt_status open_fresh(struct odbc_connection *connection, struct mt_error *err)
{
    char dbms[64];
    enum mt_status status = open_with(connection, connection->more, err);
    if (status != MT_OK)
        return status;
    ask_info(connection, SQL_DBMS_NAME, dbms, sizeof dbms);
    ask_info(connection, SQL_IDENTIFIER_QUOTE_CHAR, connection->quote, sizeof connection->quote);
    if (strcmp(connection->quote, " ") == 0)
        connection->quote[0] = '\0';
    connection->dialect = odbc_dialect_of(dbms);
    connection->is_plain = connection->dialect->is_plain;
    if (!needs_more(connection))
        return MT_OK;
    connection->more = connection->dialect->driver;
    disconnect(connection);
    return open_fresh(connection, err);
}

static bool is_dead(const struct odbc_connection *connection)
{
    SQLUINTEGER dead = SQL_CD_FALSE;
    SQLRETURN rc = SQLGetConnectAttr(connection->dbc, SQL_ATTR_CONNECTION_DEAD, &dead, 0, NULL);
    return SQL_SUCCEEDED(rc) && dead == SQL_CD_TRUE;
}

enum mt_status odbc_connect(struct odbc_connection *connection, struct mt_error *err)
{
    if (connection->dbc && !connection->owner &&
        (connection->fault.trouble == ODBC_LOST || is_dead(connection)))
        disconnect(connection);
    if (connection->dbc)
        return MT_OK;
    connection->fault = (struct odbc_fault){0};
    connection->generation++;
    enum mt_status status = open_fresh(connection, err);
    for (const char *const *sql = status == MT_OK ? connection->dialect->at_start : NULL;
         status == MT_OK && *sql; sql++)
        status = odbc_run(connection, *sql, *sql, NULL, err);
    if (status != MT_OK)
        disconnect(connection);
    return status;
}

/* ---- transactions */

static enum mt_status set_attribute(struct odbc_connection *connection, SQLINTEGER which,
                                    uintptr_t value, const char *doing, struct mt_error *err)
{
    SQLRETURN rc = SQLSetConnectAttr(connection->dbc, which, (SQLPOINTER)value, 0);
    return SQL_SUCCEEDED(rc) ? MT_OK
                             : odbc_failed(connection, SQL_HANDLE_DBC, connection->dbc, doing, err);
}

/* The isolation that a connection has when nobody asked for another. */
static SQLUINTEGER default_isolation(struct odbc_connection *connection)
{
    SQLUINTEGER isolation = 0;
    SQLGetInfo(connection->dbc, SQL_DEFAULT_TXN_ISOLATION, &isolation, sizeof isolation, NULL);
    return isolation;
}

static enum mt_status set_isolation(struct odbc_connection *connection, SQLUINTEGER isolation,
                                    struct mt_error *err)
{
    SQLUINTEGER now = 0;
    if (isolation == 0)
        isolation = default_isolation(connection);
    SQLGetConnectAttr(connection->dbc, SQL_ATTR_TXN_ISOLATION, &now, 0, NULL);
    if (isolation == 0 || isolation == now)
        return MT_OK;
    return set_attribute(connection, SQL_ATTR_TXN_ISOLATION, isolation, "setting isolationLevel",
                         err);
}

enum mt_status odbc_begin(struct odbc_connection *connection, const void *owner,
                          SQLUINTEGER isolation, struct mt_error *err)
{
    connection->failed = false;
    enum mt_status status = set_isolation(connection, isolation, err);
    if (status == MT_OK)
        status = set_attribute(connection, SQL_ATTR_AUTOCOMMIT, SQL_AUTOCOMMIT_OFF,
                               "beginning a transaction", err);
    if (status == MT_OK)
        connection->owner = owner;
    return status;
}

/* Statements outside of a transaction are committed one by one. */
static void end_transaction(struct odbc_connection *connection)
{
    struct odbc_fault fault = connection->fault;
    struct mt_error err;
    connection->owner = NULL;
    if (set_attribute(connection, SQL_ATTR_AUTOCOMMIT, SQL_AUTOCOMMIT_ON, "", &err) != MT_OK ||
        fault.trouble == ODBC_LOST) {
        disconnect(connection);
        connection->fault = fault;
    }
}

enum mt_status odbc_commit(struct odbc_connection *connection, struct mt_error *err)
{
    enum mt_status status = MT_OK;
    if (connection->failed)
        return mt_fail(err, MT_FATAL, MT_CLASS_INTERNAL,
                       "%s: commit of a transaction in which something failed: %s",
                       connection->place, connection->fault.text);
    SQLRETURN rc = SQLEndTran(SQL_HANDLE_DBC, connection->dbc, SQL_COMMIT);
    if (!SQL_SUCCEEDED(rc)) {
        status = odbc_failed(connection, SQL_HANDLE_DBC, connection->dbc, "COMMIT", err);
    } else if (is_dead(connection)) {
        status = mt_fail(err, MT_RETRY, MT_CLASS_SINK, "COMMIT: the connection to %s was lost",
                         connection->place);
    }
    if (status == MT_OK)
        end_transaction(connection);
    else
        disconnect(connection); /* nothing that it says now is known to be true */
    return status;
}

void odbc_rollback(struct odbc_connection *connection, const void *owner)
{
    if (!connection->dbc || connection->owner != owner)
        return;
    struct odbc_fault fault = connection->fault;
    struct mt_error err;
    if (!SQL_SUCCEEDED(SQLEndTran(SQL_HANDLE_DBC, connection->dbc, SQL_ROLLBACK))) {
        odbc_failed(connection, SQL_HANDLE_DBC, connection->dbc, "ROLLBACK", &err);
        disconnect(connection); /* the server rolls back what has no connection */
        connection->fault = fault;
        return;
    }
    end_transaction(connection);
}

enum mt_status odbc_step_fails(struct odbc_connection *connection, const char *step, int64_t batch,
                               struct mt_error *err)
{
    if (!mt_step_fails(step, batch))
        return MT_OK;
    connection->failed = true;
    return mt_fail(err, MT_RETRY, MT_CLASS_SINK, "%s: the connection was lost (%s)",
                   connection->place, step);
}
