"""Argiope, the limit (wrk) and the peers: their commands, with the best settings for each task.

A peer is compared only if it fetched the same pages as Argiope, according to the server: it counts the pages and computes
a digest of their set. Peers do not request robots.txt; Argiope does, and obeys it.
"""

import json
import math
import os
import shutil
from dataclasses import dataclass

from . import process
from .result import Sample

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CACHE = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
PEERS = os.environ.get("ARGIOPE_PEERS") or os.path.join(CACHE, "argiope-bench")


@dataclass
class Task:
    """The task of a crawl, the same for all crawlers."""

    connections: int
    timeout: float = 300.0


class Argiope:
    """The command, with a crawl directory, and records as JSONL."""

    name = "argiope"

    def __init__(self, binary, flags=(), jsonl=True, pace="full", name=None):
        self.binary = binary
        self.flags = list(flags)
        self.jsonl = jsonl
        self.pace = pace
        self.name = name or self.name

    def command(self, web, work, task):
        command = [self.binary, "crawl", "-i", web.roots_file, "-q", "-c", task.connections, "--pace", self.pace]
        command += ["-d", os.path.join(work, "x.crawl")]
        if self.jsonl:
            command += ["--jsonl", os.path.join(work, "pages.jsonl")]
        if web.ca:
            command += ["--ca-cert", web.ca]
        return command + self.flags

    def visit(self, web, work, task):
        outcome = process.run(self.command(web, work, task), work, timeout=task.timeout)
        stats = web.stats()
        sample = make_sample(outcome, stats)
        if self.jsonl and not sample.void:
            records = count_ok(os.path.join(work, "pages.jsonl"))
            if records != stats["pages"]:
                sample.void = f"{records} records for {stats['pages']} pages"
        return sample


def count_ok(path):
    """Records of pages that were fetched."""
    count = 0
    with open(path, "rb") as file:
        for line in file:
            count += b'"outcome":"ok"' in line
    return count


def ok_urls(path):
    """URLs of pages that were fetched."""
    with open(path, "rb") as file:
        return [json.loads(line)["url"] for line in file if b'"outcome":"ok"' in line]


def make_sample(outcome, stats):
    """The result of a run, with the number of pages that the server counted."""
    sample = Sample(pages=stats["pages"], wall=outcome.wall, cpu=outcome.cpu, peak=outcome.peak)
    sample.more = {
        "requests": stats["requests"],
        "span_s": stats["span_us"] / 1e6,
        "digest": stats["pages_digest"],
        "violations": stats["violations"],
        "full": stats["handshakes_full"],
        "resumed": stats["handshakes_resumed"],
    }
    if outcome.timed_out:
        sample.void = "took too long"
    elif outcome.code != 0:
        sample.void = f"exit code {outcome.code}: {outcome.output.strip()[-200:]}"
    return sample


class Wrk:
    """The limit: fetching without crawling. Requests the same pages over the same number of connections."""

    name = "wrk (the limit)"

    SCRIPT = """
local requests, at = {}, 0
for line in io.lines(os.getenv("WRK_URLS")) do
  local host, target = line:match("^%w+://([^/]+)(.*)$")
  requests[#requests + 1] = "GET " .. target .. " HTTP/1.1\\r\\nHost: " .. host .. "\\r\\n\\r\\n"
end
request = function()
  at = at + 1
  if at > #requests then at = 1 end
  return requests[at]
end
"""

    def __init__(self, seconds):
        self.seconds = seconds

    def installed(self):
        return shutil.which("wrk")

    def visit(self, web, work, task, urls):
        """Requests `urls` repeatedly. Their port is replaced by that of the web."""
        url_file, script = os.path.join(work, "urls.txt"), os.path.join(work, "urls.lua")
        with open(url_file, "w") as file:
            file.writelines(with_port(url, web.port) + "\n" for url in urls)
        with open(script, "w") as file:
            file.write(self.SCRIPT)
        scheme = "https" if web.ca else "http"
        command = ["wrk", "-t1", f"-c{task.connections}", f"-d{self.seconds}s", "--timeout", "20s", "-s", script]
        command += [f"{scheme}://{with_port(urls[0], web.port).split('/')[2]}/"]
        outcome = process.run(command, work, timeout=self.seconds + 30, environment={"WRK_URLS": url_file})
        stats = web.stats()
        sample = make_sample(outcome, stats)
        # It requests pages repeatedly: every response counts.
        sample.pages = stats["answered"]
        sample.more["bytes"] = stats["bytes_sent"]
        if "Non-2xx" in outcome.output or "Socket errors" in outcome.output:
            errors = [line.strip() for line in outcome.output.splitlines() if "Non-2xx" in line or "Socket errors" in line]
            sample.void = "; ".join(errors)
        return sample


