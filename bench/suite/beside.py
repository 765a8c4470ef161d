"""Measures the effect of hostile hosts on others: crawls a control host alone and together with hostile hosts."""

import contextlib
import os
import subprocess
import sys

from . import process
from .programs import Argiope, Task, make_sample
from .result import Measure, ratio


def s13(suite):
    """Throughput of a control host beside all hostile cases of the practice web, compared with that without them."""
    pages = 300 if suite.quick else 4_000
    # At most six connections and 10 ms per response: like a typical crawl, it mostly waits.
    flags = ["--hosts", 1, "--pages", pages, "--size", 10240, "--links", 20, "--latency-ms", 10]
    task = Task(256, 120)
    hostile_roots = 0

    def visit(with_hostile_hosts):
        def run():
            nonlocal hostile_roots
            with contextlib.ExitStack() as stack:
                roots = stack.enter_context(hostile(suite.server)) if with_hostile_hosts else []
                hostile_roots = max(hostile_roots, len(roots))
                web, work = stack.enter_context(suite.web(flags))
                sample = Control(suite.binary, roots).visit(web, work, task)
                if sample.pages != web.pages and not sample.void:
                    sample.void = f"{sample.pages} of {web.pages} pages of the control host"
                return sample

        return run

    samples = suite.rounds({"alone": visit(False), "beside hostile hosts": visit(True)})
    rates = {name: [speed(run) for run in runs] for name, runs in samples.items()}
    values = ratio(rates["beside hostile hosts"], rates["alone"])
    measures = [Measure("control host's pages a second beside hostile hosts / alone", values, 0.9, 1.0)]
    notes = [f"{hostile_roots} hostile roots at once, all that need no name server of their own. Pages a second as the "
             "control host saw them, from its first request to its last; the crawl of the other hosts continues after that."]
    return measures, samples, notes


def s13b(suite):
    """A control host beside hosts that drip, send endless sitemaps, or send pages of long links."""
    pages = 300 if suite.quick else 4_000
    flags = ["--hosts", 1, "--pages", pages, "--size", 10240, "--links", 20, "--latency-ms", 10]
    task = Task(256, 120)
    kinds = ["drip", "crowd", "sitemaps", "links"]

    def visit(kind):
        def run():
            with contextlib.ExitStack() as stack:
                roots = stack.enter_context(neighbours(kind)) if kind else []
                web, work = stack.enter_context(suite.web(flags))
                sample = Control(suite.binary, roots, ["--scope", "any", "--sitemap"]).visit(web, work, task)
                if sample.pages != web.pages and not sample.void:
                    sample.void = f"{sample.pages} of {web.pages} pages of the control host"
                return sample

        return run

    samples = suite.rounds({"alone": visit(None)} | {f"beside {kind}": visit(kind) for kind in kinds})
    rates = {name: [speed(run) for run in runs] for name, runs in samples.items()}
    measures = [Measure(f"control host's pages a second beside {kind} / alone",
                        ratio(rates[f"beside {kind}"], rates["alone"]), 0.8, 0.95) for kind in kinds]
    notes = ["drip: 100 hosts, 80 bytes a second; crowd: 400 of them; sitemaps: a site of four pages with an index of indexes of sitemaps; "
             "links: pages of 1,040 links of 4,000 bytes. Pages a second as the control host saw them."]
    return measures, samples, notes


@contextlib.contextmanager
def neighbours(kind):
    """Serves the hosts of `neighbours.py` on the server's core, at a lower priority than the control host. Returns their
    roots."""
    def prepare():
        process.prepare(process.SERVER_CORE)()
        os.nice(19)

    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    child = subprocess.Popen([sys.executable, "-m", "suite.neighbours", kind], cwd=folder, stdout=subprocess.PIPE,
                             stderr=subprocess.DEVNULL, start_new_session=True, preexec_fn=prepare)
    try:
        yield [line for line in iter(lambda: child.stdout.readline().decode().strip(), "-") if line]
    finally:
        process.kill_group(child.pid)
        child.wait()
        child.stdout.close()


def speed(run):
    """Pages per second by the clock of the control host."""
    return run.pages / run.more["span_s"] if not run.void and run.more["span_s"] else None


class Control(Argiope):
    """A crawl of the control host with other roots beside it, measured by the control host."""

    def __init__(self, binary, roots, flags=()):
        super().__init__(binary, ["--max-time", "40s", *flags], pace="steady")
        self.roots = roots

    def visit(self, web, work, task):
        with open(web.roots_file, "a") as file:
            file.writelines(f"{root}\n" for root in self.roots)
        return make_sample(process.run(self.command(web, work, task), work, timeout=task.timeout), web.stats())


@contextlib.contextmanager
def hostile(server):
    """Serves the hostile web on the core of the server at a lower priority than the control host; returns the roots of its cases."""
    listed = subprocess.run([server, "hostile", "--list"], check=True, capture_output=True, text=True).stdout
    last_case = listed.splitlines()[-1].split("\t")[0]

    def prepare():
        process.prepare(process.SERVER_CORE)()
        # The two servers must not compete for the core. If the kernel groups processes by session (autogroup), niceness
        # applies only within a session, and the session has a niceness of its own.
        os.nice(19)
        with contextlib.suppress(OSError), open("/proc/self/autogroup", "w") as group:
            group.write("19")

    child = subprocess.Popen([server, "hostile"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             stderr=subprocess.DEVNULL, start_new_session=True, preexec_fn=prepare)
    try:
        yield read_roots(child.stdout, last_case)
    finally:
        process.kill_group(child.pid)
        child.wait()
        child.stdin.close()
        child.stdout.close()


def read_roots(lines, last_case):
    """The roots of the cases that do not need a name server, up to the case with this name."""
    found = []
    for line in lines:
        name, _, _, urls, dns, *_ = line.decode().rstrip("\n").split("\t")
        if urls != "-" and dns == "-":
            found += urls.split(" ")
        if name == last_case:
            break
    return found
