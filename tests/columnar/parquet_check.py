# SPDX-License-Identifier: Apache-2.0
"""Files of parquet_test.c as pyarrow and DuckDB see them: parquet_check.py CHECK FILE."""
import datetime
import sys
from decimal import Decimal

import duckdb
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


{"types": types, "values": values, "dictionaries": dictionaries}[sys.argv[1]](sys.argv[2])
