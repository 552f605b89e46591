# SPDX-License-Identifier: Apache-2.0
"""What kill -9 cannot show: checkpoints that were copied, restored, damaged or shared, and
tables that already hold somebody's batches."""
import os
import random
import shutil
from collections import Counter

import pytest

from harness import CHECKPOINT, assert_exactly_once, log_entries, lua, read_table, rows_of

PLACES = ':select("partition", "offset", "value")'
KILLED = -9


class Topic:
    """A topic of one partition that remembers what it was given."""

    def __init__(self, kafka):
        self.kafka, self.name, self.rows = kafka, kafka.topic(), {}

    def add(self, *values):
        for value in values:
            self.rows[0, len(self.rows)] = value
        self.kafka.produce_values(self.name, 0, list(values))


@pytest.fixture
def topic(kafka):
    return Topic(kafka)


def refused(done, *words):
    assert done.code == CHECKPOINT, repr(done)
    for word in words:
        assert str(word) in done.err, f"{word!r} is not in: {done.err}"


def test_a_checkpoint_restored_from_an_earlier_copy_is_refused(work, topic):
    job = work.job(topic.name, PLACES)
    topic.add("a")
    work.run_ok(job)
    shutil.copytree(work.checkpoint, work.dir / "copy")
    topic.add("b")
    work.run_ok(job)
    stored = rows_of(read_table(work.out))
    shutil.rmtree(work.checkpoint)
    shutil.copytree(work.dir / "copy", work.checkpoint)
    topic.add("c")
    refused(work.run(job), "older", work.out)
    assert rows_of(read_table(work.out)) == stored


def test_a_checkpoint_restored_from_long_ago_is_refused_although_the_log_was_compacted(work, topic):
    job = work.job(topic.name, PLACES)
    for n in range(13):
        topic.add(f"v{n}")
        work.run_ok(job)
        if n == 1:
            shutil.copytree(work.checkpoint, work.dir / "copy")
    assert 9 in log_entries(work.out)
    shutil.rmtree(work.checkpoint)
    shutil.copytree(work.dir / "copy", work.checkpoint)
    refused(work.run(job), "older")
    assert_exactly_once(read_table(work.out), topic.rows)


def test_of_a_folder_and_its_copy_only_one_can_go_on(work, topic):
    topic.add("a")
    job = work.job(topic.name, PLACES)
    work.run_ok(job)
    copy = work.dir / "copied"
    shutil.copytree(work.checkpoint, copy)
    topic.add("b")
    work.run_ok(job)
    refused(work.run(work.job(topic.name, PLACES, checkpoint=copy)), "older", "two processes")
    topic.add("c")
    work.run_ok(job)
    assert_exactly_once(read_table(work.out), topic.rows)


def test_a_new_checkpoint_on_an_old_path_is_refused_naming_the_other_query(work, topic):
    topic.add("a")
    first = work.run_ok(work.job(topic.name, PLACES)).progress()[0]["id"]
    fresh = work.job(topic.name, PLACES, checkpoint=work.dir / "new")
    done = work.run(fresh)
    assert done.code != 0 and first in done.err and "allowOtherQueries" in done.err, repr(done)
    assert read_table(work.out).num_rows == 1
    done = work.run_ok(work.job(topic.name, PLACES, checkpoint=work.dir / "new2", sink={"allowOtherQueries": True}))
    assert first in done.err, "the other query is named in a warning"
    assert read_table(work.out).num_rows == 2


@pytest.mark.parametrize("step", ["plan.after:1", "read.after:1", "run.after:1", "sink.written:1"])
def test_a_batch_planned_by_another_script_and_not_stored_is_run_by_todays(work, topic, step):
    def job(mark):
        return work.job(topic.name, f'''{PLACES}
:withColumn("by", "STRING", function(row) return "{mark}" end)''')
    topic.add("a")
    work.run_ok(job("old"))
    topic.add("b", "c")
    assert work.run(job("old"), kill=step).code == KILLED
    done = work.run_ok(job("new"))
    assert "planned by script" in done.err, done.err
    assert rows_of(read_table(work.out), "value", "by") == [(b"a", "old"), (b"b", "new"), (b"c", "new")]


