/* SPDX-License-Identifier: Apache-2.0
 *
 * trigger_interval_fuzz.c - any text is an interval of 0 ms or more, or an error with words. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "trigger/trigger.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct mt_error err = {0};
    int64_t ms = -1;
    char *text = mt_strndup((const char *)data, size);
    enum mt_status status = mt_trigger_parse_interval(text, &ms, &err);
    if (status == MT_OK ? ms < 0 : !err.text[0])
        abort();
    free(text);
    return 0;
}
