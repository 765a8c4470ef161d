"""Describes the machine and the build that were measured."""

import datetime
import os
import platform
import subprocess


def describe(root):
    """The description for the JSON. `root` is the folder of the project."""
    return {
        "cpu": cpu(),
        "cores": os.cpu_count(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        "kernel": f"{platform.system()} {platform.release()}",
        "libc": " ".join(platform.libc_ver()),
        "rustc": output_of(["rustc", "--version"]),
        "commit": output_of(["git", "-C", root, "rev-parse", "--short=12", "HEAD"])
        + ("" if not output_of(["git", "-C", root, "status", "--porcelain"]) else " with changes"),
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "load": round(os.getloadavg()[0], 2),
    }


def cpu():
    """The model of the processor."""
    try:
        with open("/proc/cpuinfo") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.machine()


def output_of(command):
    """The standard output of a command; empty if it fails to run."""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=30).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""
