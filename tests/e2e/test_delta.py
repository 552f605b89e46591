# SPDX-License-Identifier: Apache-2.0
"""Delta tables: read back by the deltalake package, each row once whatever dies or writes in between."""
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from harness import SINK, assert_exactly_once

KEPT = ':select("partition", "offset", "value")'


def filled(kafka, n=100):
    topic = kafka.topic()
    kafka.produce_values(topic, 0, [f"v{k}" for k in range(n)])
    return topic, {(0, k): f"v{k}" for k in range(n)}


def delta_job(work, topic, steps=KEPT, per_batch=1000000, sink=None, **more):
    return work.job(topic, steps, form="delta", source={"maxOffsetsPerTrigger": per_batch},
                    sink={"path": work.out, **(sink or {})}, **more)


def rows(out):
    return DeltaTable(str(out)).to_pyarrow_table()


def stray_files(out):
    known = set(DeltaTable(str(out)).file_uris())
    return [str(p) for p in out.rglob("*") if p.is_file() and p.parent.name != "_delta_log" and str(p) not in known]


@pytest.mark.parametrize("step", ["file.fsync:1", "file.pending:1", "file.rename:1", "delta.log:1", "delta.link:1",
                                  "delta.done:1", "sink.committed:1"])
def test_killed_at_each_step_each_row_is_there_once(work, kafka, step):
    topic, produced = filled(kafka)
    job = delta_job(work, topic, per_batch=40)
    work.run(job, kill=step)
    work.run_ok(job)
    assert_exactly_once(rows(work.out), produced)
    assert stray_files(work.out) == []
    versions = sorted(p.name for p in (work.out / "_delta_log").iterdir())
    assert versions == [f"{n:020d}.json" for n in range(3)]


def test_another_writer_between_the_batches_keeps_his_rows_and_takes_none(work, kafka):
    topic, produced = filled(kafka)
    job = delta_job(work, topic)
    work.run_ok(job)
    theirs = pa.table({"partition": pa.array([7], pa.int32()), "offset": pa.array([0], pa.int64()),
                       "value": pa.array(["theirs"])}).cast(rows(work.out).schema)
    write_deltalake(str(work.out), theirs, mode="append")
    kafka.produce_values(topic, 0, ["late"])
    work.run_ok(job)
    assert_exactly_once(rows(work.out), {**produced, (0, 100): "late", (7, 0): "theirs"})


def test_a_table_of_others_with_other_types_is_refused_by_the_columns_name(work, kafka):
    topic, _ = filled(kafka, 3)
    write_deltalake(str(work.out), pa.table({"partition": pa.array([1], pa.int32()), "offset": ["x"], "value": ["y"]}))
    done = work.run(delta_job(work, topic))
    assert done.code == SINK and 'column "offset"' in done.err and "string in the table" in done.err


def test_a_table_with_what_is_not_known_here_is_refused(work, kafka):
    topic, _ = filled(kafka, 3)
    schema = pa.schema([("partition", pa.int32()), ("offset", pa.int64()), ("value", pa.string())])
    DeltaTable.create(str(work.out), schema, configuration={"delta.setTransactionRetentionDuration": "interval 1 days"})
    done = work.run(delta_job(work, topic))
    assert done.code == SINK and "setTransactionRetentionDuration" in done.err
