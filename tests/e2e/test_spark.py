# SPDX-License-Identifier: Apache-2.0
"""Real Spark reads our tables through their log: batches that wrote something, batches that
wrote nothing, and a second query on the same path."""
import json

import pytest

from harness import log_entries, read_table

STEPS = ''':fromJson("value", "n BIGINT, part STRING, amount DECIMAL(10,2), ts TIMESTAMP, day DATE, ok BOOLEAN",
  { keep = { "partition", "offset" } })
:filter(function(row) return row.part ~= nil end)'''
COLUMNS = ["n", "part", "amount", "ts", "day", "ok", "partition", "offset"]


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    from pyspark.sql import SparkSession
    place = tmp_path_factory.mktemp("spark")
    session = (SparkSession.builder.master("local[2]").appName("reader")
               .config("spark.ui.enabled", "false").config("spark.sql.session.timeZone", "UTC")
               .config("spark.driver.memory", "1g").config("spark.driver.bindAddress", "127.0.0.1")
               .config("spark.driver.host", "127.0.0.1").config("spark.local.dir", str(place))
               .config("spark.sql.warehouse.dir", str(place / "warehouse"))
               .config("spark.sql.shuffle.partitions", "2").getOrCreate())
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


def spark_rows(spark, out, columns=COLUMNS):
    frame = spark.read.parquet(str(out)).selectExpr(
        *["cast(ts as string) as ts" if c == "ts" else "cast(day as string) as day" if c == "day" else c for c in columns])
    return sorted(tuple(None if v is None else str(v) for v in row) for row in frame.collect())


def expected_rows(rows):
    def text(row, place):
        values = {**row, "partition": 0, "offset": place}
        values["ts"] = values["ts"].replace("T", " ").rstrip("Z")
        return tuple(None if values[c] is None else str(values[c]) for c in COLUMNS)
    return sorted(text(row, n) for n, row in enumerate(rows) if row["part"] is not None)


PARTS = ("eu", "us/west", "a b", "x=1", "50%", "ü:?*#", "%2F", "O'Hare", "tab\tnl\n", ".hidden", "_also")


def make_rows(n_rows):
    """Ten rows a batch; every third batch has none that the filter keeps."""
    return [{"n": n, "part": None if n // 10 % 3 == 2 else PARTS[n % len(PARTS)], "amount": f"{n}.25",
             "ts": f"2026-11-29T10:{n % 60:02d}:00.123456Z", "day": f"2026-{1 + n % 12:02d}-05", "ok": n % 2 == 0}
            for n in range(n_rows)]


def as_json(row):
    return json.dumps(row).replace(f'"{row["amount"]}"', row["amount"])


def test_spark_reads_thirty_batches_some_of_which_wrote_nothing(kafka, work, spark):
    topic, rows = kafka.topic(), make_rows(450)
    kafka.produce_values(topic, 0, [as_json(row) for row in rows])
    job = lambda **more: work.job(topic, STEPS, partition_by=["part"], source={"maxOffsetsPerTrigger": 10}, **more)
    done = work.run_ok(job())
    assert len(done.progress()) == 45 and sum(p["sink"]["numOutputRows"] == -1 for p in done.progress()) == 45
    assert max(log_entries(work.out)) == 29, "30 batches wrote something"
    assert spark_rows(spark, work.out) == expected_rows(rows)

    # A new checkpoint on the old path: refused, then allowed; Spark sees both queries' rows.
    second = work.dir / "ckpt2"
    refused = work.run(job(checkpoint=second))
    assert refused.code != 0 and done.progress()[0]["id"] in refused.err, repr(refused)
    assert spark_rows(spark, work.out) == expected_rows(rows)
    work.run_ok(job(checkpoint=work.dir / "ckpt3", sink={"allowOtherQueries": True}))
    assert spark_rows(spark, work.out) == sorted(expected_rows(rows) * 2)
    read_table(work.out)


def test_spark_sees_whole_batches_only_while_a_killed_one_lies_about(kafka, work, spark):
    topic, rows = kafka.topic(), make_rows(20)
    kafka.produce_values(topic, 0, [as_json(row) for row in rows])
    job = work.job(topic, STEPS, partition_by=["part"], source={"maxOffsetsPerTrigger": 10})
    assert work.run(job, kill="sink.written:1").code == -9
    assert spark_rows(spark, work.out) == expected_rows(rows[:10])
    work.run_ok(job)
    assert spark_rows(spark, work.out) == expected_rows(rows)


def test_spark_reads_a_table_whose_path_needs_escapes(kafka, work, spark):
    topic, rows = kafka.topic(), make_rows(20)
    kafka.produce_values(topic, 0, [as_json(row) for row in rows])
    work.out = work.dir / "a b%20c#ü+d" / "table"
    work.run_ok(work.job(topic, STEPS, partition_by=["part"]))
    read_table(work.out)
    assert spark_rows(spark, work.out) == expected_rows(rows)


