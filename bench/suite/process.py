"""Runs a program and measures wall time, CPU time (rusage) and peak memory (VmHWM).

A program runs in its own session, and is killed if this process ends. After the timeout it is killed with its children.
"""

import ctypes
import os
import signal
import subprocess
import threading
import time
from dataclasses import dataclass

PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)

# Client and server have different cores, if there are two.
CORES = sorted(os.sched_getaffinity(0))
CLIENT_CORE = CORES[0]
SERVER_CORE = CORES[1] if len(CORES) > 1 else CORES[0]


def prepare(core):
    """A function that the child calls before exec: it pins the child to a core, and ends it with this process."""

    def prepare_child():
        _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if core is not None:
            os.sched_setaffinity(0, {core})

    return prepare_child


@dataclass
class Outcome:
    """The result of a program. Times are in seconds."""

    wall: float
    user: float
    system: float
    peak: int  # bytes
    code: int
    timed_out: bool
    output: str  # the end of standard output and standard error

    @property
    def cpu(self):
        return self.user + self.system

    @property
    def ok(self):
        return self.code == 0 and not self.timed_out


def peak_memory(pid):
    """Peak resident memory in bytes. `ru_maxrss` would include the memory of the parent process."""
    try:
        with open(f"/proc/{pid}/status", "rb") as status:
            for line in status:
                if line.startswith(b"VmHWM:"):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    return 0


def run(command, work, core=CLIENT_CORE, timeout=120.0, environment=None, poll_interval=0.02):
    """Runs a command to its end in the folder `work`. Its output goes to a file there."""
    output_file = os.path.join(work, "output.txt")
    with open(output_file, "wb") as output:
        started = time.monotonic()
        child = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=work,
            env={**os.environ, **(environment or {})},
            start_new_session=True,
            preexec_fn=prepare(core),
        )
    state = {"peak": 0, "timed_out": False}
    ended = threading.Event()

    def watch():
        # The peak only grows, so the last value before the end is the result.
        while not ended.wait(poll_interval):
            state["peak"] = max(state["peak"], peak_memory(child.pid))
            if time.monotonic() - started > timeout:
                state["timed_out"] = True
                kill_group(child.pid)
                return

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        _, status, usage = os.wait4(child.pid, 0)
        wall = time.monotonic() - started
        child.returncode = os.waitstatus_to_exitcode(status)
    finally:
        ended.set()
        watcher.join()
        kill_group(child.pid)
    return Outcome(
        wall, usage.ru_utime, usage.ru_stime, state["peak"], child.returncode, state["timed_out"], tail(output_file)
    )


def kill_group(pid):
    """Ends a program that was started here, with its children."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass


def tail(path, size=4000):
    """The last bytes of a file, as text."""
    with open(path, "rb") as file:
        file.seek(0, os.SEEK_END)
        file.seek(max(0, file.tell() - size))
        return file.read().decode("utf-8", "replace")
