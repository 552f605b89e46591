# SPDX-License-Identifier: Apache-2.0
"""Killed at any moment and at every named step: after recovery each produced row is in
the table exactly once, whether a reader goes by the log or lists the folder, and nothing
is left lying about."""
import errno
import os
import random
import re
import time

import pyarrow.compute as pc
import pytest

from harness import (CHECKPOINT, FAIL_STEPS, KILL_STEPS, LONG, MACHINE, ONCE_STEPS, SINK, Stream, assert_exactly_once,
                     log_entries, logged_files, read_files, read_table, two_partitions)

STEPS = ':fromJson("value", "n BIGINT, part STRING, amount DOUBLE", { keep = { "partition", "offset", "value" } })'
SIGKILLED = -9


# Intent records are those of foreachBatch: test_crash_foreach.py.
KILLS = [s for s in KILL_STEPS if s != "store.calls" and not s.startswith("calls.")]
FAILS = [s for s in FAIL_STEPS if s != "store.calls"]


def test_forty_kills_at_random_moments_lose_nothing_and_double_nothing(kafka, work):
    seed = int(os.environ.get("MOONTIDE_SEED") or random.randrange(1 << 32))
    print(f"MOONTIDE_SEED={seed}")
    chance, kills = random.Random(seed), 150 if LONG else 40
    topic = kafka.topic(3)
    job = work.job(topic, STEPS, trigger=None, partition_by=["part"])
    stream = Stream(kafka, topic, 3)
    stream.start()
    batches = 0
    for kill in range(kills):
        run = work.start(job)
        time.sleep(chance.uniform(0.02, 0.7))  # the moment itself is the test
        assert run.alive(), f"kill {kill}, seed {seed}: {run.done()!r}"
        run.kill()
        batches += len(run.progress())
        # A reader of the log meets the first so many rows of each partition, not even now others.
        by_log = read_files(work.out, logged_files(work.out))
        for p in range(3 if by_log.num_rows else 0):
            offsets = sorted(by_log.filter(pc.equal(by_log["partition"], p))["offset"].to_pylist())
            assert offsets == list(range(len(offsets))), f"kill {kill}, seed {seed}: partition {p}"
        if kill % 8 == 7:
            # A clean run to the end of what is there: log and folder agree again.
            work.run_ok(job, "--once")
            read_table(work.out)
    produced = stream.stop()
    work.run_ok(job, "--once")
    assert_exactly_once(read_table(work.out), produced)
    assert batches > kills, f"{batches} batches in {kills} runs: the kills came before any work"
    print(f"{kills} kills, {batches} batches, {len(produced)} rows, log at {max(log_entries(work.out))}")


# Thirteen batches: far enough that the log is compacted on the way.
BATCHES, ROWS = 13, 26


@pytest.fixture(scope="module")
def filled(kafka):
    return two_partitions(kafka, ROWS)


def crash_job(work, topic):
    return work.job(topic, STEPS, partition_by=["part"], source={"maxOffsetsPerTrigger": 2 * ROWS // BATCHES})


# A step may be one of recovery: it is reached only after a kill somewhere else.
FIRST_KILLS = [None, "sink.written:2", "file.rename:2", "sink.committed:2"]


@pytest.mark.parametrize("step", KILLS)
def test_a_kill_at_this_step_is_recovered_from(work, filled, step):
    topic, produced = filled
    job = crash_job(work, topic)
    reached = 0
    for first in FIRST_KILLS:
        work.out, work.checkpoint = work.dir / f"t{first}", work.dir / f"c{first}"
        job = crash_job(work, topic)
        if first and work.run(job, kill=first).code != SIGKILLED:
            continue
        for _ in range(3):  # again in the recovery, and again
            killed = work.run(job, kill=step)
            assert killed.code in (0, SIGKILLED), repr(killed)
            reached += killed.code == SIGKILLED
        work.run_ok(job)
        assert_exactly_once(read_table(work.out), produced)
        if reached:
            break
    assert reached, f"no run came by {step}"


@pytest.mark.parametrize("batch", [9, 10])
@pytest.mark.parametrize("step", [s for s in KILLS if s not in ONCE_STEPS])
def test_a_kill_around_the_compacted_entry_is_recovered_from(work, filled, step, batch):
    topic, produced = filled
    job = crash_job(work, topic)
    killed = work.run(job, kill=f"{step}:{batch}")
    assert killed.code in (0, SIGKILLED), repr(killed)
    work.run_ok(job)
    assert_exactly_once(read_table(work.out), produced)
    assert sorted(log_entries(work.out)) == list(range(9, BATCHES))


@pytest.mark.parametrize("form", ["console", "noop"])
def test_a_sink_without_a_memory_is_given_a_killed_batch_again_and_check_says_so(work, filled, form):
    """The weakest that there is: at least once. Nothing is lost to any sink."""
    topic, produced = filled
    job = work.job(topic, ':select("offset")', form=form)
    killed = work.run(job, kill="commit.before:0")
    assert killed.code == SIGKILLED, repr(killed)
    again = work.run_ok(job)
    assert sum(p["numInputRows"] for p in again.progress()) == len(produced)
    if form == "console":
        assert killed.err.count("Batch: 0") == again.err.count("Batch: 0") == 1
    check = work.command("check", work.dir / "job.lua").finish(20)
    assert check.code == 0 and f"{form}, at least once" in check.out and "shows a batch again" in check.out, check.out


@pytest.mark.parametrize("step", FAILS)
@pytest.mark.parametrize("number, words", [(errno.ENOSPC, "no space left|0 bytes left"),
                                           (errno.EIO, "input/output error|0 bytes left")], ids=["full disk", "broken disk"])
def test_a_disk_that_fails_this_call_loses_nothing_and_says_so(work, filled, step, number, words):
    topic, produced = filled
    job = crash_job(work, topic)
    failed = work.run(job, fail=f"{step}={number}")
    assert failed.code in (MACHINE, SINK, CHECKPOINT), f"no run came by {step}" if failed.code == 0 else repr(failed)
    assert re.search(words, failed.err, re.I), failed.err
    assert number != errno.ENOSPC or failed.code == MACHINE and "make room" in failed.err, repr(failed)
    work.run_ok(job)
    assert_exactly_once(read_table(work.out), produced)
