"""Pictures of numbers, as SVG for pages and PNG for papers: deterministic, legible on light and dark ground and in print.

In the SVG text is text, ink is `currentColor`, and there are no style sheets, scripts or ids that others might have. The
colours of data are Okabe and Ito's (2008) where those stand out from white and from black alike, else darker or lighter kin of
them; what a picture says is never said by colour alone.
"""

from __future__ import annotations

import io
import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pipeline.report.page import Figure, Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK = "#15161a"
GREY = "#8a8d94"
PALETTE = ("#3a7fc1", "#d5651a", "#12956f", "#b0639c", "#a07800", "#6b72c9", "#c2484f", "#4a8f9c")
WIDTH = 6.4  # inches
_DASHES = ("-", "--", "-.", ":")
_SETTINGS: dict[str, Any] = {
    "svg.fonttype": "none",
    "font.family": ["sans-serif"],
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9,
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "path.simplify": True,
    "axes.formatter.useoffset": False,
    "text.usetex": False,
    "text.parse_math": False,
}


@dataclass(frozen=True)
class Line:
    """A vertical line in a histogram: a threshold."""

    at: float
    label: str


def draw(
    name: str,
    title: str,
    alt: str,
    table: Table,
    paint: Callable[[Axes], None],
    *,
    height: float = 2.8,
    left: float = 0.66,
    legend: Sequence[str] = (),
) -> Figure:
    """A figure of one pair of axes, which `paint` fills: `left` inches are kept for labels, room above for a `legend`."""
    import matplotlib

    settings: Any = {**_SETTINGS, "svg.hashsalt": name}
    with matplotlib.rc_context(settings):
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure as Drawing

        top = 0.1 if len(legend) < 2 else 0.12 + 0.19 * -(-len(legend) // _across(legend))
        drawing = Drawing(figsize=(WIDTH, height + top))
        FigureCanvasAgg(drawing)
        # Margins are known: finding them out, matplotlib would lay out all text once more.
        inner = {
            "left": left / WIDTH,
            "right": 1 - 0.12 / WIDTH,
            "bottom": 0.48 / (height + top),
            "top": height / (height + top),
        }
        paint(drawing.subplots(gridspec_kw=inner))
        svg, png = io.StringIO(), io.BytesIO()
        drawing.savefig(svg, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
        drawing.savefig(png, format="png", dpi=150, facecolor="white", metadata={"Software": None})
    return Figure(name, title, alt, clean(svg.getvalue(), name), table, png.getvalue())


def clean(svg: str, name: str) -> str:
    """A picture of matplotlib's as it can stand in a page among others."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.S)
    svg = re.sub(r"<defs>\s*<style[^>]*>.*?</style>\s*</defs>\s*", "", svg, flags=re.S)
    svg = re.sub(r"<!--.*?-->\s*", "", svg, flags=re.S)  # a label may hold what it likes
    svg = re.sub(r' style="([^"]*)"', _as_attributes, svg)
    svg = re.sub(r' font-family="[^"]*"', ' font-family="sans-serif"', svg)
    used = set(re.findall(r"(?:url\(#|href=\"#)([^\")]+)", svg))
    svg = re.sub(r' id="([^"]*)"', lambda m: f' id="{name}-{m[1]}"' if m[1] in used else "", svg)
    svg = re.sub(r'(url\(#|href="#)', rf"\g<1>{name}-", svg)
    return svg.replace(INK, "currentColor").strip() + "\n"


def _as_attributes(found: re.Match[str]) -> str:
    """Declarations as presentation attributes, which pages that forbid style attributes show, too."""
    pairs = (d.split(":", 1) for d in found[1].split(";") if ":" in d)
    return "".join(f' {k.strip()}="{v.strip()}"' for k, v in pairs)


def histogram(
    name: str,
    title: str,
    alt: str,
    table: Table,
    edges: Sequence[float],
    series: Sequence[tuple[str, Sequence[float]]],
    lines: Sequence[Line] = (),
    *,
    label: str,
    height: str = "rows",
    even: bool = True,
) -> Figure:
    """Rows by a number: the first of the series as an outline, the others as bars within it. Counts are those between edges.

    Where edges are not evenly spaced, every bar is as wide as any other.
    """
    places = list(edges) if even else list(range(len(edges)))

    def paint(axes: Axes) -> None:
        for i, (who, counts) in enumerate(series):
            colour = _colour(i, len(series) > 1)
            if i == 0 and len(series) > 1:
                axes.stairs(counts, places, color=colour, linewidth=1.4, label=shortened(who))
            elif i < 2:
                axes.stairs(counts, places, color=colour, fill=True, alpha=0.75, label=shortened(who))
            else:
                axes.stairs(counts, places, color=colour, linewidth=1.4, linestyle=_DASHES[(i - 1) % 4], label=shortened(who))
        top = max((max(counts, default=0) for _, counts in series), default=0) or 1
        axes.set_ylim(0, 1.12 * top)
        for i, line in enumerate(lines):
            at = line.at if even else _place(line.at, edges)
            axes.axvline(at, color=PALETTE[6], linewidth=1.2, linestyle="--")
            axes.annotate(
                line.label, (at, 1.0), xycoords=("data", "axes fraction"), xytext=(3, -2 - 10 * (i % 4)),
                textcoords="offset points", va="top", fontsize=8, color=PALETTE[6],
            )  # fmt: skip
        if not even:
            step = -(-len(edges) // 12)
            axes.set_xticks(places[::step], [short(e) for e in edges][::step])
        axes.set_xlabel(label)
        axes.set_ylabel(height)
        axes.yaxis.set_major_formatter(_rows)
        if len(series) > 1:
            _legend(axes, [who for who, *_ in series])

    return draw(name, title, alt, table, paint, legend=[who for who, *_ in series])


def bars(
    name: str,
    title: str,
    alt: str,
    table: Table,
    labels: Sequence[str],
    series: Sequence[tuple[str, Sequence[float]]],
    *,
    label: str,
    errors: Sequence[Sequence[tuple[float, float]]] | None = None,
    strokes: Sequence[float | None] = (),
    compared: bool = True,
) -> Figure:
    """Lying bars, the first label at the top; `compared`: the others of the series with the first.

    `errors`: of each series and label how far it reaches down and up; `strokes`: an upright stroke for each label.
    """
    across, many = len(series), len(labels)
    step = 0.8 / across

    def paint(axes: Axes) -> None:
        for i, (who, values) in enumerate(series):
            places = [row - 0.4 + (i + 0.5) * step for row in range(many)]
            spread = [list(side) for side in zip(*errors[i], strict=True)] if errors and errors[i] else None
            axes.barh(
                places, values, 0.92 * step, color=_colour(i, compared and across > 1), label=shortened(who),
                xerr=spread, error_kw={"ecolor": INK, "elinewidth": 0.9, "capsize": 2},
            )  # fmt: skip
        for row, value in enumerate(strokes):
            if value is not None:
                axes.plot([value, value], [row - 0.45, row + 0.45], color=INK, linewidth=1, label=None)
        axes.set_yticks(range(many), [shortened(text) for text in labels])
        axes.set_ylim(many - 0.5, -0.5)
        axes.set_xlabel(label)
        axes.xaxis.set_major_formatter(_rows)
        if across > 1:
            _legend(axes, [who for who, *_ in series])

    return draw(
        name,
        title,
        alt,
        table,
        paint,
        height=max(1.4, 0.6 + many * (0.12 + 0.13 * across)),
        left=_room(labels),
        legend=[who for who, _ in series],
    )


def ratios(name: str, title: str, alt: str, table: Table, labels: Sequence[str], values: Sequence[float]) -> Figure:
    """Share after ÷ share before, on a logarithmic scale around 1; what is gone wholly stands at the left end."""
    low = min([v for v in values if v > 0] + [0.5]) / 1.6
    high = max([*values, 2.0]) * 1.15

    def paint(axes: Axes) -> None:
        colours = [PALETTE[0] if v >= 1 else PALETTE[1] for v in values]
        shown = [max(v, low) for v in values]
        axes.barh(range(len(values)), [s - 1 for s in shown], 0.7, left=1, color=colours)
        axes.set_xscale("log")
        axes.set_xlim(low, high)
        ticks = [t for t in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50) if low <= t <= high]
        axes.set_xticks(ticks, [f"×{t:g}" for t in ticks])
        axes.minorticks_off()
        axes.axvline(1, color=INK, linewidth=0.8)
        for row, value in enumerate(values):
            if value == 0:
                axes.annotate(
                    "none left", (low, row), xytext=(4, 0), textcoords="offset points", va="center", fontsize=7, color=INK
                )
        axes.set_yticks(range(len(labels)), [shortened(text) for text in labels])
        axes.set_ylim(len(labels) - 0.5, -0.5)
        axes.set_xlabel("share of what is kept ÷ share of all rows")

    return draw(name, title, alt, table, paint, height=max(1.4, 0.6 + 0.24 * len(labels)), left=_room(labels))


def curves(
    name: str,
    title: str,
    alt: str,
    table: Table,
    series: Sequence[tuple[str, Sequence[float], Sequence[float]]],
    *,
    x: str,
    y: str,
    log: bool = False,
) -> Figure:
    """Lines over a common axis, told apart by colour and dashes."""

    def paint(axes: Axes) -> None:
        for i, (who, xs, ys) in enumerate(series):
            marker = "o" if len(xs) == 1 else None
            axes.plot(
                xs, ys, color=PALETTE[i % len(PALETTE)], linewidth=1.3, linestyle=_DASHES[i // len(PALETTE) % 4],
                label=shortened(who), marker=marker, markersize=4,
            )  # fmt: skip
        if log:
            axes.set_yscale("log")
        axes.set_xlabel(x)
        axes.set_ylabel(y)
        axes.xaxis.set_major_formatter(_rows)
        if len(series) > 1:
            _legend(axes, [who for who, *_ in series])

    return draw(name, title, alt, table, paint, legend=[who for who, *_ in series])


def _room(labels: Sequence[str]) -> float:
    """Inches that the longest label takes."""
    return 0.2 + 0.074 * max(len(shortened(text)) for text in labels)


def _colour(series: int, compared: bool) -> str:
    """The first may be what the others are compared with."""
    return GREY if series == 0 and compared else PALETTE[(series - compared) % len(PALETTE)]


def _across(names: Sequence[str]) -> int:
    """How many entries of a legend stand side by side."""
    return max(1, min(4, 84 // (max(len(shortened(name)) for name in names) + 6)))


def _legend(axes: Axes, names: Sequence[str]) -> None:
    """Above the axes, where it hides nothing."""
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0.2, ncols=_across(names))


def short(value: float) -> str:
    """1500 as 1.5 k, 0.25 as 0.25."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.4g}"


def shortened(text: str, most: int = 34) -> str:
    """A label as pictures have room for; control characters, which break XML, are replaced."""
    text = "".join(c if c.isprintable() else "�" for c in text)
    return text if len(text) <= most else text[: most - 1] + "…"


def _rows(value: float, _: object) -> str:
    return short(value)


def _place(value: float, edges: Sequence[float]) -> float:
    """Where a number stands among edges that are drawn at 0, 1, 2, …"""
    for i, (low, high) in enumerate(itertools.pairwise(edges)):
        if low <= value < high:
            return i + (value - low) / (high - low)
    return 0.0 if value < edges[0] else float(len(edges) - 1)
