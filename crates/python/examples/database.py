"""Pages go to SQLite in batches; none is lost: python database.py https://example.org pages.sqlite s.crawl"""

import sqlite3
import sys

import argiope

root, file, directory = sys.argv[1:4]
database = sqlite3.connect(file)
database.execute("create table if not exists pages (url text primary key, status int, title text)")
with argiope.crawl(root, directory=directory) as crawl:
    for pages in crawl.batches(256, wait=1.0):
        rows = [(page.url, page.status, page.title) for page in pages]
        database.executemany("insert or replace into pages values (?, ?, ?)", rows)
        # The batch is processed when the next one is asked for, so after it was committed.
        database.commit()
print(database.execute("select count(*) from pages").fetchone()[0], "pages")
database.close()
