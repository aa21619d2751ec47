"""The extract job: files in, candidates out, damage and reruns in between."""

from __future__ import annotations

import gzip
import html
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from pipeline.engine import Options
from pipeline.extract.job import COUNTS, extract, main
from pools.errors import InputError
from pools.layout import Pool
from pools.manifest import Outcome
from pools.schema import CANDIDATES
from tests.pipeline import wats

HERE = Options(workers=0, quiet=True)
REPLACE = Options(workers=0, quiet=True, overwrite=True)


def run(inputs: Path | list[Path], output: Path, options: Options = HERE) -> Outcome:
    given = inputs if isinstance(inputs, list) else [inputs]
    return extract([str(i) for i in given], str(output), options=options)


def rows(path: Path) -> list[dict[str, Any]]:
    return pq.read_table(path).to_pylist()  # type: ignore[no-any-return]


def files(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_a_wat_becomes_a_pool_of_candidates(tmp_path: Path) -> None:
    links = [("red.jpg", "a red\nchair"), ("red.jpg", "a red\nchair"), ("data:,", "x"), ("b.jpg", "")]
    page = wats.page("http://shop.example/a/", links, title="Chairs", headers={"Content-Language": "en"})
    wat = wats.write(tmp_path / "CC-MAIN-2025-33" / "CC-MAIN-20250801000000-00007.warc.wat.gz", [page])
    outcome = run(wat, tmp_path / "out")
    assert outcome == Outcome(
        dict.fromkeys(COUNTS, 0)
        | {"in": 4, "kept": 1, "dropped:no_text": 1, "dropped:scheme": 1, "dropped:duplicate": 1, "records": 1, "pages": 1}
    )
    assert Pool.open(str(tmp_path / "out")).stems == ("CC-MAIN-20250801000000-00007",)
    table = pq.read_table(tmp_path / "out" / "CC-MAIN-20250801000000-00007.parquet")
    assert table.schema == CANDIDATES.schema
    assert table.to_pylist() == [
        {
            "uid": "6534f59f3a29d346de1a9fcdca95fee6",  # printf 'a red\nchairhttp://shop.example/a/red.jpg' | md5sum
            "url": "http://shop.example/a/red.jpg",
            "text": "a red chair",
            "alt": "a red\nchair",
            "page_title": "Chairs",
            "page_url": "http://shop.example/a/",
            "content_language": "en",
            "opt_out": None,
            "crawl": "CC-MAIN-2025-33",
            "source_file": "CC-MAIN-20250801000000-00007.warc.wat.gz",
        }
    ]


def test_the_crawl_is_null_where_the_path_does_not_name_it(tmp_path: Path) -> None:
    run(wats.write(tmp_path / "CC-MAIN-20250801000000-00007.warc.wat.gz", [wats.numbered(1)]), tmp_path / "out")
    (row,) = rows(tmp_path / "out" / "CC-MAIN-20250801000000-00007.parquet")
    assert row["crawl"] is None


def languages(tmp_path: Path, *records: bytes) -> dict[str, str | None]:
    """{caption: content_language} of a WAT with these records, none of which is bad."""
    wat = wats.write(tmp_path / "a.wat.gz", records)
    outcome = run(wat, tmp_path / "out", REPLACE)
    assert (outcome.counts["bad_record"], outcome.counts["records"]) == (0, len(records))
    return {r["text"]: r["content_language"] for r in rows(tmp_path / "out" / "a.parquet")}


A, B = "http://e.example/a", "http://e.example/b"


def test_the_detected_language_is_that_of_the_page_before_it(tmp_path: Path) -> None:
    a, b = (wats.page(u, [("1.jpg", f"{u[-1]} 1"), ("2.jpg", f"{u[-1]} 2")]) for u in (A, B))
    found = wats.detection(A, "es", "en")
    assert languages(tmp_path, wats.request(A), a, found, wats.request(B), b) == {
        "a 1": "es",
        "a 2": "es",
        "b 1": None,
        "b 2": None,
    }
    assert set(languages(tmp_path, a, b, found).values()) == {None}  # another page came between
    assert set(languages(tmp_path, a, wats.detection(B, "es")).values()) == {None}  # it is of another page
    assert set(languages(tmp_path, found, a).values()) == {None}
    assert set(languages(tmp_path, a, wats.page(A, None), found).values()) == {"es"}
    # The first that names a language counts.
    assert set(languages(tmp_path, a, wats.detection(A), found, wats.detection(A, "fr")).values()) == {"es"}
    assert languages(tmp_path, a, found, b, wats.detection(B, "fr")) == {"a 1": "es", "a 2": "es", "b 1": "fr", "b 2": "fr"}


def test_a_page_that_was_read_twice_has_each_time_its_own_language(tmp_path: Path) -> None:
    first, second = (wats.page(A, [(f"{n}.jpg", n)]) for n in ("one", "two"))
    assert languages(tmp_path, first, wats.detection(A, "es"), wats.request(A), second, wats.detection(A, "fr")) == {
        "one": "es",
        "two": "fr",
    }


def test_what_the_page_says_goes_before_what_was_detected(tmp_path: Path) -> None:
    said: dict[str, dict[str, Any]] = {
        "html": {"metas": [{"name": "HTML@/lang", "content": "pt"}]},
        "meta": {"metas": [{"http-equiv": "content-language", "content": "ja"}]},
        "header": {"headers": {"Content-Language": "fr"}},
        "nothing": {"metas": [{"name": "HTML@/lang", "content": " "}]},
    }
    records = [
        record
        for name, more in said.items()
        for record in (wats.page(f"{A}/{name}", [("1.jpg", name)], **more), wats.detection(f"{A}/{name}", "es"))
    ]
    assert languages(tmp_path, *records) == {"html": "pt", "meta": "ja", "header": "fr", "nothing": "es"}


@pytest.mark.parametrize("value", ["{", "", 5, '{"languages":[]}'])
def test_a_broken_detection_is_no_bad_record(tmp_path: Path, value: Any) -> None:
    assert languages(tmp_path, wats.page(A, [("1.jpg", "x")]), wats.detection(A, value=value)) == {"x": None}


def test_the_rows_of_one_page_are_held_and_no_more(tmp_path: Path) -> None:
    from pipeline.extract.job import Scan

    records = [wats.page(f"{A}/{i}", [(f"{i}-{j}.jpg", f"{i} {j}") for j in range(3)]) for i in range(4)]
    path = wats.write(tmp_path / "a.wat", records)
    with path.open("rb") as file:
        scan = Scan(str(path), file)
        for n, row in enumerate(scan.rows()):
            assert row.text == f"{n // 3} {n % 3}"
            assert scan.counts["kept"] - n <= 6  # its page, and the one that showed it to be over


def test_a_cut_file_gives_its_rows_and_a_problem_with_the_offset(tmp_path: Path) -> None:  # T09
    packed = wats.members(wats.numbered(i) for i in range(5))
    start = sum(map(len, packed[:3]))
    wat = tmp_path / "cut.wat.gz"
    wat.write_bytes(b"".join(packed)[: start + len(packed[3]) // 2])
    outcome = run(wat, tmp_path / "out")
    assert [r["text"] for r in rows(tmp_path / "out" / "cut.parquet")] == ["picture 0", "picture 1", "picture 2"]
    (problem,) = outcome.problems
    assert problem.startswith(f"{wat}: truncated at byte {start + len(packed[3]) // 2}")
    assert problem.endswith(f"begins at byte {start}")
    assert outcome.counts["records"] == 3
    assert main([str(wat), "--output", str(tmp_path / "out"), "--workers", "0"]) == 1


def test_damaged_records_are_counted_and_the_others_kept(tmp_path: Path) -> None:  # T11
    wrong = wats.warc_record(wats.page_json([("w.jpg", "lost")]), length=7)
    broken = wats.warc_record(b'{"Envelope": {"path": "IMG@/src", ')
    records = [wats.numbered(0), wrong, wats.numbered(1), broken, b"<html>503</html>", wats.numbered(2)]
    outcome = run(wats.write(tmp_path / "a.wat.gz", records), tmp_path / "out")
    assert [r["text"] for r in rows(tmp_path / "out" / "a.parquet")] == ["picture 0", "picture 1", "picture 2"]
    assert (outcome.counts["bad_record"], outcome.problems) == (3, ())


def test_damaged_gzip_data_are_a_problem_each_up_to_ten(tmp_path: Path) -> None:
    packed = [bytearray(m) for m in wats.members(wats.numbered(i) for i in range(26))]
    for member in packed[1::2]:
        member[-6] ^= 0xFF
    (tmp_path / "a.wat.gz").write_bytes(b"".join(packed))
    outcome = run(tmp_path / "a.wat.gz", tmp_path / "out")
    assert (outcome.counts["kept"], outcome.counts["bad_record"]) == (13, 13)
    assert outcome.problems[0].startswith(f"{tmp_path}/a.wat.gz: damaged gzip data")
    assert outcome.problems[0].endswith(f"begins at byte {len(packed[0])}")
    assert outcome.problems[10:] == (f"{tmp_path}/a.wat.gz: 3 more damaged places",)


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"<html>503 slow down</html>", "no WARC record"),
        (gzip.compress(b"<html>503 slow down</html>"), "no WARC record"),
        (b"", "no WARC record"),
        (b"PK\x03\x04" + bytes(5000), "no WARC record"),
        (wats.warc_record(b"HTTP/1.1 200 OK\r\n\r\n", kind="response"), "records of type response"),
        (wats.warc_record(b"Some text", kind="conversion"), "records of type conversion"),
    ],
)
def test_what_is_no_wat_is_named_and_leaves_nothing(tmp_path: Path, content: bytes, what: str) -> None:  # T11
    wat = tmp_path / "a.wat.gz"
    wat.write_bytes(content)
    with pytest.raises(InputError, match=what) as error:
        run(wat, tmp_path / "out")
    assert error.value.where == str(wat)
    assert [p.name for p in (tmp_path / "out").iterdir()] == [".winnow"]
    assert main([str(wat), "--output", str(tmp_path / "out"), "--workers", "0"]) == 2


