"""Compares our index of the archives with the one that pywb makes of them.

index.py FOLDER INDEX.cdxj
"""
import io
import json
import pathlib
import sys

from pywb.indexer.cdxindexer import write_cdx_index


def entries(lines):
    for line in lines:
        key, time, rest = line.split(" ", 2)
        yield key, time, {name: value for name, value in json.loads(rest).items() if value not in ("-", None)}


archive, cdxj = map(pathlib.Path, sys.argv[1:])
ours = cdxj.read_text().splitlines()
assert ours == sorted(ours), "an index is sorted"
theirs = []
for file in sorted(archive.glob("*.warc.gz")):
    text = io.BytesIO()
    with open(file, "rb") as stream:
        write_cdx_index(text, stream, file.name, cdxj=True, sort=True)
    theirs += text.getvalue().decode().splitlines()
ours, theirs = list(entries(ours)), sorted(entries(theirs), key=lambda entry: entry[:2])
ours.sort(key=lambda entry: entry[:2])
assert ours == theirs, f"\n{ours}\n{theirs}"
print(len(ours), "entries")
