"""Uids: made, packed, hashed, sorted lists and their files."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pools import uid_files, uids
from pools.errors import InputError

HEX = st.integers(0, 2**128 - 1).map(lambda n: f"{n:032x}")
# Few distinct high words, so that ties on them, and repeats, are common.
CROWDED = st.tuples(st.integers(0, 2), st.integers(0, 3)).map(lambda t: f"{t[0]:016x}{t[1]:016x}")


def pack(*texts: str) -> uids.Uids:
    return uids.pack(list(texts))


def hexes(values: uids.Uids) -> list[str]:
    return list(uids.unpack(values).to_pylist())


def numbers(*values: int) -> uids.Uids:
    return uids.sort(pack(*(f"{v:032x}" for v in values)))


def test_a_new_uid_is_the_md5_of_alt_and_url() -> None:
    expected = hashlib.md5("caf\u00e9http://h.example/a.jpg".encode()).hexdigest()
    assert uids.new("http://h.example/a.jpg", "café") == expected


def test_pack_puts_the_first_16_digits_into_the_first_word() -> None:
    assert pack("0123456789abcdef" + "fedcba9876543210").tolist() == [(0x0123456789ABCDEF, 0xFEDCBA9876543210)]


@given(st.lists(HEX, max_size=40))
def test_pack_and_unpack_are_inverse(texts: list[str]) -> None:
    assert hexes(uids.pack(texts)) == texts
    assert hexes(uids.pack([t.upper() for t in texts])) == texts


def test_pack_reads_sliced_and_chunked_arrays() -> None:
    texts = [f"{i:032x}" for i in range(10)]
    assert hexes(uids.pack(pa.array(texts).slice(3, 4))) == texts[3:7]
    assert hexes(uids.pack(pa.chunked_array([texts[:2], texts[2:]]))) == texts


@pytest.mark.parametrize("bad", ["", "12", "g" * 32, "0" * 31 + " ", "0" * 33, "é" * 16, None])
def test_pack_names_the_first_bad_row(bad: Any) -> None:
    with pytest.raises(InputError, match=r"pool.parquet: row 1: uid .*expected 32 hex digits"):
        uids.pack(pa.array(["0" * 32, bad, "0" * 32], pa.string()), where="pool.parquet")


@given(st.lists(CROWDED, max_size=30))
def test_sorting_is_the_order_of_the_digits(texts: list[str]) -> None:
    assert hexes(uids.sort(uids.pack(texts))) == sorted(texts)


# T71
@given(st.lists(CROWDED, max_size=20), st.lists(CROWDED, max_size=20))
def test_set_algebra_is_that_of_python_sets(a: list[str], b: list[str]) -> None:
    x, y = uids.sort(uids.pack(a)), uids.sort(uids.pack(b))
    assert hexes(uids.union(x, y)) == sorted(set(a) | set(b)) == hexes(uids.union(y, x))
    assert hexes(uids.intersect(x, y)) == sorted(set(a) & set(b)) == hexes(uids.intersect(y, x))
    assert hexes(uids.minus(x, y)) == sorted(set(a) - set(b))
    assert uids.count(x, uids.pack(b)).tolist() == [a.count(u) for u in b]


@given(st.lists(CROWDED, max_size=30))
def test_first_occurrences_are_those_of_a_walk(texts: list[str]) -> None:
    assert uids.first_occurrences(uids.pack(texts)).tolist() == [u not in texts[:i] for i, u in enumerate(texts)]


# T71
def test_set_algebra_of_the_reported_case() -> None:
    a, b = numbers(1, 2, 3), numbers(3, 2, 5)
    assert [int(u, 16) for u in hexes(uids.intersect(a, b))] == [2, 3]
    assert [int(u, 16) for u in hexes(uids.union(b, a))] == [1, 2, 3, 5]
    assert [int(u, 16) for u in hexes(uids.minus(a, b))] == [1]


def splitmix(x: int) -> int:
    """The published generator, with Python's whole numbers."""
    mask = 2**64 - 1
    z = (x + 0x9E3779B97F4A7C15) & mask
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
    return z ^ (z >> 31)


def test_splitmix_gives_its_published_first_number() -> None:
    assert splitmix(0) == 0xE220A8397B1DCDAF  # seed 0 of the reference implementation


@given(HEX, st.integers(0, 2**64 - 1))
def test_hash64_mixes_seed_and_both_halves(text: str, seed: int) -> None:
    high, low = int(text[:16], 16), int(text[16:], 16)
    expected = splitmix(splitmix(splitmix(seed) ^ high) ^ low)
    assert uids.hash64(pack(text), seed).tolist() == [expected]


