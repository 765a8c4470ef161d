"""Prints the titles of a site: python titles.py https://example.org"""

import asyncio
import sys

import argiope


async def main(root: str) -> None:
    async with argiope.crawl(root, max_pages=100) as crawl:
        async for page in crawl:
            print(page.status, page.url, page.title)
    assert crawl.summary is not None
    print(crawl.summary.end, crawl.summary.left)


asyncio.run(main(sys.argv[1]))
