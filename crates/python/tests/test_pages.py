"""Pages, links, elements and requests."""

from __future__ import annotations

import asyncio

import argiope
import pytest
from conftest import Site

HTML = """<!doctype html><html lang=en><title> A  page </title><meta name=description content="About it">
<script type="application/ld+json">{"@type": "Product", "name": "Web", "offers": {"price": 3}}</script>
<nav><a href="/next" rel="next">Next   one</a><a href="https://other.example/" rel=nofollow>Other</a></nav>
<article><h1>Head</h1><p class=x>One &amp; two</p><p class=x data-k=v>Three</p></article></html>"""


def get(site: Site, path: str = "/", **settings: object) -> argiope.Page:
    return asyncio.run(argiope.fetch(site.url(path), **settings))  # type: ignore[arg-type]


def test_a_page_has_its_facts(site: Site) -> None:
    site.html("/", HTML)
    page = get(site)
    assert (page.url, page.status, page.outcome, page.ok, page.error) == (site.url(), 200, "ok", True, None)
    assert (page.title, page.depth, page.referrer, page.method) == ("A page", 0, None, "GET")
    assert (page.content_type, page.ip, page.truncated, page.redirect) == ("text/html", "127.5.7.1", None, None)
    assert page.header("CONTENT-type") == "text/html" and ("Content-Type", "text/html") in page.headers
    assert page.body == HTML.encode() and page.html == HTML and page.body is page.body
    assert page.meta("description") == "About it" and page.json_ld("Product.offers.price") == [3]
    assert list(page.record)[:4] == ["v", "type", "url", "status"] and page.record["h1"] == "Head"
    assert repr(page) == f"<Page 200 {site.url()}>"
    assert page == page and page != get(site) and len({page, page}) == 1
    assert "One & two" in page.text() and page.markdown().startswith("# Head")
    assert page.extract("title=h1", "all[]=.x") == {"title": "Head", "all": ["One & two", "Three"]}


def test_elements_are_selected(site: Site) -> None:
    site.html("/", HTML)
    page = get(site)
    assert [element.text for element in page.select(".x")] == ["One & two", "Three"]
    assert (page.select_text("h1"), page.select_text("h6"), page.select_first("h6")) == ("Head", None, None)
    article = page.select_first("article")
    assert article is not None
    second = article.select(".x")[1]
    assert (second.name, second["data-k"], second.get("id"), second.attributes) == (
        "p",
        "v",
        None,
        {"class": "x", "data-k": "v"},
    )
    with pytest.raises(KeyError):
        second["id"]
    assert second.parent == article and article.children[2] == second and second.html.startswith("<p")
    link = page.select_first("a")
    assert link is not None and link.url() == site.url("/next")
    with pytest.raises(argiope.Error) as raised:
        page.select("p[")
    assert raised.value.kind == "input"


def test_links_are_those_of_the_crawl(site: Site) -> None:
    site.html("/", HTML)
    first, other = get(site).links
    assert (first.url, first.text, first.rel, first.nofollow) == (site.url("/next"), "Next one", "next", False)
    assert (other.url, other.nofollow, other.in_scope) == ("https://other.example/", True, False)
    assert str(first) == first.url and "Next one" in repr(first)


def test_a_link_that_is_fed_is_found_on_its_page(site: Site) -> None:
    site.html("/", links=["/a"])
    site.html("/a")
    with argiope.crawl(site.url(), follow="none") as crawl:
        crawl.feed(next(crawl).links)
        page = next(crawl)
    assert (page.url, page.depth, page.referrer) == (site.url("/a"), 1, site.url())


def test_a_failure_is_a_page_and_no_exception(site: Site) -> None:
    port = site.server.server_port
    site.close()
    page = asyncio.run(argiope.fetch(f"http://127.5.7.1:{port}/", max_tries=1))
    assert (page.ok, page.status, page.outcome) == (False, None, "failed")
    assert page.error is not None and page.error.kind == "connect_refused" and str(page.error)


def test_json_bodies_are_values(site: Site) -> None:
    site.pages["/"] = lambda _: (200, {"Content-Type": "application/json"}, b'{"a": [1, 2.5, null, true, "x"]}')
    assert get(site).json() == {"a": [1, 2.5, None, True, "x"]}
    site.pages["/bad"] = lambda _: (200, {"Content-Type": "application/json"}, b'{"a": ')
    with pytest.raises(argiope.Error, match="/bad: JSON: .* line 1"):
        get(site, "/bad").json()


def test_requests_send_bodies_headers_and_methods(site: Site) -> None:
    def echo(handler: object) -> tuple[int, dict[str, str], bytes]:
        return 200, {"Content-Type": "text/html"}, handler.headers.get("X-A", "").encode()  # type: ignore[attr-defined]

    site.pages["/"] = echo
    requests = [
        argiope.Request(site.url(), method="POST", form={"q": "orb web"}, headers={"X-A": "1"}),
        argiope.Request(site.url(), method="put", json={"n": 1}),
        argiope.Request(site.url(), method="POST", body="text", key="k"),
    ]
    pages = list(argiope.crawl(requests, bodies="all"))
    sent = {(method, body) for method, path, body in site.log if path == "/"}
    assert sent == {("POST", b"q=orb+web"), ("PUT", b'{"n":1}'), ("POST", b"text")}
    assert {page.method for page in pages} == {"POST", "PUT"} and b"1" in [page.body for page in pages]
    with pytest.raises(argiope.Error, match="one body"):
        argiope.Request(site.url(), body=b"", json={})
    with pytest.raises(argiope.Error, match="method"):
        argiope.Request(site.url(), method="BREW")
    with pytest.raises(argiope.Error, match="not a url"):
        argiope.Request("not a url")
    with pytest.raises(ValueError, match="64 bits"):
        argiope.Request(site.url(), data=2**64)


def test_forms_are_filled_in(site: Site) -> None:
    site.html("/", '<form id=f method=post action="/go"><input name=a value=1><input name=b></form>')
    site.html("/go")
    with argiope.crawl(site.url(), follow="none") as crawl:
        crawl.feed(argiope.Request.from_form(next(crawl), "#f", {"b": "x y"}))
        assert next(crawl).url == site.url("/go")
    assert ("POST", "/go", b"a=1&b=x+y") in site.log
