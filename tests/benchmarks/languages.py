"""How often the annotator `language` is right, by the length of the caption: `python -m tests.benchmarks.languages CAPTIONS …`.

Each argument is a folder, either of `wit_test_<language>.jsonl.gz` (Wikipedia's captions, IGLUE's) or of Debian's
tuxpaint-stamps-default, unpacked (captions of clip art, each in dozens of languages). A caption counts as right if the code is
that of its language, or one of those that stand for the same: see SAME.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipeline.annotate.text.language import make_language

BOUNDS = (10, 20, 40, 80)  # characters: where the next bin begins
# Codes of one language, or of a language and the one that it is written in: detectors and collections differ in these.
SAME = (
    {"no", "nb", "nn"},
    {"he", "iw"},
    {"tl", "fil"},
    {"zh", "zh-Latn", "yue", "wuu"},
    {"sr", "sh", "hr", "bs"},
    {"id", "ms"},
)
_COLUMNS = ("characters", "captions", "fastText", "CLD3", "score ≥ 0.5", "of these right", "both agree", "of these right")
HEAD = f"| {' | '.join((*_COLUMNS, 'en found', 'taken for en'))} |"
_STAMP = re.compile(r"([a-z]{2,3})(?:_[A-Za-z]+)?(?:@\w+)?\.utf8=(.+)")

Caption = tuple[str, str]  # language, text


def captions(folder: Path) -> Iterator[Caption]:
    """Each caption of a folder once, with its language."""
    for path in sorted(folder.glob("wit_test_*.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as f:
            for line in f:
                row = json.loads(line)
                yield row["language"], row["caption_reference_description"]
    for path in sorted(folder.rglob("*.txt")):
        first, *others = path.read_text(encoding="utf-8", errors="replace").splitlines() or [""]
        yield "en", first
        yield from (found.groups() for line in others if (found := _STAMP.fullmatch(line.strip())))  # type: ignore[misc]


def same(said: str, language: str) -> bool:
    return said == language or any(said in codes and language in codes for codes in SAME)


def share(values: NDArray[np.bool_]) -> str:
    return f"{values.mean():.3f}" if len(values) else "–"


def table(rows: list[Caption]) -> Iterator[str]:
    """A line a bin, and one for all: languages right, and for English how much of it is found and what else is taken for it."""
    model = make_language({}).load("cpu", 1)
    answers = model.annotate([text for _, text in rows]).columns
    fasttext, cld3 = (
        np.array([same(said, language) for said, (language, _) in zip(answers[column], rows, strict=True)])
        for column in ("language", "language_cld3")
    )
    lengths = np.searchsorted(BOUNDS, [len(text) for _, text in rows], "right")
    english = np.array([language == "en" for language, _ in rows])
    called = np.array(answers["language"]) == "en"
    sure = np.asarray(answers["language_score"]) >= 0.5
    agreed = np.array([same(a, b) for a, b in zip(answers["language"], answers["language_cld3"], strict=True)])
    yield HEAD
    yield "|" + "---|" * 10
    names = ["below 10", "10 to 19", "20 to 39", "40 to 79", "80 and more", "all"]
    for i, name in enumerate(names):
        of = lengths == i if name != "all" else np.ones(len(rows), bool)
        cells = [share(fasttext[of]), share(cld3[of]), share(sure[of]), share(fasttext[of & sure])]
        cells += [share(agreed[of]), share(fasttext[of & agreed]), share(called[of & english]), share(called[of & ~english])]
        yield f"| {name} | {of.sum():,} | " + " | ".join(cells) + " |"
    yield ""
    by_language = sorted({language for language, _ in rows})
    found = {code: fasttext[[language == code for language, _ in rows]] for code in by_language}
    known = {code: right for code, right in found.items() if len(right) >= 20}
    order = sorted(known, key=lambda code: -known[code].mean())
    yield f"{len(known)} languages with 20 captions or more: " + " ".join(f"{c} {known[c].mean():.2f}" for c in order)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="+", type=Path)
    for folder in parser.parse_args().folder:
        rows = [row for row in dict.fromkeys(captions(folder)) if row[1].strip()]
        print(f"{folder.name}: {len(rows):,} captions\n", *table(rows), sep="\n", end="\n\n")


if __name__ == "__main__":
    main()
