"""Annotate a pool with a CLIP model: scores and features beside the metadata, one metadata file a unit."""

from __future__ import annotations

import functools
import json
import multiprocessing
import re
from collections import Counter, defaultdict, deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pipeline import engine
from pipeline.annotate.clip import ClipModel, load
from pipeline.clip_models import ModelFiles
from pipeline.device import choose_device
from pipeline.download.images.prepare import MAX_PIXELS, Reject, open_image, rgb
from pools import shards, store
from pools.errors import InputError
from pools.layout import Pool
from pools.manifest import Outcome, Run
from pools.part import Part
from pools.schema import Reason, score_column

if TYPE_CHECKING:
    import torch

STAGE = "annotate clip"
VERSION = 1
# Reasons for a null score besides those of undecodable images (`pools.schema.Reason`).
ABSENT, NO_IMAGE, NO_TEXT, NOT_FINITE = "absent_sample", "no_image", "no_text", "not_finite"
MAX_RATIO = 1000  # the short side is brought to the model's size, and the long one grows with it


@dataclass(frozen=True)
class Annotator:
    """What a unit needs besides its files."""

    name: str
    files: ModelFiles
    device: str
    batch_size: int
    threads: int

    def columns(self) -> tuple[str, str, str, str]:
        """Score, reason, image features, text features."""
        return score_column(self.name), f"{self.name}_reason", f"{self.name}_img", f"{self.name}_txt"


