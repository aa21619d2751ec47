"""Uid lists in other people's forms: text, CSV, parquet, raw memory map, and back."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from pools import store, uids
from pools.errors import InputError
from pools.uids import Uids

FORMS = ("npy", "u16", "txt", "csv", "parquet")


def form_of(path: str) -> str:
    """The form a file's extension names: .npy, .u16 (raw records), .txt (one uid a line), .csv and .parquet (column `uid`)."""
    form = path.rpartition(".")[2].lower()
    if form not in FORMS:
        raise InputError(f"unknown kind of file .{form}", where=path, expected=", ".join("." + f for f in FORMS))
    return form


def read(path: str) -> Uids:
    """The uids of any form, sorted; uids are text from end to end, never numbers."""
    form = form_of(path)
    if not store.exists(path):
        raise InputError("no such file", where=path)
    if form in ("npy", "u16"):
        given = uids.load(path)
        return given if uids.first_unsorted(given) is None else uids.sort(given)
    if form == "txt":
        column = pa.array([line.strip() for line in store.read_lines(path) if line.strip()], pa.string())
    else:
        table = _csv(path) if form == "csv" else _parquet(path)
        if "uid" not in table.column_names:
            raise InputError("no column 'uid'", where=path, expected=f"one of its columns {table.column_names} to be uid")
        column = table["uid"]
        if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
            raise InputError(f"column 'uid' holds {column.type}", where=path, expected="text of 32 hex digits")
    return uids.sort(uids.pack(column, where=path))


def write(path: str, values: Uids, *, kind: uids.Kind = "keep") -> None:
    """Writes a list, sorted, in the form its extension names."""
    form = form_of(path)
    if form == "npy":
        uids.write_list(path, values, kind=kind)
        return
    ordered = uids.sort(values)
    if form == "u16":
        store.write_bytes(path, ordered.tobytes())
        return
    table = pa.table({"uid": uids.unpack(ordered)})
    with store.atomic(path) as f:
        if form == "parquet":
            pq.write_table(table, f, compression="zstd")
        elif form == "csv":
            pyarrow.csv.write_csv(table, f)
        else:
            text = io.TextIOWrapper(f, encoding="ascii", newline="\n")
            text.writelines(u + "\n" for u in table["uid"].to_pylist())
            text.detach()


def _csv(path: str) -> pa.Table:
    options = pyarrow.csv.ConvertOptions(column_types={"uid": pa.string()}, include_columns=["uid"])
    try:
        with store.open_input(path) as f:
            return pyarrow.csv.read_csv(f, convert_options=options)
    except (pa.ArrowInvalid, KeyError) as e:
        raise InputError(f"unreadable: {e}", where=path, expected="a CSV with a header and a column uid") from e


def _parquet(path: str) -> pa.Table:
    try:
        with store.open_input(path) as f:
            file = pq.ParquetFile(f)
            return file.read(columns=["uid"]) if "uid" in file.schema_arrow.names else file.schema_arrow.empty_table()
    except pa.ArrowInvalid as e:
        raise InputError(f"unreadable: {e}", where=path, expected="a parquet file") from e
