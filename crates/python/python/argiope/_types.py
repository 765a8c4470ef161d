"""Small values that the package returns."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PageError:
    """Why there is no usable response, or why it is incomplete."""

    kind: str
    """The kind, for programs, such as "connect" or "timeout"."""
    message: str
    """The message, for people."""

    def __str__(self) -> str:
        return self.message


@dataclass(frozen=True)
class Summary:
    """The result of a crawl."""

    end: str
    """Why it ended, such as "finished" or "max-pages"."""
    left: int
    """The number of known URLs that are not finished."""
    unread: int
    """The number of pages that were not processed. The next run in the crawl directory delivers them again."""
    elapsed: float
    """The seconds that the run took."""
    bytes: int
    """The bytes that were received, robots.txt and sitemaps included."""
    outcomes: dict[str, int]
    """The number of URLs with each outcome."""
    errors: dict[str, int]
    """The number of errors of each kind."""
    notices: list[str]
    """Messages about the run, for people."""

    @property
    def pages(self) -> int:
        """The number of URLs that have an outcome."""
        return sum(self.outcomes.values())


@dataclass(frozen=True)
class FeedReport:
    """What became of requests that were fed to a crawl."""

    requests: tuple[str, ...]
    """For each request, in order: "added", "known" or "refused"."""

    @property
    def added(self) -> int:
        """How many requests are queued."""
        return self.requests.count("added")

    @property
    def known(self) -> int:
        """How many requests were added or found before. They are not sent again."""
        return self.requests.count("known")

    @property
    def refused(self) -> int:
        """How many requests the crawl does not send, because it is ending."""
        return self.requests.count("refused")
