"""Uid lists in other people's forms: text, CSV, parquet, arrays of NumPy, raw memory map, and back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pools import store, uid_texts, uids
from pools.errors import InputError
from pools.uids import sets, streams
from pools.uids.files import NPY_MAGIC, npy_header
from pools.uids.runs import sorted_pieces, spooled
from pools.uids.streams import Stored
from pools.uids.words import Uids, bad_uid, from_digests, from_digits, pack, records_of, unpack

FORMS = ("npy", "u16", "txt", "csv", "tsv", "parquet")
_ROWS = 1 << 17


def form_of(path: str) -> str:
    """The form a file's extension names: .npy, .u16 (raw records), .txt (a line each), .csv, .tsv, .parquet (a column)."""
    form = path.rpartition(".")[2].lower()
    if form not in FORMS:
        raise InputError(f"unknown kind of file .{form}", where=path, expected=", ".join("." + f for f in FORMS))
    return form


def read(path: str, *, column: str | None = None) -> Uids:
    """The uids of any form, sorted; uids are text from end to end, never numbers."""
    form = form_of(path)
    if form in ("npy", "u16") and store.exists(path) and is_plain(path):
        given = uids.load(path)
        return given if uids.first_unsorted(given) is None else uids.sort(given)
    return uids.sort(records_of(sets.joined(list(blocks(path, column=column)))))


def blocks(path: str, *, column: str | None = None) -> Iterator[Uids]:
    """The uids of any form in the file's order, many at a time. Raises InputError for what holds none."""
    form = form_of(path)
    if not store.exists(path):
        raise InputError("no such file", where=path)
    if form in ("npy", "u16"):
        return uids.stored(path).blocks() if is_plain(path) else _others_arrays(path)
    if form == "txt":
        return uid_texts.lines(path)
    return _parquet(path, column) if form == "parquet" else uid_texts.rows(path, column)


def open_sorted(path: str, copy: str, *, column: str | None = None) -> Stored:
    """A sorted list to be read a block at a time: the file itself if it is one, else a sorted copy under the name given."""
    if (stored := _sorted_already(path)) is not None:
        return stored
    return spooled(sorted_blocks(path, copy + ".runs", column=column), copy)


def sorted_blocks(path: str, scratch: str, *, column: str | None = None) -> Iterator[Uids]:
    """A list of any form, sorted, to be read once; what does not fit into memory is put into a scratch folder."""
    if (stored := _sorted_already(path)) is not None:
        return stored.blocks()
    return sorted_pieces(blocks(path, column=column), scratch)


def _sorted_already(path: str) -> Stored | None:
    if form_of(path) in ("npy", "u16") and store.exists(path) and is_plain(path):
        stored = uids.stored(path)
        if streams.first_unsorted(stored.blocks()) is None:
            return stored
    return None


def is_plain(path: str) -> bool:
    """Whether a `.npy` or raw memory map is a list as it should be, or else an array that merely holds uids."""
    with store.open_input(path) as f:
        if not f.read(6).startswith(NPY_MAGIC):
            return True
        shape, dtype, _ = npy_header(f, path)
    return not (
        (len(shape) == 1 and (dtype in (np.dtype("S32"), np.dtype("U32")) or dtype == np.dtype(">u8,>u8")))
        or (len(shape) == 2 and shape[1] == 2 and dtype == np.dtype("u8"))
    )


def _others_arrays(path: str) -> Iterator[Uids]:
    """Arrays of 32 digits as bytes or text, of words of the other byte order, or of two columns of words."""
    local = store.is_local(path)
    array: np.ndarray[Any, Any]
    if local:
        array = np.load(store.local_path(path), mmap_mode="r", allow_pickle=False)
    else:
        with store.open_input(path) as f:
            array = np.load(f, allow_pickle=False)
    for start in range(0, len(array), _ROWS):
        part = array[start : start + _ROWS]
        if part.dtype.kind in "SU":
            yield _of_text(part, start, path)
        else:
            yield records_of(np.ascontiguousarray(part.astype(uids.UID if part.ndim == 1 else np.uint64)).view(np.uint64))


def _of_text(part: np.ndarray[Any, Any], first: int, path: str) -> Uids:
    try:
        octets = np.ascontiguousarray(part.astype("S32"))
    except UnicodeEncodeError:
        octets = np.zeros(len(part), "S32")
    packed = from_digits(octets.view(np.uint8))
    if packed is None:
        return pack([str(v, "latin-1") if isinstance(v, bytes) else str(v) for v in part], where=path, first=first)
    return packed


def _parquet(path: str, column: str | None) -> Iterator[Uids]:
    name = column or "uid"
    try:
        with store.open_input(path) as f:
            file = pq.ParquetFile(f)
            if name not in file.schema_arrow.names:
                raise uid_texts.no_column(column, file.schema_arrow.names, path)
            first = 0
            for batch in file.iter_batches(_ROWS, columns=[name]):
                yield _of_column(batch[name], first, path, name)
                first += len(batch)
    except pa.ArrowInvalid as e:
        raise InputError(f"unreadable: {e}", where=path, expected="a parquet file") from e


def _of_column(values: pa.Array, first: int, path: str, name: str) -> Uids:
    kind = values.type
    if pa.types.is_dictionary(kind):
        values, kind = values.cast(kind.value_type), kind.value_type
    if kind == pa.binary(16):
        if values.null_count:
            raise bad_uid(None, f"row {first + values.is_null().index(True).as_py()}", path)
        return from_digests(values)
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        raise InputError(f"column {name!r} holds {kind}", where=path, expected="text of 32 hex digits")
    return pack(values, where=path, first=first)


def write(path: str, values: Uids, *, kind: uids.Kind = "keep") -> None:
    """Writes a list, sorted, in the form its extension names."""
    write_stream(path, [values if uids.first_unsorted(values) is None else uids.sort(values)], kind=kind)


def write_stream(path: str, pieces: Iterable[Uids], *, kind: uids.Kind = "keep", recipe: str | None = None) -> int:
    """Writes a list that comes in sorted pieces, in the form its extension names; returns how many uids there were.

    Without a sidecar a list is one to keep, so in other forms than `.npy` there is one only where that would be wrong.
    """
    form = form_of(path)
    if form == "npy":
        return uids.write_stream(path, pieces, kind=kind, recipe=recipe)
    total = 0
    with store.atomic(path) as f:
        if form == "parquet":
            with pq.ParquetWriter(f, pa.schema([("uid", pa.string())]), compression="zstd", use_dictionary=False) as writer:
                for piece in filter(len, pieces):
                    writer.write_table(pa.table({"uid": unpack(piece)}))
                    total += len(piece)
        else:
            if form in ("csv", "tsv"):
                f.write(b"uid\n")
            for piece in pieces:
                if form == "u16":
                    f.write(np.ascontiguousarray(piece).view(np.uint8).data)
                else:
                    uid_texts.write(f, piece)
                total += len(piece)
    if kind != "keep" or store.exists(path + ".json"):
        uids.write_info(path, uids.ListInfo(kind, total, recipe))
    return total
