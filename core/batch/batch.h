/* SPDX-License-Identifier: Apache-2.0
 *
 * batch.h - rows as Arrow C Data columns: schema, build, slice, gather, share,
 * print. A batch is what every room hands to the next. */
#ifndef MT_BATCH_H
#define MT_BATCH_H

#include "base/base.h"

#ifndef MT_CDEF
#ifdef __cplusplus
extern "C" {
#endif
#endif

/* The Arrow C Data Interface, as its specification prints it. */
#ifndef ARROW_C_DATA_INTERFACE
#define ARROW_C_DATA_INTERFACE
#ifndef MT_CDEF
#define ARROW_FLAG_DICTIONARY_ORDERED 1
#define ARROW_FLAG_NULLABLE 2
#define ARROW_FLAG_MAP_KEYS_SORTED 4
#endif
struct ArrowSchema {
    const char *format;
    const char *name;
    const char *metadata;
    int64_t flags;
    int64_t n_children;
    struct ArrowSchema **children;
    struct ArrowSchema *dictionary;
    void (*release)(struct ArrowSchema *);
    void *private_data;
};
struct ArrowArray {
    int64_t length;
    int64_t null_count;
    int64_t offset;
    int64_t n_buffers;
    int64_t n_children;
    const void **buffers;
    struct ArrowArray **children;
    struct ArrowArray *dictionary;
    void (*release)(struct ArrowArray *);
    void *private_data;
};
#endif

/* Spark's types, and the Arrow format each one is. */
enum mt_type {
    MT_BOOLEAN,   /* b */
    MT_TINYINT,   /* c */
    MT_SMALLINT,  /* s */
    MT_INT,       /* i */
    MT_BIGINT,    /* l */
    MT_FLOAT,     /* f */
    MT_DOUBLE,    /* g */
    MT_DECIMAL,   /* d:p,s   128 bits, precision 1..38 */
    MT_STRING,    /* u */
    MT_BINARY,    /* z */
    MT_DATE,      /* tdD     days since 1970 */
    MT_TIMESTAMP, /* tsu:UTC microseconds since 1970 UTC */
    MT_ARRAY,     /* +l */
    MT_STRUCT,    /* +s */
    MT_MAP,       /* +m */
};

/* ---- schema: an ArrowSchema of format "+s" whose children are the columns */

/* Reads "a BIGINT, d DECIMAL(10,2), `odd name` STRING NOT NULL COMMENT 'x'".
 * Nested types are read too (ARRAY<...>, STRUCT<a: INT>, MAP<...>). On success
 * *out is the caller's, to be released. The error names the position. */
enum mt_status mt_schema_parse(const char *ddl, struct ArrowSchema *out,
                               struct mt_error *err) MT_NODISCARD;
/* One type alone, "DECIMAL(10,2)", as a nullable field with this name. */
enum mt_status mt_schema_parse_type(const char *text, const char *name, struct ArrowSchema *out,
                                    struct mt_error *err) MT_NODISCARD;
/* Names, formats and flags; metadata stays behind. */
void mt_schema_copy(const struct ArrowSchema *from, struct ArrowSchema *out);
void mt_schema_release(struct ArrowSchema *schema); /* fine on a released one */
/* A schema of n columns, each copied from fields[i] and named names[i] (NULL: as it is). */
void mt_schema_of(const struct ArrowSchema *const *fields, const char *const *names, int64_t n,
                  struct ArrowSchema *out);
enum mt_type mt_schema_type(const struct ArrowSchema *field); /* of a format of ours */
/* DECIMAL(p,s) of the field; 0,0 for other types. */
void mt_schema_decimal(const struct ArrowSchema *field, int32_t *precision, int32_t *scale);
/* Spark's DDL text of a schema or of one field's type. Adds to buf as text the
 * caller frees with mt_free. */
char *mt_schema_ddl(const struct ArrowSchema *schema);
char *mt_schema_type_name(const struct ArrowSchema *field);

/* ---- columns under construction */

/* Fields are public: the JSON reader and generated Lua loops write them directly, after
 * a reserve. Offsets has length+1 entries; validity is NULL until the first null. Past
 * `length`, bits of validity are 1 and bits of BOOLEAN values are 0: a value that is
 * there leaves validity alone; who takes rows back (mt_column_cut) restores these bits. */
struct mt_column {
    enum mt_type type;
    int32_t precision, scale; /* DECIMAL */
    int64_t length, null_count;
    int64_t capacity;   /* rows that validity, offsets and values have room for */
    uint8_t *validity;  /* 1 bit a row, 1 = there */
    int32_t *offsets;   /* STRING, BINARY, ARRAY, MAP */
    uint8_t *values;    /* fixed width values (BOOLEAN: bits) or the bytes */
    int64_t values_len; /* bytes used, STRING and BINARY */
    int64_t values_cap; /* bytes there are; 64 more are readable behind them */
    struct mt_column *children;
    int64_t n_children;
};

void mt_column_init(struct mt_column *column, const struct ArrowSchema *field);
void mt_column_deinit(struct mt_column *column);
/* Room for `rows` more rows and, for text, `bytes` more bytes. REJECT when a
 * text column would pass 2 GiB. */
enum mt_status mt_column_reserve(struct mt_column *column, int64_t rows, int64_t bytes,
                                 struct mt_error *err) MT_NODISCARD;
/* Appends; each reserves what it needs. */
enum mt_status mt_column_add_null(struct mt_column *column, struct mt_error *err) MT_NODISCARD;
enum mt_status mt_column_add_bytes(struct mt_column *column, const void *bytes, int64_t len,
                                   struct mt_error *err) MT_NODISCARD;
/* BOOLEAN, TINYINT..BIGINT, DATE, TIMESTAMP; the value is in range already. */
enum mt_status mt_column_add_int(struct mt_column *column, int64_t value,
                                 struct mt_error *err) MT_NODISCARD;
enum mt_status mt_column_add_double(struct mt_column *column, double value,
                                    struct mt_error *err) MT_NODISCARD; /* FLOAT, DOUBLE */
enum mt_status mt_column_add_decimal(struct mt_column *column, const uint64_t unscaled[2],
                                     struct mt_error *err) MT_NODISCARD;
/* Takes back rows from `length` on, and what stands in the children behind the last row
 * that stays: all of a row that was begun and not closed. */
void mt_column_cut(struct mt_column *column, int64_t length);
/* Closes one list (ARRAY, MAP) or struct (STRUCT) row over children already added. */
enum mt_status mt_column_close_row(struct mt_column *column, struct mt_error *err) MT_NODISCARD;
/* Appends rows [first, first + n) of an array of the column's type. */
enum mt_status mt_column_add_array(struct mt_column *column, const struct ArrowArray *from,
                                   int64_t first, int64_t n, struct mt_error *err) MT_NODISCARD;
/* Turns the column into an array (caller releases) and empties the column. */
void mt_column_finish(struct mt_column *column, struct ArrowArray *out);

/* ---- batches */

/* Where the rows of a source's batch came from, for error texts. */
struct mt_coords {
    int64_t refs;
    int64_t n_runs;
    struct mt_coords_run {
        char *topic;       /* or the source's name */
        int32_t partition; /* -1: has none */
        int64_t first_row; /* of this run in the source's batch */
    } * runs;
    int64_t *offsets; /* one a row of the source's batch */
    int64_t n_rows;
};

struct mt_batch {
    const struct ArrowSchema *schema; /* borrowed; outlives the batch */
    struct ArrowArray array;          /* format "+s", one child a column */
    struct ArrowArray origin;         /* INT: row in the source's batch; released = identity */
    struct mt_coords *coords;         /* counted; NULL = rows have no coordinates */
};

void mt_batch_release(struct mt_batch *batch); /* fine on an empty one */
/* Makes *out another view of src's buffers; both must be released. Lends nothing:
 * each view is whole by itself. src is wrapped on first use, hence not const. */
void mt_array_share(struct ArrowArray *src, struct ArrowArray *out);
/* A struct array over children, which move in; their structs are emptied. */
void mt_array_struct(struct ArrowArray *children, int64_t n, int64_t length,
                     struct ArrowArray *out);
/* Rows rows[0..n) of batch, in that order, as a new batch; origin follows. */
enum mt_status mt_batch_gather(const struct mt_batch *batch, const int32_t *rows, int64_t n,
                               struct mt_batch *out, struct mt_error *err) MT_NODISCARD;
/* Columns picks[i] of batch (shared, not copied) under another schema of n columns. */
void mt_batch_select(struct mt_batch *batch, const int32_t *picks, int64_t n,
                     const struct ArrowSchema *schema, struct mt_batch *out);
/* The column that a path of child numbers leads to through STRUCTs, shared, with the rows of
 * the batch; null where a STRUCT on the way is. */
void mt_batch_field(struct mt_batch *batch, const int32_t *path, int64_t n, struct ArrowArray *out);
/* The rows of one, then those of other, columns by their place and of the same types, under a
 * schema that outlives the result. REJECT when a text column would pass 2 GiB, or rows 2^31 - 1. */
enum mt_status mt_batch_union(const struct mt_batch *one, const struct mt_batch *other,
                              const struct ArrowSchema *schema, struct mt_batch *out,
                              struct mt_error *err) MT_NODISCARD;
/* Takes over columns (moved) as a batch with the same rows, origin and coords as `like`. */
void mt_batch_like(struct mt_batch *like, struct ArrowArray *columns, int64_t n,
                   const struct ArrowSchema *schema, struct mt_batch *out);
/* "orders[2]@1234" or "row 17 of numbers": where row came from. Returns out. */
const char *mt_batch_where(const struct mt_batch *batch, int64_t row, char *out, int64_t cap);
/* Order-free sum of row hashes (XXH3 over every value, null told from empty). */
uint64_t mt_batch_fingerprint(const struct mt_batch *batch);
/* A hash of each row over columns by their numbers: equal for equal values. */
void mt_batch_hash_rows(const struct mt_batch *batch, const int32_t *columns, int64_t n,
                        uint64_t *hashes);

#ifndef MT_CDEF
struct mt_coords *mt_coords_new(void);
/* Starts a run at the current row count; topic is copied. */
void mt_coords_start(struct mt_coords *coords, const char *topic, int32_t partition);
void mt_coords_add(struct mt_coords *coords, int64_t offset);
struct mt_coords *mt_coords_ref(struct mt_coords *coords);
void mt_coords_unref(struct mt_coords *coords);

/* Arrow 1.0 says children of an offset parent are shifted by it; columns that
 * Moontide itself makes have offset 0, imported ones may not. */
static inline bool mt_array_is_null(const struct ArrowArray *a, int64_t row)
{
    const uint8_t *bits = (const uint8_t *)a->buffers[0];
    int64_t i = a->offset + row;
    return a->null_count != 0 && bits && !(bits[i >> 3] >> (i & 7) & 1);
}

/* ---- text of values, as Spark prints and reads them, in the session's time zone */

/* Adds the value as Spark's show() does: 2026-11-29 10:00:00.5, 1.0E10, [1, 2], {1, x},
 * {k -> 1}, BINARY as [68 69], null as NULL (inside lists too). */
void mt_value_print(const struct ArrowSchema *field, const struct ArrowArray *array, int64_t row,
                    struct mt_buf *buf);
#endif

/* The zone in which this thread reads times that name none, and prints them: "Europe/Paris",
 * "+02:00"; UTC at first. False, and nothing changes, when it is no zone. */
_Bool mt_session_zone_use(const char *name);
const char *mt_session_zone_name(void); /* until the next _use in this thread */
/* Seconds east of UTC at a time in seconds since 1970, UTC or (local) of the zone's clocks. */
int32_t mt_session_offset(int64_t seconds, _Bool local);
/* Days since 1970 of "y{4}[-m[-d]]" with Spark's cast rules (text after T or a
 * blank is allowed); false when it is not a date. Proleptic Gregorian. */
_Bool mt_date_parse(const char *text, int64_t len, int32_t *days);
/* Microseconds since 1970 UTC of Spark's cast grammar (spark-semantics: string to
 * timestamp): date alone, "T" or blank, 1-2 digit parts, fraction cut at 6, zone
 * Z, +h[:mm[:ss]], UTC+1, GMT, UT or a region id; none = the session's. A time without a
 * date takes the day of now_us. False when it is not a timestamp or a part is out
 * of range. */
_Bool mt_timestamp_parse(const char *text, int64_t len, int64_t now_us, int64_t *micros);
/* "2026-11-29" / "2026-11-29 10:00:00.5" of the session's zone / "2026-11-29T10:00:00.500Z":
 * length written, cap >= 40. */
int32_t mt_date_print(int32_t days, char *out);
int32_t mt_timestamp_print(int64_t micros, char *out);
int32_t mt_timestamp_print_iso(int64_t micros, char *out);
/* Decimal text (sign, digits, point, exponent) into 128 bits of DECIMAL(p,s),
 * little-endian halves. 0: exact. 1: rounded half up to the scale. 2: does not fit
 * the precision. 3: not a number. */
int32_t mt_decimal_parse(const char *text, int64_t len, int32_t precision, int32_t scale,
                         uint64_t out[2]);
int32_t mt_decimal_print(const uint64_t unscaled[2], int32_t scale, char *out); /* cap >= 48 */
/* -1, 0, 1 of a at scale sa against b at scale sb, exactly. */
int32_t mt_decimal_compare(const uint64_t a[2], int32_t sa, const uint64_t b[2], int32_t sb);
/* Sum, difference, product and quotient of a at scale sa and b at scale sb, with the scale that the
 * result has. 0: done. 2: more than 38 digits. 3: division by zero. Exact, but for a
 * quotient that does not end: it is rounded half up at the 18th digit after the point, or at
 * the last of sa and sb when they have more, or earlier (not before the 6th) when 38 digits
 * are reached. */
int32_t mt_decimal_add(const uint64_t a[2], int32_t sa, const uint64_t b[2], int32_t sb,
                       uint64_t out[2], int32_t *scale);
int32_t mt_decimal_subtract(const uint64_t a[2], int32_t sa, const uint64_t b[2], int32_t sb,
                            uint64_t out[2], int32_t *scale);
int32_t mt_decimal_multiply(const uint64_t a[2], int32_t sa, const uint64_t b[2], int32_t sb,
                            uint64_t out[2], int32_t *scale);
int32_t mt_decimal_divide(const uint64_t a[2], int32_t sa, const uint64_t b[2], int32_t sb,
                          uint64_t out[2], int32_t *scale);
/* Shortest text that reads back equal, in Java's form (1.0, 1.0E10, NaN, Infinity). cap >= 40 */
int32_t mt_double_print(double value, char *out);
int32_t mt_float_print(float value, char *out);

#ifndef MT_CDEF
#ifdef __cplusplus
}
#endif
#endif
#endif
