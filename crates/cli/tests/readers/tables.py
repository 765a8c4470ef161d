"""Compares the Parquet table with the records, read by DuckDB; and reads the GraphML.

tables.py PAGES.parquet PAGES.jsonl GRAPH.graphml
"""
import json
import sys
import xml.etree.ElementTree as ET

import duckdb

parquet, jsonl, graphml = sys.argv[1:]
records = [json.loads(line) for line in open(jsonl, encoding="utf-8")]
pages = [record for record in records if record["type"] == "page"]

table = duckdb.sql(f"select * exclude (started) from read_parquet('{parquet}')")
rows = [dict(zip(table.columns, row)) for row in table.fetchall()]
assert len(rows) == len(pages), (len(rows), len(pages))
for row, page in zip(rows, pages):
    for name in ("url", "status", "outcome", "title", "via", "depth", "bytes_wire", "links", "digest", "last_modified"):
        assert row[name] == page.get(name), (name, row[name], page.get(name))
    assert row["ms_total"] == page["ms"].get("total")
    assert row["warc_offset"] == page.get("warc", {}).get("offset")
    assert row["noindex"] == page.get("noindex", False)
started = duckdb.sql(f"select strftime(started at time zone 'UTC', '%Y-%m-%dT%H:%M:%S.%gZ') from read_parquet('{parquet}')")
assert [row[0] for row in started.fetchall()] == [page["started"] for page in pages]
by_outcome = duckdb.sql(f"select outcome, count(*) from read_parquet('{parquet}') group by 1").fetchall()
assert sum(count for _, count in by_outcome) == len(pages)

space = "{http://graphml.graphdrawing.org/xmlns}"
graph = ET.parse(graphml).getroot().find(f"{space}graph")
nodes = [node.get("id") for node in graph.iter(f"{space}node")]
assert len(nodes) == len(set(nodes)) and nodes, "every node once"
assert all(edge.get("source") in nodes and edge.get("target") in nodes for edge in graph.iter(f"{space}edge"))
print(len(rows), "rows", len(nodes), "nodes")
