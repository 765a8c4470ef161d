"""Samples (one run of one program) and measures (a figure per round, with a bar to reach and a goal)."""

import statistics
from dataclasses import dataclass, field


@dataclass
class Sample:
    """One run of one program."""

    pages: int = 0
    wall: float = 0.0  # seconds
    cpu: float = 0.0  # seconds
    peak: int = 0  # bytes
    void: str | None = None  # why this run does not count
    more: dict = field(default_factory=dict)  # other figures, by name

    @property
    def rate(self):
        """Pages per second of CPU time."""
        return self.pages / self.cpu if self.cpu and not self.void else None

    @property
    def cost(self):
        """Seconds of CPU time per page."""
        return self.cpu / self.pages if self.pages and not self.void else None


@dataclass
class Measure:
    """One line of the table: the values of the rounds, the bar and the goal."""

    name: str
    values: list
    bar: float | None = None
    goal: float | None = None
    higher: bool = True  # whether more is better
    unit: str = ""

    def summary(self):
        """The measure for the JSON: its values, their median and the verdict."""
        values = [value for value in self.values if value is not None]
        line = {
            "name": self.name,
            "bar": self.bar,
            "goal": self.goal,
            "higher_is_better": self.higher,
            "unit": self.unit,
            "values": [round_to(value) for value in values],
        }
        if values:
            line["median"] = round_to(statistics.median(values))
            line["low"], line["high"] = round_to(min(values)), round_to(max(values))
        line["verdict"] = verdict(line.get("median"), self.bar, self.goal, self.higher)
        return line


def verdict(value, bar, goal, higher):
    """Whether the value reaches the goal or the bar, in words."""
    if value is None:
        return "void"
    if bar is None:
        return ""

    def meets(limit):
        return value >= limit if higher else value <= limit

    if goal is not None and meets(goal):
        return "goal reached"
    if meets(bar):
        return "bar reached"
    if bar == 0:
        return f"missed: {value:g} instead of {bar:g}"
    share = value / bar
    return f"missed: {100 * share:.0f} % of the bar" if higher else f"missed: {share:.2f} times the bar"


def round_to(value, digits=5):
    """Rounds to this number of significant digits."""
    return float(f"{value:.{digits}g}") if value else value


def ratio(above, below):
    """The quotient per round; None for a round in which one of the two is invalid."""
    return [a / b if a is not None and b else None for a, b in zip(above, below)]


def median(values):
    """The median of the valid values."""
    values = [value for value in values if value is not None]
    return statistics.median(values) if values else None


def programs_summary(samples):
    """The results of every program for the JSON: medians over its valid runs."""
    lines = []
    for name, runs in samples.items():
        valid = [run for run in runs if not run.void]
        line = {"name": name, "runs": len(runs), "valid": len(valid)}
        if valid:
            line["pages"] = valid[0].pages
            line["wall_s"] = round_to(median([run.wall for run in valid]))
            line["cpu_s"] = round_to(median([run.cpu for run in valid]))
            line["cpu_us_a_page"] = round_to(1e6 * median([run.cost for run in valid]) if valid[0].pages else None)
            line["peak_mb"] = round_to(median([run.peak for run in valid]) / 1e6, 3)
            line["each"] = [
                {"wall_s": round_to(run.wall), "cpu_s": round_to(run.cpu), "peak_mb": round_to(run.peak / 1e6, 3)}
                | {key: round_to(value) if isinstance(value, float) else value for key, value in run.more.items()}
                for run in valid
            ]
        reasons = sorted({run.void for run in runs if run.void})
        if reasons:
            line["void"] = reasons
        lines.append(line)
    return lines
