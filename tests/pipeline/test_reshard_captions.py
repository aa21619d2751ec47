"""Captions that a recipe, or a file, puts in place of those in the shards."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.reshard.job import reshard
from pipeline.reshard.settings import Settings
from pools import shards
from pools.errors import InputError
from tests.pipeline.resharding import QUIET, members, uid, write_list, write_source, written


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_source(tmp_path / "shards", (3, 3))


def write_captions(path: Path, captions: dict[int, str | None], column: str = "caption") -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"uid": [uid(n) for n in captions], column: pa.array(captions.values(), pa.string())}), path)
    return str(path)


def test_a_selection_brings_its_list_and_its_captions(tmp_path: Path, source: Path) -> None:
    selection = tmp_path / "selection"
    selection.mkdir()
    write_list(selection, 1, 2, 2, 5, name="uids.npy")
    write_captions(selection / "captions" / "a.parquet", {2: "zwei ñ", 3: "not wanted", 1: None})
    write_captions(selection / "captions" / "b.parquet", {5: "fünf", 2: "a second one for the same uid"})
    reshard(str(source), str(selection), str(tmp_path / "out"), settings=Settings(shuffle="all"), options=QUIET)
    found = {key: parts for _, key, _, parts in written(tmp_path / "out")}
    assert found[f"{uid(1)}-0"] == members(1)
    for key in (f"{uid(2)}-0", f"{uid(2)}-1"):
        assert found[key]["txt"].decode() == "zwei ñ"
        assert json.loads(found[key]["json"]) == {"uid": uid(2), "caption": "zwei ñ", "original_caption": "caption 2"}
        assert found[key]["jpg"] == members(2)["jpg"]
        assert list(found[key]) == ["jpg", "txt", "json"]
    assert found[f"{uid(5)}-0"]["txt"].decode() == "fünf"


def test_the_first_caption_stays_known_when_it_is_replaced_again(tmp_path: Path, source: Path) -> None:
    listed = write_list(tmp_path, 1)
    for n, (data, text) in enumerate(((source, "first"), (tmp_path / "out0", "second"))):
        captions = write_captions(tmp_path / f"{n}.parquet", {1: text}, "said") + ":said"
        reshard(str(data), listed, str(tmp_path / f"out{n}"), settings=Settings(captions=captions), options=QUIET)
    ((_, key, _, parts),) = written(tmp_path / "out1")
    assert key == f"{uid(1)}-0"
    assert json.loads(parts["json"]) == {"uid": uid(1), "caption": "second", "original_caption": "caption 1"}


def test_a_sample_that_lacks_parts_gets_them(tmp_path: Path) -> None:
    with shards.write(str(tmp_path / "s" / "0.tar")) as out:
        out.add(uid(1), {"jpg": b"1"})
        out.add(uid(2), {"jpg": b"2", "TXT": b"old"})
    captions = write_captions(tmp_path / "c.parquet", {1: "one", 2: "two"})
    reshard(
        str(tmp_path / "s"),
        write_list(tmp_path, 1, 2),
        str(tmp_path / "out"),
        settings=Settings(captions=captions),
        options=QUIET,
    )
    found = {n: parts for _, _, n, parts in written(tmp_path / "out")}
    assert (found[1]["txt"], found[2]["TXT"]) == (b"one", b"two")
    assert json.loads(found[1]["json"]) == {"uid": uid(1), "caption": "one", "original_caption": None}
    assert json.loads(found[2]["json"]) == {"uid": uid(2), "caption": "two", "original_caption": "old"}


def test_other_captions_are_another_run(tmp_path: Path, source: Path) -> None:
    listed = write_list(tmp_path, 1)
    settings = Settings(captions=write_captions(tmp_path / "c.parquet", {1: "one"}))
    reshard(str(source), listed, str(tmp_path / "out"), settings=settings, options=QUIET)
    write_captions(tmp_path / "c.parquet", {1: "another one"})
    with pytest.raises(InputError, match=r"belongs to another run \(its captions"):
        reshard(str(source), listed, str(tmp_path / "out"), settings=settings, options=QUIET)


def test_what_holds_no_captions_is_refused(tmp_path: Path, source: Path) -> None:
    listed = write_list(tmp_path, 1)
    path = write_captions(tmp_path / "c.parquet", {1: "one"}, "text")
    pq.write_table(pa.table({"uid": [uid(1)], "caption": [7]}), tmp_path / "number.parquet")
    for captions, what in (
        (path, "no column 'caption'; expected one of text, uid"),
        (f"{path}:nothing", "no column 'nothing'"),
        (str(tmp_path / "none.parquet"), "none.parquet: no such file"),
        (str(tmp_path / "number.parquet"), "column 'caption' holds int64; expected captions"),
    ):
        with pytest.raises(InputError, match=what):
            reshard(str(source), listed, str(tmp_path / "out"), settings=Settings(captions=captions), options=QUIET)
