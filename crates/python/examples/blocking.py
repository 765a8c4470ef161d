"""The same without asyncio: python blocking.py https://example.org"""

import sys

import argiope

for page in argiope.crawl(sys.argv[1], max_pages=100):
    print(page.status, page.url, page.title)
