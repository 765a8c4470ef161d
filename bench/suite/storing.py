"""The cost of storage: the frontier without a network, and the disk."""

import json
import os
import subprocess

from . import process
from .entries import crawl
from .programs import Argiope, Task, make_sample
from .result import Measure, Sample, ratio


def s6(suite):
    """Frontier: 100 million offered links, 90 % known, 10 million distinct, a million hosts (Zipf), no network."""
    small, large = (10_000, 100_000) if suite.quick else (1_000_000, 10_000_000)
    subprocess.run(
        ["cargo", "build", "--profile", "dist", "--locked", "-p", "argiope-rigs", "--bin", "frontier"], cwd=suite.root, check=True
    )
    entries = {}
    for distinct in (small, large):
        for kind in ("keys", "bare", "disk"):
            entries[f"{kind}, {distinct:,}"] = lambda kind=kind, distinct=distinct: offer(suite, kind, distinct)
    # For comparison, with fewer runs.
    entries[f"memory, {large:,}"] = in_memory = lambda: offer(suite, "memory", large)
    in_memory.rounds = 2
    samples = suite.rounds(entries)

    def cost(kind, distinct):
        """Seconds per offer, without generating the URLs."""
        runs = zip(samples[f"{kind}, {distinct:,}"], samples[f"keys, {distinct:,}"])
        return [(run.wall - keys.wall) / (10 * distinct) if not (run.void or keys.void) else None for run, keys in runs]

    def bytes_per_url(kind):
        return [run.more["resident"] / large if not run.void else None for run in samples[f"{kind}, {large:,}"]]

    bare = cost("bare", large)
    measures = [
        Measure("frontier on disk: time / a bare set of fingerprints", ratio(cost("disk", large), bare), 3, 1.5, higher=False),
        Measure("frontier on disk: memory per URL", bytes_per_url("disk"), 16, 9, higher=False, unit="bytes"),
        Measure("frontier on disk: cost at 10 M / at 1 M", ratio(cost("disk", large), cost("disk", small)), 1.3, 1.1, higher=False),
        Measure("frontier in memory: time / a bare set of fingerprints", ratio(cost("memory", large), bare), None, None, higher=False),
        Measure("frontier in memory: memory per URL", bytes_per_url("memory"), None, None, higher=False, unit="bytes"),
        Measure("a bare set of fingerprints: time per offer", [nanoseconds(value) for value in bare], None, None, higher=False, unit="ns"),
    ]
    notes = [
        "Each kind in a process of its own, ten offers for every address. Time is wall time, less that of making the same "
        "addresses; the bare set makes the fingerprint and inserts it. The frontier on disk commits all the time."
    ]
    return measures, samples, notes


def nanoseconds(value):
    return None if value is None else 1e9 * value


def offer(suite, kind, distinct):
    """Offers URLs to a frontier of this kind (see bench/rigs/src/bin/frontier.rs), each ten times."""
    with suite.folder() as work:
        folder = os.path.join(work, "frontier")
        os.mkdir(folder)
        command = [os.path.join(suite.target, "frontier"), kind, distinct, 10, folder]
        # Both cores: the frontier on disk has a writer thread, as in a crawl.
        outcome = process.run(command, work, core=None, timeout=600)
        sample = Sample(wall=outcome.wall, cpu=outcome.cpu, peak=outcome.peak)
        if not outcome.ok:
            sample.void = f"exit code {outcome.code}: {outcome.output.strip()[-200:]}"
            return sample
        figures = json.loads(outcome.output.strip().splitlines()[-1])
        if kind != "keys" and figures["known"] != distinct:
            sample.void = f"{figures['known']} of {distinct} addresses known"
        sample.wall = figures["wall"]
        sample.more = {"resident": figures["resident"]}
        return sample


def s10(suite):
    """Durability: the same crawl with and without disk frontier and JSONL (100,000 pages of S2's web)."""
    pages = 1_600 if suite.quick else 100_000
    flags = ["--hosts", 16, "--seeds", 16, "--pages", pages // 16, "--size", 10240, "--links", 50, "--cross", 100]
    task = Task(64, 300)
    entries = {
        "with both": crawl(suite, flags, Argiope(suite.binary), task),
        "with neither": crawl(suite, flags, WithoutStorage(suite.binary), task),
    }
    samples = suite.rounds(entries)

    def column(name, by):
        return [getattr(run, by) if not run.void else None for run in samples[name]]

    measures = [
        Measure("wall time, with / without", ratio(column("with both", "wall"), column("with neither", "wall")), 1.05, 1.02, higher=False),
        Measure("CPU time, with / without", ratio(column("with both", "cpu"), column("with neither", "cpu")), 1.05, 1.02, higher=False),
    ]
    return measures, samples, ["Without: the crawler of `argiope exhibition`, which keeps its frontier in memory and writes nothing."]


class WithoutStorage:
    """The same program with its frontier in memory and without records."""

    name = "argiope, nothing kept"

    def __init__(self, binary):
        self.binary = binary

    def visit(self, web, work, task):
        task_json = {
            "engine": "tokio", "roots": web.roots_file, "ca": None,
            "concurrency": task.connections, "per_host": task.connections,
        }  # fmt: skip
        outcome = process.run([self.binary, "exhibition-crawler", json.dumps(task_json)], work, timeout=task.timeout)
        return make_sample(outcome, web.stats())