def test_spark_reads_every_scalar_type_as_the_type_it_is(kafka, work, spark):
    topic = kafka.topic()
    kafka.produce_values(topic, 0, ['{"t":-128,"s":-32768,"i":7,"l":9223372036854775807,"f":0.25,"d":1e300,"c":12345.6789,'
                                    '"x":"naïve","y":"AAEC","day":"1582-10-15","ts":"1900-01-01T00:00:00.000001Z","b":true}',
                                    "{}"])
    ddl = "b BOOLEAN, t TINYINT, s SMALLINT, i INT, l BIGINT, f FLOAT, d DOUBLE, c DECIMAL(20,4), x STRING, y BINARY, " \
          "day DATE, ts TIMESTAMP"
    work.run_ok(work.job(topic, f':fromJson("value", "{ddl}")'))
    frame = spark.read.parquet(str(work.out))
    assert ", ".join(f"{f.name} {f.dataType.simpleString().upper()}" for f in frame.schema) == ddl
    texts = frame.where("i = 7").selectExpr("cast(l as string)", "cast(c as string)", "cast(day as string)",
                                            "cast(ts as string)", "hex(y)", "x").collect()
    assert tuple(texts[0]) == ("9223372036854775807", "12345.6789", "1582-10-15", "1900-01-01 00:00:00.000001", "000102",
                               "naïve")
    assert frame.where("i is null").count() == 1


NESTED_DDL = "n INT, a ARRAY<INT>, s STRUCT<x: INT, y: ARRAY<STRING>>, m MAP<STRING, STRUCT<p: DOUBLE, q: BOOLEAN>>, " \
             "l ARRAY<STRUCT<t: STRING, k: MAP<STRING, ARRAY<BIGINT>>>>"
NESTED = [
    {"n": 0, "a": [1, None], "s": {"x": 1, "y": ["u", None]}, "m": {"k": {"p": 0.5, "q": True}, "l": None},
     "l": [{"t": "v", "k": {"w": [1, None], "z": []}}, None]},
    {"n": 1, "a": [], "s": {"x": None, "y": []}, "m": {}, "l": []},
    {"n": 2, "a": None, "s": None, "m": None, "l": None},
    {"n": 3, "a": [None], "s": {"x": 3, "y": None}, "m": {"": {"p": None, "q": None}}, "l": [{"t": None, "k": None}, {"t": "", "k": {}}]},
]


def as_plain(value):
    """A value of Spark's as JSON has it."""
    if hasattr(value, "asDict"):
        return {k: as_plain(v) for k, v in value.asDict().items()}
    if isinstance(value, dict):
        return {k: as_plain(v) for k, v in value.items()}
    return [as_plain(v) for v in value] if isinstance(value, list) else value


def test_spark_reads_nested_values_as_they_were_and_as_its_own_from_json_has_them(kafka, work, spark):
    """Nulls and empty values at each level; documents that do not fit, as Spark takes them."""
    topic = kafka.topic()
    texts = [json.dumps(row) for row in NESTED] + [
        '{"n":4,"s":{"x":"wrong","y":["kept"]},"l":[{"t":{"as": "text"},"k":{"w":["wrong"]}}]}',
        '{"n":5,"a":["wrong",1],"m":{"k":{"p":1},"l":{"p":"wrong","q":true}}}',
        '{"n":6,"a":[1],"s":{"x":1,"y":["a"']
    kafka.produce_values(topic, 0, texts)
    work.run_ok(work.job(topic, f':fromJson("value", "{NESTED_DDL}")'))
    frame = spark.read.parquet(str(work.out))
    assert frame.schema.simpleString() == spark.createDataFrame([], NESTED_DDL).schema.simpleString()
    rows = [as_plain(row) for row in frame.collect()]
    by_n = lambda row: (row["n"] is None, row["n"])
    assert sorted(rows, key=by_n)[:4] == NESTED
    theirs = spark.createDataFrame([(t,) for t in texts], "t STRING").selectExpr(f"from_json(t, '{NESTED_DDL}') as d")
    assert sorted(rows, key=by_n) == sorted((as_plain(row) for row in theirs.select("d.*").collect()), key=by_n)


def test_spark_streams_from_our_table(kafka, work, spark):
    """Spark's own streaming file source follows the log batch by batch."""
    topic, rows = kafka.topic(), make_rows(30)
    kafka.produce_values(topic, 0, [as_json(row) for row in rows])
    work.run_ok(work.job(topic, STEPS, source={"maxOffsetsPerTrigger": 10}))
    schema = spark.read.parquet(str(work.out)).schema
    query = (spark.readStream.schema(schema).parquet(str(work.out)).writeStream.format("memory").queryName("follow")
             .option("checkpointLocation", str(work.dir / "follow")).trigger(availableNow=True).start())
    query.awaitTermination(60)
    assert spark.table("follow").count() == len(expected_rows(rows))
