# SPDX-License-Identifier: Apache-2.0
"""Several saves in a batch, over restarts: what each sink holds decides which script may finish it."""
import re
import shutil
import signal
import time

import pytest

from harness import CHECKPOINT, JOB, MACHINE, SCRIPT, SINK, listed_files, lua, read_table, rows_of, until

KILLED = -9
STEPS = ':select("partition", "offset", "value")'


class Saves:
    """A topic of one partition, and jobs over it that save to A, B and C."""

    def __init__(self, work, kafka):
        self.work, self.kafka, self.topic, self.n = work, kafka, kafka.topic(), 0

    def add(self, n=1):
        self.kafka.produce_values(self.topic, 0, [f"v{self.n + k}" for k in range(n)])
        self.n += n

    def path(self, name):
        return self.work.dir / name

    def job(self, body, **more):
        for name in "ABC":
            body = re.sub(rf"\b{name}\b", lua(self.path(name)), body)
        head = 'local function save(frame, path) frame.write:format "parquet":option("path", path):save() end\n'
        return head + self.work.job(self.topic, STEPS, each=body, **more)

    def killed(self, body, step, **more):
        done = self.work.run(self.job(body), kill=step, **more)
        assert done.code == KILLED, repr(done)

    def run_ok(self, body, *words, **more):
        return self.work.run_ok(self.job(body), *words, **more)

    def fails(self, code, words, body, *argv, **more):
        done = self.work.run(self.job(body), *argv, **more)
        assert done.code == code, repr(done)
        for word in words:
            assert str(word) in done.err, f"{word!r} is not in: {done.err}"
        return done

    def offsets(self, name):
        return [offset for (offset,) in rows_of(read_table(self.path(name)), "offset")]

    def marks(self, name):
        return rows_of(read_table(self.path(name)), "offset", "by")

    def holds(self, name, answer):
        path = f"parquet {self.path(name)}"
        return f"{path} holds it" if answer else f"{path} does not"


def left_over(path):
    """What a killed attempt left: hidden, so that no reader takes it for data."""
    return sorted(p.name for p in path.rglob("*") if p.name.endswith((".tmp", ".pending")))


@pytest.fixture
def saves(work, kafka):
    return Saves(work, kafka)


def test_two_saves_to_one_path_are_two_sinks_of_it(saves):
    twice = '''
local even, odd = batch:split(function(row) return row.offset % 2 == 0 end)
save(even, A) save(odd, A)'''
    saves.add(10)
    saves.killed(twice, "sink.committed:0")
    assert saves.offsets("A") == [0, 2, 4, 6, 8]
    saves.add(4)
    saves.run_ok(twice)
    assert saves.offsets("A") == list(range(14))
    saves.add(2)
    saves.killed(twice, "commit.before:2")
    saves.run_ok(twice)
    assert saves.offsets("A") == list(range(16))


def test_two_saves_of_the_same_rows_to_one_path_are_both_kept(saves):
    saves.add(3)
    saves.killed("save(batch, A) save(batch, A)", "calls.after:0#2")
    saves.run_ok("save(batch, A) save(batch, A)")
    assert saves.offsets("A") == [0, 0, 1, 1, 2, 2]


def by(mark, text):
    return f'local rows = batch:withColumn("by", "STRING", function() return "{mark}" end)\n' + text


def test_saves_in_another_order_keep_what_each_holds(saves):
    """Between batches lines may be moved and put under conditions: no sink is renamed by that."""
    saves.add(2)
    saves.run_ok("save(batch, A) save(batch, B)")
    saves.add(2)
    saves.run_ok("if id ~= 1 then save(batch, A) end save(batch, B)")
    saves.add(2)
    saves.killed("save(batch, B) save(batch, A)", "sink.committed:2")
    saves.run_ok("save(batch, B) save(batch, A)")
    assert saves.offsets("A") == [0, 1, 4, 5] and saves.offsets("B") == list(range(6))


def test_saves_moved_after_a_crash_wait_for_the_batch_that_was_begun(saves):
    saves.add(2)
    saves.killed(by("old", "save(rows, A) save(rows, B)"), "sink.committed:0")
    saves.add(2)
    done = saves.run_ok(by("new", "save(rows, B) if id > 0 then save(rows, A) end"))
    assert saves.holds("A", True) in done.err, done.err
    assert saves.marks("A") == saves.marks("B") == [(0, "old"), (1, "old"), (2, "new"), (3, "new")]


