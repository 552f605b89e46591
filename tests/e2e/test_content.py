# SPDX-License-Identifier: Apache-2.0
"""What goes in comes out: row for row, value for value, once."""
import base64
import datetime as dt
import decimal
import json

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness import ROOT, listed_files, log_entries, lua, read_table, rows_of

UTC = dt.timezone.utc
PLACES = 'select("partition", "offset", "value")'


def test_a_million_rows_come_out_equal_row_for_row(kafka, work):
    topic, rows, events = kafka.topic(4), 250_000, ("view", "purchase", "refund")
    expected = {"partition": [], "offset": [], "order_id": [], "event": [], "amount": [], "ts": []}
    for p in range(4):
        values = []
        for n in range(rows):
            amount = None if n % 7 == 0 else (n * 37 % 100_000) / 100
            micros = 1_767_225_600_000_000 + n * 1_234_567 + p
            values.append('{"order_id":%d,"event":"%s","amount":%s,"ts":"%s"}' % (
                n * 4 + p, events[n % 3], "null" if amount is None else amount,
                (dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=micros)).isoformat() + "Z"))
            expected["order_id"].append(n * 4 + p)
            expected["amount"].append(amount)
            expected["ts"].append(micros)
        expected["partition"] += [p] * rows
        expected["offset"] += range(rows)
        expected["event"] += [events[n % 3] for n in range(rows)]
        kafka.produce_values(topic, p, values)
    steps = ':fromJson("value", "order_id BIGINT, event STRING, amount DOUBLE, ts TIMESTAMP",' \
            ' { keep = { "partition", "offset" } })'
    done = work.run_ok(work.job(topic, steps, source={"maxOffsetsPerTrigger": 300_000}), seconds=120)
    assert [p["numInputRows"] for p in done.progress()] == [300_000, 300_000, 300_000, 100_000]
    want = pa.table(expected, schema=pa.schema([
        ("partition", pa.int32()), ("offset", pa.int64()), ("order_id", pa.int64()), ("event", pa.string()),
        ("amount", pa.float64()), ("ts", pa.timestamp("us", "UTC"))]))
    got = read_table(work.out).select(want.column_names).sort_by([("partition", "ascending"), ("offset", "ascending")])
    assert got.cast(want.schema).equals(want)

    db = duckdb.connect()
    db.register("want", want)
    db.execute(f"create view got as select * from read_parquet('{work.out}/*.parquet')")
    assert db.execute("select count(*) from got").fetchone() == (1_000_000,)
    columns = ", ".join(f'"{c}"' for c in want.column_names)
    left = f"select count(*) from (select {columns} from want except all select {columns} from got)"
    assert db.execute(left).fetchone() == (0,)


SCALARS = ("b BOOLEAN, t TINYINT, s SMALLINT, i INT, l BIGINT, f FLOAT, d DOUBLE, c DECIMAL(20,4), "
           "x STRING, y BINARY, day DATE, ts TIMESTAMP")
SCALAR_TYPES = {"b": pa.bool_(), "t": pa.int8(), "s": pa.int16(), "i": pa.int32(), "l": pa.int64(), "f": pa.float32(),
                "d": pa.float64(), "c": pa.decimal128(20, 4), "x": pa.string(), "y": pa.binary(), "day": pa.date32(),
                "ts": pa.timestamp("us", "UTC")}
LOW = {"b": False, "t": -128, "s": -32768, "i": -2147483648, "l": -9223372036854775808, "f": -1.5, "d": -1e-300,
       "c": decimal.Decimal("-9999999999999999.9999"), "x": "", "y": b"", "day": dt.date(1582, 10, 15),
       "ts": dt.datetime(1900, 1, 1, 0, 0, 0, 1, UTC)}
HIGH = {"b": True, "t": 127, "s": 32767, "i": 2147483647, "l": 9223372036854775807, "f": 0.25, "d": 1.7976931348623157e308,
        "c": decimal.Decimal("9999999999999999.9999"), "x": 'naïve "Zürich" \t 漢字 🦊', "y": bytes(range(256)),
        "day": dt.date(2999, 12, 31), "ts": dt.datetime(2100, 2, 28, 23, 59, 59, 999999, UTC)}


