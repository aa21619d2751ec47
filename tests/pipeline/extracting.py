"""The extraction job for tests, and a model of what it should give, in plain Python."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.engine import Options
from pipeline.extract.inputs import find
from pipeline.extract.job import Settings, extract
from pools.manifest import Outcome
from tests.pipeline import wats

MASK = 2**64 - 1
PLAIN = Settings()


def run(inputs: Path | Sequence[Path], output: Path, settings: Settings = PLAIN, **options: Any) -> Outcome:
    """The job on WATs, in this process unless `workers` says otherwise."""
    named = [inputs] if isinstance(inputs, Path) else inputs
    return extract(
        find([str(i) for i in named]), str(output), settings, options=Options(**({"workers": 0, "quiet": True} | options))
    )


def candidates(output: Path) -> pa.Table:
    """All rows, in order of the files' names."""
    return pa.concat_tables([pq.read_table(path) for path in sorted(output.glob("*.parquet"))])


def rows(output: Path) -> list[dict[str, Any]]:
    return candidates(output).to_pylist()  # type: ignore[no-any-return]


def by_alt(output: Path, column: str) -> dict[str, Any]:
    return {row["alt"]: row[column] for row in rows(output)}


def parquet(output: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(output.glob("*.parquet"))}


def everything(folder: Path) -> dict[str, bytes]:
    """All files at any depth, hidden ones too."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def results(output: Path) -> dict[str, bytes]:
    """All files that are not hidden."""
    return {name: content for name, content in everything(output).items() if not name.startswith(".")}


def left_behind(folder: Path) -> list[str]:
    """Rows of any part, wherever they lie below a folder."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("rows-*") if any(path.rglob("*")))


def order(uid: str) -> int:
    """The hash that rows are ordered by: splitmix64 over both halves of the uid, with the seed 0."""
    state = splitmix(0)
    for half in (uid[:16], uid[16:]):
        state = splitmix(state ^ int(half, 16))
    return state


def splitmix(x: int) -> int:
    z = (x + 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


@dataclass(frozen=True)
class Page:
    """A page with its images as (url, alt); `language` is what the crawler detected behind it."""

    url: str
    links: tuple[tuple[str, str], ...]
    title: str | None = None
    language: str | None = None

    @property
    def records(self) -> list[bytes]:
        found = [] if self.language is None else [wats.detection(self.url, self.language)]
        return [wats.page(self.url, self.links, title=self.title), *found]


# Files of pages; their urls are absolute, perhaps with a blank before them (which compiled code leaves to Python), texts clean.
World = Sequence[Sequence[Page]]


def write(world: World, folder: Path) -> Path:
    """The files as 00.wat.gz, 01.wat.gz, …"""
    for n, pages in enumerate(world):
        wats.write(folder / f"{n:02}.wat.gz", [record for page in pages for record in page.records])
    return folder


def expected(world: World) -> list[dict[str, Any]]:
    """Rows of the candidates: of equal pairs the first, in the order of the hash."""
    found: dict[str, dict[str, Any]] = {}
    for n, pages in enumerate(world):
        for page in pages:
            for written, alt in page.links:
                url = written.strip()
                uid = hashlib.md5((alt + url).encode()).hexdigest()
                row = {"uid": uid, "url": url, "text": alt, "alt": alt, "page_title": page.title, "page_url": page.url}
                row |= {"content_language": page.language, "opt_out": None, "crawl": None, "source_file": f"{n:02}.wat.gz"}
                if alt:
                    found.setdefault(uid, row)
    return sorted(found.values(), key=lambda row: order(row["uid"]))


def made_up(files: int, pages: int = 3, links: int = 4) -> list[list[Page]]:
    """A world with repeats within a page, a file and across files: every third image is one that others show too."""

    def link(f: int, p: int, k: int) -> tuple[str, str]:
        n = (p + k) % 3 if k % 3 == 0 else (f + 1) * 10_000 + p * 100 + k
        return f"http://i.example/{n}.jpg", f"picture {n}"

    return [
        [
            Page(
                f"http://e.example/{f}/{p}",
                tuple(link(f, p, k) for k in range(links)),
                f"Title {f} {p}",
                "es" if p % 2 else None,
            )
            for p in range(pages)
        ]
        for f in range(files)
    ]


def listing(folder: Path, names: Iterable[str]) -> Path:
    """A list of files, which the job opens without having looked at them before."""
    path = folder / "list.txt"
    path.write_text("".join(f"{os.fspath(folder / name) if '://' not in name else name}\n" for name in names))
    return path
