# SPDX-License-Identifier: Apache-2.0
"""The command line: what stands on standard output, what the commands say, exit codes."""
import json
import re
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from harness import JOB, MOONTIDE, ROOT, USAGE, assert_exactly_once, read_table

PLACES = ':select("partition", "offset", "value")'
PROGRESS = ["id", "runId", "name", "timestamp", "batchId", "batchDuration", "numInputRows", "inputRowsPerSecond",
            "processedRowsPerSecond", "durationMs", "stateOperators", "sources", "sink"]
SOURCE_FIELDS = ["description", "startOffset", "endOffset", "latestOffset", "numInputRows", "inputRowsPerSecond",
                 "processedRowsPerSecond", "metrics"]
PHASES = ["addBatch", "commitOffsets", "getBatch", "latestOffset", "queryPlanning", "triggerExecution", "walCommit"]


def command(work, *words, seconds=20):
    return work.command(*words).finish(seconds)


def test_with_json_standard_output_is_sparks_progress_and_nothing_else(kafka, work):
    topic = kafka.topic(2)
    for p in range(2):
        kafka.produce_values(topic, p, ["x"] * 10)
    done = work.run_ok(work.job(topic, PLACES, source={"maxOffsetsPerTrigger": 10}, writer=':queryName "places"'))
    lines = [json.loads(line, object_pairs_hook=lambda pairs: dict(pairs)) for line in done.out.splitlines()]
    assert [p["batchId"] for p in lines] == [0, 1]
    for n, progress in enumerate(lines):
        assert list(progress) == PROGRESS
        assert progress["name"] == "places" and progress["id"] == lines[0]["id"] and progress["stateOperators"] == []
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", progress["timestamp"])
        assert list(progress["durationMs"]) == PHASES and all(type(v) is int for v in progress["durationMs"].values())
        assert progress["batchDuration"] == progress["durationMs"]["triggerExecution"]
        (source,) = progress["sources"]
        assert list(source) == SOURCE_FIELDS
        assert source["description"] == f"KafkaV2[Subscribe[{topic}]]"
        assert source["endOffset"] == {topic: {"0": 5 * (n + 1), "1": 5 * (n + 1)}}
        assert source["latestOffset"] == {topic: {"0": 10, "1": 10}}
        behind = 5 * (1 - n)
        assert source["metrics"] == {"avgOffsetsBehindLatest": f"{behind}.0", "maxOffsetsBehindLatest": str(behind),
                                     "minOffsetsBehindLatest": str(behind)}
        assert source["numInputRows"] == progress["numInputRows"] == 10
        assert progress["sink"] == {"description": f"FileSink[{work.out}]", "numOutputRows": -1}
    assert lines[0]["sources"][0]["startOffset"] is None and lines[0]["inputRowsPerSecond"] == 0.0
    assert lines[1]["sources"][0]["startOffset"] == lines[0]["sources"][0]["endOffset"]


def test_without_a_trigger_progress_says_how_far_behind_too(kafka, work):
    topic = kafka.topic()
    kafka.produce_values(topic, 0, ["x"] * 10)
    job = work.job(topic, PLACES, trigger=None, source={"maxOffsetsPerTrigger": 10})
    (source,) = work.run_ok(job, "--max-batches", "1").progress()[0]["sources"]
    assert list(source) == SOURCE_FIELDS
    assert source["endOffset"] == source["latestOffset"] == {topic: {"0": 10}}
    kafka.produce_values(topic, 0, ["x"] * 15)
    first, second = work.run_ok(job, "--max-batches", "2").progress()
    assert [p["sources"][0]["latestOffset"] for p in (first, second)] == [{topic: {"0": 25}}] * 2
    assert [p["sources"][0]["metrics"]["maxOffsetsBehindLatest"] for p in (first, second)] == ["5", "0"]


def test_progress_of_a_batch_that_runs_again_has_no_time_for_what_was_done_before(kafka, work):
    topic = kafka.topic()
    kafka.produce_values(topic, 0, ["x"] * 10)
    job = work.job(topic, PLACES)
    assert work.run(job, kill="plan.after:0").progress() == []
    (again,) = work.run_ok(job).progress()
    assert list(again["durationMs"]) == [p for p in PHASES if p not in ("latestOffset", "walCommit")]
    assert again["sources"][0]["latestOffset"] is None and "metrics" not in again["sources"][0]


