/* SPDX-License-Identifier: Apache-2.0
 *
 * odbc_int.h - the parts of the sink for databases:
 *
 *   odbc_sink         the eight functions
 *   odbc_options      what a job says of it, checked; what it is called
 *   odbc_ledger       moontide_ledger: which batches the database holds
 *   odbc_table        the table: is it there, what are its columns, making it
 *   odbc_actions      statements that the user adds to a batch
 *   odbc_insert       rows as statements of many rows each
 *   odbc_cell         one value as a parameter
 *   odbc_merge        rows of one key into the last one of them
 *   odbc_guilty       the row that the database refuses
 *   odbc_dialect      what differs between databases
 *   odbc_connection   a connection, shared by all that use it in a thread
 *   odbc_statement    statements, their answers, and what their errors mean
 *   odbc_wide         UTF-8 to UTF-16 and back
 */
#ifndef MT_ODBC_INT_H
#define MT_ODBC_INT_H

#include <pthread.h>
#include <sql.h>
#include <sqlext.h>

#include "sink/sink_int.h"

/* ---- wide: all text that ODBC itself reads is sent as UTF-16 where the driver takes it; else the
 * driver manager or the driver turns it by the locale, and loses what that cannot say */

/* Ends with a 0. The caller frees. Bytes that are no UTF-8 become U+FFFD. */
SQLWCHAR *odbc_wide(const char *text);
/* Adds n units as UTF-8. */
void odbc_narrow(const SQLWCHAR *wide, int64_t n, struct mt_buf *out);

/* ---- dialect */

enum odbc_upsert {
    ODBC_UPSERT_UNKNOWN,
    ODBC_ON_CONFLICT,      /* PostgreSQL, SQLite */
    ODBC_ON_DUPLICATE_KEY, /* MariaDB, MySQL */
};

struct odbc_dialect {
    const char *dbms;    /* what SQL_DBMS_NAME begins with */
    const char *driver;  /* keywords for the connection text; NULL: none */
    const char *keyword; /* the first of them: who gives it, means it */
    const char *const
        *at_start; /* statements of a new connection, to be the same everywhere; ends with NULL */
    const char *const *types; /* for CREATE TABLE, by mt_type */
    const char *key_text;     /* STRING as a part of a key */
    const char *ledger_text;  /* "VARCHAR(%d)" with what makes it exact */
    const char *table_ending; /* of CREATE TABLE */
    const char *is_open;      /* an expression: 1 inside of a transaction that has written */
    enum odbc_upsert upsert;
    bool keeps_doubles; /* a bound double is stored as it is; false: as text of 17 digits */
    bool keeps_times;   /* the same for DATE and TIMESTAMP */
    bool has_nan;       /* NaN and infinities can be stored */
    bool has_nul;       /* text may have a byte 0 */
    bool is_plain;      /* its driver has no wide calls, and takes UTF-8 as it is */
};
const struct odbc_dialect *odbc_dialect_of(const char *dbms);

/* ---- connection */

/* What an error means for what is done next. */
enum odbc_trouble {
    ODBC_NONE,
    ODBC_LOST,      /* the connection: RETRY on a new one */
    ODBC_BUSY,      /* a lock, a deadlock, a full server: RETRY */
    ODBC_DUPLICATE, /* a key that is there: REJECT */
    ODBC_ROW,       /* a row that can never be stored: REJECT */
    ODBC_NO_TABLE,  /* FATAL, as what follows */
    ODBC_DISK_FULL,
    ODBC_OTHER,
};

struct odbc_fault {
    enum odbc_trouble trouble;
    char state[6];
    int64_t native;
    char text[1000];
};

struct odbc_connection {
    char *text;       /* as asked for; secret */
    const char *more; /* keywords that its driver needs besides; NULL: none */
    char *place;      /* without secrets, for people */
    pthread_t thread;
    int64_t users;
    SQLHENV env;
    SQLHDBC dbc;        /* NULL: not connected */
    int64_t generation; /* how often it was connected: what was prepared before is gone */
    const struct odbc_dialect *dialect; /* of the database it is connected to */
    bool is_plain;                      /* as its dialect says, or its text before that is known */
    char quote[4];                      /* around identifiers */
    int64_t timeout_s;                  /* of each statement; 0: none */
    const void *owner;                  /* whose transaction is open; NULL: none is */
    bool failed;                        /* a call since the transaction began */
    struct odbc_fault fault;            /* the last one */
    int64_t ledger_generation;          /* when the ledger was seen to be there; 0: not yet */
    struct odbc_connection *next;
};

