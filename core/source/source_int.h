/* SPDX-License-Identifier: Apache-2.0
 *
 * source_int.h - what the files of this room share. */
#ifndef MT_SOURCE_INT_H
#define MT_SOURCE_INT_H

#include "source/source.h"

extern const struct mt_source_type mt_source_kafka;
extern const struct mt_source_type mt_source_memory;

/* A position taken apart: sorted by topic (bytes) and partition, no pair twice. {0} is
 * an empty one. */
struct mt_offset {
    char *topic;
    int32_t partition;
    int64_t offset;
};
struct mt_offsets {
    struct mt_offset *items;
    size_t n;
};

/* Reads {"t":{"0":23}}. Refuses (MT_FATAL, class left to the caller to say better)
 * anything else: other JSON, a pair twice, keys that are not plain numbers, offsets
 * below `lowest`. *out is the caller's, to be freed; empty on failure. */
enum mt_status mt_offsets_parse(const char *text, int64_t lowest, struct mt_offsets *out,
                                struct mt_error *err) MT_NODISCARD;
/* Spark's form: no blanks, sorted. Caller frees. */
char *mt_offsets_print(const struct mt_offsets *offsets);
void mt_offsets_free(struct mt_offsets *offsets); /* leaves an empty one */
/* Sets the offset of a pair, adding the pair at its place if it is new. */
void mt_offsets_set(struct mt_offsets *offsets, const char *topic, int32_t partition,
                    int64_t offset);
/* The offset of a pair, or `otherwise`. */
int64_t mt_offsets_get(const struct mt_offsets *offsets, const char *topic, int32_t partition,
                       int64_t otherwise);
bool mt_offsets_has(const struct mt_offsets *offsets, const char *topic, int32_t partition);

#endif