def test_hash64_spreads_uids_that_people_count_up() -> None:
    share = (uids.hash64(numbers(*range(20_000)), 1) < np.uint64(2**64 // 10)).mean()
    assert abs(share - 0.1) < 0.01


def test_a_list_is_the_npy_that_numpy_writes(tmp_path: Path) -> None:
    path = str(tmp_path / "list.npy")
    uids.write_list(path, pack("f" * 32, "0" * 32, "f" * 32), recipe="abc")
    ours = np.load(path)
    assert ours.dtype == np.dtype("u8,u8")
    assert ours.tolist() == [(0, 0), (2**64 - 1, 2**64 - 1), (2**64 - 1, 2**64 - 1)]
    np.save(tmp_path / "numpy.npy", ours)
    assert (tmp_path / "numpy.npy").read_bytes() == (tmp_path / "list.npy").read_bytes()
    assert uids.read_info(path) == uids.ListInfo("keep", 3, "abc")


def test_lists_are_read_from_npy_and_from_a_raw_memory_map(tmp_path: Path) -> None:
    values = numbers(5, 1, 5, 2**100)
    np.save(tmp_path / "a.npy", values)
    values.tofile(tmp_path / "a.u16")
    for name in ("a.npy", "a.u16"):
        assert uids.read_list(str(tmp_path / name)).tolist() == values.tolist()
    np.save(tmp_path / "empty.npy", values[:0])
    assert len(uids.read_list(str(tmp_path / "empty.npy"))) == 0


@pytest.mark.parametrize(
    "array",
    [np.arange(4), np.zeros(3, "f8,f8"), np.zeros((2, 2), np.uint64), np.zeros(2, ">u8,>u8"), np.array(["0" * 32])],
    ids=str,
)
def test_a_list_of_another_dtype_is_refused(tmp_path: Path, array: np.ndarray[Any, Any]) -> None:
    np.save(tmp_path / "bad.npy", array)
    with pytest.raises(InputError, match=r"bad.npy: dtype .*expected a list of dtype u8,u8"):
        uids.read_list(str(tmp_path / "bad.npy"))


def test_a_pickled_list_is_never_loaded(tmp_path: Path) -> None:
    np.save(tmp_path / "bad.npy", np.array([{"a": 1}], object), allow_pickle=True)
    with pytest.raises(InputError, match="unreadable"):
        uids.read_list(str(tmp_path / "bad.npy"))


def test_an_unsorted_list_is_refused_with_the_row_and_the_way_out(tmp_path: Path) -> None:
    np.save(tmp_path / "bad.npy", pack("0" * 32, "f" * 32, "1" * 32))
    with pytest.raises(InputError, match=r"row 2 is smaller than row 1(.|\n)*winnow uids convert"):
        uids.read_list(str(tmp_path / "bad.npy"))


@given(st.lists(CROWDED, max_size=20))
def test_the_first_unsorted_row_is_found(texts: list[str]) -> None:
    expected = next((i for i in range(1, len(texts)) if texts[i] < texts[i - 1]), None)
    assert uids.first_unsorted(uids.pack(texts)) == expected


def test_a_list_to_remove_is_not_taken_for_one_to_keep(tmp_path: Path) -> None:
    path = str(tmp_path / "list.npy")
    uids.write_list(path, numbers(1), kind="remove")
    with pytest.raises(InputError, match="uids to remove"):
        uids.read_list(path)
    assert len(uids.read_list(path, kind="remove")) == 1


@pytest.mark.parametrize("in_memory", [1, 3, 1000])
def test_merging_parts_is_sorting_their_sum(tmp_path: Path, in_memory: int) -> None:
    rng = np.random.default_rng(0)
    parts = [pack(*(f"{int(v):016x}{i:016x}" for v in rng.integers(0, 2**64, 7, np.uint64))) for i in range(3)]
    parts.append(parts[0])  # repeats stay
    for i, part in enumerate(parts):
        uids.write_part(str(tmp_path / f"{i}.npy"), [part[:3], part[3:]])
    out = str(tmp_path / "all.npy")
    uids.merge_parts([str(tmp_path / f"{i}.npy") for i in range(4)], out, rows_in_memory=in_memory)
    assert hexes(uids.read_list(out)) == sorted(u for p in parts for u in hexes(p))
    assert uids.read_info(out).count == 28


@given(st.lists(st.integers(0, 5), max_size=30), st.integers(0, 35))
def test_the_smallest_are_the_first_of_a_stable_order(numbers: list[int], number: int) -> None:
    chosen = sorted(range(len(numbers)), key=lambda i: numbers[i])[:number]
    mask = uids.smallest(np.array(numbers, np.uint64), number)
    assert np.flatnonzero(mask).tolist() == sorted(chosen)


@given(st.lists(CROWDED | HEX, max_size=40), st.integers(0, 40), st.integers(0, 9))
def test_a_sample_holds_the_entries_with_the_smallest_hashes(texts: list[str], number: int, seed: int) -> None:
    values = sorted(texts)
    ranked = sorted(values, key=lambda u: int(uids.hash64(pack(u), seed)[0]))  # stable: equal hashes in the list's order
    assert hexes(uids.sample(uids.pack(values), number, seed)) == sorted(ranked[:number])


# T98
@pytest.mark.parametrize("form", ["npy", "u16", "txt", "csv", "parquet"])
def test_uids_that_look_like_numbers_survive_every_form(tmp_path: Path, form: str) -> None:
    texts = ["00000000000000000000000000000e10", "12345678901234567890123456789012", "01234567012345670123456701234567"]
    path = str(tmp_path / f"list.{form}")
    uid_files.write(path, uids.pack(texts))
    assert hexes(uid_files.read(path)) == sorted(texts)


def test_a_column_of_numbers_is_not_taken_for_uids(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"uid": [1, 2]}), tmp_path / "a.parquet")
    with pytest.raises(InputError, match="holds int64"):
        uid_files.read(str(tmp_path / "a.parquet"))
    (tmp_path / "a.csv").write_text("uid\n1e10\n")
    with pytest.raises(InputError, match="row 0: uid '1e10'"):
        uid_files.read(str(tmp_path / "a.csv"))
