"""Argiope, a polite, exact and fast web crawler, for Python's asyncio.

    async with argiope.crawl("https://example.org", max_pages=100) as crawl:
        async for page in crawl:
            print(page.status, page.url, page.title)

The same crawl without asyncio:

    for page in argiope.crawl("https://example.org", max_pages=100):
        print(page.status, page.url, page.title)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._argiope import VERSION as __version__
from ._argiope import Element, Link, Page, Request, Source
from ._crawl import Batches, Crawl, Feeding
from ._errors import Error, SettingError
from ._types import FeedReport, PageError, Summary

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._settings import Settings

__all__ = [
    "Batches",
    "Crawl",
    "Element",
    "Error",
    "FeedReport",
    "Feeding",
    "Link",
    "Page",
    "PageError",
    "Request",
    "SettingError",
    "Summary",
    "__version__",
    "crawl",
    "fetch",
]


def crawl(*roots: str | Request, **settings: Unpack[Settings]) -> Crawl:
    """A crawl that begins at `roots`: URLs, host names or `Request`s. A host name is tried with https first.

    The keyword arguments are the settings of the command `argiope crawl`, with underscores: `max_pages=100`, `depth=2`,
    `exclude=["/tag/"]`, `delay=0.5`. `directory` stores the crawl in a folder, so that it can resume.
    `follow="none"` follows no links: the program feeds what is fetched next.

    Raises `SettingError` if a value is wrong, and `TypeError` if a keyword is unknown.
    """
    return Crawl(Source(_flat(roots), dict(settings)))


async def fetch(url: str | Request, **settings: Unpack[Settings]) -> Page:
    """Fetches one URL, by the same rules as a crawl. Redirects are followed: `page.redirects` lists them.

    A URL that could not be fetched, or that robots.txt disallows, gives a page with that outcome.
    """
    chain: list[Page] = []
    options: dict[str, Any] = {"bodies": "all", "follow": "none", **settings}
    async with crawl(url, **options) as pages:
        async for page in pages:
            chain.append(page)
    last = chain[-1]
    last._redirected([page.url for page in chain[:-1]])
    return last


def _flat(roots: tuple[Any, ...]) -> list[Any]:
    """The roots: arguments, or one list of them."""
    if len(roots) == 1 and not isinstance(roots[0], (str, Request)):
        return list(roots[0])
    return list(roots)
