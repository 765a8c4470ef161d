"""The benchmark suite: what bench/run is made of. Nothing but Python's standard library.

process.py    runs a program and says what it used
web.py        the practice web in a process of its own
programs.py   Argiope, the limit (wrk) and the peers, each as a command
result.py     samples, measures against their bars, JSON
scenarios.py  S1 to S13
plot.py       pictures, report.py tables and docs/performance.md
"""
