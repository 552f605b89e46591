/* SPDX-License-Identifier: Apache-2.0
 *
 * sink_int.h - what the files of this room share. */
#ifndef MT_SINK_INT_H
#define MT_SINK_INT_H

#include "sink/sink.h"

extern const struct mt_sink_type sink_console, sink_csv, sink_delta, sink_json, sink_kafka,
    sink_memory, sink_noop, sink_odbc, sink_orc, sink_parquet, sink_text;

/* What a destination will say of batch, before any row of it is stored (rows 0). */
struct mt_sink_record sink_record_of(const struct mt_sink_batch *batch);

/* ---- sink_table.c */

struct sink_table {
    const struct ArrowSchema *schema; /* borrowed */
    int64_t cut;                      /* characters a cell may have; 0: any, and cells stand left */
    char **cells;                     /* row by row */
    int64_t n_rows;
};
void sink_table_add(struct sink_table *table, const struct ArrowArray *rows, int64_t n);
void sink_table_print(const struct sink_table *table, struct mt_buf *out);
void sink_table_clear(struct sink_table *table); /* of its rows */

/* A call of write or commit outside of begin ... commit, or after an error. */
enum mt_status sink_not_open(const struct mt_sink *sink, const char *call, struct mt_error *err);
#endif
