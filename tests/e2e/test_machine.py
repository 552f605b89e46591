# SPDX-License-Identifier: Apache-2.0
"""A machine that runs short: the disk of the table, the disk of the checkpoint, the map of
the store, memory."""
import os
import re
import subprocess

import pytest

from harness import CHECKPOINT, JOB, MACHINE, MOONTIDE, assert_exactly_once, lua, read_table

PLACES = ':select("partition", "offset", "value")'


@pytest.fixture
def disk(tmp_path):
    """A file system of 2 MB that can be made larger."""
    place = tmp_path / "disk"
    place.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", place], capture_output=True, text=True)
    if made.returncode != 0:
        pytest.skip(f"no tmpfs may be mounted here: {made.stderr.strip()}")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def enlarge(disk):
    subprocess.run(["mount", "-o", "remount,size=64m", disk], check=True)


@pytest.fixture
def noise(kafka):
    """4 MB that no codec makes smaller, in 8 batches of 512 KB."""
    topic = kafka.topic()
    values = [os.urandom(8192).hex() for _ in range(256)]
    kafka.produce_values(topic, 0, values)
    return topic, {(0, n): value for n, value in enumerate(values)}


def test_a_full_disk_under_the_table_says_so_and_loses_nothing(work, disk, noise):
    topic, produced = noise
    work.out = disk / "table"
    job = work.job(topic, PLACES, source={"maxOffsetsPerTrigger": 32})
    done = work.run(job)
    assert done.code == MACHINE, repr(done)
    assert "No space left on device" in done.err and str(work.out) in done.err, done.err
    stored = sum(p["numInputRows"] for p in done.progress())
    assert 0 < stored < 256 and read_table(work.out).num_rows == stored, "what was committed stands, no stray file"
    assert work.run(job).code == MACHINE, "still full"
    enlarge(disk)
    work.run_ok(job)
    assert_exactly_once(read_table(work.out), produced)


def test_a_full_disk_under_the_checkpoint_says_so_and_loses_nothing(work, disk, noise):
    topic, produced = noise
    work.checkpoint = disk / "ckpt"
    job = work.job(topic, PLACES, source={"maxOffsetsPerTrigger": 32})
    work.run_ok(job, "--max-batches", "2")
    filler = disk / "filler"
    with open(filler, "wb", buffering=0) as out:
        try:
            while True:
                out.write(b"x" * 4096)
        except OSError:
            pass
    done = work.run(job)
    assert done.code == MACHINE and str(work.checkpoint) in done.err, repr(done)
    filler.unlink()
    work.run_ok(job)
    assert_exactly_once(read_table(work.out), produced)


def test_a_full_map_grows_by_itself(kafka, work):
    topic = kafka.topic()
    kafka.produce_values(topic, 0, ["a", "b"])
    # The job file is kept in the checkpoint: this one is larger than the first map.
    job = work.job(topic, PLACES) + "--[[" + "x" * 20_000_000 + "]]\n"
    done = work.run_ok(job)
    assert len(done.progress()) == 1
    kafka.produce_values(topic, 0, ["c"])
    work.run_ok(job + "-- changed\n")
    assert_exactly_once(read_table(work.out), {(0, 0): "a", (0, 1): "b", (0, 2): "c"})


def test_few_file_handles_are_an_error_in_words(work, noise):
    topic, produced = noise
    job = work.job(topic, PLACES, source={"maxOffsetsPerTrigger": 32})
    work.run_ok(job, "--max-batches", "2")
    script = work.dir / "job.lua"
    for handles in range(4, 19, 2):
        run = work.command("run", script, "--json", program=["prlimit", f"--nofile={handles}", MOONTIDE])
        done = run.finish(20)
        assert done.code in (JOB, MACHINE) and re.search("open files|file handle", done.err), f"{handles}: {done!r}"
    work.run_ok(job)
    assert_exactly_once(read_table(work.out), produced)


# ---- a foreachBatch with two tables and state

EACH = """
local seen = (state:get "seen" or 0) + batch:count()
state:put("seen", seen)
for row in batch:rows() do state:put(row.offset, #row.value) end
local rows = batch:withColumn("seen", "BIGINT", function() return seen end)
rows.write:format "parquet":option("path", %s):save()
rows.write:format "parquet":option("path", %s):save()
"""


class Both:
    """Two tables, either of which may lie on the small disk."""

    def __init__(self, work, topic, first, second, checkpoint=None):
        self.work, self.first, self.second = work, first, second
        self.text = work.job(topic, PLACES, each=EACH % (lua(first), lua(second)),
                             checkpoint=checkpoint or work.checkpoint, source={"maxOffsetsPerTrigger": 32})

    def assert_whole(self, produced):
        self.work.run_ok(self.text)
        for out in self.first, self.second:
            table = read_table(out)
            assert_exactly_once(table, produced)
            assert sorted(set(table["seen"].to_pylist())) == list(range(32, len(produced) + 1, 32))


