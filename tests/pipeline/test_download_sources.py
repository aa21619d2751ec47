"""What can be downloaded: text files of any form, foreign columns, uid lists, and archives as the source of bytes."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
import subprocess
import sys
from pathlib import Path
from subprocess import PIPE
from typing import Any

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.download.sources import files, rows, staging, texts
from pipeline.download.sources.columns import Columns
from pipeline.download.sources.rows import Source
from pipeline.engine import Options
from pipeline.lease import Held, Lease
from pools import store, uids
from pools.errors import InputError

HERE = Options(workers=0, quiet=True)
ADDRESS = "http://h.example/{}.jpg"


def load(path: Path | str, columns: Columns | None = None, *, scratch: str, size: int = 3, **more: Any) -> list[dict[str, Any]]:
    """All rows of a source as a download reads them, shard by shard."""
    source = Source.open(str(path), columns, scratch=scratch, options=HERE, **more)
    tables = [rows.read(parts, source.schema) for parts in source.shards(size)]
    assert all(len(table) == size for table in tables[:-1])
    return [row for table in tables for row in table.to_pylist()]


@pytest.fixture
def scratch(tmp_path: Path) -> str:
    return str(tmp_path / "pool/.winnow")


# T21
def test_a_list_of_urls_has_one_a_line_with_commas_and_all(tmp_path: Path, scratch: str) -> None:
    path = tmp_path / "urls.txt"
    path.write_bytes(
        b"\xef\xbb\xbfhttp://h/w_303,h_170,q_90.jpg\r\n\n   \n  http://h/b.jpg  \n"
        b'http://h/"quoted".jpg\nhttp://h/tab\tin.jpg\n\xff\xfe\nhttp://h/last.jpg'
    )
    found = load(path, scratch=scratch)
    assert [r["url"] for r in found] == [
        "http://h/w_303,h_170,q_90.jpg",
        "http://h/b.jpg",
        'http://h/"quoted".jpg',
        "http://h/tab\tin.jpg",
        None,
        "http://h/last.jpg",
    ]
    assert found[4] == {
        "url": None,
        "text": None,
        "uid": hashlib.md5(b"\xff\xfe").hexdigest(),
        "source_error": "line 7: not text in UTF-8",
    }
    assert all(r["text"] is None for r in found)


# T22
def test_csv_captions_may_hold_line_ends_and_doubled_quotes(tmp_path: Path, scratch: str) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(
        b'url,text,width,code,score\r\nhttp://h/a.jpg,"a ""red"" chair,\r\n\r\nin two lines",640,007,0.5\r\n'
        b"http://h/b.jpg,plain,,12,\r\n\r\nhttp://h/c.jpg,,1,3,1e-3\r\n"
    )
    found = load(path, scratch=scratch)
    assert [r["text"] for r in found] == ['a "red" chair,\r\n\r\nin two lines', "plain", ""]
    assert [r["width"] for r in found] == [640, None, 1]
    assert [r["code"] for r in found] == ["007", "12", "3"]
    assert [r["score"] for r in found] == [0.5, None, 0.001]


# T23
def test_a_quote_in_tsv_swallows_no_line(tmp_path: Path, scratch: str) -> None:
    path = tmp_path / "t.tsv"
    path.write_text('5" pipe\thttp://h/a.jpg\nsecond\thttp://h/b.jpg\n"third\thttp://h/c.jpg\n')
    found = load(path, scratch=scratch)
    assert [(r["text"], r["url"]) for r in found] == [
        ('5" pipe', "http://h/a.jpg"),
        ("second", "http://h/b.jpg"),
        ('"third', "http://h/c.jpg"),
    ]
    other = tmp_path / "cc12m.tsv"
    other.write_text("http://h/a.jpg\ta caption\n")
    assert load(other, scratch=scratch) == [{"url": "http://h/a.jpg", "text": "a caption"}]
    named = tmp_path / "named.tsv"
    named.write_text("language\turl\ttext\nen\thttp://h/a.jpg\tone\ttoo many\nen\thttp://h/b.jpg\n")
    one, two = load(named, scratch=scratch)
    assert (one["url"], one["source_error"]) == (None, "line 2: 4 values for 3 columns")
    assert two == {"url": "http://h/b.jpg", "text": None, "language": "en", "uid": None, "source_error": None}


# T23, for CSV
def test_a_quote_that_is_never_closed_costs_one_row(tmp_path: Path, scratch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts, "MAX_ROW", 60)
    lines = ["url,text", 'http://h/a.jpg,"never closed', *(f"http://h/{i}.jpg,caption {i}" for i in range(9))]
    lines += [
        'http://h/x.jpg,"closed" too early',
        "http://h/y.jpg," + "long " * 40,
        'http://h/z.jpg,5" pipe',
        'http://h/e,"end',
    ]
    path = tmp_path / "t.csv"
    path.write_text("\n".join(lines) + "\n")
    found = load(path, scratch=scratch)
    good = [(r["url"], r["text"]) for r in found if r["url"] is not None]
    assert good == [*((f"http://h/{i}.jpg", f"caption {i}") for i in range(9)), ("http://h/z.jpg", '5" pipe')]
    assert [r["source_error"].partition(":")[0] for r in found if r["url"] is None] == [
        "line 2",
        "line 12",
        "line 13",
        "line 15",
    ]
    assert "never closed" in found[0]["source_error"]
    assert "60 bytes" in found[11]["source_error"]
    source = Source.open(str(path), scratch=scratch, options=HERE)
    assert source.found.counts == {"unreadable_rows": 4}
    assert source.unreadable[0] == f"{path}: line 2: a quote that is never closed"
    assert source.found.problems == ()


def parse(path: Path, data: bytes) -> list[dict[str, Any]]:
    """All rows of a file, of whatever blocks it is read in; none is bad."""
    path.write_bytes(data)
    (named,) = files.find(str(path))
    found = [row for block in texts.blocks(named) for row in texts.read(block)]
    assert all(isinstance(row, dict) for row in found), found
    return [row for row in found if isinstance(row, dict)]


PROPERTY = settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
LINE = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\r\t"), max_size=12)


@PROPERTY
@given(table=st.lists(st.tuples(TEXT, TEXT), max_size=8), dialect=st.sampled_from(["excel", "unix"]))
def test_what_the_csv_module_wrote_comes_back(tmp_path: Path, table: list[tuple[str, str]], dialect: str) -> None:
    out = io.StringIO(newline="")
    writer = csv.writer(out, dialect=dialect, lineterminator="\r\n")
    writer.writerow(["url", "text"])
    writer.writerows(table)
    assert parse(tmp_path / "t.csv", out.getvalue().encode()) == [{"url": u, "text": t} for u, t in table]


@PROPERTY
@given(table=st.lists(st.tuples(LINE, LINE), max_size=12), block=st.integers(1, 40), packed=st.booleans())
def test_lines_come_back_wherever_a_file_is_cut(tmp_path: Path, table: list[tuple[str, str]], block: int, packed: bool) -> None:
    rows = [{"url": u, "text": t} for u, t in table]
    contents = {
        "tsv": "".join("\t".join(row) + "\n" for row in [("url", "text"), *table]).encode(),
        "jsonl": "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode(),
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(texts, "BLOCK", block)
        for form, data in contents.items():
            found = parse(tmp_path / f"t.{form}.gz", gzip.compress(data)) if packed else parse(tmp_path / f"t.{form}", data)
            assert found == rows


@PROPERTY
@given(
    table=st.lists(st.fixed_dictionaries({"url": TEXT, "text": st.none() | TEXT, "n": st.integers(-9, 9)}), max_size=8),
    indent=st.sampled_from([None, 1]),
    piece=st.integers(1, 9),
)
def test_json_arrays_come_back(tmp_path: Path, table: list[dict[str, Any]], indent: int | None, piece: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(texts, "_PIECE", piece)
        data = json.dumps(table, indent=indent, ensure_ascii=bool(indent)).encode()
        assert parse(tmp_path / "t.json", data) == table


def test_json_lines_with_what_people_put_in_them(tmp_path: Path, scratch: str) -> None:
    path = tmp_path / "t.jsonl"
    lines = [
        '{"URL": "http://h/a.jpg", "TEXT": "CLR® – 50%", "n": 1, "id": "00000000000000000000000000000e10", "x": {"y": [1]}}',
        '{"URL": "http://h/b.jpg", "TEXT": "lone \\ud800 half", "n": 1.5, "id": null, "flag": true}',  # T16
        '{"URL": "http://h/c.jpg", "TEXT": 5, "n": null, "late": 99999999999999999999}',
        "{broken",
        '["http://h/d.jpg"]',
        '{"URL": 7, "TEXT": "t", "n": 2}',
        "",
        '{"TEXT": "no address", "n": 3}',
        '{"URL": "http://h/e.jpg", "TEXT": null, "flag": false, "faces": [[0, 0.25, 0.5, 1]]}',
        '{"URL": "http://h/f.jpg", "faces": [[1]]}',
    ]
    path.write_text("\n".join(lines))
    found = load(path, Columns(url="URL", text="TEXT", uid="id", boxes="faces"), scratch=scratch)
    # T98
    assert [r["uid"] for r in found][:2] == ["00000000000000000000000000000e10", None]
    assert [r["text"] for r in found][:3] == ["CLR® – 50%", "lone \ufffd half", "5"]
    assert [r["n"] for r in found] == [1.0, 1.5, None, None, None, 2.0, 3.0, None, None]
    assert [r["flag"] for r in found] == [None, True, None, None, None, None, None, False, None]
    assert (found[0]["x"], found[2]["late"]) == ('{"y": [1]}', "99999999999999999999")
    assert found[7]["face_bboxes"] == [[0.0, 0.25, 0.5, 1.0]]
    errors = {i: r["source_error"] for i, r in enumerate(found) if r["source_error"] is not None}
    assert list(errors) == [3, 4, 5, 8]
    assert errors[3].startswith("line 4: not JSON")
    assert errors[4] == "line 5: a list, not an object"
    assert errors[5] == "the url is a int"
    assert "boxes" in errors[8]
    assert [r["url"] for r in found] == [*(f"http://h/{c}.jpg" for c in "abc"), None, None, None, None, "http://h/e.jpg", None]
    assert len({r["uid"] for r in found if r["source_error"]}) == 4


@pytest.mark.parametrize(
    ("name", "data", "errors"),
    [
        ("cut.json", b'[{"url": "http://h/0.jpg", "text": "0"}, {"url": "http', 1),
        ("open.json", b'[{"url": "http://h/0.jpg", "text": "0"},', 1),
        ("objects.json", b'{"url": "http://h/0.jpg", "text": "0"}\n', 0),
        (
            "cut.jsonl.gz",
            gzip.compress(b'{"url": "http://h/0.jpg", "text": "0"}\n' + hashlib.sha256(b"").hexdigest().encode() * 9, mtime=0)[
                :-20
            ],
            1,
        ),
    ],
)
def test_a_damaged_file_gives_what_comes_before(tmp_path: Path, scratch: str, name: str, data: bytes, errors: int) -> None:
    (tmp_path / name).write_bytes(data)
    found = load(tmp_path / name, scratch=scratch)
    assert found[0]["url"] == "http://h/0.jpg"
    assert len(found) == 1 + errors
    source = Source.open(str(tmp_path / name), scratch=scratch, options=HERE)
    assert len(source.found.problems) == errors
    assert all("nothing behind it can be read" in problem for problem in source.found.problems)


def test_what_is_no_object_in_a_json_array_is_one_bad_row(
    tmp_path: Path, scratch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(texts, "_PIECE", 4)
    (tmp_path / "t.json").write_text('[1234567, {"url": "http://h/a.jpg", "text": "a"}, null]')
    found = load(tmp_path / "t.json", scratch=scratch)
    assert [r["source_error"] for r in found] == ["row 1: a int, not an object", None, "row 3: a NoneType, not an object"]


def test_several_files_of_a_folder_or_a_pattern_are_one_source(tmp_path: Path, scratch: str) -> None:
    folder = tmp_path / "in/lists"
    (folder / "sub").mkdir(parents=True)
    (folder / "b.csv").write_text("text,url,n\nb,http://h/b.jpg,1\n")
    (folder / "a.jsonl").write_text('{"url": "http://h/a.jpg", "text": "a", "n": 0.5}\n')
    (folder / "sub/c.csv").write_text("url,text\nhttp://h/c.jpg,c\n")
    (folder / "notes.md").write_text("not a list")
    found = load(folder, scratch=scratch)
    assert [(r["text"], r["n"]) for r in found] == [("a", 0.5), ("b", 1.0), ("c", None)]
    assert [r["text"] for r in load(str(folder / "**/*.csv"), scratch=scratch)] == ["b", "c"]
    pq.write_table(pa.table({"url": ["http://h/p.jpg"], "text": ["p"]}), folder / "sub/p.parquet")
    assert [r["text"] for r in load(folder, scratch=scratch)] == ["p"]
    with pytest.raises(InputError, match="parquet among text"):
        load(str(folder / "**/*.*[vt]"), scratch=scratch)


def test_no_file_is_prepared_twice_and_a_changed_one_is(tmp_path: Path, scratch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.txt"
    path.write_text("http://h/a.jpg\n")
    first = Source.open(str(path), scratch=scratch, options=HERE)

    def again(*_: Any, **__: Any) -> Any:
        raise AssertionError("it is prepared already")

    with monkeypatch.context() as patch:
        patch.setattr(staging, "_write", again)
        patch.setattr(staging, "_scan", again)
        assert Source.open(str(path), scratch=scratch, options=HERE) == first
    path.write_text("http://h/a.jpg\nhttp://h/b.jpg\n")
    second = Source.open(str(path), scratch=scratch, options=HERE)
    assert (first.rows, second.rows) == (1, 2)
    assert first.inputs != second.inputs


def test_a_store_without_folders_does(tmp_path: Path) -> None:
    memory = fsspec.filesystem("memory")
    try:
        store.write_bytes("memory://bucket/in/a.jsonl", b'{"url": "http://h/a.jpg", "text": "a"}\n')
        store.write_bytes("memory://bucket/in/b.txt.gz", gzip.compress(b"http://h/b.jpg\n"))
        found = load("memory://bucket/in/", scratch="memory://bucket/pool/.winnow")
        assert [r["url"] for r in found] == ["http://h/a.jpg", "http://h/b.jpg"]
        assert not [f for f in memory.find("/bucket") if "//" in f]
    finally:
        memory.rm("/bucket", recursive=True)


def test_rows_of_workers_are_those_of_one_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text("".join(json.dumps({"url": ADDRESS.format(i), "text": f"t{i}", "n": i}) + "\n" for i in range(50)))
    monkeypatch.setattr(texts, "BLOCK", 700)
    found = []
    for workers in (0, 2):
        source = Source.open(str(path), scratch=str(tmp_path / f"s{workers}"), options=Options(workers=workers, quiet=True))
        assert len(source.files) > 3
        found.append([rows.read(parts, source.schema).to_pylist() for parts in source.shards(7)])
    assert found[0] == found[1]
    assert [r["n"] for shard in found[0] for r in shard] == list(range(50))


def test_columns_by_other_names(tmp_path: Path, scratch: str) -> None:
    path = tmp_path / "laion.parquet"
    table = {"URL": ["http://h/a.jpg"], "TEXT": ["a"], "url": ["other"], "hash": [3], "sha256": ["f" * 64], "id": ["u"]}
    pq.write_table(pa.table(table), path)
    source = Source.open(str(path), Columns(url="URL", text="TEXT", uid="id"))
    found = rows.read(source.shards(5)[0], source.schema).to_pylist()
    assert found == [{"url": "http://h/a.jpg", "text": "a", "input_url": "other", "hash": 3, "sha256": "f" * 64, "uid": "u"}]
    assert rows.carried(source.schema) == {"input_url": "input_url", "hash": "hash", "sha256": "input_sha256"}
    silent = Source.open(str(path), Columns(url="URL", text=None))
    assert rows.read(silent.shards(5)[0], silent.schema)["text"].to_pylist() == [None]
    assert source.inputs != silent.inputs


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (Columns(), "no column 'url'; expected one of its columns: page, image_url, Caption\n  → --url-col image_url"),
        (
            Columns(url="image_url"),
            "no column 'text'; expected one of its columns: page, image_url, Caption\n  → --text-col Caption",
        ),
        (Columns(url="image_url", text="Caption", uid="key"), "no column 'key'"),
        (Columns(url="image_url", text=None, boxes="boxes"), "no column 'boxes'"),
    ],
)
def test_an_absent_column_is_explained(tmp_path: Path, scratch: str, columns: Columns, message: str) -> None:
    table = {"page": ["p"], "image_url": ["http://h/a.jpg"], "Caption": ["c"]}
    pq.write_table(pa.table(table), tmp_path / "t.parquet")
    (tmp_path / "t.csv").write_text("page,image_url,Caption\np,http_/h/a.jpg,c\n")
    (tmp_path / "t.jsonl").write_text(json.dumps({k: v[0] for k, v in table.items()}))
    for form in ("parquet", "csv", "jsonl"):
        path = tmp_path / f"t.{form}"
        with pytest.raises(InputError) as e:
            load(path, columns, scratch=scratch)
        assert str(e.value).startswith(f"{path}: {message}")


def test_what_is_no_source_is_refused(tmp_path: Path, scratch: str) -> None:
    def refused(path: Path | str, columns: Columns | None = None, **more: Any) -> str:
        with pytest.raises(InputError) as e:
            load(path, columns, scratch=scratch, **more)
        return str(e.value)

    assert "no such file" in refused(tmp_path / "none.csv")
    assert "no such file" in refused(str(tmp_path / "*.csv"))
    for name in ("a.xlsx", "b.parquet.gz"):
        (tmp_path / name).write_text("x")
        assert "unknown kind of file" in refused(tmp_path / name)
    (tmp_path / "c.warc.gz").write_text("x")
    assert "--archives" in refused(tmp_path / "c.warc.gz")
    (tmp_path / "d.csv").write_text("")
    assert "header" in refused(tmp_path / "d.csv")
    (tmp_path / "e.csv").write_text("url,url\na,b\n")
    assert "twice" in refused(tmp_path / "e.csv")
    (tmp_path / "f.tsv").write_text("http://h/a.jpg\ta\tb\n")
    assert "column_1" in refused(tmp_path / "f.tsv")
    with pytest.raises(InputError, match="two meanings"):
        Columns(url="a", text="a")
    assert load(tmp_path / "f.tsv", Columns(text="column_2"), scratch=scratch)[0]["text"] == "b"


def test_of_parts_that_begin_together_one_prepares_the_source(tmp_path: Path, scratch: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text("url,text\n" + "".join(f"http://h/{i}.jpg,{i}\n" for i in range(300)))
    program = """
