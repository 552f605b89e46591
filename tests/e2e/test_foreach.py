# SPDX-License-Identifier: Apache-2.0
"""foreachBatch on a real broker: one function, several tables, state beside them."""
import json
import re
from collections import Counter

import duckdb

from harness import SINK, lua, read_table, rows_of

SCRIPT = 4

JOB = '''local mt = require "moontide"
return mt.readStream:format "kafka"
  :option("kafka.bootstrap.servers", {brokers}):option("subscribe", {topic})
  :option("startingOffsets", "earliest"):option("maxOffsetsPerTrigger", 700):load()
  :fromJson("value", "n BIGINT, user STRING, amount DOUBLE", {{ keep = {{ "partition", "offset" }} }})
  .writeStream:foreachBatch(function(batch, id, state)
{body}
  end):option("checkpointLocation", {checkpoint}):trigger {{ availableNow = true }}
'''

TWO_TABLES = '''
    local big, small = batch:split(function(row) return (row.amount or 0) >= 50 end)
    big.write:format "parquet":partitionBy "user":save "big"
    small:drop "amount".write:format "parquet":save "small"
    batch:limit(1).write:format "console":save()
    for row in batch:rows() do state:put(row.user, (state:get(row.user) or 0) + 1) end
    local sum, amounts = 0, batch:column "amount"
    for i = 1, #amounts do sum = sum + (amounts[i] or 0) end
    state:put("sum", (state:get "sum" or 0) + sum)
    local read = 0
    for _, range in ipairs(batch:offsetRanges()) do read = read + range.untilOffset - range.fromOffset end
    assert(read == batch:count(), "rows of a batch are those of its offsets")
    for key, v in state:pairs() do print("state", key, v) end
'''


def job(work, topic, body):
    return JOB.format(brokers=lua(work.kafka.bootstrap), topic=lua(topic), checkpoint=lua(str(work.dir / "ck")), body=body)


def orders(first, n):
    return [{"n": i, "user": f"u{i % 7}", "amount": None if i % 5 == 0 else i % 100} for i in range(first, first + n)]


def produce(kafka, topic, rows):
    kafka.produce(topic, [{"value": json.dumps(row), "partition": row["n"] % 3} for row in rows])


def state_of(done):
    """The state that the last batch printed."""
    return {key: float(v) for key, v in re.findall(r"state\t(\w+)\t(\S+)", done.err)}


def test_two_tables_and_state_equal_a_recount_over_restarts(kafka, work):
    topic, rows = kafka.topic(3), []
    for first, n in (0, 2000), (2000, 1500):
        more = orders(first, n)
        rows += more
        produce(kafka, topic, more)
        done = work.run_ok(job(work, topic, TWO_TABLES))
        assert len(done.progress()) >= 3
        expected = Counter(row["user"] for row in rows)
        assert state_of(done) == {**expected, "sum": sum(row["amount"] or 0 for row in rows)}
    big = sorted((r["n"], float(r["amount"])) for r in rows if (r["amount"] or 0) >= 50)
    small = sorted((r["n"],) for r in rows if (r["amount"] or 0) < 50)
    assert rows_of(read_table(work.dir / "big"), "n", "amount") == big
    assert rows_of(read_table(work.dir / "small"), "n") == small
    assert "amount" not in read_table(work.dir / "small").column_names
    files = f"read_parquet('{work.dir}/big/*/*.parquet', hive_partitioning = true)"
    users = duckdb.sql(f'select "user", count(*) from {files} group by 1 order by 1').fetchall()
    assert users == sorted(Counter(r["user"] for r in rows if (r["amount"] or 0) >= 50).items())


def test_a_function_that_fails_names_its_line_and_batch_and_leaves_the_state_as_it_was(kafka, work):
    topic = kafka.topic(3)
    produce(kafka, topic, orders(0, 600))
    body = '''    state:put("seen", (state:get "seen" or 0) + batch:count())
    print("state", "seen", state:get "seen")
    batch.write:format "noop":save()
    if id == 0 and mt.conf("fails", "no") == "yes" then error "on purpose" end'''
    text = job(work, topic, body).replace('return mt', 'mt.conf("fails", "no")\nreturn mt', 1)
    failed = work.run(text, "--set", "fails=yes")
    assert failed.code == SCRIPT
    assert re.search(r"job\.lua:\d+: foreachBatch, batch 0: on purpose", failed.err), failed.err
    done = work.run_ok(text)
    assert state_of(done) == {"seen": 600.0}


def test_mistakes_of_a_save_are_told_at_their_lines(kafka, work):
    topic = kafka.topic(1)
    produce(kafka, topic, [dict(row, n=row["n"] * 3) for row in orders(0, 3)][:1])
    for call, words in (
            ('batch.write:format "parquet"\n:option("compresion", "zstd"):save "t"', r'job\.lua:8: .*compresion'),
            ('batch.write:format "parket":save "t"', r'job\.lua:7: .*parket'),
            ('batch.write:save()', r'job\.lua:7: .*needs a path'),
            ('batch:filter(function(row) return row.amount > 0 end)',
             r'job\.lua:7: filter at \S+\[0\]@0: amount is null here; write \(row\.amount or 0\) > 0')):
        failed = work.run(job(work, topic, call))
        assert failed.code != 0 and re.search(words, failed.err), (call, failed.err)


def test_a_batch_that_a_save_has_doomed_fails_with_that_save_and_its_line(kafka, work):
    topic = kafka.topic(3)
    produce(kafka, topic, orders(0, 3))
    body = """local ok = pcall(function()
    batch.write:format "parquet":save "/proc/nope"
  end)
  assert(not ok)
  batch.write:format "noop":save()"""
    failed = work.run(job(work, topic, body))
    assert failed.code == SINK and re.search(r"job\.lua:8: .*/proc/nope", failed.err), repr(failed)
    assert "job.lua:11" not in failed.err
