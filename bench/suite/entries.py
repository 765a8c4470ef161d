"""Entries of a round: a new web and one program that crawls it."""

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
    """Compared with the best peer whose runs are valid."""
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
