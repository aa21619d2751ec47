"""128-bit ids of samples: made, packed, hashed, and kept as sorted lists.

A uid is 32 hex digits in tables and in json; in arrays it is two unsigned 64-bit words (high, low), which is
the record of DataComp's `.npy` lists. Sorted means lexicographic over (high, low), which is the order of the hex.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import IO, Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pools import store
from pools.errors import InputError

UID = np.dtype("u8,u8")
Uids = NDArray[np.void]
_NPY_MAGIC = b"\x93NUMPY"


def _EACH(value: int) -> np.uint64:  # noqa: N802
    return np.uint64(value * 0x0101010101010101)


def new(url: str, alt: str) -> str:
    """The uid of a new candidate: MD5 over alt text + url in UTF-8, as cc2dataset writes it."""
    return hashlib.md5((alt + url).encode(), usedforsecurity=False).hexdigest()


def pack(uids: pa.Array | pa.ChunkedArray | Iterable[str], *, where: str | None = None) -> Uids:
    """Hex digits to records: (n,) strings → (n,) `u8,u8`. Raises InputError naming the first bad row."""
    array = uids if isinstance(uids, pa.Array | pa.ChunkedArray) else pa.array(list(uids), pa.string())
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    array = array.cast(pa.large_binary())
    if len(array) == 0:
        return np.empty(0, UID)
    offsets = np.frombuffer(array.buffers()[1], np.int64)[array.offset : array.offset + len(array) + 1]
    lengths = np.diff(offsets)
    if array.null_count or (lengths != 32).any():
        bad = next(i for i, u in enumerate(array) if not u.is_valid or len(u.as_py()) != 32)
        raise _bad_uid(array[bad].as_py(), bad, where)
    digits = np.frombuffer(array.buffers()[2], np.uint8)[offsets[0] : offsets[-1]]
    good = (digits - np.uint8(48) < 10) | ((digits | np.uint8(32)) - np.uint8(97) < 6)
    if not good.all():
        bad = int(good.argmin()) // 32
        raise _bad_uid(array[bad].as_py(), bad, where)
    return _records(_words_of(digits))


def _words_of(digits: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """(32 n,) hex digits as ASCII → (n, 2), eight digits at a time: a register holds them side by side, the first lowest."""
    eight = digits.view("<u8")
    values = (eight & _EACH(0x0F)) + ((eight >> np.uint64(6)) & _EACH(0x01)) * np.uint64(9)  # of a letter bit 6 is set
    pairs = ((values << np.uint64(4)) | (values >> np.uint64(8))) & np.uint64(0x00FF00FF00FF00FF)
    fours = (pairs | (pairs >> np.uint64(8))) & np.uint64(0x0000FFFF0000FFFF)
    halves = (fours | (fours >> np.uint64(16))).astype(np.uint32).byteswap().astype(np.uint64).reshape(-1, 2)
    return ((halves[:, 0] << np.uint64(32)) | halves[:, 1]).reshape(-1, 2)


def _bad_uid(value: bytes | None, row: int, where: str | None) -> InputError:
    shown = "null" if value is None else repr(value.decode("utf-8", "replace"))
    return InputError(
        f"row {row}: uid {shown}",
        where=where,
        expected="32 hex digits",
        fix="keep uids as strings (a spreadsheet or CSV reader may have turned them into numbers)",
    )


def from_digests(digests: pa.Array | pa.ChunkedArray) -> Uids:
    """(n,) `fixed_size_binary[16]`, the bytes that the hex digits spell, to records."""
    parts = digests.chunks if isinstance(digests, pa.ChunkedArray) else [digests]
    words = [np.frombuffer(a.buffers()[1], ">u8", 2 * len(a), 16 * a.offset) for a in parts if len(a)]
    return _records(np.concatenate([np.empty(0, np.uint64), *words]).astype(np.uint64).reshape(-1, 2))


def unpack(uids: Uids) -> pa.Array:
    """Records to hex digits: (n,) `u8,u8` → (n,) strings, lower case."""
    if len(uids) == 0:
        return pa.array([], pa.string())
    octets = _words(uids).astype(">u8").view(np.uint8).reshape(-1, 16)
    hexes = np.frombuffer(b"0123456789abcdef", np.uint8)
    digits = np.empty((len(uids), 32), np.uint8)
    digits[:, 0::2], digits[:, 1::2] = hexes[octets >> 4], hexes[octets & 15]
    offsets = np.arange(0, 32 * (len(uids) + 1), 32, dtype=np.int64)
    large = pa.LargeStringArray.from_buffers(len(uids), pa.py_buffer(offsets), pa.py_buffer(digits))
    return large.cast(pa.string())


def hash64(uids: Uids, seed: int) -> NDArray[np.uint64]:
    """One well-mixed 64-bit value per uid and seed, which decides everything random.

    splitmix64 (Steele, Lea, Flood 2014) over both halves: uids that people bring are not uniform.
    """
    words = _words(uids)
    state = _splitmix(np.full(len(words), np.uint64(seed & (2**64 - 1))))
    return _splitmix(_splitmix(state ^ words[:, 0]) ^ words[:, 1])


def _splitmix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    with np.errstate(over="ignore"):
        z = x + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def _records(words: NDArray[np.uint64]) -> Uids:
    records: Uids = words.view(UID).reshape(-1)
    return records


def _words(uids: Uids) -> NDArray[np.uint64]:
    return np.ascontiguousarray(uids).view(np.uint64).reshape(-1, 2)


def smallest(hashes: NDArray[np.uint64], number: int) -> NDArray[np.bool_]:
    """(n,) whether each is among the `number` smallest; of equal ones those that stand first."""
    if not 0 < number < len(hashes):
        return np.full(len(hashes), number > 0)
    limit = np.partition(hashes, number - 1)[number - 1]
    mask: NDArray[np.bool_] = hashes < limit
    mask[np.flatnonzero(hashes == limit)[: number - int(mask.sum())]] = True
    return mask


def sample(sorted_list: Uids, number: int, seed: int) -> Uids:
    """`number` entries of a list, still sorted: those with the smallest hashes, so that smaller samples are part of larger.

    Entries of one uid have one hash and are taken one after the other.
    """
    chosen: Uids = sorted_list[smallest(hash64(sorted_list, seed), number)]
    return chosen


# Sorted lists ---------------------------------------------------------------------------------------------------------


def order(uids: Uids) -> NDArray[np.intp]:
    """(n,) indices that sort the uids; equal ones keep their order."""
    words = _words(uids)
    indices = np.argsort(words[:, 0], kind="stable")
    high = words[indices, 0]
    # Comparing whole records is ten times slower than sorting one word; few uids share their high word, unless repeated.
    return np.lexsort((words[:, 1], words[:, 0])) if (high[1:] == high[:-1]).any() else indices


def sort(uids: Uids) -> Uids:
    """The same uids in order, repeats kept. Many are sorted a range of uids at a time, so that little is held besides them."""
    words = _words(uids)
    if len(words) <= ROWS_IN_MEMORY:
        return _records(words[_any_order(words)])
    ordered, start = np.empty_like(words), 0
    bits = (len(words) // _RANGE).bit_length()
    for i in range(1 << bits):
        part = words[_within(words[:, 0], i, bits)]
        ordered[start : start + len(part)] = part[_any_order(part)]
        start += len(part)
    return _records(ordered)


def _any_order(words: NDArray[np.uint64]) -> NDArray[np.intp]:
    """(n,) indices that sort (n, 2) words; equal ones in any order, which NumPy is many times faster at."""
    indices = np.argsort(words[:, 0])
    high = words[indices, 0]
    return np.lexsort((words[:, 1], words[:, 0])) if (high[1:] == high[:-1]).any() else indices


def _within(high: NDArray[np.uint64], i: int, bits: int) -> NDArray[np.bool_]:
    """(n,) whether the first bits of a word are those of `i`."""
    inside = np.empty(len(high), bool)
    for start in range(0, len(high), _RANGE):
        inside[start : start + _RANGE] = (high[start : start + _RANGE] >> np.uint64(64 - bits)) == i
    return inside


def first_unsorted(uids: Uids) -> int | None:
    """Index of the first uid that is smaller than the one before it, None if the list is sorted."""
    step = 1 << 20
    for start in range(0, max(len(uids) - 1, 0), step):
        words = _words(uids[start : start + step + 1])
        high, low = words[:, 0], words[:, 1]
        down = (high[1:] < high[:-1]) | ((high[1:] == high[:-1]) & (low[1:] < low[:-1]))
        if down.any():
            return start + int(down.argmax()) + 1
    return None


def unique(uids: Uids) -> Uids:
    """A sorted list without its repeats."""
    words = _words(uids)
    if len(words) == 0:
        return np.empty(0, UID)
    new_one = np.ones(len(words), bool)
    new_one[1:] = (words[1:] != words[:-1]).any(axis=1)
    return _records(words[new_one])


def first_occurrences(uids: Uids) -> NDArray[np.bool_]:
    """(n,) whether a uid, in any order, stands in no earlier place."""
    words = _words(uids)
    order = np.lexsort((words[:, 1], words[:, 0]))  # stable: equal uids keep their order
    ordered = words[order]
    starts = np.ones(len(words), bool)
    starts[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    first = np.zeros(len(words), bool)
    first[order[starts]] = True
    return first


def union(a: Uids, b: Uids) -> Uids:
    """Uids in either sorted list, each once, sorted."""
    return _by_ranges(a, b, len(a) + len(b), lambda x, y: unique(sort(np.concatenate([x, y]))))


def intersect(a: Uids, b: Uids) -> Uids:
    """Uids in both sorted lists, each once, sorted."""
    return _by_ranges(a, b, min(len(a), len(b)), lambda x, y: (u := unique(x))[count(y, u) > 0])


def minus(a: Uids, b: Uids) -> Uids:
    """Uids of the sorted list `a` that are not in the sorted list `b`, each once, sorted."""
    return _by_ranges(a, b, len(a), lambda x, y: (u := unique(x))[count(y, u) == 0])


def _by_ranges(a: Uids, b: Uids, most: int, combine: Callable[[Uids, Uids], Uids]) -> Uids:
    """`combine` of two sorted lists, a range of uids at a time: besides them and the result, little is held."""
    found, end = np.empty(most, UID), 0
    for x, y in intervals([a, b], _RANGE):
        piece = combine(a[x], b[y])
        found[end : end + len(piece)] = piece
        end += len(piece)
    return found[:end]


def count(sorted_list: Uids, uids: Uids) -> NDArray[np.int64]:
    """How often each of `uids` (in any order) stands in the sorted list: (n,) → (n,)."""
    words, wanted = _words(sorted_list), _words(uids)
    high = np.ascontiguousarray(words[:, 0])
    left = np.searchsorted(high, wanted[:, 0], "left")
    right = np.searchsorted(high, wanted[:, 0], "right")
    low = words[:, 1]
    return _bisect(low, wanted[:, 1], left, right, upper=True) - _bisect(low, wanted[:, 1], left, right, upper=False)


def _bisect(
    low: NDArray[np.uint64], value: NDArray[np.uint64], lo: NDArray[np.int64], hi: NDArray[np.int64], *, upper: bool
) -> NDArray[np.int64]:
    """searchsorted of value[i] within low[lo[i]:hi[i]], all rows at once."""
    lo, hi = lo.astype(np.int64), hi.astype(np.int64)
    while (active := lo < hi).any():
        middle = (lo + hi) // 2
        probe = low[np.where(active, middle, 0)]
        right = (probe <= value) if upper else (probe < value)
        lo = np.where(active & right, middle + 1, lo)
        hi = np.where(active & ~right, middle, hi)
    return lo


# Files ----------------------------------------------------------------------------------------------------------------

ROWS_IN_MEMORY = 1 << 24
_RANGE = 1 << 23  # rows that are sorted at once where there are more than fit
Kind = Literal["keep", "remove"]


@dataclass(frozen=True)
class ListInfo:
    """The sidecar `<list>.npy.json`: what the uids are for. A list without one is a keep list."""

    kind: Kind = "keep"
    count: int | None = None
    recipe: str | None = None  # digest of the recipe that made the list


def write_list(path: str, uids: Uids, *, kind: Kind = "keep", recipe: str | None = None) -> None:
    """Sorts and writes a DataComp uid list (`.npy`, `u8,u8`) and its sidecar, each atomically."""
    ordered = uids if first_unsorted(uids) is None else sort(uids)
    with store.atomic(path) as f:
        _save(f, ordered)
    info = ListInfo(kind, len(ordered), recipe)
    store.write_json(path + ".json", asdict(info))


def write_part(path: str, chunks: list[Uids]) -> None:
    """Writes the uids of one unit as a sorted `.npy`, to be merged by `merge_parts`."""
    with store.atomic(path) as f:
        _save(f, sort(np.concatenate([np.empty(0, UID), *chunks])))


def merge_parts(
    parts: list[str], path: str, *, kind: Kind = "keep", recipe: str | None = None, rows_in_memory: int = ROWS_IN_MEMORY
) -> None:
    """Merges sorted parts into one sorted list, holding about `rows_in_memory` uids at a time, and writes its sidecar."""
    arrays = [load(p) for p in parts]
    pieces = (
        sort(np.concatenate([np.empty(0, UID), *(a[s] for a, s in zip(arrays, slices, strict=True))]))
        for slices in intervals(arrays, rows_in_memory)
    )
    write_pieces(path, pieces, sum(len(a) for a in arrays), kind=kind, recipe=recipe)


def intervals(sorted_lists: Sequence[Uids], rows: int = ROWS_IN_MEMORY) -> Iterator[list[slice]]:
    """A slice of each list, for one range of uids after the other: the ranges are equal, about `rows` uids in each."""
    number = max(1, -(-sum(len(a) for a in sorted_lists) // rows))
    borders = [np.uint64(i * 2**64 // number) for i in range(1, number)]
    cuts = [[0, *np.searchsorted(a["f0"], borders, "left").tolist(), len(a)] for a in sorted_lists]
    for i in range(number):
        yield [slice(c[i], c[i + 1]) for c in cuts]


def write_pieces(path: str, pieces: Iterable[Uids], total: int, *, kind: Kind = "keep", recipe: str | None = None) -> None:
    """Writes a list of `total` uids that comes in sorted pieces, and its sidecar."""
    written = 0
    with store.atomic(path) as f:
        header = {"descr": np.lib.format.dtype_to_descr(UID), "fortran_order": False, "shape": (total,)}  # type: ignore[no-untyped-call]
        np.lib.format.write_array_header_1_0(f, header)  # type: ignore[no-untyped-call]
        for piece in pieces:
            f.write(piece.tobytes())
            written += len(piece)
        assert written == total, f"{written} uids, the header says {total}"
    store.write_json(path + ".json", asdict(ListInfo(kind, total, recipe)))


def _save(f: IO[bytes], uids: Uids) -> None:
    np.lib.format.write_array(f, uids, version=(1, 0), allow_pickle=False)  # type: ignore[no-untyped-call]


def read_info(path: str) -> ListInfo:
    """The sidecar of a list, or what its absence means."""
    if not store.exists(path + ".json"):
        return ListInfo()
    known = {k: v for k, v in store.read_json(path + ".json").items() if k in ListInfo.__dataclass_fields__}
    return ListInfo(**known)


def read_list(path: str, *, kind: Kind = "keep") -> Uids:
    """A sorted uid list from `.npy` or a raw memory map of the same records; memory-mapped where the file is local.

    Raises InputError for another dtype, an unsorted list, or a list of the other kind.
    """
    if not store.exists(path):
        raise InputError("no such uid list", where=path)
    if (info := read_info(path)).kind != kind:
        raise InputError(f"this is a list of uids to {info.kind}", where=path, expected=f"a list of uids to {kind}")
    uids = load(path)
    if (row := first_unsorted(uids)) is not None:
        raise InputError(
            f"row {row} is smaller than row {row - 1}",
            where=path,
            expected="uids in sorted order",
            fix=f"winnow uids convert {path} --output SORTED.npy",
        )
    return uids


def load(path: str) -> Uids:
    """The records of a `.npy` or a raw memory map, in the order they have; memory-mapped where the file is local."""
    with store.open_input(path) as f:
        raw = not f.read(6).startswith(_NPY_MAGIC)
        if not raw and not store.is_local(path):
            f.seek(0)
            return _checked(_read_npy(f, path), path)
    if raw:
        return _load_raw(path)
    return _checked(_read_npy(store.local_path(path), path), path)


def _read_npy(source: Any, path: str) -> NDArray[Any]:
    try:
        mode: Literal["r"] | None = "r" if isinstance(source, str | os.PathLike) else None
        array: NDArray[Any] = np.load(source, mmap_mode=mode, allow_pickle=False)
        return array
    except ValueError as e:
        # An empty array cannot be mapped; objects (pickles) and cut files are refused.
        if mode and "mmap" in str(e):
            return np.load(source, allow_pickle=False)  # type: ignore[no-any-return]
        raise InputError(f"unreadable .npy: {e}", where=path, expected="a whole .npy of dtype u8,u8") from e


def _checked(array: NDArray[Any], path: str) -> Uids:
    fields = array.dtype.fields
    two_words = fields is not None and [t.str for t, *_ in fields.values()] == ["<u8", "<u8"]
    if not two_words or array.dtype.itemsize != 16 or array.ndim != 1:
        raise InputError(
            f"dtype {array.dtype}, {array.ndim} dimension(s)",
            where=path,
            expected="a list of dtype u8,u8 (high and low half of each uid)",
            fix="make it with `winnow uids convert`, or numpy.array([(high, low), …], 'u8,u8')",
        )
    records: Uids = array.view(UID)
    return records


def _load_raw(path: str) -> Uids:
    size = store.size(path)
    if size % 16:
        raise InputError(f"{size} bytes, neither .npy nor a whole number of 16-byte records", where=path, expected="u8,u8")
    if store.is_local(path) and size:
        return np.memmap(store.local_path(path), UID, mode="r")
    with store.open_input(path) as f:
        return np.frombuffer(f.read(), UID)


def digest(uids: Uids) -> str:
    """SHA-256 over the records as they lie in a list file."""
    sha = hashlib.sha256()
    step = 1 << 20
    for start in range(0, len(uids), step):
        sha.update(uids[start : start + step].tobytes())
    return sha.hexdigest()
