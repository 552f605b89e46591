# SPDX-License-Identifier: Apache-2.0
"""Tables that others wrote, read as they are."""
import datetime
import json
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq

from harness import DATA, JOB

SHOW = """
local mt = require "moontide"
local df = mt.read:format "parquet":load(...)
print(mt.str(df.schema))
for row in df:rows() do print(mt.json.encode(row)) end
"""


def read(work, path, script=SHOW):
    (work.dir / "script.lua").write_text(script)
    return work.command("lua", "script.lua", path).finish(60)


def rows_of(done):
    assert done.code == 0, repr(done)
    schema, *lines = done.out.splitlines()
    return schema, [json.loads(line, parse_float=Decimal) for line in lines]


def test_types_of_other_writers_become_those_that_spark_makes_of_them(work):
    at = datetime.datetime(2026, 11, 30, 10, 0, 0, 123000)
    columns = {
        "u8": pa.array([200, None], pa.uint8()), "u32": pa.array([4_000_000_000, None], pa.uint32()),
        "u64": pa.array([2**64 - 1, None], pa.uint64()),
        "ms": pa.array([at, None], pa.timestamp("ms")), "ns": pa.array([at, None], pa.timestamp("ns", "UTC")),
        "word": pa.array(["a", None]).dictionary_encode(), "big": pa.array(["ü", None], pa.large_string()),
        "price": pa.array([Decimal("12345678901234567890.12"), None], pa.decimal128(22, 2)),
        "day": pa.array([at.date(), None], pa.date32()), "id": pa.array([2**63 - 1, None], pa.int64()),
        "tags": pa.array([["x", None], None], pa.list_(pa.string())),
        "of": pa.array([{"a": 1, "b": [{"c": True}]}, None], pa.struct({"a": pa.int8(), "b": pa.list_(
            pa.struct({"c": pa.bool_()}))})),
        "m": pa.array([[("k", 1.5)], None], pa.map_(pa.string(), pa.float64())),
    }
    pq.write_table(pa.table(columns), work.dir / "t.parquet")
    schema, rows = rows_of(read(work, "t.parquet"))
    assert schema == ("u8 SMALLINT, u32 BIGINT, u64 DECIMAL(20,0), ms TIMESTAMP, ns TIMESTAMP, word STRING, big STRING, "
                      "price DECIMAL(22,2), day DATE, id BIGINT, tags ARRAY<STRING>, of STRUCT<a: TINYINT, b: "
                      "ARRAY<STRUCT<c: BOOLEAN>>>, m MAP<STRING, DOUBLE>")
    micros = 1_796_032_800_123_000
    assert rows[0] == {"u8": 200, "u32": 4_000_000_000, "u64": 2**64 - 1, "ms": micros, "ns": micros, "word": "a",
                       "big": "ü", "price": Decimal("12345678901234567890.12"), "day": "2026-11-30", "id": 2**63 - 1,
                       "tags": ["x", None], "of": {"a": 1, "b": [{"c": True}]}, "m": {"k": Decimal("1.5")}}
    assert set(rows[1].values()) <= {None}


def test_a_value_that_would_be_another_is_refused(work):
    pq.write_table(pa.table({"t": pa.array([1_700_000_000_000_000_001], pa.timestamp("ns"))}), work.dir / "t.parquet")
    done = read(work, "t.parquet")
    assert done.code == DATA and 'column "t"' in done.err and "t.parquet" in done.err, repr(done)
    pq.write_table(pa.table({"t": pa.array([1], pa.time64("us"))}), work.dir / "t.parquet")
    done = read(work, "t.parquet")
    assert done.code in (DATA, JOB) and 'column "t": it is time64' in done.err, repr(done)


def test_folders_are_columns_and_what_a_file_lacks_is_null(work):
    for n, (folder, table) in enumerate({
            "day=2026-11-30/kind=a%2Fb": {"id": [1], "name": ["x"]}, "day=2026-12-01/kind=__HIVE_DEFAULT_PARTITION__":
            {"name": ["y"]}, "day=2026-12-01/kind=7": {"id": [3], "more": [1.5], "name": ["z"]}}.items()):
        (work.dir / "t" / folder).mkdir(parents=True)
        pq.write_table(pa.table(table), work.dir / "t" / folder / f"part-{n}.parquet")
    (work.dir / "t/_SUCCESS").touch()
    (work.dir / "t/.part-9.parquet.tmp").write_text("nothing")
    schema, rows = rows_of(read(work, "t"))
    assert schema == "id BIGINT, name STRING, day DATE, kind STRING"
    assert sorted((row["name"], row.get("id"), row["day"], row.get("kind")) for row in rows) == [
        ("x", 1, "2026-11-30", "a/b"), ("y", None, "2026-12-01", None), ("z", 3, "2026-12-01", "7")]
    pq.write_table(pa.table({"id": ["text"], "name": ["w"]}), work.dir / "t/day=2026-12-01/kind=7/part-9.parquet")
    done = read(work, "t")
    assert 'column "id" is STRING here and BIGINT in the table\'s first file' in done.err, repr(done)


def test_a_large_table_is_read_a_part_at_a_time(work):
    n = 3_000_000
    table = pa.table({"id": pa.array(range(n)), "text": pa.array([f"a longer text of row {i}" for i in range(n)])})
    pq.write_table(table, work.dir / "t.parquet", row_group_size=200_000)
    del table
    done = read(work, "t.parquet", """
local mt = require "moontide"
local df = mt.read:load(...):filter(function(row) return row.id % 3 == 0 end)
local sum = 0
for _, row in ipairs(df:select "id":limit(100):collect()) do sum = sum + row.id end
print(df:count(), sum)
local peak = io.open("/proc/self/status"):read("*a"):match "VmHWM:%s*(%d+)"
io.stderr:write(peak, " kB\\n")
""")
    assert done.code == 0 and done.out.split() == [str(n // 3), str(sum(3 * i for i in range(100)))], repr(done)
    assert int(done.err.split()[-2]) < 250_000, done.err


def test_our_own_table_is_read_while_a_stream_writes_it(kafka, work):
    topic = kafka.topic()
    kafka.produce_values(topic, 0, [f"v{n}" for n in range(1000)])
    work.run_ok(work.job(topic, ':select("partition", "offset", "value")'))
    done = read(work, work.out, """
local mt = require "moontide"
local df = mt.read:load(...)
print(df:count(), df:select("offset"):filter(function(row) return row.offset >= 990 end):count())
df:limit(1):show()
""")
    assert done.code == 0 and done.out.split()[:2] == ["1000", "10"], repr(done)
