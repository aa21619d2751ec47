"""Tables and numbers as text: aligned, and cut into blocks where they would be wider than a screen."""

from __future__ import annotations

from collections.abc import Sequence

WIDTH = 100  # characters a line
NONE = "–"  # where there is no number, which is not 0


def table(head: Sequence[Sequence[str]], rows: Sequence[Sequence[str]], *, left: int = 1, width: int = WIDTH) -> list[str]:
    """Lines: one or more rows of headings, then the rows. The first `left` columns are aligned left and stand in each block."""
    cells = [[_printable(cell) for cell in row] for row in (*head, *rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    lines: list[str] = []
    for block in _blocks(widths, left, width):
        shown = [*range(left), *block]
        lines += [""] if lines else []
        lines += ["".join(_aligned(row[i], widths[i], i < left) for i in shown).rstrip() for row in cells]
    return lines


def percent(share: float | None) -> str:
    """`0.938` → `93.8`."""
    return NONE if share is None else f"{100 * share:.1f}"


def ratio(part: int, whole: int) -> float | None:
    """part / whole, None of nothing."""
    return part / whole if whole else None


def _blocks(widths: Sequence[int], left: int, width: int) -> list[list[int]]:
    """The columns of each block: as many as fit, and one at least."""
    blocks: list[list[int]] = [[]]
    start = used = sum(w + 2 for w in widths[:left])
    for i in range(left, len(widths)):
        if blocks[-1] and used + widths[i] + 2 > width:
            blocks.append([])
            used = start
        blocks[-1].append(i)
        used += widths[i] + 2
    return blocks


def _aligned(cell: str, width: int, left: bool) -> str:
    return "  " + (cell.ljust(width) if left else cell.rjust(width))


def _printable(cell: str) -> str:
    """Recipes may have any name."""
    return "".join(c if c.isprintable() else "?" for c in cell)
