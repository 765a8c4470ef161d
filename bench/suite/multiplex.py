"""Compares HTTP/2 with HTTP/1.1: nginx with TLS as the server, and slow hosts of the practice web."""

import contextlib
import hashlib
import os
import shutil
import socket
import subprocess
import time

from . import process
from . import web as practice
from .entries import crawl
from .programs import Argiope, Task
from .result import Measure, Sample, ratio

PORT = 8443
NAMESPACE = "argiope-bench"
LOG = "$connection $server_protocol $status $ssl_session_reused $server_addr$uri"


def s14(suite):
    """HTTP/2 and HTTP/1.1 with six connections: nginx with TLS, one host of 5,000 pages, 100 hosts of 50, 10 KB each."""
    nginx = shutil.which("nginx") or "/usr/sbin/nginx"
    if not os.path.exists(nginx):
        raise RuntimeError("nginx is not installed")
    webs = {"one host": (1, 500 if suite.quick else 5_000), "100 hosts": (10 if suite.quick else 100, 50)}
    measures, all_samples = [], {}
    with suite.folder() as setup_folder:
        make_certificates(setup_folder, max(hosts for hosts, _ in webs.values()))
        for name, (hosts, pages) in webs.items():
            write_site(setup_folder, hosts, pages)
            entries = {}
            for client in clients(suite):
                def visit(client=client, hosts=hosts, pages=pages):
                    with suite.folder() as work:
                        return one_run(nginx, setup_folder, work, client, hosts, pages)

                entries[f"{name}, {client.name}"] = visit
            samples = suite.rounds(entries)
            count_packets(suite, nginx, setup_folder, hosts, pages, name, samples)
            all_samples |= samples
            measures += measures_of(name, samples)
    notes = [
        "Six requests at a time to a host, as connections or as streams of one connection. curl fetches a list of the URLs "
        "(`--parallel`, at most 6 or 300 transfers at a time) and ignores their contents; it and wget2 ignore robots.txt. "
        "Handshakes are connections in nginx's log. Packets are those of both directions with an MTU of 1,500 bytes and "
        "without segmentation offload, from one more run of each program in a network namespace."
    ]
    return measures, all_samples, notes


def measures_of(name, samples):
    """The measures of one web."""
    def of(client):
        return samples.get(f"{name}, {client}", [])

    new, old = of("argiope, HTTP/2"), of("argiope, HTTP/1.1")
    measures = [
        Measure(f"{name}: CPU per page, HTTP/2 / HTTP/1.1", ratio(costs(new), costs(old)), 1.0, 0.8, higher=False),
        Measure(f"{name}: handshakes, HTTP/2 / HTTP/1.1", ratio_of(new, old, "handshakes"), 1 / 3, 1 / 6, higher=False),
        Measure(f"{name}: packets, HTTP/2 / HTTP/1.1", ratio_of(new, old, "packets"), None, None, higher=False),
    ]
    for peer in ("curl, HTTP/2", "wget2, HTTP/2"):
        if of(peer):
            measures.append(Measure(f"{name}: CPU per page / that of {peer}", ratio(costs(new), costs(of(peer))), None, None, higher=False))
    return measures


def costs(runs):
    """CPU seconds per page of each run."""
    return [run.cost for run in runs]


def ratio_of(new, old, key):
    """The quotients of a count per round."""
    return ratio(*[[run.more.get(key) if not run.void else None for run in runs] for runs in (new, old)])


class Client:
    """A program that fetches all pages of the hosts."""

    def __init__(self, name, command):
        self.name, self.command = name, command


def clients(suite):
    """The programs that are compared, as far as they are installed."""
    def argiope(version):
        def command(setup_folder, work, hosts, _pages):
            roots = os.path.join(work, "roots.txt")
            with open(roots, "w") as file:
                file.writelines(f"https://{host_name(host)}:{PORT}/\n" for host in range(hosts))
            return [
                suite.binary, "crawl", "-i", roots, "-q", "--pace", "full", "--per-host", 6, "-c", 600, "--http", version,
                "-d", os.path.join(work, "x.crawl"), "--jsonl", os.path.join(work, "pages.jsonl"),
                "--ca-cert", os.path.join(setup_folder, "ca.pem"),
            ]  # fmt: skip

        return command

    def curl(version):
        def command(setup_folder, work, hosts, pages):
            list_file = os.path.join(work, "urls.txt")
            with open(list_file, "w") as file:
                # The hosts in turns, as in a crawl.
                for page in range(pages):
                    for host in range(hosts):
                        file.write(f"url = https://{host_name(host)}:{PORT}/{page_path(page)}\noutput = /dev/null\n")
            at_once = min(6 * hosts, 300)
            return ["curl", "-s", version, "--parallel", "--parallel-max", at_once, "--cacert", os.path.join(setup_folder, "ca.pem"), "-K", list_file]

        return command

    def wget2(switch):
        def command(setup_folder, work, hosts, _pages):
            roots = os.path.join(work, "roots.txt")
            with open(roots, "w") as file:
                file.writelines(f"https://{host_name(host)}:{PORT}/\n" for host in range(hosts))
            return [
                "wget2", "-q", "-r", "-l", "inf", "--robots=off", f"--max-threads={6 * hosts}", "--delete-after", switch,
                "--no-compression", "--tries=1", f"--ca-certificate={os.path.join(setup_folder, 'ca.pem')}", "-P", work, "-i", roots,
            ]  # fmt: skip

        return command

    found = [Client("argiope, HTTP/2", argiope("auto")), Client("argiope, HTTP/1.1", argiope("1.1"))]
    if not suite.without_peers and shutil.which("curl"):
        found += [Client("curl, HTTP/2", curl("--http2")), Client("curl, HTTP/1.1", curl("--http1.1"))]
    if not suite.without_peers and shutil.which("wget2"):
        found += [Client("wget2, HTTP/2", wget2("--http2")), Client("wget2, HTTP/1.1", wget2("--no-http2"))]
    return found