def annotate_clip(
    pool: str,
    *,
    name: str,
    model: str,
    pretrained: str | None,
    batch_size: int = 64,
    device: str = "auto",
    options: engine.Options,
) -> Outcome:
    """Writes `annotations/<name>/<stem>.parquet` and `.npz` for each metadata file of a pool, from its shards.

    A row that cannot be scored (no sample, no text, a broken image) has a null score, zero features and a reason.
    Without a number of workers all is done in this process, whose model uses every core. Raises InputError for a name
    whose columns exist already, files that are missing, or a device that the machine has not.
    """
    if not re.fullmatch(r"[a-z0-9][a-z0-9_]*", name):
        raise InputError(f"name {name!r}", where="--name", expected="lower-case letters, digits and _ (it names columns)")
    if batch_size < 1:
        raise InputError(f"batch size {batch_size}", where="--batch-size", expected="1 or more")
    opened = Pool.open(pool).without(name)  # ours may be made anew
    output = store.join(opened.root, "annotations", name)
    device = choose_device(device, cuda=_cuda())
    files = ModelFiles.find(model, pretrained)
    if options.engine == "local" and options.workers is None:
        options = replace(options, workers=0)
    threads = max(1, engine.default_workers() // max(1, options.workers or 0))
    annotator = Annotator(name, files, device, batch_size, threads)
    _check_columns(opened, annotator)
    units = [_unit(opened, part) for part in opened.parts]
    run = Run(output, STAGE, VERSION, {"name": name, **files.identity()})
    if run.finished() is None:
        load(files, device)  # weights that do not fit are found before the folder is claimed for them
    work = functools.partial(_annotate, output=output, annotator=annotator)
    return engine.run(run, units, work, options)


def _cuda() -> bool:
    import torch

    return torch.cuda.is_available()


def _check_columns(pool: Pool, annotator: Annotator) -> None:
    pool.require(["uid", "text"])
    for part in pool.parts:
        for column, path in part.columns().items():
            if column in annotator.columns():
                raise InputError(
                    f"column {column!r} exists already", where=path, expected="new columns", fix="annotate under another --name"
                )


def _unit(pool: Pool, part: Part) -> engine.Unit:
    tar = store.join(pool.shards, part.stem + ".tar")
    if not store.exists(tar):
        raise InputError(
            f"no shard for {part.stem}.parquet",
            where=tar,
            expected="one tar for each metadata file, under the same name",
            fix="make shards with `winnow download`, which writes both",
        )
    return engine.Unit(part.stem, f"{part.digest([])} {store.digest(tar, pool.root)}", (part, tar))


def _annotate(unit: engine.Unit, *, output: str, annotator: Annotator) -> Outcome:
    part: Part
    part, tar = unit.args
    if multiprocessing.parent_process() is not None:
        import torch

        torch.set_num_threads(annotator.threads)  # several workers would each start as many as there are cores
    table = part.read(["uid", "text"])
    with store.open_input(tar) as f:
        result = _score(table["uid"].to_pylist(), table["text"].to_pylist(), tar, f, annotator)
    score, reason, img, txt = annotator.columns()
    with store.atomic(store.join(output, unit.name + ".npz")) as f:
        arrays: dict[str, Any] = {img: result.images, txt: result.texts}
        np.savez(f, **arrays)
    header = json.dumps({**annotator.files.identity(), "device": annotator.device}, sort_keys=True)
    columns = {
        "uid": table["uid"].cast(pa.string()),
        score: pa.array(result.scores, pa.float32(), mask=np.array([r is not None for r in result.reasons], bool)),
        reason: pa.array(result.reasons, pa.string()),
    }
    with store.atomic(store.join(output, unit.name + ".parquet")) as f:
        pq.write_table(pa.table(columns).replace_schema_metadata({"winnow": header}), f)
    failed = Counter(f"failed:{r}" for r in result.reasons if r is not None)
    return Outcome({"in": len(table), "kept": len(table) - failed.total(), **dict(sorted(failed.items()))})


@dataclass(frozen=True)
class Scored:
    """One row a metadata row: scores (n,), features (n, d), and why a row has none."""

    scores: NDArray[np.float32]
    images: NDArray[np.float16]
    texts: NDArray[np.float16]
    reasons: list[str | None]


def _score(uids: list[str], texts: list[str | None], tar: str, f: IO[bytes], annotator: Annotator) -> Scored:
    rows, width = len(uids), annotator.files.width
    result = Scored(
        np.zeros(rows, np.float32), np.zeros((rows, width), np.float16), np.zeros((rows, width), np.float16), [None] * rows
    )
    if not rows:
        return result
    model = load(annotator.files, annotator.device)
    samples = _by_uid(tar, f)
    found = [samples[u].popleft() if samples.get(u) else None for u in uids]
    with ThreadPoolExecutor(annotator.threads) as workers:
        for start in range(0, rows, annotator.batch_size):
            batch = range(start, min(start + annotator.batch_size, rows))
            bodies = [_body(found[i], texts[i], f) for i in batch]
            inputs = list(workers.map(functools.partial(_pixels, model), bodies))
            good = [(i, p) for i, p in zip(batch, inputs, strict=True) if not isinstance(p, str)]
            for i, p in zip(batch, inputs, strict=True):
                result.reasons[i] = p if isinstance(p, str) else None
            if good:
                _fill(result, model, [i for i, _ in good], [p for _, p in good], texts)
    return result


def _fill(result: Scored, model: ClipModel, rows: list[int], pixels: list[torch.Tensor], texts: list[str | None]) -> None:
    images, captions = model.encode(pixels, [texts[i] or "" for i in rows])
    for i, image, caption in zip(rows, images, captions, strict=True):
        score = np.float32(image @ caption)
        if np.isfinite(score):
            result.scores[i], result.images[i], result.texts[i] = score, image, caption
        else:
            result.reasons[i] = NOT_FINITE


def _by_uid(tar: str, f: IO[bytes]) -> dict[str, deque[shards.Sample]]:
    """The samples of each uid in the tar's order. The uid is the json's; without one the key stands for it."""
    found: dict[str, deque[shards.Sample]] = defaultdict(deque)
    for sample in shards.samples(tar):
        uid = shards.sidecar(f, sample).get("uid")
        found[uid if isinstance(uid, str) else sample.key].append(sample)
    return found


def _body(sample: shards.Sample | None, text: str | None, f: IO[bytes]) -> bytes | str:
    """The image's bytes, or why the pair has no score."""
    if sample is None:
        return ABSENT
    if sample.image_extension is None:
        return NO_IMAGE
    if text is None or not text.strip():
        return NO_TEXT
    return shards.read(f, sample, sample.image_extension)


def _pixels(model: ClipModel, body: bytes | str) -> torch.Tensor | str:
    if isinstance(body, str):
        return body
    picture = open_image(body, MAX_PIXELS)
    if not isinstance(picture, Reject) and max(picture.size) > MAX_RATIO * min(picture.size):
        picture = Reject(Reason.ASPECT_RATIO, f"{picture.width}×{picture.height}")
    if not isinstance(picture, Reject):
        picture = rgb(picture)
    return str(picture.reason) if isinstance(picture, Reject) else model.pixels(picture)
