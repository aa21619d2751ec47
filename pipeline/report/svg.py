"""Figures as elements of a page: one that forbids what a drawing has no use for."""

from __future__ import annotations

from xml.etree import ElementTree

from pipeline.report.hostile import readable

_NAMESPACE = "http://www.w3.org/2000/svg"
_DRAWN = frozenset(
    f"{{{_NAMESPACE}}}{name}"
    for name in ("svg", "g", "defs", "path", "rect", "circle", "ellipse", "line", "polyline", "polygon", "text", "tspan", "use",
                 "clipPath", "pattern", "marker", "linearGradient", "stop")
)  # fmt: skip
_LINK = ("href", "{http://www.w3.org/1999/xlink}href")
_PAPER_INK = "#15161a"


def inline(svg: str, name: str) -> str:
    """An SVG document as an element that scales with its column; what it says is for others to say.

    Raises ValueError if it holds anything but shapes and text, or points elsewhere.
    """
    ElementTree.register_namespace("", _NAMESPACE)
    root = ElementTree.fromstring(readable(svg))
    for element in root.iter():
        if element.tag not in _DRAWN:
            raise ValueError(f"{name}: {element.tag} in a figure")
        for attribute, value in list(element.attrib.items()):
            if attribute in _LINK:
                del element.attrib[attribute]
                element.set("href", value)
            outside = value[:1] != "#" if attribute in _LINK else "url(" in value and "url(#" not in value
            if outside or attribute == "style" or attribute.lower().startswith("on"):
                raise ValueError(f"{name}: {attribute}={value!r} in a figure")
    for attribute in ("width", "height", "version"):
        root.attrib.pop(attribute, None)
    root.set("aria-hidden", "true")
    root.set("focusable", "false")
    return ElementTree.tostring(root, "unicode")


def standalone(svg: str) -> str:
    """The same as a file of its own, where no page gives the ink its colour."""
    return svg.replace("currentColor", _PAPER_INK)
