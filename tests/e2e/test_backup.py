# SPDX-License-Identifier: Apache-2.0
"""`moontide ckpt backup`: a copy of a checkpoint, and what becomes of it when it is put back."""
import json
import shutil

from harness import CHECKPOINT, Stream, assert_exactly_once, read_table

PLACES = ':select("partition", "offset", "value")'


def backup(work, name="backup"):
    return work.command("ckpt", "backup", work.checkpoint, work.dir / name).finish(20)


def put_back(work, name="backup"):
    shutil.rmtree(work.checkpoint)
    work.checkpoint.mkdir()
    shutil.copy(work.dir / name, work.checkpoint / "data.mdb")


def shown(work, folder):
    return json.loads(work.command("ckpt", "show", folder, "--json").finish(20).out)


def test_a_backup_is_whole_while_the_query_runs(kafka, work):
    topic = kafka.topic(2)
    stream = Stream(kafka, topic, 2)
    stream.start()
    run = work.start(work.job(topic, PLACES, trigger=None))
    for n in range(5):
        before = len(run.wait_batches(len(run.progress()) + 2))
        done = backup(work, f"backup{n}")
        assert done.code == 0, repr(done)
        folder = work.dir / f"copy{n}"
        folder.mkdir()
        (work.dir / f"backup{n}").rename(folder / "data.mdb")
        copied = shown(work, folder)
        assert before - 1 <= copied["lastCommit"] <= len(run.progress()) + 1
        assert copied["lastPlan"] - copied["lastCommit"] in (0, 1) and not copied["store"]["running"]
    produced = stream.stop()
    run.wait_for(lambda r: sum(p["numInputRows"] for p in r.progress()) >= len(produced), 60)
    assert run.stop().code == 0
    assert_exactly_once(read_table(work.out), produced)


def test_a_backup_put_back_goes_on_where_it_was(kafka, work):
    topic = kafka.topic()
    kafka.produce_values(topic, 0, ["a", "b"])
    job = work.job(topic, PLACES)
    work.run_ok(job)
    assert backup(work).code == 0
    put_back(work)
    kafka.produce_values(topic, 0, ["c"])
    work.run_ok(job)
    assert_exactly_once(read_table(work.out), {(0, 0): "a", (0, 1): "b", (0, 2): "c"})


def test_a_backup_older_than_its_table_is_noticed(kafka, work):
    topic = kafka.topic()
    kafka.produce_values(topic, 0, ["a"])
    job = work.job(topic, PLACES)
    work.run_ok(job)
    assert backup(work).code == 0
    kafka.produce_values(topic, 0, ["b"])
    work.run_ok(job)
    put_back(work)
    kafka.produce_values(topic, 0, ["c"])
    done = work.run(job)
    assert done.code == CHECKPOINT and "older" in done.err, repr(done)
    assert_exactly_once(read_table(work.out), {(0, 0): "a", (0, 1): "b"})


def test_a_folder_copied_is_noticed_when_both_run(kafka, work):
    topic = kafka.topic()
    kafka.produce_values(topic, 0, ["a"])
    job = work.job(topic, PLACES)
    work.run_ok(job)
    other = work.dir / "other"
    shutil.copytree(work.checkpoint, other)
    kafka.produce_values(topic, 0, ["b"])
    work.run_ok(job)
    done = work.run(work.job(topic, PLACES, checkpoint=other, source={"maxOffsetsPerTrigger": 1}))
    assert done.code in (0, CHECKPOINT), repr(done)
    kafka.produce_values(topic, 0, ["c", "d"])
    work.run_ok(job)
    done = work.run(work.job(topic, PLACES, checkpoint=other, source={"maxOffsetsPerTrigger": 1}))
    assert done.code == CHECKPOINT, repr(done)
    assert_exactly_once(read_table(work.out), {(0, n): v for n, v in enumerate("abcd")})


def test_a_file_that_is_there_is_not_written_over(kafka, work):
    topic = kafka.topic()
    kafka.produce_values(topic, 0, ["a"])
    work.run_ok(work.job(topic, PLACES))
    (work.dir / "backup").write_text("mine")
    done = backup(work)
    assert done.code != 0 and "backup" in done.err and (work.dir / "backup").read_text() == "mine", repr(done)


def test_no_checkpoint_is_told(work):
    done = backup(work)
    assert done.code == CHECKPOINT and str(work.checkpoint) in done.err and not (work.dir / "backup").exists()
