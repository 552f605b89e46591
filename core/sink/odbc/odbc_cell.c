/* SPDX-License-Identifier: Apache-2.0
 *
 * odbc_cell.c - one value of a row as a parameter, exactly.
 *
 * Text and bytes are bound where they lie in the batch; other values go through a cell of fixed
 * size. A value that the database would change or cannot say is refused before it is sent: some
 * drivers cut text at a byte 0, some databases make NULL of NaN. */
#include <math.h>
#include <string.h>

#include "sink/odbc/odbc_int.h"

struct binding {
    SQLSMALLINT c_type, sql_type, digits;
    SQLULEN size;
    const void *value;
};

static struct binding as_text(struct odbc_cell *cell, SQLSMALLINT sql_type)
{
    cell->len = (SQLLEN)strlen(cell->value.text);
    return (struct binding){SQL_C_CHAR, sql_type, 0, (SQLULEN)cell->len, cell->value.text};
}

static int64_t whole_of(enum mt_type type, const struct ArrowArray *column, int64_t row)
{
    const void *values = column->buffers[1];
    row += column->offset;
    switch (type) {
    case MT_BOOLEAN:
        return ((const uint8_t *)values)[row >> 3] >> (row & 7) & 1;
    case MT_TINYINT:
        return ((const int8_t *)values)[row];
    case MT_SMALLINT:
        return ((const int16_t *)values)[row];
    case MT_INT:
    case MT_DATE:
        return ((const int32_t *)values)[row];
    default:
        return ((const int64_t *)values)[row];
    }
}

static enum mt_status bind_double(const struct odbc_dialect *dialect, struct odbc_cell *cell,
                                  double value, struct binding *out, struct mt_error *err)
{
    if (!isfinite(value) && !dialect->has_nan)
        return mt_fail(err, MT_REJECT, MT_CLASS_DATA, "%s has no value %s", dialect->dbms,
                       isnan(value) ? "NaN" : "Infinity");
    if (dialect->keeps_doubles) {
        cell->value.real = value;
        *out = (struct binding){SQL_C_DOUBLE, SQL_DOUBLE, 0, 0, &cell->value};
        return MT_OK;
    }
    snprintf(cell->value.text, sizeof cell->value.text, "%.17g", value);
    *out = as_text(cell, SQL_VARCHAR);
    return MT_OK;
}

static enum mt_status bind_bytes(const struct odbc_dialect *dialect, struct odbc_cell *cell,
                                 const struct ArrowArray *column, int64_t row, bool text,
                                 struct binding *out, struct mt_error *err)
{
    const int32_t *offsets = column->buffers[1];
    int64_t at = column->offset + row;
    int32_t len = offsets[at + 1] - offsets[at];
    const char *bytes = len ? (const char *)column->buffers[2] + offsets[at] : "";
    if (text && len > 0 && !dialect->has_nul && memchr(bytes, '\0', (size_t)len))
        return mt_fail(err, MT_REJECT, MT_CLASS_DATA,
                       "text with a byte 0 cannot be stored in %s: take the byte out, or write a "
                       "BINARY column",
                       dialect->dbms);
    cell->len = len;
    *out = (struct binding){text ? SQL_C_CHAR : SQL_C_BINARY,
                            text ? SQL_LONGVARCHAR : SQL_LONGVARBINARY, 0, len ? (SQLULEN)len : 1,
                            bytes};
    return MT_OK;
}

static void bind_decimal(const struct odbc_dialect *dialect, struct odbc_cell *cell,
                         const struct ArrowSchema *field, const struct ArrowArray *column,
                         int64_t row, struct binding *out)
{
    int32_t precision, scale;
    uint64_t unscaled[2];
    mt_schema_decimal(field, &precision, &scale);
    memcpy(unscaled, (const char *)column->buffers[1] + (size_t)(column->offset + row) * 16, 16);
    cell->value.text[mt_decimal_print(unscaled, scale, cell->value.text)] = '\0';
    *out = as_text(cell, dialect->keeps_doubles ? SQL_DECIMAL : SQL_VARCHAR);
    if (out->sql_type == SQL_DECIMAL)
        out->size = (SQLULEN)precision, out->digits = (SQLSMALLINT)scale;
}

/* Days since 1970 as a date (proleptic Gregorian). */
static bool civil(int64_t days, SQL_DATE_STRUCT *date)
{
    char text[48];
    int year, month, day;
    text[mt_date_print((int32_t)days, text)] = '\0';
    if (sscanf(text, "%d-%d-%d", &year, &month, &day) != 3 || year < 1 || year > 9999)
        return false;
    *date = (SQL_DATE_STRUCT){(SQLSMALLINT)year, (SQLUSMALLINT)month, (SQLUSMALLINT)day};
    return true;
}

static enum mt_status out_of_range(struct mt_error *err)
{
    return mt_fail(err, MT_REJECT, MT_CLASS_DATA,
                   "the date is outside of the years 1 to 9999, which is what ODBC can say");
}

static enum mt_status bind_date(const struct odbc_dialect *dialect, struct odbc_cell *cell,
                                int64_t days, struct binding *out, struct mt_error *err)
{
    SQL_DATE_STRUCT date;
    if (!civil(days, &date))
        return out_of_range(err);
    if (dialect->keeps_times) {
        cell->value.date = date;
        *out = (struct binding){SQL_C_TYPE_DATE, SQL_TYPE_DATE, 0, 10, &cell->value};
        return MT_OK;
    }
    snprintf(cell->value.text, sizeof cell->value.text, "%04d-%02d-%02d", date.year, date.month,
             date.day);
    *out = as_text(cell, SQL_VARCHAR);
    return MT_OK;
}

