"""Charts of results as SVG: a dot for every round, lines for the median, the bar and the goal. Needs no library."""

from html import escape

WIDTH, LEFT, RIGHT, ROW, TOP = 900, 350, 190, 46, 44
INK, FAINT, OURS, BAR, GOAL = "#222", "#bbb", "#b8860b", "#c0392b", "#2e7d32"


def measures_svg(result):
    """Every measure on its own scale, from zero to slightly more than the largest value."""
    lines = [line for line in result["measures"] if line["values"]]
    height = TOP + ROW * max(1, len(lines)) + 30
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
        f'font-family="sans-serif" font-size="12" fill="{INK}">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        f'<text x="12" y="22" font-size="14" font-weight="bold">{escape(result["scenario"])}: {escape(shorten(result["title"], 110))}</text>',
    ]
    for index, line in enumerate(lines):
        parts += row(line, TOP + ROW * index + ROW // 2)
    legend = f'{result["machine"]["date"]}, {result["machine"]["commit"]}; dots: rounds, thick: median, red: bar, green: goal'
    parts.append(f'<text x="12" y="{height - 10}" font-size="11" fill="#666">{escape(legend)}</text>')
    parts.append("</svg>")
    return "\n".join(parts) + "\n"


def row(line, y):
    """The chart of one measure at this height."""
    values = [value for value in (line["bar"], line["goal"], *line["values"]) if value is not None]
    largest = max(values) * 1.08 or 1.0

    def x(value):
        return LEFT + (WIDTH - LEFT - RIGHT) * value / largest

    direction = "more is better" if line["higher_is_better"] else "less is better"
    parts = [
        f'<text x="12" y="{y}">{escape(shorten(line["name"], 58))}</text>',
        f'<text x="12" y="{y + 14}" font-size="10" fill="#888">{direction}</text>',
        f'<line x1="{LEFT}" y1="{y}" x2="{WIDTH - RIGHT}" y2="{y}" stroke="{FAINT}"/>',
    ]
    for value, colour in ((line["bar"], BAR), (line["goal"], GOAL)):
        if value is not None:
            parts.append(f'<line x1="{x(value):.1f}" y1="{y - 12}" x2="{x(value):.1f}" y2="{y + 12}" stroke="{colour}" stroke-width="2"/>')
    for value in line["values"]:
        parts.append(f'<circle cx="{x(value):.1f}" cy="{y}" r="4" fill="{OURS}" fill-opacity="0.6"/>')
    median = x(line["median"])
    parts.append(f'<line x1="{median:.1f}" y1="{y - 8}" x2="{median:.1f}" y2="{y + 8}" stroke="{INK}" stroke-width="3"/>')
    text = f'{line["median"]:.3g}{" " + line["unit"] if line["unit"] else ""}, {line["verdict"]}'
    parts.append(f'<text x="{WIDTH - RIGHT + 8}" y="{y + 4}" font-size="11">{escape(shorten(text, 30))}</text>')
    return parts


def shorten(text, max_length):
    """Cuts a text that is too long."""
    return text if len(text) <= max_length else text[: max_length - 1] + "…"
