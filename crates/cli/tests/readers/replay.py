"""Checks an archive with warcio, then replays it with pywb.

replay.py FOLDER EXPECTED [CDXJ]

FOLDER has the *.warc.gz files. EXPECTED is a JSON list: for each address its status and the SHA-256 of the body as a
browser would see it, or none where the answer is not whole. CDXJ is an index to replay with; without it, pywb's own.
"""
import gevent.monkey

gevent.monkey.patch_all()

import hashlib
import io
import json
import pathlib
import sys
import tempfile

from pywb.apps.frontendapp import FrontEndApp
from pywb.indexer.cdxindexer import write_cdx_index
from warcio.archiveiterator import ArchiveIterator
from warcio.cli import main as warcio
from werkzeug.test import Client


def check(files):
    """`warcio check`, and that every record has a digest that it looks at."""
    try:
        code = warcio(["check", "-v", *map(str, files)])
    except SystemExit as end:
        code = end.code
    assert not code, f"warcio check failed: {code}"


def count(files):
    kinds = {}
    for file in files:
        with open(file, "rb") as stream:
            for record in ArchiveIterator(stream):
                kinds[record.rec_type] = kinds.get(record.rec_type, 0) + 1
    return kinds


def index(files, folder):
    lines = set()
    for file in files:
        text = io.BytesIO()
        with open(file, "rb") as stream:
            write_cdx_index(text, stream, file.name, cdxj=True, sort=True)
        lines.update(text.getvalue().decode().splitlines())
    path = pathlib.Path(folder) / "index.cdxj"
    path.write_text("".join(line + "\n" for line in sorted(lines)))
    return path


def replay(archive, cdxj, expected):
    config = {"collections": {"crawl": {"index": str(cdxj), "archive_paths": str(archive) + "/"}}, "debug": True}
    client = Client(FrontEndApp(custom_config=config))
    for page in expected:
        answer = client.get(f"/crawl/id_/{page['url']}")
        body = b"".join(answer.response)
        coding = answer.headers.get("Content-Encoding")
        if coding == "gzip":
            import gzip
            body = gzip.decompress(body)
        assert answer.status_code == page["status"], f"{page['url']}: {answer.status} {body[:200]}"
        if page.get("sha256"):
            found = hashlib.sha256(body).hexdigest()
            assert found == page["sha256"], f"{page['url']}: {len(body)} bytes, {body[:80]!r}"
        if page.get("location"):
            assert answer.headers["Location"].endswith(page["location"]), answer.headers


def main():
    archive, expected, *cdxj = map(pathlib.Path, sys.argv[1:])
    files = sorted(archive.glob("*.warc.gz"))
    assert files, "there is no archive"
    expected = json.loads(expected.read_text())
    check(files)
    kinds = count(files)
    assert kinds.get("request") == kinds.get("response", 0) + kinds.get("revisit", 0), kinds
    assert kinds.get("warcinfo") == len(files), kinds
    with tempfile.TemporaryDirectory() as folder:
        replay(archive, cdxj[0] if cdxj else index(files, folder), expected)
    print(f"{len(expected)} pages replayed; {kinds}")


main()
sys.stdout.flush()
# pywb's server threads never end.
import os

os._exit(0)
