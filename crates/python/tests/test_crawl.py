"""Crawls in both kinds of loops."""

from __future__ import annotations

import asyncio

import argiope
import pytest
from conftest import Site, number

pytestmark = pytest.mark.usefixtures("nothing_left")


def test_a_crawl_is_an_asynchronous_iterator(site: Site) -> None:
    root = site.star(30)

    async def main() -> list[int]:
        async with argiope.crawl(root) as crawl:
            assert crawl.summary is None
            pages = [number(page) async for page in crawl]
        assert crawl.summary is not None
        assert (crawl.summary.end, crawl.summary.left, crawl.summary.pages) == ("finished", 0, 30)
        return pages

    assert sorted(asyncio.run(main())) == list(range(30))


def test_a_crawl_is_an_iterator_without_asyncio(site: Site) -> None:
    pages = [number(page) for page in argiope.crawl(site.star(30))]
    assert sorted(pages) == list(range(30))


def test_the_ordinary_iterator_works_inside_a_running_loop(site: Site) -> None:
    root = site.star(5)

    async def main() -> int:
        return len(list(argiope.crawl(root)))

    assert asyncio.run(main()) == 5


def test_without_async_with_a_crawl_closes_when_the_loop_ends(site: Site) -> None:
    root = site.star(5)

    async def main() -> int:
        return len([page async for page in argiope.crawl(root)])

    assert asyncio.run(main()) == 5


def test_with_closes_a_crawl_that_is_left_early(site: Site) -> None:
    with argiope.crawl(site.star(50)) as crawl:
        for _ in crawl:
            break
    assert crawl.summary is not None
    assert crawl.summary.end == "interrupted"
    assert list(crawl) == []


def test_each_page_goes_to_exactly_one_worker(site: Site) -> None:
    root = site.star(200)

    async def main() -> list[list[int]]:
        async with argiope.crawl(root) as crawl:

            async def worker() -> list[int]:
                taken = []
                async for page in crawl:
                    await asyncio.sleep(0)
                    taken.append(number(page))
                return taken

            return await asyncio.gather(*(worker() for _ in range(8)))

    shares = asyncio.run(main())
    assert sorted(sum(shares, [])) == list(range(200))
    assert sum(1 for share in shares if share) > 1


def test_threads_share_the_ordinary_iterator(site: Site) -> None:
    import threading

    taken: list[int] = []
    with argiope.crawl(site.star(200)) as crawl:
        threads = [threading.Thread(target=lambda: taken.extend(map(number, crawl))) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(taken) == list(range(200))


def test_batches_have_every_page_once(site: Site) -> None:
    root = site.star(100)

    async def main() -> list[list[int]]:
        async with argiope.crawl(root) as crawl:
            return [[number(page) for page in pages] async for pages in crawl.batches(16, wait=0.05)]

    batches = asyncio.run(main())
    assert sorted(sum(batches, [])) == list(range(100))
    assert max(map(len, batches)) <= 16
    with argiope.crawl(root) as crawl:
        again = [[number(page) for page in pages] for pages in crawl.batches(16, wait=0.05)]
    assert sorted(sum(again, [])) == list(range(100))


def test_asend_feeds_and_returns_the_next_page(site: Site) -> None:
    site.html("/0", links=["/1", "/2"])
    site.html("/1", links=["/3"])
    site.html("/2")
    site.html("/3")

    async def main() -> list[int]:
        taken = []
        async with argiope.crawl(site.url("/0"), follow="none") as crawl:
            with pytest.raises(TypeError, match="just-started"):
                await crawl.asend([site.url("/9")])
            page = await crawl.asend(None)
            while True:
                taken.append(number(page))
                try:
                    page = await crawl.asend(page.links)
                except StopAsyncIteration:
                    return taken

    assert sorted(asyncio.run(main())) == [0, 1, 2, 3]
    assert site.requests["/9"] == 0


def test_feed_says_what_became_of_each_request(site: Site) -> None:
    root = site.star(1)
    site.html("/new")

    async def main() -> None:
        async with argiope.crawl(root) as crawl:
            await anext(crawl)
            report = await crawl.feed([site.url("/new"), root, argiope.Request(site.url("/new"), key="again")])
            assert report.requests == ("added", "known", "added")
            assert (report.added, report.known, report.refused) == (2, 1, 0)
            assert [page.url async for page in crawl] == [site.url("/new")] * 2

    asyncio.run(main())
    with argiope.crawl(root) as crawl:
        next(crawl)
        assert crawl.feed(site.url("/new")).wait().added == 1
        assert [page.url for page in crawl] == [site.url("/new")]
        with pytest.raises(argiope.Error, match="not running|ended"):
            crawl.feed(site.url("/late"))


def test_feed_stays_open_while_a_task_holds_a_page(site: Site) -> None:
    root = site.star(2)
    site.html("/late")

    async def main() -> None:
        async with argiope.crawl(root) as crawl:
            held = await anext(crawl)
            rest = await asyncio.create_task(_all(crawl))
            assert (number(held), [number(page) for page in rest]) == (0, [1])
            assert (await crawl.feed(site.url("/late"))).added == 1
            assert [page.url async for page in crawl] == [site.url("/late")]

    asyncio.run(main())


async def _all(crawl: argiope.Crawl) -> list[argiope.Page]:
    return [page async for page in crawl]


def test_a_crawl_can_be_paused_watched_and_stopped(site: Site) -> None:
    root = site.star(2_000)

    async def main() -> None:
        async with argiope.crawl(root, pace="full") as crawl:
            await anext(crawl)
            crawl.pause()
            status = crawl.status()
            assert status["state"] == "paused" and status["queued"] > 0, status
            crawl.resume()
            await anext(crawl)
            crawl.stop()
            rest = [page async for page in crawl]
            assert len(rest) < 1_998
        assert crawl.summary is not None and crawl.summary.end == "interrupted"
        with pytest.raises(argiope.Error):
            crawl.status()

    asyncio.run(main())


def test_fetch_follows_redirects_and_lists_them(site: Site) -> None:
    site.pages["/old"] = lambda _: (301, {"Location": "/older"}, b"")
    site.pages["/older"] = lambda _: (302, {"Location": "/new"}, b"")
    site.html("/new", "<title>New</title>", ["/other"])
    page = asyncio.run(argiope.fetch(site.url("/old")))
    assert (page.url, page.title, page.redirects) == (site.url("/new"), "New", [site.url("/old"), site.url("/older")])
    assert site.requests["/other"] == 0
    assert asyncio.run(argiope.fetch(site.url("/none"))).status == 404


def test_fetch_of_a_disallowed_url_is_a_page_with_that_outcome(site: Site) -> None:
    site.pages["/robots.txt"] = lambda _: (200, {}, b"User-agent: *\nDisallow: /")
    site.html("/secret")
    page = asyncio.run(argiope.fetch(site.url("/secret")))
    assert (page.outcome, page.status, page.ok) == ("robots", None, False)
    assert site.requests["/secret"] == 0


def test_several_crawls_run_in_one_loop(site: Site) -> None:
    root = site.star(20)

    async def main() -> list[int]:
        async def one() -> int:
            async with argiope.crawl(root) as crawl:
                return len([page async for page in crawl])

        return await asyncio.gather(*(one() for _ in range(5)))

    assert asyncio.run(main()) == [20] * 5
