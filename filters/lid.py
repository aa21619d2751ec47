"""Languages of captions by fastText's compressed model, in compiled code: a sixth of its time, the same answers to the bit.

Small batches are left to fastText, which is there at once. So are models of another form, and all if the processor or its
library rounds otherwise than where fastText was compiled (`_agrees`).
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from filters import arrays, lid_model, models

if TYPE_CHECKING:
    from filters.lid_walk import Tables

Found = tuple[NDArray[np.str_], NDArray[np.float32]]

# Captions of this process up to which fastText answers. Loading the compiled code takes as long as it saves on so many, which
# bounds what is lost by a pool of any size at as much as the best could have been.
FEW = 35_000
_asked = 0


def identify(texts: pa.Array, path: str) -> Found:
    """As `models.identify_languages`: n texts → (n,) codes, (n,) float32 probabilities. Null, as empty: `und`, 0."""
    global _asked
    _asked += len(texts)
    if path != models.CLD3 and _asked > FEW and (tables := compiled(path)) is not None:
        return identify_compiled(texts, tables)
    return models.identify_languages([t or "" for t in texts.to_pylist()], path)


@functools.cache
def compiled(path: str) -> Tables | None:
    """The model of a path or a packaged name for compiled code; None if that cannot give fastText's answers."""
    from filters.lid_walk import Tables

    file = models.checked(path) if path in models.PACKAGED else path
    if not Path(file).is_file():
        return None  # of which fastText's side tells
    try:
        tables = Tables(lid_model.read(Path(file).read_bytes()))
    except lid_model.Unknown:
        return None
    return tables if _agrees(tables, path) else None


def identify_compiled(texts: pa.Array, tables: Tables) -> Found:
    """The same by compiled code alone."""
    strings = texts.cast(pa.large_string())
    _, offsets, data = strings.buffers()
    ends = np.frombuffer(offsets, np.int64)[strings.offset : strings.offset + len(strings) + 1]
    octets = np.frombuffer(data, np.uint8) if data is not None and len(data) else np.zeros(1, np.uint8)
    labels, scores, visible = tables.walk(octets, ends)
    blank = arrays.numpy(texts.is_null()) if texts.null_count else np.zeros(len(texts), bool)
    # Without a visible character of ASCII it may be one of the other white spaces, which Python knows.
    for i in np.flatnonzero(~visible & ~blank):
        blank[i] = not texts[i].as_py().strip()
    codes = tables.labels[labels]
    codes[blank], scores[blank] = "und", 0
    return codes, scores


def _agrees(tables: Tables, path: str) -> bool:
    """Whether some texts of many scripts get the same labels and scores, to the bit."""
    words = [
        "a dog",
        "el perro",
        "der Hund läuft",
        "собака",
        "كلب",
        "犬が走る",
        "狗",
        "कुत्ता",
        "chien",
        "σκύλος",
        "개",
        "con chó",
        "1234",
    ]
    texts = [f"{a} {b}" for a in words for b in words]
    labels, scores = identify_compiled(arrays.strings(texts), tables)
    expected, theirs = models.identify_languages(texts, path)
    return bool((labels == expected).all() and scores.tobytes() == theirs.tobytes())
