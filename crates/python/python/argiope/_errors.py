"""The exceptions of the package."""

from __future__ import annotations


class Error(Exception):
    """Why a crawl could not start, or stopped before its end.

    A failure of a single page is never an exception: it is the page's `outcome` and `error`.

    `kind` is one of "config", "input", "store", "engine" and "internal". `advice` says what to do.
    """

    kind: str
    advice: str

    def __init__(self, message: str, kind: str = "input", advice: str = "") -> None:
        super().__init__(message, kind, advice)
        self.kind = kind
        self.advice = advice

    def __str__(self) -> str:
        return str(self.args[0])


class SettingError(Error, ValueError):
    """A setting is wrong, or contradicts another one. Raised before the first request."""

    def __init__(self, message: str, kind: str = "config", advice: str = "") -> None:
        super().__init__(message, kind, advice)
