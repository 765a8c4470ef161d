"""Scenarios of speed: throughput, real documentation, TLS, large pages, growth.

Every scenario is a function that takes a `Suite` and returns measures, samples and notes. Sizes are those of the table in
docs/performance.md. With `quick` they are small, to test the suite itself; its figures are not measurements.
"""

import math
import os

from . import programs
from .entries import add_limit, best_peer, crawl, smaller_web_notes, limit_of
from .programs import Argiope, Task, Wrk
from .result import Measure, median, ratio


def s2(suite):
    """Throughput: 200,000 pages of 10 KB with 50 links, 16 hosts, 64 connections, no delay, client on one core."""
    total = 3_200 if suite.quick else 200_000
    task = Task(64, 600)

    def flags(pages):
        each = max(1, pages // 16)
        return ["--hosts", 16, "--seeds", 16, "--pages", each, "--size", 10240, "--links", 50, "--cross", 100]

    entries = {"argiope": crawl(suite, flags(total), Argiope(suite.binary), task)}
    urls = [f"http://127.1.0.{1 + n % 16}:80/p{1 + n // 16 % (total // 16 - 1)}" for n in range(0, total, 7)]
    add_limit(suite, entries, flags(total), task, urls)
    for peer in suite.peers("S2"):
        entries[peer.name] = crawl(suite, flags(min(total, peer.max_pages.get("S2", total))), peer, task)
    samples = suite.rounds(entries)
    ours = [run.rate for run in samples["argiope"]]
    measures = [
        Measure("pages per CPU second / wrk's requests per CPU second", ratio(ours, limit_of(samples)), 0.25, 0.45),
        best_peer(suite, samples, ours, 3, 5),
    ]
    notes = smaller_web_notes(suite, "S2", total)
    return measures, samples, notes


DOCUMENTATION = {
    "python": ("python3-doc", "/usr/share/doc/python3-doc/html"),
    "openjdk": ("openjdk-17-doc", "/usr/share/doc/openjdk-17-doc/api"),
}


def s3(suite):
    """CPU per page on real documentation: python3-doc and openjdk-17-doc, one host, 64 connections."""
    measures, all_samples, notes = [], {}, []
    for key, (package, folder) in DOCUMENTATION.items():
        if not os.path.exists(folder):
            notes.append(f"MISSING: {package} is not installed ({folder}); bench/peers installs it.")
            measures.append(Measure(f"{package}: CPU per page / floor", [], 2.5, 1.5, higher=False))
            continue
        if suite.quick and key == "openjdk":
            notes.append(f"{package} is left out of a quick run.")
            continue
        part, words = documentation(suite, key, package, folder)
        measures += part[0]
        all_samples |= {f"{package}: {name}": runs for name, runs in part[1].items()}
        notes += words
    return measures, all_samples, notes


def documentation(suite, key, package, folder):
    flags = ["--family", "files", "--folder", folder]
    task = Task(64, 300)
    argiope = Argiope(suite.binary)
    urls = []

    def ours():
        with suite.web(flags) as (web, work):
            sample = argiope.visit(web, work, task)
            sample.more["web"] = " ".join(map(str, flags))
            if not urls and not sample.void:
                urls.extend(programs.ok_urls(f"{work}/pages.jsonl"))
            return sample

    entries = {"argiope": ours}
    add_limit(suite, entries, flags, task, urls)
    for peer in suite.peers(f"S3 {key}"):
        if peer.max_pages.get(f"S3 {key}") != 0:
            entries[peer.name] = crawl(suite, flags, peer, task)
    samples = suite.rounds(entries)
    costs = [run.cost for run in samples["argiope"]]
    rates = [run.rate for run in samples["argiope"]]
    floors = []
    for run in samples.get(Wrk.name, []):
        valid = run.cost and run.more["bytes"]
        floors.append(run.cost + run.more["bytes"] / run.pages / 1e9 if valid else None)
    measures = [Measure(f"{package}: CPU per page / (wrk's + bytes at 1 GB/s)", ratio(costs, floors), 2.5, 1.5, higher=False)]
    for name, bar, goal in (("wget2", 3, 5), ("scrapy", 50, None)):
        peer_runs = samples.get(name)
        if name == "scrapy" and key == "openjdk":
            continue
        values = ratio(rates, [median([run.rate for run in peer_runs])] * len(rates)) if peer_runs else []
        measures.append(Measure(f"{package}: pages per CPU second / {name}'s", values, bar, goal))
    notes = [f"{package}: {peer.name} is left out, a run would take more than ten minutes."
             for peer in suite.peers(f"S3 {key}") if peer.max_pages.get(f"S3 {key}") == 0]
    return (measures, samples), notes


def s8(suite):
    """TLS: 5,000 hosts of 4 pages; one host of 50,000 pages; servers that close after each response."""
    hosts, pages = (50, 500) if suite.quick else (5_000, 50_000)
    many = ["--hosts", hosts, "--seeds", hosts, "--pages", 4]
    one = ["--pages", pages, "--size", 10240, "--links", 50]
    closing_hosts = 10 if suite.quick else 100
    closing = ["--hosts", closing_hosts, "--seeds", closing_hosts, "--pages", 50, "--close"]
    tls = ["--tls", "good"]
    single = Argiope(suite.binary, ["--per-host", 1])
    entries = {
        "many hosts": crawl(suite, many + tls, single, Task(64, 300)),
        "one host, plain": crawl(suite, one, Argiope(suite.binary), Task(64, 300)),
        "one host, TLS": crawl(suite, one + tls, Argiope(suite.binary), Task(64, 300)),
        "closing servers": crawl(suite, closing + tls, single, Task(64, 300)),
    }
    samples = suite.rounds(entries)

    def handshakes(name, figure):
        """A figure per run, from the numbers of full and of resumed handshakes."""
        return [figure(run.more["full"], run.more["resumed"]) if not run.void else None for run in samples[name]]

    def speeds(name, by):
        """Pages per second of wall or CPU time."""
        return [run.pages / getattr(run, by) if not run.void else None for run in samples[name]]

    reconnects = handshakes("closing servers", lambda full, resumed: resumed / max(1, full + resumed - closing_hosts))
    measures = [
        Measure("full handshakes per host", handshakes("many hosts", lambda full, _: full / hosts), 1, 1, higher=False),
        Measure(
            "pages per CPU second / plain HTTP's", ratio(speeds("one host, TLS", "cpu"), speeds("one host, plain", "cpu")), 0.7, 0.85
        ),
        Measure("pages per second / plain HTTP's", ratio(speeds("one host, TLS", "wall"), speeds("one host, plain", "wall")), 0.7, 0.85),
        Measure("share of reconnects that are resumed", reconnects, 0.95, None),
    ]
    return measures, samples, ["The server has one core as well: pages per second depend on its work, too."]


def s11(suite):
    """Large pages: 1, 10 and 100 MB, plain and gzip, 16 in flight, within a raised --max-size."""
    # About the same number of bytes for each size; the server offers as many copies of every page as the smallest one needs.
    counts = {1: 16, 10: 16, 100: 16} if suite.quick else {1: 1600, 10: 160, 100: 16}
    flags = ["--family", "big", "--pages", max(counts.values())]
    task = Task(16, 300)
    entries = {}

    def sized(megabytes, is_gzip):
        # Matches the numbers below the count, which is 16, 160 or 1600.
        digits = len(str(counts[megabytes])) - 1
        copies = f"([0-9]{{1,{digits}}}|1[0-5][0-9]{{{digits - 1}}})$"
        path = f"/{megabytes}{'[.]gz' if is_gzip else ''}[?]{copies}"
        program = Argiope(suite.binary, ["--max-size", "128M", "--include", path, "--timeout", "5m"])

        def visit():
            with suite.web(flags) as (web, work):
                sample = program.visit(web, work, task)
                if sample.pages != counts[megabytes] + 1 and not sample.void:
                    sample.void = f"{sample.pages} of {counts[megabytes] + 1} pages"
                sample.more["body_bytes"] = counts[megabytes] * megabytes << 20
                return sample

        return visit

    sizes = (1, 10, 100)
    limit = Wrk(1 if suite.quick else 3)
    for megabytes in sizes:
        entries[f"{megabytes} MB"] = sized(megabytes, is_gzip=False)
        entries[f"{megabytes} MB, gzip"] = sized(megabytes, is_gzip=True)
        if limit.installed():
            urls = [f"http://127.0.0.1:80/{megabytes}?{copy}" for copy in range(counts[megabytes])]
            entries[f"{megabytes} MB, {Wrk.name}"] = lambda urls=urls: wrk_large(suite, flags, limit, task, urls)
    samples = suite.rounds(entries)
    measures = []
    for megabytes in sizes:
        wrk_runs = samples.get(f"{megabytes} MB, {Wrk.name}", [])
        rates = [run.more["bytes"] / run.wall if not run.void else None for run in wrk_runs]
        for suffix in ("", ", gzip"):
            ours = [run.more["body_bytes"] / run.wall if not run.void else None for run in samples[f"{megabytes} MB{suffix}"]]
            name = f"{megabytes} MB{suffix}: bytes of pages per second / wrk's, plain"
            measures.append(Measure(name, ratio(ours, rates), 0.25, 0.5))
    for suffix in ("", ", gzip"):
        small, large = samples[f"1 MB{suffix}"], samples[f"100 MB{suffix}"]
        growth = [
            max(0.0, (a.peak - b.peak) / 1e6 / task.connections) if not a.void and not b.void else None
            for a, b in zip(large, small)
        ]
        measures.append(Measure(f"memory per page in flight, 100 MB less 1 MB{suffix}", growth, 4, 0.25, higher=False, unit="MB"))
    notes = [
        "Wall time is the process's, its start and end included. For gzip, the bytes are those of the unpacked page, and "
        "wrk's are those of the plain page: it does not unpack."
    ]
    return measures, samples, notes


def wrk_large(suite, flags, limit, task, urls):
    """One run of wrk on the large pages."""
    with suite.web(flags) as (web, work):
        return limit.visit(web, work, task, urls)


def s12(suite):
    """Growth: 10 thousand to 1 million pages of 2 KB with 20 links, one host, 64 connections."""
    sizes = (1_000, 10_000) if suite.quick else (10_000, 100_000, 1_000_000)
    entries = {}
    for pages in sizes:
        flags = ["--pages", pages, "--size", 2048, "--links", 20]
        entries[f"{pages:,} pages"] = crawl(suite, flags, Argiope(suite.binary), Task(64, 600))
    samples = suite.rounds(entries)
    smallest, largest = (samples[f"{pages:,} pages"] for pages in (sizes[0], sizes[-1]))
    exponents = []
    for turn in range(suite.runs):
        runs = [samples[f"{pages:,} pages"][turn] for pages in sizes]
        exponents.append(None if any(run.void for run in runs) else slope([(run.pages, run.cpu) for run in runs]))
    rates = ratio([run.pages / run.wall if not run.void else None for run in largest],
                  [run.pages / run.wall if not run.void else None for run in smallest])
    measures = [
        Measure("exponent of CPU time over pages", exponents, 1.03, 1.01, higher=False),
        Measure(f"pages per second, {sizes[-1]:,} pages / {sizes[0]:,} pages", rates, 0.9, 0.97),
    ]
    return measures, samples, []


def slope(points):
    """The slope of the line of least squares through the logarithms of the points."""
    logs = [(math.log(x), math.log(y)) for x, y in points]
    mean_x = sum(x for x, _ in logs) / len(logs)
    mean_y = sum(y for _, y in logs) / len(logs)
    return sum((x - mean_x) * (y - mean_y) for x, y in logs) / sum((x - mean_x) ** 2 for x, _ in logs)
