"""`Crawl`: a crawl as an asynchronous iterator, and as an ordinary one.

The crawl runs on threads of its own, which never run Python code. It has one file descriptor, which is readable when
there is something to do. In asyncio, the event loop watches it and calls `_on_readable`; without asyncio, the thread
that iterates blocks on it, without the GIL.

A page is held by the task that took it (without asyncio: by the thread) until that task asks for its next page, ends
by return, or leaves `async with` in order. Then the page is processed. If the task fails or is cancelled, its page is
given back: the crawl delivers it again.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Generator, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Union

from ._argiope import Link, Page, Request, Source, SourceFeeding
from ._errors import Error
from ._types import FeedReport, Summary

if TYPE_CHECKING:
    from typing_extensions import Self

Holder = Union["asyncio.Task[Any]", int]
Requests = Union[str, Request, Link, Iterable[Union[str, Request, Link]]]

# A task that finds pages without waiting lets other tasks run after this many seconds.
_TURN_SECONDS = 0.001


class Crawl:
    """A crawl: an asynchronous iterator of its pages, which accepts more URLs while it runs.

    Created by `argiope.crawl`. It starts when it is entered, or when its first page is asked for.
    """

    # Whether the crawl can be collected without a word. Set here, so that `__del__` works if `__init__` fails.
    _is_closed = True

    def __init__(self, source: Source, functions: dict[str, Callable[[Any], Any]]) -> None:
        self._source = source
        # The functions that the crawl asks. They are kept here, so that a function that uses its crawl is collected.
        self._functions = functions
        self._held: dict[Holder, list[Page]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        # Tasks that wait for a page, and tasks that wait for something else.
        self._page_waiters: deque[asyncio.Future[None]] = deque()
        self._other_waiters: deque[asyncio.Future[None]] = deque()
        self._has_begun = False
        self._turn_ends = 0.0
        self._summary: Summary | None = None
        self._is_closed = False
        _open_crawls.add(self)

    # The program's side

    @property
    def summary(self) -> Summary | None:
        """The result of the crawl; None until it has ended."""
        if self._summary is None:
            found = self._source.summary()
            self._summary = None if found is None else Summary(**found)
        return self._summary

    def feed(self, requests: Requests) -> Feeding:
        """Adds URLs: text, `Request`s or `Link`s, one or several. Like roots, they are fetched even if they are out of
        scope. Known URLs are not fetched again.

        The requests are added at once. `await` the result, or call its method `wait`, to know what became of them.
        """
        return Feeding(self, self._source.feed(requests))

    def pause(self) -> None:
        """Starts no new requests until `resume`. Requests in flight are still delivered."""
        self._source.pause()

    def resume(self) -> None:
        """Ends a pause."""
        self._source.resume()

    def stop(self) -> None:
        """Stops the crawl gracefully: fetches in flight are still delivered, then the iteration ends."""
        self._source.stop()

    def status(self) -> dict[str, Any]:
        """The state of the crawl now: counts, rates, hosts, errors."""
        return self._source.status(self._functions)

    def batches(self, size: int = 256, wait: float = 0.0) -> Batches:
        """The pages in lists of at most `size`, for both kinds of loops. A list counts as one page: all its pages are
        processed when the next list is asked for.

        A list is complete when no further page comes within `wait` seconds.
        """
        if size < 1:
            raise ValueError("size: a list has at least one page")
        return Batches(self, size, wait)

    # With asyncio

    async def __aenter__(self) -> Self:
        await self._begin()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave(asyncio.current_task(), is_in_order=error is None)
        await self._close(now=error is not None)

    def __aiter__(self) -> Self:
        return self

    def __anext__(self) -> Coroutine[Page]:
        """The next page. The page that this task holds is processed."""
        holder = _current_task()
        # Now, not when the coroutine runs: until then, other coroutines of this task may have taken pages.
        self._settle(holder)
        return self._next(holder)

    def asend(self, requests: Requests | None) -> Coroutine[Page]:
        """Feeds URLs, then returns the next page: what `await crawl.feed(...)` and `await anext(crawl)` do."""
        return self._send(_current_task(), requests)

    async def athrow(self, error: BaseException) -> Page:
        """Raises an error at the place of the page that is held: the page is given back, and the crawl is closed."""
        self._leave(asyncio.current_task(), is_in_order=False)
        await self._close(now=True)
        raise error

    async def aclose(self) -> None:
        """Ends the crawl gracefully: stops it, lets fetches in flight end, and closes it. The page that this task holds
        is processed."""
        self._leave(asyncio.current_task(), is_in_order=True)
        await self._close(now=False)

    # Without asyncio

    def __enter__(self) -> Self:
        while not self._source.start():
            self._block()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave(threading.get_ident(), is_in_order=error is None)
        self._close_blocking(now=error is not None)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Page:
        holder = threading.get_ident()
        self._settle(holder)
        return self._next_blocking(holder)

    def close(self) -> None:
        """As `aclose`, without asyncio."""
        self._leave(threading.get_ident(), is_in_order=True)
        self._close_blocking(now=False)

    def __del__(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        if any(self._held.values()):
            words = "a crawl was dropped while a page of it was held, which is not processed: use `async with`"
            warnings.warn(words, ResourceWarning, stacklevel=2, source=self)
        self._unwatch()
        self._give_all_back()
        self._source.close(now=True)

    def _disown(self) -> None:
        """This process has inherited the crawl by a fork: it has none of its threads."""
        self._is_closed = True
        self._loop = None
        self._source.disown()
        for pages in self._held.values():
            for page in pages:
                page._disown()
        self._held.clear()

    def __repr__(self) -> str:
        return f"<Crawl {'ended' if self._is_closed else 'running' if self._has_begun else 'not begun'}>"

    # Pages and their holders

    def _hold(self, holder: Holder, page: Page) -> None:
        pages = self._held.get(holder)
        if pages is not None:
            pages.append(page)
            return
        self._held[holder] = [page]
        if not isinstance(holder, int):
            crawl = weakref.ref(self)

            def on_end(task: asyncio.Task[Any]) -> None:
                found = crawl()
                if found is not None:
                    found._leave(task, is_in_order=_is_returned(task))

            holder.add_done_callback(on_end)

    def _settle(self, holder: Holder) -> None:
        """The pages that are held are processed."""
        pages = self._held.get(holder)
        if pages:
            for page in pages:
                page._done()
            pages.clear()

    def _leave(self, holder: Holder | None, is_in_order: bool) -> None:
        """The holder takes no more pages."""
        if holder is not None:
            for page in self._held.pop(holder, ()):
                if is_in_order:
                    page._done()
                else:
                    page._give_back()

    def _give_all_back(self) -> None:
        for holder in list(self._held):
            # The task may have returned, without its callback having run.
            self._leave(holder, is_in_order=not isinstance(holder, int) and _is_returned(holder))

    # Waiting

    def _watch(self) -> asyncio.AbstractEventLoop:
        """Watches the file descriptor in the running loop."""
        loop = asyncio.get_running_loop()
        if self._loop is None:
            # The loop holds the callback, and must not hold the crawl: it could not be collected.
            crawl = weakref.ref(self)

            def on_readable() -> None:
                found = crawl()
                if found is not None:
                    found._on_readable()

            loop.add_reader(self._source.fileno(), on_readable)
            self._loop = loop
        elif self._loop is not loop:
            raise RuntimeError("the crawl belongs to another event loop")
        return loop

    def _unwatch(self) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._source.fileno())
        self._loop = None

    def _block(self, seconds: float | None = None) -> None:
        """Waits without asyncio, and answers what the crawl asks."""
        self._source.wait(seconds)
        if self._functions:
            self._source.answer(self._functions)

    def _on_readable(self) -> None:
        self._source.clear()
        if self._functions:
            self._source.answer(self._functions)
        self._wake_one()
        while self._other_waiters:
            _wake(self._other_waiters.popleft())

    def _wake_one(self) -> None:
        """Wakes one task that waits for a page. If it finds one, it wakes the next task."""
        while self._page_waiters:
            if _wake(self._page_waiters.popleft()):
                return

    async def _wait_for_page(self) -> None:
        waiter = self._watch().create_future()
        self._page_waiters.append(waiter)
        try:
            await waiter
        except BaseException:
            if waiter.done() and not waiter.cancelled():
                # This task was woken, and cannot look for a page any more.
                self._wake_one()
            raise

    async def _wait(self) -> None:
        waiter = self._watch().create_future()
        self._other_waiters.append(waiter)
        await waiter

    async def _begin(self) -> None:
        self._watch()
        while not self._source.start():
            await self._wait()

    async def _yield_sometimes(self) -> None:
        """Lets other tasks run if pages come without waiting."""
        now = time.monotonic()
        if now > self._turn_ends:
            await asyncio.sleep(0)
            self._turn_ends = time.monotonic() + _TURN_SECONDS

    async def _next(self, holder: Holder) -> Page:
        if self._is_closed:
            self._source.check()
            raise StopAsyncIteration
        if self._loop is None:
            await self._begin()
        await self._yield_sometimes()
        while True:
            found = self._take()
            if found is None:
                await self._wait_for_page()
                continue
            if self._page_waiters:
                self._wake_one()
            if found is False:
                raise StopAsyncIteration
            self._hold(holder, found)
            return found

    async def _send(self, holder: Holder, requests: Requests | None) -> Page:
        if requests is not None:
            if not self._has_begun:
                raise TypeError("can't send non-None value to a just-started crawl")
            self._source.feed(requests)
        self._settle(holder)
        return await self._next(holder)

    def _next_blocking(self, holder: Holder) -> Page:
        if self._is_closed:
            self._source.check()
            raise StopIteration
        while True:
            found = self._take()
            if found is None:
                self._block()
            elif found is False:
                raise StopIteration
            else:
                self._hold(holder, found)
                return found

    def _take(self) -> Page | Literal[False] | None:
        """The next page; None if there is none yet, False if no work is left but pages that are held."""
        try:
            found = self._source.take()
        except Error:
            self._over()
            raise
        if found is False and self._source.is_over():
            self._over()
        self._has_begun = True
        return found

    # The end

    async def _close(self, now: bool) -> None:
        if self._is_closed:
            self._source.check()
            return
        self._give_all_back()
        self._source.close(now=now)
        self._watch()
        try:
            while not self._source.ended():
                await self._wait()
        finally:
            self._over()

    def _close_blocking(self, now: bool) -> None:
        if self._is_closed:
            self._source.check()
            return
        self._give_all_back()
        self._source.close(now=now)
        try:
            while not self._source.ended():
                self._block()
        finally:
            self._over()

    def _over(self) -> None:
        """The crawl has ended."""
        self._unwatch()
        self._is_closed = True
        while self._page_waiters:
            _wake(self._page_waiters.popleft())
        while self._other_waiters:
            _wake(self._other_waiters.popleft())


class Batches:
    """The pages of a crawl in lists. Created by `Crawl.batches`."""

    def __init__(self, crawl: Crawl, size: int, wait: float) -> None:
        self._crawl = crawl
        self._size = size
        self._wait = wait

    def __aiter__(self) -> Self:
        return self

    def __anext__(self) -> Coroutine[list[Page]]:
        holder = _current_task()
        self._crawl._settle(holder)
        return self._next(holder)

    async def _next(self, holder: Holder) -> list[Page]:
        crawl, pages = self._crawl, [await self._crawl._next(holder)]
        ends = time.monotonic() + self._wait
        while len(pages) < self._size and not crawl._is_closed:
            found = crawl._take()
            if found is None:
                left = ends - time.monotonic()
                if left <= 0:
                    break
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(crawl._wait_for_page(), left)
            elif found is False:
                break
            else:
                crawl._hold(holder, found)
                pages.append(found)
        crawl._wake_one()
        return pages

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> list[Page]:
        holder = threading.get_ident()
        crawl = self._crawl
        crawl._settle(holder)
        pages = [crawl._next_blocking(holder)]
        ends = time.monotonic() + self._wait
        while len(pages) < self._size and not crawl._is_closed:
            found = crawl._take()
            if found is None:
                left = ends - time.monotonic()
                if left <= 0:
                    break
                crawl._block(left)
            elif found is False:
                break
            else:
                crawl._hold(holder, found)
                pages.append(found)
        return pages


class Feeding:
    """Requests that are being added to a crawl. Created by `Crawl.feed`."""

    def __init__(self, crawl: Crawl, feeding: SourceFeeding) -> None:
        self._crawl = crawl
        self._feeding = feeding

    def __await__(self) -> Generator[Any, None, FeedReport]:
        return self._report().__await__()

    async def _report(self) -> FeedReport:
        while True:
            report = self._feeding.poll()
            if report is not None:
                return FeedReport(tuple(report))
            await self._crawl._wait()

    def wait(self) -> FeedReport:
        """Waits without asyncio until the crawl has added the requests."""
        while (report := self._feeding.poll()) is None:
            self._crawl._block()
        return FeedReport(tuple(report))


if TYPE_CHECKING:
    from collections.abc import Coroutine as _Coroutine
    from typing import TypeVar

    _T = TypeVar("_T")
    Coroutine = _Coroutine[Any, Any, _T]


def _current_task() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    if task is None:
        raise RuntimeError("pages are asked for by a task: call this in a coroutine")
    return task


def _is_returned(task: asyncio.Task[Any]) -> bool:
    """Whether a task has ended by return."""
    # Not `exception()`: then asyncio would not report an exception that nobody retrieves.
    return task.done() and not task.cancelled() and getattr(task, "_exception", None) is None


def _disown_all() -> None:
    for crawl in _open_crawls:
        crawl._disown()


_open_crawls: weakref.WeakSet[Crawl] = weakref.WeakSet()
os.register_at_fork(after_in_child=_disown_all)


def _wake(waiter: asyncio.Future[None]) -> bool:
    """Wakes a task, unless it has been cancelled."""
    if waiter.done():
        return False
    waiter.set_result(None)
    return True