def host_name(host):
    """The address of the host with this number."""
    return f"127.1.{host // 250}.{host % 250 + 1}"


def page_path(page):
    """The path of the page with this number, without the leading slash. The first page has an empty path."""
    return f"p{page}.html" if page else ""


def make_certificates(setup_folder, hosts):
    """Makes an authority, and a certificate for each host."""

    def openssl(*words):
        subprocess.run(["openssl", *words], cwd=setup_folder, check=True, capture_output=True)

    openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", "ca.key")
    openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", "host.key")
    openssl("req", "-x509", "-new", "-key", "ca.key", "-subj", "/CN=bench authority", "-days", "30", "-out", "ca.pem")
    for host in range(hosts):
        address = host_name(host)
        openssl(
            "req", "-new", "-key", "host.key", "-subj", f"/CN={address}", "-addext", f"subjectAltName=IP:{address}", "-x509",
            "-CA", "ca.pem", "-CAkey", "ca.key", "-days", "30", "-out", f"{address}.pem",
            "-addext", "basicConstraints=critical,CA:FALSE",
        )  # fmt: skip


def write_site(setup_folder, hosts, pages):
    """Writes pages of 10 KB with twenty links. All hosts serve the same pages."""
    folder = os.path.join(setup_folder, "site")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    filler = "<p>All work and no play makes a page of ten kilobytes.</p>\n" * 200
    for page in range(pages):
        targets = [(page + step) % pages for step in range(1, 21)]
        links = "".join(f'<a href="/{page_path(target)}">next</a>\n' for target in targets)
        with open(os.path.join(folder, page_path(page) or "index.html"), "w") as file:
            file.write(f"<title>{page}</title>\n{links}{filler}"[:10_240])
    with open(os.path.join(folder, "robots.txt"), "w") as file:
        file.write("User-agent: *\nDisallow:\n")


