"""Which pages are processed: those whose task went on in order. All others are delivered again."""

from __future__ import annotations

import asyncio
import pathlib
import random
import signal
import subprocess
import sys
import warnings

import argiope
import pytest
from conftest import Site, number

pytestmark = pytest.mark.usefixtures("nothing_left")


def rest(root: str, directory: pathlib.Path) -> list[int]:
    """The pages that the next run delivers."""
    return sorted(number(page) for page in argiope.crawl(root, directory=directory))


def test_the_page_of_a_failed_task_goes_to_another_task(site: Site) -> None:
    root = site.star(40)
    done: list[int] = []

    async def main() -> None:
        async with argiope.crawl(root) as crawl:

            async def worker(fails: bool) -> None:
                async for page in crawl:
                    if fails and number(page) > 0:
                        raise ValueError(number(page))
                    await asyncio.sleep(0)
                    done.append(number(page))

            results = await asyncio.gather(worker(True), worker(True), worker(False), return_exceptions=True)
            # A page that was given back after the last worker had ended is delivered to whoever asks.
            done.extend([number(page) async for page in crawl])
        assert sum(isinstance(result, ValueError) for result in results) <= 2
        assert crawl.summary is not None and crawl.summary.unread == 0

    asyncio.run(main())
    assert sorted(done) == list(range(40))


@pytest.mark.parametrize("leaves", ["error", "cancel", "break", "return"])
def test_leaving_async_with_decides_about_the_page_that_is_held(
    site: Site, tmp_path: pathlib.Path, leaves: str
) -> None:
    root = site.star(20)
    taken: list[int] = []

    async def main() -> None:
        async with argiope.crawl(root, directory=tmp_path / "c") as crawl:
            async for page in crawl:
                taken.append(number(page))
                if len(taken) == 5:
                    if leaves == "error":
                        raise LookupError
                    if leaves == "cancel":
                        raise asyncio.CancelledError
                    if leaves == "return":
                        return
                    break

    try:
        asyncio.run(main())
    except (LookupError, asyncio.CancelledError):
        pass
    processed = set(taken[:4]) if leaves in ("error", "cancel") else set(taken)
    assert rest(root, tmp_path / "c") == sorted(set(range(20)) - processed)


@pytest.mark.parametrize("fails", [True, False])
def test_leaving_with_decides_without_asyncio_too(site: Site, tmp_path: pathlib.Path, fails: bool) -> None:
    root = site.star(20)
    taken: list[int] = []
    try:
        with argiope.crawl(root, directory=tmp_path / "c") as crawl:
            for page in crawl:
                taken.append(number(page))
                if len(taken) == 5:
                    if fails:
                        raise LookupError
                    break
    except LookupError:
        pass
    assert rest(root, tmp_path / "c") == sorted(set(range(20)) - set(taken[:4] if fails else taken))


def test_a_list_of_pages_is_processed_as_one(site: Site, tmp_path: pathlib.Path) -> None:
    root = site.star(60)
    done: list[int] = []

    async def main() -> None:
        async with argiope.crawl(root, directory=tmp_path / "c") as crawl:
            async for pages in crawl.batches(7, wait=0.05):
                if len(done) > 20:
                    raise LookupError
                done.extend(map(number, pages))

    with pytest.raises(LookupError):
        asyncio.run(main())
    assert rest(root, tmp_path / "c") == sorted(set(range(60)) - set(done))


def test_wait_for_holds_the_page_for_the_task_that_calls_it(site: Site, tmp_path: pathlib.Path) -> None:
    root = site.star(10)

    async def main() -> int:
        async with argiope.crawl(root, directory=tmp_path / "c") as crawl:
            first = await asyncio.wait_for(anext(crawl), 30)
            await asyncio.wait_for(anext(crawl), 30)
            # Other tasks run, also those that `wait_for` has made.
            await asyncio.sleep(0.01)
            number(first)
            raise LookupError

    with pytest.raises(LookupError):
        asyncio.run(main())
    assert rest(root, tmp_path / "c") == list(range(1, 10))


def test_several_pages_may_be_asked_for_at_once(site: Site) -> None:
    root = site.star(40)

    async def main() -> list[int]:
        taken = []
        async with argiope.crawl(root) as crawl:
            while True:
                found = await asyncio.gather(*(anext(crawl) for _ in range(4)), return_exceptions=True)
                taken += [number(page) for page in found if isinstance(page, argiope.Page)]
                if any(isinstance(page, StopAsyncIteration) for page in found):
                    return taken

    assert sorted(asyncio.run(main())) == list(range(40))


