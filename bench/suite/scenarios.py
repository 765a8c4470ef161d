"""S1 to S12: the web, who crawls it, and the bars.

Every scenario is a function that takes a `Suite` and returns measures, samples and notes. Sizes are those of the table in
docs/performance.md; `quick` makes them small, to see that all of it works, and its figures mean nothing.
"""

from . import programs, web as practice
from .programs import Argiope, Task, Wrk
from .result import Measure, ratio, median


def s1(suite):
    """The chapter's race: a blog of 1,500 pages of 8 KB on one host, 25 ms for an answer."""
    pages = 150 if suite.quick else 1500
    flags = ["--family", "blog", "--pages", pages, "--size", 8192, "--latency-ms", 25]
    entries, ideals = {}, {}
    for width in (10, 100):
        ideals[width] = practice.ideal(suite.server, flags, at_once=width, per_host=width)["ideal"]
        entries[f"argiope, {width} connections"] = crawl(suite, flags, Argiope(suite.binary), Task(width, 60))
    samples = suite.rounds(entries)
    measures = []
    for width in (10, 100):
        runs = samples[f"argiope, {width} connections"]
        values = [ideals[width] / run.wall if not run.void else None for run in runs]
        measures.append(Measure(f"ideal / wall, {width} connections", values, 0.95, 0.99))
    notes = [f"Ideal: {ideals[10]:.3f} s with 10 connections, {ideals[100]:.3f} s with 100, robots.txt included. "
             "Wall time is the process's, from its start to its end."]
    return measures, samples, notes


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
        entries[peer.name] = crawl(suite, flags(min(total, peer.most.get("S2", total))), peer, task)
    samples = suite.rounds(entries)
    ours = [run.rate for run in samples["argiope"]]
    measures = [
        Measure("pages per CPU second / wrk's requests per CPU second", ratio(ours, limit_of(samples)), 0.25, 0.45),
        best_peer(suite, samples, ours, 3, 5),
    ]
    notes = less_notes(suite, "S2", total)
    return measures, samples, notes


DOCUMENTATION = {
    "python": ("python3-doc", "/usr/share/doc/python3-doc/html"),
    "openjdk": ("openjdk-17-doc", "/usr/share/doc/openjdk-17-doc/api"),
}


def s3(suite):
    """CPU per page on real documentation: python3-doc and openjdk-17-doc, one host, 64 connections."""
    measures, all_samples, notes = [], {}, []
    for key, (package, folder) in DOCUMENTATION.items():
        if not suite.has(folder):
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
            if not urls and not sample.void:
                urls.extend(programs.ok_urls(f"{work}/pages.jsonl"))
            return sample

    entries = {"argiope": ours}
    add_limit(suite, entries, flags, task, urls)
    for peer in suite.peers(f"S3 {key}"):
        if peer.most.get(f"S3 {key}") != 0:
            entries[peer.name] = crawl(suite, flags, peer, task)
    samples = suite.rounds(entries)
    costs = [run.cost for run in samples["argiope"]]
    rates = [run.rate for run in samples["argiope"]]
    floors = []
    for run in samples.get(Wrk.name, []):
        valid = run.cost and run.more["bytes"]
        floors.append(run.cost + run.more["bytes"] / run.pages / 1e9 if valid else None)
    measures = [Measure(f"{package}: CPU per page / (wrk's + bytes at 1 GB/s)", ratio(costs, floors), 2.5, 1.5, False)]
    for name, bar, goal in (("wget2", 3, 5), ("scrapy", 50, None)):
        theirs = samples.get(name)
        if name == "scrapy" and key == "openjdk":
            continue
        values = ratio(rates, [median([run.rate for run in theirs])] * len(rates)) if theirs else []
        measures.append(Measure(f"{package}: pages per CPU second / {name}'s", values, bar, goal))
    notes = [f"{package}: {peer.name} is left out, a run would take more than ten minutes."
             for peer in suite.peers(f"S3 {key}") if peer.most.get(f"S3 {key}") == 0]
    return (measures, samples), notes


def crawl(suite, flags, program, task):
    """An entry of a round: a fresh web, and one crawl of all of it."""

    def visit():
        with suite.web(flags) as (web, work):
            sample = program.visit(web, work, task)
            if web.pages is not None and sample.pages != web.pages and not sample.void:
                sample.void = f"{sample.pages} of {web.pages} pages"
            return sample

    visit.rounds = getattr(program, "rounds", 99)
    return visit


def add_limit(suite, entries, flags, task, urls):
    limit = Wrk(1 if suite.quick else 3)
    if not limit.installed():
        return

    def visit():
        with suite.web(flags) as (web, work):
            return limit.visit(web, work, task, urls)

    entries[Wrk.name] = visit


def limit_of(samples):
    return [run.rate for run in samples.get(Wrk.name, [])]


def best_peer(suite, samples, ours, bar, goal):
    """Against the best of the peers whose runs count."""
    names = [peer.name for peer in suite.peers("S2")]
    rates = {name: median([run.rate for run in samples[name]]) for name in names if name in samples}
    rates = {name: rate for name, rate in rates.items() if rate}
    if not rates:
        return Measure("pages per CPU second / the best peer's (none is installed)", [], bar, goal)
    best = max(rates, key=rates.get)
    return Measure(f"pages per CPU second / the best peer's ({best})", ratio(ours, [rates[best]] * len(ours)), bar, goal)


def less_notes(suite, scenario, total):
    """Slow peers get fewer pages."""
    few = [f"{peer.name} {peer.most[scenario]:,}" for peer in suite.peers(scenario) if peer.most.get(scenario, total) < total]
    if not few:
        return []
    return ["Slow peers crawl a smaller web of the same kind, which favours them: " + ", ".join(few) + " pages."]


SCENARIOS = {"S1": s1, "S2": s2, "S3": s3}
