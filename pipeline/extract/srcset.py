"""The `srcset` attribute: addresses of one image in several sizes (WHATWG HTML, 4.8.4.3.6 "Parsing a srcset attribute")."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_SPACE = "\t\n\f\r "
_BETWEEN = re.compile(rf"[{_SPACE},]*")
_ADDRESS = re.compile(rf"[^{_SPACE}]+")
# A comma in parentheses does not end the descriptors; parentheses do not nest.
_DESCRIPTORS = re.compile(r"(?:[^,(]+|\([^)]*+\)?+)*+,?+")
_DESCRIPTOR = re.compile(rf"(?:[^{_SPACE}(]|\([^)]*+\)?+)++")
_WIDTH = re.compile(r"([0-9]{1,18})w")
_HEIGHT = re.compile(r"[0-9]+h")
_DENSITY = re.compile(r"(-?(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)x")


class Candidate(NamedTuple):
    """An address, its width in pixels if that is said, and its pixel density, 1 if neither is."""

    url: str
    width: int | None
    density: float


def candidates(text: str) -> Iterator[Candidate]:
    """The image candidates in their order; those with descriptors that make no sense are left out, as by a browser."""
    at = 0
    while address := _ADDRESS.match(text, _BETWEEN.match(text, at).end()):  # type: ignore[union-attr]
        url, at, said = address[0], address.end(), ""
        if url.endswith(","):
            url = url.rstrip(",")
        else:
            found = _DESCRIPTORS.match(text, at)
            said, at = found[0].removesuffix(","), found.end()  # type: ignore[index,union-attr]
        if (sizes := _sizes(_DESCRIPTOR.findall(said))) is not None:
            yield Candidate(url, *sizes)


def largest(*texts: str) -> str | None:
    """The widest image of all that these attributes name; where no width is said, the densest; of equal ones the first.

    Embedded images (`data:`) do not count. None if there is no other.
    """
    named = [c for text in texts for c in candidates(text) if c.url[:5].lower() != "data:"]
    best = max(named, key=lambda c: (c.width or 0, c.density), default=None)
    return best.url if best else None


def _sizes(descriptors: list[str]) -> tuple[int | None, float] | None:
    """Width and density; None if the descriptors are in error."""
    width: int | None = None
    density: float | None = None
    height = False
    for word in descriptors:
        if (w := _WIDTH.fullmatch(word)) and width is None and density is None and int(w[1]):
            width = int(w[1])
        elif (x := _DENSITY.fullmatch(word)) and width is None and density is None and float(x[1]) >= 0:
            density = float(x[1])
        elif _HEIGHT.fullmatch(word) and not height and word.strip("0h"):
            height = True
        else:
            return None
    if height and width is None:
        return None
    return width, 1.0 if density is None else density