def test_a_start_clears_what_a_killed_run_left_where_the_script_saves_no_more(saves):
    saves.add(2)
    saves.run_ok("save(batch, A) save(batch, B)")
    saves.add(2)
    saves.killed("save(batch, A) save(batch, B)", "sink.written:1")
    assert left_over(saves.path("A")), "or the test shows nothing"
    saves.run_ok("save(batch, B)")
    assert left_over(saves.path("A")) == [] and saves.offsets("A") == [0, 1]
    assert saves.offsets("B") == [0, 1, 2, 3]


def test_a_table_that_went_away_with_its_save_holds_no_start_up(saves):
    saves.add(2)
    saves.run_ok("save(batch, A) save(batch, B)")
    shutil.rmtree(saves.path("A"))
    saves.path("A").write_text("a file now")
    saves.add(2)
    saves.run_ok("save(batch, B)")
    assert saves.offsets("B") == [0, 1, 2, 3]


@pytest.mark.parametrize("step", ["plan.after:0", "run.after:0", "sink.written:0", "calls.after:0"])
def test_what_no_sink_holds_is_run_by_todays_script_whatever_sinks_it_saves_to(saves, step):
    saves.add(2)
    if step == "run.after:0":
        saves.killed(by("old", "rows.write:format 'noop':save()"), step)
    else:
        saves.killed(by("old", "save(rows, A) save(rows, B)"), step)
    done = saves.run_ok(by("new", "save(rows, C)"))
    assert "runs it" in done.err, done.err
    assert saves.marks("C") == [(0, "new"), (1, "new")]
    assert listed_files(saves.path("A")) == listed_files(saves.path("B")) == []


# ---- secrets

def test_a_secret_of_a_save_is_in_no_record_and_in_nothing_that_is_shown(saves):
    """How a file is compressed stands for a password here: it is asked for again when a sink must be asked."""
    body = '''
local function save_secretly(path)
  batch.write:format "parquet":option("path", path):option("compression", mt.secret "HOW"):save()
end
save_secretly(A) save_secretly(B)'''
    checkpoint = saves.work.checkpoint
    given = ("--set", "HOW=zstd")
    saves.add(3)
    killed = saves.work.run(saves.job(body), *given, kill="sink.committed:0")
    assert killed.code == KILLED and saves.offsets("A") == [0, 1, 2]
    assert "zstd" in next(saves.path("A").glob("*.parquet")).name
    gone = saves.fails(JOB, [f"asking parquet {saves.path('A')} whether it holds it", 'mt.secret "HOW" is not set'],
                       body.replace('mt.secret "HOW"', '"snappy"'))
    done = saves.work.run_ok(saves.job(body), *given)
    assert saves.offsets("A") == saves.offsets("B") == [0, 1, 2]
    shown = [saves.work.command("ckpt", "show", checkpoint, *more).finish(20) for more in ((), ("--json",))]
    told = [text for one in (killed, gone, done, *shown) for text in (one.out, one.err)]
    assert all("zstd" not in text for text in told), told
    assert b"zstd" not in (checkpoint / "data.mdb").read_bytes()
    assert b'["compression",{"secret":"HOW"}]' in (checkpoint / "data.mdb").read_bytes()


# ---- a script that does otherwise the second time

FLAGS = ("--finish-with-new-script", "--accept-replay 0")


TURN = "(os.getenv 'TURN' == '1')"


def half_held(saves, body, step="sink.committed:0"):
    """Killed when A held the batch: its function sees another environment the second time."""
    saves.add(3)
    saves.killed(body, step, env={"TURN": "1"})
    assert saves.offsets("A") == [0, 1, 2]


@pytest.mark.parametrize("body, words", [
    (f"save(batch, A) save(batch, {TURN} and B or C)", "saves to parquet {C} where it saved to parquet {B}"),
    (f"if {TURN} then save(batch, A) end save(batch, B)", "saves to parquet {B} where it saved to parquet {A}"),
    (f"save(batch, A) if {TURN} then save(batch, B) end", "ends before it saves to parquet {B}"),
    (f"if {TURN} then save(batch, A) save(batch, B) end", "ends before it saves to parquet {A}"),
    (f"save(batch, {TURN} and A or B) save(batch, {TURN} and B or A)", "saves to parquet {B} where it saved to parquet {A}"),
    (f"save({TURN} and batch or batch:limit(2), A) save(batch, B)", "gives parquet {A} 2 rows where it gave 3"),
    (f"save(batch, A) save({TURN} and batch or batch:limit(1), B)", "gives parquet {B} 1 rows where it gave 3"),
    ("save(batch:withColumn('x', 'STRING', function() return os.getenv 'TURN' end), A) save(batch, B)",
     "gives parquet {A} 3 rows where it gave 3 others"),
], ids=["another sink", "one left out", "the last left out", "none", "reordered", "fewer rows", "fewer to the other",
        "other rows"])
