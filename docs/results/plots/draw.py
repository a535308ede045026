#!/usr/bin/env python3
"""Draws the plots of README from the figures beside this file. usage: draw.py [--check]
NAME.json has either "rows" (bars) or "series" (curves); every figure names its machine, date, tree and command.
--check draws nothing: it ends with 1 where a plot is not what its figures give."""

import glob
import json
import math
import os
import sys
from html import escape

WIDTH, LEFT, RIGHT, TOP, INK = 720, 220, 130, 50, "#222222"
COLOURS = ("#1f77b4", "#d95f02", "#1b9e77", "#7570b3", "#888888")
SOURCE = ("machine", "date", "tree", "command")


def text(x, y, words, anchor="start", colour=INK, size=12):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}" font-size="{size}">{escape(words)}</text>'


def line(x1, y1, x2, y2, colour="#dddddd"):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"/>'


def bars(figures):
    rows = figures["rows"]
    scale = (WIDTH - LEFT - RIGHT) / math.ceil(max(row.get("most", row["ratio"]) for row in rows))
    colours = dict(zip(dict.fromkeys(row["group"] for row in rows), COLOURS))
    foot, parts = TOP + 30 * len(rows), []
    for tick in range(math.ceil((WIDTH - LEFT - RIGHT) / scale) + 1):
        x = LEFT + tick * scale
        parts += [line(x, TOP, x, foot, INK if tick == 1 else "#dddddd"), text(x, foot + 16, str(tick), "middle")]
    for number, row in enumerate(rows):
        y = TOP + 30 * number
        parts += [text(LEFT - 8, y + 18, row["name"], "end"),
                  f'<rect x="{LEFT}" y="{y + 4}" width="{row["ratio"] * scale:.1f}" height="20" fill="{colours[row["group"]]}"/>']
        least, most = (LEFT + row.get(end, row["ratio"]) * scale for end in ("least", "most"))
        parts += [line(least, y + 14, most, y + 14, INK)]
        parts += [text(most + 8, y + 18, f'{row["ratio"]:.2f} ({row["note"]})')]
    at = LEFT
    for group, colour in colours.items():
        parts.append(text(at, foot + 38, "■ " + group, colour=colour))
        at += 40 + 7 * len(group)
    return parts, foot + 50


def curves(figures):
    series, height = figures["series"], 300
    points = [point for each in series for point in each["points"]]
    first, last = (round_to(math.log10(bound([x for x, _ in points])))
                   for bound, round_to in ((min, math.floor), (max, math.ceil)))
    low, high = figures["from"], figures["to"]

    def place(x, y):
        return (70 + (WIDTH - 70 - 190) * (math.log10(x) - first) / (last - first),
                TOP + height * (1 - (max(y, low) - low) / (high - low)))

    parts = []
    for tick in range(first, last + 1):
        x, _ = place(10.0 ** tick, low)
        parts += [line(x, TOP, x, TOP + height), text(x, TOP + height + 16, f"{10.0 ** tick:g}", "middle")]
    for tick in range(low, high + 1, figures["step"]):
        _, y = place(10.0 ** first, tick)
        parts += [line(70, y, WIDTH - 190, y), text(64, y + 4, f"{tick}", "end")]
    for number, each in enumerate(series):
        colour, at = COLOURS[number], [place(*point) for point in each["points"]]
        parts.append(f'<polyline points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in at)}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in at]
        parts.append(text(WIDTH - 180, TOP + 14 + 20 * number, each["name"], colour=colour))
    parts += [text((WIDTH - 120) / 2, TOP + height + 36, figures["x"], "middle"),
              f'<text transform="translate(20 {TOP + height / 2:.0f}) rotate(-90)" text-anchor="middle" font-size="12" fill="{INK}">{escape(figures["y"])}</text>']
    return parts, TOP + height + 50


def svg(figures):
    for row in figures.get("rows", [figures]):
        missing = [each for each in SOURCE if not row.get(each)]
        assert not missing, f"a figure without {', '.join(missing)}"
    parts, height = (bars if "rows" in figures else curves)(figures)
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" font-family="sans-serif">',
                      f'<rect width="{WIDTH}" height="{height}" fill="white"/>', text(16, 26, figures["title"], size=15), *parts, "</svg>", ""])


def main(words):
    stale = []
    for path in sorted(glob.glob(os.path.join(os.path.dirname(os.path.abspath(__file__)), "*.json"))):
        with open(path, encoding="utf-8") as file:
            drawn = svg(json.load(file))
        path = path.replace(".json", ".svg")
        if words != ["--check"]:
            with open(path, "w", encoding="utf-8") as file:
                file.write(drawn)
        elif not os.path.exists(path) or open(path, encoding="utf-8").read() != drawn:
            stale.append(f"{path} is not what its figures give (docs/results/plots/draw.py)")
    return "\n".join(stale)


if __name__ == "__main__":
    sys.exit((main(sys.argv[1:]) or 0) if sys.argv[1:] in ([], ["--check"]) else __doc__)