def test_cancelled_requests_for_pages_lose_and_double_nothing(site: Site) -> None:
    root = site.star(100)
    chance = random.Random(7)

    async def main() -> list[int]:
        taken: list[int] = []
        async with argiope.crawl(root, pace="full") as crawl:
            ended = False
            while not ended:

                async def worker() -> None:
                    nonlocal ended
                    try:
                        page = await anext(crawl)
                    except StopAsyncIteration:
                        ended = True
                        return
                    # No await: from here on the page is processed.
                    taken.append(number(page))

                tasks = [asyncio.ensure_future(worker()) for _ in range(5)]
                await asyncio.sleep(chance.choice([0, 0, 0.0005, 0.001]))
                for task in tasks:
                    if chance.random() < 0.5:
                        task.cancel()
                await asyncio.wait(tasks)
        return taken

    assert sorted(asyncio.run(main())) == list(range(100))


def test_a_run_that_is_cancelled_again_and_again_does_every_page_once(site: Site, tmp_path: pathlib.Path) -> None:
    root = site.star(100)
    done: list[int] = []
    chance = random.Random(3)

    async def run() -> bool:
        async with argiope.crawl(root, directory=tmp_path / "c", pace="full", robots="ignore") as crawl:

            async def worker() -> None:
                async for page in crawl:
                    await asyncio.sleep(chance.choice([0, 0.001]))
                    done.append(number(page))

            async with asyncio.timeout(chance.uniform(0.0, 0.5)):
                await asyncio.gather(*(worker() for _ in range(4)))
        return crawl.summary is not None and crawl.summary.end == "finished"

    for _ in range(1_000):
        try:
            if asyncio.run(run()):
                break
        except TimeoutError:
            pass
    assert sorted(done) == list(range(100))


def test_asend_that_is_cancelled_has_fed_once(site: Site) -> None:
    root = site.star(1)
    site.html("/new")

    async def main() -> None:
        async with argiope.crawl(root) as crawl:
            held = await anext(crawl)

            async def other() -> argiope.Page:
                return await crawl.asend([site.url("/new")])

            task = asyncio.ensure_future(other())
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            rest = [page.url async for page in crawl]
            assert rest == [site.url("/new")] or (not task.cancelled() and not rest), held

    asyncio.run(main())
    assert site.requests["/new"] == 1


def test_athrow_gives_the_page_back_and_closes(site: Site, tmp_path: pathlib.Path) -> None:
    root = site.star(3)

    async def main() -> None:
        async with argiope.crawl(root, directory=tmp_path / "c") as crawl:
            await anext(crawl)
            with pytest.raises(LookupError):
                await crawl.athrow(LookupError())
            assert [page async for page in crawl] == []

    asyncio.run(main())
    assert rest(root, tmp_path / "c") == [0, 1, 2]


def test_a_crawl_that_is_dropped_with_a_page_warns(site: Site) -> None:
    root = site.star(50)

    async def main() -> None:
        async for _ in argiope.crawl(root):
            break

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        asyncio.run(main())
    assert any("async with" in str(warning.message) for warning in caught), caught


KILLED = """
import argiope, sys, threading
root, directory = sys.argv[1:]
with argiope.crawl(root, directory=directory) as crawl:
    def show(word, page):
        sys.stdout.write(f"{word} {page.url.rsplit('/', 1)[1]}\\n")
        sys.stdout.flush()

    def hold():
        show("held", next(crawl))
        threading.Event().wait()

    first = next(crawl)
    for _ in range(5):
        threading.Thread(target=hold, daemon=True).start()
    show("begin", first)
    for page in crawl:
        show("begin", page)
        page._done_durably()
        show("done", page)
"""


@pytest.mark.parametrize("lines", [1, 2, 9, 24, 47, 80, 111])
def test_exactly_what_was_done_survives_a_kill(site: Site, tmp_path: pathlib.Path, lines: int) -> None:
    root = site.star(60)
    command = [sys.executable, "-c", KILLED, root, str(tmp_path / "c")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        printed = [child.stdout.readline() for _ in range(lines)]
        child.send_signal(signal.SIGKILL)
        printed += child.stdout.readlines()
    words = ("begin", "done", "held")
    begun, done, held = ({int(line.split()[1]) for line in printed if line.startswith(word)} for word in words)
    again = rest(root, tmp_path / "c")
    assert len(again) == len(set(again))
    assert done.isdisjoint(again) and held <= set(again)
    # Besides what is done, only the page that was being stored when the process was killed, and the first one.
    missing = set(range(60)) - set(again)
    assert done <= missing <= begun and len(missing - done) <= 2