@pytest.mark.parametrize("caught", [False, True], ids=["told", "caught by the script"])
def test_a_full_disk_under_the_second_table_says_so_and_loses_nothing(work, disk, noise, caught):
    topic, produced = noise
    both = Both(work, topic, work.dir / "first", disk / "second")
    text = both.text
    if caught:
        both.text = re.sub(r"(rows\.write.*):save\(\)", r"do local w = \1 pcall(w.save, w) end", text)
        assert both.text != text
    done = work.run(both.text)
    assert done.code == MACHINE, repr(done)
    assert "No space left on device" in done.err and str(both.second) in done.err, done.err
    stored = sum(p["numInputRows"] for p in done.progress())
    assert 0 < stored < 256 and read_table(both.second).num_rows == stored, "what was committed stands, no stray file"
    assert read_table(both.first).num_rows == stored + 32, "the first holds the batch"
    assert work.run(both.text).code in (MACHINE, CHECKPOINT), "still full"
    enlarge(disk)
    both.assert_whole(produced)


def test_a_full_disk_under_all_of_it_says_so_and_loses_nothing(work, disk, noise):
    """Which of the writes meets it is chance: both tables and the checkpoint with its state lie there."""
    topic, produced = noise
    both = Both(work, topic, disk / "first", disk / "second", disk / "ckpt")
    done = work.run(both.text)
    assert done.code == MACHINE and str(disk) in done.err and "make room" in done.err, repr(done)
    assert 0 < len(done.progress()) < 8
    assert work.run(both.text).code in (MACHINE, CHECKPOINT), "still full"
    enlarge(disk)
    both.assert_whole(produced)


def test_a_full_disk_under_the_state_says_so_and_loses_nothing(work, disk, noise):
    topic, produced = noise
    keep = "for row in batch:rows() do state:put(row.offset, row.value) end"
    job = work.job(topic, PLACES, each=keep, checkpoint=disk / "ckpt", source={"maxOffsetsPerTrigger": 32})
    done = work.run(job)
    assert done.code == MACHINE and str(disk / "ckpt") in done.err and "make room" in done.err, repr(done)
    assert 0 < len(done.progress()) < 8
    again = work.run(job)
    assert again.code == MACHINE, "still full"
    enlarge(disk)
    more = work.run_ok(job)
    assert sum(len(run.progress()) for run in (done, again, more)) == 8
    work.kafka.produce_values(topic, 0, ["last"])
    check = """assert(state:count() == 256)
for offset, value in state:pairs() do assert(#value == 16384, offset) end"""
    work.run_ok(work.job(topic, PLACES, each=check, checkpoint=disk / "ckpt"))


def test_a_map_too_small_for_a_batch_of_state_grows_by_itself(work, kafka):
    topic = kafka.topic()
    kafka.produce_values(topic, 0, ["a", "b"])
    # 60 MB in a batch, and the map begins with 16.
    keep = """for i = 1, 600 do
  local at = id .. ":" .. i
  state:put(at, at .. string.rep("x", 1e5))
end"""
    job = work.job(topic, PLACES, each=keep, source={"maxOffsetsPerTrigger": 1})
    killed = work.run(job, kill="store.commit:0")
    assert killed.code == -9, repr(killed)
    assert len(work.run_ok(job).progress()) == 2
    kafka.produce_values(topic, 0, ["c"])
    work.run_ok(work.job(topic, PLACES, each="""assert(state:count() == 1200)
for at, value in state:pairs() do assert(#value == #at + 1e5 and value:sub(1, #at) == at) end"""))


def test_state_that_is_filled_and_emptied_again_and_again_stays_small(work, kafka):
    topic = kafka.topic()
    kafka.produce_values(topic, 0, ["v"] * 60)
    # 4 MB a batch; of two batches nine keys in ten are deleted by the next.
    churn = """for i = 1, 1000 do state:put(id * 1000 + i, string.rep("x", 4000)) end
for key in state:pairs() do if key <= id * 1000 - 1000 and key % 10 ~= 0 then state:delete(key) end end
if id > 5 then for i = 1, 1000 do state:delete((id - 5) * 1000 + i) end end"""
    done = work.run_ok(work.job(topic, PLACES, each=churn, source={"maxOffsetsPerTrigger": 1}))
    assert len(done.progress()) == 60
    megabytes = (work.checkpoint / "data.mdb").stat().st_size >> 20
    assert megabytes < 48, f"{megabytes} MB after 240 were written and deleted"
    kafka.produce_values(topic, 0, ["v"])
    work.run_ok(work.job(topic, PLACES, each='assert(state:count() > 1000 and state:count() < 3000, state:count())'))


