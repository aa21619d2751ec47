"""A small pool with everything in its captions, addresses and pictures that a page must survive, and a selection of it."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from pipeline.engine import Options
from pipeline.report.funnel import read_funnel, reconcile
from pipeline.report.gallery import Galleries, Wanted
from pipeline.report.images import Pictures
from pipeline.report.margins import margins_of
from pipeline.report.page import Section
from pipeline.report.thresholds import read_rules
from pipeline.report.verdicts import survey
from pipeline.selection import select
from pools.layout import Pool
from pools.outputs import Selection
from tests.pipeline.made_pools import uid

ROWS = 60
LONG = "z" * 100_000
RECIPE = """
name: mine
description: Safe pictures with a high score.
keep:
  - nsfw: {max: 0.5, column: nsfw_image}
  - score: {column: quality, min: 0.3}
"""
# Caption, address; rows behind these have usual ones.
HOSTILE: list[tuple[str | bytes | None, str]] = [
    ("<script>document.title = 'owned'</script>", "javascript:document.title='owned'"),
    ("</script><script>document.title = 'owned'</script>", "JaVaScRiPt:document.title='owned'"),
    ('"><img src=x onerror="document.title=\'owned\'">', 'http://h/"onmouseover="document.title=1'),
    ("</style></textarea><svg onload=\"document.title='owned'\">", "data:text/html,<script>document.title='owned'</script>"),
    ('{"a": "</script><!--<script>"}', "java\nscript:document.title='owned'"),
    ("nul \x00 bell \x07 escape \x1b[31m", "vbscript:x"),
    (b"half a character: \xed\xa0\x80 and bytes \xff\xfe", "http://h/\x00.jpg"),
    ("\u202eturned round\u202d \u2066open", "http://h/\u202egpj.exe"),
    (LONG, "http://h/" + "u" * 100_000),
    ("{{ 7 * 7 }} {% raw %} &lt;b&gt; &#60;", "//h/without-a-scheme.jpg"),
    (None, " http://h/space-first.jpg"),
    ("", "ftp://h/a.jpg"),
    ("طائر أزرق على غصن", "https://ar.example/1.jpg"),
    ("ציפור כחולה על ענף", "https://he.example/1.jpg"),
    ("एक नीली चिड़िया", "https://hi.example/1.jpg"),
    ("青い鳥が枝に止まっている", "https://ja.example/1.jpg"),
]
LANGUAGES = {12: "ar", 13: "he", 14: "hi", 15: "ja-JP, en"}


def caption(i: int) -> str | bytes | None:
    return HOSTILE[i][0] if i < len(HOSTILE) else f"a blue bird on branch {i}"


def url(i: int) -> str:
    return HOSTILE[i][1] if i < len(HOSTILE) else f"https://birds.example/{i}.jpg"


def quality(i: int) -> float | None:
    """0.00, 0.01, …; the 59th is not known."""
    return None if i == 59 else i / 100


def harm(i: int) -> float | None:
    """Rows 40 to 44 lie above every limit, 45 to 47 above the usual one only, 48 is not known."""
    return 0.9 if 40 <= i < 45 else 0.4 if 45 <= i < 48 else None if i == 48 else 0.01


def picture(i: int, kind: str = "JPEG") -> bytes:
    """40 × 30 pixels of one colour, with words in it that must not reach a page."""
    file = io.BytesIO()
    image = Image.new("RGB", (40, 30), (i * 4 % 256, 90, 200 - i * 3 % 200))
    image.save(file, kind, **({"comment": b"<script>in a picture</script>"} if kind == "JPEG" else {}))
    return file.getvalue()


def bomb() -> bytes:
    """A PNG that says it has 7,000 × 5,000 pixels: 105 MB once decoded."""
    import struct
    import zlib

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 7_000, 5_000, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(bytes(100))) + chunk(b"IEND", b"")


BROKEN = {16: b"no picture at all", 17: picture(17)[:300], 18: bomb(), 19: b"", 20: b"<svg onload='alert(1)'/>"}
ABSENT = {21, 22}  # from the shard


def make_pool(root: Path, files: int = 2, *, tars: bool = True) -> Path:
    """60 rows in so many files, in the same order whatever their number."""
    size = ROWS // files
    for n in range(files):
        numbers, stem = range(n * size, (n + 1) * size), f"{n:08d}"
        texts = [c.encode() if isinstance(c, str) else c for c in map(caption, numbers)]
        metadata = {
            "uid": [uid(i) for i in numbers],
            "url": [url(i) for i in numbers],
            "text": pa.array(texts, pa.binary()).view(pa.string()),  # also what is no UTF-8
            "original_width": pa.array([400 + i for i in numbers], pa.int32()),
            "original_height": pa.array([300] * len(numbers), pa.int32()),
            "content_language": [LANGUAGES.get(i, "en" if i > 15 else None) for i in numbers],
        }
        scores = {
            "uid": metadata["uid"],
            "quality": pa.array([quality(i) for i in numbers], pa.float32()),
            "nsfw_image": pa.array([harm(i) for i in numbers], pa.float32()),
        }
        _write(root / "metadata" / f"{stem}.parquet", metadata)
        _write(root / "annotations" / "own" / f"{stem}.parquet", scores)
        if tars:
            _tar(root / "shards" / f"{stem}.tar", numbers)
    return root


def _tar(path: Path, numbers: range) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as tar:
        for i in numbers:
            if i in ABSENT:
                continue
            body = BROKEN.get(i, picture(i, "WEBP" if i % 2 else "JPEG"))
            for extension, data in (("webp", body), ("json", json.dumps({"uid": uid(i)}).encode())):
                info = tarfile.TarInfo(f"{i:09d}.{extension}")
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))


def _write(path: Path, columns: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)


def make_selection(pool: Path, output: Path, recipe: str = RECIPE) -> Path:
    path = output.with_suffix(".yaml")
    path.write_text(recipe)
    select(str(path), str(pool), str(output), options=Options(workers=0, quiet=True))
    return output


def kept(numbers: list[int]) -> set[str]:
    return {uid(i) for i in numbers}


def noise(width: int, height: int, seed: int = 0) -> bytes:
    """A JPEG that no encoder makes small."""
    file = io.BytesIO()
    pixels = np.random.default_rng(seed).integers(0, 255, (height, width, 3), np.uint8)
    Image.fromarray(pixels).save(file, "JPEG", quality=90)
    return file.getvalue()


QUIET = Options(workers=0, quiet=True)


def galleries(
    pool: Path | None, selection: Path | None = None, keep: Sequence[Mapping[str, Any]] = (), wanted: Wanted | None = None
) -> Galleries:
    opened, chosen = Pool.open(str(pool)) if pool else None, Selection(str(selection)) if selection else None
    return Galleries.of(opened, chosen, keep, wanted or Wanted(), Pictures(opened, QUIET))


def every_row(pool: Path) -> Section:
    """A gallery of all rows of a pool."""
    of_pool = galleries(pool, wanted=Wanted(ROWS))
    return of_pool.sample(of_pool.random())


def stage_sections(pool: Path | None, selection: Path, samples: int = 12, seed: int = 0) -> list[Section]:
    """A section for each stage of a selection, and one for what it kept."""
    chosen = Selection(str(selection))
    margins = margins_of(read_rules(chosen)) if pool else []
    funnel = read_funnel(chosen)
    found = survey(chosen, Pool.open(str(pool)) if pool else None, margins, samples, seed)
    reconcile(funnel, found, str(selection))
    of_selection = galleries(pool, selection, funnel.keep, Wanted(samples, seed))
    return of_selection.stages(found, of_selection.rows(found.chosen), margins, funnel.stages)
