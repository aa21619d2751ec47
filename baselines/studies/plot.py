"""A chart of points and lines over logarithmic axes, as SVG."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 640, 420
LEFT, RIGHT, TOP, BOTTOM = 70, 20, 40, 50  # margins around the axes
COLOURS = ("#1f6feb", "#d1242f", "#1a7f37", "#9a6700", "#8250df", "#57606a")  # told apart in print and by most eyes
Point = tuple[float, float]


@dataclass(frozen=True)
class Series:
    """Points that share a colour and a line in the legend; joined in order if they are a `line`."""

    name: str
    points: Sequence[Point]
    line: bool = False


@dataclass(frozen=True)
class Axis:
    """Where numbers > 0 lie between two ends of the picture."""

    low: float
    high: float
    start: float
    end: float

    @classmethod
    def over(cls, values: Sequence[float], start: float, end: float) -> Axis:
        low, high = math.log10(min(values)), math.log10(max(values))
        margin = 0.04 * (high - low) or 0.1
        return cls(low - margin, high + margin, start, end)

    def place(self, value: float) -> float:
        share = (math.log10(value) - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self) -> Iterator[float]:
        """Powers of ten; where fewer than three fall in, also numbers between them."""
        decades = range(math.floor(self.low), math.ceil(self.high) + 1)
        steps = (1,) if sum(self.low <= d <= self.high for d in decades) > 2 else (1, 1.5, 2, 2.5, 3, 4, 5, 7)
        for value in (step * 10.0**decade for decade in decades for step in steps):
            if self.low <= math.log10(value) <= self.high:
                yield value


def chart(title: str, x: str, y: str, series: Sequence[Series]) -> str:
    """The picture; every number must be above 0."""
    points = [p for s in series for p in s.points]
    across = Axis.over([p[0] for p in points], LEFT, WIDTH - RIGHT)
    up = Axis.over([p[1] for p in points], HEIGHT - BOTTOM, TOP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        _text(WIDTH / 2, 20, title, size=14),
        _text(WIDTH / 2, HEIGHT - 10, x),
        f'<g transform="rotate(-90)">{_text(-HEIGHT / 2, 16, y)}</g>',
        *_grid(across, up),
    ]
    for i, s in enumerate(series):
        colour = COLOURS[i % len(COLOURS)]
        places = [(across.place(a), up.place(b)) for a, b in s.points]
        if s.line:
            joined = " ".join(f"{a:.1f},{b:.1f}" for a, b in places)
            parts.append(f'<polyline points="{joined}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        else:
            parts += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3.5" fill="{colour}" fill-opacity="0.7"/>' for a, b in places]
        height = TOP + 14 + 16 * i
        parts.append(f'<rect x="{WIDTH - RIGHT - 150}" y="{height - 9}" width="10" height="10" fill="{colour}"/>')
        parts.append(_text(WIDTH - RIGHT - 134, height, s.name, anchor="start"))
    return "\n".join([*parts, "</svg>", ""])


def _grid(across: Axis, up: Axis) -> Iterator[str]:
    for value in across.ticks():
        place = across.place(value)
        yield f'<line x1="{place:.1f}" y1="{TOP}" x2="{place:.1f}" y2="{HEIGHT - BOTTOM}" stroke="#d0d7de"/>'
        yield _text(place, HEIGHT - BOTTOM + 16, f"{value:g}")
    for value in up.ticks():
        place = up.place(value)
        yield f'<line x1="{LEFT}" y1="{place:.1f}" x2="{WIDTH - RIGHT}" y2="{place:.1f}" stroke="#d0d7de"/>'
        yield _text(LEFT - 6, place + 4, f"{value:g}", anchor="end")


def _text(x: float, y: float, text: str, *, anchor: str = "middle", size: int = 12) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}">{escape(text)}</text>'