def test_a_script_that_does_otherwise_the_second_time_stops_and_says_who_holds_what(saves, body, words):
    half_held(saves, body, "calls.after:0#2")
    places = {name: saves.path(name) for name in "ABC"}
    for _ in range(2):  # it stays so
        saves.fails(CHECKPOINT, [words.format(**places), f"{saves.holds('A', True)} (3 rows)", saves.holds("B", False), *FLAGS],
                    body, env={"TURN": "2"})
    assert saves.offsets("A") == [0, 1, 2]
    assert not saves.path("C").exists() and not listed_files(saves.path("B"))


def test_behind_what_is_on_record_a_script_may_do_what_it_will(saves):
    body = f"save(batch, A) save(batch, {TURN} and B or C)"
    half_held(saves, body)
    saves.run_ok(body, env={"TURN": "2"})
    assert saves.offsets("C") == [0, 1, 2] and not saves.path("B").exists()


@pytest.mark.parametrize("flag", FLAGS)
def test_by_the_users_word_a_batch_that_came_out_otherwise_is_ended(saves, flag):
    body = f"save({TURN} and batch or batch:limit(2), A) save(batch, B)\nstate:put('rows', batch:count())"
    half_held(saves, body)
    saves.add(1)
    saves.fails(CHECKPOINT, FLAGS, body, env={"TURN": "2"})
    saves.work.run_ok(saves.job(body), *flag.split(), env={"TURN": "2"})
    assert saves.offsets("A") == [0, 1, 2, 3] and saves.offsets("B") == [0, 1, 2, 3]
    assert saves.work.run_ok(saves.job(body), env={"TURN": "2"}).progress() == []


def test_the_word_for_another_batch_is_none_for_this_one(saves):
    body = f"save({TURN} and batch or batch:limit(2), A) save(batch, B)"
    half_held(saves, body)
    saves.fails(CHECKPOINT, FLAGS, body, "--accept-replay", "1", env={"TURN": "2"})


