/* SPDX-License-Identifier: Apache-2.0
 *
 * sink_noop.c - takes rows and forgets them: the smallest sink there is, for measuring
 * everything before it, and the file to read before writing one (docs/adding-a-sink.md).
 *
 * A sink is a struct of functions (struct mt_sink_type, sink.h says what each promises)
 * and an instance of its own. The engine calls, for every batch:
 *
 *   begin   which batch is it, and do you hold it already?
 *   write   its rows, lent: copy what is needed later, keep no pointer
 *   commit  OK means "would survive power loss"; the engine believes it
 *   abort   instead of commit, or after anything failed
 *
 * After a crash the same batch comes again, with the same id and digest. A sink that
 * can look up what it holds answers STORED and is left alone; this one cannot, so it
 * answers NEW always and says exactly_once = false. */
#include "sink/sink_int.h"

struct noop_sink {
    struct mt_sink base;         /* first, so that a mt_sink * is a noop_sink * */
    bool open;                   /* between begin and commit, and no error since */
    struct mt_sink_record given; /* of the open batch */
};

/* Options are data: parsing, help and the reference read this table. noop has none. */
static const struct mt_option noop_options[] = {{0}};

/* Once, when the job is declared: check what can be checked without touching
 * anything. A sink that cannot store a type says so here, with the column's name. */
static enum mt_status noop_open(struct mt_sink *sink, struct mt_error *err)
{
    (void)sink, (void)err;
    return MT_OK;
}

/* Once, before the first begin: settle what a process that died here left behind. */
static enum mt_status noop_recover(struct mt_sink *sink, const char *query_id, struct mt_error *err)
{
    (void)sink, (void)query_id, (void)err;
    return MT_OK;
}

static enum mt_status noop_begin(struct mt_sink *sink, const struct mt_sink_batch *batch,
                                 enum mt_sink_answer *answer, struct mt_sink_record *record,
                                 struct mt_error *err)
{
    (void)record, (void)err; /* the record is filled for STORED only */
    struct noop_sink *noop = (struct noop_sink *)sink;
    noop->open = true;
    noop->given = sink_record_of(batch);
    *answer = MT_SINK_NEW;
    return MT_OK;
}

/* Where rows go wrong, close the batch (open = false) and return REJECT for rows that
 * can never work, RETRY for trouble that may pass, FATAL for all else; and the words. */
static enum mt_status noop_write(struct mt_sink *sink, const struct mt_batch *rows,
                                 struct mt_error *err)
{
    struct noop_sink *noop = (struct noop_sink *)sink;
    if (!noop->open)
        return sink_not_open(sink, "write", err);
    noop->given.rows += rows->array.length;
    return MT_OK;
}

/* The record says what the destination now holds, by the destination's own count: the
 * engine compares it with what it gave. */
static enum mt_status noop_commit(struct mt_sink *sink, struct mt_sink_record *record,
                                  struct mt_error *err)
{
    struct noop_sink *noop = (struct noop_sink *)sink;
    if (!noop->open)
        return sink_not_open(sink, "commit", err);
    noop->open = false;
    *record = noop->given;
    return MT_OK;
}

static void noop_abort(struct mt_sink *sink)
{
    ((struct noop_sink *)sink)->open = false;
}

static void noop_describe(struct mt_sink *sink, const char *query_id, struct mt_buf *json)
{
    (void)sink, (void)query_id;
    mt_buf_adds(json,
                "{\"description\":\"NoopTable\",\"guarantee\":\"at least once\",\"marker\":null}");
}

static void noop_close(struct mt_sink *sink)
{
    (void)sink; /* the struct itself, path, names and options are freed by mt_sink_free */
}

const struct mt_sink_type sink_noop = {
    .name = "noop",
    .help = "takes rows and forgets them",
    .options = noop_options,
    .size = sizeof(struct noop_sink),
    .open = noop_open,
    .recover = noop_recover,
    .begin = noop_begin,
    .write = noop_write,
    .commit = noop_commit,
    .abort = noop_abort,
    .describe = noop_describe,
    .close = noop_close,
};
