"""The examples run, and the book shows them as they are."""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import pathlib
import re
import subprocess
import sys

import pytest
from conftest import Site

EXAMPLES = pathlib.Path(__file__).parent.parent / "examples"
DOCS = pathlib.Path(__file__).parents[3] / "docs"


def run(name: str, *arguments: object) -> str:
    command = [sys.executable, "-X", "dev", "-W", "error", EXAMPLES / name, *map(str, arguments)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    # asyncio's debug mode reports what took long, which depends on the machine.
    errors = [line for line in result.stderr.splitlines() if not line.startswith("Executing <")]
    assert (result.returncode, errors) == (0, [])
    return result.stdout


@pytest.mark.parametrize("name", ["titles.py", "blocking.py", "two_tasks.py", "send.py"])
def test_examples_with_a_root_run(site: Site, name: str) -> None:
    output = run(name, site.star(4))
    assert ("4 pages in the end" if name == "two_tasks.py" else site.url("/3")) in output, output


def test_examples_with_files_run(site: Site, tmp_path: pathlib.Path) -> None:
    root = site.star(6)
    assert run("workers.py", root, tmp_path / "w.crawl").count("http") == 6
    # Everything is processed, so the next run has nothing to do.
    assert run("workers.py", root, tmp_path / "w.crawl") == ""
    assert run("database.py", root, tmp_path / "p.sqlite", tmp_path / "d.crawl") == "6 pages\n"
    assert run("focused.py", root, "link").count(site.url()) == 6
    pytest.importorskip("pyarrow")
    assert run("table.py", tmp_path / "d.crawl").startswith("6 pages, 5 links")


def test_the_notebook_runs(site: Site, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROOT", site.star(8))
    monkeypatch.setenv("DIRECTORY", str(tmp_path / "n.crawl"))
    names: dict[str, object] = {}

    async def cells() -> None:
        for cell in json.loads((EXAMPLES / "notebook.ipynb").read_text())["cells"]:
            if cell["cell_type"] == "code":
                code = compile("".join(cell["source"]), "cell", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
                result = eval(code, names)
                if inspect.isawaitable(result):
                    await result

    asyncio.run(cells())
    assert "done" in names


def test_programs_in_the_book_are_those_of_the_examples() -> None:
    examples = [example.read_text() for example in EXAMPLES.glob("*.py")]
    blocks = []
    for chapter in [DOCS / "howto" / "python.md", DOCS / "tour" / "8-python.md"]:
        blocks += re.findall(r"^```python\n(.*?)^```", chapter.read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 6
    for block in blocks:
        assert any(block in example for example in examples), block
