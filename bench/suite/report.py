"""Results as JSON, as a table on the terminal, and as the tables of docs/performance.md."""

import json
import os

from .result import programs_summary
from .scenarios import SCENARIOS


def write(folder, name, title, suite, measures, samples, notes, missing):
    """Writes the results of one scenario and replaces those of its previous run."""
    result = {
        "scenario": name,
        "title": title,
        "machine": suite.machine,
        "rounds": suite.runs,
        "quick": suite.quick,
        "measures": [measure.summary() for measure in measures],
        "programs": programs_summary(samples),
        "missing": missing,
        "notes": notes,
    }
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, f"{name}.json"), "w") as file:
        json.dump(result, file, indent=1)
        file.write("\n")
    return result


def read_all(folder):
    """The results of all scenarios that were run, in order."""
    results = []
    for name in SCENARIOS:
        path = os.path.join(folder, f"{name}.json")
        if os.path.exists(path):
            with open(path) as file:
                results.append(json.load(file))
    return results


def number(value, unit=""):
    """A number with three significant digits, or more if it is large; "-" for none."""
    if value is None:
        return "-"
    if abs(value) >= 100 or value == int(value):
        text = f"{value:,.0f}"
    elif abs(value) >= 10:
        text = f"{value:.1f}"
    else:
        text = f"{value:.3g}"
    return text + (f" {unit}" if unit else "")


def measure_row(line):
    """The cells of a measure."""
    sign = "≥" if line["higher_is_better"] else "≤"
    bar = f"{sign} {number(line['bar'])}" if line["bar"] is not None else ""
    goal = f"{sign} {number(line['goal'])}" if line["goal"] is not None else ""
    spread = f"{number(line['low'])} to {number(line['high'])}" if line["values"] else "-"
    return [line["name"], bar, goal, number(line.get("median"), line["unit"]), spread, line["verdict"]]


def program_row(line):
    """The cells of a program."""
    if not line["valid"]:
        return [line["name"], f"0 of {line['runs']}", "-", "-", "-", "-", "VOID: " + "; ".join(line.get("void", []))]
    words = "" if "void" not in line else "some runs void: " + "; ".join(line["void"])
    return [
        line["name"],
        f"{line['valid']} of {line['runs']}",
        f"{line['pages']:,}" if line["pages"] else "-",
        f"{line['wall_s']:.3g} s" if line["wall_s"] else "-",
        f"{number(line['cpu_us_a_page'])} µs" if line["cpu_us_a_page"] else "-",
        f"{line['peak_mb']:.3g} MB",
        words,
    ]


MEASURES = ["measure", "bar", "goal", "median", "range", ""]
PROGRAMS = ["program", "runs", "pages", "wall", "CPU a page", "peak memory", ""]


def grid(head, rows):
    """Columns of equal width, for a terminal."""
    rows = [head, *rows]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
    return "\n".join("  " + line for line in lines)


def markdown(head, rows):
    """A Markdown table."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def text(result):
    """One scenario, for a terminal."""
    parts = [f"\n{result['scenario']}  {result['title']}\n", grid(MEASURES, map(measure_row, result["measures"]))]
    if result["programs"]:
        parts.append("\n" + grid(PROGRAMS, map(program_row, result["programs"])))
    parts += [f"  MISSING: {name} is not installed (bench/peers installs it)" for name in result["missing"]]
    parts += [f"  note: {note}" for note in result["notes"]]
    if result["quick"]:
        parts.append("  QUICK: small sizes, one round: this shows that it works, not how fast it is")
    return "\n".join(parts)


def machine_words(machine):
    """A description of the machine."""
    return (
        f"{machine['cores']} cores of {machine['cpu']}, {machine['memory_gb']:g} GB, {machine['kernel']}, "
        f"{machine['libc']}, {machine['rustc']}"
    )


BEGIN, END = "<!-- bench:begin -->", "<!-- bench:end -->"


# The scenarios in the README.
HEADLINES = ("S1", "S2", "S3", "S4", "S5", "S7")


def document(results, root):
    """Writes the tables between the markers of docs/performance.md, and of the README if it has markers."""
    if not results:
        raise SystemExit("bench/results has no results: run bench/run first")
    replace(os.path.join(root, "docs", "performance.md"), generated(results), required=True)
    replace(os.path.join(root, "README.md"), headlines(results), required=False)


def replace(path, text, required):
    """Replaces the text between the markers of a file."""
    with open(path) as file:
        before, begin_mark, rest = file.read().partition(BEGIN)
    _, end_mark, after = rest.partition(END)
    if begin_mark and end_mark:
        with open(path, "w") as file:
            file.write(f"{before}{BEGIN}\n{text}\n{END}{after}")
    elif required:
        raise SystemExit(f"{path}: the markers {BEGIN} and {END} are missing")


def headlines(results):
    """The table of the README."""
    rows = []
    for result in results:
        if result["scenario"] in HEADLINES:
            for line in result["measures"]:
                name, bar, _, median, spread, verdict = measure_row(line)
                rows.append([f"{result['scenario']} {name}", bar, median, verdict])
    machine = results[0]["machine"]
    words = f"Medians of {results[0]['rounds']} rounds on {machine['cores']} cores of {machine['cpu']}, {machine['date'].split()[0]}."
    link = "All scenarios, and those not measured yet: [docs/performance.md](docs/performance.md)."
    return f"{words} {link}\n\n" + markdown(["", "bar", "measured", ""], rows)


def generated(results):
    """The generated part of docs/performance.md."""
    parts = ["The table is written by `bench/run --document` from `bench/results`.", ""]
    rows = []
    for result in results:
        for line in result["measures"]:
            rows.append([f"[{result['scenario']}](#{result['scenario'].lower()})", *measure_row(line)])
    parts.append(markdown(["", *MEASURES], rows))
    absent = [name for name in SCENARIOS if name not in {result["scenario"] for result in results}]
    if absent:
        parts += ["", f"Not measured in this form yet: {', '.join(absent)}."]
    for result in results:
        machine = result["machine"]
        parts += ["", f"### {result['scenario']}", "", result["title"], ""]
        parts.append(
            f"{machine['date']}, commit {machine['commit']}, {result['rounds']} rounds; {machine_words(machine)}; "
            f"load {machine['load']:g} at the start."
            + (" QUICK: small sizes; not a measurement." if result["quick"] else "")
        )
        if result["programs"]:
            parts += ["", markdown(PROGRAMS, map(program_row, result["programs"]))]
        parts += [f"\nMissing: {name} was not installed." for name in result["missing"]]
        parts += [f"\n{note}" for note in result["notes"]]
        parts += ["", f"![{result['scenario']}](../bench/results/{result['scenario']}.svg)"]
    return "\n".join(parts)
