"""Centroids of a pool's features, by faiss's k-means, for the rules that ask for a row's cluster."""

from __future__ import annotations

import contextlib
import functools
import operator
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from filters import vectors
from filters.fitted import Fitted
from filters.recipe import Recipe
from filters.registry import Filter
from filters.sampling import Random
from pipeline import engine
from pipeline.engine import Failed
from pipeline.progress import Progress
from pipeline.scan import PoolScan, naming
from pools import store, uids
from pools.errors import InputError, WorkFailed
from pools.layout import Pool
from pools.manifest import Outcome, digest_of, winnow_version
from pools.part import Part
from pools.uids import Uids

Vectors = NDArray[np.floating]


@dataclass(frozen=True)
class Settings:
    """What the centroids depend on, besides the pool and the version of faiss."""

    features: str
    clusters: int
    seed: int = 0
    iterations: int = 20
    max_per_centroid: int | None = 256  # rows; None takes all
    clip: bool = False  # fewer clusters where there are fewer rows

    def __post_init__(self) -> None:
        for name in ("clusters", "iterations", "max_per_centroid"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise InputError(f"{value}", where=name, expected="1 or more")
        if not 0 <= self.seed < 2**31:
            raise InputError(f"{self.seed}", where="seed", expected="0 to 2147483647")


def cluster(pool_root: str, output: str, settings: Settings, *, recipe: str | None = None, options: engine.Options) -> Outcome:
    """Writes centroids (k, d) float32 to a `.npy`, and how they came about to `<output>.json`.

    Of more rows than `max_per_centroid` · k those with the smallest hashes of uid and seed are used, so however the pool is
    cut. With a recipe only rows that it keeps are. Rows with a NaN are left out and counted. The rows that are used lie in
    memory, as float32 and once more as they are stored. Counts: in, kept (used), `dropped:<why>`.
    """
    if not output.endswith(".npy"):
        raise InputError(f"{output}", where="--output", expected="a file whose name ends in .npy")
    wanted = Recipe.load(recipe) if recipe else None
    pool = Pool.open(pool_root)
    columns = list(dict.fromkeys(["uid", settings.features, *(wanted.needs if wanted else ())]))
    pool.require(columns)
    _check_widths(pool, settings.features)
    identity = {
        **asdict(settings),
        "recipe": wanted.name if wanted else None,
        "recipe_digest": wanted.digest if wanted else None,
        "pool": digest_of([part.digest(columns) for part in pool.parts]),
    }
    if (before := _recall(output, identity, options)) is not None:
        return before
    scan = PoolScan(pool, engine.make_engine(options.engine, options.workers))
    total = scan.reduce(("uid",), len, operator.add, 0)
    stages = wanted.fit(scan).stages if wanted else ()
    rows = scan.through(stages).reduce(("uid",), len, operator.add, 0) if stages else total
    if settings.max_per_centroid is not None and rows > (most := settings.max_per_centroid * settings.clusters):
        sample = Random(count=most, seed=settings.seed, of="input")
        stages = (*stages, sample.fit(scan.through(stages)))
    points, rejected = _points(pool, scan, stages, settings)
    sampled = len(points) + rejected
    used = f"{len(points):,} of {rows:,} rows used"
    if sampled < rows:
        used += f", {settings.max_per_centroid:,} for each of {settings.clusters:,} clusters"
    Progress.note(f"cluster: {used}; {rejected:,} not finite", quiet=options.quiet)
    centroids, objective = train(points, settings, engine.default_workers() if not options.workers else options.workers)
    vectors.save_array(output, centroids)
    counts = {
        "in": total,
        "dropped:recipe": total - rows,
        "dropped:sampling": rows - sampled,
        "dropped:not_finite": rejected,
        "kept": len(points),
        "clusters": len(centroids),
    }
    told = {"objective": objective, "faiss": _faiss_version(), "winnow": winnow_version()}
    store.write_json(_side(output), {"made_of": identity, "counts": counts, "dimensions": centroids.shape[1], **told})
    return Outcome(counts).check()


def _check_widths(pool: Pool, column: str) -> None:
    """Raises InputError where types tell that files hold vectors of different lengths."""
    known = [(part.types([column])[column], part.parquet) for part in pool.parts]
    _one_width(column, {kind.list_size: file for kind, file in known if pa.types.is_fixed_size_list(kind)})


def _one_width(column: str, files: dict[int, str]) -> None:
    """Of {length of vectors: a file that has such}."""
    if len(files) > 1:
        (one, here), (other, there) = list(files.items())[:2]
        raise InputError(f"{column!r} has vectors of {other} numbers, in {here} of {one}", where=there, expected="one length")


def _side(output: str) -> str:
    return output + ".json"


def _recall(output: str, identity: dict[str, Any], options: engine.Options) -> Outcome | None:
    """The outcome if these very centroids are there. Raises InputError if others are."""
    if options.overwrite or not store.exists(output):
        return None
    side = store.read_json(_side(output)) if store.exists(_side(output)) else {}
    if side.get("made_of") != identity:
        raise InputError("there are other centroids", where=output, fix="choose another --output, or give --overwrite")
    Progress.note(f"cluster: done before, nothing to do ({output})", quiet=options.quiet)
    return Outcome(side["counts"])


def _points(pool: Pool, scan: PoolScan, stages: Sequence[Filter], settings: Settings) -> tuple[Vectors, int]:
    """(n, d) float32 finite features of the rows that all stages keep, in the order of their hashes, and how many were not."""
    found: dict[int, tuple[Uids, Vectors, int]] = {}
    work = functools.partial(_read, tuple(stages), settings.features)
    with contextlib.closing(scan.engine.map(work, pool.parts)) as results:
        for i, result in results:
            if isinstance(result, Failed):
                raise result.input_error or WorkFailed(result.message)
            found[i] = result
    parts = [i for i in sorted(found) if len(found[i][0])]
    widths = {found[i][1].shape[1]: pool.parts[i].parquet for i in parts}
    _one_width(settings.features, widths)
    everyone = np.concatenate([np.empty(0, uids.UID), *(found[i][0] for i in parts)])
    place = np.empty(len(everyone), np.int64)
    order = uids.order(everyone)
    place[order[np.argsort(uids.hash64(everyone[order], settings.seed), kind="stable")]] = np.arange(len(everyone))
    points = np.empty((len(everyone), *widths), np.float32) if widths else np.empty((0, 1), np.float32)
    start = 0
    rejected = sum(n for _, _, n in found.values())
    for i in parts:
        _, features, _ = found.pop(i)
        points[place[start : start + len(features)]] = features
        start += len(features)
    return points, rejected


def _read(stages: tuple[Filter, ...], column: str, part: Part) -> tuple[Uids, Vectors, int]:
    """Uids and finite features of the rows of one unit that all stages keep, and how many have no finite ones."""
    before = Fitted(tuple("" for _ in stages), stages)
    needed = dict.fromkeys(["uid", column, *(c for stage in stages for c in stage.needs)])
    found, features, rejected = [], [], 0
    with naming(part):
        for batch in part.batches(list(needed)):
            survivors = before.survivors(batch)
            own, valid = vectors.of_column(survivors, column)
            finite = np.isfinite(own).all(axis=1)
            rejected += int(len(valid) - finite.sum())
            if finite.any():
                found.append(uids.pack(survivors["uid"])[valid][finite])
                features.append(own[finite])
    if not found:
        return np.empty(0, uids.UID), np.empty((0, 0), np.float32), rejected
    return np.concatenate(found), np.concatenate(features), rejected


def train(points: Vectors, settings: Settings, threads: int) -> tuple[NDArray[np.float32], float]:
    """k centroids (k, d) of points (n, d), and the sum of squared distances to them. Raises InputError for n < k."""
    import faiss

    count = settings.clusters
    if len(points) < count:
        if not (settings.clip and len(points)):
            raise InputError(
                f"{len(points):,} rows for {count:,} clusters: {len(points):,} < {count:,}",
                where="--k",
                expected="as many rows as clusters, or more",
                fix="a smaller --k, or --clip, which takes as many clusters as there are rows",
            )
        count = len(points)
    faiss.omp_set_num_threads(threads)
    width = points.shape[1]
    clustering = faiss.Clustering(width, count)
    clustering.niter, clustering.seed = settings.iterations, settings.seed
    # What is used has been chosen before.
    clustering.max_points_per_centroid, clustering.min_points_per_centroid = len(points), 1
    clustering.train(points, faiss.IndexFlatL2(width))
    centroids: NDArray[np.float32] = faiss.vector_float_to_array(clustering.centroids).reshape(count, width).copy()
    if not np.isfinite(centroids).all():
        raise WorkFailed("k-means ended with centroids that are not finite\n  → are the features of reasonable size?")
    steps: Any = clustering.iteration_stats
    return centroids, float(steps.at(steps.size() - 1).obj) if steps.size() else 0.0


def _faiss_version() -> str:
    import faiss

    return str(faiss.__version__)
