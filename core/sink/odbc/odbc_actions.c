/* SPDX-License-Identifier: Apache-2.0
 *
 * odbc_actions.c - statements that the user adds to a batch: they are a part of its transaction.
 *
 * What ends a transaction would take the batch apart: the ledger's row would be stored and the
 * rows not. Some databases end it for CREATE, TRUNCATE and the like without being asked; so after
 * each of these statements the transaction must still be the one of the ledger's row. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "sink/odbc/odbc_int.h"

/* The statement at *at, trimmed, which moves behind its semicolon; NULL: no more. */
static char *next_statement(const char **at)
{
    char quote = '\0';
    const char *s = *at + strspn(*at, "; \t\r\n"), *end = s;
    if (!*s)
        return NULL;
    for (; *end && (quote || *end != ';'); end++) {
        if (quote)
            quote = *end == quote ? '\0' : quote;
        else if (strchr("'\"`", *end))
            quote = *end;
    }
    *at = end;
    while (end > s && isspace((unsigned char)end[-1]))
        end--;
    return mt_strndup(s, (size_t)(end - s));
}

enum mt_status odbc_actions_check(const char *option, const char *text, struct mt_error *err)
{
    static const char *const enders[] = {"COMMIT", "ROLLBACK", "BEGIN",          "START",
                                         "END",    "ABORT",    "SET AUTOCOMMIT", NULL};
    enum mt_status status = MT_OK;
    const char *at = text ? text : "";
    for (char *sql; status == MT_OK && (sql = next_statement(&at)); free(sql)) {
        for (const char *const *word = enders; status == MT_OK && *word; word++) {
            size_t len = strlen(*word);
            if (strncasecmp(sql, *word, len) == 0 && !isalnum((unsigned char)sql[len])) {
                status = mt_fail(err, MT_FATAL, MT_CLASS_JOB,
                                 "odbc: %s: %s would end the batch's transaction: leave it out",
                                 option, *word);
                snprintf(err->option, sizeof err->option, "%s", option);
            }
        }
    }
    return status;
}

enum mt_status odbc_actions_run(struct odbc_sink *odbc, const char *option, const char *text,
                                struct mt_error *err)
{
    enum mt_status status = MT_OK;
    const char *at = text ? text : "";
    for (char *sql; status == MT_OK && (sql = next_statement(&at)); free(sql)) {
        char *doing = mt_format("%s: %s", option, sql);
        status = odbc_run(odbc->connection, doing, sql, NULL, err);
        if (status == MT_OK)
            status = odbc_ledger_expect_open(odbc, doing, err);
        if (status == MT_REJECT) /* it is no row's fault */
            status = MT_FATAL;
        free(doing);
    }
    return status;
}
