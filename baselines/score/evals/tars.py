"""What a tar of evaluation data holds and where, found out once: for labels, fields and pictures alike."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from baselines.train.decode import Raw
from pools import shards, store
from pools.shards import Sample

REMEMBERED = 4096  # tars; some 60 bytes a sample


@dataclass(frozen=True)
class Index:
    """The samples of one tar, in few bytes each."""

    path: str
    keys: str  # with NUL between them
    forms: tuple[tuple[str, ...], ...]  # the sets of extensions that samples have
    form: NDArray[np.int32]  # [n], of each sample
    places: NDArray[np.int64]  # [members, 2]: offset and size, those of a sample one after the other
    sha256: str = field(default="", compare=False)  # of all of the above and of the file's identity

    def __iter__(self) -> Iterator[Sample]:
        """As `shards.samples` gives them."""
        at = 0
        keys = self.keys.split("\0") if len(self.form) else []
        places = self.places.tolist()
        for key, form in zip(keys, self.form.tolist(), strict=True):
            extensions = self.forms[form]
            members = {e: (place[0], place[1]) for e, place in zip(extensions, places[at : at + len(extensions)], strict=True)}
            at += len(extensions)
            yield Sample(self.path, key, members)


def samples(path: str) -> Iterator[Sample]:
    """`shards.samples`, without looking at the tar again if that has been done. Raises what it does."""
    return iter(indexed(path))


def indexed(path: str) -> Index:
    return _index(path, store.digest(path))


@functools.lru_cache(REMEMBERED)
def _index(path: str, identity: str) -> Index:
    keys: list[str] = []
    forms: dict[tuple[str, ...], int] = {}
    form: list[int] = []
    places: list[tuple[int, int]] = []
    for sample in shards.samples(path):
        keys.append(sample.key)
        form.append(forms.setdefault(tuple(sample.members), len(forms)))
        places += sample.members.values()
    joined = "\0".join(keys)
    where = np.array(places, np.int64).reshape(-1, 2)
    sha = hashlib.sha256(f"{path}\n{identity}\n{list(forms)}\n{joined}".encode("utf-8", "surrogateescape"))
    sha.update(np.array(form, np.int64).tobytes() + where.tobytes())
    return Index(path, joined, tuple(forms), np.array(form, np.int32), where, sha.hexdigest())


@dataclass(frozen=True)
class Pictures:
    """The images of tars in order, undecoded, each with its target. `digest` is the identity of all of them."""

    tars: tuple[str, ...]
    targets: Sequence[int]

    def __iter__(self) -> Iterator[Raw]:
        target = iter(self.targets)
        for path in self.tars:
            with store.open_input(path) as f:
                for sample in samples(path):
                    extension = sample.image_extension
                    assert extension is not None  # checked when the data were opened
                    yield Raw(_name(sample), shards.read(f, sample, extension), int(next(target)))

    def bare(self) -> Iterator[Raw]:
        """The same without their bytes, which are not read."""
        target = iter(self.targets)
        for path in self.tars:
            for sample in samples(path):
                yield Raw(_name(sample), b"", int(next(target)))

    @property
    def digest(self) -> str:
        return hashlib.sha256("\n".join(indexed(t).sha256 for t in self.tars).encode()).hexdigest()


def _name(sample: Sample) -> str:
    return f"{sample.shard}: {sample.key}"
