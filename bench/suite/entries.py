"""Entries of a round: a new web and one program that crawls it."""

import math

from .programs import Wrk
from .result import Measure, median, ratio


def crawl(suite, flags, program, task, expected=None):
    """An entry of a round: a new web and one complete crawl of it."""

    def visit():
        with suite.web(flags) as (web, work):
            sample = program.visit(web, work, task)
            pages = expected if expected is not None else web.pages
            if pages is not None and sample.pages != pages and not sample.void:
                sample.void = f"{sample.pages} of {pages} pages"
            # All crawls of a web must fetch the same pages.
            sample.more["web"] = " ".join(map(str, flags))
            return sample

    visit.rounds = getattr(program, "rounds", math.inf)
    return visit


def add_limit(suite, entries, flags, task, urls):
    """Adds wrk, the limit, if it is installed."""
    limit = Wrk(1 if suite.quick else 3)
    if not limit.installed():
        return

    def visit():
        with suite.web(flags) as (web, work):
            return limit.visit(web, work, task, urls)

    entries[Wrk.name] = visit


def limit_of(samples):
    """The rates of wrk, the limit."""
    return [run.rate for run in samples.get(Wrk.name, [])]


def best_peer(suite, samples, ours, bar, goal):
    """The measure of Argiope's rate against that of the best peer whose runs are valid."""
    names = [peer.name for peer in suite.peers("S2")]
    rates = {name: median([run.rate for run in samples[name]]) for name in names if name in samples}
    rates = {name: rate for name, rate in rates.items() if rate}
    if not rates:
        return Measure("pages per CPU second / the best peer's (none is installed)", [], bar, goal)
    best = max(rates, key=rates.get)
    return Measure(f"pages per CPU second / the best peer's ({best})", ratio(ours, [rates[best]] * len(ours)), bar, goal)


def smaller_web_notes(suite, scenario, total):
    """A note about the peers that crawl fewer pages, because they are slow."""
    smaller = [f"{peer.name} {peer.max_pages[scenario]:,}" for peer in suite.peers(scenario) if peer.max_pages.get(scenario, total) < total]
    if not smaller:
        return []
    return ["Slow peers crawl a smaller web of the same kind, which favours them: " + ", ".join(smaller) + " pages."]
