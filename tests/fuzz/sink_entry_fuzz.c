/* SPDX-License-Identifier: Apache-2.0
 *
 * sink_entry_fuzz.c - lines of _spark_metadata come from other programs: any bytes are
 * an entry or a reason why not, and what is read of ours is written back as it was. */
#include <stdlib.h>
#include <string.h>

#include "sink/files/files_int.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void write_and_read_back(const struct files_entry *entry)
{
    struct files_entry again;
    struct mt_error err;
    struct mt_buf line = {0};
    files_entry_print(entry, &line);
    if (files_entry_parse(line.data, line.len, &again, &err) != MT_OK)
        abort();
    if (again.size != entry->size || again.mtime_ms != entry->mtime_ms || again.ours != entry->ours)
        abort();
    if (entry->ours &&
        (strcmp(again.query, entry->query) != 0 || strcmp(again.sink, entry->sink) != 0 ||
         again.record.batch_id != entry->record.batch_id ||
         again.record.rows != entry->record.rows ||
         again.record.fingerprint != entry->record.fingerprint))
        abort();
    files_entry_clear(&again);
    mt_buf_free(&line);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct files_entry entry;
    struct mt_error err = {0};
    if (files_entry_parse((const char *)data, size, &entry, &err) == MT_OK) {
        write_and_read_back(&entry);
        files_entry_clear(&entry);
    } else if (!err.text[0]) {
        abort();
    }
    return 0;
}
