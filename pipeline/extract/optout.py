"""What a page says against the use of its images: meta robots and the header X-Robots-Tag."""

from __future__ import annotations

from collections.abc import Iterable

DIRECTIVES = ("noai", "noimageai", "noindex", "noimageindex", "noml")
AGENT = "winnow"
# Directives that have a value behind a colon; any other word there is the name of a crawler.
_VALUED = ("unavailable_after", "max-snippet", "max-image-preview", "max-video-preview")


def directives(values: Iterable[str]) -> str | None:
    """Those of `DIRECTIVES` that the values address to everyone or to us, comma-separated in that order; None if none.

    Each value is a comma-separated list; `name:` before a directive addresses it and those after it to one crawler.
    """
    found = set()
    for value in values:
        ours = True
        for token in value.lower().split(","):
            agent, colon, rest = token.partition(":")
            if colon and agent.strip() not in _VALUED:
                ours = agent.strip() in (AGENT, "*")
                token = rest
            if ours:
                found.add(token.strip())
    return ",".join(d for d in DIRECTIVES if d in found) or None
