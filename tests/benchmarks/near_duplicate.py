"""Which edits of a picture are known again, and how often other pictures are taken for it, by each kind of description.

    python -m tests.benchmarks.near_duplicate PICTURES… [--model sscd-disc-mixup --weights PATH]

prints the tables of docs/NEAR_DUPLICATES.md for the pictures of some folders.
"""

from __future__ import annotations

import argparse
import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageEnhance, ImageFilter, ImageOps

from pipeline.annotate.annotator import Unscored
from pipeline.annotate.duplicates.descriptors import Descriptor
from pipeline.annotate.duplicates.perceptual import mirrored, pdq, phash
from pipeline.annotate.pictures.picture import Picture
from pipeline.decontaminate import PICTURES

Shot = Image.Image
LEAST = 64  # pixels of a side
# Bounds at which a picture counts as known again.
BOUNDS = {"pHash": 1 - 10 / 64, "PDQ": 0.75, "both, mirrored": 0.75, "eval_similarity": 0.75}
PHASH_HANDICAP = 0.1  # what pHash's similarity must have more than PDQ's, whose bits are four times as many


def recompressed(picture: Shot) -> Shot:
    out = io.BytesIO()
    picture.save(out, "JPEG", quality=20)
    return Image.open(out).convert("RGB")


def middle(share: float) -> Callable[[Shot], Shot]:
    def cut(picture: Shot) -> Shot:
        width, height = picture.size
        x, y = round(width * (1 - share) / 2), round(height * (1 - share) / 2)
        return picture.crop((x, y, width - x, height - y))

    return cut


def banded(picture: Shot) -> Shot:
    done, (width, height) = picture.copy(), picture.size
    pen = ImageDraw.Draw(done)
    pen.rectangle((0, int(height * 0.8), width, int(height * 0.95)), fill="white")
    pen.text((width // 10, int(height * 0.85)), "some words upon a picture", fill="black")
    return done


def letterboxed(picture: Shot) -> Shot:
    width, height = picture.size
    return ImageOps.expand(picture, (0, height // 4) if width >= height else (width // 4, 0), "black")


EDITS: dict[str, Callable[[Shot], Shot]] = {
    "JPEG, quality 20": recompressed,
    "half size": lambda p: p.resize((max(1, p.width // 2), max(1, p.height // 2)), Image.Resampling.LANCZOS),
    "middle 80 %": middle(0.8),
    "middle 60 %": middle(0.6),
    "mirrored": ImageOps.mirror,
    "rotated by 10°": lambda p: p.rotate(10, Image.Resampling.BICUBIC),
    "blurred, 2 pixels": lambda p: p.filter(ImageFilter.GaussianBlur(2)),
    "brighter by 40 %": lambda p: ImageEnhance.Brightness(p).enhance(1.4),
    "grey": lambda p: p.convert("L").convert("RGB"),
    "band of text": banded,
    "letterbox": letterboxed,
}


def bits(pixels: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """pHash's and PDQ's."""
    return np.unpackbits(np.array([phash(pixels)], ">u8").view(np.uint8)), np.unpackbits(pdq(pixels)[0])


def similarities(known: Sequence[Shot], asked: Sequence[Shot]) -> dict[str, NDArray[np.float64]]:
    """(asked, known) for each kind of perceptual description."""
    mine = [np.stack(b) for b in zip(*(bits(np.asarray(p)) for p in asked), strict=True)]
    theirs = [np.stack(b) for b in zip(*(bits(np.asarray(p)) for p in known), strict=True)]
    turned = [np.stack(b) for b in zip(*(bits(mirrored(np.asarray(p))) for p in known), strict=True)]
    plain = [(a[:, None] == b).mean(axis=2) for a, b in zip(mine, theirs, strict=True)]
    either = [np.maximum(s, (a[:, None] == b).mean(axis=2)) for s, a, b in zip(plain, mine, turned, strict=True)]
    return {
        "pHash": plain[0],
        "PDQ": plain[1],
        "both, mirrored": np.maximum(either[1], either[0] - PHASH_HANDICAP),
        "eval_similarity": either[1],
    }


def compared(model: Any, known: NDArray[Any], asked: Sequence[Shot]) -> NDArray[Any]:
    found = [model.describe(model.for_index(np.asarray(p))[0]) for p in asked]
    return np.asarray(np.concatenate(found) @ known.T)


def pictures(folders: Sequence[str]) -> list[Shot]:
    found = []
    for path in sorted(p for folder in folders for p in Path(folder).rglob("*") if p.suffix.lower().lstrip(".") in PICTURES):
        try:
            pixels = Picture(path.read_bytes()).pixels()
        except Unscored:
            continue
        if min(pixels.shape[:2]) >= LEAST:
            found.append(Image.fromarray(pixels))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--model")
    parser.add_argument("--weights")
    parser.add_argument("--size", type=int, default=0)
    parser.add_argument("--bounds", type=float, nargs="+", default=[0.4, 0.5, 0.75], help="cosines, of the model")
    asked = parser.parse_args()
    known = pictures(asked.folders)
    kinds: dict[str, tuple[str, float]] = {f"{name} ≥ {bound:.2f}": (name, bound) for name, bound in BOUNDS.items()}
    model = vectors = None
    if asked.model:
        model = Descriptor.of(asked.model, asked.weights, asked.size).load("cpu", 1)
        vectors = np.concatenate([model.describe(model.for_index(np.asarray(p))[0]) for p in known])
        kinds |= {f"{asked.model} ≥ {bound:.2f}": (asked.model, bound) for bound in asked.bounds}
    print("| edit |", " | ".join(kinds), "|")
    print("|---" * (len(kinds) + 1) + "|")
    others = ~np.eye(len(known), dtype=bool)
    alarms, pairs, highest = dict.fromkeys(kinds, 0), 0, dict.fromkeys(kinds, 0.0)
    for edit, change in {"": lambda p: p, **EDITS}.items():
        edited = [change(p) for p in known]
        found: dict[str, Any] = dict(similarities(known, edited))
        if model is not None:
            found[asked.model] = compared(model, np.asarray(vectors), edited)
        pairs += int(others.sum())
        for title, (name, bound) in kinds.items():
            alarms[title] += int((found[name][others] >= bound).sum())
            highest[title] = max(highest[title], float(found[name][others].max()))
        if edit:
            shares = [float((np.diag(found[name]) >= bound).mean()) for name, bound in kinds.values()]
            print(f"| {edit} |", " | ".join(f"{100 * share:.0f}" for share in shares), "|", flush=True)
    print("| other pictures taken for it |", " | ".join(f"{n} of {pairs:,}" for n in alarms.values()), "|")
    print("| most similar other picture |", " | ".join(f"{s:.2f}" for s in highest.values()), "|")


if __name__ == "__main__":
    main()
