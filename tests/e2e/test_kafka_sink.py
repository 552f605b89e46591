# SPDX-License-Identifier: Apache-2.0
"""Topic to topic: every record once for a reader of committed ones, whatever happens between."""
import json
import os
import random
import re
import shutil
import time
from collections import Counter

import pytest
from confluent_kafka import Consumer, TopicPartition

from harness import (CHECKPOINT, DATA, JOB, KAFKA_KILL_STEPS, LONG, ONCE_STEPS, SINK, Kafka, Stream, kafka_job, lua, quiet,
                     until)

SIGKILLED = -9
PLACES = ''':select("value")
:withColumn("key", "STRING", function() return "k" end)'''


def copy_job(work, origin, target, steps=':select("key", "value", "partition")', kafka=None, sink=None, **more):
    kafka = kafka or work.kafka
    return work.job(origin, steps, form="kafka", kafka=kafka,
                    sink={"kafka.bootstrap.servers": kafka.bootstrap, "topic": target, "path": None, **(sink or {})}, **more)


def values_of(kafka, topic):
    return [value for *_, value in kafka.messages(topic, isolation="read_committed")]


def records_of(kafka, topic):
    """(partition, key, value, headers) of committed records."""
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": "reader", "enable.partition.eof": True,
                         "isolation.level": "read_committed"}, logger=quiet)
    partitions = consumer.list_topics(topic, timeout=10).topics[topic].partitions
    consumer.assign([TopicPartition(topic, p, 0) for p in partitions])
    found, left = [], len(partitions)
    while left:
        message = consumer.poll(10)
        assert message is not None, f"no end of {topic}"
        if message.error():
            left -= 1
        else:
            found.append((message.partition(), message.key(), message.value(), message.headers()))
    consumer.close()
    return found


def assert_once(kafka, topic, produced):
    """produced: the values, each of them another."""
    counts = Counter(values_of(kafka, topic))
    doubled, missing = [v for v, n in counts.items() if n > 1], set(produced) - set(counts)
    assert not doubled and not missing and len(counts) == len(produced), (
        f"{len(doubled)} doubled: {doubled[:3]}, {len(missing)} missing: {sorted(missing)[:3]}, "
        f"{len(counts) - len(set(produced) & set(counts))} not produced")


def fill(kafka, partitions=2, rows=26):
    topic, values = kafka.topic(partitions), []
    for p in range(partitions):
        mine = [f'{{"p":{p},"n":{n}}}' for n in range(rows)]
        kafka.produce_values(topic, p, mine)
        values += mine
    return topic, [v.encode() for v in values]


def once_job(work, origin, target, **more):
    """Thirteen batches."""
    return copy_job(work, origin, target, source={"maxOffsetsPerTrigger": 4}, **more)


# ---- what is written


def test_a_topic_is_copied_record_by_record_and_a_second_run_adds_nothing(kafka, work):
    source, produced = fill(kafka)
    target = kafka.topic(2)
    job = copy_job(work, source, target)
    done = work.run_ok(job)
    assert sum(p["sink"]["numOutputRows"] for p in done.progress()) == len(produced)
    assert_once(kafka, target, produced)
    assert [r[:2] for r in records_of(kafka, target)].count((0, None)) == 26
    work.run_ok(job)
    assert_once(kafka, target, produced)


EDGES = [
    {"value": None, "key": None},
    {"value": b"", "key": b""},
    {"value": b"\x00\xff", "key": "k\x00y".encode(), "headers": [("a", b"1"), ("a", b"2"), ("none", None), ("bin", b"\x00\xfe")]},
    {"value": "null", "key": None, "headers": [("empty", b"")]},
]


def test_null_and_empty_keys_values_and_headers_come_through_as_they_are(kafka, work):
    source, target = kafka.topic(1), kafka.topic(1)
    kafka.produce(source, [{**edge, "partition": 0} for edge in EDGES])
    work.run_ok(copy_job(work, source, target, ':select("key", "value", "headers")', source={"includeHeaders": True}))
    assert records_of(kafka, target) == records_of(kafka, source)


def test_include_headers_false_leaves_the_column_out(kafka, work):
    source, target = kafka.topic(1), kafka.topic(1)
    kafka.produce(source, [{**EDGES[2], "partition": 0}])
    work.run_ok(copy_job(work, source, target, ':select("key", "value", "headers")', source={"includeHeaders": True},
                         sink={"includeHeaders": False}))
    assert records_of(kafka, target) == [(0, EDGES[2]["key"], EDGES[2]["value"], None)]


