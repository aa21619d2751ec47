"""Which text of a sample the model is shown."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from pools import hashes

Captions = Literal["alt", "title", "both"]
_TITLES = ("page_title", "title")


def caption_of(which: Captions, txt: bytes | None, fields: dict[str, Any], seed: int) -> str:
    """`alt`: the sample's own caption, its .txt, or without one `caption` or `text` of its .json. `title`: the page's title.

    `both`, as WebLI has it: one of them, by the seed; that which is there, if there is but one. Empty if there is none.
    """
    if which == "alt":
        return _alt(txt, fields)
    title = _first(fields, _TITLES)
    if which == "title":
        return title
    alt = _alt(txt, fields)
    return title if title and (not alt or hashes.mix(np.array([seed], np.uint64))[0] & np.uint64(1)) else alt


def _alt(txt: bytes | None, fields: dict[str, Any]) -> str:
    return _first(fields, ("caption", "text")) if txt is None else txt.decode("utf-8", "replace").strip()


def _first(fields: dict[str, Any], names: tuple[str, ...]) -> str:
    found = next((fields[n] for n in names if fields.get(n)), "")
    return found.strip() if isinstance(found, str) else ""