/* The one of this thread for that text; not connected yet when it is new. */
struct odbc_connection *odbc_connection_use(const char *text);
/* Closed when nobody uses it any more. */
void odbc_connection_leave(struct odbc_connection *connection);
/* Connected on OK, anew when it was lost. */
enum mt_status odbc_connect(struct odbc_connection *connection, struct mt_error *err);
/* All until commit or rollback is one transaction of owner. isolation: SQL_TXN_..., 0: the
 * database's own. */
enum mt_status odbc_begin(struct odbc_connection *connection, const void *owner,
                          SQLUINTEGER isolation, struct mt_error *err);
/* RETRY: nobody knows whether it is stored. */
enum mt_status odbc_commit(struct odbc_connection *connection, struct mt_error *err);
/* Nothing happens unless owner's transaction is open. */
void odbc_rollback(struct odbc_connection *connection, const void *owner);
/* A test's failure at this step, as if the connection were lost. */
enum mt_status odbc_step_fails(struct odbc_connection *connection, const char *step, int64_t batch,
                               struct mt_error *err);
/* "orders at localhost:5432/shop": what a connection text says of its server, without secrets. */
char *odbc_place_of(const char *text);
/* The value of a keyword in a connection text, in any case; NULL: none. The caller frees. */
char *odbc_keyword(const char *text, const char *keyword);

/* ---- statement */

/* Reads what ODBC says of a failed call into connection->fault and err. The status is what the
 * trouble means. */
enum mt_status odbc_failed(struct odbc_connection *connection, SQLSMALLINT kind, SQLHANDLE handle,
                           const char *doing, struct mt_error *err);
enum mt_status odbc_statement(struct odbc_connection *connection, SQLHSTMT *statement,
                              struct mt_error *err);
/* NULL is fine. */
void odbc_statement_free(SQLHSTMT statement);
enum mt_status odbc_prepare(struct odbc_connection *connection, SQLHSTMT statement, const char *sql,
                            struct mt_error *err);
/* Binds text as parameter number `place` (from 1); it must stay until the statement ran. */
enum mt_status odbc_bind_text(struct odbc_connection *connection, SQLHSTMT statement, int place,
                              const char *text, struct mt_error *err);
SQLRETURN odbc_execute(const struct odbc_connection *connection, SQLHSTMT statement,
                       const char *sql);
/* Runs sql with text parameters (ends with NULL; NULL: none). doing: for the error text. */
enum mt_status odbc_run(struct odbc_connection *connection, const char *doing, const char *sql,
                        const char *const *args, struct mt_error *err);
/* The same for a question: the columns of its first row as text, in cells[0 .. n), which the
 * caller frees; all NULL: no row, or null. */
enum mt_status odbc_ask(struct odbc_connection *connection, const char *doing, const char *sql,
                        const char *const *args, char **cells, int n, struct mt_error *err);
/* Adds name as an identifier of the database. */
void odbc_quote(const struct odbc_connection *connection, const char *name, struct mt_buf *sql);

/* ---- table */

struct odbc_table {
    char *name;   /* as given */
    char **parts; /* of the name: schema, table */
    int64_t n_parts;
    char **columns; /* the table's spelling, by column of the rows */
    int64_t n_columns;
    int64_t generation; /* of the connection when it was looked at; 0: never */
};
/* FATAL with the reason for a name that cannot be read. */
enum mt_status odbc_table_init(struct odbc_table *table, const char *name, struct mt_error *err);
void odbc_table_deinit(struct odbc_table *table);
void odbc_table_quote(const struct odbc_connection *connection, const struct odbc_table *table,
                      struct mt_buf *sql);

/* ---- the sink */

enum odbc_mode { ODBC_APPEND, ODBC_UPSERT, ODBC_OVERWRITE, ODBC_IGNORE, ODBC_ERROR };

/* A statement that stores n rows. */
struct odbc_insert {
    SQLHSTMT statement; /* NULL: none */
    int64_t rows;
    int64_t generation;
};

struct odbc_cell {
    union {
        int64_t whole;
        double real;
        unsigned char bit;
        char text[56];
        SQL_DATE_STRUCT date;
        SQL_TIMESTAMP_STRUCT time;
    } value;
    SQLLEN len;
};

struct odbc_sink {
    struct mt_sink base;
    char *dsn, *connection_option, *user, *password;
    char *table_option, *mode_option, *key_option, *column_types, *isolation_option;
    char *pre_actions, *post_actions;
    bool create_table;
    int64_t batch_size; /* rows a statement */
    int64_t query_timeout_ms;

    char *text; /* of the connection; secret */
    struct odbc_table table;
    enum odbc_mode mode;
    SQLUINTEGER isolation;
    int32_t *keys; /* columns of the rows */
    int64_t n_keys;

    struct odbc_connection *connection; /* NULL: not used yet */
    struct odbc_insert full, rest;      /* statements that are ready */
    struct odbc_cell *cells;            /* their parameters */
    int64_t n_cells;