def test_the_topic_comes_from_the_row_and_the_option_overrides_it(kafka, work):
    source, a, b = kafka.topic(1), kafka.topic(1), kafka.topic(1)
    kafka.produce_values(source, 0, ["1", "2", "3", "4"])
    steps = f''':select("value", "offset")
:withColumn("topic", "STRING", function(row) return row.offset % 2 == 0 and {lua(a)} or {lua(b)} end)'''
    work.run_ok(copy_job(work, source, None, steps))
    assert (values_of(kafka, a), values_of(kafka, b)) == ([b"1", b"3"], [b"2", b"4"])
    work.checkpoint = work.dir / "again"
    work.run_ok(copy_job(work, source, b, steps))
    assert sorted(values_of(kafka, b)) == [b"1", b"2", b"2", b"3", b"4", b"4"]


def test_a_key_goes_to_the_partition_where_java_s_producers_put_it(kafka, work):
    source, target, like_java = kafka.topic(1), kafka.topic(8), kafka.topic(8)
    keys = [f"user{n}" for n in range(50)]
    kafka.produce(source, [{"key": k, "value": k, "partition": 0} for k in keys])
    producer = kafka.transactional(f"java-{os.getpid()}", partitioner="murmur2_random")
    producer.begin_transaction()
    for k in keys:
        producer.produce(like_java, k, k)
    producer.commit_transaction(30)
    work.run_ok(copy_job(work, source, target, ':select("key", "value")'))
    assert Counter(records_of(kafka, target)) == Counter(records_of(kafka, like_java))


def test_provenance_headers_name_query_sink_batch_and_digest(kafka, work):
    source, produced = fill(kafka, 1, 8)
    target = kafka.topic(1)
    done = work.run_ok(once_job(work, source, target, sink={"provenanceHeaders": True}))
    seen = [dict(headers) for *_, headers in records_of(kafka, target)]
    assert [int(h["moontide.batch"]) for h in seen] == [0] * 4 + [1] * 4
    assert {h["moontide.query"].decode() for h in seen} == {done.progress()[0]["id"]}
    assert {h["moontide.sink"].decode() for h in seen} == {f"kafka {target}#1"}
    assert all(re.fullmatch(b"[0-9a-f]{64}", h["moontide.digest"]) for h in seen)


# ---- what is refused


REFUSED = [
    (':select("key")', {}, "Required attribute 'value' not found"),
    (':select("value")', {"topic": None}, "topic option required when no 'topic' attribute is present"),
    (':select("value"):withColumn("key", "BIGINT", function() return 1 end)', {}, "key attribute type must be a STRING or BINARY"),
    (':select("value", "offset"):withColumn("partition", "STRING", function() return "1" end)', {}, "partition attribute type must be a INT"),
    (':select("value"):withColumn("headers", "STRING", function() return "1" end)', {}, "headers attribute type must be a ARRAY"),
    (':select("value")', {"kafka.enable.idempotence": False}, "a transaction needs an idempotent producer"),
    (':select("value")', {"kafka.acks": 1}, "at-least-once"),
    (':select("value")', {"kafka.transactional.id": "mine"}, "the sink makes its own"),
    (':select("value")', {"kafka.key.serializer": "x"}, "written as they are"),
    (':select("value")', {"kafka.compresion.type": "lz4"}, 'did you mean "kafka.compression.type"?'),
    (':select("value")', {"delivery": "twice"}, "exactly-once"),
    (':select("value")', {"topics": "x"}, 'did you mean "topic"?'),
]


@pytest.mark.parametrize("steps, sink, words", REFUSED, ids=[words for *_, words in REFUSED])
def test_what_cannot_be_is_refused_when_the_job_is_declared(work, steps, sink, words):
    done = work.run(copy_job(work, "t", "u", steps, sink=sink))
    assert done.code == JOB and words in done.err, repr(done)