def test_without_json_a_line_a_batch_is_for_people(kafka, work):
    topic = kafka.topic()
    kafka.produce_values(topic, 0, ["x"] * 1234)
    path = work.dir / "job.lua"
    path.write_text(work.job(topic, PLACES))
    done = command(work, "run", path)
    assert done.code == 0 and "1,234 rows" in done.out + done.err, repr(done)


def test_max_batches_ends_after_so_many(kafka, work):
    topic = kafka.topic()
    kafka.produce_values(topic, 0, ["x"] * 100)
    job = work.job(topic, PLACES, trigger=None, source={"maxOffsetsPerTrigger": 10})
    assert len(work.run_ok(job, "--max-batches", "3").progress()) == 3
    assert len(work.run_ok(job, "--once").progress()) == 7
    assert_exactly_once(read_table(work.out), {(0, n): "x" for n in range(100)})


def test_set_reaches_conf_and_the_environment_too(kafka, work):
    topic = kafka.topic()
    kafka.produce_values(topic, 0, ["x"])
    text = work.job(topic, PLACES).replace(json.dumps(topic), 'mt.conf "wanted"')
    assert len(work.run_ok(text, "--set", f"wanted={topic}").progress()) == 1
    kafka.produce_values(topic, 0, ["y"])
    assert len(work.run_ok(text, env={"MOONTIDE_WANTED": topic}).progress()) == 1


def test_processing_time_batches_start_on_the_grid(kafka, work):
    topic = kafka.topic()
    kafka.produce_values(topic, 0, ["x"])
    run = work.start(work.job(topic, PLACES, trigger='processingTime = "1 second"'))
    for n in range(1, 4):
        run.wait_batches(n)
        kafka.produce_values(topic, 0, ["x"])
    done = run.stop()
    times = [p["timestamp"] for p in done.progress()]
    late = [int(re.search(r"\.(\d{3})Z", t)[1]) for t in times[1:]]
    assert all(ms < 500 for ms in late), f"not on whole seconds: {times}"


@pytest.mark.parametrize("form", ["noop", "console", "memory"])
def test_the_other_sinks_take_the_rows(kafka, work, form):
    topic = kafka.topic()
    kafka.produce_values(topic, 0, ["hello", "world"])
    path = work.dir / "job.lua"
    path.write_text(work.job(topic, ':map("v STRING", function(row) return { v = row.value } end)', form=form,
                             writer=':queryName "words"', checkpoint=work.checkpoint))
    done = command(work, "run", path)
    assert done.code == 0, repr(done)
    if form == "console":
        assert "Batch: 0" in done.out and "|hello|" in done.out.replace(" ", "") and "+-----+" in done.out


def test_relative_paths_are_of_the_working_directory(kafka, work):
    topic = kafka.topic()
    kafka.produce_values(topic, 0, ["x"])
    job = work.job(topic, PLACES, out="rel/../table", checkpoint="ckpt")
    assert len(work.run_ok(job).progress()) == 1
    assert work.run_ok(work.job(topic, PLACES)).progress() == [], "the same by absolute paths"
    assert_exactly_once(read_table(work.out), {(0, 0): "x"})


def test_a_reader_of_standard_output_that_goes_away_loses_no_rows(kafka, work):
    topic = kafka.topic()
    kafka.produce_values(topic, 0, ["x"] * 100)
    (work.dir / "job.lua").write_text(work.job(topic, PLACES, source={"maxOffsetsPerTrigger": 1}))
    done = work.command("-c", f"'{MOONTIDE}' run job.lua --json | head -1", program=["bash"]).finish()
    assert len(done.progress()) == 1
    work.run_ok(work.job(topic, PLACES))
    assert_exactly_once(read_table(work.out), {(0, n): "x" for n in range(100)})


