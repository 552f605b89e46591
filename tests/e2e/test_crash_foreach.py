# SPDX-License-Identifier: Apache-2.0
"""A foreachBatch with two tables and state, killed at any moment and at every named step: each table has
each of its rows once, the state is what a recount gives, nothing is left lying about."""
import errno
import os
import random
import re
import time
from collections import Counter

import pyarrow.compute as pc
import pytest

from harness import (FAIL_STEPS, KILL_STEPS, LONG, MACHINE, ONCE_STEPS, Stream, assert_exactly_once, log_entries, logged_files,
                     lua, read_files, read_table, rows_of, two_partitions)

STEPS = ':fromJson("value", "n BIGINT, part STRING, amount DOUBLE", { keep = { "partition", "offset", "value" } })'
SIGKILLED = -9

# Every batch goes to the first table and every second one to the other too; which of them is
# first changes. Each row of the first tells what the state counted. No two runs have one text:
# of what a batch is made by, its rows tell.
BODY = '''
for row in batch:rows() do
  state:put(row.part, (state:get(row.part) or 0) + row.amount)
  state:put(row.n, row.amount)
end
local seen = (state:get "seen" or 0) + batch:count()
state:put("seen", seen)
local rows = batch:withColumn("batch", "BIGINT", function() return id end)
  :withColumn("seen", "BIGINT", function() return seen end)
  :withColumn("text", "BIGINT", function() return TEXT end)
local function save_first()
  rows.write:format "parquet":option("path", FIRST):partitionBy "part":save()
end
if id % 3 == 2 then save_first() end
if id % 2 == 0 then rows.write:format "parquet":option("path", SECOND):save() end
if id % 3 ~= 2 then save_first() end
'''

# The state as a table, made of any row.
REPORT = '''
batch:limit(1):flatMap("key STRING, value DOUBLE", function()
  local list = {}
  for key, value in state:pairs() do list[#list + 1] = { key = mt.str(key), value = value } end
  return list
end).write:format "parquet":option("path", REPORT):save()
'''


class Tables:
    """The job's two tables in a folder, its checkpoint beside them."""

    def __init__(self, work, folder="."):
        self.work, self.dir, self.texts = work, work.dir / folder, 0
        self.first, self.second = self.dir / "first", self.dir / "second"

    def job(self, topic, body=BODY, **more):
        """The text of the next run."""
        self.texts += 1
        for name, path in ("FIRST", self.first), ("SECOND", self.second), ("REPORT", self.dir / "report"):
            body = body.replace(name, lua(path))
        body = body.replace("TEXT", str(self.texts))
        return self.work.job(topic, STEPS, each=body, checkpoint=self.dir / "ckpt", **more)

    def assert_whole(self, produced):
        first, second = read_table(self.first), read_table(self.second)
        assert_exactly_once(first, produced)
        even = first.filter(pc.equal(pc.bit_wise_and(first["batch"], 1), 0))
        assert rows_of(second, "partition", "offset", "batch") == rows_of(even, "partition", "offset", "batch")
        size = Counter(first["batch"].to_pylist())
        assert sorted(size) == list(range(len(size)))
        for batch, seen in set(rows_of(first, "batch", "seen")):
            assert seen == sum(n for b, n in size.items() if b <= batch), f"the state before batch {batch} was not its sum"
        texts = {*rows_of(first, "batch", "text"), *rows_of(second, "batch", "text")}
        assert len(texts) == len(size), f"a batch was made by two texts: {sorted(texts)}"


def assert_recount(state, first):
    """The state, told as {key: value}, against the rows of the table."""
    kept = {str(n): amount for n, amount in rows_of(first, "n", "amount")}
    sums = Counter()
    for part, amount in rows_of(first, "part", "amount"):
        sums[part] += amount
    assert state == {**kept, **sums, "seen": first.num_rows}


