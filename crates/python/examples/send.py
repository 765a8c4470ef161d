"""One loop drives a generator and a crawl with `asend`: python send.py https://example.org"""

import asyncio
import sys
from collections.abc import AsyncGenerator
from typing import Any

import argiope


async def squares(number: int) -> AsyncGenerator[int, int]:
    for _ in range(3):
        number = yield number * 2


async def drive(generator: Any, answer: Any) -> None:
    value = await anext(generator)
    while True:
        print("yields", value)
        try:
            value = await generator.asend(answer(value))
        except StopAsyncIteration:
            break


async def main(root: str) -> None:
    await drive(squares(1), lambda number: number**2)
    async with argiope.crawl(root, follow="none", max_pages=20) as crawl:
        # The program decides which links of a page are fetched: here the first three.
        await drive(crawl, lambda page: page.links[:3])


asyncio.run(main(sys.argv[1]))
