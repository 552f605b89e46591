# SPDX-License-Identifier: Apache-2.0
"""ORC, JSON, CSV and text: what Spark writes for the same rows, read back by others, once
whatever dies in between."""
import base64
import datetime as dt
import decimal
import gzip
import json
import random

import duckdb
import pyarrow.orc as orc
import pytest

from harness import DATA, MACHINE, SINK, listed_files, log_entries, log_path
from test_content import HIGH, LOW, SCALARS, as_json
from test_spark import NESTED, NESTED_DDL, PARTS, as_plain, spark  # noqa: F401: a fixture

UTC = dt.timezone.utc
FLAT = SCALARS.replace(", y BINARY", "")


def fmt(text, name):
    return text.replace(':format "parquet"', f':format "{name}"')


def bytes_of(out):
    return b"".join(open(log_path(out, line["path"]), "rb").read() for n in sorted(log_entries(out))
                    for line in log_entries(out)[n])


def sparks_bytes(frame, name, place, **options):
    frame.coalesce(1).write.format(name).options(**options).save(str(place))
    return b"".join(p.read_bytes() for p in sorted(place.glob("part-*")))


TEXTS = ["plain", 'a,b "q" \\ back', "  lead trail  ", "", "line\nfeed\rcr\ttab", "#hash", '"', "back\\", 'x"y', " ",
         'x\\"y, \\ z', "é漢🦊\u007f\u0001\u2028/</script>", None, " a, b ", "'", ";", "\\N", "NULL"]


def text_rows():
    """Times in whole milliseconds: of others Spark loses digits."""
    doubles = [1e10, -0.0001, 0.5, 123456789.125, 1e22, 1e-7, 100.0, 4.9e-324, 1e-3, 9999999.0, 12345678.9]
    return [{"n": n, "x": x, "d": doubles[n % 11], "ok": n % 2 == 0, "c": f"{n}.25",
             "day": f"{1582 + n}-10-15", "ts": f"{1900 + n}-01-01T00:00:0{n % 10}.{n:03d}Z"} for n, x in enumerate(TEXTS)]


DDL = "n INT, x STRING, d DOUBLE, ok BOOLEAN, c DECIMAL(10,2), day DATE, ts TIMESTAMP"


@pytest.mark.parametrize("name,options", [
    ("json", {}), ("json", {"ignoreNullFields": False}), ("csv", {"header": True}), ("csv", {"quoteAll": True}),
    ("csv", {"sep": ";", "escape": '"', "nullValue": "NULL", "emptyValue": "EMPTY"}), ("csv", {"escapeQuotes": False}),
    ("csv", {"ignoreLeadingWhiteSpace": False, "ignoreTrailingWhiteSpace": False, "sep": "||"}),
    ("csv", {"quote": "'", "dateFormat": "dd.MM.yyyy", "timestampFormat": "yyyy/MM/dd HH:mm:ss,SSS XXX"}),
])
def test_the_bytes_are_those_that_spark_writes(kafka, work, spark, name, options):  # noqa: F811
    topic, texts = kafka.topic(), [json.dumps(row) for row in text_rows()]
    kafka.produce_values(topic, 0, texts)
    work.run_ok(fmt(work.job(topic, f':fromJson("value", "{DDL}")', sink=options), name))
    frame = spark.createDataFrame([(t,) for t in texts], "t STRING").selectExpr(f"from_json(t, '{DDL}') as d").select("d.*")
    theirs = sparks_bytes(frame, name, work.dir / "theirs", **{k: str(v) for k, v in options.items()})
    assert bytes_of(work.out).decode() == theirs.decode()


def test_nested_json_is_what_spark_writes(kafka, work, spark):  # noqa: F811
    topic, texts = kafka.topic(), [json.dumps(row) for row in NESTED]
    kafka.produce_values(topic, 0, texts)
    work.run_ok(fmt(work.job(topic, f':fromJson("value", "{NESTED_DDL}")'), "json"))
    frame = spark.createDataFrame([(t,) for t in texts], "t STRING").selectExpr(
        f"from_json(t, '{NESTED_DDL}') as d").select("d.*")
    assert bytes_of(work.out) == sparks_bytes(frame, "json", work.dir / "theirs")
    back = spark.read.schema(NESTED_DDL).json(str(work.out)).collect()
    assert [as_plain(row) for row in sorted(back, key=lambda r: r["n"])] == NESTED


