# SPDX-License-Identifier: Apache-2.0
"""repartition(n): a batch in n files, exactly once whatever dies in between."""
import pyarrow.parquet as pq
import pytest

from harness import assert_exactly_once, log_entries, log_path, read_table

KEPT = ':select("partition", "offset", "value")'


def filled(kafka, n=100):
    topic = kafka.topic()
    kafka.produce_values(topic, 0, [f"v{k}" for k in range(n)])
    return topic, {(0, k): f"v{k}" for k in range(n)}


def offsets_by_file(out, batch):
    return [pq.read_table(log_path(out, line["path"]))["offset"].to_pylist() for line in log_entries(out)[batch]]


def test_a_batch_is_in_n_files_in_order(work, kafka):
    topic, produced = filled(kafka)
    work.run_ok(work.job(topic, KEPT + ":repartition(4)"))
    assert offsets_by_file(work.out, 0) == [list(range(25 * k, 25 * k + 25)) for k in range(4)]
    assert_exactly_once(read_table(work.out), produced)


def test_rows_with_equal_values_are_in_one_file(work, kafka):
    topic, produced = filled(kafka)
    steps = KEPT + ':withColumn("rest", "INT", function(row) return row.offset % 7 end):repartition(3, "rest")'
    work.run_ok(work.job(topic, steps))
    files = [{n % 7 for n in offsets} for offsets in offsets_by_file(work.out, 0)]
    assert len(files) <= 3 and sum(map(len, files)) == 7
    assert_exactly_once(read_table(work.out), produced)


@pytest.mark.parametrize("step", ["file.fsync:0", "file.pending:0", "file.rename:0", "file.link:0", "sink.committed:0"])
@pytest.mark.parametrize("each", [None, 'batch:repartition(3, "offset").write:format "parquet":save(PATH)'],
                         ids=["declared", "saved"])
def test_killed_on_the_way_all_files_are_there_or_none(work, kafka, step, each):
    topic, produced = filled(kafka)
    if each:
        each = each.replace("PATH", f"{str(work.out)!r}")
    job = work.job(topic, KEPT + ("" if each else ":repartition(3)"), each=each)
    work.run(job, kill=step)
    assert "0" not in {str(n) for n in log_entries(work.out)} or len(log_entries(work.out)[0]) == 3
    work.run_ok(job)
    assert len(log_entries(work.out)[0]) == 3
    assert_exactly_once(read_table(work.out), produced)
