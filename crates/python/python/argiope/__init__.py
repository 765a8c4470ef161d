"""Argiope, a polite, exact and fast web crawler, for Python's asyncio.

    async with argiope.crawl("https://example.org", max_pages=100) as crawl:
        async for page in crawl:
            print(page.status, page.url, page.title)

The same crawl without asyncio:

    for page in argiope.crawl("https://example.org", max_pages=100):
        print(page.status, page.url, page.title)
"""

from __future__ import annotations

import inspect
import os
from typing import TYPE_CHECKING, Any, Union

from ._argiope import VERSION as __version__
from ._argiope import Element, FoundLink, Link, OutgoingRequest, Page, Request, Source, Table
from ._crawl import Batches, Crawl, Feeding
from ._errors import Error, SettingError
from ._stored import StoredCrawl, StoredLink
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
    "FoundLink",
    "Link",
    "OutgoingRequest",
    "Page",
    "PageError",
    "Request",
    "SettingError",
    "StoredCrawl",
    "StoredLink",
    "Summary",
    "Table",
    "__version__",
    "crawl",
    "fetch",
    "open",
]

# Settings that may be functions of the program.
_FUNCTIONS = ("follow", "judge", "on_request")


def crawl(*roots: str | Request, **settings: Unpack[Settings]) -> Crawl:
    """A crawl that begins at `roots`: URLs, host names or `Request`s. A host name is tried with https first.

    The keyword arguments are the settings of the command `argiope crawl`, with underscores: `max_pages=100`, `depth=2`,
    `exclude=["/tag/"]`, `delay=0.5`. `directory` stores the crawl in a folder, so that it can resume.
    `follow="none"` follows no links: the program feeds what is fetched next.

    `follow` can be a function that gets each `FoundLink` and returns whether it is followed; `judge` one that returns its
    priority, or None to skip it; `on_request` one that gets each `OutgoingRequest` before it is sent. They run in the
    thread that reads the crawl, while it waits for pages; the crawl waits for their answers.

    Raises `SettingError` if a value is wrong, and `TypeError` if a keyword is unknown.
    """
    values: dict[str, Any] = dict(settings)
    functions = {name: values.pop(name) for name in _FUNCTIONS if callable(values.get(name))}
    for name, function in functions.items():
        if inspect.iscoroutinefunction(function):
            raise TypeError(f"{name}: an `async def` function cannot be called by the crawl; pass an ordinary one")
    if "follow" in functions and "judge" in functions:
        raise SettingError("follow: contradicts `judge`, which also decides which links are followed; set one of them")
    return Crawl(Source(_flat(roots), values, list(functions)), functions)


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


def open(path: Union[str, os.PathLike[str]]) -> StoredCrawl:  # noqa: A001
    """Reads a crawl directory: its pages, links and tables. Raises `Error` if there is no crawl."""
    return StoredCrawl(path)


def _flat(roots: tuple[Any, ...]) -> list[Any]:
    """The roots: arguments, or one list of them."""
    if len(roots) == 1 and not isinstance(roots[0], (str, Request)):
        return list(roots[0])
    return list(roots)
