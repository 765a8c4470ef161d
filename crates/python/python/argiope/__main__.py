"""`python -m argiope`: the command."""

from __future__ import annotations

import os
import signal
import sys

from ._argiope import command


def main() -> None:
    """Runs the command `argiope` with the arguments of the program, and ends the process."""
    # The command handles Ctrl-C itself.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    code = command(["argiope", *sys.argv[1:]])
    os._exit(code)


if __name__ == "__main__":
    main()
