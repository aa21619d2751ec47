"""A WordNet of a few words, and the one that the golden lists were made with."""

from __future__ import annotations

from pathlib import Path

from filters import models
from filters.wordnet import FILES

# lemma pos synsets pointers… sense_count tagged_senses offset…
SMALL = {
    "index.noun": [
        *("  1 a licence", "dog n 2 1 @ 2 1 00000010 00000011", "church n 1 0 1 0 00000012", "man n 1 0 1 0 00000013"),
        *("saw n 1 0 1 0 00000014", "hot_dog n 1 0 1 0 00000015", "lass n 1 0 1 0 00000016"),
    ],
    "noun.exc": ["geese goose", "oxen ox", "axes ax axis"],
    "index.verb": ["run v 1 0 1 0 00000020", "saw v 1 0 1 0 00000021", "bake v 1 0 1 0 00000022", "see v 1 0 1 0 00000023"],
    "verb.exc": ["ran run", "saw see"],
    "index.adj": ["big a 1 0 1 0 00000010", "pale a 1 0 1 0 00000030"],
    "adj.exc": ["bigger big"],
    "index.adv": ["fast r 1 0 1 0 00000040"],
    "adv.exc": [],
}


def small(folder: Path) -> str:
    """Path of the WordNet of a few words."""
    folder.mkdir(exist_ok=True)
    for name, lines in SMALL.items():
        (folder / name).write_text("".join(line + "  \n" for line in lines))
    return str(folder)


def debian(folder: Path) -> str:
    """Path of WordNet 3.0 as Debian builds it: some glosses are longer, so synsets behind them lie some bytes further on."""
    folder.mkdir(exist_ok=True)
    packaged = Path(models.packaged(models.WORDNET_30))
    shifts = {"index.verb": ((613018, 2422967, 18),), "index.adj": ((1681477, 10**8, 1),)}
    for name in FILES:
        (folder / name).write_text("".join(_shifted(line, shifts.get(name, ())) for line in (packaged / name).open()))
    return str(folder)


def _shifted(line: str, shifts: tuple[tuple[int, int, int], ...]) -> str:
    fields = line.split()
    if not shifts or line.startswith(" "):
        return line
    first = len(fields) - int(fields[2])
    offsets = [int(o) + sum(by for start, end, by in shifts if start <= int(o) < end) for o in fields[first:]]
    return " ".join([*fields[:first], *(f"{o:08d}" for o in offsets)]) + "\n"
