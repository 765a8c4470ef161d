"""`StoredCrawl`: a crawl directory, read as the command reads it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Union

from ._argiope import Stored, Table

if TYPE_CHECKING:
    from typing_extensions import Self


class StoredLink(NamedTuple):
    """A link of a stored crawl."""

    source: str
    target: str
    kind: str
    nofollow: bool
    anchor: str | None
    """The text of the link, if the crawl was run with `with_=["anchors"]`."""


class StoredCrawl:
    """A crawl directory. Created by `argiope.open`. The crawl may be running: what is committed is read."""

    def __init__(self, path: Union[str, os.PathLike[str]]) -> None:
        self.path = os.fspath(path)
        self._stored = Stored(self.path)

    def pages(self) -> Iterator[dict[str, Any]]:
        """The records of the pages of the latest round, in the order in which they were finished."""
        yield from self._stored.pages()

    def links(self) -> Iterator[StoredLink]:
        """The links of the latest round."""
        for row in self._stored.links():
            yield StoredLink(*row)

    def explain(self, url: str) -> str:
        """Why a URL was crawled or not: what `argiope explain` prints. A path is taken on the host of the first root."""
        return self._stored.explain(url)

    def to_arrow(self, columns: Sequence[str] = ()) -> Table:
        """The pages of the latest round as a table, with all columns of `argiope export --format parquet`, or with these.

        Arrow libraries read it: `pyarrow.table(t)`, `polars.DataFrame(t)`, `duckdb.sql("select * from t")`.
        """
        return self._stored.table(list(columns))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """A crawl directory is not locked by reading it, so nothing is released."""

    def __repr__(self) -> str:
        return f"StoredCrawl({self.path!r})"
