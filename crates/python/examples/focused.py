"""The most promising links first: python focused.py https://example.org spider"""

import asyncio
import sys
from typing import Optional

import argiope


async def main(root: str, word: str) -> None:
    def judge(link: argiope.FoundLink) -> Optional[int]:
        return 10 if word in link.text.lower() or word in link.url else 0

    async with argiope.crawl(root, judge=judge, max_pages=50) as crawl:
        async for page in crawl:
            print(word in page.text().lower(), page.url)


asyncio.run(main(sys.argv[1], sys.argv[2]))
