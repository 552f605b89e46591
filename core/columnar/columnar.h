/* SPDX-License-Identifier: Apache-2.0
 *
 * columnar.h - the bridge to simdjson and Arrow C++, in C words. The only room with
 * C++; no exception crosses it. */
#ifndef MT_COLUMNAR_H
#define MT_COLUMNAR_H

#include "batch/batch.h"

#ifndef MT_CDEF
#ifdef __cplusplus
extern "C" {
#endif
#endif

/* ---- JSON text to columns (semantics: Spark's from_json) */

enum mt_json_mode { MT_JSON_PERMISSIVE, MT_JSON_FAILFAST, MT_JSON_DROPMALFORMED };

struct mt_json_reader;

/* A reader for rows of schema (borrowed, must outlive it). corrupt: name of the
 * STRING column of schema that takes the raw text of a malformed record, or NULL.
 * REJECT for a MAP whose keys are no STRING and for a corrupt column of another type. */
enum mt_status mt_json_reader_new(const struct ArrowSchema *schema, enum mt_json_mode mode,
                                  const char *corrupt, struct mt_json_reader **out,
                                  struct mt_error *err) MT_NODISCARD;
void mt_json_reader_free(struct mt_json_reader *reader);

struct mt_json_result {
    struct ArrowArray rows; /* "+s" of schema, one a kept row; a null or blank text is a null row */
    int32_t *kept;          /* DROPMALFORMED with drops: input row of each output row; else NULL */
    int64_t malformed;      /* records that were malformed, whatever became of them */
};
/* Parses column `column` (STRING or BINARY) of in. A record is well-formed only if all
 * of it is, also the parts that the schema skips. now_us: the batch's time. FAILFAST:
 * MT_REJECT, the error names the row's coordinates, the field and quotes the record. */
enum mt_status mt_json_read(struct mt_json_reader *reader, const struct mt_batch *in,
                            int32_t column, int64_t now_us, struct mt_json_result *out,
                            struct mt_error *err) MT_NODISCARD;
void mt_json_result_clear(struct mt_json_result *result);

#ifndef MT_CDEF
/* ---- files */

/* Where an encoder's bytes go. Returns 0, or an errno; then nothing more is written. */
typedef int (*mt_write_fn)(void *ctx, const void *bytes, size_t len);

enum mt_file_format { MT_FILE_PARQUET, MT_FILE_ORC, MT_FILE_JSON, MT_FILE_CSV, MT_FILE_TEXT };

/* Texts that are NULL have the default of their format. */
struct mt_file_settings {
    char *compression; /* Parquet: none, uncompressed, snappy, gzip, zstd, lz4; ORC: zlib
                          for gzip; the rest: none, uncompressed, gzip, zstd, bzip2,
                          deflate */
    const struct mt_pairs *metadata; /* Parquet: key-value pairs of the footer, or NULL */
    int64_t row_group_rows;          /* Parquet; 0: Arrow's default */

    /* JSON, CSV, text */
    char *line_sep;    /* NULL: a line feed */
    char *date_format; /* JSON, CSV: letters of Java's DateTimeFormatter */
    char
        *timestamp_format; /* the default has three digits of a second, six where three lose some */
    bool keep_null_fields; /* JSON: {"a":null} */

    /* CSV */
    char *sep, *quote, *escape; /* NULL: , " \ */
    char *null_value;           /* NULL: nothing */
    char *empty_value;          /* NULL: "" */
    bool header, quote_all;
    bool bare_quotes;        /* a quote alone is no reason to quote a value */
    bool keep_blanks_before; /* around values; Spark drops them by default */
    bool keep_blanks_behind;
};
struct mt_file_writer;
/* Refuses (REJECT) a schema that the format cannot hold, naming the column.
 *
 * Parquet: timestamps are written as microseconds UTC (isAdjustedToUTC), decimals in the
 * narrowest physical type, lists as list.element, maps as key_value.key and .value, all but
 * keys nullable; Spark's own row metadata is not needed. ORC: timestamps are instants.
 * JSON, CSV, text: what Spark writes, times in the session's zone. */
enum mt_status mt_file_writer_new(enum mt_file_format format, const struct ArrowSchema *schema,
                                  const struct mt_file_settings *settings, mt_write_fn write,
                                  void *ctx, struct mt_file_writer **out,
                                  struct mt_error *err) MT_NODISCARD;
/* Borrows array (of schema): it is copied from before the call returns. REJECT when a value
 * cannot be said in the format. */
enum mt_status mt_file_write(struct mt_file_writer *writer, const struct ArrowArray *array,
                             struct mt_error *err) MT_NODISCARD;
/* Writes the footer, or what a compressor holds. rows: what the footer says, or the lines
 * that were made of rows. The writer is freed either way. */
enum mt_status mt_file_finish(struct mt_file_writer *writer, int64_t *rows,
                              struct mt_error *err) MT_NODISCARD;
void mt_file_discard(struct mt_file_writer *writer);
#endif

/* Rows of a local Parquet file, by whomever written, as types of ours; batch_rows at most at a
 * time. REJECT, with the path and the column, for a file that is none and for a type that is none
 * of ours. */
struct mt_parquet_reader;
enum mt_status mt_parquet_open(const char *path, int64_t batch_rows, struct mt_parquet_reader **out,
                               struct mt_error *err) MT_NODISCARD;
/* All columns there are; the reader's. */
const struct ArrowSchema *mt_parquet_schema(const struct mt_parquet_reader *reader);
/* Only these columns will be read, in this order. Before the first batch. */
void mt_parquet_project(struct mt_parquet_reader *reader, const int32_t *columns, int64_t n);
/* The next rows, with the file and their numbers in it as coordinates; the schema is left to the
 * caller. Nothing in out->array: there are no more. */
enum mt_status mt_parquet_next(struct mt_parquet_reader *reader, struct mt_batch *out,
                               struct mt_error *err) MT_NODISCARD;
void mt_parquet_close(struct mt_parquet_reader *reader); /* NULL is fine */

/* First `limit` rows of a local file (for people; not a source). Caller releases both. */
enum mt_status mt_parquet_head(const char *path, int64_t limit, struct ArrowSchema *schema,
                               struct ArrowArray *rows, int64_t *total,
                               struct mt_error *err) MT_NODISCARD;
const char *mt_arrow_version(void);
const char *mt_simdjson_version(void);

#ifndef MT_CDEF
#ifdef __cplusplus
}
#endif
#endif
#endif