def as_json(row):
    def one(value):
        if isinstance(value, bytes):
            return json.dumps(base64.b64encode(value).decode())
        if isinstance(value, dt.datetime):
            return json.dumps(value.isoformat())
        if isinstance(value, dt.date):
            return json.dumps(value.isoformat())
        return str(value) if isinstance(value, decimal.Decimal) else json.dumps(value, ensure_ascii=False)
    return "{" + ",".join(f"{json.dumps(k)}:{one(v)}" for k, v in row.items()) + "}"


def test_every_scalar_type_keeps_its_edges_and_its_nulls(kafka, work):
    topic = kafka.topic()
    nulls = dict.fromkeys(LOW)
    kafka.produce_values(topic, 0, [as_json(LOW), as_json(HIGH), as_json(nulls), "{}"])
    work.run_ok(work.job(topic, f':fromJson("value", "{SCALARS}")'))
    table = read_table(work.out)
    assert {f.name: f.type for f in table.schema} == SCALAR_TYPES
    key = lambda row: str(row["i"])
    assert sorted(table.to_pylist(), key=key) == sorted([LOW, HIGH, nulls, nulls], key=key)


def test_rows_that_a_script_made_keep_their_types(kafka, work):
    topic = kafka.topic()
    kafka.produce_values(topic, 0, [as_json(LOW), as_json(HIGH), "{}"])
    steps = f''':fromJson("value", "{SCALARS}")
:map("{SCALARS}", function(row) return {{ {", ".join(f"{c} = row.{c}" for c in LOW)} }} end)'''
    work.run_ok(work.job(topic, steps))
    table = read_table(work.out)
    assert {f.name: f.type for f in table.schema} == SCALAR_TYPES
    key = lambda row: str(row["i"])
    assert sorted(table.to_pylist(), key=key) == sorted([LOW, HIGH, dict.fromkeys(LOW)], key=key)


def test_keys_values_and_headers_come_with_their_nulls(kafka, work):
    topic = kafka.topic()
    kafka.produce(topic, [
        {"key": b"k", "value": b"v", "headers": [("a", b"1"), ("a", None), ("", b"")], "timestamp": 1_700_000_000_123},
        {"key": None, "value": b"\x00\xff"},
        {"key": b"", "value": None},
        {"key": b"k", "value": b""},
    ])
    work.run_ok(work.job(topic, ':select("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")'))
    rows = read_table(work.out).sort_by("offset").to_pylist()
    assert [(r["key"], r["value"]) for r in rows] == [(b"k", b"v"), (None, b"\x00\xff"), (b"", None), (b"k", b"")]
    assert [(r["topic"], r["partition"], r["offset"], r["timestampType"]) for r in rows] == [
        (topic, 0, n, 0) for n in range(4)]
    assert rows[0]["timestamp"] == dt.datetime(2023, 11, 14, 22, 13, 20, 123000, UTC)


def test_headers_reach_a_script(kafka, work):
    topic = kafka.topic()
    kafka.produce(topic, [{"value": b"1", "headers": [("trace", b"abc"), ("n", None)]}, {"value": b"2"}])
    steps = ''':map("offset BIGINT, count INT, trace BINARY", function(row)
  local headers = row.headers
  return { offset = row.offset, count = headers and mt.len(headers) or nil,
           trace = headers and headers[1].value or nil }
end)'''
    work.run_ok(work.job(topic, steps, source={"includeHeaders": True}))
    assert read_table(work.out).sort_by("offset").to_pylist() == [
        {"offset": 0, "count": 2, "trace": b"abc"}, {"offset": 1, "count": None, "trace": None}]


