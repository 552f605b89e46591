/* SPDX-License-Identifier: Apache-2.0
 *
 * kafka_split.c - how maxOffsetsPerTrigger is shared out over partitions.
 *
 * Spark's rule, to the rounding: each partition with a backlog gets its part of the limit
 * in proportion, rounded down, but at least one offset. So no partition starves, the sum
 * may be a little under the limit, and over it where there are more partitions than
 * offsets allowed. The arithmetic is in doubles because Spark's is. */
#include <math.h>

#include "source/kafka/kafka_int.h"

static int64_t backlog(const struct mt_offsets *begin, const struct mt_offset *latest)
{
    int64_t from = mt_offsets_get(begin, latest->topic, latest->partition, latest->offset);
    return latest->offset > from ? latest->offset - from : 0;
}

static int64_t share_of(int64_t limit, int64_t size, int64_t total)
{
    double share = (double)limit * ((double)size / (double)total);
    share = share < 1 ? ceil(share) : floor(share);
    return share < (double)size ? (int64_t)share : size;
}

void kafka_split(const struct mt_offsets *begin, const struct mt_offsets *latest, int64_t limit,
                 struct mt_offsets *ends)
{
    int64_t total = 0;
    *ends = (struct mt_offsets){0};
    for (size_t i = 0; i < latest->n; i++)
        total += backlog(begin, &latest->items[i]);
    for (size_t i = 0; i < latest->n; i++) {
        const struct mt_offset *item = &latest->items[i];
        int64_t size = backlog(begin, item);
        int64_t end = size ? item->offset - size + share_of(limit, size, total) : item->offset;
        mt_offsets_set(ends, item->topic, item->partition, end);
    }
}
