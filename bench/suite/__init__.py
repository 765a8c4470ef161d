"""The benchmark suite: the modules of bench/run. They need only Python's standard library.

process.py    runs a program and measures its time and memory
web.py        the practice web in a separate process
programs.py   Argiope, the limit (wrk) and the peers, each as a command
result.py     samples, measures against their bars, JSON
scenarios.py  S1 to S15
plot.py       charts
report.py     tables, and docs/performance.md
"""