    /* the attempt that begin started */
    bool open;
    bool acted;                  /* what comes before the rows is done */
    struct mt_sink_record given; /* rows, merged, ignored: stored so far */
    char query_id[64];
};

/* options */
extern const struct mt_option odbc_options[];
extern const char *const odbc_not_yet[];
enum mt_status odbc_options_check(struct odbc_sink *odbc, struct mt_error *err);
void odbc_names(const struct mt_sink *sink, char **place, char **inside);

/* table: looks at it, once a connection; makes it when it is not there */
enum mt_status odbc_table_prepare(struct odbc_sink *odbc, const char *query_id,
                                  struct mt_error *err);

/* The types that createTableColumnTypes gives are of columns that there are. */
enum mt_status odbc_table_check_types(const struct odbc_sink *odbc, struct mt_error *err);

/* sink: what the mode and the user want before a batch's rows */
enum mt_status odbc_before_rows(struct odbc_sink *odbc, struct mt_error *err);

/* ledger */
enum mt_status odbc_ledger_make(struct odbc_connection *connection, struct mt_error *err);
/* The first statement of a batch's transaction. *there: it holds a row of that batch already, and
 * the transaction is at its end. */
enum mt_status odbc_ledger_add(struct odbc_sink *odbc, const struct mt_sink_batch *batch,
                               bool *there, struct mt_error *err);
/* The record of the batch; *found false: none. */
enum mt_status odbc_ledger_find(struct odbc_connection *connection, const char *query_id,
                                const char *sink, int64_t batch, struct mt_sink_record *record,
                                bool *found, struct mt_error *err);
/* The last batch that the ledger has of a sink; ODBC_CLAIM, ODBC_NO_BATCH: none. */
enum { ODBC_CLAIM = -1, ODBC_NO_BATCH = -2 };
enum mt_status odbc_ledger_last(struct odbc_connection *connection, const char *query_id,
                                const char *sink, int64_t *last, struct mt_error *err);
/* Inside of the transaction: what was stored, and what is old goes. FATAL when the transaction is
 * not the one that began with the ledger's row. */
enum mt_status odbc_ledger_close(struct odbc_sink *odbc, struct mt_error *err);
/* Whether the transaction that wrote the ledger's row is still open. */
enum mt_status odbc_ledger_expect_open(struct odbc_sink *odbc, const char *after,
                                       struct mt_error *err);
/* Other queries that the ledger knows for this sink, in words; NULL: none. */
enum mt_status odbc_ledger_strangers(struct odbc_sink *odbc, const char *query_id, char **words,
                                     struct mt_error *err);
/* Says that the table about to be made is this query's own. */
enum mt_status odbc_ledger_claim(struct odbc_sink *odbc, const char *query_id,
                                 struct mt_error *err);
/* actions: each statement of text, separated by semicolons */
enum mt_status odbc_actions_check(const char *option, const char *text, struct mt_error *err);
enum mt_status odbc_actions_run(struct odbc_sink *odbc, const char *option, const char *text,
                                struct mt_error *err);

/* merge: the rows to be stored, in their order: of each key the last. *picked NULL: all.
 * REJECT for a key that is null. */
enum mt_status odbc_merge(const struct odbc_sink *odbc, const struct mt_batch *rows,
                          int32_t **picked, int64_t *n, struct mt_error *err);

/* insert: rows picked[first .. first + n) (picked NULL: themselves). */
struct odbc_rows {
    const struct mt_batch *batch;
    const int32_t *picked;
    int64_t n;
};
/* How many rows a statement takes at most. */
int64_t odbc_rows_a_statement(const struct odbc_sink *odbc);
/* Stores rows [first, end) and counts what became of them in odbc->given. *at: the first row of the
 * statement that failed, *behind the first one behind it. */
enum mt_status odbc_insert_rows(struct odbc_sink *odbc, const struct odbc_rows *rows, int64_t first,
                                int64_t end, int64_t *at, int64_t *behind, struct mt_error *err);
void odbc_insert_forget(struct odbc_sink *odbc);

/* cell: binds a value. REJECT, with the reason alone, for one that the database cannot hold. */
enum mt_status odbc_cell_bind(struct odbc_connection *connection, SQLHSTMT statement, int place,
                              struct odbc_cell *cell, const struct ArrowSchema *field,
                              const struct ArrowArray *column, int64_t row, struct mt_error *err);

/* guilty: after a REJECT of the statement with rows [at, behind): finds the row, in transactions
 * that are rolled back. err: what the database said; then with the row. */
enum mt_status odbc_guilty(struct odbc_sink *odbc, const struct odbc_rows *rows, int64_t at,
                           int64_t behind, struct mt_error *err);
#endif
