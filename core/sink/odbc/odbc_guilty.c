/* SPDX-License-Identifier: Apache-2.0
 *
 * odbc_guilty.c - the row that the database refuses.
 *
 * No driver says which of a statement's rows it was, and after an error the whole transaction is
 * rolled back. So it is looked for by halving: the statement's rows up to the middle, in a
 * transaction that is rolled back in any case. When the statement passes alone, it is refused for
 * what earlier rows of the batch hold, and these go before it. */
#include <stdlib.h>

#include "sink/odbc/odbc_int.h"

/* Whether rows [from, end) can be stored. */
static enum mt_status probe(struct odbc_sink *odbc, const struct odbc_rows *rows, int64_t from,
                            int64_t end, struct mt_error *err)
{
    int64_t at, behind;
    enum mt_status status = odbc_connect(odbc->connection, err);
    if (status == MT_OK)
        status = odbc_begin(odbc->connection, odbc, odbc->isolation, err);
    if (status == MT_OK)
        status = odbc_before_rows(odbc, err);
    if (status == MT_OK)
        status = odbc_insert_rows(odbc, rows, from, end, &at, &behind, err);
    odbc_rollback(odbc->connection, odbc);
    return status;
}

static enum mt_status name_row(const struct odbc_sink *odbc, const struct odbc_rows *rows,
                               int64_t guilty, struct mt_error *err)
{
    char where[200];
    int64_t row = rows->picked ? rows->picked[guilty] : guilty;
    return mt_fail_within(err, MT_REJECT, "%s: %s: ", odbc->base.identity,
                          mt_batch_where(rows->batch, row, where, sizeof where));
}

enum mt_status odbc_guilty(struct odbc_sink *odbc, const struct odbc_rows *rows, int64_t at,
                           int64_t behind, struct mt_error *err)
{
    struct mt_error why = *err;
    odbc_rollback(odbc->connection, odbc);
    if (behind - at == 1)
        return name_row(odbc, rows, at, err);
    enum mt_status status = probe(odbc, rows, at, behind, err);
    int64_t from = status == MT_OK ? 0 : at;
    while ((status == MT_OK || status == MT_REJECT) && behind - at > 1) {
        int64_t middle = at + (behind - at) / 2;
        status = probe(odbc, rows, from, middle, err);
        if (status == MT_REJECT)
            why = *err;
        *(status == MT_REJECT ? &behind : &at) = middle;
    }
    if (status != MT_OK && status != MT_REJECT)
        return status;
    *err = why;
    return name_row(odbc, rows, at, err);
}
