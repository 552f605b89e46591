/* SPDX-License-Identifier: Apache-2.0
 *
 * engine_sink.c - handing a batch to its sink. Only `begin` decides whether a batch is
 * already there; after a commit whose answer is unknown the way is abort, then begin
 * again, never a second commit. */
#include <stdlib.h>

#include "engine/engine_int.h"

static struct mt_sink_batch describe_batch(const struct mt_query *query, const char *offsets)
{
    return (struct mt_sink_batch){
        .query_id = mt_store_query_id(query->store),
        .query_name = query->name,
        .batch_id = query->plan.id,
        .digest = query->plan.digest,
        .bundle = query->plan.bundle,
        .offsets = offsets,
        .version = MT_VERSION,
        .rows = query->run.output.array.release ? query->run.output.array.length : 0,
        .fingerprint =
            query->run.output.array.release ? mt_batch_fingerprint(&query->run.output) : 0,
    };
}

enum mt_status sink_ask(struct mt_query *query, bool *holds, struct mt_error *err)
{
    struct mt_sink *sink = query->sink;
    char *offsets = plan_offsets(query);
    struct mt_sink_batch batch = describe_batch(query, offsets);
    enum mt_sink_answer answer = MT_SINK_NEW;
    enum mt_status status = sink->type->begin(sink, &batch, &answer, &query->stored, err);
    sink->type->abort(sink);
    free(offsets);
    if (status == MT_OK && answer == MT_SINK_CONFLICT)
        return MT_FATAL;
    *holds = answer == MT_SINK_STORED;
    return status;
}

/* given = stored, by the destination's own figure. */
static enum mt_status check_stored(const struct mt_query *query, const struct mt_sink_batch *batch,
                                   struct mt_error *err)
{
    if (query->stored.rows == batch->rows)
        return MT_OK;
    return mt_fail(
        err, MT_FATAL, MT_CLASS_INTERNAL,
        "sink %s was given %lld rows and says it stored %lld: this is a fault in Moontide or "
        "in the destination; the batch is not committed",
        query->sink->identity, (long long)batch->rows, (long long)query->stored.rows);
}

/* What the sink holds must be what this run would have given it. */
static enum mt_status check_same(const struct mt_query *query, const struct mt_sink_batch *batch,
                                 struct mt_error *err)
{
    if (query->stored.rows == batch->rows && query->stored.fingerprint == batch->fingerprint)
        return MT_OK;
    return mt_fail(err, MT_FATAL, MT_CLASS_CHECKPOINT,
                   "sink %s holds %lld rows of this batch and the script now makes %lld%s; what is "
                   "stored stands: restart to commit it as it is",
                   query->sink->identity, (long long)query->stored.rows, (long long)batch->rows,
                   query->stored.rows == batch->rows ? " others" : "");
}

static enum mt_status write_and_commit(struct mt_query *query, const struct mt_sink_batch *batch,
                                       struct mt_error *err)
{
    struct mt_sink *sink = query->sink;
    enum mt_status status = MT_OK;
    if (batch->rows > 0)
        status = sink->type->write(sink, &query->run.output, err);
    if (status == MT_OK) {
        mt_step("sink.written", query->plan.id);
        status = sink->type->commit(sink, &query->stored, err);
    }
    return status == MT_OK ? check_stored(query, batch, err) : status;
}

enum mt_status sink_store(struct mt_query *query, struct mt_error *err)
{
    struct mt_sink *sink = query->sink;
    char *offsets = plan_offsets(query);
    struct mt_sink_batch batch = describe_batch(query, offsets);
    enum mt_sink_answer answer = MT_SINK_NEW;
    enum mt_status status = sink->type->begin(sink, &batch, &answer, &query->stored, err);
    if (status == MT_OK && answer == MT_SINK_CONFLICT)
        status = MT_FATAL;
    else if (status == MT_OK && answer == MT_SINK_STORED) {
        query->replayed = true;
        status = check_same(query, &batch, err);
    } else if (status == MT_OK)
        status = write_and_commit(query, &batch, err);
    if (status != MT_OK)
        sink->type->abort(sink);
    free(offsets);
    if (status == MT_OK)
        mt_step("sink.committed", query->plan.id);
    return status;
}