def test_check_shows_the_job_without_a_server(work):
    path = work.dir / "job.lua"
    path.write_text(work.job("orders", ''':fromJson("value", "a INT, b STRING", { keep = { "offset" } })
:filter(function(row) return row.a == 1 end)
:drop("b")''', source={"kafka.bootstrap.servers": "127.0.0.1:1"}))
    done = command(work, "check", path)
    assert done.code == 0, repr(done)
    for word in ("orders", "fromJson", "filter", "drop", "INT", "BIGINT", "exactly once", str(work.out)):
        assert word.lower() in done.out.lower(), f"{word!r} is not in: {done.out}"
    assert not work.out.exists() and not work.checkpoint.exists()


def test_check_finds_every_fault_at_its_line(work):
    path = work.dir / "job.lua"
    text = work.job("orders", ''':fromJson("value", "a INT")
:select("b")
:drop("c")''', source={"kafka.bootstrap.servers": "127.0.0.1:1", "startingOfsets": "earliest"})
    path.write_text(text)
    done = command(work, "check", path)
    assert done.code == JOB, repr(done)
    for n, line in enumerate(text.splitlines(), 1):
        if "startingOfsets" in line or ":select" in line:
            assert f"job.lua:{n}" in done.err + done.out, f"line {n} is not named: {done!r} {done.out}"


def test_version_names_what_it_is_built_from(work):
    done = command(work, "--version")
    assert done.code == 0
    for word in ("moontide", "LuaJIT", "librdkafka", "Arrow", "LMDB"):
        assert re.search(rf"{word}\D*\d+\.\d+", done.out, re.I), f"{word} is not in: {done.out}"


@pytest.mark.parametrize("words", [["--help"], ["run", "--help"], ["check", "--help"], ["ckpt", "show", "--help"],
                                   ["demo", "--help"]], ids=" ".join)
def test_help_goes_to_standard_output(work, words):
    done = command(work, *words)
    assert done.code == 0 and "usage" in done.out.lower() and done.err == "", repr(done)


@pytest.mark.parametrize("words", [[], ["rnu"], ["run"], ["run", "--jsno", "x.lua"], ["run", "job.lua", "--set", "x"],
                                   ["run", "job.lua", "--max-batches", "many"], ["ckpt"]], ids=" ".join)
def test_wrong_usage_is_told_on_standard_error(work, words):
    (work.dir / "job.lua").write_text("")
    done = command(work, *words)
    assert done.code == USAGE and done.err and done.out == "", repr(done)


def test_a_job_file_that_is_not_there_is_named(work):
    done = command(work, "run", "missing.lua")
    assert done.code in (USAGE, JOB) and "missing.lua" in done.err, repr(done)


def test_the_demo_of_a_job_at_fault_says_what_tells_all_its_mistakes(work):
    (work.dir / "job.lua").write_text(work.job("orders", ":selct 'x'"))
    done = command(work, "demo", "job.lua", "--rows", "1", "--seconds", "1")
    assert done.code == JOB and done.err.endswith(f"Try: moontide check {work.dir}/job.lua, which tells all "
                                                  "mistakes at once\n"), repr(done)


def test_the_demo_shows_the_tables_of_a_foreach_batch(work):
    done = command(work, "demo", ROOT / "examples/foreach_two_tables.lua", "--rows", "200", "--seconds", "1", seconds=60)
    assert done.code == 0, repr(done)
    tables = re.findall(r"^written to (.*):$", done.out, re.MULTILINE)
    assert len(tables) == 2, done.out
    assert all(f"{read_table(Path(table)).num_rows:,}" in done.out for table in tables)


def test_the_demo_writes_a_table_that_others_read(work):
    done = command(work, "demo", ROOT / "jobs/orders_to_parquet.lua", "--rows", "2000", "--seconds", "4",
                   "--set", f"out={work.out}", "--set", "every=1 second", seconds=60)
    assert done.code == 0, repr(done)
    table = read_table(work.out)
    assert table.num_rows > 0 and len(set(zip(table["partition"].to_pylist(), table["offset"].to_pylist()))) == table.num_rows
    assert all(a > 0 for a in table["amount"].to_pylist())
    listed = ds.dataset(str(work.out), format="parquet", partitioning="hive").to_table()
    assert listed.num_rows == table.num_rows
    assert f"{table.num_rows:,}" in done.out or str(table.num_rows) in done.out, done.out
