"""What hostile hosts cost the others: a control host, alone and beside every hostile case that is served."""

import contextlib
import os
import subprocess

from . import process
from .programs import Argiope, Task, sampled
from .result import Measure, ratio


def s13(suite):
    """A control host beside every hostile case of the practice web: its own throughput, against that without them."""
    pages = 300 if suite.quick else 4_000
    # Six connections at most and 10 ms for an answer: a crawl that waits, as crawls do.
    flags = ["--hosts", 1, "--pages", pages, "--size", 10240, "--links", 20, "--latency-ms", 10]
    task = Task(256, 120)
    count = [0]

    def visit(beside):
        def run():
            with contextlib.ExitStack() as stack:
                roots = stack.enter_context(hostile(suite.server)) if beside else []
                count[0] = max(count[0], len(roots))
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
    notes = [f"{count[0]} hostile roots at once, all that need no name server of their own. Pages a second as the "
             "control host saw them, from its first request to its last; the crawl itself goes on with the others."]
    return measures, samples, notes


def speed(run):
    """Pages a second, by the control host's own clock."""
    return run.pages / run.more["span_s"] if not run.void and run.more["span_s"] else None


class Control(Argiope):
    """A crawl of the control host, with other roots beside it; what counts is what the control host saw."""

    def __init__(self, binary, roots):
        super().__init__(binary, ["--max-time", "40s"], pace="steady")
        self.roots = roots

    def visit(self, web, work, task):
        with open(web.roots_file, "a") as file:
            file.writelines(f"{root}\n" for root in self.roots)
        return sampled(process.run(self.command(web, work, task), work, timeout=task.timeout), web.stats())


@contextlib.contextmanager
def hostile(server):
    """The hostile web, on the server's core but behind the control host: gives the roots of its cases."""
    listed = subprocess.run([server, "hostile", "--list"], check=True, capture_output=True, text=True).stdout
    last = listed.splitlines()[-1].split("\t")[0]

    def prepare():
        process.prepare(process.SERVER_CORE)()
        # What the two servers take from each other is not what is measured. Where the kernel groups processes by
        # session, niceness counts within a session only, and the session has one of its own.
        os.nice(19)
        with contextlib.suppress(OSError), open("/proc/self/autogroup", "w") as group:
            group.write("19")

    child = subprocess.Popen([server, "hostile"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             stderr=subprocess.DEVNULL, start_new_session=True, preexec_fn=prepare)
    try:
        yield roots(child.stdout, last)
    finally:
        process.kill_group(child.pid)
        child.wait()
        child.stdin.close()
        child.stdout.close()


def roots(lines, last):
    """The roots of the cases that need no name server of their own."""
    found = []
    for line in lines:
        name, _, _, urls, dns, *_ = line.decode().rstrip("\n").split("\t")
        if urls != "-" and dns == "-":
            found += urls.split(" ")
        if name == last:
            break
    return found
