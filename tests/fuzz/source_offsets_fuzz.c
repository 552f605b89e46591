// SPDX-License-Identifier: Apache-2.0
// A position that is taken prints to a text that is taken and prints the same.
#include <stdlib.h>
#include <string.h>

#include "source/source_int.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct mt_offsets offsets;
    struct mt_error err = {0};
    char *text = mt_strndup((const char *)bytes, len);
    if (mt_offsets_parse(text, -2, &offsets, &err) == MT_OK) {
        char *printed = mt_offsets_print(&offsets);
        struct mt_offsets again;
        if (mt_offsets_parse(printed, -2, &again, &err) != MT_OK)
            abort();
        char *twice = mt_offsets_print(&again);
        if (strcmp(printed, twice) != 0 || again.n != offsets.n)
            abort();
        free(printed), free(twice);
        mt_offsets_free(&again);
    }
    mt_offsets_free(&offsets);
    free(text);
    return 0;
}