def test_forty_kills_at_random_moments_leave_tables_and_state_exact(kafka, work):
    seed = int(os.environ.get("MOONTIDE_SEED") or random.randrange(1 << 32))
    print(f"MOONTIDE_SEED={seed}")
    chance, kills = random.Random(seed), 400 if LONG else 40
    topic, tables = kafka.topic(3), Tables(work)
    stream = Stream(kafka, topic, 3, rows_per_second=1000)
    stream.start()
    for kill in range(kills):
        run = work.start(tables.job(topic, trigger=None))
        time.sleep(chance.uniform(0.02, 0.7))  # the moment itself is the test
        assert run.alive(), f"kill {kill}, seed {seed}: {run.done()!r}"
        run.kill()
        # A reader of the log meets the first so many rows of each partition, not even now others.
        for out in tables.first, tables.second:
            by_log = read_files(out, logged_files(out))
            places = by_log.group_by(["partition", "offset"]).aggregate([]).num_rows if by_log.num_rows else 0
            assert places == by_log.num_rows, f"kill {kill}, seed {seed}: {out.name}"
        if kill % 8 == 7:
            # A clean run to the end of what is there: logs and folders agree again.
            work.run_ok(tables.job(topic, trigger=None), "--once")
            read_table(tables.first), read_table(tables.second)
    produced = dict(stream.stop())
    work.run_ok(tables.job(topic, trigger=None), "--once")
    tables.assert_whole(produced)
    batches = max(read_table(tables.first)["batch"].to_pylist()) + 1
    assert batches > kills / 2, f"{batches} batches in {kills} runs: the kills came before any work"
    kafka.produce_values(topic, 0, ['{"part":"of the report"}'])
    work.run_ok(tables.job(topic, REPORT))
    state = dict(rows_of(read_table(tables.dir / "report"), "key", "value"))
    assert_recount(state, read_table(tables.first))
    print(f"{kills} kills, {batches} batches, {len(produced)} rows, logs at "
          f"{[max(log_entries(out)) for out in (tables.first, tables.second)]}")


# Four batches: both tables, the first alone, both the other way round, the first alone.
BATCHES, ROWS = 4, 8


LIMIT = {"maxOffsetsPerTrigger": 2 * ROWS // BATCHES}


@pytest.fixture(scope="module")
def filled(kafka):
    return two_partitions(kafka, ROWS)


# A step may be one of recovery: it is reached only after a kill somewhere else.
FIRST_KILLS = [None, "sink.committed:2", "calls.after:2", "file.rename:2"]


@pytest.mark.parametrize("step", KILL_STEPS)
def test_a_kill_at_this_step_is_recovered_from(work, filled, step):
    topic, produced = filled
    reached = 0
    for first in FIRST_KILLS:
        tables = Tables(work, str(first))
        tables.dir.mkdir()
        if first and work.run(tables.job(topic, source=LIMIT), kill=first).code != SIGKILLED:
            continue
        for _ in range(2):  # again in the recovery
            killed = work.run(tables.job(topic, source=LIMIT), kill=step)
            assert killed.code in (0, SIGKILLED), repr(killed)
            reached += killed.code == SIGKILLED
        work.run_ok(tables.job(topic, source=LIMIT))
        tables.assert_whole(produced)
        if reached:
            break
    assert reached, f"no run came by {step}"


# Arrivals are counted over both saves of a batch: these are the second ones.
@pytest.mark.parametrize("batch", [0, 2])
@pytest.mark.parametrize("step", [s for s in KILL_STEPS if s.split(".")[0] in ("calls", "file", "sink") or s == "store.calls"])
def test_a_kill_in_the_second_save_is_recovered_from(work, filled, step, batch):
    topic, produced = filled
    tables = Tables(work)
    killed = work.run(tables.job(topic, source=LIMIT), kill=f"{step}:{batch}#2")
    assert killed.code == SIGKILLED, repr(killed)
    work.run_ok(tables.job(topic, source=LIMIT))
    tables.assert_whole(produced)


@pytest.mark.parametrize("batch", [0, 2])
@pytest.mark.parametrize("step", FAIL_STEPS)
def test_a_full_disk_at_this_call_loses_nothing_and_says_so(work, filled, step, batch):
    """Also where the script makes light of it: its errors are caught."""
    topic, produced = filled
    tables = Tables(work)
    body = BODY.replace(":save()", "").replace("rows.write", "save(rows.write").replace('"part"', '"part")')
    body = body.replace('SECOND)', 'SECOND))')

    def job():
        return "local function save(writer) pcall(writer.save, writer) end\n" + tables.job(topic, body, source=LIMIT)

    once = step in ONCE_STEPS or step in ("store.space", "file.folder")
    failed = work.run(job(), fail=f"{step}={errno.ENOSPC}" if once else f"{step}:{batch}={errno.ENOSPC}")
    assert failed.code == MACHINE, f"no run came by {step}" if failed.code == 0 else repr(failed)
    assert re.search("no space left|0 bytes left", failed.err, re.I) and "make room" in failed.err, repr(failed)
    work.run_ok(job())
    tables.assert_whole(produced)