def test_check_names_the_guarantee_and_what_readers_need(kafka, work):
    (work.dir / "job.lua").write_text(copy_job(work, "t", "u"))
    told = work.command("check", work.dir / "job.lua").finish()
    assert told.code == 0 and "kafka, exactly once" in told.out and "isolation.level=read_committed" in told.out, repr(told)
    (work.dir / "job.lua").write_text(copy_job(work, "t", "u", sink={"delivery": "at-least-once"}))
    told = work.command("check", work.dir / "job.lua").finish()
    assert told.code == 0 and "kafka, at least once" in told.out and "read_committed" not in told.out, repr(told)


def test_a_record_that_is_too_large_is_named_and_nothing_is_stored(kafka, work):
    source, target = kafka.topic(1), kafka.topic(1, max_message_bytes=20000)
    kafka.produce(source, [{"key": f"k{n}", "value": "x" * (30000 if n == 7 else 10), "partition": 0} for n in range(10)])
    done = work.run(copy_job(work, source, target))
    assert done.code == DATA, repr(done)
    assert f'topic {target}[0], key "k7" ({source}[0]@7)' in done.err and "30002 bytes" in done.err, done.err
    assert values_of(kafka, target) == []
    done = work.run(copy_job(work, source, target, sink={"kafka.message.max.bytes": 5000}))
    assert done.code == DATA and f"({source}[0]@7)" in done.err and "kafka.message.max.bytes = 5000" in done.err, repr(done)


def test_a_partition_that_is_none_and_a_null_topic_name_their_row(kafka, work):
    source, target = kafka.topic(1), kafka.topic(1)
    kafka.produce_values(source, 0, ["1", "2", "3"])
    for column in '"partition", "INT", function(row) return row.offset == 2 and 5 or 0 end', \
                  '"partition", "INT", function(row) return row.offset == 2 and -1 or 0 end':
        done = work.run(copy_job(work, source, target, f':select("value", "offset"):withColumn({column})'))
        assert done.code == DATA and f"{source}[0]@2" in done.err and "partition" in done.err, repr(done)
    topics = f'"topic", "STRING", function(row) if row.offset ~= 2 then return {lua(target)} end end'
    work.checkpoint = work.dir / "topics"
    done = work.run(copy_job(work, source, None, f':select("value", "offset"):withColumn({topics})'))
    assert done.code == DATA and f"{source}[0]@2: null topic present in the data" in done.err, repr(done)
    assert values_of(kafka, target) == []


# ---- killed


@pytest.fixture(scope="module")
def filled(kafka):
    return fill(kafka)


KILLS = [s for s in KAFKA_KILL_STEPS if s != "store.calls" and not s.startswith("calls.")]
FIRST_KILLS = [None, "sink.written:2", "kafka.marked:2", "sink.committed:2"]


@pytest.mark.parametrize("step", KILLS)
def test_a_kill_at_this_step_is_recovered_from(kafka, work, filled, step):
    source, produced = filled
    reached = 0
    for n, first in enumerate(FIRST_KILLS):
        target, work.checkpoint = kafka.topic(2), work.dir / f"c{n}"
        job = once_job(work, source, target)
        if first and work.run(job, kill=first).code != SIGKILLED:
            continue
        for _ in range(3):  # again in the recovery, and again
            killed = work.run(job, kill=step)
            assert killed.code in (0, SIGKILLED), repr(killed)
            reached += killed.code == SIGKILLED
        work.run_ok(job)
        assert_once(kafka, target, produced)
        if reached:
            break
    assert reached, f"no run came by {step}"


def test_twenty_kills_at_random_moments_lose_nothing_and_double_nothing(kafka, work):
    seed = int(os.environ.get("MOONTIDE_SEED") or random.randrange(1 << 32))
    print(f"MOONTIDE_SEED={seed}")
    chance, kills = random.Random(seed), 100 if LONG else 20
    source, target = kafka.topic(3), kafka.topic(2)
    job = copy_job(work, source, target, ':select("value")', trigger=None)
    stream = Stream(kafka, source, 3)
    stream.start()
    batches = 0
    for kill in range(kills):
        run = work.start(job)
        time.sleep(chance.uniform(0.05, 1.0))  # the moment itself is the test
        assert run.alive(), f"kill {kill}, seed {seed}: {run.done()!r}"
        run.kill()
        batches += len(run.progress())
    produced = stream.stop()
    work.run_ok(job, "--once")
    assert_once(kafka, target, [v.encode() for v in produced.values()])
    assert batches > kills, f"{batches} batches in {kills} runs: the kills came before any work"