def with_port(url, port):
    """The URL with another port."""
    scheme, _, host, path = url.split("/", 3)
    return f"{scheme}//{host.rsplit(':', 1)[0]}:{port}/{path}"


class Peer:
    """Another crawler. `rounds` limits the runs of a slow one, `max_pages` its pages per scenario (0: it is left out)."""

    name = ""
    rounds = math.inf
    max_pages = {}

    def installed(self):
        """Whether the program can be run."""
        raise NotImplementedError

    def command(self, web, work, task):
        """The command that crawls a web. `work` is a folder for its files."""
        raise NotImplementedError

    def visit(self, web, work, task):
        outcome = process.run(self.command(web, work, task), work, timeout=task.timeout, environment=self.environment())
        if self.is_success(outcome):
            outcome.code = 0
        return make_sample(outcome, web.stats())

    def environment(self):
        return {}

    def is_success(self, outcome):
        """Whether the exit code means success. Some programs exit with another code than 0 after a 404."""
        return False


class Wget2(Peer):
    name = "wget2"

    def installed(self):
        return shutil.which("wget2")

    def command(self, web, work, task):
        return [
            "wget2", "-q", "-r", "-l", "inf", "--robots=off", f"--max-threads={task.connections}", "--delete-after",
            "--no-compression", "--tries=1", "--ignore-tags=img,link,script", "-P", work, "-i", web.roots_file,
        ]  # fmt: skip

    def is_success(self, outcome):
        # 8: the server sent an error status.
        return outcome.code in (0, 8)


class Httrack(Peer):
    name = "httrack"
    rounds = 2
    max_pages = {"S2": 8_000}

    def installed(self):
        return shutil.which("httrack")

    def command(self, web, work, task):
        connections = min(task.connections, 64)
        return [
            "httrack", "-q", "-%L", web.roots_file, "-O", os.path.join(work, "mirror"), "-s0", "-I0", "-p1", "-C0",
            f"-c{connections}", "-%c100000", "-A1000000000", "-%!", "-R0", "-a", "-#L1000000000",
        ]  # fmt: skip


class Spider(Peer):
    """The crate in our own program: see peers.d/spider."""

    name = "spider"
    max_pages = {"S2": 50_000}

    def path(self):
        return os.path.join(PEERS, "bin", "spider-bench")

    def installed(self):
        return os.path.exists(self.path()) and self.path()

    def command(self, web, work, task):
        return [self.path(), web.roots_file, task.connections]


class Siteone(Peer):
    name = "siteone-crawler"
    rounds = 2
    max_pages = {"S2": 4_000}

    def path(self):
        return os.path.join(PEERS, "bin", "siteone-crawler")

    def installed(self):
        return os.path.exists(self.path()) and self.path()

    def command(self, web, work, task):
        return [
            self.path(), f"--url={web.roots[0]}", f"--workers={task.connections}", "--max-reqs-per-sec=1000000",
            "--max-visited-urls=100000000", "--max-queue-length=100000000", "--ignore-robots-txt", "--http-cache-dir=",
            "--output=json", "--hide-progress-bar", "--disable-javascript", "--disable-styles", "--disable-fonts",
            "--disable-images", "--disable-files", "--allowed-domain-for-crawling=127.*",
            "--analyzer-filter-regex=/^none$/i", "--output-html-report=", "--output-json-file=", "--output-text-file=",
        ]  # fmt: skip


class Scrapy(Peer):
    name = "scrapy"
    rounds = 2
    max_pages = {"S2": 800, "S3 openjdk": 0}

    def path(self):
        return os.path.join(PEERS, "scrapy", "bin", "python")

    def installed(self):
        return os.path.exists(self.path()) and self.path()

    def command(self, web, work, task):
        return [self.path(), os.path.join(HERE, "peers.d", "scrapy_crawl.py"), web.roots_file, task.connections]


class Crawlee(Peer):
    name = "crawlee"
    rounds = 2
    max_pages = {"S2": 800, "S3 openjdk": 0}

    def installed(self):
        folder = os.path.join(PEERS, "crawlee", "node_modules", "@crawlee", "cheerio")
        return os.path.isdir(folder) and shutil.which("node")

    def command(self, web, work, task):
        # Node looks for packages beside the program.
        program = os.path.join(PEERS, "crawlee", "crawl.mjs")
        shutil.copy(os.path.join(HERE, "peers.d", "crawlee_crawl.mjs"), program)
        return ["node", program, web.roots_file, task.connections]

    def environment(self):
        return {"CRAWLEE_PERSIST_STORAGE": "false", "CRAWLEE_LOG_LEVEL": "ERROR"}


ALL_PEERS = [Wget2(), Spider(), Siteone(), Httrack(), Crawlee(), Scrapy()]
