"""Sizes and order of new shards."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline.reshard import layout, spool
from pipeline.reshard.command import parse_size
from pipeline.reshard.job import reshard
from pipeline.reshard.settings import Settings
from pools import hashes, uids
from pools.errors import InputError
from tests.pipeline.resharding import QUIET, samples, sizes, uid, write_list, write_source, written


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """60 samples in shards of 20, 0, 39 and 1."""
    return write_source(tmp_path_factory.mktemp("layout") / "shards", (20, 0, 39, 1))


def made(source: Path, folder: Path, *wanted: int, **settings: Any) -> Path:
    out = folder / "-".join(str(v) for v in settings.values())
    reshard(str(source), write_list(folder, *wanted), str(out), settings=Settings(**settings), options=QUIET)
    return out


# T91
@pytest.mark.parametrize("shuffle", ["none", "buffer", "all"])
@pytest.mark.parametrize(
    ("number", "how", "expected"),
    [
        (10, {"shard_size": 4}, [4, 4, 2]),
        (10, {"shards": 3}, [4, 3, 3]),
        (2, {"shards": 3}, [1, 1]),
        (10, {}, [10]),
        (9, {"shard_bytes": 3 * 3072}, [3, 3, 3]),  # a sample takes six blocks
        (10, {"shard_bytes": 3 * 3072}, None),
        (3, {"shard_bytes": 1}, [1, 1, 1]),
    ],
)
def test_no_shard_is_empty_and_sizes_are_even(
    tmp_path: Path, source: Path, shuffle: str, number: int, how: dict[str, int], expected: list[int] | None
) -> None:
    out = made(source, tmp_path, *range(15, 15 + number), shuffle=shuffle, **how)
    assert sorted(samples(out)) == list(range(15, 15 + number))
    found = sizes(out)
    if expected is None:
        assert (len(found), max(found) - min(found), sum(found)) == (4, 1, 10)
    else:
        assert found == expected
    assert sorted(p.name for p in out.glob("*.tar")) == [f"{i:08d}.tar" for i in range(len(found))]


@pytest.mark.parametrize("shard_size", [1, 2, 3, 4])
def test_repeats_go_on_over_the_border_of_a_shard(tmp_path: Path, source: Path, shard_size: int) -> None:
    out = made(source, tmp_path, 2, 2, 2, 2, 3, shard_size=shard_size)
    assert [key for _, key, _, _ in written(out)] == [*(f"{uid(2)}-{k}" for k in range(4)), f"{uid(3)}-0"]


def test_the_order_over_all_is_that_of_the_hashes_of_uid_copy_and_seed(tmp_path: Path, source: Path) -> None:
    wanted = [*range(1, 61), 7, 7, 7]
    orders = {}
    for seed in (0, 1):
        out = made(source, tmp_path, *wanted, shuffle="all", shard_size=10, seed=seed)
        keys = [key for _, key, _, _ in written(out)]

        def by_hash(key: str, seed: int = seed) -> int:
            of_uid, _, copy = key.partition("-")
            return int(hashes.join(uids.hash64(uids.pack([of_uid]), seed), np.array([int(copy)], np.uint64))[0])

        assert keys == sorted(keys, key=by_hash)
        assert Counter(samples(out)) == Counter(wanted)
        assert sizes(out) == [10] * 6 + [3]
        orders[seed] = keys
    assert orders[0] != orders[1]
    assert sorted(orders[0]) == sorted(orders[1])


def test_the_order_over_all_is_that_of_the_set_however_the_sources_are_cut(tmp_path: Path, source: Path) -> None:
    other = write_source(tmp_path / "others", (1, 58, 1))
    one, two = (made(s, tmp_path / s.name, *range(1, 61), shuffle="all", shard_size=25) for s in (source, other))
    assert [(s, k) for s, k, _, _ in written(one)] == [(s, k) for s, k, _, _ in written(two)]


@pytest.mark.parametrize("buffer", [1, 5, 1000])
def test_within_a_buffer_no_entry_moves_further_than_it_is_long(tmp_path: Path, source: Path, buffer: int) -> None:
    out = made(source, tmp_path, *range(1, 61), shuffle="buffer", buffer=buffer, shard_size=7)
    order = samples(out)
    assert sorted(order) == list(range(1, 61))
    assert all(abs(place - (n - 1)) < buffer for place, n in enumerate(order))
    assert (order == sorted(order)) == (buffer == 1)


def test_nothing_depends_on_how_much_is_held_at_once(tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = [*range(1, 61), *range(1, 10)]
    whole = [made(source, tmp_path, *wanted, shuffle=s, shard_size=7) for s in ("none", "buffer", "all")]
    monkeypatch.setattr(spool, "HELD", 5)
    monkeypatch.setattr(layout, "_BITS", 3)
    again = [made(source, tmp_path / "again", *wanted, shuffle=s, shard_size=7) for s in ("none", "buffer", "all")]
    for one, two in zip(whole, again, strict=True):
        assert written(one) == written(two)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"shard_size": 5, "shards": 2}, "--shard-size, --shards: each says how large a shard is"),
        ({"shards": 0}, "--shards: 0; expected 1 or more"),
        ({"quality": 101}, "--quality: 101; expected 1 to 100"),
        ({"shuffle": "some"}, "--shuffle: some; expected none, buffer, all"),
        ({"blur": "a", "inject": "b"}, "two sources of boxes"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Settings(**given)


def test_sizes_are_written_as_people_write_them() -> None:
    texts = ("500M", "1G", "1.5gb", "12", "2KiB", "10 000")
    assert [parse_size(t) for t in texts[:5]] == [500_000_000, 10**9, 1_500_000_000, 12, 2048]
    for bad in ("", "x", "5Q", "M", "10 000"):
        with pytest.raises(InputError, match="--shard-bytes"):
            parse_size(bad)
