/* SPDX-License-Identifier: Apache-2.0
 *
 * engine_account.c - every row that a batch read is accounted for: what one step put
 * out is what those behind it took in, and each step's rows leave it by a named cause. A sum
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

/* Rows that a step may take; -1: there is no such place before it. */
static int64_t rows_at(const struct mt_run *run, int64_t step, int32_t from)
{
    if (from < 0)
        return -from <= run->n_inputs ? run->inputs[-from - 1].array.length : -1;
    return from > 0 && from <= step ? run->steps[from - 1].out : -1;
}

static bool adds_up(const struct mt_run *run, int64_t step)
{
    const struct mt_step_count *s = &run->steps[step];
    int64_t rows = 0;
    for (int k = 0; k < 2 && (k == 0 || s->from[k] != 0); k++) {
        int64_t came = rows_at(run, step, s->from[k]);
        if (came < 0)
            return false;
        rows += came;
    }
    return s->in == rows && s->in + s->made == s->out + s->filtered + s->malformed;
}

/* Some step takes these rows, or they are what the steps end with. */
static bool is_taken(const struct mt_run *run, int32_t from)
{
    for (int64_t i = 0; i < run->n_steps; i++)
        if (run->steps[i].from[0] == from || run->steps[i].from[1] == from)
            return true;
    return from == (run->n_steps > 0 ? run->n_steps : -1);
}

enum mt_status account_check(const struct mt_query *query, struct mt_error *err)
{
    const struct mt_run *run = &query->run;
    for (int64_t i = 0; i < run->n_steps; i++)
        if (!adds_up(run, i) || !is_taken(run, (int32_t)i + 1))
            return broken(query, err, run->steps[i].name);
    for (int64_t i = 0; i < run->n_inputs; i++)
        if (!is_taken(run, -(int32_t)i - 1))
            return broken(query, err, query->sources[i]->name);
    if (!query->sink) /* a foreachBatch: what a save was given is checked there */
        return MT_OK;
    int64_t rows =
        run->n_steps > 0 ? run->steps[run->n_steps - 1].out : run->inputs[0].array.length;
    int64_t given = run->output.array.release ? run->output.array.length : 0;
    return given == rows ? MT_OK : broken(query, err, "the sink");
}
