"""Eight workers save pages. After Ctrl-C or a crash the next run goes on: python workers.py https://example.org s.crawl"""

import asyncio
import sys

import argiope


async def save(page: argiope.Page) -> None:
    await asyncio.sleep(0)
    print(page.url)


async def main(root: str, directory: str) -> None:
    async with argiope.crawl(root, directory=directory) as crawl, asyncio.timeout(3600):

        async def worker() -> None:
            async for page in crawl:
                await save(page)

        await asyncio.gather(*(worker() for _ in range(8)))


asyncio.run(main(sys.argv[1], sys.argv[2]))
