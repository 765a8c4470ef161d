"""Compares what a receiver has stored in DuckDB with the records of the crawl.

received.py RECORDS.duckdb RECORDS.jsonl
"""
import json
import sys

import duckdb

database, jsonl = sys.argv[1:]
pages = [record for record in map(json.loads, open(jsonl, encoding="utf-8")) if record["type"] == "page"]
rows = duckdb.connect(database, read_only=True).execute("SELECT id, record FROM records").fetchall()
records = [json.loads(record) for _, record in rows]
assert [record.pop("id") for record in records] == [row[0] for row in rows]
order = lambda record: record["url"]
assert sorted(records, key=order) == sorted(pages, key=order) and len(pages) == 20, (len(records), len(pages))