@pytest.mark.parametrize("name,ddl", [("orc", SCALARS), ("json", SCALARS), ("csv", FLAT)])
def test_spark_reads_every_type_back_with_its_edges(kafka, work, spark, name, ddl):  # noqa: F811
    topic = kafka.topic()
    low = {**LOW, "ts": LOW["ts"].replace(microsecond=0)} if name == "orc" else LOW
    kafka.produce_values(topic, 0, [as_json(low), as_json(HIGH), "{}"])
    options = {"escape": '"', "ignoreLeadingWhiteSpace": False} if name == "csv" else {}
    work.run_ok(fmt(work.job(topic, f':fromJson("value", "{ddl}")', sink=options), name))
    reader = spark.read.schema(ddl).options(**{k: str(v) for k, v in options.items()})
    frame = reader.format(name).load(str(work.out))
    columns = [part.split()[0] for part in ddl.split(", ")]
    text = [f"hex({c})" if c == "y" else f"cast({c} as string)" for c in columns]
    rows = {row[3]: tuple(row) for row in frame.selectExpr(*text).collect()}
    made = [dict.fromkeys(LOW), low, HIGH]
    wanted = spark.createDataFrame([(as_json(row),) for row in made], "t STRING").selectExpr(
        f"from_json(t, '{ddl}') as d").select("d.*").selectExpr(*text).collect()
    wanted = {row[3]: tuple(row) for row in wanted}
    if name == "csv":  # the empty text and null are one to a reader of CSV
        rows, wanted = ({k: tuple(v or None for v in row) for k, row in of.items()} for of in (rows, wanted))
    assert rows == wanted and frame.count() == 3


def test_a_time_that_orc_would_get_wrong_is_refused(kafka, work):
    """Before 1970 with a fraction: Spark fails on what Arrow makes of it."""
    topic = kafka.topic()
    kafka.produce_values(topic, 0, ['{"ts":"1969-12-31T23:59:59.5Z"}'])
    done = work.run(fmt(work.job(topic, ':fromJson("value", "ts TIMESTAMP")'), "orc"))
    assert done.code == DATA and 'column "ts" has a time before 1970' in done.err and not listed_files(work.out)


def test_orc_holds_nested_values(kafka, work):
    topic = kafka.topic()
    kafka.produce_values(topic, 0, [json.dumps(row) for row in NESTED])
    work.run_ok(fmt(work.job(topic, f':fromJson("value", "{NESTED_DDL}")'), "orc"))
    [line] = log_entries(work.out)[0]
    assert line["path"].endswith(".c000.zstd.orc")
    rows = orc.read_table(log_path(work.out, line["path"])).to_pylist()
    for row in rows:
        row["m"] = None if row["m"] is None else dict(row["m"])
        for item in row["l"] or []:
            if item and item["k"] is not None:
                item["k"] = dict(item["k"])
    assert sorted(rows, key=lambda r: r["n"]) == NESTED


def test_random_rows_come_back_equal_from_json_and_csv(kafka, work):
    """By DuckDB, with all the texts and numbers that a seed makes."""
    dice = random.Random(7)
    letters = "ab,;\"'\\ \t|#é漢🦊\u0001{}[]:/"
    rows = []
    for n in range(2000):
        rows.append((n, None if n % 9 == 0 else "".join(dice.choices(letters, k=dice.randrange(1, 12))) + "z",
                     dice.choice([dice.uniform(-1e3, 1e3), dice.uniform(-1, 1) * 10 ** dice.randrange(-300, 300)]),
                     dice.randrange(-2**63, 2**63), decimal.Decimal(dice.randrange(-10**18, 10**18)).scaleb(-4),
                     dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=dice.randrange(-10**15, 4 * 10**15))))
    topic = kafka.topic()
    kafka.produce_values(topic, 0, ['{"n":%d,"x":%s,"d":%r,"l":%d,"c":%s,"ts":"%sZ"}' % (
        n, json.dumps(x), d, l, c, ts.isoformat()) for n, x, d, l, c, ts in rows])
    ddl = "n INT, x STRING, d DOUBLE, l BIGINT, c DECIMAL(18,4), ts TIMESTAMP"
    columns = "{n:'INT',x:'VARCHAR',d:'DOUBLE',l:'BIGINT',c:'DECIMAL(18,4)',ts:'TIMESTAMP'}"
    db = duckdb.connect()
    for name, options in (("json", {"compression": "gzip"}),
                          ("csv", {"escape": '"', "ignoreLeadingWhiteSpace": False, "compression": "zstd"})):
        out, checkpoint = work.dir / name, work.dir / f"{name}.ckpt"
        work.run_ok(fmt(work.job(topic, f':fromJson("value", "{ddl}")', out=out, checkpoint=checkpoint, sink=options), name))
        read = f"read_json('{out}/part-*', columns={columns})" if name == "json" else \
            f"read_csv('{out}/part-*', columns={columns}, header=false, quote='\"', escape='\"', nullstr='')"
        got = db.execute(f"select n, x, d, l, c, ts from {read} order by n").fetchall()
        if name == "json":  # whose decimals DuckDB reads as doubles
            lines = gzip.open(next(out.glob("part-*"))).read().splitlines()
            exact = {line["n"]: line["c"] for line in (json.loads(text, parse_float=decimal.Decimal) for text in lines)}
            got = [(*row[:4], exact[row[0]], row[5]) for row in got]
        assert got == rows, name


