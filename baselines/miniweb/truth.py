"""The two tables beside a made-up web: what is true of each picture link, and what detectors would say of the pictures."""

from __future__ import annotations

import contextlib
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from baselines.miniweb.draw import face_box
from baselines.miniweb.flaws import Flaw
from baselines.miniweb.plan import Page, Picture, make_plan
from baselines.miniweb.scenes import draw_lots
from pools import store

TRUTH = pa.schema(
    [
        pa.field("uid", pa.string()),
        pa.field("url", pa.string()),
        pa.field("page_url", pa.string()),
        pa.field("page_language", pa.string()),
        pa.field("language", pa.string()),  # of the alt; null = it speaks of no scene
        pa.field("concept", pa.string()),  # this and the next four: what the picture shows
        pa.field("colour", pa.string()),
        pa.field("count", pa.int8()),
        pa.field("background", pa.string()),
        pa.field("family", pa.string()),  # common | cultural
        pa.field("flaw", pa.string()),  # from flaws.Flaw; null = none
        pa.field("describes", pa.bool_()),  # a whole picture is served, and the alt is true of it
        pa.field("copy_of", pa.string()),  # uid of another picture, or the key of a held-out one
    ]
)
# In the form of CommonPool's columns. They stand in for detectors: drawn people and hazard frames are none that real ones know.
STAND_INS = pa.schema(
    [
        pa.field("uid", pa.string()),
        pa.field("nsfw_score", pa.float32()),  # 0.9 to 1 of unsafe pictures, 0 to 0.3 of others
        pa.field("face_bboxes", pa.list_(pa.list_(pa.float32()))),  # [x0, y0, x1, y1] in 0..1 of width and height
    ]
)
_PAGES = 2000  # a row group


def write_tables(truth: str, stand_ins: str, pictures: int, seed: int) -> None:
    """Writes both files, a row a picture link in the order of the pages. Memory grows by about 100 bytes a picture."""
    plan, seen = make_plan(pictures, seed), set[bytes]()
    with contextlib.ExitStack() as files:
        tables = [
            (schema, files.enter_context(pq.ParquetWriter(files.enter_context(store.atomic(path)), schema, compression="zstd")))
            for path, schema in ((truth, TRUTH), (stand_ins, STAND_INS))
        ]
        for first in range(0, plan.pages, _PAGES):
            some = (plan.page(n) for n in range(first, min(first + _PAGES, plan.pages)))
            links = [(page, p) for page in some for p in page.pictures]
            seen.update(bytes.fromhex(p.uid) for _, p in links)
            for (schema, writer), row in zip(tables, (_truth, _stand_ins), strict=True):
                writer.write_table(pa.Table.from_pylist([row(page, p, seed) for page, p in links], schema))
        assert len(seen) == pictures, "two links have the same address and alt"


def _truth(page: Page, picture: Picture, seed: int) -> dict[str, Any]:
    shown = picture.scene
    return {
        "uid": picture.uid,
        "url": picture.url,
        "page_url": page.url,
        "page_language": page.language,
        "language": picture.language,
        "concept": shown.concept,
        "colour": shown.colour,
        "count": shown.count,
        "background": shown.background,
        "family": shown.family,
        "flaw": picture.flaw,
        "describes": picture.describes,
        "copy_of": picture.copy_of,
    }


def _stand_ins(page: Page, picture: Picture, seed: int) -> dict[str, Any]:
    lots = draw_lots(seed, picture.index, "stand-ins")
    score = lots.uniform(0.9, 1.0) if picture.flaw is Flaw.UNSAFE else lots.uniform(0.0, 0.3)
    box = face_box(picture.scene)
    return {"uid": picture.uid, "nsfw_score": score, "face_bboxes": [] if box is None else [list(box)]}
