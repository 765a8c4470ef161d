"""Compares the nested values and the types of a Parquet table with the records, read by DuckDB.

nested.py PAGES.parquet RECORDS.jsonl
"""
import datetime
import json
import sys

import duckdb

parquet, jsonl = sys.argv[1:]
pages = [record for record in map(json.loads, open(jsonl, encoding="utf-8")) if record["type"] == "page"]
table = duckdb.sql(f"select * from read_parquet('{parquet}')")
types = dict(zip(table.columns, map(str, table.types)))
assert types["meta_robots"] == types["odd"] == types["data_all"] == "VARCHAR[]", types
assert types["hreflang"] == "MAP(VARCHAR, VARCHAR)", types["hreflang"]
assert types["headers"] == "VARCHAR[][]", types["headers"]
assert types["link_list"] == "STRUCT(url VARCHAR, kind VARCHAR, nofollow BOOLEAN, anchor VARCHAR)[]", types["link_list"]
assert types["data_products"] == "STRUCT(price DOUBLE, tags VARCHAR[], title VARCHAR)[]", types["data_products"]
assert types["data_day"] == "DATE" and types["started"] == "TIMESTAMP WITH TIME ZONE", types
assert types["status"] == "BIGINT" and types["noindex"] == "BOOLEAN", types


def without_absent(value):
    """A nested value without the parts that a record leaves out."""
    if isinstance(value, dict):
        return {name: without_absent(part) for name, part in value.items() if part is not None and part is not False}
    return [without_absent(part) for part in value] if isinstance(value, list) else value


names = [name for name in table.columns if name != "started"]
rows = [dict(zip(names, row)) for row in table.project("* exclude (started)").fetchall()]
assert len(rows) == len(pages)
for row, page in zip(rows, pages):
    for name in ("meta_robots", "hreflang", "headers", "link_list", "text", "words", "odd"):
        assert without_absent(row[name]) == page.get(name), (name, row[name], page.get(name))
    data = page.get("data", {})
    for name in ("all", "products"):
        assert without_absent(row[f"data_{name}"]) == data.get(name), (name, row[f"data_{name}"], data.get(name))
    assert row["data_day"] == (datetime.date.fromisoformat(data["day"]) if "day" in data else None)
assert sum(1 for row in rows if row["data_products"]) == 1