def test_inputs_are_files_folders_and_patterns(tmp_path: Path) -> None:
    for name in ("x/1.wat.gz", "x/deep/1.wat", "x/notes.txt", "y/2.warc.wat.gz", "y/3.wat", "named.warc"):
        wats.write(tmp_path / name, [wats.numbered(1)])
    given = [tmp_path / "x", tmp_path / "y" / "*.wat*", tmp_path / "named.warc", tmp_path / "y" / "3.wat"]
    assert run(given, tmp_path / "out").counts["kept"] == 5
    assert Pool.open(str(tmp_path / "out")).stems == ("1", "2", "3", "deep/1", "named")


def test_inputs_that_would_share_an_output_or_are_missing_are_refused(tmp_path: Path) -> None:
    for name in ("x/1.wat.gz", "y/1.warc.wat.gz", "z/shards/1.wat"):
        wats.write(tmp_path / name, [wats.numbered(1)])
    with pytest.raises(InputError, match="would write the same file"):
        run([tmp_path / "x", tmp_path / "y"], tmp_path / "out")
    with pytest.raises(InputError, match="no such file"):
        run(tmp_path / "*.wat", tmp_path / "out")
    with pytest.raises(InputError, match="no such file"):
        run(tmp_path / "absent.wat", tmp_path / "out")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="nothing to read"):
        run(tmp_path / "empty", tmp_path / "out")
    with pytest.raises(InputError, match="cannot be that of a file of candidates"):
        run(tmp_path / "z", tmp_path / "out")
    assert run(tmp_path, tmp_path / "out2").counts["kept"] == 3


