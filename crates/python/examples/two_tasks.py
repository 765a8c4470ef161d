"""Two tasks share one list without a lock: python two_tasks.py https://example.org"""

import asyncio
import sys

import argiope

urls: list[str] = []


async def fetch(root: str) -> None:
    async for page in argiope.crawl(root, max_pages=100):
        urls.append(page.url)


async def monitor() -> None:
    while True:
        print(len(urls), "pages")
        await asyncio.sleep(0.5)


async def main(root: str) -> None:
    monitoring = asyncio.create_task(monitor())
    await fetch(root)
    monitoring.cancel()
    print(len(urls), "pages in the end")


asyncio.run(main(sys.argv[1]))
