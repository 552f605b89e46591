# SPDX-License-Identifier: Apache-2.0
"""A machine that runs short: the disk of the table, the disk of the checkpoint, the map of
the store, memory."""
import os
import subprocess

import pytest

from harness import MACHINE, assert_exactly_once, read_table

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


def backlog(kafka, work, megabytes):
    """Peak memory in MB of a run over so much, and the batches it took."""
    topic = kafka.topic(4)
    block = os.urandom(256 * 1024)
    for round_ in range(megabytes // 100):
        for p in range(4):
            kafka.produce_values(topic, p, [
                b'{"n":%d,"pad":"%s"}' % (n, block[n % 200_000:n % 200_000 + 480].hex().encode())
                for n in range(25 * 1000)])
    rows = megabytes // 100 * 100_000
    done = work.run_ok(work.job(topic, ':fromJson("value", "n BIGINT", { keep = { "partition", "offset" } })'),
                       seconds=600)
    table = read_table(work.out)
    assert table.num_rows == rows
    places = table.group_by(["partition", "offset"]).aggregate([])
    assert places.num_rows == rows, "rows doubled"
    return done.peak_kb // 1024, len(done.progress())


def test_a_backlog_of_a_gigabyte_is_read_in_the_memory_of_a_batch(kafka, work):
    peak_mb, batches = backlog(kafka, work, 1000)
    assert batches > 10 and peak_mb < 400, f"{peak_mb} MB over {batches} batches"


@pytest.mark.long
def test_a_backlog_of_five_gigabytes_needs_no_more_memory(kafka, work):
    peak_mb, batches = backlog(kafka, work, 5000)
    assert batches > 50 and peak_mb < 400, f"{peak_mb} MB over {batches} batches"
