/* SPDX-License-Identifier: Apache-2.0
 *
 * store_record_fuzz.c - bytes that are no record are told from records, whatever they are;
 * a record that was wrapped is read back. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "store/store_int.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t key_len = size ? data[0] % 16u : 0, rest;
    if (key_len + 1 > size)
        return 0;
    const uint8_t *key = data + 1, *value = key + key_len;
    size_t len = size - 1 - key_len;
    if (mt_store_unwrap("plans", key, key_len, value, len, &rest) && rest != len - 8)
        abort();
    uint64_t hash = mt_store_hash("plans", key, key_len, value, len);
    char *wrapped = mt_alloc(8 + len);
    memcpy(wrapped, &hash, 8);
    memcpy(wrapped + 8, value, len);
    const char *text = mt_store_unwrap("plans", key, key_len, wrapped, 8 + len, &rest);
    if (!text || rest != len || memcmp(text, value, len) != 0)
        abort();
    free(wrapped);
    return 0;
}
