# SPDX-License-Identifier: Apache-2.0
"""A job that is edited while it runs: the new text takes over between two batches, or is refused with the
reason and the old one goes on."""
import json
import os
import re
import signal
import subprocess
import time
from collections import Counter
from itertools import accumulate

from harness import MOONTIDE, Stream, assert_exactly_once, lua, read_table, rows_of, until

PLACES = ':select("partition", "offset", "value")'
EVERY = 'processingTime = "200 milliseconds"'
BY = ':select("partition", "offset", "value"):withColumn("by", "STRING", function(row) return {} end)'


def edit(work, text, name="job.lua"):
    """As editors do: another file takes the name."""
    path = work.dir / (name + "~")
    path.write_text(text)
    path.rename(work.dir / name)


class Edited:
    """A run of a job over a topic, and rows one after the other."""

    def __init__(self, work, kafka, *words, steps=BY.format("'old'"), head=""):
        self.work, self.kafka, self.topic, self.n = work, kafka, kafka.topic(), 0
        self.run = work.start(head + "\n" + self.job(steps), *words)

    def job(self, steps, **more):
        return self.work.job(self.topic, steps, trigger=EVERY, **more)

    def row(self):
        """Produces one, and waits until its batch is committed."""
        self.n += 1
        self.kafka.produce_values(self.topic, 0, [f"v{self.n}"])
        self.run.wait_for(lambda r: sum(p["numInputRows"] for p in r.progress()) == self.n, what=f"row {self.n}")

    def takes_over(self, n=1):
        self.run.wait_for(lambda r: r.err().count(" takes over from ") == n, what=f"take-over {n}")

    def table(self):
        done = self.run.stop()
        assert done.code == 0, repr(done)
        return rows_of(read_table(self.work.out), "offset", "by")


def shown(work):
    done = subprocess.run([MOONTIDE, "ckpt", "show", work.checkpoint, "--json"], capture_output=True, text=True)
    return json.loads(done.stdout)


def test_an_edit_takes_over_between_two_batches(work, kafka):
    run = Edited(work, kafka)
    run.row()
    before = shown(work)["plan"]["bundle"]
    edit(work, run.job(BY.format("'new'")))
    run.takes_over()
    run.row()
    after = shown(work)["plan"]["bundle"]
    assert run.table() == [(0, "old"), (1, "new")]
    err = run.run.err()
    assert "changed: job.lua" in err
    assert f"script {after[:12]} takes over from script {before[:12]} at batch 1" in err


def test_a_broken_edit_leaves_the_old_script_and_is_told_once_until_it_is_mended(work, kafka):
    run = Edited(work, kafka)
    run.row()
    edit(work, run.job(BY.format("'new'"))[:-30])
    run.run.wait_for("the script that runs goes on")
    run.row()
    edit(work, run.job(BY.format("'new'") + "\n:fliter(print)"))
    run.run.wait_for('did you mean "filter"?')
    run.row()
    edit(work, run.job(BY.format("'mended'")))
    run.takes_over()
    run.row()
    assert run.table() == [(0, "old"), (1, "old"), (2, "old"), (3, "mended")]
    assert run.run.err().count("the script that runs goes on") == 2


def test_an_edit_that_never_ends_loading_is_given_up(work, kafka):
    run = Edited(work, kafka)
    run.row()
    edit(work, "while true do pcall(function() while true do end end) end\n" + run.job(BY.format("'new'")))
    run.run.wait_for("the job file has been loading for", 30)
    run.row()
    run.run.wait_for(lambda r: "loading it did not end within 30 seconds" in r.err(), 60, "the edit given up")
    run.row()
    assert run.table() == [(0, "old"), (1, "old"), (2, "old")]


def hang(work, run):
    """An edit that waits in C while it is loaded, until what is returned is closed."""
    os.mkfifo(gate := work.dir / "gate")
    edit(work, f"io.open({lua(gate)}):read '*a'\n" + run.job(BY.format("'new'")))

    def opened():
        try:
            return os.fdopen(os.open(gate, os.O_WRONLY | os.O_NONBLOCK), "w")
        except OSError:
            return None  # nobody reads it yet

    return until(opened, what="the edit to be loaded")


def test_an_edit_that_waits_in_c_while_it_is_loaded_keeps_no_batch_waiting(work, kafka):
    run = Edited(work, kafka)
    run.row()
    gate = hang(work, run)
    run.row()
    gate.close()
    run.takes_over()
    run.row()
    assert run.table() == [(0, "old"), (1, "old"), (2, "new")]


