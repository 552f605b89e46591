/* SPDX-License-Identifier: Apache-2.0
 *
 * batch_ddl_fuzz.c - any text is a schema or an error; a schema prints as text that
 * reads back and prints the same. */
#include <stdlib.h>
#include <string.h>

#include "batch/batch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct mt_error err;
    struct ArrowSchema schema, again;
    char *ddl = mt_strndup((const char *)data, size);
    if (mt_schema_parse(ddl, &schema, &err) == MT_OK) {
        char *text = mt_schema_ddl(&schema);
        if (mt_schema_parse(text, &again, &err) != MT_OK)
            abort();
        char *second = mt_schema_ddl(&again);
        if (strcmp(text, second) != 0)
            abort();
        mt_free(text);
        mt_free(second);
        mt_schema_release(&schema);
        mt_schema_release(&again);
    }
    mt_free(ddl);
    return 0;
}