import sys
from pipeline.download.sources.rows import Source
from pipeline.engine import Options
source = Source.open(sys.argv[1], scratch=sys.argv[2], options=Options(workers=0, part=(int(sys.argv[3]), 3)))
print(source.rows)
"""
    started = [
        subprocess.Popen([sys.executable, "-c", program, path, scratch, str(i)], stdout=PIPE, stderr=PIPE, text=True)
        for i in range(3)
    ]
    ended = [process.communicate(timeout=60) for process in started]
    assert [out for out, _ in ended] == ["300\n"] * 3, ended
    assert sum("prepare source, once" in said or "read source, once" in said for _, said in ended) == 1


def test_a_part_takes_over_from_one_that_was_killed(tmp_path: Path, scratch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.txt"
    path.write_text("http://h/a.jpg\n")
    part = Options(workers=0, quiet=True, part=(1, 2))
    taken = iter([True, False])
    monkeypatch.setattr(staging, "_POLL", 0.0)
    take = Lease.take

    def busy_once(lease: Lease) -> None:
        if next(taken):
            raise Held("another run works here")
        take(lease)

    monkeypatch.setattr(Lease, "take", busy_once)
    assert Source.open(str(path), scratch=scratch, options=part).rows == 1
    assert next(taken, None) is None


# Uid lists


def pool(folder: Path, count: int = 40) -> list[dict[str, Any]]:
    """Three files of metadata, whose rows have uids in no order; two rows share one."""
    made = [
        {"url": ADDRESS.format(i), "text": f"t{i}", "uid": uids.new(ADDRESS.format(i), f"t{i}"), "n": i} for i in range(count)
    ]
    made[7]["uid"] = made[30]["uid"]
    (folder / "metadata").mkdir(parents=True)
    for i, (start, stop) in enumerate(((0, 12), (12, 13), (13, count))):
        pq.write_table(pa.Table.from_pylist(made[start:stop]), folder / f"metadata/{i}.parquet", row_group_size=5)
    return made


@pytest.mark.parametrize("form", ["npy", "txt", "unsorted"])
def test_only_the_rows_of_a_uid_list(tmp_path: Path, scratch: str, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    monkeypatch.setattr(rows, "BATCH_ROWS", 3)
    monkeypatch.setattr("pipeline.download.sources.wanted.BATCH_ROWS", 4)
    made = pool(tmp_path / "p")
    chosen = [39, 2, 3, 11, 12, 30, 25, 2]
    packed = uids.pack([*(made[i]["uid"] for i in chosen), "0" * 32, "f" * 32])
    wanted = tmp_path / ("list.txt" if form == "txt" else "list.npy")
    if form == "txt":
        wanted.write_text("".join(u.upper() + "\n" for u in uids.unpack(packed).to_pylist()))
    elif form == "npy":
        uids.write_list(str(wanted), packed)
    else:
        np.save(wanted, packed)
    found = load(tmp_path / "p", scratch=scratch, size=4, uids=str(wanted))
    assert [r["n"] for r in found] == [2, 3, 7, 11, 12, 25, 30, 39]
    source = Source.open(str(tmp_path / "p"), uids=str(wanted), scratch=scratch, options=HERE)
    assert source.found.counts == {"asked": 9, "found": 7, "missing": 2, "repeats_in_list": 1}
    assert [n for _, n in source.files] == [4, 1, 3]
    everything = Source.open(str(tmp_path / "p"))
    assert source.inputs[:-1] == everything.inputs
    assert source.inputs[-1] == f"uids:{uids.digest(uids.sort(packed))}"


def test_rows_without_a_uid_are_chosen_by_the_one_they_get(tmp_path: Path, scratch: str) -> None:
    path = tmp_path / "t.csv"
    given = "0123456789abcdef0123456789ABCDEF"
    path.write_text(f"url,text,uid\nhttp://h/a.jpg,a,\nhttp://h/b.jpg,b,\nhttp://h/c.jpg,c,{given}\nhttp://h/d.jpg,d,no uid\n")
    wanted = tmp_path / "list.npy"
    uids.write_list(str(wanted), uids.pack([hashlib.md5(b"bhttp://h/b.jpg").hexdigest(), given]))
    assert [r["text"] for r in load(path, scratch=scratch, uids=str(wanted))] == ["b", "c"]
    bare = tmp_path / "bare.parquet"
    pq.write_table(pa.table({"url": ["http://h/a.jpg", "http://h/b.jpg"], "text": ["a", "b"]}), bare)
    assert [r["text"] for r in load(bare, scratch=scratch, uids=str(wanted))] == ["b"]
    given_none = {"url": ["http://h/b.jpg", "http://h/c.jpg"], "text": ["b", "c"], "uid": ["", given]}
    pq.write_table(pa.table(given_none), tmp_path / "empty.parquet")
    assert [r["text"] for r in load(tmp_path / "empty.parquet", scratch=scratch, uids=str(wanted))] == ["b", "c"]


def test_an_empty_list_and_one_to_remove(tmp_path: Path, scratch: str) -> None:
    pool(tmp_path / "p")
    wanted = str(tmp_path / "list.npy")
    uids.write_list(wanted, np.empty(0, uids.UID))
    source = Source.open(str(tmp_path / "p"), uids=wanted, scratch=scratch, options=HERE)
    assert (source.rows, source.shards(5)) == (0, [])
    assert source.found.counts == {"asked": 0, "found": 0, "missing": 0}
    uids.write_list(wanted, uids.pack(["0" * 32]), kind="remove")
    with pytest.raises(InputError, match="to remove"):
        Source.open(str(tmp_path / "p"), uids=wanted, scratch=scratch, options=HERE)
