/* SPDX-License-Identifier: Apache-2.0
 *
 * engine_sink.c - handing rows to a sink, the declared one or that of a save(). Only `begin`
 * decides whether a batch is already there; after a commit whose answer is unknown the way is
 * abort, then begin again, never a second commit. */
#include <stdlib.h>

#include "engine/engine_int.h"

static struct mt_sink_batch describe_batch(struct mt_query *query, const struct call *call)
{
    return (struct mt_sink_batch){
        .query_id = mt_store_query_id(query->store),
        .query_name = query->name,
        .batch_id = query->plan.id,
        .digest = query->plan.digest,
        .bundle = query->plan.bundle,
        .offsets = batch_offsets(query),
        .version = MT_VERSION,
        .attempt = query->plan.attempt,
        .planned_us = query->plan.time_us,
        .rows = call->rows,
        .fingerprint = call->fingerprint,
        .said = query->plan.id == query->said_batch ? query->said : MT_SAID_NOTHING,
    };
}

static enum mt_status begin(struct mt_query *query, struct mt_sink *sink, struct call *call,
                            enum mt_sink_answer *answer, struct mt_error *err)
{
    struct mt_sink_batch batch = describe_batch(query, call);
    *answer = MT_SINK_NEW;
    enum mt_status status = sink->type->begin(sink, &batch, answer, &call->stored, err);
    return status == MT_OK && *answer == MT_SINK_CONFLICT ? MT_FATAL : status;
}

enum mt_status sink_ask(struct mt_query *query, struct mt_sink *sink, struct call *call,
                        struct mt_error *err)
{
    enum mt_sink_answer answer;
    enum mt_status status = begin(query, sink, call, &answer, err);
    sink->type->abort(sink);
    call->held = status == MT_OK && answer == MT_SINK_STORED;
    return status;
}

/* The user's word for this batch: what its sinks hold stands. */
static bool is_accepted(const struct mt_query *query)
{
    return query->calls.mode == CALLS_ACCEPT || query->accept_replay == query->plan.id;
}

static int64_t accounted(const struct mt_sink_record *stored)
{
    return stored->rows + stored->merged + stored->ignored + stored->rejected;
}

/* given = stored + merged + ignored + rejected, by the destination's own figures. */
static enum mt_status check_stored(const struct mt_query *query, const struct mt_sink *sink,
                                   const struct call *call, struct mt_error *err)
{
    if (accounted(&call->stored) == call->rows)
        return MT_OK;
    mt_fail(err, MT_FATAL, MT_CLASS_INTERNAL,
            "sink %s was given %lld rows and says it stored %lld: this is a fault in Moontide or "
            "in the destination; the batch is not committed (--accept-replay %lld commits it with "
            "what is stored)",
            sink->identity, (long long)call->rows, (long long)call->stored.rows,
            (long long)query->plan.id);
    if (!is_accepted(query))
        return MT_FATAL;
    mt_log(MT_WARN, "accepted: %s", err->text);
    return MT_OK;
}

/* What the sink holds must be what this run would have given it. */
static enum mt_status check_same(const struct mt_query *query, const struct mt_sink *sink,
                                 const struct call *call, struct mt_error *err)
{
    if (accounted(&call->stored) == call->rows && call->stored.fingerprint == call->fingerprint)
        return MT_OK;
    mt_fail(err, MT_FATAL, MT_CLASS_CHECKPOINT,
            "sink %s holds %lld rows of this batch and the script now makes %lld%s; what is stored "
            "stands: %s to commit it as it is",
            sink->identity, (long long)call->stored.rows, (long long)call->rows,
            call->stored.rows == call->rows ? " others" : "",
            call->settings ? "start with --accept-replay and the batch's number" : "restart");
    if (!is_accepted(query))
        return MT_FATAL;
    mt_log(MT_WARN, "accepted: %s", err->text);
    return MT_OK;
}

static enum mt_status write_and_commit(struct mt_query *query, struct mt_sink *sink,
                                       const struct mt_batch *rows, struct call *call,
                                       struct mt_error *err)
{
    enum mt_status status = MT_OK;
    if (call->rows > 0)
        status = sink->type->write(sink, rows, err);
    if (status == MT_OK) {
        mt_step("sink.written", query->plan.id);
        if (call->intent)
            status = calls_write(&query->calls, err);
    }
    if (status == MT_OK) {
        status = sink->type->commit(sink, &call->stored, err);
        call->doubt = status != MT_REJECT;
    }
    return status == MT_OK ? check_stored(query, sink, call, err) : status;
}

enum mt_status sink_deliver(struct mt_query *query, struct mt_sink *sink,
                            const struct mt_batch *rows, struct call *call, struct mt_error *err)
{
    enum mt_sink_answer answer;
    enum mt_status status = begin(query, sink, call, &answer, err);
    if (status == MT_OK && answer == MT_SINK_STORED) {
        call->replayed = call->doubt = true;
        status = check_same(query, sink, call, err);
    } else if (status == MT_OK) {
        status = write_and_commit(query, sink, rows, call, err);
    }
    if (status != MT_OK) {
        sink->type->abort(sink);
        return status;
    }
    call->done = true;
    mt_step("sink.committed", query->plan.id);
    return MT_OK;
}

/* ---- the declared sink */

static struct call *declared_call(struct mt_query *query)
{
    struct call *call = calls_push(&query->calls);
    call->identity = mt_strdup(query->sink->identity);
    call->memory = mt_sink_is_exactly_once(query->sink);
    return call;
}

enum mt_status sink_ask_declared(struct mt_query *query, bool *holds, struct mt_error *err)
{
    calls_clear(&query->calls);
    struct call *call = declared_call(query);
    enum mt_status status = sink_ask(query, query->sink, call, err);
    *holds = call->replayed = call->held;
    query->plan.unheld |= status == MT_OK && !*holds;
    if (!*holds)
        calls_clear(&query->calls);
    return status;
}

enum mt_status sink_store(struct mt_query *query, struct mt_error *err)
{
    const struct mt_batch *output = &query->run.output;
    calls_clear(&query->calls);
    struct call *call = declared_call(query);
    if (output->array.release) {
        call->rows = output->array.length;
        call->fingerprint = mt_batch_fingerprint(output);
    }
    enum mt_status status = sink_deliver(query, query->sink, output, call, err);
    query->plan.unheld = !call->doubt;
    return status;
}
