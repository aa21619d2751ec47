"""A uid list applied to shards: new shards of just those samples, members copied without decoding.

DataComp's conventions: key and `uid` field as many times as the list names a uid (`<uid>-0`, `<uid>-1`, …), beside the
shards `sample_ids.npy` (what was written, sorted) and `meta.json` (counts).
"""

from __future__ import annotations

import contextlib
import functools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import IO, Any

import numpy as np

from pipeline import engine
from pipeline.engine import Engine, Failed, Unit
from pools import shards, store, uids
from pools.errors import InputError, WorkFailed
from pools.manifest import Outcome, Run, digest_of
from pools.uids import Uids

VERSION = 1
SHARD_SIZE = 10_000
LISTED = 20  # missing uids that the summary names; all of them are in missing.npy


@dataclass(frozen=True)
class Located:
    """The samples of one shard, in its order: their uids, and their place in the tar."""

    shard: str
    uids: Uids
    places: np.ndarray[Any, np.dtype[np.int64]]


def reshard(
    shards_root: str,
    list_path: str,
    output: str,
    *,
    shard_size: int = SHARD_SIZE,
    strict: bool = False,
    options: engine.Options,
) -> Outcome:
    """Writes `<index>.tar` of at most `shard_size` samples each, in the order of the source shards.

    A uid that stands in several places is taken from the first. Counts: in (asked for), kept (written),
    `dropped:missing` (in no shard; `missing.npy`). Raises InputError for a bad list or shards, WorkFailed for missing
    uids if `strict`.
    """
    if shard_size < 1:
        raise InputError(f"{shard_size}", where="--shard-size", expected="1 or more")
    wanted = uids.read_list(list_path)
    sources = shards.list_shards(shards_root)
    inputs = digest_of([store.digest(s, shards_root) for s in sources])
    run = Run(output, "reshard", VERSION, {"uids": uids.digest(wanted), "shard_size": shard_size}, (inputs,))
    outcome = engine.recall(run, options)
    if outcome is None:
        run.claim(overwrite=options.overwrite)
        found = _choose(wanted, _locate(sources, engine.make_engine(options.engine, options.workers)))
        missing = uids.minus(wanted, uids.sort(np.concatenate([np.empty(0, uids.UID), *(f.uids for f in found)])))
        finish = functools.partial(_finish, wanted, missing, output)
        outcome = engine.run(run, _plan(found, wanted, output, shard_size), _write_unit, options, finish)
    if strict and (n := outcome.counts.get("dropped:missing", 0)):
        raise WorkFailed(
            f"{n} of {outcome.counts['in']} samples are in no shard of {shards_root} (listed in {output}/missing.npy)"
        )
    return outcome


def _locate(sources: Sequence[str], engine_: Engine) -> list[Located]:
    found: dict[int, Located] = {}
    with contextlib.closing(engine_.map(locate, sources)) as results:
        for i, located in results:
            if isinstance(located, Failed):
                raise located.input_error or WorkFailed(located.message)
            found[i] = located
    return [found[i] for i in range(len(sources))]


def locate(shard: str) -> Located:
    """The uids of a shard's samples, read from their json. Raises InputError where a sample has none."""
    found = []
    with store.open_input(shard) as f:
        for sample in shards.samples(shard):
            found.append(_uid(f, sample))
    packed = uids.pack(found, where=shard)
    return Located(shard, packed, np.arange(len(packed)))


def _uid(f: IO[bytes], sample: shards.Sample) -> str:
    uid = shards.sidecar(f, sample).get("uid")
    if not isinstance(uid, str):
        raise InputError(
            f"sample {sample.key!r} has no uid", where=sample.shard, expected='a .json: {"uid": "32 hex digits", …}'
        )
    return uid


def _choose(wanted: Uids, located: list[Located]) -> list[Located]:
    """Of each shard what is wanted and in no earlier place."""
    asked = [uids.count(wanted, shard.uids) > 0 for shard in located]
    parts = [shard.uids[mask] for shard, mask in zip(located, asked, strict=True)]
    first = uids.first_occurrences(np.concatenate([np.empty(0, uids.UID), *parts]))
    firsts = np.split(first, np.cumsum([len(part) for part in parts])[:-1]) if parts else []
    return [
        Located(shard.shard, part[mine], shard.places[mask][mine])
        for shard, mask, part, mine in zip(located, asked, parts, firsts, strict=True)
    ]


def _plan(found: list[Located], wanted: Uids, output: str, shard_size: int) -> list[Unit]:
    """One unit an output shard: [(source shard, place, repeat), …] of at most `shard_size` samples."""
    picks: Iterator[tuple[str, int, int]] = (
        (shard.shard, int(place), k)
        for shard in found
        for place, times in zip(shard.places, uids.count(wanted, shard.uids), strict=True)
        for k in range(times)
    )
    units: list[Unit] = []
    while batch := tuple(pick for _, pick in zip(range(shard_size), picks, strict=False)):
        name = shards.shard_name(len(units))
        units.append(Unit(name, digest_of(batch), (store.join(output, name + ".tar"), batch)))
    return units


def _write_unit(unit: Unit) -> Outcome:
    path, picks = unit.args
    with shards.write(path) as out:
        for source, group in groupby(picks, key=lambda pick: pick[0]):
            _copy(source, [(place, k) for _, place, k in group], out)
    return Outcome({"in": len(picks), "kept": len(picks)})


def _copy(source: str, picks: list[tuple[int, int]], out: shards.Writer) -> None:
    """Copies the samples at these places of a shard, which are in ascending order."""
    repeats = Counter(place for place, _ in picks)
    first = dict(reversed(picks))  # of each place the lowest repeat, which a shard's border may have cut off
    with store.open_input(source) as f:
        for place, sample in enumerate(shards.samples(source)):
            if not repeats[place]:
                continue
            members = {e: shards.read(f, sample, e) for e in sample.members}
            uid = _uid(f, sample).lower()
            for k in range(first[place], first[place] + repeats[place]):
                out.add(f"{uid}-{k}", members)


def _finish(wanted: Uids, missing: Uids, output: str, total: Outcome) -> Outcome:
    lost = int(uids.count(wanted, missing).sum())
    uids.write_list(store.join(output, "missing.npy"), missing, kind="remove")
    written = wanted[uids.count(missing, wanted) == 0]
    uids.write_list(store.join(output, "sample_ids.npy"), written)
    counts = {"in": len(wanted), "kept": len(written), "dropped:missing": lost}
    store.write_json(store.join(output, "meta.json"), {**counts, "distinct": len(uids.unique(written))})
    if total.counts.get("kept", 0) != len(written):
        raise WorkFailed(f"{output}: {total.counts.get('kept', 0)} samples written, {len(written)} planned")
    problems = tuple(f"in no shard: {u}" for u in uids.unpack(missing[:LISTED]).to_pylist())
    return Outcome(counts, problems)
