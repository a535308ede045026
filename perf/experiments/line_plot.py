"""Draws a plot of medians and spreads over powers of two, as SVG."""

import html
import statistics

WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 660, 340, 70, 50, 40, 210
COLOURS = ("#D1495B", "#00798C", "#EDAE49", "#30638E", "#66A182", "#7D5BA6")


def svg(title, x_title, y_title, series):
    """series: {name: [(x, [values; None: not reached])]}. Points that no value reached are left out."""
    points = {name: [(x, [value for value in values if value is not None]) for x, values in line]
              for name, line in series.items()}
    xs = sorted({x for line in points.values() for x, _ in line})
    highest = max((value for line in points.values() for _, values in line for value in values), default=1)

    def across(x):
        step = (WIDTH - LEFT - RIGHT) / max(len(xs) - 1, 1)
        return LEFT + step * xs.index(x)

    def up(value):
        return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * value / highest

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
             'font-size="12"><rect width="100%" height="100%" fill="white"/>',
             f'<text x="{LEFT}" y="20" font-size="14">{html.escape(title)}</text>']
    for share in (0, 0.25, 0.5, 0.75, 1):
        y = up(share * highest)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>'
                     f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{share * highest:.{0 if highest >= 20 else 2}f}</text>')
    for x in xs:
        parts.append(f'<text x="{across(x):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{x}</text>')
    parts.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 12}" text-anchor="middle">'
                 f'{html.escape(x_title)}</text><text x="14" y="{HEIGHT / 2}" text-anchor="middle" '
                 f'transform="rotate(-90 14 {HEIGHT / 2})">{html.escape(y_title)}</text>')
    for number, (name, line) in enumerate(points.items()):
        colour = COLOURS[number % len(COLOURS)]
        reached = [(across(x), values) for x, values in line if values]
        path = " ".join(f"{x:.1f},{up(statistics.median(values)):.1f}" for x, values in reached)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for x, values in reached:
            parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{up(min(values)):.1f}" '
                         f'y2="{up(max(values)):.1f}" stroke="{colour}"/>'
                         f'<circle cx="{x:.1f}" cy="{up(statistics.median(values)):.1f}" r="4" fill="{colour}"/>')
        parts.append(f'<text x="{WIDTH - RIGHT + 10}" y="{TOP + 18 * number + 10}" fill="{colour}">'
                     f'{html.escape(name)}</text>')
    return "\n".join(parts) + "</svg>\n"
