# SPDX-License-Identifier: Apache-2.0
"""Files of parquet_test.c as pyarrow and DuckDB see them: parquet_check.py CHECK FILE."""
import datetime
import json
import sys
from decimal import Decimal

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

FIRST_DAY = datetime.datetime(1, 1, 1, tzinfo=datetime.timezone.utc)


def types(path):
    file = pq.ParquetFile(path)
    table, metadata, schema = file.read(), file.metadata, file.schema
    assert [str(t) for t in table.schema.types] == [
        "bool", "int8", "int16", "int32", "int64", "float", "double", "decimal128(5, 1)",
        "decimal128(18, 2)", "decimal128(38, 18)", "string", "binary", "date32[day]",
        "timestamp[us, tz=UTC]", "list<element: string>",
        "struct<x: int32, y: decimal128(9, 3)>", "map<string, list<element: int32> ('q')>"]
    assert all(field.nullable for field in table.schema)
    assert [schema.column(i).physical_type for i in (7, 8, 9, 13)] == [
        "INT32", "INT64", "FIXED_LEN_BYTE_ARRAY", "INT64"]
    assert "isAdjustedToUTC=true, timeUnit=microseconds" in str(schema.column(13).logical_type)
    assert metadata.row_group(0).column(0).compression == "SNAPPY"
    assert metadata.metadata[b"moontide.query"] == b'paid "orders"'
    assert metadata.metadata[b"moontide.batch"] == b"17"
    assert [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)] == [25, 25, 10]


def values(path):
    rows = pq.read_table(path).to_pylist()
    assert len(rows) == 60
    first = rows[0]
    assert first["a"] is False and (first["b"], first["c"], first["d"]) == (1, 0, -(2**31))
    assert first["e"] is None and rows[5]["e"] is None and rows[2]["e"] == -(2**63)
    assert (first["f"], first["g"]) == (-0.375, -0.25)
    assert (first["h"], first["i"]) == (Decimal("-9999.9"), Decimal("9999999999999999.99"))
    assert rows[1]["j"] == Decimal("99999999999999999999.999999999999999999")
    assert (first["k"], first["l"]) == ("é10", "é11".encode())
    assert first["m"] == FIRST_DAY.date() and rows[2]["n"] == FIRST_DAY
    assert duckdb.sql("select count(*), count(h), max(i)::varchar, typeof(any_value(n)) from "
                      "read_parquet(?)", params=[path]).fetchone() == (
        60, 48, "9999999999999999.99", "TIMESTAMP WITH TIME ZONE")


def dictionaries(path):
    group = pq.ParquetFile(path).metadata.row_group(0)
    columns = [group.column(i) for i in range(group.num_columns)]
    assert [c.path_in_schema for c in columns if c.has_dictionary_page] == [
        "event", "n", "tags.list.element", "s.few"]


# As Spark lays nested columns out, with names and what may be null.
NESTED = """
optional group a (List) { repeated group list { optional int32 element; } }
optional group s { optional int32 x; optional binary y (String); }
optional group m (Map) { repeated group key_value { required binary key (String); optional int64 value; } }
optional group aa (List) { repeated group list {
  optional group element (List) { repeated group list { optional binary element (String); } } } }
optional group deep (List) { repeated group list { optional group element {
  optional group k (Map) { repeated group key_value { required binary key (String); optional group value {
    optional group l (List) { repeated group list { optional double element; } } optional boolean n; } } } } } }"""


def plain(value, type_):
    """A value of pyarrow's as JSON has it: a map as an object."""
    if value is None:
        return None
    if pa.types.is_map(type_):
        return {k: plain(v, type_.item_type) for k, v in value}
    if pa.types.is_list(type_):
        return [plain(v, type_.value_type) for v in value]
    if pa.types.is_struct(type_):
        return {f.name: plain(value[f.name], f.type) for f in type_}
    return value


def nested(path):
    with open(path + ".jsonl", encoding="utf-8") as lines:
        given = [json.loads(line) for line in lines]
    table, schema = pq.read_table(path), str(pq.ParquetFile(path).schema).replace(" field_id=-1", "")
    assert NESTED.split() == schema[schema.index("{") + 1:].rstrip().removesuffix("}").split(), schema
    assert [{f.name: plain(row[f.name], f.type) for f in table.schema} for row in table.to_pylist()] == given
    assert duckdb.sql("select * from read_parquet(?)", params=[path]).fetchall() == [tuple(row.values()) for row in given]


{"types": types, "values": values, "nested": nested, "dictionaries": dictionaries}[sys.argv[1]](sys.argv[2])