def test_messages_of_a_megabyte_arrive_whole(kafka, work):
    topic = kafka.topic(2, max_message_bytes=2_000_000)
    values = [bytes([65 + n]) * (1_000_000 + n) for n in range(20)]
    kafka.produce(topic, [{"value": v, "partition": n % 2} for n, v in enumerate(values)])
    done = work.run_ok(work.job(topic, f":{PLACES}", source={"maxBatchBytes": "4m"}))
    assert len(done.progress()) > 2, "maxBatchBytes did not cut the batch"
    assert sorted(read_table(work.out)["value"].to_pylist()) == sorted(values)


def test_a_record_larger_than_max_batch_bytes_goes_alone(kafka, work):
    topic = kafka.topic()
    kafka.produce(topic, [{"value": b"x" * 900_000}, {"value": b"y"}])
    work.run_ok(work.job(topic, f":{PLACES}", source={"maxBatchBytes": "100k"}))
    assert [r["value"][:1] for r in read_table(work.out).sort_by("offset").to_pylist()] == [b"x", b"y"]


PLANS = json.loads((ROOT / "tests/data/spark-planned-offsets.json").read_text())


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: "+".join(plan["topics"]))
def test_max_offsets_per_trigger_splits_batches_as_spark_does(kafka, work, plan):
    names = {}
    for spark_name, counts in plan["topics"].items():
        names[spark_name] = kafka.topic(len(counts), name=f"{spark_name}-{work.dir.name}")
        for p, count in enumerate(counts):
            kafka.produce_values(names[spark_name], p, [b"%d" % n for n in range(count)])
    options = dict(plan["options"])
    if "startingOffsets" in options and options["startingOffsets"].startswith("{"):
        starts = json.loads(options["startingOffsets"])
        options["startingOffsets"] = json.dumps({names[t]: parts for t, parts in starts.items()})
    done = work.run_ok(work.job(",".join(names.values()), source=options, form="noop"))
    ends = [p["sources"][0]["endOffset"] for p in done.progress()]
    assert ends == [{names[t]: parts for t, parts in end.items()} for end in plan["ends"]]


def test_a_second_run_without_new_data_writes_nothing(kafka, work):
    topic = kafka.topic(2)
    kafka.produce_values(topic, 0, ["a", "b"])
    job = work.job(topic, f":{PLACES}")
    assert len(work.run_ok(job).progress()) == 1
    before = {p: p.stat().st_mtime_ns for p in work.out.rglob("*")}
    again = work.run_ok(job)
    assert again.out == ""
    assert {p: p.stat().st_mtime_ns for p in work.out.rglob("*")} == before


def test_available_now_ends_while_rows_keep_coming(kafka, work):
    topic = kafka.topic()
    kafka.produce_values(topic, 0, ["x" * 100] * 1000)
    job = work.job(topic, f":{PLACES}", source={"maxOffsetsPerTrigger": 100}, sink={})
    run = work.start(job)
    run.wait_batches(1)
    kafka.produce_values(topic, 0, ["late"] * 500)
    done = run.finish()
    assert done.code == 0
    assert [p["numInputRows"] for p in done.progress()] == [100] * 10
    assert read_table(work.out).num_rows == 1000
    work.run_ok(job)
    assert read_table(work.out).num_rows == 1500


def test_once_takes_all_there_is_in_one_batch(kafka, work):
    topic = kafka.topic()
    kafka.produce_values(topic, 0, ["x"] * 1000)
    done = work.run_ok(work.job(topic, f":{PLACES}", trigger="once = true", source={"maxOffsetsPerTrigger": 10}))
    assert [p["numInputRows"] for p in done.progress()] == [1000]


def test_rows_that_a_filter_drops_leave_no_file_and_no_log_entry(kafka, work):
    topic = kafka.topic()
    kafka.produce_values(topic, 0, ["x"] * 10)
    done = work.run_ok(work.job(topic, ":filter(function(row) return false end)"))
    assert [p["numInputRows"] for p in done.progress()] == [10]
    assert listed_files(work.out) == [] and log_entries(work.out) == {}