def test_a_rerun_does_what_is_missing_and_gives_the_same_bytes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for i in range(4):  # T20
        wats.write(tmp_path / "in" / f"{i}.wat.gz", [wats.numbered(i)])
    run(tmp_path / "in", tmp_path / "out")
    whole = files(tmp_path / "out")
    for gone in ("_manifest.json", "2.parquet", "3.parquet", ".winnow/done/2.json", ".winnow/done/3.json"):
        (tmp_path / "out" / gone).unlink()
    untouched = (tmp_path / "out" / "1.parquet").stat().st_mtime_ns
    run(tmp_path / "in", tmp_path / "out", Options(workers=0))
    assert files(tmp_path / "out") == whole
    assert (tmp_path / "out" / "1.parquet").stat().st_mtime_ns == untouched
    assert "2 of 4 units done before, 2 to do" in capsys.readouterr().err
    assert run(tmp_path / "in", tmp_path / "out", Options(workers=0)).counts["kept"] == 4
    assert "nothing to do" in capsys.readouterr().err


def test_more_inputs_add_to_an_output_and_others_are_refused(tmp_path: Path) -> None:
    first, second = (wats.write(tmp_path / f"{i}.wat.gz", [wats.numbered(i)]) for i in (1, 2))
    run(first, tmp_path / "out")
    with pytest.raises(InputError, match="not named now"):
        run(second, tmp_path / "out")
    assert run([first, second], tmp_path / "out").counts["kept"] == 2
    assert run(second, tmp_path / "out", REPLACE).counts["kept"] == 1
    assert not (tmp_path / "out" / "1.parquet").exists()


def test_processes_give_the_same_bytes(tmp_path: Path) -> None:
    for i in range(3):
        wats.write(tmp_path / "in" / f"{i}.wat.gz", [wats.numbered(i)])
    run(tmp_path / "in", tmp_path / "one")
    run(tmp_path / "in", tmp_path / "two", Options(workers=2, quiet=True))
    assert files(tmp_path / "one") == files(tmp_path / "two")


