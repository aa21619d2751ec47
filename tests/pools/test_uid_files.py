"""The lists that people have: every form, unsorted, in capitals, with headings; and what is refused."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pools import uid_files, uid_texts, uids
from pools.errors import InputError

# T98: of digits alone, of digits and one e, of what an octal number looks like.
A, B, C = "00000000000000000000000000000e10", "01234567012345670123456701234567", "ff345678901234567890123456789012"


def read(path: Path, **options: Any) -> list[str]:
    return list(uids.unpack(uid_files.read(str(path), **options)).to_pylist())


@pytest.mark.parametrize(
    "text",
    [
        f"{C}\n{A}\n{B}\n{A}\n",
        f"{C}\n{A}\n{B}\n{A}",
        f"\ufeff{C}\r\n{A}\r\n{B}\r\n{A}\r\n",
        f"uid\n{C.upper()}\n\n{A.upper()}\n  {B}\t\n# a remark\n{A}\n\n",
        f'UID\n"{C}",\n"{A}"\n\'{B}\'\n{A};',
    ],
    ids=["plain", "no last newline", "of windows", "untidy", "quoted"],
)
@pytest.mark.parametrize("block", [1 << 22, 40])
def test_a_line_each(tmp_path: Path, text: str, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uid_texts, "_BLOCK", block)
    (tmp_path / "list.txt").write_text(text, newline="")
    assert read(tmp_path / "list.txt") == [A, A, B, C]


@pytest.mark.parametrize("block", [1 << 22, 40])
def test_a_line_that_is_no_uid_is_named(tmp_path: Path, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uid_texts, "_BLOCK", block)
    path = tmp_path / "list.txt"
    path.write_text(f"{A}\n{B}\n\n{C[:31]}g\n")
    with pytest.raises(InputError, match=r"list.txt: line 4: uid 'ff3.*g'; expected 32 hex digits"):
        read(path)
    path.write_text(f"uid\n{A}\n1.2e+31\n")
    with pytest.raises(InputError, match=r"line 3: uid '1.2e\+31'(.|\n)*spreadsheet"):
        read(path)
    path.write_text(f"{A}\n" * 5 + f"{C[:31]}g\n")  # every line as long as one with a uid
    with pytest.raises(InputError, match="line 6"):
        read(path)


@pytest.mark.parametrize(
    ("name", "text", "options"),
    [
        ("a.csv", f"uid\n{C}\n{A}\n{B}\n{A}\n", {}),
        ("a.csv", f'n,"uid",text\n1,"{C}","x, y"\n2,{A},"two\nlines"\n3,{B},\n4,{A.upper()},z\n', {}),
        ("a.csv", f"\ufeffUID;n\r\n{C};1\r\n{A};2\r\n{B};3\r\n{A};4\r\n", {}),
        ("a.csv", f"{C},1\n{A},2\n{B},3\n{A},4\n", {}),
        ("a.csv", f"id,md5\n1,{C}\n2,{A}\n3,{B}\n4,{A}\n", {"column": "md5"}),
        ("a.tsv", f"text\tuid\nx\t{C}\ny\t{A}\nz\t{B}\n\t{A}\n", {}),
    ],
    ids=["bare", "quoted", "semicolons", "no heading", "another column", "tabs"],
)
@pytest.mark.parametrize("block", [1 << 22, 45])
def test_a_column_of_a_csv(
    tmp_path: Path, name: str, text: str, options: dict[str, str], block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uid_texts, "_BLOCK", block)
    (tmp_path / name).write_text(text, newline="")
    assert read(tmp_path / name, **options) == [A, A, B, C]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id,md5\n1,2\n", r"no column 'uid'; expected one of its columns \['id', 'md5'\](.|\n)*--column"),
        (f"{A},{B}\n", "no column 'uid'"),
        ("uid\n12345678901234567890123456789012\n1.2E+30\n", r"row 1: uid '1.2E\+30'"),
        ("uid\n1,2\n", "unreadable"),
        ("", "no column 'uid'"),
    ],
)
def test_a_csv_without_uids_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(InputError, match=message):
        read(tmp_path / "a.csv")


@pytest.mark.parametrize(
    "column",
    [
        pa.array([C, A.upper(), B, A]),
        pa.array([C, A, B, A], pa.large_string()),
        pa.array([C, A, B, A]).dictionary_encode(),
        pa.array([bytes.fromhex(u) for u in (C, A, B, A)], pa.binary(16)),
    ],
    ids=["string", "large_string", "dictionary", "16 bytes"],
)
def test_a_column_of_parquet(tmp_path: Path, column: pa.Array, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uid_files, "_ROWS", 3)
    pq.write_table(pa.table({"n": range(4), "uid": column}), tmp_path / "a.parquet", row_group_size=2)
    assert read(tmp_path / "a.parquet") == [A, A, B, C]
    pq.write_table(pa.table({"md5": column}), tmp_path / "b.parquet")
    assert read(tmp_path / "b.parquet", column="md5") == [A, A, B, C]
    with pytest.raises(InputError, match=r"no column 'uid'; expected one of its columns \['md5'\]"):
        read(tmp_path / "b.parquet")


def test_a_column_of_something_else_is_refused(tmp_path: Path) -> None:
    for column, message in ((pa.array([1, 2]), "holds int64"), (pa.array([A, None]), "row 1: uid null")):
        pq.write_table(pa.table({"uid": column}), tmp_path / "a.parquet")
        with pytest.raises(InputError, match=message):
            read(tmp_path / "a.parquet")
    pq.write_table(pa.table({"uid": pa.array([bytes(16), None], pa.binary(16))}), tmp_path / "a.parquet")
    with pytest.raises(InputError, match="row 1: uid null"):
        read(tmp_path / "a.parquet")
    (tmp_path / "a.parquet").write_bytes(b"no parquet")
    with pytest.raises(InputError, match="unreadable"):
        read(tmp_path / "a.parquet")


WORDS = [(int(u[:16], 16), int(u[16:], 16)) for u in (C, A, B, A)]


@pytest.mark.parametrize(
    "array",
    [
        np.array(WORDS, "u8,u8"),
        np.array(WORDS, ">u8,>u8"),
        np.array(WORDS, np.dtype([("high", "u8"), ("low", "u8")])),
        np.array(WORDS, np.uint64),
        np.array([C, A, B, A.upper()]),
        np.array([C, A, B, A], "S32"),
    ],
    ids=["unsorted", "big-endian", "other names", "two columns", "text", "bytes"],
)
def test_arrays_that_hold_uids(tmp_path: Path, array: np.ndarray[Any, Any]) -> None:
    np.save(tmp_path / "a.npy", array)
    assert read(tmp_path / "a.npy") == [A, A, B, C]
    stored = uid_files.open_sorted(str(tmp_path / "a.npy"), str(tmp_path / "copy"))
    assert uids.unpack(stored.reader().read(9)).to_pylist() == [A, A, B, C]
    assert Path(stored.path).name == "copy"


def test_a_sorted_list_is_read_where_it_lies(tmp_path: Path) -> None:
    uids.write_list(str(tmp_path / "a.npy"), uids.pack([C, A]))
    assert uid_files.open_sorted(str(tmp_path / "a.npy"), str(tmp_path / "copy.npy")).path == str(tmp_path / "a.npy")
    assert not (tmp_path / "copy.npy").exists()


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.arange(4), r"dtype int64, 1 dimension"),
        (np.array([A, B[:31] + "x"]), "row 1: uid"),
        (np.array([A, "é" * 32]), "row 1: uid 'é"),
        (np.array([A[:31], B[:31]]), "dtype <U31"),
        (np.asfortranarray(np.array(WORDS, np.uint64)), "C order"),
    ],
)
def test_other_arrays_are_refused(tmp_path: Path, array: np.ndarray[Any, Any], message: str) -> None:
    np.save(tmp_path / "a.npy", array)
    with pytest.raises(InputError, match=message):
        read(tmp_path / "a.npy")


def test_a_cut_list_is_refused(tmp_path: Path) -> None:
    uids.write_list(str(tmp_path / "a.npy"), uids.pack([A, B, C]))
    whole = (tmp_path / "a.npy").read_bytes()
    (tmp_path / "a.npy").write_bytes(whole[:-1])
    with pytest.raises(InputError, match="cut"):
        uids.stored(str(tmp_path / "a.npy"))
    (tmp_path / "a.u16").write_bytes(whole[-47:])
    with pytest.raises(InputError, match="whole number of 16-byte records"):
        read(tmp_path / "a.u16")


# T98
@pytest.mark.parametrize("form", uid_files.FORMS)
@pytest.mark.parametrize("pieces", [[[A, A], [B, C]], [[], [A, A, B, C]], []])
def test_a_list_written_in_pieces_is_read_again(form: str, pieces: list[list[str]], tmp_path: Path) -> None:
    path = tmp_path / f"a.{form}"
    total = uid_files.write_stream(str(path), (uids.pack(piece) for piece in pieces))
    assert read(path) == [u for piece in pieces for u in piece]
    assert total == len(read(path))
    if form == "npy":
        np.save(tmp_path / "numpy.npy", uids.load(str(path)))
        assert (tmp_path / "numpy.npy").read_bytes() == path.read_bytes()
    elif form in ("txt", "csv", "tsv"):
        heading = [] if form == "txt" else ["uid"]
        assert path.read_text() == "".join(f"{u}\n" for u in heading + read(path))


def test_a_list_goes_to_a_store_in_pieces() -> None:
    path = "memory://lists/a.npy"
    uids.write_stream(path, (uids.pack([u]) for u in (A, B, C)), kind="remove")
    assert uids.unpack(uids.read_list(path, kind="remove")).to_pylist() == [A, B, C]
    with tempfile.TemporaryDirectory() as folder:
        uids.write_list(f"{folder}/a.npy", uids.pack([A, B, C]))
        import fsspec

        with fsspec.open(path, "rb") as f:
            assert f.read() == Path(folder, "a.npy").read_bytes()
    assert [uids.unpack(b).to_pylist() for b in uids.stored(path).blocks(2)] == [[A, B], [C]]


def test_what_a_list_is_for_is_kept_in_every_form(tmp_path: Path) -> None:
    for form in uid_files.FORMS:
        path = str(tmp_path / f"a.{form}")
        uid_files.write(path, uids.pack([A]), kind="remove")
        assert uids.read_info(path).kind == "remove"
        uid_files.write(path, uids.pack([A]))  # an old sidecar would say the wrong thing
        assert uids.read_info(path).kind == "keep"