def test_partition_folders_carry_their_values(kafka, work):
    topic = kafka.topic()
    parts = ["a", "b c", "x=y/z", "100%", "ü", None, ""]
    kafka.produce_values(topic, 0, [json.dumps({"part": p, "n": n}) for n, p in enumerate(parts)])
    work.run_ok(work.job(topic, ':fromJson("value", "part STRING, n INT")', partition_by=["part"]))
    read = read_table(work.out)
    # Hive's folders cannot tell null from an empty text: both are the default partition.
    assert rows_of(read, "n", "part") == [(n, p or None) for n, p in enumerate(parts)]


def test_files_say_where_their_rows_came_from(kafka, work):
    topic = kafka.topic()
    kafka.produce_values(topic, 0, ["x"] * 3)
    progress = work.run_ok(work.job(topic, f":{PLACES}")).progress()[0]
    footer = pq.ParquetFile(read_table(work.out) and listed_files(work.out)[0]).metadata.metadata
    text = b" ".join(k + b"=" + v for k, v in footer.items()).decode(errors="replace")
    assert progress["id"] in text and topic in text
    (line,) = log_entries(work.out)[0]
    assert line["moontide"]["query"] == progress["id"] and line["moontide"]["batch"] == 0
    assert line["moontide"]["rows"] == 3


def test_malformed_records_go_as_the_mode_says(kafka, work):
    topic = kafka.topic()
    bad = ['{"a":1', '{"a":"text"}', "[1]", '{"a":1,"skipped":tru}']
    kafka.produce_values(topic, 0, ['{"a":1}', *bad, '{"a":2}'])
    ddl = '"a INT, _corrupt_record STRING"'
    work.run_ok(work.job(topic, f':fromJson("value", {ddl}, {{ keep = {{ "offset" }} }})'))
    rows = read_table(work.out).sort_by("offset").to_pylist()
    assert [r["a"] for r in rows] == [1, None, None, None, None, 2]
    assert [r["_corrupt_record"] for r in rows] == [None, *bad, None]

    work.out, work.checkpoint = work.dir / "dropped", work.dir / "dropped.ckpt"
    work.run_ok(work.job(topic, ':fromJson("value", "a INT", { mode = "DROPMALFORMED" })'))
    assert sorted(read_table(work.out)["a"].to_pylist()) == [1, 2]


def test_records_that_cannot_be_read_go_to_a_table_of_their_own_as_they_came(kafka, work):
    """The others are not held up, and nothing that Kafka had of a bad one is lost."""
    topic = kafka.topic(2)
    good = [{"value": '{"a":%d}' % n, "key": f"k{n}", "partition": n % 2} for n in range(20)]
    bad = [b'{"a":1', b'{"a":"text"}', b"\xc1\xff\x00", b"", b'{"a":1}{"a":2}', b"[1,2]"]
    headers = [("source", b"\x00\xff"), ("source", None)]
    spoilt = [{"value": value, "key": b"\xfe" + value, "partition": n % 2, "headers": headers, "timestamp": 1700000000000 + n}
              for n, value in enumerate(bad)]
    kafka.produce(topic, [*good[:10], *spoilt, *good[10:]])
    each = f"""
local keep = {{ "key", "value", "headers", "topic", "partition", "offset", "timestamp" }}
local read = batch:fromJson("value", "a INT, _corrupt_record STRING", {{ keep = keep }})
local spoilt, fine = read:split(function(row) return row._corrupt_record ~= nil or row.a == nil end)
spoilt:drop("a", "_corrupt_record").write:format "parquet":save {lua(work.dir / "spoilt")}
fine:select("a", "partition", "offset").write:format "parquet":save {lua(work.out)}
state:put("spoilt", (state:get "spoilt" or 0) + spoilt:count())"""
    job = work.job(topic, each=each, source={"includeHeaders": True, "maxOffsetsPerTrigger": 7})
    killed = work.run(job, kill="sink.committed:1")  # one table holds the batch, the other does not
    assert killed.code == -9, repr(killed)
    work.run_ok(job)
    assert sorted(read_table(work.out)["a"].to_pylist()) == list(range(20))
    rows = {row["value"]: row for row in read_table(work.dir / "spoilt").to_pylist()}
    assert sorted(rows) == sorted(bad) and read_table(work.dir / "spoilt").num_rows == len(bad)
    stored = {(p, offset): (key, value) for p, offset, key, value in kafka.messages(topic)}
    for n, value in enumerate(bad):
        row = rows[value]
        assert stored[row["partition"], row["offset"]] == (row["key"], value) and row["topic"] == topic
        assert [tuple(header.values()) for header in row["headers"]] == headers
        assert row["timestamp"].timestamp() * 1000 == pytest.approx(1700000000000 + n, abs=0.01)