def test_an_edit_that_hangs_in_c_while_it_is_loaded_is_left_behind_by_a_stop(work, kafka):
    run = Edited(work, kafka)
    run.row()
    with hang(work, run):
        run.row()
        began = time.monotonic()
        assert run.table() == [(0, "old"), (1, "old")]
        assert time.monotonic() - began < 10


def test_a_module_that_is_edited_is_loaded_too(work, kafka):
    (work.dir / "lib").mkdir()
    (work.dir / "lib/who.lua").write_text('return "old"\n')
    run = Edited(work, kafka, head='local who = require "lib.who"', steps=BY.format("who"))
    run.row()
    edit(work, 'return "new"\n', "lib/who.lua")
    run.takes_over()
    run.row()
    assert run.table() == [(0, "old"), (1, "new")]
    assert "changed: lib/who.lua" in run.run.err()


def test_a_module_that_is_deleted_is_told_once_and_taken_when_it_is_there_again(work, kafka):
    (work.dir / "who.lua").write_text('return "old"\n')
    run = Edited(work, kafka, head='local who = require "who"', steps=BY.format("who"))
    run.row()
    (work.dir / "who.lua").unlink()
    run.run.wait_for("who.lua is gone; the script that runs goes on")
    run.row()
    (work.dir / "who.lua").write_text('return "new"\n')
    run.takes_over()
    run.row()
    assert run.table() == [(0, "old"), (1, "old"), (2, "new")]
    assert run.run.err().count("is gone") == 1


def test_a_hangup_signal_loads_it_at_once(work, kafka):
    run = Edited(work, kafka)
    run.row()
    run.run.signal(signal.SIGHUP)
    run.run.wait_for("asked to load the job again: nothing has changed")
    edit(work, run.job(BY.format("'new'")))
    run.run.signal(signal.SIGHUP)
    run.takes_over()
    run.row()
    assert run.table() == [(0, "old"), (1, "new")]


def test_no_reload_keeps_to_the_text_that_was_loaded(work, kafka):
    run = Edited(work, kafka, "--no-reload")
    run.row()
    edit(work, run.job(BY.format("'new'")))
    run.run.signal(signal.SIGHUP)
    run.run.wait_for("nothing is loaded again under --no-reload")
    run.row()
    assert run.table() == [(0, "old"), (1, "old")]


def test_what_a_restart_would_refuse_is_refused(work, kafka):
    run = Edited(work, kafka)
    run.row()
    text = run.job(BY.format("'new'"))
    edit(work, re.sub(r'mt\.readStream.*?:load\(\)', 'mt.memoryStream "value STRING, partition INT, offset BIGINT"',
                      text, flags=re.S))
    run.run.wait_for("the script that runs goes on")
    assert "use a new checkpoint" in run.run.err()
    run.row()
    assert run.table() == [(0, "old"), (1, "old")]
    assert run.run.err().count("the script that runs goes on") == 1


def test_a_new_path_is_told_and_taken(work, kafka):
    run = Edited(work, kafka)
    run.row()
    edit(work, run.job(BY.format("'new'"), out=work.dir / "second"))
    run.takes_over()
    run.row()
    assert run.table() == [(0, "old")]
    assert rows_of(read_table(work.dir / "second"), "offset", "by") == [(1, "new")]
    assert re.search(r"batches before 1\b", run.run.err()), run.run.err()


def test_a_reload_that_adds_a_query_is_for_a_restart(work, kafka):
    run = Edited(work, kafka)
    run.row()
    two = run.job(BY.format("'new'")).replace("return mt", "local q = mt") + "return { q, q:option(" \
        f"'checkpointLocation', {lua(str(work.dir / 'other.ck'))}) }}\n"
    edit(work, two)
    run.run.wait_for("the file adds checkpoint ")
    run.row()
    assert run.table() == [(0, "old"), (1, "old")]
    assert "restart for that" in run.run.err()


def test_the_state_of_a_foreach_batch_stays_when_its_function_is_edited(work, kafka):
    text = work.job(topic := kafka.topic(), trigger=EVERY)
    head = text[:text.index(".writeStream")]
    text = head + f'''.writeStream:foreachBatch(function(batch, id, state)
  state:put("rows", (state:get "rows" or 0) + batch:count())
  batch:map("who STRING, rows BIGINT", function() return {{ who = "old", rows = state:get "rows" }} end)
    .write:format "parquet":save {lua(str(work.out))}
end):option("checkpointLocation", {lua(str(work.checkpoint))}):trigger {{ {EVERY} }}
'''
    run = work.start(text)
    kafka.produce_values(topic, 0, ["a", "b"])
    run.wait_batches(1)
    edit(work, text.replace('"old"', '"new"'))
    run.wait_for("takes over from")
    kafka.produce_values(topic, 0, ["c"])
    run.wait_for(lambda r: sum(p["numInputRows"] for p in r.progress()) == 3, what="the last row")
    assert run.stop().code == 0
    assert ("new", 3) in rows_of(read_table(work.out), "who", "rows")


