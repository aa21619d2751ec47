"""Which samples a shard holds: their uids and their bytes, kept for the next time."""

from __future__ import annotations

import io
import json
import os
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pools import shard_index, shards, uids
from pools.errors import InputError
from pools.shard_index import Index

UID = "0123456789abcdef0123456789abcdef"
OTHER = "f" * 32


def tar(path: Path, *members: tuple[str, bytes], form: int = tarfile.PAX_FORMAT) -> str:
    with tarfile.open(path, "w", format=form) as f:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size, info.mtime = len(data), 1664030331.123
            f.addfile(info, io.BytesIO(data))
    return str(path)


def found(index: Index) -> list[str]:
    return uids.unpack(index.uids).to_pylist()  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("body", "key", "uid"),
    [
        (f'{{"uid": "{UID}", "caption": "a"}}', "x", UID),
        (f'{{"uid":"{UID.upper()}"}}', "x", UID),
        (f'{{"caption": "{{}}", "uid"\n: "{UID}"}}', "x", UID),
        (f'{{"meta": {{"uid": "{OTHER}"}}, "uid": "{UID}"}}', "x", UID),
        (f'{{"meta": {{"uid": "{OTHER}"}}}}', "x", None),
        (f'{{"meta": {{"uid": "{OTHER}"}}}}', UID, UID),
        (f'{{"uid": "{OTHER}", "uid": "{UID}"}}', "x", UID),  # of doubled names the last counts, as in Python
        (f'{{"caption": "\\"uid\\": \\"{OTHER}\\"", "uid": "{UID}"}}', "x", UID),
        (f'{{"\\u0075id": "{UID}"}}', "x", UID),
        ('{"uid": 7}', UID, None),
        ('{"uid": "7"}', "x", None),
        ('{"uid": null}', UID, UID),
        ("{", "x", None),
        ("[" * 100_000, "x", None),
        ("[]", UID, UID),
        (None, UID, UID),
        (None, f"{UID}-12", UID),
        (None, f"a/b.c/{UID}", UID),
        (None, f"{UID}-x", None),
        (None, UID.upper(), None),
        (None, "000012", None),
    ],
)
def test_the_uid_is_the_jsons_else_the_keys(tmp_path: Path, body: str | None, key: str, uid: str | None) -> None:
    path = tar(tmp_path / "a.tar", (f"{key}.jpg", b"1"), *([(f"{key}.json", body.encode())] if body is not None else []))
    index = shard_index.read_index(path)
    assert found(index) == ([uid] if uid else [])
    assert index.header.nameless_count == (uid is None)
    (sample,) = shards.samples(path)
    with Path(path).open("rb") as f:
        assert shards.uid_of(sample.key, shards.sidecar(f, sample)) == uid


# T93
def test_a_name_with_more_dots_is_explained(tmp_path: Path) -> None:
    path = tar(tmp_path / "a.tar", ("t 2.0 (x).jpg", b"1"))
    assert shard_index.read_index(path).header.nameless == (
        "'t 2' has no .json with a uid: t 2.0 (x).jpg is its member '0 (x).jpg', as a key ends at the first dot of a file's "
        "name; rename the file if that is not meant",
    )


def test_the_bytes_of_a_sample_are_all_of_its_members(tmp_path: Path) -> None:
    members = [(f"{u}.{e}", e.encode() * 300) for u in (UID, OTHER) for e in ("jpg", "txt")]
    path = tar(tmp_path / "a.tar", *members)
    index = shard_index.read_index(path)
    data = Path(path).read_bytes()
    for run, uid in zip(index.samples, (UID, OTHER), strict=True):
        inside = data[run["start"] : run["start"] + run["length"]]
        names = [n for n, _, _ in tar_names(inside)]
        assert names == [f"{uid}.jpg", f"{uid}.txt"]


def tar_names(data: bytes) -> list[tuple[str, int, int]]:
    with tarfile.open(fileobj=io.BytesIO(data + bytes(1024))) as f:
        return [(m.name, m.offset_data, m.size) for m in f]


# T92
def test_members_that_stand_apart_are_refused_or_brought_together(tmp_path: Path) -> None:
    a, b = UID, OTHER
    path = tar(tmp_path / "a.tar", (f"{a}.jpg", b"1"), (f"{b}.jpg", b"2"), (f"{a}.txt", b"3"), (f"{b}.txt", b"4"))
    with pytest.raises(InputError, match=rf"a\.tar: members of '{a}' stand apart.*\n.*--regroup"):
        shard_index.read_index(path)
    index = shard_index.read_index(path, regroup=True)
    assert found(index) == [a, a, b, b]
    assert index.samples["part"].tolist() == [0, 1, 0, 1]
    assert index.header.samples == 2


# T97
@pytest.mark.parametrize("regroup", [False, True])
def test_a_member_that_stands_twice_is_refused(tmp_path: Path, regroup: bool) -> None:
    path = tar(tmp_path / "a.tar", (f"{UID}.jpg", b"1"), (f"{UID}.jpg", b"2"))
    with pytest.raises(InputError, match=rf"a\.tar: member '{UID}\.jpg' stands twice"):
        shard_index.read_index(path, regroup=regroup)


def test_an_index_is_read_instead_of_the_shard_until_that_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tar(tmp_path / "sub.tar", (f"{UID}.jpg", b"1"), ("x.jpg", b"2"))
    folder = str(tmp_path / "index")
    first = shard_index.open_index(path, str(tmp_path), folder)
    read, asked = shard_index.read_index, []

    def reading(shard: str, *rest: Any, **named: Any) -> Index:
        asked.append(shard)
        return read(shard, *rest, **named)

    monkeypatch.setattr(shard_index, "read_index", reading)
    again = shard_index.open_index(path, str(tmp_path), folder)
    assert asked == []
    assert again.header == first.header
    assert np.array_equal(again.samples, first.samples)
    tar(tmp_path / "sub.tar", (f"{OTHER}.jpg", b"1"))
    os.utime(path, (1, 1))
    assert found(shard_index.open_index(path, str(tmp_path), folder)) == [OTHER]
    assert found(shard_index.open_index(path, str(tmp_path), folder)) == [OTHER]
    assert len(asked) == 1
    kept = tmp_path / "index" / "sub.index"
    for broken in (kept.read_bytes()[:100], b"", b"PK"):
        kept.write_bytes(broken)
        assert found(shard_index.open_index(path, str(tmp_path), folder)) == [OTHER]
    assert len(asked) == 4


def test_a_damaged_shard_gives_what_is_whole(tmp_path: Path) -> None:
    path = tar(tmp_path / "a.tar", *[(f"{UID[:-1]}{i}.{e}", b"x" * 600) for i in range(3) for e in ("jpg", "txt")])
    whole = Path(path).read_bytes()
    Path(path).write_bytes(whole[: whole.rindex(b"x") - 100])
    header = shard_index.read_index(path).header
    assert header.samples == 2
    assert header.damage.startswith("cut within")
    Path(path).write_bytes(json.dumps({}).encode())
    assert shard_index.read_index(path).header.damage == "not a tar"
