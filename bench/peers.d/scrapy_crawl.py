"""Scrapy as a peer: `scrapy_crawl.py ROOTS CONNECTIONS` crawls the hosts of all roots and discards the pages."""

import sys
from urllib.parse import urlsplit

from scrapy.crawler import CrawlerProcess
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule

roots = open(sys.argv[1]).read().split()
connections = int(sys.argv[2])


class Peer(CrawlSpider):
    name = "peer"
    start_urls = roots
    allowed_domains = [urlsplit(root).hostname for root in roots]
    rules = [Rule(LinkExtractor(tags=("a",)), follow=True)]


process = CrawlerProcess(
    {
        "ROBOTSTXT_OBEY": False,
        "CONCURRENT_REQUESTS": connections,
        "CONCURRENT_REQUESTS_PER_DOMAIN": connections,
        "DOWNLOAD_DELAY": 0,
        "AUTOTHROTTLE_ENABLED": False,
        "COOKIES_ENABLED": False,
        "RETRY_ENABLED": False,
        "REFERER_ENABLED": False,
        "TELNETCONSOLE_ENABLED": False,
        "LOG_ENABLED": False,
        "HTTPCACHE_ENABLED": False,
    }
)
process.crawl(Peer)
process.start()
