"""Draws the comparison as an SVG that needs nothing else: a bar of images per second for each
contender, with the spread over the rounds."""

from html import escape

from summary import counted

WIDTH, LABELS, BAR, GAP, TOP = 760, 170, 26, 12, 64
OURS, BETTER, OTHER, INK = "#1f77b4", "#d95f02", "#b0b0b0", "#222222"


def nice_step(top):
    """Returns a round distance of grid lines, with at most eight of them above 0."""
    magnitude = 1.0
    while magnitude * 10 <= top:
        magnitude *= 10
    while magnitude > top:
        magnitude /= 10
    for factor in (0.2, 0.5, 1, 2):
        if top / (factor * magnitude) <= 8:
            return factor * magnitude
    return 2 * magnitude


def text(x, y, words, size=12, anchor="start", weight="normal"):
    return (f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" '
            f'font-weight="{weight}" fill="{INK}">{escape(words)}</text>')


def line(x1, y1, x2, y2, colour=INK, width=1.0):
    return (f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" '
            f'stroke-width="{width}"/>')


def bar(name, told, y, scale, result):
    rates = sorted(result["batch"] / each for each in told["seconds"])
    rate, middle = told["images_per_second"], y + BAR / 2
    colour = OURS if name == "omnivore" else BETTER if name == result["better_peer"] else OTHER
    low, high = LABELS + rates[0] * scale, LABELS + rates[-1] * scale
    share = told["fraction_of_peak"]
    said = f"{rate:.4g}" + ("" if share is None else f" ({share:.0%} of peak)")
    return [text(LABELS - 8, middle + 4, name, anchor="end"),
            f'<rect x="{LABELS}" y="{y}" width="{rate * scale:.1f}" height="{BAR}" fill="{colour}"/>',
            line(low, middle, high, middle), line(low, middle - 5, low, middle + 5),
            line(high, middle - 5, high, middle + 5), text(high + 8, middle + 4, said)]


def svg(result):
    contenders = result["contenders"]
    height = TOP + len(contenders) * (BAR + GAP) + 44
    top = max(result["batch"] / min(told["seconds"]) for told in contenders.values())
    scale = (WIDTH - LABELS - 150) / top
    foot = TOP + len(contenders) * (BAR + GAP)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
             f'viewBox="0 0 {WIDTH} {height}" font-family="sans-serif">',
             f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
             text(16, 24, f"{result['net']}, batch {result['batch']}, {counted(result['threads'], 'thread')}: "
                  "training, images per second", 15, weight="bold"),
             text(16, 44, f"{result['date']} · {result['cpu']} · median of {counted(result['rounds'], 'round')}, "
                  "whiskers: slowest and fastest")]
    step, tick = nice_step(top), 0.0
    while tick <= top * 1.001:
        x = LABELS + tick * scale
        parts += [line(x, TOP - 6, x, foot, "#dddddd"), text(x, foot + 16, f"{tick:g}", 11, "middle")]
        tick += step
    for number, (name, told) in enumerate(contenders.items()):
        parts += bar(name, told, TOP + number * (BAR + GAP), scale, result)
    if result["ratio"] is not None:
        low, high = result["ratio_spread"]
        parts.append(text(16, height - 8, f"omnivore / {result['better_peer']}: {result['ratio']:.2f} "
                          f"({low:.2f} to {high:.2f})"))
    return "\n".join([*parts, "</svg>", ""])
