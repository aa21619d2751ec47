"""The index of evaluation images, which `near_duplicate` looks pools up in: a unit is a tar, or some pictures of a folder."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pipeline import engine
from pipeline.annotate.annotator import Unscored
from pipeline.annotate.duplicates.descriptors import PERCEPTUAL, Describing, Descriptor
from pipeline.annotate.duplicates.eval_index import IMAGES, PHASHES, STAGE, VECTORS
from pipeline.annotate.pictures.picture import Picture
from pipeline.device import choose_device
from pools import shards, store
from pools.errors import InputError
from pools.manifest import Outcome, Run

VERSION = 1
PICTURES = ("jpg", "jpeg", "png", "webp", "gif", "bmp", "tif", "tiff", "avif")
UNIT_FILES = 1000  # pictures of a folder
BATCH = 64
_SCHEMA = pa.schema([("dataset", pa.string()), ("key", pa.string())])


@dataclass(frozen=True)
class Source:
    """A tar, or some pictures that lie in a folder, and the evaluation set they belong to."""

    dataset: str
    paths: tuple[str, ...]
    root: str  # that keys of pictures are relative to

    @property
    def is_tar(self) -> bool:
        return self.paths[0].endswith(".tar")

    def bodies(self) -> Iterator[tuple[str, bytes | None]]:
        """(key, bytes) of each picture; None of a sample that has none."""
        if not self.is_tar:
            for path in self.paths:
                yield path[len(self.root) :].strip("/"), store.read_bytes(path)
            return
        with store.open_input(self.paths[0]) as f:
            for sample in shards.samples(self.paths[0]):
                extension = sample.image_extension
                key = f"{store.name(self.paths[0])}/{sample.key}"
                yield key, None if extension is None else shards.read(f, sample, extension)


def index(
    evals: Sequence[str],
    output: str,
    *,
    model: str = PERCEPTUAL,
    weights: str | None = None,
    size: int = 0,
    device: str = "auto",
    options: engine.Options,
) -> Outcome:
    """Writes the index of all pictures in folders of tars (DataComp's evaluation sets, or shards) and of pictures.

    An image is called by its set, `wds_food101_test` being food101, and its tar and key, or its path. Counts: in, kept,
    failed:<why> for pictures that cannot be decoded, dropped:no_image for samples without one. Raises InputError for a
    folder without pictures, and for an output that another model made.
    """
    descriptor = Descriptor.of(model, weights, size)
    device = choose_device(device, cuda=_cuda()) if model != PERCEPTUAL else "cpu"
    found = [source for root in evals for source in sources(root)]
    units = [engine.Unit(f"{i:06d}", _digest(source), (source,)) for i, source in enumerate(found)]
    run = Run(output, STAGE, VERSION, {"descriptor": descriptor.identity()})
    threads = max(1, engine.default_workers() // max(1, options.workers or 0)) if options.workers is not None else 1
    if run.finished() is None:
        _loaded(descriptor, device, threads)  # weights that cannot be read are found before the folder is claimed for them
    work = functools.partial(_describe, output=output, descriptor=descriptor, device=device, threads=threads)
    parts = [_part(output, unit.name) for unit in units]
    return engine.run(run, units, work, options, finish=functools.partial(_join, output=output, parts=parts))


def _cuda() -> bool:
    import torch

    return torch.cuda.is_available()


def sources(root: str) -> list[Source]:
    """What lies below a folder, by evaluation set. Raises InputError if there is no picture, and no tar."""
    if not store.is_dir(root):
        raise InputError("no such folder", where=root, expected="a folder of evaluation sets (tars), shards or pictures")
    tars, pictures = [], dict[str, list[str]]()
    for path in store.list_files(root):
        if path.lower().endswith(".tar"):
            tars.append(Source(_dataset(root, path), (store.join(root, path),), root))
        elif path.lower().rpartition(".")[2] in PICTURES:
            pictures.setdefault(_dataset(root, path), []).append(path)
    found = list(tars)
    for dataset, paths in pictures.items():
        own = store.join(root, paths[0].split("/")[0]) if "/" in paths[0] else root
        for start in range(0, len(paths), UNIT_FILES):
            found.append(Source(dataset, tuple(store.join(root, p) for p in paths[start : start + UNIT_FILES]), own))
    if not found:
        raise InputError("no picture and no tar here", where=root, expected="evaluation sets (tars), shards or pictures")
    return found


def _dataset(root: str, path: str) -> str:
    """The set's name: that of the folder below the root, or the root's own; `wds_vtab-dtd_test` is vtab-dtd."""
    name = path.split("/")[0] if "/" in path else store.name(root)
    if name in ("test", "train") and "/" in path:  # the root is one evaluation set
        name = store.name(root)
    return name.removeprefix("wds_").removesuffix("_test") if name.startswith("wds_") else name


def _digest(source: Source) -> str:
    return " ".join([source.dataset, *(store.digest(path, source.root) for path in source.paths)])


def _part(output: str, unit: str) -> str:
    return store.join(output, ".winnow", "parts", unit + ".npz")


def _describe(unit: engine.Unit, *, output: str, descriptor: Descriptor, device: str, threads: int) -> Outcome:
    (source,) = unit.args
    model = _loaded(descriptor, device, threads)
    keys: list[str] = []
    rows: list[NDArray[Any]] = []
    hashes: list[int] = []
    counts = Counter({"in": 0, "kept": 0})
    waiting: list[Any] = []
    for key, body in source.bodies():
        counts["in"] += 1
        try:
            if body is None:
                counts["dropped:no_image"] += 1
                continue
            inputs, phash = model.for_index(Picture(body).pixels(descriptor.least_side))
        except Unscored as e:
            counts[f"failed:{e.reason}"] += 1
            continue
        counts["kept"] += 1
        keys.append(key)
        waiting += inputs
        hashes += [] if phash is None else [phash]
        if len(waiting) >= BATCH:
            rows.append(model.describe(waiting))
            waiting = []
    if waiting:
        rows.append(model.describe(waiting))
    vectors = np.concatenate(rows) if rows else np.empty((0, 0), np.float32)
    with store.atomic(_part(output, unit.name)) as f:
        arrays: dict[str, Any] = {"vectors": vectors, "keys": np.array(keys, "U"), "phash": np.array(hashes, np.uint64)}
        np.savez(f, dataset=np.array(source.dataset), **arrays)
    return Outcome(dict(counts))


@functools.lru_cache(maxsize=1)
def _loaded(descriptor: Descriptor, device: str, threads: int) -> Describing:
    """The model, kept for the next unit of this process."""
    return descriptor.load(device, threads)


def _join(total: Outcome, *, output: str, parts: Sequence[str]) -> Outcome:
    """The units' parts as one table and one array, a part in memory at a time."""
    if not total.counts.get("kept"):
        raise InputError("no picture that can be decoded", where=output, expected="pictures of evaluation sets")
    shape, kind, hashes = [0, 0], np.dtype(np.float32), []
    with store.atomic(store.join(output, IMAGES)) as f, pq.ParquetWriter(f, _SCHEMA) as table:
        for part in _read(parts):
            keys = part["keys"].tolist()
            table.write_table(pa.table({"dataset": [str(part["dataset"])] * len(keys), "key": keys}, _SCHEMA))
            hashes.append(part["phash"])
            if len(part["vectors"]):
                shape, kind = [shape[0] + len(part["vectors"]), part["vectors"].shape[1]], part["vectors"].dtype
    with store.atomic(store.join(output, VECTORS)) as f:
        header = {"descr": kind.str, "fortran_order": False, "shape": tuple(shape)}
        np.lib.format.write_array_header_1_0(f, header)  # type: ignore[no-untyped-call]
        for part in _read(parts):
            f.write(part["vectors"].tobytes())
    if len(found := np.unique(np.concatenate(hashes))):
        with store.atomic(store.join(output, PHASHES)) as f:
            np.lib.format.write_array(f, found, version=(1, 0))  # type: ignore[no-untyped-call]
    return total


def _read(parts: Sequence[str]) -> Iterator[dict[str, NDArray[Any]]]:
    for path in parts:
        with store.open_input(path) as f, np.load(f, allow_pickle=False) as arrays:
            yield {name: arrays[name] for name in arrays.files}
