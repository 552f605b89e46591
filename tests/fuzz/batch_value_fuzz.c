/* SPDX-License-Identifier: Apache-2.0
 *
 * batch_value_fuzz.c - any bytes as a date, a timestamp and a decimal: what is read
 * prints as text that reads back equal. And as a quoted record and a JSON string: the
 * result is UTF-8. */
#include <stdlib.h>
#include <string.h>

#include "batch/batch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds)
{
    if (!holds)
        abort();
}

static void times(const char *text, int64_t len)
{
    char out[64];
    int32_t days, days_again;
    int64_t micros, micros_again;
    if (mt_date_parse(text, len, &days))
        check(mt_date_parse(out, mt_date_print(days, out), &days_again) && days == days_again);
    if (!mt_timestamp_parse(text, len, 0, &micros))
        return;
    int32_t n = mt_timestamp_print(micros, out);
    check(n < 40 && mt_timestamp_parse(out, n, 0, &micros_again) && micros == micros_again);
}

static void decimals(const char *text, int64_t len)
{
    for (int32_t scale = 0; scale <= 38; scale += 19) {
        char out[64];
        uint64_t value[2], again[2];
        if (mt_decimal_parse(text, len, 38, scale, value) > 1)
            continue;
        int32_t n = mt_decimal_print(value, scale, out);
        check(n < 48 && mt_decimal_parse(out, n, 38, scale, again) == 0);
        check(memcmp(value, again, sizeof value) == 0);
        check(mt_decimal_compare(value, scale, again, scale) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = mt_realloc(NULL, size); /* exactly as long: the sanitizer sees the end */
    char quoted[40];
    struct mt_buf json = {0};
    if (size > 0)
        memcpy(text, data, size);
    times(text, (int64_t)size);
    decimals(text, (int64_t)size);
    mt_quote(text, size, quoted, sizeof quoted);
    check(mt_utf8_valid(quoted, strlen(quoted)));
    mt_buf_add_json(&json, text, size);
    check(mt_utf8_valid(json.data, json.len));
    mt_buf_free(&json);
    free(text);
    return 0;
}
