"""Waiting: other tasks run, nothing is left behind, and signals, forks and the end of the interpreter work."""

from __future__ import annotations

import asyncio
import gc
import pathlib
import signal
import subprocess
import sys
import threading
import time
import warnings
import weakref

import argiope
import pytest
from conftest import Site, number

pytestmark = pytest.mark.usefixtures("nothing_left")


def run_program(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-X", "dev", "-W", "error", "-c", program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_other_tasks_run_while_pages_come_without_waiting(site: Site) -> None:
    root = site.star(200)

    async def main() -> tuple[int, int]:
        ticks = 0

        async def ticker() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(0)
                ticks += 1

        ticking = asyncio.ensure_future(ticker())
        async with argiope.crawl(root, pace="full") as crawl:
            await anext(crawl)
            # All pages are there before the first is taken.
            while crawl.status()["pages"] < 200:
                await asyncio.sleep(0.01)
            before, pages = ticks, 1
            async for _ in crawl:
                pages += 1
                # Work on a page that takes a fifth of a turn, whatever the machine.
                end = time.monotonic() + 0.000_2
                while time.monotonic() < end:
                    pass
        ticking.cancel()
        return pages, ticks - before

    pages, ticks = asyncio.run(main())
    assert pages == 200 and ticks > 10


def test_a_thread_that_waits_for_a_page_leaves_the_interpreter_to_others(site: Site) -> None:
    release = threading.Event()

    def slow(_: object) -> tuple[int, dict[str, str], bytes]:
        # This thread of the server needs the interpreter while the crawl waits for it.
        release.wait(30)
        return 200, {}, b""

    site.pages["/"] = slow
    threading.Timer(0.05, release.set).start()
    assert len(list(argiope.crawl(site.url()))) == 1


def test_a_crawl_that_is_dropped_is_collected(site: Site) -> None:
    root = site.star(100)

    async def main() -> None:
        crawl = argiope.crawl(root)
        await anext(crawl)
        crawl._settle(asyncio.current_task())  # type: ignore[arg-type]
        alive = weakref.ref(crawl)
        del crawl
        gc.collect()
        assert alive() is None

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        asyncio.run(main())


def test_a_crawl_that_was_not_begun_leaves_nothing(site: Site) -> None:
    argiope.crawl(site.url())
    assert not site.requests


def test_many_loops_one_after_the_other_leave_nothing(site: Site) -> None:
    root = site.star(3)

    async def main() -> int:
        async with argiope.crawl(root, robots="ignore") as crawl:
            return len([page async for page in crawl])

    for _ in range(50):
        assert asyncio.run(main()) == 3


def test_a_crawl_belongs_to_one_loop(site: Site) -> None:
    root = site.star(50)
    crawl = argiope.crawl(root)

    async def take() -> argiope.Page:
        return await anext(crawl)

    loop = asyncio.new_event_loop()
    loop.run_until_complete(take())

    async def first_that_waits() -> None:
        while True:
            await anext(crawl)

    with pytest.raises((RuntimeError, StopAsyncIteration), match="another event loop|^$"):
        asyncio.run(first_that_waits())
    loop.run_until_complete(crawl.aclose())
    loop.close()


INTERRUPTED = """
import argiope, asyncio, sys
mode, root, directory = sys.argv[1:]
done = []

async def main():
    async with argiope.crawl(root, directory=directory, timeout=60) as crawl:
        async for page in crawl:
            done.append(page.url)
            print("ready", flush=True)

try:
    if mode == "asyncio":
        asyncio.run(main())
    else:
        with argiope.crawl(root, directory=directory, timeout=60) as crawl:
            for page in crawl:
                done.append(page.url)
                print("ready", flush=True)
except KeyboardInterrupt:
    print("interrupted", len(done), flush=True)
"""


@pytest.mark.parametrize("mode", ["asyncio", "blocking"])
def test_ctrl_c_ends_a_crawl_that_waits(site: Site, tmp_path: pathlib.Path, mode: str) -> None:
    never = threading.Event()

    def slow(_: object) -> tuple[int, dict[str, str], bytes]:
        never.wait(60)
        return 200, {}, b""

    site.html("/0", links=["/1"])
    site.pages["/1"] = slow
    command = [sys.executable, "-X", "dev", "-W", "error", "-c", INTERRUPTED, mode, site.url("/0"), str(tmp_path / "c")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        while not site.requests["/1"]:
            time.sleep(0.005)
        child.send_signal(signal.SIGINT)
        output, errors = child.communicate(timeout=30)
    never.set()
    assert (output, errors, child.returncode) == ("interrupted 1\n", "", 0)
    site.html("/1")
    # Page 0 is processed if the loop had asked for the next page when the signal arrived.
    rest = sorted(number(page) for page in argiope.crawl(site.url("/0"), directory=tmp_path / "c"))
    assert rest in ([1], [0, 1])


EXITS = """
import argiope, asyncio, sys
root = sys.argv[1]
crawl = argiope.crawl(root)
if sys.argv[2] == "asyncio":
    async def main():
        await anext(crawl)
        crawl._settle(asyncio.current_task())
    asyncio.run(main())
else:
    next(crawl)
    crawl._settle(next(iter(crawl._held)))
kept_alive_by_a_cycle = [crawl]
kept_alive_by_a_cycle.append(kept_alive_by_a_cycle)
if sys.argv[3] == "exit":
    sys.exit(0)
"""


@pytest.mark.parametrize("mode", ["asyncio", "blocking"])
@pytest.mark.parametrize("end", ["return", "exit"])
def test_the_interpreter_ends_in_the_middle_of_a_crawl(site: Site, mode: str, end: str) -> None:
    result = run_program(EXITS, site.star(500), mode, end)
    assert (result.returncode, result.stderr) == (0, "")


FORKS = """
import argiope, os, sys
root = sys.argv[1]
crawl = argiope.crawl(root)
next(crawl)
child = os.fork()
if child == 0:
    for use in (lambda: next(crawl), lambda: crawl.feed(root), crawl.status, crawl.stop, crawl.close):
        try:
            use()
        except argiope.Error as error:
            assert "fork" in str(error), error
        else:
            os._exit(3)
    del crawl
    # A new crawl works.
    os._exit(0 if len(list(argiope.crawl(root))) == 20 else 4)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
# The parent's crawl is not affected.
assert len(list(crawl)) == 19
"""


def test_a_forked_process_cannot_use_the_crawl_and_can_start_another(site: Site) -> None:
    result = run_program(FORKS, site.star(20))
    assert (result.returncode, result.stderr) == (0, "")


def test_a_server_that_never_answers_does_not_keep_a_cancelled_crawl(site: Site) -> None:
    never = threading.Event()

    def slow(_: object) -> tuple[int, dict[str, str], bytes]:
        never.wait(60)
        return 200, {}, b""

    site.pages["/"] = slow

    async def main() -> None:
        async with argiope.crawl(site.url(), robots="ignore") as crawl:
            task = asyncio.ensure_future(anext(crawl))
            while not site.requests["/"]:
                await asyncio.sleep(0.005)
            task.cancel()
            await task

    begun = time.monotonic()
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(main())
    # Not the 30 seconds for which an orderly end waits for fetches.
    assert time.monotonic() - begun < 25
    never.set()


def test_the_package_needs_only_the_standard_library() -> None:
    program = "import sys, argiope; print([name for name in sys.modules if name in ('pyarrow', 'numpy', 'anyio')])"
    assert run_program(program).stdout == "[]\n"
