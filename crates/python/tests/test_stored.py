"""Crawl directories, tables, and the command."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import argiope
import pytest
from conftest import Site


@pytest.fixture
def stored(site: Site, tmp_path: pathlib.Path) -> tuple[Site, pathlib.Path]:
    site.html("/0", "<title>Root</title>", ["/1", "/2"])
    site.html("/1", "<title>One</title><p class=price>3.50</p>", ["/2"])
    site.pages["/2"] = lambda _: (404, {}, b"")
    path = tmp_path / "s.crawl"
    settings = {"extract": ["price=.price"], "with_": ["headers", "anchors", "links"]}
    list(argiope.crawl(site.url("/0"), directory=path, **settings))  # type: ignore[arg-type]
    return site, path


def test_a_crawl_directory_has_pages_links_and_explanations(stored: tuple[Site, pathlib.Path]) -> None:
    site, path = stored
    with argiope.open(path) as done:
        pages = {page["url"]: page for page in done.pages()}
        assert {url: page["status"] for url, page in pages.items()} == {
            site.url("/0"): 200,
            site.url("/1"): 200,
            site.url("/2"): 404,
        }
        assert pages[site.url("/1")]["data"] == {"price": "3.50"}
        links = list(done.links())
        assert (site.url("/0"), site.url("/2"), "anchor", False, "link /2") in links, links
        assert links[0].source in pages and len(links) == 3
        assert "404" in done.explain("/2")
        with pytest.raises(argiope.Error):
            done.explain("ftp://x/")
        # A reader that leaves early ends the thread that reads.
        next(done.pages())


def test_a_folder_that_is_no_crawl_is_an_error(tmp_path: pathlib.Path) -> None:
    for path in (tmp_path, tmp_path / "none"):
        with pytest.raises(argiope.Error) as raised:
            argiope.open(path)
        assert raised.value.kind == "store"


def test_arrow_libraries_read_the_table(stored: tuple[Site, pathlib.Path]) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    site, path = stored
    table = argiope.open(path).to_arrow()
    read = pyarrow.table(table)
    assert read.column_names == table.column_names and read.num_rows == 3
    rows = {row["url"]: row for row in read.to_pylist()}
    one = rows[site.url("/1")]
    assert (one["status"], one["title"], one["data_price"], one["inlinks"]) == (200, "One", "3.50", 1)
    assert ["Content-Type", "text/html"] in one["headers"]
    assert one["started"].tzinfo is not None and one["noindex"] is False
    assert one["link_list"][0]["url"] == site.url("/2")
    # A second time, with chosen columns.
    few = pyarrow.table(argiope.open(path).to_arrow(["title", "status"]))
    assert few.column_names == ["title", "status"] and sorted(few["status"].to_pylist()) == [200, 200, 404]


def test_the_table_is_the_same_as_the_export(stored: tuple[Site, pathlib.Path], tmp_path: pathlib.Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    import pyarrow

    _, path = stored
    file = tmp_path / "t.parquet"
    command = [sys.executable, "-m", "argiope", "export", str(path), "--format", "parquet", "--output", str(file)]
    subprocess.run(command, check=True, capture_output=True)
    table, exported = pyarrow.table(argiope.open(path).to_arrow()), parquet.read_table(file)
    assert table.column_names == exported.column_names
    for name in table.column_names:
        assert (name, table[name].to_pylist()) == (name, exported[name].to_pylist())


@pytest.mark.parametrize("library", ["polars", "duckdb"])
def test_other_libraries_read_the_table(stored: tuple[Site, pathlib.Path], library: str) -> None:
    module = pytest.importorskip(library)
    pages = argiope.open(stored[1]).to_arrow(["status"])
    if library == "polars":
        assert sorted(module.DataFrame(pages)["status"].to_list()) == [200, 200, 404]
    else:
        assert module.sql("select sum(status) from pages").fetchall() == [(804,)]


def test_the_command_is_in_the_package(site: Site, tmp_path: pathlib.Path) -> None:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-m", "argiope", *arguments], capture_output=True, text=True)

    assert run("--version").stdout.splitlines()[0] == f"argiope {argiope.__version__}"
    assert run("crawl").returncode == 2
    root = site.star(5)
    result = run("crawl", root, "--out", str(tmp_path / "c.crawl"))
    assert result.returncode == 0, result.stderr
    assert len(list(argiope.open(tmp_path / "c.crawl").pages())) == 5
