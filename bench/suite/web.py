"""The practice web in a separate process on its own core. Its request counts decide whether a run is valid."""

import json
import os
import select
import subprocess
import tempfile
import time

from . import process


class Web:
    """A web for one run; its counts start at zero. Use it in a `with` statement."""

    def __init__(self, server, flags, work, core=process.SERVER_CORE):
        self.roots_file = os.path.join(work, "roots.txt")
        self.ca = os.path.join(work, "ca.pem") if "--tls" in [str(flag) for flag in flags] else None
        command = [server, "serve", *flags, "--roots-out", self.roots_file]
        if self.ca:
            command += ["--ca-out", self.ca]
        # Errors go to a file: a pipe that is not read would fill up.
        self.stderr = tempfile.TemporaryFile()
        self.child = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.stderr,
            start_new_session=True,
            preexec_fn=process.prepare(core),
        )
        self.unread = b""
        ready = self.read_line(60)
        self.pages = ready["pages"]
        self.roots = ready["roots"]
        self.address = ready["addresses"][0]
        self.port = int(self.address.rsplit(":", 1)[1])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.child.stdin.close()
            self.child.wait(10)
        except (OSError, subprocess.TimeoutExpired):
            process.kill_group(self.child.pid)
            self.child.wait()
        self.child.stdout.close()
        self.stderr.close()

    def stats(self):
        """The counts of the server so far."""
        self.child.stdin.write(b"stats\n")
        self.child.stdin.flush()
        return self.read_line(30)

    def read_line(self, timeout):
        """Reads the next line of JSON."""
        deadline = time.monotonic() + timeout
        while b"\n" not in self.unread:
            ready, _, _ = select.select([self.child.stdout], [], [], max(0.0, deadline - time.monotonic()))
            piece = os.read(self.child.stdout.fileno(), 1 << 20) if ready else b""
            if not piece:
                self.stderr.seek(0)
                errors = self.stderr.read().decode("utf-8", "replace").strip()
                process.kill_group(self.child.pid)
                raise RuntimeError(f"the practice web printed nothing: {errors}")
            self.unread += piece
        line, _, self.unread = self.unread.partition(b"\n")
        return json.loads(line)


def ideal(server, flags, at_once, per_host, delay_ms=0, robots=True, patience_ms=10_000):
    """The lower bound for the time of a crawl of this web, in seconds, computed by the server from its delays."""
    command = [server, "ideal", *flags, "--at-once", at_once, "--per-host", per_host, "--delay-ms", delay_ms]
    command += ["--patience-ms", patience_ms] + ([] if robots else ["--no-robots"])
    output = subprocess.run([str(word) for word in command], check=True, capture_output=True, timeout=300).stdout
    return json.loads(output)