@pytest.mark.parametrize("step", ["sink.committed:1", "commit.before:1"])
def test_a_batch_that_is_stored_is_committed_whatever_todays_script_says(work, topic, step):
    def job(mark):
        return work.job(topic.name, f'''{PLACES}
:withColumn("by", "STRING", function(row) return "{mark}" end)''')
    topic.add("a")
    work.run_ok(job("old"))
    topic.add("b")
    assert work.run(job("old"), kill=step).code == KILLED
    topic.add("c")
    done = work.run_ok(job("new"))
    assert "holds it already" in done.err, done.err
    assert rows_of(read_table(work.out), "value", "by") == [(b"a", "old"), (b"b", "old"), (b"c", "new")]


def test_batch_time_and_random_numbers_are_the_same_on_a_replay(work, topic):
    job = work.job(topic.name, f'''{PLACES}
:withColumn("luck", "DOUBLE", function(row) return math.random() end)''')
    topic.add("a", "b")
    assert work.run(job, kill="run.after:0").code == KILLED
    shutil.copytree(work.checkpoint, work.dir / "same")
    work.run_ok(job)
    first = rows_of(read_table(work.out))
    shutil.rmtree(work.out)
    shutil.rmtree(work.checkpoint)
    (work.dir / "same").rename(work.checkpoint)
    work.run_ok(job)
    assert rows_of(read_table(work.out)) == first


def test_a_planned_batch_goes_to_the_sink_that_may_hold_it(work, topic):
    job = work.job(topic.name, PLACES)
    topic.add("a", "b")
    assert work.run(job, kill="sink.committed:0").code == KILLED
    done = work.run(work.job(topic.name, PLACES, out=work.dir / "t2"))
    assert done.code == CHECKPOINT and "was planned for parquet" in done.err, repr(done)
    assert not (work.dir / "t2").exists()
    work.run_ok(job)
    assert_exactly_once(read_table(work.out), topic.rows)


def test_between_batches_the_path_may_change(work, topic):
    topic.add("a")
    work.run_ok(work.job(topic.name, PLACES))
    topic.add("b")
    work.run_ok(work.job(topic.name, PLACES, out=work.dir / "t2"))
    assert_exactly_once(read_table(work.out), {(0, 0): "a"})
    assert_exactly_once(read_table(work.dir / "t2"), {(0, 1): "b"})


def test_rows_that_came_after_a_start_at_latest_survive_a_crash_before_the_first_batch(work, topic):
    topic.add("old")
    job = work.job(topic.name, PLACES, source={"startingOffsets": "latest"}, trigger=None)
    assert work.run(job, kill="start.after").code == KILLED
    topic.add("x", "y", "z")
    work.run_ok(job, "--once")
    del topic.rows[0, 0]
    assert_exactly_once(read_table(work.out), topic.rows)


def test_the_default_start_is_latest_and_says_what_it_skips(work, topic):
    topic.add(*"abcdefg")
    done = work.run_ok(work.job(topic.name, PLACES, source={"startingOffsets": None}))
    assert done.progress() == [] and any("7" in line and "skip" in line for line in done.err.splitlines()), done.err


def test_changed_starting_options_are_ignored_with_a_warning(work, topic):
    topic.add("a", "b")
    work.run_ok(work.job(topic.name, PLACES))
    done = work.run_ok(work.job(topic.name, PLACES, source={"startingOffsets": "latest"}))
    assert "ignored" in done.err and "new checkpoint" in done.err, done.err
    assert_exactly_once(read_table(work.out), topic.rows)


# ---- damage