# ---- several saves


def save(kafka, topic, more=""):
    return (f'batch.write:format "kafka":option("kafka.bootstrap.servers", {lua(kafka.bootstrap)})'
            f':option("topic", {lua(topic)}){more}:save()')


def each_job(work, origin, body, kafka=None, **more):
    return work.job(origin, ':select("value")', each=body, source={"maxOffsetsPerTrigger": 4}, **more)


@pytest.mark.parametrize("step", ["calls.after:2#2", "kafka.marked:2#2", "sink.committed:2", "sink.committed:2#2", "commit.before:2"])
def test_two_saves_to_one_topic_are_two_sinks_and_a_crash_between_them_doubles_neither(kafka, work, filled, step):
    source, produced = filled
    target = kafka.topic(1)
    job = each_job(work, source, save(kafka, target) + "\n" + save(kafka, target))
    assert work.run(job, kill=step).code == SIGKILLED
    work.run_ok(job)
    assert Counter(values_of(kafka, target)) == Counter({v: 2 for v in produced})


def test_saves_under_a_condition_and_in_another_order_keep_their_names(kafka, work, filled):
    source, produced = filled
    a, b = kafka.topic(1), kafka.topic(1)
    body = f'''local function first() {save(kafka, a)} end
if id % 3 == 2 then first() end
if id % 2 == 0 then {save(kafka, b)} end
if id % 3 ~= 2 then first() end'''
    job = each_job(work, source, body)
    for step in "sink.committed:2", "sink.committed:4", "kafka.committed:7", "kafka.marked:8#2":
        assert work.run(job, kill=step).code == SIGKILLED
    work.run_ok(job)
    assert_once(kafka, a, produced)
    counts = Counter(values_of(kafka, b))
    assert set(counts.values()) == {1} and len(counts) == 7 * 4


# ---- owners


def test_a_copied_checkpoint_beside_its_original_is_stopped_with_words(kafka, work):
    source, target = kafka.topic(1), kafka.topic(1)
    kafka.produce_values(source, 0, ["1"])
    first = work.start(copy_job(work, source, target, trigger=None))
    first.wait_batches(1)
    shutil.copytree(work.checkpoint, work.dir / "copy")
    other = work.start(copy_job(work, source, target, trigger=None, checkpoint=work.dir / "copy"), name="other.lua")
    other.wait_for(lambda run: "transactional" in run.err() or not time.sleep(1.5), 10)
    ended, n = [], 1
    while not ended and n < 40:
        n += 1
        kafka.produce_values(source, 0, [str(n)])
        time.sleep(0.2)  # both go on meanwhile
        ended = [run for run in (first, other) if not run.alive()]
    assert ended, "both went on"
    for run in ended:
        done = run.done()
        assert done.code == CHECKPOINT and "two processes run it" in done.err or "a second process runs this query" in done.err, repr(done)
    survivor = [run for run in (first, other) if run not in ended]
    for run in survivor:
        run.stop()
    assert max(Counter(values_of(kafka, target)).values()) == 1


def test_an_older_checkpoint_is_told_by_the_marker(kafka, work, filled):
    source, _ = filled
    target = kafka.topic(1)
    job = once_job(work, source, target, steps=':select("value")')
    work.run_ok(job, "--max-batches", "3")
    shutil.copytree(work.checkpoint, work.dir / "old")
    work.run_ok(job, "--max-batches", "2")
    shutil.rmtree(work.checkpoint)
    (work.dir / "old").rename(work.checkpoint)
    done = work.run(job)
    assert done.code == CHECKPOINT and "holds batch 4 already" in done.err and "older than the destination" in done.err, repr(done)


# ---- at least once


def test_at_least_once_writes_without_a_transaction_and_again_after_a_crash(kafka, work, filled):
    source, produced = filled
    target = kafka.topic(2)
    job = once_job(work, source, target, sink={"delivery": "at-least-once", "kafka.acks": "1", "kafka.enable.idempotence": False})
    assert work.run(job, kill="sink.committed:2").code == SIGKILLED
    work.run_ok(job)
    counts = Counter(v for *_, v in kafka.messages(target))
    assert set(counts) == set(produced) and sorted(counts.values())[-5:] == [1, 2, 2, 2, 2]
