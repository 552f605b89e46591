/* SPDX-License-Identifier: Apache-2.0
 *
 * kafka_loss.c - the words when records are gone.
 *
 * Records vanish in ways that ask different things of an operator: retention was shorter
 * than the job's pause, a leader without all records was elected, somebody made the topic
 * anew. Each way has its own words, and all of them say which offsets were wanted, which
 * there are, and how many are lost at most. The policy is the same for all:
 * failOnDataLoss. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "source/kafka/kafka_int.h"

static const char cure[] = "set failOnDataLoss=false to go on without these records, or use a new "
                           "checkpoint to start over";

static const char *log_of(const struct kafka_partition *p, char *out, size_t cap)
{
    if (p->latest > p->earliest)
        snprintf(out, cap, "the log holds offsets %" PRId64 " to %" PRId64, p->earliest,
                 p->latest - 1);
    else
        snprintf(out, cap, "the log is empty, its next offset is %" PRId64, p->latest);
    return out;
}

static const char *range_of(int64_t from, int64_t to, char *out, size_t cap)
{
    if (to > from)
        snprintf(out, cap, "%" PRId64 " up to %" PRId64, from, to);
    else
        snprintf(out, cap, "%" PRId64 " on", from);
    return out;
}

static char *words(enum kafka_loss kind, const struct kafka_partition *p, int64_t from, int64_t to)
{
    const char *topic = p->topic->name;
    char log[100], range[100];
    log_of(p, log, sizeof log);
    switch (kind) {
    case KAFKA_LOSS_EXPIRED:
        return mt_format("%s[%d]: offsets %" PRId64 " to %" PRId64 " are gone, at most %" PRId64
                         " records: they expired or were deleted before they were read (%s)",
                         topic, p->id, from, to - 1, to - from, log);
    case KAFKA_LOSS_CUT:
        return mt_format("%s[%d]: offsets %" PRId64 " to %" PRId64 " are gone, at most %" PRId64
                         " records: the log was cut, as by an unclean leader election, or "
                         "startingOffsets named what it never held (%s)",
                         topic, p->id, from, to - 1, to - from, log);
    case KAFKA_LOSS_REPLACED:
        return mt_format("%s[%d]: the log was cut before offset %" PRId64
                         ", as by an unclean leader "
                         "election, and has grown again: records that were read or planned are "
                         "gone and others have their offsets (%s)",
                         topic, p->id, from, log);
    case KAFKA_LOSS_REMADE:
        return mt_format("topic %s was deleted and made anew (its id was %s and is %s): what "
                         "%s[%d] held from offset %s is gone, and the offsets of the checkpoint "
                         "mean nothing in the new topic (%s)",
                         topic, p->topic->ours, p->topic->id, topic, p->id,
                         range_of(from, to, range, sizeof range), log);
    case KAFKA_LOSS_DELETED:
        return mt_format(
            "%s[%d] no longer exists: what it held from offset %s is gone (topic %s has "
            "%d partitions now)",
            topic, p->id, range_of(from, to, range, sizeof range), topic, p->topic->n_partitions);
    case KAFKA_LOSS_NEW_LATE:
        return mt_format("%s[%d] is a new partition and begins at offset %" PRId64
                         ": at most %" PRId64 " records were gone before they could be read",
                         topic, p->id, to, to - from);
    }
    return mt_strdup("records are gone");
}

enum mt_status kafka_lost(struct kafka *k, enum kafka_loss kind, const struct kafka_partition *p,
                          int64_t from, int64_t to, struct mt_error *err)
{
    enum mt_status status = MT_OK;
    char *text = words(kind, p, from, to);
    if (k->fail_on_loss) {
        status = mt_fail(err, MT_FATAL, MT_CLASS_DATA_LOSS, "data loss: %s; %s", text, cure);
    } else {
        mt_log(MT_WARN, "data loss: %s; failOnDataLoss is false: going on%s", text,
               kind == KAFKA_LOSS_CUT ? " at the end of the log: what was written since the cut at "
                                        "offsets below it is skipped"
                                      : "");
        k->fill.lost += to > from ? to - from : 0;
    }
    free(text);
    return status;
}
