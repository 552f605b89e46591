# SPDX-License-Identifier: Apache-2.0
"""Topics whose offsets have gaps: transaction markers, aborted and open transactions,
compaction. A batch is a range of offsets, never a count of records."""
import pytest

from harness import read_table, until

PLACES = ':select("partition", "offset", "key", "value")'
COMMITTED = {"kafka.isolation.level": "read_committed"}


def transact(kafka, topic, plan):
    """Runs transactions of (values, committed or aborted); the rows of all reach the log."""
    producer = kafka.transactional(f"tx-{topic}")
    for values, commit in plan:
        producer.begin_transaction()
        for value in values:
            producer.produce(topic, value, partition=0)
        assert producer.flush(60) == 0
        producer.commit_transaction(30) if commit else producer.abort_transaction(30)


def values(work):
    table = read_table(work.out)
    return [v.decode() for v in table.sort_by("offset")["value"].to_pylist()] if table.num_rows else []


def test_markers_and_aborted_rows_are_stepped_over(kafka, work):
    topic = kafka.topic()
    kafka.produce_values(topic, 0, ["plain"])
    transact(kafka, topic, [(["a", "b"], True), (["gone"] * 5, False), (["c"], True), (["gone"], False)])
    job = work.job(topic, PLACES, source=COMMITTED)
    done = work.run_ok(job)
    assert values(work) == ["plain", "a", "b", "c"]
    # The range ends behind the last marker, not behind the last row.
    end = kafka.watermarks(topic)[1]
    assert done.progress()[-1]["sources"][0]["endOffset"] == {topic: {"0": end}}
    assert work.run_ok(job).progress() == []
    kafka.produce_values(topic, 0, ["after"])
    work.run_ok(job)
    assert values(work) == ["plain", "a", "b", "c", "after"]


@pytest.mark.parametrize("limit", [1, 1000])
@pytest.mark.parametrize("plan, want", [
    ([(["only"], True)], ["only"]),
    ([(["gone"], False)], []),
    ([(["gone"], False), (["x"], True)], ["x"]),
    ([(["x"], True), (["gone"], False)], ["x"]),
    ([(["x"], True), (["gone"], False), (["y"], True)], ["x", "y"]),
], ids=["one row", "all invisible", "first invisible", "last invisible", "middle invisible"])
def test_a_range_ends_wherever_its_invisible_offsets_are(kafka, work, plan, want, limit):
    topic = kafka.topic()
    transact(kafka, topic, plan)
    done = work.run_ok(work.job(topic, PLACES, source={**COMMITTED, "maxOffsetsPerTrigger": limit}))
    assert values(work) == want
    assert done.progress()[-1]["sources"][0]["endOffset"] == {topic: {"0": kafka.watermarks(topic)[1]}}


def test_a_long_run_of_aborted_rows_ends_at_the_one_committed(kafka, work):
    topic = kafka.topic()
    transact(kafka, topic, [(["gone" * 20] * 50_000, False), (["kept"], True)])
    work.run_ok(work.job(topic, PLACES, source=COMMITTED))
    assert values(work) == ["kept"]


@pytest.mark.parametrize("level", ["read_uncommitted", None], ids=["read_uncommitted", "default"])
def test_aborted_rows_are_seen_unless_the_job_asks_for_committed_ones(kafka, work, level):
    topic = kafka.topic()
    transact(kafka, topic, [(["a"], True), (["aborted"], False)])
    work.run_ok(work.job(topic, PLACES, source={"kafka.isolation.level": level}))
    assert values(work) == ["a", "aborted"]


def test_an_open_transaction_is_not_read_until_it_ends(kafka, work):
    topic = kafka.topic()
    kafka.produce_values(topic, 0, ["before"])
    producer = kafka.transactional(f"tx-{topic}")
    producer.begin_transaction()
    producer.produce(topic, "held", partition=0)
    assert producer.flush(30) == 0
    kafka.produce_values(topic, 0, ["behind"])
    job = work.job(topic, PLACES, source=COMMITTED)
    work.run_ok(job)
    assert values(work) == ["before"], "rows behind an open transaction are not there yet"
    producer.commit_transaction(30)
    work.run_ok(job)
    assert values(work) == ["before", "held", "behind"]


def settle(kafka, topic, fewer_than):
    """Lets the log be compacted, and returns what is left when it no longer changes."""
    seen = []

    def look():
        if not seen or len(seen[-1]) >= fewer_than:
            kafka.produce(topic, [{"key": "k0", "value": "rolls the segment"}])
        seen.append(kafka.messages(topic))
        return len(seen) > 1 and seen[-1] == seen[-2] and len(seen[-1]) < fewer_than and seen[-1]

    return until(look, 40, f"{topic} to be compacted", every=0.5)


def test_a_compacted_topic_is_read_across_its_gaps(kafka, work):
    topic = kafka.topic(cleanup_policy="compact", segment_ms=100, min_cleanable_dirty_ratio=0.001,
                        max_compaction_lag_ms=100)
    job = work.job(topic, PLACES, source={"maxOffsetsPerTrigger": 7})
    got = []
    for phase in range(2):
        kafka.produce(topic, [{"key": f"k{n % 3}", "value": f"{phase}.{n}"} for n in range(60)])
        there = settle(kafka, topic, fewer_than=50)
        assert len(there) < there[-1][1] + 1, "nothing was compacted"
        work.run_ok(job)
        # What was read before it was compacted away stays read.
        got += [m for m in there if not got or m[1] > got[-1][1]]
        table = read_table(work.out).sort_by("offset").to_pylist()
        assert [(r["partition"], r["offset"], r["key"], r["value"]) for r in table] == got
