"""A finished crawl as a table: python table.py s.crawl (with pyarrow)"""

import sys

import argiope
import pyarrow

with argiope.open(sys.argv[1]) as done:
    table = pyarrow.table(done.to_arrow(["url", "status", "title", "inlinks"]))
    print(table.num_rows, "pages,", sum(1 for _ in done.links()), "links")
    print(table.group_by("status").aggregate([("url", "count")]).to_pylist())