def test_the_module_is_a_program(tmp_path: Path) -> None:
    wat = wats.write(tmp_path / "a.wat.gz", [wats.numbered(1)])
    job = Path(__file__).parents[2] / "pipeline" / "extract" / "job.py"
    done = subprocess.run([sys.executable, job, wat, "--output", tmp_path / "out"], capture_output=True, text=True, check=True)
    assert "kept: 1\n" in done.stdout
    assert len(rows(tmp_path / "out" / "a.parquet")) == 1


def test_rows_are_written_in_bounded_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.extract.job.GROUP_ROWS", 100)
    monkeypatch.setattr("pipeline.extract.job.GROUP_CHARACTERS", 50_000)
    links = [(f"{i}.jpg", f"picture {i}") for i in range(250)] + [("long.jpg", "x" * 60_000), ("last.jpg", "last")]
    run(wats.write(tmp_path / "a.wat", [wats.page("http://e.example/", links)]), tmp_path / "out")
    written = pq.ParquetFile(tmp_path / "out" / "a.parquet")
    assert [written.metadata.row_group(i).num_rows for i in range(written.num_row_groups)] == [100, 100, 51, 1]
    assert written.read()["text"].to_pylist() == [str(alt) for _, alt in links]


@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "counts"),
    [
        # Links and links with alt as counted by those who collected the files.
        ("wat/wat-18.warc", {"records": 17, "in": 108, "dropped:no_text": 108 - 88}),
        ("wat/whirlwind.warc.wat", {"records": 1, "in": 0, "kept": 0}),
        ("wat/whirlwind.warc.wat.gz", {"records": 1, "in": 0, "kept": 0}),
        ("wat-generated/archive-org-2008.warc.wat.gz", {"in": 844, "dropped:no_text": 844 - 666, "kept": 99}),
        ("wat-generated/books.toscrape.warc.wat.gz", {"in": 20, "kept": 20, "bad_record": 0}),
    ],
)
def test_published_wats_give_the_known_counts(shared_data: Path, tmp_path: Path, name: str, counts: dict[str, int]) -> None:
    outcome = run(shared_data / name, tmp_path / "out")
    assert {key: outcome.counts[key] for key in counts} == counts


@pytest.mark.shared
def test_the_crawlers_own_detection_is_read_where_the_page_says_nothing(shared_data: Path, tmp_path: Path) -> None:
    wat = gzip.decompress((shared_data / "wat-generated" / "whirlwind.warc.wat.gz").read_bytes())
    for content, language in ((wat, "an"), (wat.replace(b'"content-language":"an"', b'"content-languagf":"an"'), "es")):
        (tmp_path / "a.wat").write_bytes(content.replace(b'"HTML@/lang"', b'"HTML@/lanf"'))
        outcome = run(tmp_path / "a.wat", tmp_path / "out", REPLACE)
        assert outcome.counts["kept"] > 0
        assert {r["content_language"] for r in rows(tmp_path / "out" / "a.parquet")} == {language}


@pytest.mark.shared
def test_the_rows_of_a_page_are_its_images_in_their_order(shared_data: Path, tmp_path: Path) -> None:
    run(shared_data / "wat-generated" / "books.toscrape.warc.wat.gz", tmp_path / "out")
    found = rows(tmp_path / "out" / "books.toscrape.parquet")
    # The page itself, from the WARC that the WAT was made of.
    page = (shared_data / "warc" / "books.toscrape.warc").read_bytes().decode("utf-8", "replace")
    images = re.findall(r'<img src="(media/[^"]+)" alt="([^"]+)"', page)
    assert len(images) == 20
    assert [(r["url"], r["text"]) for r in found] == [
        (f"http://books.toscrape.com/{src}", html.unescape(alt)) for src, alt in images
    ]
    assert {r["opt_out"] for r in found} == {None}
    assert {r["content_language"] for r in found} == {"en-us"}


@pytest.mark.shared
def test_every_generated_wat_is_extracted_and_accounted_for(shared_data: Path, tmp_path: Path) -> None:
    outcome = run(shared_data / "wat-generated", tmp_path / "out")
    assert (outcome.problems, outcome.counts["bad_record"]) == ((), 0)
    links = 0
    for file in (shared_data / "wat-generated").glob("*.gz"):
        for line in gzip.decompress(file.read_bytes()).split(b"\r\n"):
            links += line.count(b'"path":"IMG@/src"') if line.startswith(b"{") and json.loads(line) else 0
    assert outcome.counts["in"] == links
    assert outcome.counts["kept"] == sum(len(rows(p)) for p in (tmp_path / "out").glob("*.parquet"))