@contextlib.contextmanager
def serving(nginx, setup_folder, work, hosts, in_namespace):
    """Runs nginx in one process on its own core. `in_namespace` is a prefix of commands, or empty."""
    servers = "\n".join(
        f"server {{ listen {host_name(host)}:{PORT} ssl http2; ssl_certificate {setup_folder}/{host_name(host)}.pem; root {setup_folder}/site; }}"
        for host in range(hosts)
    )
    temporary = " ".join(f"{kind}_temp_path {work}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    settings = os.path.join(work, "nginx.conf")
    with open(settings, "w") as file:
        file.write(
            f"daemon off; master_process off; pid {work}/pid; error_log {work}/error.log; worker_rlimit_nofile 20000;\n"
            f"events {{ worker_connections 10000; }}\nhttp {{ include /etc/nginx/mime.types; {temporary}\n"
            f"log_format counted '{LOG}'; access_log {work}/access.log counted;\n"
            f"keepalive_requests 1000000; ssl_certificate_key {setup_folder}/host.key; ssl_session_cache shared:all:10m;\n{servers}\n}}\n"
        )
    child = subprocess.Popen(
        [*in_namespace, nginx, "-e", f"{work}/error.log", "-c", settings],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True, preexec_fn=process.prepare(process.SERVER_CORE),
    )  # fmt: skip
    try:
        deadline = time.monotonic() + 20
        while not listens(in_namespace, host_name(hosts - 1)):
            if child.poll() is not None or time.monotonic() > deadline:
                with open(f"{work}/error.log") as file:
                    raise RuntimeError(f"nginx does not respond: {file.read()[-300:]}")
            time.sleep(0.02)
        yield
    finally:
        process.kill_group(child.pid)
        child.wait()


def listens(in_namespace, address):
    """Whether the server accepts connections at this address."""
    if in_namespace:
        test = f"import socket; socket.create_connection(('{address}', {PORT}), 1)"
        return subprocess.run([*in_namespace, "python3", "-c", test], capture_output=True).returncode == 0
    with contextlib.suppress(OSError), socket.create_connection((address, PORT), 1):
        return True
    return False


def one_run(nginx, setup_folder, work, client, hosts, pages, in_namespace=()):
    """Runs a client once, and reads from the log of nginx what it fetched."""
    with serving(nginx, setup_folder, work, hosts, in_namespace):
        before = packets(in_namespace)
        command = [*in_namespace, *client.command(setup_folder, work, hosts, pages)]
        outcome = process.run(command, work, timeout=300)
        sent = packets(in_namespace) - before
    fetched, connections, resumed = set(), set(), set()
    versions = set()
    with open(os.path.join(work, "access.log")) as file:
        for line in file:
            connection, version, status, reused, url = line.split(maxsplit=4)
            connections.add(connection)
            if reused == "r":
                resumed.add(connection)
            if status == "200" and not url.strip().endswith("/robots.txt"):
                versions.add(version)
                fetched.add(url.strip().replace("/index.html", "/"))
    digest = hashlib.sha256("\n".join(sorted(fetched)).encode()).hexdigest()[:16]
    sample = Sample(pages=len(fetched), wall=outcome.wall, cpu=outcome.cpu, peak=outcome.peak)
    sample.more = {"digest": digest, "web": f"{hosts} {pages}", "handshakes": len(connections), "resumed": len(resumed)}
    if in_namespace:
        sample.more["packets"] = sent
    expected = "HTTP/2.0" if client.name.endswith("HTTP/2") else "HTTP/1.1"
    if outcome.timed_out:
        sample.void = "took too long"
    elif len(fetched) != hosts * pages:
        sample.void = f"{len(fetched)} of {hosts * pages} pages, exit code {outcome.code}: {outcome.output.strip()[-120:]}"
    elif versions != {expected}:
        sample.void = f"used {', '.join(sorted(versions))}"
    return sample


def count_packets(suite, nginx, setup_folder, hosts, pages, name, samples):
    """Runs each client once more in a network namespace, to count packets. The times of these runs are not used."""
    try:
        with namespace() as in_namespace:
            for client in clients(suite):
                with suite.folder() as work:
                    run = one_run(nginx, setup_folder, work, client, hosts, pages, in_namespace)
                if run.void:
                    suite.print_progress(f"packets, {name}, {client.name}: VOID: {run.void}")
                    continue
                suite.print_progress(f"packets, {name}, {client.name}: {run.more['packets']:,}")
                for sample in samples[f"{name}, {client.name}"]:
                    sample.more["packets"] = run.more["packets"]
    except (OSError, subprocess.CalledProcessError) as error:
        suite.print_progress(f"packets cannot be counted: {error}")


@contextlib.contextmanager
def namespace():
    """A network namespace whose loopback device sends packets of 1,500 bytes, one at a time."""
    in_namespace = ["ip", "netns", "exec", NAMESPACE]
    subprocess.run(["ip", "netns", "add", NAMESPACE], check=True, capture_output=True)
    try:
        device = ["ip", "link", "set", "lo", "mtu", "1500", "gso_max_segs", "1", "up"]
        subprocess.run(in_namespace + device, check=True, capture_output=True)
        yield in_namespace
    finally:
        subprocess.run(["ip", "netns", "del", NAMESPACE], capture_output=True)


def packets(in_namespace):
    """Packets of the loopback device, each counted once."""
    if not in_namespace:
        return 0
    text = subprocess.run([*in_namespace, "cat", "/proc/net/dev"], check=True, capture_output=True, text=True).stdout
    line = next(line for line in text.splitlines() if line.strip().startswith("lo:"))
    return int(line.split()[2])


def s15(suite):
    """Slow hosts over TLS: 2,000 hosts of 5 pages, response time 1 to 3 s, all in flight; HTTP/2 and HTTP/1.1."""
    hosts = 100 if suite.quick else 2_000
    latency = "100-300" if suite.quick else "1000-3000"
    flags = ["--hosts", hosts, "--seeds", hosts, "--pages", 5, "--latency-ms", latency, "--size", 10240, "--links", 50]
    flags += ["--tls", "good", "--http2"]
    ideal = practice.ideal(suite.server, flags, at_once=hosts, per_host=1)
    entries = {}
    for name, version in (("HTTP/2", "2"), ("HTTP/1.1", "1.1")):
        program = Argiope(suite.binary, ["--per-host", 1, "--http", version, "--max-tries", 1])
        entries[name] = crawl(suite, flags, program, Task(hosts, 180), expected=ideal["pages"])
    samples = suite.rounds(entries)
    etas = {name: [ideal["ideal"] / run.wall if not run.void else None for run in runs] for name, runs in samples.items()}
    measures = [
        Measure("ideal / wall, HTTP/2", etas["HTTP/2"], 0.95, 0.98),
        Measure("ideal / wall, HTTP/1.1", etas["HTTP/1.1"]),
        Measure("wall time, HTTP/2 / HTTP/1.1", ratio(etas["HTTP/1.1"], etas["HTTP/2"]), 1.02, 1.0, higher=False),
        Measure("CPU per page, HTTP/2 / HTTP/1.1", ratio(costs(samples["HTTP/2"]), costs(samples["HTTP/1.1"])), None, None, higher=False),
    ]
    notes = [f"Ideal: {ideal['ideal']:.2f} s, robots.txt included. The crate `h2` serves HTTP/2. One request at a time to a host, as in S4."]
    return measures, samples, notes
