/* SPDX-License-Identifier: Apache-2.0
 *
 * json.c [ROWS] - what reading JSON into columns costs, in ns a row: flat orders as
 * bench/run has them, and orders with lists, objects and maps inside. The best of several
 * passes over batches of 100,000 rows, of CPU time. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "columnar/columnar.h"

enum { PASSES = 7, BATCH = 100000 };

static const struct shape {
    const char *name, *ddl, *form; /* form: of user, cents / 100, cents % 100, second, item */
} shapes[] = {
    {"flat", "user_id STRING, event STRING, amount DOUBLE, ts TIMESTAMP",
     "{\"user_id\":\"u%06d\",\"event\":\"purchase\",\"amount\":%d.%02d,"
     "\"ts\":\"2026-11-29T10:00:%02d.123Z\"}"},
    {"a struct", "user STRUCT<id: STRING, event: STRING>, amount DOUBLE, ts TIMESTAMP",
     "{\"user\":{\"id\":\"u%06d\",\"event\":\"purchase\"},\"amount\":%d.%02d,"
     "\"ts\":\"2026-11-29T10:00:%02d.123Z\"}"},
    {"an array of 3 structs, a map",
     "user_id STRING, amount DOUBLE, ts TIMESTAMP, items ARRAY<STRUCT<sku: STRING, n: INT, price: "
     "DECIMAL(10,2)>>, tags MAP<STRING, STRING>",
     "{\"user_id\":\"u%06d\",\"amount\":%d.%02d,\"ts\":\"2026-11-29T10:00:%02d.123Z\","
     "\"items\":[{\"sku\":\"a-1000\",\"n\":1,\"price\":9.99},{\"sku\":\"b-2000\",\"n\":2,\"price\":"
     "0.50},{\"sku\":\"c-3000\",\"n\":3,\"price\":120.00}],\"tags\":{\"shop\":\"eu\",\"kind\":"
     "\"gift\"}}"},
    {"the same, as text", "user_id STRING, amount DOUBLE, ts TIMESTAMP, items STRING, tags STRING",
     "{\"user_id\":\"u%06d\",\"amount\":%d.%02d,\"ts\":\"2026-11-29T10:00:%02d.123Z\","
     "\"items\":[{\"sku\":\"a-1000\",\"n\":1,\"price\":9.99},{\"sku\":\"b-2000\",\"n\":2,\"price\":"
     "0.50},{\"sku\":\"c-3000\",\"n\":3,\"price\":120.00}],\"tags\":{\"shop\":\"eu\",\"kind\":"
     "\"gift\"}}"},
};

static struct mt_error err;

static void need(enum mt_status status)
{
    if (status == MT_OK)
        return;
    fprintf(stderr, "bench: %s\n", err.text);
    exit(1);
}

static double cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void make_batch(const struct shape *shape, const struct ArrowSchema *schema,
                       struct mt_batch *batch, int64_t *bytes)
{
    struct mt_column root;
    char text[600];
    *batch = (struct mt_batch){.schema = schema};
    mt_column_init(&root, schema);
    for (int i = 0; i < BATCH; i++) {
        int cents = i * 7919 % 50000;
        int len = snprintf(text, sizeof text, shape->form, i * 31 % 200000, cents / 100,
                           cents % 100, i % 60);
        need(mt_column_add_bytes(&root.children[0], text, len, &err));
        need(mt_column_close_row(&root, &err));
        *bytes += len;
    }
    mt_column_finish(&root, &batch->array);
    mt_column_deinit(&root);
}

/* ns a row of reading `rows` rows, the best pass. */
static double best_pass(struct mt_json_reader *reader, const struct mt_batch *batch, int64_t rows)
{
    double best = 0;
    for (int pass = 0; pass < PASSES; pass++) {
        double start = cpu_ns();
        for (int64_t done = 0; done < rows; done += BATCH) {
            struct mt_json_result result;
            need(mt_json_read(reader, batch, 0, 0, &result, &err));
            mt_json_result_clear(&result);
        }
        double ns = (cpu_ns() - start) / (double)rows;
        best = pass == 0 || ns < best ? ns : best;
    }
    return best;
}

int main(int argc, char **argv)
{
    int64_t rows = argc > 1 ? atoll(argv[1]) : 1000000;
    rows = rows < BATCH ? BATCH : rows / BATCH * BATCH;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct ArrowSchema in, out;
        struct mt_batch batch;
        struct mt_json_reader *reader;
        int64_t bytes = 0;
        need(mt_schema_parse("value STRING", &in, &err));
        need(mt_schema_parse(shapes[i].ddl, &out, &err));
        make_batch(&shapes[i], &in, &batch, &bytes);
        need(mt_json_reader_new(&out, MT_JSON_FAILFAST, NULL, &reader, &err));
        printf("{\"name\":\"%s\",\"bytes\":%" PRId64 ",\"ns\":%.0f}\n", shapes[i].name, bytes / BATCH,
               best_pass(reader, &batch, rows));
        mt_json_reader_free(reader);
        mt_batch_release(&batch);
        mt_schema_release(&in);
        mt_schema_release(&out);
    }
    return 0;
}
