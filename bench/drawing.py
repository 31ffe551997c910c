"""As much of SVG as plots need."""

import math
from xml.sax.saxutils import escape

FONT = "system-ui, 'DejaVu Sans', sans-serif"
INK, FAINT, TARGET = "#1f2933", "#d5dbe1", "#c81e1e"
# By who it is, in every plot the same.
COLOURS = {
    "attestgate": "#1d6fb8", "attestgate, attested": "#0b3c6f", "nginx": "#2f9e44", "haproxy": "#e8890c", "envoy": "#9c36b5",
    "direct": "#868e96", "auth-request-python": "#0c8599", "auth-request-swift": "#a61e4d"}


def colour(name, number=0):
    others = ["#0c8599", "#a61e4d", "#5c940d", "#495057"]
    return COLOURS.get(name, others[number % len(others)])


class Drawing:
    """Collects what is drawn, in pixels from the top left."""

    def __init__(self, width, height, title):
        self.width, self.height, self.title = width, height, title
        self.parts = []

    def line(self, x1, y1, x2, y2, stroke=FAINT, width=1, dashes=""):
        dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
        self.parts.append(
            f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{stroke}" stroke-width="{width}"{dashed}/>')

    def bar(self, x, y, width, height, fill):
        self.parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}" height="{height:.1f}" fill="{fill}"/>')

    def curve(self, points, stroke, dashes=""):
        dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self.parts.append(f'<polyline points="{path}" fill="none" stroke="{stroke}" stroke-width="2"{dashed}/>')
        self.parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{stroke}"/>' for x, y in points]

    def text(self, x, y, text, anchor="start", size=12, fill=INK, weight="normal"):
        self.parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="{fill}" font-weight="{weight}" '
            'paint-order="stroke" stroke="#ffffff" stroke-width="3">'
            f"{escape(text)}</text>")

    def key(self, x, y, names):
        """Says in one line which colour is whose. `names` maps one to the other."""
        for name, fill in names.items():
            self.bar(x, y - 9, 10, 10, fill)
            self.text(x + 14, y, name)
            x += 26 + 7 * len(name)

    def svg(self):
        return "\n".join([
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" width="{self.width}" '
            f'height="{self.height}" font-family="{FONT}" role="img">',
            f"<title>{escape(self.title)}</title>",
            f'<rect width="{self.width}" height="{self.height}" fill="#ffffff"/>', *self.parts, "</svg>", ""])


class Scale:
    """Values to pixels; with `is_log`, each tenfold as far as the next."""

    def __init__(self, least, most, start, end, is_log=False):
        self.is_log = is_log
        self.least, self.most = (math.log10(least), math.log10(most)) if is_log else (least, most)
        self.start, self.end = start, end

    def __call__(self, value):
        value = math.log10(max(value, 1e-9)) if self.is_log else value
        span = self.most - self.least or 1
        return self.start + (value - self.least) / span * (self.end - self.start)

    @property
    def decades(self):
        """Powers of ten within a logarithmic scale."""
        return [10.0 ** power for power in range(math.ceil(self.least - 1e-9), math.floor(self.most + 1e-9) + 1)]


def decades_around(values):
    """The powers of ten that hold all of them."""
    least, most = min(values), max(values)
    low = 10.0 ** math.floor(math.log10(max(least, 1e-3)))
    high = 10.0 ** math.ceil(math.log10(max(most, 1e-3)))
    return low, high if high > low else low * 10
