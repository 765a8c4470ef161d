"""A web server on a loopback address, which the tests crawl."""

from __future__ import annotations

import contextlib
import gc
import http.server
import os
import pathlib
import threading
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

Answer = tuple[int, dict[str, str], bytes]


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 512

    def handle_error(self, request: object, client_address: object) -> None:
        """A crawler that was killed has closed its connections."""


class Site:
    """A site whose pages are functions of the path. Unknown paths are 404."""

    def __init__(self) -> None:
        self.pages: dict[str, Callable[[Handler], Answer]] = {}
        self.requests: Counter[str] = Counter()
        self.log: list[tuple[str, str, bytes]] = []
        self.server = Server(("127.5.7.1", 0), Handler)
        self.server.site = self  # type: ignore[attr-defined]
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)
        self.thread.start()

    def url(self, path: str = "/") -> str:
        return f"http://127.5.7.1:{self.server.server_port}{path}"

    def html(self, path: str, body: str = "", links: list[str] | None = None) -> None:
        body += "".join(f'<a href="{link}">link {link}</a>' for link in links or [])
        self.pages[path] = lambda _: (200, {"Content-Type": "text/html"}, body.encode())

    def star(self, count: int) -> str:
        """A root `/0` that links to the pages `/1` and so on; returns its URL."""
        self.html("/0", "<title>page /0</title>", [f"/{number}" for number in range(1, count)])
        for number in range(1, count):
            self.html(f"/{number}", f"<title>page /{number}</title><h1>{number}</h1>")
        return self.url("/0")

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def answer(self) -> None:
        site: Site = self.server.site  # type: ignore[attr-defined]
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        site.requests[self.path] += 1
        site.log.append((self.command, self.path, body))
        page = site.pages.get(self.path)
        status, headers, content = page(self) if page else (404, {}, b"")
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    do_GET = do_POST = do_PUT = do_HEAD = answer

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    yield site
    site.close()


@pytest.fixture
def nothing_left() -> Iterator[None]:
    """Fails the test if it leaves a descriptor or a thread of a crawl."""

    def open_now() -> tuple[int, int]:
        gc.collect()
        names = []
        for thread in os.listdir("/proc/self/task"):
            # A thread may end while the list is read.
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                names.append(pathlib.Path(f"/proc/self/task/{thread}/comm").read_text())
        kinds = [_target(fd) for fd in os.listdir("/proc/self/fd")]
        return sum(name.startswith("argiope") for name in names), sum("eventfd" in kind for kind in kinds)

    before = open_now()
    yield
    # The threads of a crawl that was dropped end by themselves.
    for _ in range(500):
        if open_now() <= before:
            return
        threading.Event().wait(0.01)
    raise AssertionError(f"threads and descriptors before and after: {before}, {open_now()}")


def _target(fd: str) -> str:
    """What a descriptor is; empty if it was closed since the list was read."""
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    except FileNotFoundError:
        return ""


def number(page: object) -> int:
    """The number in the path of a page of a star."""
    return int(page.url.rsplit("/", 1)[1])  # type: ignore[attr-defined]