def test_few_file_handles_in_a_foreachbatch_are_an_error_in_words(work, noise):
    topic, produced = noise
    both = Both(work, topic, work.dir / "first", work.dir / "second")
    work.run_ok(both.text, "--max-batches", "1")
    for handles in range(14, 60, 4):
        run = work.command("run", work.dir / "job.lua", "--json", "--max-batches", "1",
                           program=["prlimit", f"--nofile={handles}", MOONTIDE])
        done = run.finish(20)
        if done.code == 0:
            break
        assert done.code in (JOB, MACHINE) and re.search("open files|file handle", done.err), f"{handles}: {done!r}"
    assert done.code == 0
    both.assert_whole(produced)


@pytest.mark.parametrize("hoard, words", [
    ("local all = {} while true do all[#all + 1] = string.rep('x', 1e7) .. #all end", "script out of memory"),
    ("local i = 0 while true do i = i + 1 state:put(i, string.rep('x', 1e7)) end", "out of memory"),
    ("local all = batch while true do all = all:union(all) end", "memory|rows"),
], ids=["Lua", "state", "rows"])
def test_a_function_that_takes_all_memory_is_told_and_a_mended_one_goes_on(work, noise, hoard, words):
    topic, produced = noise
    both = Both(work, topic, work.dir / "first", work.dir / "second")
    text = both.text
    work.run_ok(text, "--max-batches", "1")
    (work.dir / "job.lua").write_text(text.replace("local seen", hoard + "\nlocal seen"))
    run = work.command("run", work.dir / "job.lua", "--json", program=["prlimit", f"--as={1 << 30}", MOONTIDE])
    done = run.finish()
    assert done.code == MACHINE and re.search(words, done.err), repr(done)
    both.assert_whole(produced)


# ---- memory

ROUND = 100_000  # rows of 1,000 bytes: 100 MB


@pytest.fixture(scope="module")
def backlog(kafka):
    """A topic that grows to so many megabytes, and is filled once."""
    topic, filled = kafka.topic(4), 0
    pads = [os.urandom(490).hex() for _ in range(1000)]

    def fill(megabytes):
        nonlocal filled
        while filled < megabytes:
            for p in range(4):
                kafka.produce_values(topic, p, ['{"n":%d,"pad":"%s"}' % (n, pads[n % 1000]) for n in range(ROUND // 4)])
            filled += 100
        return topic, filled // 100 * ROUND

    return fill


def assert_bounded(work, done, rows, most_mb):
    table = read_table(work.out)
    assert table.num_rows == rows
    assert table.group_by(["partition", "offset"]).aggregate([]).num_rows == rows, "rows doubled"
    batches, peak_mb = len(done.progress()), done.peak_kb // 1024
    print(f"{rows} rows in {batches} batches, {peak_mb} MB at most")
    assert batches > rows // ROUND and peak_mb < most_mb, f"{peak_mb} MB over {batches} batches"


ROWS_OF_IT = ':fromJson("value", "n BIGINT", { keep = { "partition", "offset" } })'


def test_a_backlog_of_a_gigabyte_is_read_in_the_memory_of_a_batch(work, backlog):
    topic, rows = backlog(1000)
    done = work.run_ok(work.job(topic, ROWS_OF_IT), seconds=300)
    assert_bounded(work, done, rows, most_mb=400)


def test_a_script_slower_than_the_broker_does_not_let_rows_pile_up(work, backlog):
    topic, rows = backlog(1000)
    slow = ROWS_OF_IT + """
:filter(function(row)
  if row.offset % 100 == 0 then
    local till = os.clock() + 0.001
    while os.clock() < till do end
  end
  return true
end)"""
    run = work.start(work.job(topic, slow, trigger=None))
    done = run.wait_for(lambda r: sum(p["numInputRows"] for p in r.progress()) >= rows, 300) and run.stop()
    assert_bounded(work, done, rows, most_mb=400)


def test_batches_that_a_script_copies_and_walks_are_let_go(work, backlog):
    """Frames of many kinds, tables of Lua, state that comes and goes: none outlives its batch."""
    topic, _ = backlog(1000)
    each = """
local part = batch:filter(function(row) return row.n %% 2 == 0 end)
local both = part:union(batch:limit(1000)):withColumn("twice", "BIGINT", function(row) return row.n * 2 end)
local text = {}
for row in both:limit(2000):rows() do text[#text + 1] = mt.json.encode(row) end
for i = 1, 2000 do state:put(i, text[i]) end
for key in state:pairs() do if (key + id) %% 3 == 0 then state:delete(key) end end
batch.write:format "parquet":save(%s)""" % lua(work.out)
    done = work.run_ok(work.job(topic, ROWS_OF_IT, each=each), "--max-batches", "6", seconds=300)
    assert_bounded(work, done, sum(p["numInputRows"] for p in done.progress()), most_mb=400)
    assert (work.checkpoint / "data.mdb").stat().st_size < 32 << 20, "pages that were let go are used again"


@pytest.mark.long
def test_a_backlog_of_five_gigabytes_needs_no_more_memory(work, backlog):
    topic, rows = backlog(5000)
    done = work.run_ok(work.job(topic, ROWS_OF_IT), seconds=900)
    assert_bounded(work, done, rows, most_mb=400)
