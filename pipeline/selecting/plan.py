"""What a filter run would do, and about how much it would keep, from a sample: `winnow filter --dry-run`."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import pyarrow as pa

from filters.mixture import MIXES
from filters.recipe import Recipe
from pipeline.engine import Local, Options, default_workers
from pipeline.scan import PoolScan
from pipeline.selecting import needs, plugin
from pipeline.selection import Settings
from pools import uids
from pools.layout import Pool
from pools.part import BATCH_ROWS, Part

FILES = 16
ROWS = 1 << 16


@dataclass(frozen=True)
class Estimate:
    """What became of a sample: rows, files, counts as a run has them, and half the width of a 95 % interval of the rate."""

    rows: int
    files: int
    counts: Counter[str]
    error: float

    @property
    def rate(self) -> float:
        return self.counts["kept"] / self.rows if self.rows else 0.0


@dataclass(frozen=True)
class _Sampled(Part):
    """A unit of which only some batches are read, spread over its length and the same for every stage."""

    most: int = 1

    @classmethod
    def of(cls, part: Part, most: int) -> _Sampled:
        return cls(**{f.name: getattr(part, f.name) for f in fields(Part)}, most=most)

    def batches(self, columns: Sequence[str], rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        total = -(-self.rows // rows)
        chosen = {i * total // min(self.most, total) for i in range(min(self.most, total))}
        for i, batch in enumerate(super().batches(columns, rows)):
            if i in chosen:
                yield batch
            if chosen and i == max(chosen):
                return


def plan(recipe_path: str, pool_root: str, options: Options, settings: Settings) -> list[str]:
    """Lines that say what would be done; nothing is written. Raises InputError as the run itself would."""
    if settings.plugin:
        plugin.load(settings.plugin)
    recipe = Recipe.load(recipe_path)
    columns = list(dict.fromkeys(["uid", *recipe.needs]))
    pool, _ = needs.ready(pool_root, recipe, fill=settings.fill)
    workers = default_workers() if options.workers is None else options.workers
    where = f"{workers} processes" if options.engine == "local" and workers else "this process" if not workers else "Spark"
    lines = [
        f"recipe {recipe.name} (digest {recipe.digest[:16]})",
        f"pool {pool.root}: {len(pool.parts)} files",
        f"engine {options.engine}: {where}",
    ]
    estimate = sample(recipe, pool, columns)
    reached = estimate.rows
    lines.append(f"columns read: {', '.join(columns)}")
    for i, (rule, name) in enumerate(zip(recipe.rules, recipe.stages, strict=True)):
        dropped = estimate.counts[f"dropped:{i}-{name}"]
        share = (
            f"keeps {100 * (1 - dropped / reached):.1f} % of what reaches it" if reached else "reached by no row of the sample"
        )
        lines.append(f"  {i} {name:20} reads {', '.join(rule.needs) or 'nothing'}; {share}")
        reached -= dropped
    if recipe.mix:
        lines.append(f"  mix {MIXES.name_of(recipe.mix)}: weighs what is kept")
    if recipe.captions:
        lines.append(f"  captions of what is kept: {recipe.captions.described()}")
    kept = f"{estimate.counts['kept']:,} of {estimate.rows:,} rows of {estimate.files} files"
    if estimate.error:
        lines.append(f"keeps about {100 * estimate.rate:.1f} % ± {100 * estimate.error:.1f} (95 %): {kept} sampled")
    else:
        lines.append(f"keeps {100 * estimate.rate:.1f} % exactly: {kept}, which are all")
    return lines


def sample(recipe: Recipe, pool: Pool, columns: Sequence[str]) -> Estimate:
    """Judges some batches of some files, chosen by a hash of their names; whatever is fitted is fitted to those rows."""
    hashes = uids.hash64(uids.pack([uids.new(part.stem, "") for part in pool.parts]), 0)
    chosen = [pool.parts[i] for i in np.sort(np.argsort(hashes, kind="stable")[:FILES])]
    most = max(1, ROWS // BATCH_ROWS // len(chosen))
    parts = tuple(part if isinstance(part, needs.Filled) else _Sampled.of(part, most) for part in chosen)
    fitted = recipe.fit(PoolScan(replace(pool, parts=parts), Local(0)))
    counts: list[Counter[str]] = []
    for part in parts:
        one: Counter[str] = Counter()
        for batch in part.batches(columns):
            one.update(fitted.judge_batch(batch, verdicts=False).counts)
        counts.append(one)
    total = sum(counts, Counter())
    whole = len(parts) == len(pool.parts) and total["in"] == sum(part.rows for part in pool.parts)
    return Estimate(total["in"], len(parts), total, 0.0 if whole else _error([(c["in"], c["kept"]) for c in counts]))


def _error(files: Sequence[tuple[int, int]]) -> float:
    """1.96 standard errors of the kept rate, by how far files lie apart (a ratio estimate), or by chance if there is one."""
    rows = sum(n for n, _ in files)
    if not rows:
        return 1.0
    rate = sum(k for _, k in files) / rows
    chance = math.sqrt(rate * (1 - rate) / rows)
    m = len(files)
    between = math.sqrt(m / (m - 1) * sum((k - rate * n) ** 2 for n, k in files)) / rows if m > 1 else 0.0
    return 1.96 * max(chance, between)