def test_os_time_in_rows_is_told_and_batch_time_is_the_cure(saves):
    saves.add(3)
    told = 'save(batch:withColumn("t", "BIGINT", function() return {} end), A)\nsave(batch, B)'
    clock = "os.time()"
    saves.killed(told.format(clock), "sink.committed:0")
    second = time.time() // 1
    until(lambda: time.time() // 1 > second, what="another second")
    saves.fails(CHECKPOINT, [f"gives parquet {saves.path('A')} 3 rows where it gave 3 others", *FLAGS], told.format(clock))
    saves.run_ok(told.format(clock), "--accept-replay", "0")
    assert saves.offsets("A") == saves.offsets("B") == [0, 1, 2]
    saves.add(1)
    saves.killed(told.format("batch.time"), "sink.committed:1")
    saves.run_ok(told.format("batch.time"))
    assert saves.offsets("A") == saves.offsets("B") == [0, 1, 2, 3]


# ---- a script that raises and is mended


def test_a_script_that_raises_before_any_save_is_mended_and_runs_the_batch(saves):
    saves.add(2)
    broken = by("old", 'state:put("n", 1)\nerror "not today"\nsave(rows, A)')
    saves.fails(SCRIPT, ["not today", "batch 0"], broken)
    saves.fails(SCRIPT, ["not today"], broken)
    saves.run_ok(by("new", 'assert(state:count() == 0)\nsave(rows, A)'))
    assert saves.marks("A") == [(0, "new"), (1, "new")]


BETWEEN = 'save(rows, A)\nif os.getenv "TROUBLE" then error "not today" end\nsave(rows, B)'


def test_a_script_that_raises_between_two_saves_ends_its_batch_once_the_trouble_is_over(saves):
    saves.add(2)
    saves.fails(SCRIPT, ["not today"], by("old", BETWEEN), env={"TROUBLE": "yes"})
    assert saves.marks("A") == [(0, "old"), (1, "old")] and not saves.path("B").exists()
    saves.add(1)
    done = saves.run_ok(by("new", "save(rows, B) save(rows, A)"))
    assert saves.holds("A", True) in done.err and "goes on with it" in done.err, done.err
    assert saves.marks("A") == saves.marks("B") == [(0, "old"), (1, "old"), (2, "new")]


def test_a_script_that_raises_again_between_two_saves_needs_the_users_word(saves):
    saves.add(2)
    broken = by("old", 'state:put("n", (state:get "n" or 0) + 1)\nsave(rows, A)\nerror "not today"\nsave(rows, B)')
    mended = by("new", 'state:put("n", (state:get "n" or 0) + 1)\nsave(rows, A)\nsave(rows, B)')
    saves.fails(SCRIPT, ["not today"], broken)
    saves.fails(CHECKPOINT, ["not today", saves.holds("A", True), *FLAGS], mended)
    saves.add(1)
    saves.run_ok(mended, "--finish-with-new-script")
    assert saves.marks("A") == [(0, "old"), (1, "old"), (2, "new")]
    assert saves.marks("B") == [(0, "new"), (1, "new"), (2, "new")]
    saves.add(1)
    saves.run_ok('assert(state:get "n" == 2)')


def test_the_users_word_holds_through_a_crash(saves):
    saves.add(2)
    saves.fails(SCRIPT, ["not today"], by("old", 'save(rows, A)\nerror "not today"'))
    mended = by("new", "save(rows, A)\nsave(rows, B)")
    done = saves.work.run(saves.job(mended), "--finish-with-new-script", kill="sink.committed:0#2")
    assert done.code == KILLED, repr(done)
    saves.run_ok(mended)
    assert saves.marks("A") == [(0, "old"), (1, "old")] and saves.marks("B") == [(0, "new"), (1, "new")]


# ---- an edit while a batch is under way


def test_an_edit_between_plan_and_commit_waits_for_the_next_batch(saves):
    gate = saves.work.dir / "gate"
    hold = f'save(rows, A)\nwhile not io.open({lua(gate)}) do end\nsave(rows, B)'
    saves.add(2)
    run = saves.work.start(saves.job(by("old", hold), trigger=None))
    run.wait_for(lambda r: (saves.path("A") / "_spark_metadata/0").exists(), what="the first save")
    (saves.work.dir / "job.lua~").write_text(saves.job(by("new", "save(rows, B) save(rows, A)"), trigger=None))
    (saves.work.dir / "job.lua~").rename(saves.work.dir / "job.lua")
    run.signal(signal.SIGHUP)
    gate.touch()
    run.wait_for("takes over from")
    saves.add(1)
    run.wait_batches(2)
    assert run.stop().code == 0
    assert saves.marks("A") == saves.marks("B") == [(0, "old"), (1, "old"), (2, "new")]


def test_killed_after_an_edit_the_batch_is_ended_by_the_script_that_began_it(saves):
    saves.add(2)
    saves.killed(by("old", "save(rows, A) save(rows, B)"), "calls.after:0#2")
    saves.killed(by("new", "save(rows, B)"), "commit.before:0")
    saves.add(1)
    saves.run_ok(by("newer", "save(rows, B) save(rows, A)"))
    assert saves.marks("A") == saves.marks("B") == [(0, "old"), (1, "old"), (2, "newer")]


# ---- checkpoints that were copied


BOTH = 'state:put("rows", (state:get "rows" or 0) + batch:count())\nsave(batch, A)\nif id % 2 == 0 then save(batch, B) end'


def test_of_a_checkpoint_and_its_copy_only_one_can_go_on(saves):
    saves.add(1)
    saves.run_ok(BOTH)
    copy = saves.work.dir / "copied"
    shutil.copytree(saves.work.checkpoint, copy)
    saves.add(1)
    saves.run_ok(BOTH)
    done = saves.work.run(saves.job(BOTH, checkpoint=copy))
    assert done.code == CHECKPOINT and "older" in done.err and str(saves.path("A")) in done.err, repr(done)
    saves.add(1)
    saves.run_ok(BOTH)
    assert saves.offsets("A") == [0, 1, 2] and saves.offsets("B") == [0, 2]


def test_a_backup_put_back_is_caught_by_the_sink_that_is_ahead(saves):
    saves.add(1)
    saves.run_ok(BOTH)
    backup = saves.work.command("ckpt", "backup", saves.work.checkpoint, saves.work.dir / "backup").finish(20)
    assert backup.code == 0, repr(backup)
    for _ in range(2):
        saves.add(1)
        saves.run_ok(BOTH)
    shutil.rmtree(saves.work.checkpoint)
    saves.work.checkpoint.mkdir()
    shutil.copy(saves.work.dir / "backup", saves.work.checkpoint / "data.mdb")
    saves.fails(CHECKPOINT, ["older", saves.path("A")], BOTH)
    saves.fails(CHECKPOINT, ["older", saves.path("B")], "save(batch, B)")
    assert saves.offsets("A") == [0, 1, 2] and saves.offsets("B") == [0, 2]


def test_a_new_checkpoint_on_old_paths_is_refused_naming_the_other_query(saves):
    saves.add(1)
    first = saves.run_ok(BOTH).progress()[0]["id"]
    fresh = saves.work.dir / "fresh"
    done = saves.work.run(saves.job(BOTH, checkpoint=fresh))
    assert done.code != 0 and first in done.err and "allowOtherQueries" in done.err, repr(done)
    # Also from a later batch on.
    done = saves.work.run(saves.job("save(batch, C)", checkpoint=fresh))
    assert done.code == 0, repr(done)
    saves.add(1)
    done = saves.work.run(saves.job("save(batch, A)", checkpoint=fresh))
    assert done.code != 0 and first in done.err and "allowOtherQueries" in done.err, repr(done)
    assert saves.offsets("A") == saves.offsets("B") == [0]


# ---- what may change between two runs of a batch, and between batches


def test_a_batch_that_was_planned_keeps_its_rows_whatever_limits_the_job_has_now(saves):
    """And the attempt is counted durably before each, so that one that always dies can be told."""
    saves.add(10)
    limited = saves.job(BOTH, source={"maxOffsetsPerTrigger": 4})
    for attempt in range(1, 4):
        killed = saves.work.run(limited, kill="run.after:0")
        assert killed.code == KILLED and (attempt == 1 or f"(attempt {attempt})" in killed.err), repr(killed)
    done = saves.work.run_ok(saves.job(BOTH, source={"maxOffsetsPerTrigger": 100}))
    assert [p["numInputRows"] for p in done.progress()] == [4, 6]
    assert saves.offsets("A") == list(range(10)) and saves.offsets("B") == [0, 1, 2, 3]


def test_state_of_another_shape_is_the_scripts_to_tell_apart_and_is_not_lost_by_its_error(saves):
    saves.add(1)
    saves.run_ok("state:put('total', 1)\nsave(batch, A)")
    saves.add(1)
    wrong = "local t = state:get 'total'\nstate:put('total', { rows = t.rows + 1 })\nsave(batch, A)"
    saves.fails(SCRIPT, ["job.lua:", "foreachBatch, batch 1", "'t' (a number value)"], wrong)
    right = wrong.replace("get 'total'", "get 'total' if type(t) == 'number' then t = { rows = t } end")
    saves.run_ok(right)
    saves.add(1)
    saves.run_ok(wrong)
    saves.add(1)
    saves.run_ok("assert(state:get('total').rows == 3)\nsave(batch, A)")
    assert saves.offsets("A") == [0, 1, 2, 3]


def test_a_declared_sink_in_between_leaves_the_state(saves):
    saves.add(1)
    saves.run_ok("state:put('total', 1)")
    saves.add(1)
    done = saves.work.run(saves.work.job(saves.topic, STEPS, out=saves.path("A")))
    assert done.code == 0, repr(done)
    saves.add(1)
    saves.run_ok("assert(state:get 'total' == 1)\nsave(batch, A)")
    assert saves.offsets("A") == [1, 2]


# ---- another declared sink, with a batch under way


def declared(saves, path):
    return saves.work.job(saves.topic, STEPS, out=path)


def test_a_batch_for_a_path_that_can_never_work_goes_where_the_path_is_mended(saves):
    saves.add(2)
    for _ in range(2):
        done = saves.work.run(declared(saves, "/proc/nope/table"))
        assert done.code in (SINK, MACHINE) and "batch 0" in done.err, repr(done)
    done = saves.work.run(declared(saves, saves.path("A")))
    assert done.code == 0, repr(done)
    assert saves.offsets("A") == [0, 1]
    assert "the sink changed" in done.err


def test_another_path_for_a_batch_that_the_old_one_may_hold_needs_the_users_word(saves):
    saves.add(2)
    done = saves.work.run(declared(saves, saves.path("A")), kill="sink.committed:0")
    assert done.code == KILLED, repr(done)
    done = saves.work.run(declared(saves, saves.path("B")))
    assert done.code == CHECKPOINT and "--finish-with-new-script" in done.err, repr(done)
    assert "the sink changed" not in done.err
    done = saves.work.run(declared(saves, saves.path("B")), "--finish-with-new-script")
    assert done.code == 0, repr(done)
    assert saves.offsets("A") == saves.offsets("B") == [0, 1]
