"""Plots as SVG, by hand: readable on light and dark paper, the same bytes for the same figures."""

import math

WIDTH, HEIGHT = 720, 340
LEFT, RIGHT, TOP, BOTTOM = 74, 24, 44, 54
STYLE = """
    .paper { fill: #ffffff }
    text { fill: #1f2328; font-size: 13px }
    .title { font-size: 15px; font-weight: 600 }
    .axis { stroke: #57606a; stroke-width: 1; fill: none }
    .grid { stroke: #d0d7de; stroke-width: 0.6 }
    .a { stroke: #1f6feb } .b { stroke: #bc4c00 } .c { stroke: #1a7f37 } .d { stroke: #8250df }
    .line { stroke-width: 2.2; fill: none }
    .dashed { stroke-dasharray: 6 4 }
    .fa { fill: #1f6feb } .fb { fill: #bc4c00 } .fc { fill: #1a7f37 } .fd { fill: #8250df }
    @media (prefers-color-scheme: dark) {
      .paper { fill: #0d1117 } text { fill: #e6edf3 } .axis { stroke: #8b949e } .grid { stroke: #30363d }
      .a { stroke: #58a6ff } .b { stroke: #f0883e } .c { stroke: #3fb950 } .d { stroke: #bc8cff }
      .fa { fill: #58a6ff } .fb { fill: #f0883e } .fc { fill: #3fb950 } .fd { fill: #bc8cff }
    }"""


def number(value):
    """Short, and the same everywhere."""
    if value == 0:
        return "0"
    for factor, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= factor:
            return f"{value / factor:.3g}{unit}"
    return f"{value:.3g}"


def page(title, description, body, height=HEIGHT):
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" aria-labelledby="title summary" '
        'font-family="system-ui, -apple-system, \'Segoe UI\', \'DejaVu Sans\', sans-serif">\n'
        f'  <title id="title">{title}</title>\n  <desc id="summary">{description}</desc>\n  <style>{STYLE}\n  </style>\n'
        f'  <rect class="paper" width="{WIDTH}" height="{height}"/>\n'
        f'  <text class="title" x="{LEFT}" y="24">{title}</text>\n' + "".join(f"  {line}\n" for line in body) + "</svg>\n")


class Scale:
    def __init__(self, low, high, start, end, is_log=False):
        self.low, self.high, self.start, self.end, self.is_log = low, high, start, end, is_log

    def __call__(self, value):
        low, high = (math.log(self.low), math.log(self.high)) if self.is_log else (self.low, self.high)
        value = math.log(max(value, self.low)) if self.is_log else value
        return self.start + (min(value, high * 1.0001) - low) / (high - low) * (self.end - self.start)


def ticks(high, count=5):
    step = 10 ** math.floor(math.log10(high / count))
    step = next(step * factor for factor in (1, 2, 2.5, 5, 10) if step * factor * count >= high * 0.999)
    return [step * index for index in range(int(high / step + 1.001))]


def plot(title, description, x_name, y_name, lines, x_ticks=None, y_high=None, is_log=False, shades=()):
    """- Parameter lines: (name, class, points), where a class is a colour of a to d, and perhaps " dashed"."""
    points = [point for *_, these in lines for point in these]
    top = y_high or max(y for _, y in points) * 1.05
    y_marks = ticks(top)
    top = max(top, y_marks[-1])
    x_low, x_high = min(x for x, _ in points), max(x for x, _ in points)
    across = Scale(x_low, x_high, LEFT, WIDTH - RIGHT, is_log)
    down = Scale(0, top, HEIGHT - BOTTOM, TOP)
    body = []
    for mark in y_marks:
        body += [f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{down(mark):.1f}" y2="{down(mark):.1f}"/>',
                 f'<text x="{LEFT - 8}" y="{down(mark) + 4:.1f}" text-anchor="end">{number(mark)}</text>']
    foot = HEIGHT - BOTTOM
    for mark in x_ticks or [mark for mark in ticks(x_high, 8) if mark >= x_low]:
        body += [f'<line class="axis" x1="{across(mark):.1f}" x2="{across(mark):.1f}" y1="{foot}" y2="{foot + 5}"/>',
                 f'<text x="{across(mark):.1f}" y="{foot + 20}" text-anchor="middle">{number(mark)}</text>']
    body += [f'<line class="axis dashed" x1="{across(x):.1f}" x2="{across(x):.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>'
             f'<text x="{across(x) + 5:.1f}" y="{TOP + 12 + 16 * index}">{text}</text>' for index, (x, text) in enumerate(shades)]
    body += [f'<path class="axis" d="M{LEFT},{TOP}V{HEIGHT - BOTTOM}H{WIDTH - RIGHT}"/>',
             f'<text x="{(LEFT + WIDTH - RIGHT) / 2:.0f}" y="{HEIGHT - 12}" text-anchor="middle">{x_name}</text>',
             f'<text transform="translate(16,{(TOP + foot) / 2:.0f}) rotate(-90)" text-anchor="middle">{y_name}</text>']
    legend = WIDTH - RIGHT
    for name, style, these in lines:
        path = "L".join(f"{across(x):.1f},{down(y):.1f}" for x, y in these)
        body.append(f'<path class="line {style}" d="M{path}"/>')
    for name, style, _ in reversed(lines):
        legend -= 7.4 * len(name)
        body += [f'<text x="{legend:.0f}" y="40">{name}</text>',
                 f'<line class="line {style}" x1="{legend - 26:.0f}" x2="{legend - 5:.0f}" y1="36" y2="36"/>']
        legend -= 44
    return page(title, description, body)


def bars(title, description, rows, middle, unit):
    """Bars from the middle to either side. - Parameter rows: (text at the left, low, high, text of low, text of high)."""
    height = TOP + 34 * len(rows) + 40
    reach = max(abs(value - middle) for _, low, high, *_ in rows for value in (low, high)) or 1
    start, end = 305, WIDTH - 80
    low_end = min(min(low, high) for _, low, high, *_ in rows)
    high_end = max(max(low, high) for _, low, high, *_ in rows)
    across = Scale(min(low_end, middle - reach * 0.2), high_end, start + 30, end)
    body = []
    for index, (text, low, high, below, above) in enumerate(rows):
        y = TOP + 34 * index
        body.append(f'<text x="{start - 40}" y="{y + 19}" text-anchor="end">{text}</text>')
        for value, colour, label in ((low, "fa", below), (high, "fb", above)):
            x, other = sorted((across(middle), across(value)))
            body.append(f'<rect class="{colour}" x="{x:.1f}" y="{y + 6}" width="{other - x:.1f}" height="18"/>')
            # Where nothing changes one mark says it.
            if abs(across(value) - across(middle)) > 2:
                is_left = value < middle
                body.append(f'<text x="{across(value) + (-5 if is_left else 5):.1f}" y="{y + 20}" '
                            f'text-anchor="{"end" if is_left else "start"}">{label}</text>')
    bottom = TOP + 34 * len(rows)
    body += [f'<line class="axis" x1="{across(middle):.1f}" x2="{across(middle):.1f}" y1="{TOP}" y2="{bottom + 6}"/>',
             f'<text x="{across(middle):.1f}" y="{bottom + 24}" text-anchor="middle">{number(middle)} {unit}</text>']
    return page(title, description, body, height)