def test_edits_during_a_stream_lose_and_double_nothing(work, kafka):
    run = Edited(work, kafka)
    run.row()
    for n in range(5):
        kafka.produce_values(run.topic, 0, [f"a{n}-{k}" for k in range(200)])
        edit(work, run.job(BY.format(f"'{n}'")))
        kafka.produce_values(run.topic, 0, [f"b{n}-{k}" for k in range(200)])
        run.takes_over(n + 1)
    until(lambda: sum(p["numInputRows"] for p in run.run.progress()) == 2001, 30, "all rows")
    assert [offset for offset, _ in run.table()] == list(range(2001))


# ---- a foreachBatch with two tables and state, edited again and again


def both(work, mark):
    return f"""
local seen = (state:get "seen" or 0) + batch:count()
state:put("seen", seen)
local rows = batch:withColumn("by", "STRING", function() return {mark!r} end)
  :withColumn("seen", "BIGINT", function() return seen end):withColumn("batch", "BIGINT", function() return id end)
rows.write:format "parquet":save {lua(work.dir / "first")}
if id % 2 == 0 then rows.write:format "parquet":save {lua(work.dir / "second")} end"""


def test_a_hundred_signals_and_edits_under_load_lose_and_double_nothing(work, kafka):
    topic = kafka.topic(2)

    def job(mark):
        return work.job(topic, PLACES, each=both(work, mark), trigger=None)

    stream = Stream(kafka, topic, 2, rows_per_second=5000)
    stream.start()
    run = work.start(job("0"))
    run.wait_batches(2)
    for n in range(1, 101):
        edit(work, job(str(n)))
        run.signal(signal.SIGHUP)
        run.wait_for(lambda r, now=len(run.progress()): n % 5 or len(r.progress()) > now, what="a batch")
    produced = stream.stop()
    run.wait_for(lambda r: sum(p["numInputRows"] for p in r.progress()) == len(produced), what="all rows")
    assert run.stop().code == 0
    assert 5 <= run.err().count("takes over from") <= 100, "signals that come at once count as one"
    first = read_table(work.dir / "first")
    assert_exactly_once(first, produced)
    even = [row for row in rows_of(first, "partition", "offset", "batch", "seen") if row[2] % 2 == 0]
    assert rows_of(read_table(work.dir / "second"), "partition", "offset", "batch", "seen") == even
    size = Counter(first["batch"].to_pylist())
    sums = dict(zip(sorted(size), accumulate(size[b] for b in sorted(size))))
    assert all(seen == sums[batch] for batch, seen in set(rows_of(first, "batch", "seen")))
    marks = [int(by) for _, by in sorted(set(rows_of(first, "batch", "by")))]
    assert marks == sorted(marks) and len(marks) == len(size), "one script a batch, and none comes back"


def test_a_text_behind_links_that_are_changed_is_noticed(work, kafka):
    """As a cluster mounts files: the name is a link into a folder that is a link to the current one."""
    topic = kafka.topic()
    for version in "old", "new":
        (work.dir / version).mkdir()
        (work.dir / version / "job.lua").write_text(work.job(topic, PLACES, each=both(work, version), trigger=EVERY))
    (work.dir / "..data").symlink_to("old")
    (work.dir / "job.lua").symlink_to("..data/job.lua")
    kafka.produce_values(topic, 0, ["a"])
    run = work.command("run", "job.lua", "--json")
    run.wait_batches(1)
    (work.dir / "..tmp").symlink_to("new")
    (work.dir / "..tmp").rename(work.dir / "..data")
    run.wait_for("takes over from")
    kafka.produce_values(topic, 0, ["b"])
    run.wait_batches(2)
    assert run.stop().code == 0
    assert rows_of(read_table(work.dir / "first"), "offset", "by") == [(0, "old"), (1, "new")]


def test_a_broker_that_was_named_wrong_is_named_right_by_an_edit(work, kafka):
    topic = kafka.topic()
    kafka.produce_values(topic, 0, ["a"])
    right = work.job(topic, PLACES, each=both(work, "new"), trigger=EVERY)
    wrong = right.replace(lua(kafka.bootstrap), '"127.0.0.1:1"')
    assert wrong != right
    run = work.start(wrong)
    run.wait_for(lambda r: (work.checkpoint / "data.mdb").exists(), what="a checkpoint")
    edit(work, right)
    run.wait_batches(1)
    assert run.stop().code == 0
    assert rows_of(read_table(work.dir / "first"), "offset", "by") == [(0, "new")]
