"""What a page or an answer says against the use of its images: meta robots and the header X-Robots-Tag."""

from __future__ import annotations

import re
from collections.abc import Iterable

DIRECTIVES = ("noai", "noimageai", "noindex", "noimageindex", "noml")
AGENT = "winnow"
# Directives that have a value behind a colon; any other name there is a crawler's.
_VALUED = ("unavailable_after", "max-snippet", "max-image-preview", "max-video-preview")
_NAME = re.compile(r"[a-z0-9_.+-]*[a-z_][a-z0-9_.+-]*|\*")  # no part of a date, as in `25-Jun-30 15:00:00`


def directives(values: Iterable[str], agent: str = AGENT, obeyed: Iterable[str] = DIRECTIVES) -> str | None:
    """Those of `obeyed` that the values address to everyone or to `agent`, comma-separated in that order; None if none.

    Each value is a comma-separated list; `name:` before a directive addresses it and those after it to one crawler.
    """
    found = set()
    for value in values:
        ours = True
        for token in value.lower().split(","):
            name, colon, rest = token.partition(":")
            name = name.strip()
            if colon and name not in _VALUED and _NAME.fullmatch(name):
                ours = name in (agent.lower(), "*")
                token = rest
            if ours:
                found.add(token.strip())
    return ",".join(d for d in obeyed if d.lower() in found) or None
