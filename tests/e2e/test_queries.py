# SPDX-License-Identifier: Apache-2.0
"""Several queries in one job file, on a real broker."""
import signal

from harness import assert_exactly_once, lua, read_table

HEAD = '''local mt = require "moontide"
local orders = mt.readStream:format "kafka":option("kafka.bootstrap.servers", %s):option("subscribe", %s)
  :option("startingOffsets", "earliest"):load():select("partition", "offset", "value")
local function table(name, frame)
  return frame.writeStream:format "parquet":option("path", name):option("checkpointLocation", name .. ".ck")
    :queryName(name):trigger { %s }
end
'''


def start(work, kafka, topic, queries, trigger="availableNow = true", *words, **more):
    text = HEAD % (lua(kafka.bootstrap), lua(topic), trigger) + "return {\n" + ",\n".join(queries) + "\n}\n"
    return work.start(text, *words, **more)


def rows(kafka, n=200):
    topic = kafka.topic()
    kafka.produce_values(topic, 0, [f"v{k}" for k in range(n)])
    return topic, {(0, k): f"v{k}" for k in range(n)}


EVEN = 'table("even", orders:filter(function(row) return row.offset % 2 == 0 end))'
ODD = 'table("odd", orders:filter(function(row) return row.offset % 2 == 1 end))'


def test_each_query_writes_its_own_table_from_its_own_checkpoint(work, kafka):
    topic, produced = rows(kafka)
    done = start(work, kafka, topic, [EVEN, ODD]).finish()
    assert done.code == 0, repr(done)
    assert sorted(p["name"] for p in done.progress()) == ["even", "odd"]
    for k, name in enumerate(["even", "odd"]):
        assert_exactly_once(read_table(work.dir / name), {at: v for at, v in produced.items() if at[1] % 2 == k})


def test_queries_that_are_killed_go_on_each_from_its_place(work, kafka):
    topic, produced = rows(kafka, 2000)
    slow = '''table("slow", orders:filter(function()
  local till = os.clock() + 1e-4
  while os.clock() < till do end
  return true
end))'''
    run = start(work, kafka, topic, [slow, EVEN], 'processingTime = "0 seconds"')
    run.wait_for(lambda r: len({p["name"] for p in r.progress()}) >= 1, what="a batch")
    run.kill()
    done = start(work, kafka, topic, [slow, EVEN]).finish()
    assert done.code == 0, repr(done)
    assert_exactly_once(read_table(work.dir / "slow"), produced)
    assert_exactly_once(read_table(work.dir / "even"), {at: v for at, v in produced.items() if at[1] % 2 == 0})


def test_one_that_fails_stops_the_others_after_their_batch(work, kafka):
    topic, produced = rows(kafka)
    bad = 'table("bad", orders:map("x INT", function(row) return { x = row.value } end))'
    done = start(work, kafka, topic, [EVEN, bad], 'processingTime = "100 milliseconds"').finish()
    assert done.code == 5, repr(done)
    assert "moontide: bad: batch 0: " in done.err and "bad failed: the other queries stop" in done.err
    done = start(work, kafka, topic, [EVEN, ODD]).finish()
    assert done.code == 0, repr(done)
    assert_exactly_once(read_table(work.dir / "even"), {at: v for at, v in produced.items() if at[1] % 2 == 0})


def test_a_signal_stops_all(work, kafka):
    topic, _ = rows(kafka)
    run = start(work, kafka, topic, [EVEN, ODD], 'processingTime = "100 milliseconds"')
    run.wait_for(lambda r: {p["name"] for p in r.progress()} == {"even", "odd"}, what="both")
    run.signal(signal.SIGINT)
    done = run.finish(20)
    assert done.code == 0, repr(done)


def test_people_see_names_and_a_reload_reaches_every_query(work, kafka):
    topic, _ = rows(kafka)
    run = start(work, kafka, topic, [EVEN, ODD], 'processingTime = "100 milliseconds"')
    run.wait_for(lambda r: {p["name"] for p in r.progress()} == {"even", "odd"}, what="both")
    (work.dir / "job.lua").write_text((work.dir / "job.lua").read_text().replace("% 2 == 1", "% 2 == 3 - 2"))
    run.wait_for(lambda r: r.err().count("takes over from") == 2, what="both take over")
    assert "[even] script " in run.err() and "[odd] script " in run.err()
    done = run.stop()
    assert done.code == 0, repr(done)
    kafka.produce_values(topic, 0, ["more"])
    plain = work.command("run", work.dir / "job.lua", "--once").finish()
    assert plain.code == 0 and "even: batch " in plain.out, repr(plain)


def test_the_memory_of_one_is_not_that_of_another(work, kafka):
    topic, _ = rows(kafka, 10)
    count = 'table("%s", orders:map("n INT", function(row) seen = (seen or 0) + 1 return { n = seen } end))'
    done = start(work, kafka, topic, [count % "a", count % "b"]).finish()
    assert done.code == 0, repr(done)
    for name in ("a", "b"):
        assert sorted(read_table(work.dir / name)["n"].to_pylist()) == list(range(1, 11))
