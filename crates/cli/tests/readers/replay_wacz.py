"""Validates a WACZ file with py-wacz and replays its pages with pywb.

replay_wacz.py FILE URLS: URLS is a JSON list of addresses that must be in it.
"""
import gevent.monkey

gevent.monkey.patch_all()

import json
import os
import sys
import tempfile
import zipfile

from pywb.apps.frontendapp import FrontEndApp
from pywb.manager.manager import main as manager
from wacz.main import main as wacz
from werkzeug.test import Client

file, urls = os.path.abspath(sys.argv[1]), json.load(open(sys.argv[2]))
code = wacz(["validate", "-f", file])
assert not code, f"py-wacz refuses the file: {code}"

with zipfile.ZipFile(file) as archive:
    assert archive.testzip() is None
    package = json.loads(archive.read("datapackage.json"))
    assert package["wacz_version"] == "1.1.1", package
    lines = archive.read("pages/pages.jsonl").decode().splitlines()
    assert json.loads(lines[0])["format"] == "json-pages-1.0"
    pages = [json.loads(line) for line in lines[1:]]
    assert pages and all(page["url"] in urls and page["ts"] and page["id"] for page in pages), pages

with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    manager(["init", "c"])
    manager(["add", "--unpack-wacz", "c", file])
    client = Client(FrontEndApp(config_file=None))
    for url in urls:
        answer = client.get(f"/c/id_/{url}")
        answer = client.get(f"/c/2026id_/{url}") if answer.status_code != 200 else answer
        assert answer.status_code == 200, f"{url}: {answer.status}"
