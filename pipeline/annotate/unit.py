"""One metadata file and its shard past all annotators that have not done it."""

from __future__ import annotations

import functools
from collections.abc import Hashable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import cast

import pyarrow as pa

from pipeline import engine
from pipeline.annotate.annotator import Annotator, Model
from pipeline.annotate.answers import Answers
from pipeline.annotate.families import Family, Speed, Together, together
from pipeline.annotate.passing import PICTURES, TEXTS, Pass, pass_rows
from pipeline.annotate.rows import rows, with_pictures
from pipeline.device import choose_device, has_cuda
from pools.errors import InputError, WinnowError, WorkFailed
from pools.manifest import Outcome, winnow_version
from pools.part import Part

CPU_BATCH, GPU_BATCH = 64, 256


@dataclass(frozen=True)
class Settings:
    """How to compute, nothing of which is in a result but the device, up to rounding."""

    device: str = "auto"
    batch_size: int | None = None  # samples; default by device
    threads: int = 1  # of a process


@functools.lru_cache(maxsize=16)
def load(annotator: Hashable, device: str, threads: int) -> Model:
    """The model of an annotator, kept for the next unit of this process."""
    return cast(Annotator, annotator).load(device, threads)


def annotate_unit(unit: engine.Unit, *, run: Together, settings: Settings) -> Outcome:
    """Writes and marks what is missing of each family. Raises if one of them could not be made, when the others are done."""
    part: Part
    part, tar = unit.args
    outcomes: dict[str, Outcome] = {}
    todo: dict[str, tuple[Family, str]] = {}
    for family, digest in run.digests(unit.inputs):
        if (before := family.run.done(unit.name, digest)) is None:
            todo[family.name] = (family, digest)
        else:
            outcomes[family.name] = before
    work = _Work(part, choose_device(settings.device, cuda=settings.device != "cpu" and has_cuda()), settings)
    speeds: dict[str, Speed] = {}
    errors: dict[str, Exception] = {}
    # Those that need no picture first: a shard that is damaged does not keep them from their work.
    for images in (False, True):
        some = [family for family, _ in todo.values() if family.annotator.wants_image == images]
        for family, one, speed in work.done(some, tar if images else None) if some else ():
            if one.error is not None:
                errors[family.name] = one.error
                continue
            outcomes[family.name] = work.keep(one.answers, family, unit.name)
            family.run.mark(unit.name, todo[family.name][1], outcomes[family.name])
            speeds[family.name] = speed
    if errors:
        raise _told(errors)
    return together({f.name: outcomes[f.name] for f in run.families}, speeds)


@dataclass
class _Work:
    """What is to be done with one file, on one device."""

    part: Part
    device: str
    settings: Settings

    def done(self, families: Sequence[Family], tar: str | None) -> Iterator[tuple[Family, Pass, Speed]]:
        """Each family with what it said of the rows, once all have seen them all."""
        count = len(self.uids)
        passes = {f.name: Pass(Answers(f.annotator, count)) for f in families}
        decode = 0.0
        if count:
            models = {f.name: load(cast(Hashable, f.annotator), self.device, self.settings.threads) for f in families}
            decode = self._pass(families, models, passes, tar)
        for family in families:
            one = passes[family.name]
            yield family, one, Speed(count, decode, one.prepare_seconds, one.annotate_seconds)

    def keep(self, answers: Answers, family: Family, stem: str) -> Outcome:
        header = {**family.header, "device": self.device, "winnow": winnow_version()}
        answers.write(family.output, stem, self.uids, header)
        return Outcome(answers.counts()).check()

    @functools.cached_property
    def uids(self) -> pa.Array:
        batches = [batch["uid"].cast(pa.string()) for batch in self.part.batches(["uid"])]
        return pa.chunked_array(batches, pa.string()).combine_chunks()

    def _pass(
        self, families: Sequence[Family], models: Mapping[str, Model], passes: Mapping[str, Pass], tar: str | None
    ) -> float:
        found = rows(self.part, list(dict.fromkeys(c for f in families for c in f.annotator.reads if c != "uid")))
        batch_size = self.settings.batch_size or (CPU_BATCH if self.device == "cpu" else GPU_BATCH)
        with ThreadPoolExecutor(self.settings.threads) as threads:
            if tar is None:
                return pass_rows(found, models, passes, threads, batch_size=batch_size, together=TEXTS)
            pictures = with_pictures(found, tar)
            return pass_rows(pictures, models, passes, threads, batch_size=batch_size, together=PICTURES)


def _told(errors: Mapping[str, Exception]) -> Exception:
    """The user's mistake as it is, and ours with its traceback; several become one."""
    first = next((e for e in errors.values() if isinstance(e, InputError)), next(iter(errors.values())))
    if len(errors) == 1 or isinstance(first, InputError):
        return first
    lines = [f"{name}: {e if isinstance(e, WinnowError) else f'{type(e).__name__}: {e}'}" for name, e in errors.items()]
    return WorkFailed("; ".join(lines))
