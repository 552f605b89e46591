/* SPDX-License-Identifier: Apache-2.0
 *
 * engine_account.c - every row that a batch read is accounted for: what one step put
 * out is what the next took in, and each step's rows leave it by a named cause. A sum
 * that does not add up is our own fault, and stops the query before a sink sees it. */
#include "engine/engine_int.h"

static enum mt_status broken(const struct mt_query *query, struct mt_error *err, const char *where)
{
    struct mt_buf text = {0};
    for (int64_t i = 0; i < query->run.n_steps; i++) {
        const struct mt_step_count *s = &query->run.steps[i];
        mt_buf_addf(&text, "%s%s: in %lld, out %lld, filtered %lld, malformed %lld, made %lld",
                    i ? "; " : "", s->name, (long long)s->in, (long long)s->out,
                    (long long)s->filtered, (long long)s->malformed, (long long)s->made);
    }
    enum mt_status status = mt_fail(
        err, MT_FATAL, MT_CLASS_INTERNAL,
        "the account of the batch does not add up at %s (%s): this is a fault in Moontide; the "
        "batch is not committed",
        where, text.len ? text.data : "no steps");
    mt_buf_free(&text);
    return status;
}

enum mt_status account_check(const struct mt_query *query, struct mt_error *err)
{
    const struct mt_run *run = &query->run;
    int64_t rows = 0;
    for (int64_t i = 0; i < run->n_inputs; i++)
        rows += run->inputs[i].array.length;
    for (int64_t i = 0; i < run->n_steps; i++) {
        const struct mt_step_count *s = &run->steps[i];
        if (s->in != rows || s->in + s->made != s->out + s->filtered + s->malformed)
            return broken(query, err, s->name);
        rows = s->out;
    }
    if (!query->sink) /* a foreachBatch: what a save was given is checked there */
        return MT_OK;
    int64_t given = run->output.array.release ? run->output.array.length : 0;
    return given == rows ? MT_OK : broken(query, err, "the sink");
}