static enum mt_status bind_time(const struct odbc_dialect *dialect, struct odbc_cell *cell,
                                int64_t micros, struct binding *out, struct mt_error *err)
{
    const int64_t day = 86400000000;
    int64_t days = micros / day - (micros % day < 0), rest = micros - days * day;
    SQL_DATE_STRUCT date;
    if (!civil(days, &date))
        return out_of_range(err);
    int hour = (int)(rest / 3600000000), minute = (int)(rest / 60000000 % 60),
        second = (int)(rest / 1000000 % 60), fraction = (int)(rest % 1000000);
    if (dialect->keeps_times) {
        cell->value.time = (SQL_TIMESTAMP_STRUCT){date.year,
                                                  date.month,
                                                  date.day,
                                                  (SQLUSMALLINT)hour,
                                                  (SQLUSMALLINT)minute,
                                                  (SQLUSMALLINT)second,
                                                  (SQLUINTEGER)fraction * 1000};
        *out = (struct binding){SQL_C_TYPE_TIMESTAMP, SQL_TYPE_TIMESTAMP, 6, 26, &cell->value};
        return MT_OK;
    }
    snprintf(cell->value.text, sizeof cell->value.text, "%04d-%02d-%02d %02d:%02d:%02d.%06d",
             date.year, date.month, date.day, hour, minute, second, fraction);
    *out = as_text(cell, SQL_VARCHAR);
    return MT_OK;
}

static enum mt_status choose(const struct odbc_dialect *dialect, struct odbc_cell *cell,
                             const struct ArrowSchema *field, const struct ArrowArray *column,
                             int64_t row, struct binding *out, struct mt_error *err)
{
    enum mt_type type = mt_schema_type(field);
    const char *values = column->buffers[1];
    int64_t at = column->offset + row;
    switch (type) {
    case MT_STRING:
    case MT_BINARY:
        return bind_bytes(dialect, cell, column, row, type == MT_STRING, out, err);
    case MT_FLOAT:
        return bind_double(dialect, cell, (double)((const float *)(const void *)values)[at], out,
                           err);
    case MT_DOUBLE:
        return bind_double(dialect, cell, ((const double *)(const void *)values)[at], out, err);
    case MT_DECIMAL:
        bind_decimal(dialect, cell, field, column, row, out);
        return MT_OK;
    case MT_DATE:
        return bind_date(dialect, cell, whole_of(type, column, row), out, err);
    case MT_TIMESTAMP:
        return bind_time(dialect, cell, whole_of(type, column, row), out, err);
    case MT_BOOLEAN:
        cell->value.bit = (unsigned char)whole_of(type, column, row);
        *out = (struct binding){SQL_C_BIT, SQL_BIT, 0, 1, &cell->value};
        return MT_OK;
    default:
        cell->value.whole = whole_of(type, column, row);
        *out = (struct binding){SQL_C_SBIGINT, SQL_BIGINT, 0, 0, &cell->value};
        return MT_OK;
    }
}

/* What a null of a type is bound as. */
static struct binding null_of(const struct odbc_dialect *dialect, struct odbc_cell *cell,
                              enum mt_type type)
{
    static const SQLSMALLINT types[] = {
        [MT_BOOLEAN] = SQL_BIT,        [MT_TINYINT] = SQL_BIGINT,
        [MT_SMALLINT] = SQL_BIGINT,    [MT_INT] = SQL_BIGINT,
        [MT_BIGINT] = SQL_BIGINT,      [MT_FLOAT] = SQL_DOUBLE,
        [MT_DOUBLE] = SQL_DOUBLE,      [MT_DECIMAL] = SQL_DECIMAL,
        [MT_STRING] = SQL_LONGVARCHAR, [MT_BINARY] = SQL_LONGVARBINARY,
        [MT_DATE] = SQL_TYPE_DATE,     [MT_TIMESTAMP] = SQL_TYPE_TIMESTAMP,
    };
    cell->len = SQL_NULL_DATA;
    cell->value.text[0] = '\0';
    return (struct binding){SQL_C_CHAR, dialect->keeps_times ? types[type] : SQL_VARCHAR, 0, 1,
                            cell->value.text};
}

enum mt_status odbc_cell_bind(struct odbc_connection *connection, SQLHSTMT statement, int place,
                              struct odbc_cell *cell, const struct ArrowSchema *field,
                              const struct ArrowArray *column, int64_t row, struct mt_error *err)
{
    struct binding binding;
    enum mt_status status = MT_OK;
    cell->len = 0;
    if (mt_array_is_null(column, row))
        binding = null_of(connection->dialect, cell, mt_schema_type(field));
    else
        status = choose(connection->dialect, cell, field, column, row, &binding, err);
    if (status != MT_OK)
        return mt_fail_within(err, status, "column \"%s\": ", field->name);
    SQLRETURN rc = SQLBindParameter(statement, (SQLUSMALLINT)place, SQL_PARAM_INPUT, binding.c_type,
                                    binding.sql_type, binding.size, binding.digits,
                                    (SQLPOINTER)(uintptr_t)binding.value,
                                    cell->len < 0 ? 0 : cell->len, &cell->len);
    return SQL_SUCCEEDED(rc) ? MT_OK
                             : odbc_failed(connection, SQL_HANDLE_STMT, statement, "binding", err);
}
