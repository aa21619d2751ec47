"""Held-out pictures as zero-shot tasks in every language, in the folder form that DataComp publishes evaluation sets in.

Objects (the common family) come in every language, cultural shapes in those whose pages show them: the two families, and the
languages, are the groups between which scores can be compared. Retrieval pairs each picture with one full caption. The
pictures are the same bytes in every language.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from baselines.miniweb import draw
from baselines.miniweb.languages import LANGUAGES, LOW, Language
from baselines.miniweb.scenes import BACKGROUNDS, COLOURS, CONCEPTS, COUNTS, FAMILIES, Scene, draw_lots, scene
from pools import shards, store

SIZE = (96, 96)  # width, height in pixels
# A seed that no web has: pictures for scoring are never pictures of the web, and are the same whatever the web's seed.
SEED = -1
PER_CLASS = 5
RETRIEVAL = 300


@dataclass(frozen=True)
class Held:
    """A held-out picture. Keys are unlike each other over all sets."""

    key: str
    scene: Scene
    label: int | None = None  # of its class; None in the retrieval set


def classes(family: str) -> list[tuple[str, str]]:
    """(concept, colour) of each class, in the order of the labels."""
    return list(itertools.product(FAMILIES[family], COLOURS))


@functools.cache
def classification(family: str) -> tuple[Held, ...]:
    """Five pictures of each class, the classes taking turns; one shape each."""
    start, names = 1000 * tuple(FAMILIES).index(family), classes(family)
    found = []
    for i in range(PER_CLASS * len(names)):
        label = i % len(names)
        concept, colour = names[label]
        shown = replace(scene(SEED, start + i, count=1, size=SIZE), concept=concept, colour=colour)
        found.append(Held(f"{family}-{i:06d}", shown, label))
    return tuple(found)


@functools.cache
def retrieval() -> tuple[Held, ...]:
    """300 pictures of the common family of which no two have the same concept, colour, count and background."""
    in_words = list(itertools.product(CONCEPTS, COLOURS, COUNTS, BACKGROUNDS))
    found = []
    for i, (concept, colour, count, background) in enumerate(draw_lots(SEED, "retrieval").sample(in_words, RETRIEVAL)):
        shown = scene(SEED, 9000 + i, count=count, size=SIZE)
        found.append(Held(f"retrieval-{i:06d}", replace(shown, concept=concept, colour=colour, background=background)))
    return tuple(found)


def held_out(family: str) -> tuple[Held, ...]:
    """All held-out pictures of a family."""
    return classification(family) + (retrieval() if family == "common" else ())


def write_evals(folder: str) -> int:
    """Writes `folder/wds_miniweb-<set>-<language>_test/` for each set and language; returns the number of held-out pictures."""
    pictures = 0
    for kind, family, codes in (("objects", "common", tuple(LANGUAGES)), ("cultural", "cultural", LOW)):
        held = classification(family)
        samples = [(h.key, {"jpg": draw.jpeg(h.scene), "cls": str(h.label).encode()}) for h in held]
        pictures += len(held)
        for code in codes:
            _write_set(folder, f"{kind}-{code}", "classification", samples)
            _write_words(folder, f"{kind}-{code}", LANGUAGES[code], family)
    drawn = [draw.jpeg(h.scene) for h in retrieval()]
    for code, language in LANGUAGES.items():
        captions = [language.full(h.scene, draw_lots(h.key, code)) for h in retrieval()]
        pairs = [
            (h.key, {"jpg": jpeg, "txt": f"{caption}\n".encode()})
            for h, jpeg, caption in zip(retrieval(), drawn, captions, strict=True)
        ]
        _write_set(folder, f"retrieval-{code}", "retrieval", pairs)
    return pictures + len(drawn)


def _write_set(folder: str, name: str, kind: str, samples: Iterable[tuple[str, dict[str, bytes]]]) -> None:
    with shards.write(_path(folder, name, "test/0.tar")) as tar:
        for key, members in samples:
            tar.add(key, members)
    _write_lines(_path(folder, name, "test/nshards.txt"), ["1"])
    _write_lines(_path(folder, name, "dataset_type.txt"), [kind])


def _write_words(folder: str, name: str, language: Language, family: str) -> None:
    phrases = [language.phrase(concept, colour) for concept, colour in classes(family)]
    _write_lines(_path(folder, name, "classnames.txt"), phrases)
    _write_lines(_path(folder, name, "zeroshot_classification_templates.txt"), language.templates)


def _path(folder: str, name: str, file: str) -> str:
    return store.join(folder, f"wds_miniweb-{name}_test", file)


def _write_lines(path: str, lines: Sequence[str]) -> None:
    store.write_bytes(path, "".join(f"{line}\n" for line in lines).encode())
