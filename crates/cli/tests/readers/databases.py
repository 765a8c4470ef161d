"""Compares a database of SQLite and an Arrow table with the records.

databases.py PAGES.sqlite PAGES.arrow RECORDS.jsonl LINKS.csv
"""
import csv
import datetime
import json
import sqlite3
import sys

import pyarrow
import pyarrow.ipc

database, arrow, jsonl, links = sys.argv[1:]
pages = [record for record in map(json.loads, open(jsonl, encoding="utf-8")) if record["type"] == "page"]
connection = sqlite3.connect(f"file:{database}?mode=ro", uri=True)
connection.row_factory = sqlite3.Row
assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
types = lambda table: {row["name"]: row["type"] for row in connection.execute(f"PRAGMA table_info({table})")}
assert types("pages")["status"] == "INTEGER" and types("pages")["started"] == "DATETIME", types("pages")
assert types("pages")["noindex"] == "BOOLEAN" and "data_day" not in types("pages")
assert types("data") == {
    "page_id": "INTEGER",
    "item": "INTEGER",
    "day": "DATE",
    "all": "TEXT",
    "products_title": "TEXT",
    "products_price": "REAL",
    "products_tags": "TEXT",
}, types("data")
rows = connection.execute("SELECT * FROM pages ORDER BY id").fetchall()
assert [row["url"] for row in rows] == [page["url"] for page in pages]
for row, page in zip(rows, pages):
    for name in ("status", "outcome", "title", "via", "depth", "bytes_wire", "links", "digest", "started", "text"):
        assert row[name] == page.get(name), (name, row[name], page.get(name))
    for name in ("meta_robots", "hreflang", "headers", "link_list"):
        assert (row[name] and json.loads(row[name])) == page.get(name), name
    assert row["ms_total"] == page["ms"].get("total")
    assert row["noindex"] == int(page.get("noindex", False))
items = connection.execute("SELECT url, data.* FROM data JOIN pages ON pages.id = page_id ORDER BY page_id, item").fetchall()
expected = [
    (page["url"], page["data"]["day"], product["title"], product["price"], product.get("tags"))
    for page in pages
    for product in page.get("data", {}).get("products", [])
]
found = [
    (row["url"], row["day"], row["products_title"], row["products_price"], row["products_tags"] and json.loads(row["products_tags"]))
    for row in items
]
assert found == expected and len(found) == 2, (found, expected)
assert connection.execute("SELECT typeof(products_price), date(day, '+1 day') FROM data").fetchone()[:] == ("real", "2026-01-03")
with open(links, encoding="utf-8", newline="") as file:
    edges = [(row["source"], row["target"], row["kind"], row["nofollow"] == "true") for row in csv.DictReader(file)]
stored = connection.execute("SELECT source, target, kind, nofollow FROM links").fetchall()
assert [(*row[:3], bool(row[3])) for row in stored] == edges and edges

table = pyarrow.ipc.open_stream(arrow).read_all()
table.validate(full=True)
assert table.schema.field("status").type == pyarrow.int64()
assert table.schema.field("started").type == pyarrow.timestamp("ms", "UTC")
assert table.schema.field("data_day").type == pyarrow.date32()
assert table.schema.field("data_products_price").type == pyarrow.float64()
assert table.schema.field("meta_robots").type == pyarrow.list_(pyarrow.string())
assert table.schema.field("hreflang").type == pyarrow.map_(pyarrow.string(), pyarrow.string())
table = table.to_pylist()
assert [row["data_products_title"] for row in table if row["data_products_title"]] == ["One", "Two"]
assert {row["data_day"] for row in table} == {datetime.date(2026, 1, 2), None}
by_url = {row["url"]: row for row in table}
assert len(table) == len(pages) + 1 and set(by_url) == {page["url"] for page in pages}
for page in pages:
    row = by_url[page["url"]]
    for name in ("status", "title", "meta_robots", "links", "words"):
        assert row[name] == page.get(name), (name, row[name])
    assert row["noindex"] == page.get("noindex", False)
