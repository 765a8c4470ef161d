"""Keyword arguments: the settings of the command, as Python writes them."""

from __future__ import annotations

import asyncio
import datetime
import pathlib
import pickle

import argiope
import pytest
from conftest import Site, number


def test_an_unknown_keyword_is_a_type_error_that_names_the_nearest() -> None:
    with pytest.raises(TypeError, match=r"unexpected keyword argument \"max_pagse\"; did you mean \"max_pages\""):
        argiope.crawl("http://127.0.0.1/", max_pagse=3)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        argiope.crawl("http://127.0.0.1/", out="x")  # type: ignore[call-arg]


def test_a_wrong_value_is_a_setting_error_before_the_first_request() -> None:
    for setting in [{"depth": "deep"}, {"pace": "fast"}, {"delay": "soon"}, {"follow": 3}, {"max_tries": 300}]:
        with pytest.raises(argiope.SettingError) as raised:
            argiope.crawl("http://127.0.0.1/", **setting)  # type: ignore[arg-type]
        assert isinstance(raised.value, ValueError) and isinstance(raised.value, argiope.Error)
        assert raised.value.kind == "config" and raised.value.advice
        assert next(iter(setting)) in str(raised.value)
    with pytest.raises(argiope.SettingError, match="roots"):
        argiope.crawl()


def test_contradictory_settings_are_a_setting_error_at_the_start(site: Site) -> None:
    root = site.star(2)

    async def main() -> None:
        async with argiope.crawl(root, pace="gentle", per_host=3):
            pass

    with pytest.raises(argiope.SettingError, match="per_host"):
        asyncio.run(main())
    with pytest.raises(ValueError, match="directory"):
        next(argiope.crawl(root, warc=True))
    assert not site.requests


def test_values_are_written_as_python_writes_them(site: Site, tmp_path: pathlib.Path) -> None:
    root = site.star(10)
    settings = {
        "max_time": datetime.timedelta(minutes=5),
        "timeout": 30,
        "delay": 0.001,
        "max_size": 1_000_000,
        "max_memory": "1G",
        "exclude": [r"/3$", r"/4$"],
        "header": {"X-Token": "secret"},
        "directory": tmp_path / "it.crawl",
        "depth": None,
        "robots": "ignore",
        "allow_private": True,
    }
    pages = [number(page) for page in argiope.crawl(root, **settings)]  # type: ignore[arg-type]
    assert sorted(pages) == [0, 1, 2, 5, 6, 7, 8, 9]
    assert (tmp_path / "it.crawl" / "crawl.json").exists()


def test_a_header_is_sent(site: Site) -> None:
    seen: list[str | None] = []

    def page(handler: object) -> tuple[int, dict[str, str], bytes]:
        seen.append(handler.headers.get("X-Token"))  # type: ignore[attr-defined]
        return 200, {}, b""

    site.pages["/"] = page
    list(argiope.crawl(site.url(), header=[("X-Token", "one")]))
    list(argiope.crawl(site.url(), header={"X-Token": "two"}))
    list(argiope.crawl(site.url(), header="X-Token: three"))
    assert seen == ["one", "two", "three"]


def test_roots_are_arguments_or_a_list(site: Site) -> None:
    site.star(3)
    roots = [site.url("/1"), argiope.Request(site.url("/2"), data={"k": [1, None, "x"]})]
    for crawl in (argiope.crawl(*roots, depth=0), argiope.crawl(roots, depth=0)):
        data = {number(page): page.data for page in crawl}
        assert data == {1: None, 2: {"k": [1, None, "x"]}}


def test_errors_can_be_pickled() -> None:
    for error in (argiope.Error("m", "store", "a"), argiope.SettingError("m", "config", "a")):
        copy = pickle.loads(pickle.dumps(error))
        assert (type(copy), str(copy), copy.kind, copy.advice) == (type(error), "m", error.kind, "a")


def test_a_directory_in_use_is_an_error_with_advice(site: Site, tmp_path: pathlib.Path) -> None:
    root = site.star(3)
    with argiope.crawl(root, directory=tmp_path / "c") as crawl:
        next(crawl)
        with pytest.raises(argiope.Error, match="other process|another") as raised:
            next(argiope.crawl(root, directory=tmp_path / "c"))
        assert raised.value.kind == "store" and raised.value.advice
