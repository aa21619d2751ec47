"""Published tables and folders of tars become pools that every later stage reads; what they were made of stays as it is."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("img2dataset")

from PIL import Image

from pipeline.engine import Options
from pipeline.pool.tables import choose_columns, import_tables
from pipeline.pool.tars import import_tars
from pipeline.reshard.job import reshard
from pipeline.selection import select
from pools import shards, uids
from pools.errors import InputError
from pools.layout import Pool
from tests.pipeline.trees import tree

HERE = Options(workers=0, quiet=True)


def metadata(pool: Path) -> list[dict[str, Any]]:
    return [row for part in Pool.open(str(pool)).parts for row in pq.read_table(part.parquet).to_pylist()]


def md5(text: str) -> str:
    return hashlib.md5(text.encode()).hexdigest()


# Tables


def test_a_table_as_laion_has_it(tmp_path: Path) -> None:
    folder = tmp_path / "laion"
    folder.mkdir()
    rows: dict[str, list[Any]] = {
        "SAMPLE_ID": [11, 12, 13, 14],
        "URL": ["http://h/a.jpg", "http://h/b.jpg", None, "http://h/d.jpg"],
        "TEXT": ["a chair", "", "no address", None],
        "HEIGHT": [480.0, float("nan"), 2.0, None],
        "WIDTH": [640, 10, 1, 2],
        "similarity": [0.25, 0.5, 0.75, None],
    }
    pq.write_table(pa.table(rows), folder / "part-0.snappy.parquet", row_group_size=2)
    pq.write_table(pa.table({k: v[:1] for k, v in rows.items() if k != "SAMPLE_ID"}), folder / "part-1.parquet")
    pool = tmp_path / "pool"
    renamed = {"similarity": "clip_b32_similarity_score"}
    before = tree(folder)
    outcome = import_tables(str(folder), str(pool), rename=renamed, options=HERE)
    assert outcome.counts == {"in": 5, "kept": 4, "failed:no_url": 1}
    assert outcome.problems == ()
    found = metadata(pool)
    assert list(found[0]) == [
        *("uid", "url", "text", "original_width", "original_height"),
        *("SAMPLE_ID", "clip_b32_similarity_score"),
    ]
    assert [r["uid"] for r in found] == [
        md5("a chairhttp://h/a.jpg"),
        md5("http://h/b.jpg"),
        md5("http://h/d.jpg"),
        md5("a chairhttp://h/a.jpg"),
    ]
    assert [(r["original_width"], r["original_height"]) for r in found] == [(640, 480), (10, None), (2, None), (640, 480)]
    assert [r["SAMPLE_ID"] for r in found] == [11, 12, 14, None]
    assert Pool.open(str(pool)).stems == ("part-0.snappy", "part-1")
    assert pq.read_schema(pool / "metadata/part-1.parquet") == pq.read_schema(pool / "metadata/part-0.snappy.parquet")
    assert tree(folder) == before
    (tmp_path / "r.yaml").write_text("keep:\n  - clip_score: {model: b32, min: 0.3}\n")
    assert select(str(tmp_path / "r.yaml"), str(pool), str(tmp_path / "s"), options=HERE).counts["kept"] == 1
    assert import_tables(str(folder), str(pool), rename=renamed, options=HERE) == outcome
    with pytest.raises(InputError, match="another run"):
        import_tables(str(folder), str(pool), options=HERE)


@pytest.mark.parametrize("form", ["cc3m", "cc12m", "jsonl"])
def test_texts_as_they_are_published(tmp_path: Path, form: str) -> None:
    pairs = [('a "dog"', "http://h/0.jpg"), ('5" pipe', "http://h/1.jpg"), ("ärger", "http://h/2.jpg")]
    path = tmp_path / ("t.jsonl.gz" if form == "jsonl" else f"{form}.tsv")
    if form == "jsonl":
        path.write_bytes(gzip.compress("".join(json.dumps({"caption": c, "image_url": u}) + "\n" for c, u in pairs).encode()))
    else:
        path.write_text("".join("\t".join(p if form == "cc3m" else p[::-1]) + "\n" for p in pairs))
    pool = tmp_path / "pool"
    assert import_tables(str(path), str(pool), options=HERE).counts == {"in": 3, "kept": 3}
    assert [(r["text"], r["url"], r["uid"]) for r in metadata(pool)] == [(c, u, md5(c + u)) for c, u in pairs]
    assert not (pool / ".winnow/source").exists()
    assert import_tables(str(path), str(pool), options=HERE).counts == {"in": 3, "kept": 3}
    assert not (pool / ".winnow/source").exists()


def test_bad_rows_are_counted_and_named(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text('{"url": "http://h/a.jpg", "text": "a"}\n{oops\n{"url": "", "text": "b"}\n')
    outcome = import_tables(str(path), str(tmp_path / "pool"), options=HERE)
    assert outcome.counts == {"in": 3, "kept": 1, "failed:unreadable": 1, "failed:no_url": 1}
    assert [p.partition(" (")[0] for p in outcome.problems] == [f"{path}: line 2: not JSON"]
    assert list(metadata(tmp_path / "pool")[0]) == ["uid", "url", "text"]


def test_uids_that_come_with_a_table_stay(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("key,url,caption\n00000000000000000000000000000e10,http://h/a.jpg,a\n,http://h/b.jpg,b\n")  # T98
    pool = tmp_path / "pool"
    import_tables(str(path), str(pool), columns=choose_columns(str(path), uid="key"), options=HERE)
    assert [r["uid"] for r in metadata(pool)] == ["00000000000000000000000000000e10", md5("bhttp://h/b.jpg")]
    path.write_text("uid,url,caption\n17,http://h/a.jpg,a\n")
    with pytest.raises(InputError, match="32 hex digits"):
        import_tables(str(path), str(tmp_path / "q"), options=HERE)


def test_mistakes_are_explained(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("address,caption,n\nhttp_//h/a.jpg,a,1\n")

    def refused(**more: Any) -> str:
        with pytest.raises(InputError) as e:
            import_tables(str(path), str(tmp_path / "pool"), options=HERE, **more)
        return str(e.value)

    assert "one of its columns: address, caption, n" in refused()
    columns = choose_columns(str(path), url="address")
    assert "to rename" in refused(columns=columns, rename={"m": "k"})
    assert "to rename" in refused(columns=columns, rename={"url": "k"})
    assert "already" in refused(columns=columns, rename={"n": "text"})


@pytest.mark.shared
def test_the_real_tables(tmp_path: Path, shared_data: Path) -> None:
    captions = shared_data / "captions"
    counts = {"urls_texts_10000.parquet": 10_000, "cc3m_validation.tsv.gz": 15_833}
    for name, count in counts.items():
        pool = tmp_path / name
        assert import_tables(str(captions / name), str(pool), options=HERE).counts == {"in": count, "kept": count}
        assert len(metadata(pool)) == count
    lines = gzip.decompress((captions / "cc3m_validation.tsv.gz").read_bytes()).decode().splitlines()
    first = metadata(tmp_path / "cc3m_validation.tsv.gz")[0]
    assert [first["text"], first["url"]] == lines[0].split("\t")


# Tars


def picture(number: int, size: tuple[int, int] = (8, 6), orientation: int = 1) -> bytes:
    out, exif = io.BytesIO(), Image.Exif()
    exif[0x0112] = orientation
    Image.new("RGB", size, (number, 9, 9)).save(out, "JPEG", exif=exif)
    return out.getvalue()


def write(path: Path, members: list[tuple[str, bytes]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as tar:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))


def test_tars_without_uids_become_shards_with_metadata(tmp_path: Path) -> None:
    given = tmp_path / "tars"
    side = {"url": "http://h/0.jpg", "caption": "in json", "original_width": 900, "original_height": 700, "similarity": 0.5}
    # T94: one key in two tars; T95: extensions of all kinds
    write(given / "a/0.tar", [
        *[("x/000.jpg", picture(0)), ("x/000.json", json.dumps({**side, "width": 8, "sha256": "e" * 64}).encode())],
        *[("x/001.JPG", picture(1, (8, 6), 6)), ("x/001.txt", b"turned"), ("x/001.cls", b"3")],
        *[("x/002.txt", b"no picture")],
        *[("x/003.png", b"broken"), ("x/003.txt", b"")],
    ])  # fmt: skip
    write(given / "b.tar", [("000.jpg", picture(2)), ("000.txt", b"two"), ("001.jpg", picture(2)), ("001.txt", b"two")])
    before = tree(given)
    pool = tmp_path / "pool"
    outcome = import_tars(str(given), str(pool), options=HERE)
    assert outcome.counts == {"in": 6, "kept": 5, "failed:no_image": 1}
    assert tree(given) == before
    assert Pool.open(str(pool)).stems == ("a/0", "b")

    twice = hashlib.md5(b"two" + picture(2)).hexdigest()
    expected = [md5("in jsonhttp://h/0.jpg"), hashlib.md5(b"turned" + picture(1, (8, 6), 6)).hexdigest()]
    expected += [hashlib.md5(b"broken").hexdigest(), twice, twice]
    found = metadata(pool)
    assert [r["uid"] for r in found] == expected
    assert [r["key"] for r in found] == [*expected[:4], f"{twice}-1"]
    assert [r["source_key"] for r in found] == ["x/000", "x/001", "x/003", "000", "001"]
    assert [r["text"] for r in found] == ["in json", "turned", "", "two", "two"]
    assert [(r["original_width"], r["original_height"]) for r in found] == [(900, 700), (6, 8), (None, None), (8, 6), (8, 6)]
    assert [(r["similarity"], r["width"], r["sha256"]) for r in found[:2]] == [(0.5, 8, "e" * 64), (None, None, None)]

    samples = dict(shards.read_all(str(pool / "shards/a/0.tar")))
    assert list(samples) == expected[:3]
    assert samples[expected[0]]["jpg"] == picture(0)
    assert json.loads(samples[expected[0]]["json"])["uid"] == expected[0]
    assert samples[expected[0]]["txt"] == b"in json"
    assert samples[expected[1]]["cls"] == b"3"
    assert json.loads(samples[expected[1]]["json"])["caption"] == "turned"
    assert import_tars(str(given), str(pool), options=HERE) == outcome

    # The later stages read it.
    (tmp_path / "r.yaml").write_text("keep:\n  - image_size: {min_side: 6, max_aspect: 3.0}\n")
    assert select(str(tmp_path / "r.yaml"), str(pool), str(tmp_path / "s"), options=HERE).counts["kept"] == 4
    done = reshard(str(pool / "shards"), str(tmp_path / "s/uids.npy"), str(tmp_path / "out"), options=HERE)
    assert done.counts["dropped:missing"] == 0


def test_tars_whose_samples_have_uids_stand_as_they_are(tmp_path: Path) -> None:
    given, pool = tmp_path / "tars", tmp_path / "pool"
    ids = [md5(str(i)) for i in range(3)]
    side = [json.dumps({"uid": u, "url": f"http://h/{i}", "caption": f"c{i}"}).encode() for i, u in enumerate(ids)]
    members = [m for i in range(3) for m in ((f"{i:09d}.jpg", picture(i)), (f"{i:09d}.txt", b"c"), (f"{i:09d}.json", side[i]))]
    write(given / "00000.tar", members)
    outcome = import_tars(str(given), str(pool), options=HERE)
    assert outcome.counts == {"in": 3, "kept": 3, "shards_as_they_were": 1}
    assert (pool / "shards/00000.tar").read_bytes() == (given / "00000.tar").read_bytes()
    assert os.stat(pool / "shards/00000.tar").st_ino == os.stat(given / "00000.tar").st_ino
    assert [(r["uid"], r["key"], r["source_key"]) for r in metadata(pool)] == [
        (u, f"{i:09d}", f"{i:09d}") for i, u in enumerate(ids)
    ]
    import_tars(str(given), str(pool), options=Options(workers=0, quiet=True, overwrite=True))
    assert (given / "00000.tar").read_bytes() == (pool / "shards/00000.tar").read_bytes()


def some_tars(folder: Path) -> str:
    for n in range(3):
        write(folder / f"{n}.tar", [(f"{i}.{e}", d) for i in range(2) for e, d in (("jpg", picture(9 * n + i)), ("txt", b"t"))])
    return str(folder)


def test_a_run_that_was_stopped_goes_on_to_the_same_pool(tmp_path: Path) -> None:
    given, one, two = some_tars(tmp_path / "tars"), tmp_path / "one", tmp_path / "two"
    import_tars(given, str(one), options=HERE)
    import_tars(given, str(two), options=HERE)
    for name in ("_manifest.json", "shards/2.tar", ".winnow/done/2.json"):
        (two / name).unlink()
    untouched = (two / "shards/1.tar").stat().st_mtime_ns
    import_tars(given, str(two), options=HERE)
    assert tree(one) == tree(two)
    assert (two / "shards/1.tar").stat().st_mtime_ns == untouched


@pytest.mark.slow
def test_workers_give_the_same_pool(tmp_path: Path) -> None:
    given = some_tars(tmp_path / "tars")
    import_tars(given, str(tmp_path / "one"), options=HERE)
    import_tars(given, str(tmp_path / "two"), options=Options(workers=2, quiet=True))
    assert tree(tmp_path / "one") == tree(tmp_path / "two")


def test_a_folder_without_tars_and_a_foreign_output_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such tar"):
        import_tars(str(tmp_path / "none*.tar"), str(tmp_path / "pool"), options=HERE)
    write(tmp_path / "a.tar", [("0.jpg", picture(0))])
    (tmp_path / "full").mkdir()
    (tmp_path / "full/x.txt").write_text("x")
    with pytest.raises(InputError, match="not empty"):
        import_tars(str(tmp_path / "a.tar"), str(tmp_path / "full"), options=HERE)
    assert import_tars(str(tmp_path / "a.tar"), str(tmp_path / "pool"), options=HERE).counts == {"in": 1, "kept": 1}
    assert np.array_equal(
        uids.pack([r["uid"] for r in metadata(tmp_path / "pool")]), uids.pack([hashlib.md5(picture(0)).hexdigest()])
    )