@pytest.mark.parametrize("name", ["json", "csv", "orc"])
def test_partition_values_of_any_kind_make_folders_as_in_spark(kafka, work, spark, name):  # noqa: F811
    values = [*PARTS, "", None]
    topic = kafka.topic()
    kafka.produce_values(topic, 0, [json.dumps({"n": n, "part": v}) for n, v in enumerate(values)])
    work.run_ok(fmt(work.job(topic, ':fromJson("value", "n INT, part STRING")', partition_by=["part"]), name))
    frame = spark.read.schema("n INT, part STRING").format(name).load(str(work.out))
    assert sorted((r.n, r.part) for r in frame.collect()) == [(n, v or None) for n, v in enumerate(values)]


def test_text_is_a_line_a_row_with_a_compressed_ending(kafka, work):
    topic = kafka.topic()
    kafka.produce_values(topic, 0, [json.dumps({"line": f"row {n}"}) for n in range(100)])
    work.run_ok(fmt(work.job(topic, ':fromJson("value", "line STRING")', sink={"compression": "gzip"}), "text"))
    [line] = log_entries(work.out)[0]
    assert line["path"].endswith(".c000.txt.gz") and line["moontide"]["rows"] == 100
    assert gzip.decompress(bytes_of(work.out)).decode().splitlines() == [f"row {n}" for n in range(100)]


@pytest.mark.parametrize("step", ["file.write:0", "file.fsync:0", "file.pending:0", "file.rename:0", "file.log:0",
                                  "file.link:0", "file.done:0", "sink.committed:0"])
def test_csv_is_there_once_whatever_step_was_the_last(kafka, work, step):
    topic = kafka.topic()
    kafka.produce_values(topic, 0, [json.dumps({"n": n, "part": "ab"[n % 2]}) for n in range(100)])
    job = fmt(work.job(topic, ':fromJson("value", "n INT, part STRING")', partition_by=["part"],
                       source={"maxOffsetsPerTrigger": 50}), "csv")
    assert work.run(job, kill=step).code == -9
    work.run_ok(job)
    assert sorted(int(n) for n in bytes_of(work.out).split()) == list(range(100))
    listed = [p for p in listed_files(work.out)]
    assert len(listed) == 4 == sum(len(lines) for lines in log_entries(work.out).values())


@pytest.mark.parametrize("name", ["orc", "json", "csv", "text"])
@pytest.mark.parametrize("fail,code", [("file.write=28:0", MACHINE), ("file.open=13:0", SINK)], ids=["full", "forbidden"])
def test_a_full_disk_or_a_forbidden_folder_leaves_nothing_visible(kafka, work, name, fail, code):
    topic = kafka.topic()
    kafka.produce_values(topic, 0, ['{"line":"a"}'])
    job = fmt(work.job(topic, ':fromJson("value", "line STRING")'), name)
    done = work.run(job, fail=fail)
    assert done.code == code, repr(done)
    assert not work.out.exists() or (not listed_files(work.out) and not log_entries(work.out))
    work.run_ok(job)
    assert len(listed_files(work.out)) == 1
