"""Scenarios of waiting: the time compared with the ideal, which the delays of the servers determine, and the cost."""

import contextlib
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import threading
import time

from . import process
from . import web as practice
from .entries import crawl
from .programs import Argiope, Task
from .result import Measure, Sample, ratio


def s1(suite):
    """The crawl of the original article: a blog of 1,500 pages of 8 KB on one host, 25 ms per response."""
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


def s4(suite):
    """Many slow hosts: 10,000 hosts of 5 pages, response time 1 to 3 s, 10,000 in flight; dripping; 5 % dead."""
    hosts = 300 if suite.quick else 10_000
    latency = "100-300" if suite.quick else "1000-3000"
    page = ["--size", 10240, "--links", 50]
    base = ["--hosts", hosts, "--seeds", hosts, "--pages", 5, "--latency-ms", latency, *page]
    variants = {"slow": [], "dripping": ["--drip", "50:20"], "5 % dead": ["--dead", 50]}
    flags = ["--per-host", 1, "--idle-timeout", "10s", "--max-tries", 1]
    entries, ideals = {}, {}
    for name, more in variants.items():
        ideal = practice.ideal(suite.server, base + more, at_once=hosts, per_host=1, patience_ms=10_000)
        ideals[name] = ideal["ideal"]
        entries[name] = crawl(suite, base + more, Argiope(suite.binary, flags), Task(hosts, 180), expected=ideal["pages"])
    # The cost of a page without waiting, in the same rounds.
    pages = 1_600 if suite.quick else 40_000
    busy = ["--hosts", 16, "--seeds", 16, "--pages", pages // 16, "--cross", 100, *page]
    entries["S2's page"] = crawl(suite, busy, Argiope(suite.binary), Task(64, 180))
    samples = suite.rounds(entries)
    costs = [run.cost for run in samples["S2's page"]]
    measures = []
    for name in variants:
        runs = samples[name]
        etas = [ideals[name] / run.wall if not run.void else None for run in runs]
        measures.append(Measure(f"{name}: ideal / wall", etas, 0.95, 0.98))
        measures.append(Measure(f"{name}: CPU per page / S2's", ratio([run.cost for run in runs], costs), 1.3, 1.1, higher=False))
    words = ", ".join(f"{name} {ideals[name]:.2f} s" for name in variants)
    notes = [f"Ideal, with one request at a time to a host and robots.txt first: {words}. Pages are like those of S2."]
    return measures, samples, notes


def s5(suite):
    """Memory per fetch in flight: the slope from 5,000 to 10,000, on 100 hosts that never respond."""
    few, many = (200, 400) if suite.quick else (5_000, 10_000)
    bars = {"tokio": (1600, 1300), "callbacks": (1000, 448), "coroutines": (1000, 448)}
    entries = {}
    for engine in bars:
        entries[engine] = lambda engine=engine: memory_slope(suite, engine, few, many)
    samples = suite.rounds(entries)
    measures = [
        Measure(f"{engine}: bytes per fetch in flight", [run.more.get("slope") for run in samples[engine]], bar, goal, higher=False, unit="bytes")
        for engine, (bar, goal) in bars.items()
    ]
    notes = [
        "The crawler of `argiope exhibition --memory`, over HTTP: the peak of its resident memory with all fetches in flight, "
        "less that with half as many. URL, frontier, workbench, connection and whatever waits are included."
    ]
    return measures, samples, notes


def memory_slope(suite, engine, few, many):
    """Bytes per fetch in flight, from the peaks with two numbers of fetches."""
    few, few_peak = peak_with(suite, engine, few)
    many, many_peak = peak_with(suite, engine, many)
    return Sample(peak=many_peak, more={"slope": (many_peak - few_peak) / (many - few), "in_flight": many})


def peak_with(suite, engine, count):
    """The number of waiting fetches, and the peak memory at that time."""
    hosts = 100
    with suite.web(["--family", "silent", "--hosts", hosts, "--pages", count // hosts]) as (web, work):
        task = {"engine": engine, "roots": web.roots_file, "ca": None, "concurrency": count, "per_host": count // hosts}
        child = subprocess.Popen(
            [suite.binary, "exhibition-crawler", json.dumps(task)],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True, preexec_fn=process.prepare(None),
        )  # fmt: skip
        try:
            deadline = time.monotonic() + 120
            while True:
                stats = web.stats()
                if stats["requests"] - stats["answered"] >= count:
                    return count, process.peak_memory(child.pid)
                if child.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"{engine}: {stats['requests'] - stats['answered']} of {count} fetches wait")
                time.sleep(0.05)
        finally:
            process.kill_group(child.pid)
            child.wait()


def s7(suite):
    """Polite: 1,000 hosts (Zipf 1.1, 50,000 pages), delay 100 ms, half of the hosts found late, 64 in flight."""
    hosts, pages = (40, 5) if suite.quick else (1_000, 50)
    flags = ["--hosts", hosts, "--pages", pages, "--zipf", 1.1, "--seeds", hosts // 2, "--latency-ms", "20-200"]
    ideal = practice.ideal(suite.server, flags, at_once=64, per_host=2, delay_ms=100)
    program = Argiope(suite.binary, ["--per-host", 2, "--delay", "100ms", "--scope", "any", "--allow-private"])
    visit = crawl(suite, flags + ["--min-gap-ms", 100], program, Task(64, 120 + 2 * ideal["ideal"]))
    runs = run_in_parallel(suite, visit)
    etas = [ideal["ideal"] / run.wall if not run.void else None for run in runs]
    violations = [run.more["violations"] if not run.void else None for run in runs]
    measures = [
        Measure("ideal / wall", etas, 0.95, 0.99),
        Measure("violations as the server counts", violations, 0, 0, higher=False),
    ]
    notes = [
        f"Ideal: {ideal['ideal']:.1f} s, of which the largest host alone needs {ideal['host']:.1f} s; latency 20 to 200 ms, at "
        "most two requests at a time to a host. A run is as long as its largest host and hardly uses the processor, so the "
        "rounds run side by side, each with a server of its own."
    ]
    return measures, {"argiope": runs}, notes


def run_in_parallel(suite, visit):
    """Runs all rounds in parallel, for tasks that mostly wait."""
    runs = [Sample(void="did not run")] * suite.runs

    def work(turn):
        try:
            runs[turn] = visit()
        except Exception as error:
            runs[turn] = Sample(void=f"{type(error).__name__}: {error}"[:200])
        run = runs[turn]
        suite.print_progress(f"run {turn + 1}: " + (f"VOID: {run.void}" if run.void else f"{run.pages:,} pages in {run.wall:.2f} s"))

    threads = []
    for turn in range(suite.runs):
        threads.append(threading.Thread(target=work, args=(turn,)))
        threads[-1].start()
        # Staggered starts.
        time.sleep(1)
    for thread in threads:
        thread.join()
    return runs


def s9(suite):
    """Start: from exec to the first byte on the wire, plain HTTP, against the time of spawning /bin/true."""
    times = 10 if suite.quick else 40
    ours, theirs, ratios = [], [], []
    with suite.folder() as work, listening() as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        for turn in range(suite.runs):
            round_ours, round_theirs = [], []
            for number in range(times):
                round_theirs.append(spawn_true())
                round_ours.append(first_byte(suite.binary, url, os.path.join(work, f"{turn}-{number}"), server))
            ours.append(statistics.median(round_ours))
            theirs.append(statistics.median(round_theirs))
            ratios.append(ours[-1] / theirs[-1])
            suite.print_progress(f"round {turn + 1}: {1e3 * ours[-1]:.2f} ms against {1e3 * theirs[-1]:.2f} ms")
    measures = [
        Measure("time to the first byte / time of /bin/true", ratios, 3, 1.5, higher=False),
        Measure("time to the first byte", [1e3 * value for value in ours], None, None, higher=False, unit="ms"),
        Measure("time of /bin/true", [1e3 * value for value in theirs], None, None, higher=False, unit="ms"),
    ]
    return measures, {}, [f"Medians of {times} starts of each in turns; every start makes a new crawl directory."]


@contextlib.contextmanager
def listening():
    """A server socket at a free port."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(10)
        yield server


def spawn_true():
    """The time of running /bin/true."""
    started = time.perf_counter()
    pid = os.posix_spawn("/bin/true", ["/bin/true"], os.environ)
    os.waitpid(pid, 0)
    return time.perf_counter() - started


def first_byte(binary, url, folder, server):
    """The time from the start of a crawl to the first byte at the server."""
    command = [binary, "crawl", url, "-q", "-d", folder + ".crawl", "--jsonl", folder + ".jsonl"]
    silent = os.open(os.devnull, os.O_RDWR)
    started = time.perf_counter()
    pid = os.posix_spawn(
        binary, command, os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, silent, fd) for fd in (0, 1, 2)]
    )
    try:
        connection, _ = server.accept()
        connection.recv(1)
        taken = time.perf_counter() - started
        connection.close()
        return taken
    finally:
        os.close(silent)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        shutil.rmtree(folder + ".crawl", ignore_errors=True)