def test_the_orders_job_of_the_repository_writes_the_paid_orders_by_day(kafka, work):
    topic = kafka.topic(2)
    orders = [{"order_id": n, "user_id": f"u{n % 5}", "event": ("purchase", "view")[n % 2], "amount": n - 10,
               "ts": f"2026-11-{1 + n % 3:02d}T10:00:00Z"} for n in range(40)]
    kafka.produce(topic, [{"value": json.dumps(o), "partition": o["order_id"] % 2} for o in orders])
    done = work.command("run", ROOT / "jobs/orders_to_parquet.lua", "--once", "--set", f"brokers={kafka.bootstrap}",
                        "--set", f"topic={topic}", "--set", f"out={work.out}").finish()
    assert done.code == 0, repr(done)
    paid = [o for o in orders if o["event"] == "purchase" and o["amount"] > 0]
    table = read_table(work.out)
    assert rows_of(table, "order_id", "user_id", "amount") == sorted(
        (o["order_id"], o["user_id"], float(o["amount"])) for o in paid)
    assert {str(d) for d in table["date"].to_pylist()} == {o["ts"][:10] for o in paid}


# ---- through Lua: values that others lost on the way

PASSED = [
    '{"id":1234567890123456789,"v":69.01,"s":"\\ud83e\\udd17","list":[1,null,"w"]}',
    '{"id":228930314431312345,"v":1e21,"s":"ab\\u0000cd","list":[]}',
    '{"id":-9223372036854775808,"v":5e-324,"s":"{}{}","list":[null]}',
    '{"id":9223372036854775807,"v":-0.0,"s":"","list":[1.5,{"a":[],"b":{}}]}',
    '{"id":1549661409000,"v":1.0,"s":null,"list":null}',
]
SPOILT = ['{"a"="b"}', '{"id":1}{"id":2}', b'{"s":"\xc1"}', '{"v":NaN}', '\0']


def test_values_go_through_a_foreach_batch_as_they_came(work, kafka):
    topic = kafka.topic()
    kafka.produce_values(topic, 0, [*PASSED, *SPOILT])
    each = f"""
batch:fromJson("value", "id BIGINT, v DOUBLE, s STRING, _corrupt_record STRING", {{ keep = {{ "offset", "value" }} }})
  :map("offset BIGINT, id BIGINT, next BOOLEAN, v DOUBLE, s STRING, again STRING, bad STRING", function(row)
    local ok, decoded = pcall(mt.json.decode, row.value)
    return {{ offset = row.offset, id = row.id, next = row.id and row.id - 1LL < row.id, v = row.v, s = row.s,
      again = ok and mt.json.encode(decoded) or nil, bad = row._corrupt_record }}
  end).write:format "parquet":save {lua(work.out)}"""
    work.run_ok(work.job(topic, each=each))
    table = {row["offset"]: row for row in read_table(work.out).to_pylist()}
    assert len(table) == len(PASSED) + len(SPOILT)
    for n, text in enumerate(PASSED):
        value, row = json.loads(text), table[n]
        assert (row["id"], repr(row["v"]), row["s"]) == (value["id"], repr(value["v"]), value["s"]), text
        assert row["bad"] is None and row["next"] == (value["id"] != -2**63), "it wraps as 64 bits do"
        assert json.loads(row["again"]) == value and str(value["id"]) in row["again"], row["again"]
    for n, text in enumerate(SPOILT, len(PASSED)):
        shown = text if isinstance(text, str) else text.decode(errors="replace")
        assert table[n] == {**dict.fromkeys(table[n]), "offset": n, "bad": shown}
