"""Looking things up in a uid list: the same as counting, however long it is."""

from __future__ import annotations

import bisect
import pickle
import subprocess
import sys
from pathlib import Path

import fsspec
import numpy as np
import pytest

from pools import uids, wanted
from pools.errors import InputError
from pools.uids import lookup
from pools.wanted import Taken, Wanted

ROOT = Path(__file__).resolve().parent.parent.parent


def numbers(records: uids.Uids) -> list[int]:
    return [(high << 64) + low for high, low in records.tolist()]


def records(values: list[int]) -> uids.Uids:
    return uids.pack([f"{v:032x}" for v in values])


def opened(path: str, listed: list[int], how: str) -> Wanted:
    """The list, come by in one of the ways there are."""
    if how == "held":
        return Wanted(records(listed))
    uids.write_list(path, records([0, *listed]) if how == "slice" else records(listed))
    if how == "raw":
        records(listed).tofile(path)
    if how == "stored":
        with fsspec.open("memory://lists/l.npy", "wb") as f:
            f.write(Path(path).read_bytes())
        return Wanted.open("memory://lists/l.npy")
    if how == "opened":
        return Wanted.open(path)
    found = Wanted(uids.load(path)[1:] if how == "slice" else uids.load(path))
    return pickle.loads(pickle.dumps(found)) if how == "pickled" else found  # noqa: S301  (our own object, as loaders send it)


@pytest.mark.parametrize("how", ["held", "opened", "mapped", "raw", "slice", "pickled", "stored"])
def test_places_and_copies_are_those_of_a_plain_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    rng = np.random.default_rng(0)
    few = [int(v) for v in rng.integers(0, 50, 3000)]
    spread = [int(v) << 100 for v in rng.integers(0, 1 << 20, 2000)]
    same_high = [(7 << 64) + int(v) for v in rng.integers(0, 1 << 30, 700)]
    listed = sorted([*few, *spread, *same_high])
    sought = [*few[:100], *spread[:300], *same_high[:100], *range(60), 1 << 127, (7 << 64) + 5, 0, 2**128 - 1]
    rng.shuffle(sought)
    monkeypatch.setattr(wanted, "_HELD", 0)
    monkeypatch.setattr(lookup, "_AT_ONCE", 3)  # so that pages between are passed over
    monkeypatch.setattr(wanted, "STEP", 512)
    found = opened(str(tmp_path / "l.npy"), listed, how)
    assert isinstance(found._records, lookup.Held if how == "held" else lookup.Paged)
    places, copies = found.find(records(sought))
    assert places.tolist() == [bisect.bisect_left(listed, v) for v in sought]
    assert copies.tolist() == [listed.count(v) for v in sought]
    begins = [p for _, piece in found.places() for p in piece.tolist()]
    assert begins == [bisect.bisect_left(listed, v) for v in listed]
    told = found.summary()
    assert (told.count, told.distinct, told.digest) == (len(listed), len(set(listed)), uids.digest(records(listed)))


@pytest.mark.parametrize("listed", [[], [5], [5, 5]])
def test_short_lists(listed: list[int]) -> None:
    found = Wanted(records(listed))
    places, copies = found.find(records([4, 5, 6]))
    assert copies.tolist() == [0, len(listed), 0]
    assert places.tolist() == [0, 0, len(listed)]
    assert found.summary().distinct == len(set(listed))
    assert found.find(records([]))[0].tolist() == []


@pytest.mark.parametrize("row", [1, 511, 512, 513, 1025])
def test_a_list_that_is_not_sorted_is_refused_with_the_row(monkeypatch: pytest.MonkeyPatch, row: int) -> None:
    monkeypatch.setattr(wanted, "STEP", 512)
    values = list(range(10, 1300))
    values[row] = 3
    with pytest.raises(InputError, match=rf"row {row} is smaller than row {row - 1}; expected uids in sorted order"):
        Wanted(records(values)).summary()


def test_a_list_that_changes_is_read_anew(tmp_path: Path) -> None:
    path = str(tmp_path / "l.npy")
    for values in ([1], [1, 2, 3]):
        uids.write_list(path, records(values))
        assert len(Wanted.open(path)) == len(values)


@pytest.mark.parametrize(
    ("name", "what"), [("none.npy", "no such uid list"), ("l.txt", "winnow uids convert"), ("r.npy", "remove")]
)
def test_what_is_no_keep_list_is_refused(tmp_path: Path, name: str, what: str) -> None:
    (tmp_path / "l.txt").write_text("0" * 32)
    uids.write_list(str(tmp_path / "r.npy"), records([1]), kind="remove")
    with pytest.raises(InputError, match=what):
        Wanted.open(str(tmp_path / name))


def test_each_place_is_taken_once() -> None:
    taken = Taken(20)
    first = taken.take(np.array([3, 11, 3, 19]))
    assert first.tolist() == [True, True, False, True]
    assert taken.take(np.array([19, 4, 4])).tolist() == [False, True, False]
    assert np.flatnonzero(taken.has(np.arange(20))).tolist() == [3, 4, 11, 19]


@pytest.mark.slow
def test_a_mapped_list_is_not_brought_to_memory(tmp_path: Path) -> None:
    taken = {}
    for n in (1_000_000, 32_000_000):
        path = tmp_path / f"{n}.u16"
        with path.open("wb") as f:
            for start in range(0, n, 1 << 20):
                f.write(np.arange(start, min(n, start + (1 << 20)), dtype=np.uint64).repeat(2).tobytes())
        command = [sys.executable, "-m", "tests.pools.list_memory", str(path)]
        taken[n] = float(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout)
    assert taken[32_000_000] - taken[1_000_000] < 60  # the list has 512 MB; found pages are 32 MB at most
