"""Reads the *.warc.zst files of a crawl with the program zstd and warcio.

zstd.py FOLDER RECORDS

RECORDS is a JSON list of page records. Each file must be readable as a whole, and each record by its place alone.
"""
import io
import json
import pathlib
import subprocess
import sys

from warcio.archiveiterator import ArchiveIterator

folder, records = pathlib.Path(sys.argv[1]), json.load(open(sys.argv[2]))


def decompress(data):
    return subprocess.run(["zstd", "-dc"], input=data, stdout=subprocess.PIPE, check=True).stdout


files = {path.name: path.read_bytes() for path in (folder / "archive").glob("*.warc.zst")}
assert files, "there is no archive"
ids, responses = set(), 0
for name, data in files.items():
    kinds = []
    for record in ArchiveIterator(io.BytesIO(decompress(data)), check_digests="raise"):
        record.content_stream().read()
        assert record.digest_checker.passed is not False, record.rec_headers
        identity = record.rec_headers.get_header("WARC-Record-ID")
        assert identity not in ids, f"{identity} is there twice"
        ids.add(identity)
        kinds.append(record.rec_type)
    assert kinds[0] == "warcinfo" and kinds.count("request") == len(kinds) // 2, kinds
    responses += len(kinds) // 2
# Responses to robots.txt are in the archive too.
assert responses >= len(records), (responses, len(records))

for record in records:
    place = record["warc"]
    data = files[place["file"].split("/")[-1]][place["offset"] : place["offset"] + place["length"]]
    [only] = ArchiveIterator(io.BytesIO(decompress(data)))
    assert only.rec_headers.get_header("WARC-Target-URI") == record["url"]
    if only.rec_type == "response":
        assert only.http_headers.get_statuscode() == str(record["status"])
print(f"{responses} exchanges")
