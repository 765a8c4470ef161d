"""Functions of the program that the crawl asks."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from typing import Any

import argiope
import pytest
from conftest import Site, number

pytestmark = pytest.mark.usefixtures("nothing_left")


def crawl_both_ways(*roots: Any, **settings: Any) -> list[list[argiope.Page]]:
    async def main() -> list[argiope.Page]:
        async with argiope.crawl(*roots, **settings) as crawl:
            return [page async for page in crawl]

    return [asyncio.run(main()), list(argiope.crawl(*roots, **settings))]


def test_follow_decides_about_each_link_in_the_thread_of_the_program(site: Site) -> None:
    site.html("/0", links=["/1", "/2", "/3"])
    for path in ("/1", "/2", "/3"):
        site.html(path)
    seen: list[tuple[str, str, str, int, int]] = []

    def follow(link: argiope.FoundLink) -> bool:
        seen.append((link.url, link.text, link.page, link.depth, threading.get_ident()))
        return not link.url.endswith("/2")

    for pages in crawl_both_ways(site.url("/0"), follow=follow):
        assert sorted(map(number, pages)) == [0, 1, 3]
    assert set(seen) == {
        (site.url(f"/{n}"), f"link /{n}", site.url("/0"), 1, threading.get_ident()) for n in (1, 2, 3)
    }


def test_judge_gives_priorities(site: Site) -> None:
    root = site.star(12)
    order = {"priorities": lambda link: None if link.url.endswith("/7") else int(link.url.rsplit("/", 1)[1])}
    for pages in crawl_both_ways(root, judge=order["priorities"], per_host=1):
        assert list(map(number, pages)) == [0, 11, 10, 9, 8, 6, 5, 4, 3, 2, 1]


def test_on_request_sets_headers_and_aborts(site: Site) -> None:
    tokens: list[str | None] = []

    def page(handler: Any) -> tuple[int, dict[str, str], bytes]:
        tokens.append(handler.headers.get("X-Token"))
        return 200, {"Content-Type": "text/html"}, b"<a href=/1>1</a>"

    site.pages["/0"] = page

    def on_request(request: argiope.OutgoingRequest) -> None:
        assert request.method == "GET"
        request.set_header("X-Token", request.url[-1])
        if request.url.endswith("/1"):
            request.abort("not today")

    for pages in crawl_both_ways(site.url("/0"), on_request=on_request):
        errors = {number(page): str(page.error) for page in pages if page.error}
        assert list(errors) == [1] and "not today" in errors[1]
    assert tokens == ["0", "0"] and site.requests["/1"] == 0


def test_an_exception_is_the_error_of_the_page(site: Site) -> None:
    site.html("/0", links=["/1"])

    def follow(link: argiope.FoundLink) -> bool:
        raise LookupError("no such thing")

    for pages in crawl_both_ways(site.url("/0"), follow=follow):
        (page,) = pages
        assert page.error is not None and page.error.kind == "hook"
        assert "LookupError: no such thing" in page.error.message


def test_keyboard_interrupt_in_a_function_propagates(site: Site) -> None:
    site.html("/0", links=["/1"])

    def follow(link: argiope.FoundLink) -> bool:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        with argiope.crawl(site.url("/0"), follow=follow) as crawl:
            list(crawl)


def test_status_is_answered_while_the_crawl_asks(site: Site) -> None:
    root = site.star(60)

    def on_request(request: argiope.OutgoingRequest) -> None:
        pass

    with argiope.crawl(root, on_request=on_request) as crawl:
        for page in crawl:
            if number(page) < 20:
                assert crawl.status()["state"]


def test_a_coroutine_function_is_a_type_error() -> None:
    async def follow(link: argiope.FoundLink) -> bool:
        return True

    with pytest.raises(TypeError, match="async def"):
        argiope.crawl("http://127.0.0.1/", follow=follow)
    with pytest.raises(argiope.SettingError, match="judge"):
        argiope.crawl("http://127.0.0.1/", follow=lambda _: True, judge=lambda _: 1)


def test_a_function_that_uses_its_crawl_is_collected(site: Site) -> None:
    def make() -> weakref.ref[argiope.Crawl]:
        held: list[argiope.Crawl] = []
        crawl = argiope.crawl(site.star(3), follow=lambda link: len(held) > 0)
        held.append(crawl)
        return weakref.ref(crawl)

    made = make()
    gc.collect()
    assert made() is None


def test_a_program_that_leaves_while_it_is_asked_ends(site: Site) -> None:
    root = site.star(200)
    with argiope.crawl(root, follow=lambda link: True, pace="full") as crawl:
        next(crawl)
