# SPDX-License-Identifier: Apache-2.0
"""One query over two topics, also on two brokers: each row once, whichever of them is behind, away
or killed."""
import random
import time

import pyarrow.compute as pc
import pytest

from harness import Kafka, Stream, assert_exactly_once, lua, read_table

JOB = '''local mt = require "moontide"
local function read(servers, topic)
  return mt.readStream:format "kafka":option("kafka.bootstrap.servers", servers):option("subscribe", topic)
    :option("startingOffsets", "earliest"):option("maxOffsetsPerTrigger", %d):load()
    :select("topic", "partition", "offset", "value")
end
local orders, returns = read(%s, %s), read(%s, %s)
return orders:filter(function(row) return row.offset %% 2 == 0 end)
  :union(returns):union(orders:filter(function(row) return row.offset %% 2 == 1 end))
  .writeStream:format "parquet":option("path", %s):option("checkpointLocation", %s):trigger { %s }
'''


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    broker = Kafka(tmp_path_factory.mktemp("other-kafka")).start()
    yield broker
    broker.stop(kill=True)


def job(work, orders, returns, trigger="availableNow = true", limit=1000):
    (one, one_topic), (two, two_topic) = orders, returns
    return JOB % (limit, lua(one.bootstrap), lua(one_topic), lua(two.bootstrap), lua(two_topic), lua(work.out),
                  lua(work.checkpoint), trigger)


def fill(kafka, n, partitions=1):
    topic = kafka.topic(partitions)
    for p in range(partitions):
        kafka.produce_values(topic, p, [f"{topic} {p} {k}" for k in range(n)])
    return topic, {(p, k): f"{topic} {p} {k}" for p in range(partitions) for k in range(n)}


def assert_both(table, produced):
    """produced: topic → (partition, offset) → text."""
    assert table.num_rows == sum(map(len, produced.values()))
    for topic, rows in produced.items():
        assert_exactly_once(table.filter(pc.equal(table["topic"], topic)), rows)


def test_rows_of_both_come_once_in_order_and_progress_tells_of_each(work, kafka):
    one, two = fill(kafka, 50), fill(kafka, 2500, 2)
    done = work.run_ok(job(work, (kafka, one[0]), (kafka, two[0])))
    assert_both(read_table(work.out), dict([one, two]))
    progress = done.progress()
    assert [[s["numInputRows"] for s in p["sources"]] for p in progress] == [
        [50, 1000], [0, 1000], [0, 1000], [0, 1000], [0, 1000]]
    first = read_table(work.out).filter(pc.equal(read_table(work.out)["topic"], one[0]))["offset"].to_pylist()
    assert first == [*range(0, 50, 2), *range(1, 50, 2)]


def test_kills_at_random_moments_lose_nothing_of_either(work, kafka, other):
    chance = random.Random(7)
    topics = [kafka.topic(2), other.topic(3)]
    streams = [Stream(kafka, topics[0], 2), Stream(other, topics[1], 3, 500)]
    text = job(work, (kafka, topics[0]), (other, topics[1]), 'processingTime = "0 seconds"', 100000)
    for stream in streams:
        stream.start()
    for _ in range(8):
        run = work.start(text)
        time.sleep(chance.uniform(0.1, 0.7))  # the moment itself is the test
        assert run.alive(), repr(run.done())
        run.kill()
    produced = {stream.topic: stream.stop() for stream in streams}
    work.run_ok(text, "--once")
    assert_both(read_table(work.out), produced)


def test_one_that_is_away_holds_the_batch_and_nothing_is_lost(work, kafka, other):
    one, two = fill(kafka, 30), fill(other, 40)
    text = job(work, (kafka, one[0]), (other, two[0]), 'processingTime = "0 seconds"')
    run = work.start(text)
    run.wait_batches(1)
    run.stop()
    other.stop(kill=True)
    kafka.produce_values(one[0], 0, [f"late {k}" for k in range(5)])
    run = work.start(text)
    run.wait_for(lambda r: "connection refused" in r.err().lower(), what="the broker that is away")
    assert run.progress() == []
    other.start()
    run.wait_for(lambda r: sum(p["numInputRows"] for p in r.progress()) >= 5, 60, what="the rows that waited")
    run.stop()
    one[1].update({(0, 30 + k): f"late {k}" for k in range(5)})
    assert_both(read_table(work.out), dict([one, two]))
