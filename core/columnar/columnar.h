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
/* ---- Parquet */

/* Where the encoder's bytes go. Returns 0, or an errno; then nothing more is written. */
typedef int (*mt_write_fn)(void *ctx, const void *bytes, size_t len);

struct mt_parquet_settings {
    const char *compression;         /* none, uncompressed, snappy, gzip, zstd, lz4 */
    const struct mt_pairs *metadata; /* key-value pairs of the footer, or NULL */
    int64_t row_group_rows;          /* 0: Arrow's default */
};
struct mt_parquet_writer;
/* Refuses (REJECT) a schema Parquet cannot hold, naming the column. Timestamps are written
 * as microseconds UTC (isAdjustedToUTC), decimals in the narrowest physical type,
 * lists as list.element, maps as key_value.key and .value, all but keys nullable; Spark's
 * own row metadata is not needed. */
enum mt_status mt_parquet_writer_new(const struct ArrowSchema *schema,
                                     const struct mt_parquet_settings *settings, mt_write_fn write,
                                     void *ctx, struct mt_parquet_writer **out,
                                     struct mt_error *err) MT_NODISCARD;
/* Borrows array (of schema): it is copied from before the call returns. */
enum mt_status mt_parquet_write(struct mt_parquet_writer *writer, const struct ArrowArray *array,
                                struct mt_error *err) MT_NODISCARD;
/* Writes the footer. rows: what the footer says. The writer is freed either way. */
enum mt_status mt_parquet_finish(struct mt_parquet_writer *writer, int64_t *rows,
                                 struct mt_error *err) MT_NODISCARD;
void mt_parquet_discard(struct mt_parquet_writer *writer);
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