def truncate_to_half(path):
    data = path.read_bytes()
    path.write_bytes(data[:len(data) // 2])


def zero_the_pages(path):
    data = path.read_bytes()
    path.write_bytes(b"\0" * len(data))


def zero_the_last_page(path):
    data = path.read_bytes()
    path.write_bytes(data[:-4096] + b"\0" * 4096)


def spoil_the_records(path):
    # In the text of every record, wherever it lies; the pages stay well formed.
    data = path.read_bytes()
    assert b'"batchId"' in data
    path.write_bytes(data.replace(b'"batchId"', b'"batchID"'))


def check(work):
    return work.command("check", work.dir / "job.lua").finish(20)


def line_of(text, words):
    return next(n for n, line in enumerate(text.splitlines(), 1) if words in line)


@pytest.mark.parametrize("damage", [
    lambda path: path.write_bytes(b""), truncate_to_half, zero_the_pages, lambda path: path.unlink(),
    spoil_the_records, lambda path: path.write_bytes(b"not a database" * 1000),
], ids=["emptied", "truncated", "zeroed", "missing", "records spoilt", "another file"])
def test_a_damaged_checkpoint_is_refused_and_never_begun_anew(work, topic, damage):
    topic.add("a", "b")
    job = work.job(topic.name, PLACES)
    work.run_ok(job)
    stored = rows_of(read_table(work.out))
    damage(work.checkpoint / "data.mdb")
    topic.add("c")
    for _ in range(2):  # the first refusal must not have mended it into a new one
        refused(work.run(job), work.checkpoint)
    refused(check(work), work.checkpoint, f"job.lua:{line_of(job, 'checkpointLocation')}: ")
    assert rows_of(read_table(work.out)) == stored


def test_damage_in_the_state_is_refused_before_a_batch_begins(work, topic):
    def job(body):
        return work.job(topic.name, PLACES, each=f"{body}\nbatch.write:format 'parquet':save {lua(work.out)}")
    topic.add("a")
    work.run_ok(job('state:put("x", "so it was left")'))
    backup = work.command("ckpt", "backup", work.checkpoint, work.dir / "backup").finish(20)
    assert backup.code == 0, repr(backup)
    path = work.checkpoint / "data.mdb"
    path.write_bytes(path.read_bytes().replace(b"so it was left", b"so it was lost"))
    topic.add("b")
    refused(work.run(job("local x = pcall(state.get, state, 'x')")), work.checkpoint, "ckpt backup")
    refused(check(work), work.checkpoint, "ckpt backup")
    refused(work.command("ckpt", "backup", work.checkpoint, work.dir / "another").finish(20), work.checkpoint)
    assert read_table(work.out).num_rows == 1
    (work.dir / "backup").rename(path)
    assert check(work).code == 0
    work.run_ok(job('assert(state:get "x" == "so it was left")'))
    assert_exactly_once(read_table(work.out), topic.rows)


def test_a_zeroed_last_page_is_refused_or_does_not_matter(work, topic):
    topic.add("a", "b")
    job = work.job(topic.name, PLACES)
    work.run_ok(job)
    zero_the_last_page(work.checkpoint / "data.mdb")
    done = work.run(job)
    assert done.code in (0, CHECKPOINT), repr(done)
    assert_exactly_once(read_table(work.out), topic.rows)


def test_flipped_bits_are_found_or_do_not_matter(work, topic):
    seed = int(os.environ.get("MOONTIDE_SEED") or random.randrange(1 << 32))
    print(f"MOONTIDE_SEED={seed}")
    chance = random.Random(seed)
    topic.add("a", "b")
    job = work.job(topic.name, PLACES)
    work.run_ok(job)
    topic.add("c")
    work.run_ok(job)
    whole = (work.checkpoint / "data.mdb").read_bytes()
    outcomes = Counter()
    for flip in range(25):
        data = bytearray(whole)
        for _ in range(1 + flip % 3):
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        (work.checkpoint / "data.mdb").write_bytes(data)
        done = work.run(job)
        assert done.code in (0, CHECKPOINT), f"flip {flip}, seed {seed}: {done!r}"
        shown = work.command("ckpt", "show", work.checkpoint).finish(20)
        assert shown.code in (0, CHECKPOINT), f"flip {flip}, seed {seed}: {shown!r}"
        outcomes[done.code] += 1
        assert_exactly_once(read_table(work.out), topic.rows)
    (work.checkpoint / "data.mdb").write_bytes(whole)
    topic.add("d")
    work.run_ok(job)
    assert_exactly_once(read_table(work.out), topic.rows)
    print(outcomes)


@pytest.mark.parametrize("name", ["lock.mdb", "owner"])
@pytest.mark.parametrize("content", [None, b"", b"\xff" * 100], ids=["missing", "empty", "junk"])
def test_what_stands_beside_the_data_may_be_lost(work, topic, name, content):
    topic.add("a")
    job = work.job(topic.name, PLACES)
    work.run_ok(job)
    path = work.checkpoint / name
    path.unlink() if content is None else path.write_bytes(content)
    topic.add("b")
    work.run_ok(job)
    assert_exactly_once(read_table(work.out), topic.rows)


def test_a_folder_that_is_no_checkpoint_is_refused(work, topic):
    topic.add("a")
    work.checkpoint.mkdir()
    (work.checkpoint / "notes.txt").write_text("mine")
    refused(work.run(work.job(topic.name, PLACES)), work.checkpoint)
    assert [p.name for p in work.checkpoint.iterdir()] == ["notes.txt"]


def test_what_a_kill_left_of_a_new_checkpoint_is_no_hindrance(work, topic):
    topic.add("a")
    half = work.checkpoint.with_name(work.checkpoint.name + ".new")
    half.mkdir()
    (half / "data.mdb").write_bytes(b"")
    work.run_ok(work.job(topic.name, PLACES))
    assert not half.exists()
    assert_exactly_once(read_table(work.out), topic.rows)


def test_a_damaged_log_of_the_table_stops_the_query(work, topic):
    topic.add("a")
    job = work.job(topic.name, PLACES)
    work.run_ok(job)
    entry = work.out / "_spark_metadata/0"
    entry.write_text(entry.read_text()[:-20])
    topic.add("b")
    done = work.run(job)
    assert done.code in (CHECKPOINT, 8) and "_spark_metadata/0" in done.err, repr(done)


# ---- owners


def test_a_second_process_on_one_checkpoint_is_refused_naming_the_first(work, topic):
    topic.add("a")
    job = work.job(topic.name, PLACES, trigger=None)
    first = work.start(job)
    first.wait_batches(1)
    refused(work.run(job), first.pid, work.checkpoint)
    topic.add("b")
    first.wait_batches(2)
    assert first.stop().code == 0
    assert_exactly_once(read_table(work.out), topic.rows)


def test_two_queries_on_one_path_do_not_overwrite_each_other(work, topic):
    topic.add("a")
    sink = {"allowOtherQueries": True}
    one = work.start(work.job(topic.name, PLACES, trigger=None, sink=sink), name="one.lua")
    two = work.start(work.job(topic.name, PLACES, trigger=None, sink=sink, checkpoint=work.dir / "ckpt2"), name="two.lua")
    for n in range(2, 14):
        one.wait_batches(n - 1)
        two.wait_batches(n - 1)
        topic.add(f"v{n}")
    one.wait_batches(13)
    two.wait_batches(13)
    assert one.stop().code == 0 and two.stop().code == 0
    values = sorted(v.decode() for v in read_table(work.out)["value"].to_pylist())
    assert values == sorted(list(topic.rows.values()) * 2)
    lines = [line for lines in log_entries(work.out).values() for line in lines]
    assert len({line["moontide"]["query"] for line in lines}) == 2


# ---- ckpt show


def show(work, *words):
    done = work.command("ckpt", "show", work.checkpoint, *words).finish(20)
    assert done.code == 0, repr(done)
    return done.out


def test_ckpt_show_tells_where_a_running_job_is(work, topic):
    topic.add("a", "b", "c")
    run = work.start(work.job(topic.name, PLACES, trigger=None))
    progress = run.wait_batches(1)[0]
    text = show(work)
    assert progress["id"] in text and topic.name in text and "3" in text, text
    assert str(run.pid) in text, "who runs it"
    assert check(work).code == 0
    topic.add("d")
    run.wait_batches(2)
    assert run.stop().code == 0
    assert str(work.out) in text or "parquet" in text


def test_ckpt_show_of_something_else_is_an_error(work):
    done = work.command("ckpt", "show", work.dir / "nothing").finish(20)
    assert done.code == CHECKPOINT and "nothing" in done.err and done.out == "", repr(done)
    assert not (work.dir / "nothing").exists()
