"""Files, folders, patterns, lists and crawls → sources; samples of them."""

from __future__ import annotations

import gzip
import hashlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import fsspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline import engine
from pipeline.extract import warc
from pipeline.extract.crawls import crawl, crawl_of
from pipeline.extract.inputs import Kind, Source, find, list_inputs, sample
from pools import patience, store
from pools.errors import InputError, WorkFailed
from pools.manifest import Outcome, Run
from tests import stores
from tests.pipeline import wats

ID = "CC-MAIN-2025-33"
LIST = f"/crawl-data/{ID}/wat.paths.gz"


def base(n: int) -> str:
    return f"CC-MAIN-20250802220907-20250803010907-{n:05}"


def line(n: int, kind: Kind = "wat") -> str:
    end = ".warc.wat.gz" if kind == "wat" else ".warc.gz"
    return f"crawl-data/{ID}/segments/1754151279521.{n % 3}/{kind}/{base(n)}{end}"


LINES = [line(n) for n in range(8)]


def touch(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"1")


def packed(lines: Sequence[str]) -> bytes:
    return gzip.compress("".join(f"{text}\n" for text in lines).encode())


def paths(sources: Sequence[Source]) -> list[str]:
    return [source.path for source in sources]


@pytest.fixture
def web() -> Iterator[stores.Files]:
    with stores.web() as files:
        yield files


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    waited: list[float] = []
    monkeypatch.setattr(patience, "_sleep", waited.append)
    return waited


# Files, folders, patterns ---------------------------------------------------------------------------------------------


def test_a_folder_gives_the_files_of_the_kind(tmp_path: Path) -> None:
    touch(
        tmp_path,
        "a/1.warc.wat.gz",
        "2.wat",
        "3.warc.gz",
        "4.arc.gz",
        "5.warc",
        "6.arc",
        "7.warc.wet.gz",
        "8.txt",
        "wat.paths.gz",
    )
    wat, arc = find([str(tmp_path)]), find([str(tmp_path)], "warc")
    assert [(s.path, s.stem) for s in wat] == [(f"{tmp_path}/2.wat", "2"), (f"{tmp_path}/a/1.warc.wat.gz", "a/1")]
    assert [s.stem for s in arc] == ["3", "4", "5", "6"]
    os.utime(tmp_path / "2.wat", (5, 5))
    assert find([str(tmp_path)])[0].digest == "2.wat:1:5.0"


def test_a_folder_of_the_other_kind_says_which_option_reads_it(tmp_path: Path) -> None:
    touch(tmp_path, "a/1.warc.gz", "b/1.warc.wat.gz", "c/1.txt")
    cases: list[tuple[str, Kind, str | None]] = [("a", "wat", "--from warc"), ("b", "warc", "--from wat"), ("c", "wat", None)]
    for folder, kind, fix in cases:
        with pytest.raises(InputError) as told:
            find([str(tmp_path / folder)], kind)
        assert told.value.fix == fix


def test_named_files_and_patterns_count_whatever_their_names_and_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    touch(tmp_path, "1.warc.wat.gz", "2.bin", "3.wat")
    (tmp_path / "l.txt").write_text("1.warc.wat.gz\n./3.wat\n")
    monkeypatch.chdir(tmp_path)
    given = ["1.warc.wat.gz", "./1.warc.wat.gz", f"{tmp_path}/?.*a*", f"file://{tmp_path}/2.bin", "2.bin", "l.txt"]
    assert [(s.path, s.stem) for s in find(given)] == [
        (f"{tmp_path}/1.warc.wat.gz", "1"),
        (f"{tmp_path}/2.bin", "2.bin"),
        (f"{tmp_path}/3.wat", "3"),
    ]


@pytest.mark.parametrize("given", ["none", "none/*.wat", "none.txt", "memory://none/x.wat"])
def test_what_names_nothing_is_told(tmp_path: Path, given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="no such file") as told:
        find([given])
    assert told.value.where == given


def test_two_files_of_one_name_are_told(tmp_path: Path) -> None:
    touch(tmp_path, "a/1.wat", "b/1.wat.gz", "b/.wat.gz")
    with pytest.raises(InputError, match=r"b/1\.wat\.gz: has the same name as .*a/1\.wat"):
        find([f"{tmp_path}/a/1.wat", f"{tmp_path}/b/1.wat.gz"])
    with pytest.raises(InputError, match="without a name of its own"):
        find([f"{tmp_path}/b/.wat.gz"])


def test_the_files_of_a_replay_are_named_like_those_of_an_extraction(tmp_path: Path) -> None:
    touch(tmp_path, "a/1.warc.gz", "2.arc")
    (tmp_path / "l.lst").write_text("x.warc\n")
    assert list_inputs([str(tmp_path), *2 * [f"{tmp_path}/l.lst"], f"{tmp_path}/a/1.warc.gz"], (".warc.gz",)) == [
        (f"{tmp_path}/a/1.warc.gz", str(tmp_path)),
        (f"{tmp_path}/x.warc", None),
    ]
    with pytest.raises(InputError, match="no input was given"):
        list_inputs([], (".warc",))


# Lists ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["l.paths", "l.paths.gz", "l.txt", "l.txt.gz", "l.lst"])
@pytest.mark.parametrize("root", ["{tmp}", "memory://lists"])
def test_a_list_names_files_that_nobody_looks_at(tmp_path: Path, name: str, root: str) -> None:
    root = root.format(tmp=tmp_path)
    text = (
        "\ufeff# a comment\n\n  a/1.wat  \r\nsub/../2.wat\n/abs/3.wat\ns3://b/x/4.wat\nhttps://h.example/5.wat?k=a/b.c\n1é.wat"
    )
    store.write_bytes(f"{root}/d/{name}", gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    expected = {
        "1": f"{root}/d/a/1.wat",
        "1é": f"{root}/d/1é.wat",
        "2": f"{root}/d/2.wat",
        "3": "/abs/3.wat",
        "4": "s3://b/x/4.wat",
        "5": "https://h.example/5.wat?k=a/b.c",
    }
    found = find([f"{root}/d/{name}"], "warc")
    assert {s.stem: s.path for s in found} == expected
    assert all(s.digest == s.path for s in found)


def test_stems_of_a_list_are_base_names_or_else_paths_below_what_is_common(tmp_path: Path) -> None:
    listed = tmp_path / "l.txt"
    listed.write_text("s3://b/c/x/1.wat.gz\ns3://b/c/y/2.wat.gz\n")
    assert [s.stem for s in find([str(listed)])] == ["1", "2"]
    listed.write_text("s3://b/c/x/1.wat.gz\ns3://b/c/y/1.wat\ns3://b/c/y/z/_2.wat\n")
    assert [s.stem for s in find([str(listed)])] == ["x/1", "y/1", "y/z/2"]
    listed.write_text("s3://b/1.wat.gz\nhttp://h/1.wat\n")
    assert [s.stem for s in find([str(listed)])] == ["b/1", "h/1"]
    listed.write_text("s3://b/1.wat.gz\ns3://b/1.wat\n")
    with pytest.raises(InputError, match="has the same name"):
        find([str(listed)])


def test_lines_of_a_crawls_own_list_are_relative_to_the_folder_above_crawl_data(tmp_path: Path) -> None:
    below, beside = tmp_path / LIST[1:], tmp_path / "mine.paths"
    below.parent.mkdir(parents=True)
    below.write_bytes(packed([LINES[0], "other/2.wat"]))
    beside.write_text(LINES[0])
    assert paths(find([str(below)])) == [f"{below.parent}/other/2.wat", f"{tmp_path}/{LINES[0]}"]
    assert paths(find([str(beside)])) == [f"{tmp_path}/{LINES[0]}"]
    store.write_bytes(f"memory:/{LIST}", packed(LINES[:1]))
    assert paths(find([f"memory:/{LIST}"])) == [f"memory://{LINES[0]}"]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "a list that names no file"),
        (b"# nothing\n\n", "a list that names no file"),
        (b"a.wat\nb.wat\tc\n", r"line 2: a control character \('\\t'\)"),
        (b"a.wat\n\nx\xff\n", r"line 3: not text in UTF-8"),
        ("a.wat\n".encode("utf-16"), r"line 1: not text in UTF-8"),
        (b"a.wat\n" + b"x" * 4097, "line 2: longer than 4,096 characters"),
        (b"a.wat\n" + "𝒳".encode() * 100_000, "line 2: longer than 4,096 characters"),
        (b"a.wat\nfolder/\n", "line 2: a folder"),
        (gzip.compress(b"a.wat\n" * 9000, mtime=0)[:-20], r"line \d+: broken gzip data"),
        (gzip.compress(b"a.wat\n", mtime=0)[:-8] + bytes(8), r"line 2: broken gzip data \(CRC"),
        (b"\x1f\x8b rubbish", "line 1: broken gzip data"),
        (gzip.compress(b"", mtime=0)[:10] + b"\xff" * 20, "line 1: broken gzip data .*invalid"),
    ],
)
def test_what_is_no_list_is_told_with_its_line(tmp_path: Path, content: bytes, problem: str) -> None:
    listed = tmp_path / "l.paths.gz"
    listed.write_bytes(content)
    with pytest.raises(InputError, match=problem) as told:
        find([str(listed)])
    assert told.value.where == str(listed)


def test_a_line_may_be_as_long_as_a_path(tmp_path: Path) -> None:
    (tmp_path / "l.txt").write_bytes(b"/" + "𝒳".encode() * 4095 + b"\r\n/b\n")
    assert len(find([str(tmp_path / "l.txt")])) == 2


# The web --------------------------------------------------------------------------------------------------------------


def test_a_file_on_the_web_is_a_source(web: stores.Files, waits: list[float], tmp_path: Path) -> None:
    content = wats.write(tmp_path / "1.wat.gz", [wats.numbered(n) for n in range(3)]).read_bytes()
    web.headers["ETag"] = '"abc"'
    url = web.put("/d/1.warc.wat.gz", content)
    (found,) = find([f"{url}?token=x/y"])
    assert found == Source(f"{url}?token=x/y", "1", f'y:{len(content)}:"abc"')
    with store.open_input(found.path) as file:
        targets = [r.target for r in warc.read(file) if isinstance(r, warc.Record)]
    assert targets == [f"http://e.example/page{n}" for n in range(3)]
    listed = web.put("/d/l.txt", b"1.warc.wat.gz\n/abs.wat\n")
    assert paths(find([listed])) == [url, "/abs.wat"]
    with pytest.raises(InputError, match=r"/none\.wat: no such file"):
        find([web.root + "/none.wat"])
    web.always["/d/1.warc.wat.gz"] = 403
    with pytest.raises(InputError, match=r"the store refuses it .*403"):
        find([url])
    assert waits == []


# Crawls ---------------------------------------------------------------------------------------------------------------


@pytest.fixture
def common(web: stores.Files) -> stores.Files:
    """A web server with a crawl's lists and one of its files."""
    web.put(LIST, packed(LINES))
    web.put(LIST.replace("wat.", "warc."), packed([line(n, "warc") for n in range(8)]))
    web.put("/" + LINES[3], b"".join(wats.members([wats.numbered(3)])))
    return web


def test_all_files_of_a_crawl_from_one_request(common: stores.Files) -> None:
    found = crawl([ID, ID], root=common.root + "/")
    assert sorted(paths(found)) == [f"{common.root}/{text}" for text in sorted(LINES)]
    assert [s.stem for s in found] == [base(n) for n in range(8)]
    assert all(s.digest == s.path for s in found)
    assert {path for _, path, _ in common.requests} == {LIST}
    assert [method for method, _, _ in common.requests].count("GET") == 1
    with store.open_input(found[3].path) as file:
        (record,) = warc.read(file)
    assert isinstance(record, warc.Record)
    assert record.target == "http://e.example/page3"


def test_a_crawl_lies_on_the_web_in_a_mirror_or_in_memory(common: stores.Files, tmp_path: Path) -> None:
    for root in (str(tmp_path), "memory://mirror"):
        store.write_bytes(store.join(root, LIST), common.content[LIST])
    roots = [common.root, str(tmp_path), f"{tmp_path}/", "memory://mirror"]
    samples = [crawl([ID], count=3, seed=1, root=root) for root in roots]
    assert [paths(s) for s in samples] == [[f"{r.rstrip('/')}/{line(n)}" for n in numbers(samples[0])] for r in roots]
    assert samples[0] == sample(crawl([ID], root=common.root), 3, 1) != crawl([ID], count=3, root=common.root)
    warcs = crawl([ID], "warc", 3, 1, common.root)
    assert paths(warcs) == [f"{common.root}/{line(n, 'warc')}" for n in numbers(samples[0])]


def numbers(sources: Sequence[Source]) -> list[int]:
    return [int(source.stem[-5:]) for source in sources]


def test_a_crawl_lies_on_s3(monkeypatch: pytest.MonkeyPatch) -> None:
    with stores.s3() as server:
        names = {"ENDPOINT_URL": server.url, "ACCESS_KEY_ID": "a", "SECRET_ACCESS_KEY": "b", "DEFAULT_REGION": "us-east-1"}
        for name, value in names.items():
            monkeypatch.setenv(f"AWS_{name}", value)
        fsspec.get_filesystem_class("s3").clear_instance_cache()
        fsspec.filesystem("s3").makedir("crawls")
        store.write_bytes(f"s3://crawls{LIST}", packed(LINES))
        store.write_bytes(f"s3://crawls/{LINES[3]}", b"".join(wats.members([wats.numbered(3)])))
        found = crawl([ID], root="s3://crawls/")
        assert sorted(paths(found)) == [f"s3://crawls/{text}" for text in sorted(LINES)]
        assert [(s.path, s.stem) for s in find(["s3://crawls/crawl-data"])] == [
            (found[3].path, LINES[3].removeprefix("crawl-data/").removesuffix(".warc.wat.gz"))
        ]
        with store.open_input(found[3].path) as file:
            assert [type(r) for r in warc.read(file)] == [warc.Record]
    fsspec.get_filesystem_class("s3").clear_instance_cache()


def test_two_crawls_are_sampled_as_one(tmp_path: Path) -> None:
    for name in (ID, "CC-MAIN-2012"):
        store.write_bytes(
            str(tmp_path / f"crawl-data/{name}/wat.paths.gz"), packed([f"crawl-data/{name}/{name}-{n}.wat" for n in range(5)])
        )
    assert len(crawl([ID, "CC-MAIN-2012"], root=str(tmp_path))) == 10
    assert len(crawl([ID, "CC-MAIN-2012"], count=7, root=str(tmp_path))) == 7


@pytest.mark.parametrize(
    "name", ["CC-MAIN-2025-3", "2025-33", "CC-MAIN-2025-33/..", "cc-main-2025-33", "CC-MAIN-20250802220907", ""]
)
def test_what_is_no_id_of_a_crawl_is_told(name: str) -> None:
    with pytest.raises(InputError, match=r"--crawl: .*expected a crawl's id, such as CC-MAIN-2025-33"):
        crawl([name], root="memory://nothing")


def test_a_crawl_that_is_not_there_is_told(common: stores.Files, waits: list[float], tmp_path: Path) -> None:
    common.always["/crawl-data/CC-MAIN-2024-22/wat.paths.gz"] = 403
    for name, root, why in [
        ("CC-MAIN-2025-99", common.root, "no such crawl here; expected a crawl's id, such as"),
        ("CC-MAIN-2024-22", common.root, r"no such crawl here \(the store refuses it \(ClientResponseError: 403"),
        (ID, str(tmp_path), "no such crawl here; expected"),
    ]:
        with pytest.raises(InputError, match=why) as told:
            crawl([name], root=root)
        assert told.value.where == f"{root}/crawl-data/{name}/wat.paths.gz"
    with pytest.raises(InputError, match="no crawl was named"):
        crawl([])
    assert waits == []


# T19
def test_a_crawls_list_is_waited_for(common: stores.Files, waits: list[float]) -> None:
    common.faults[LIST] = [503] * 4
    assert len(crawl([ID], root=common.root)) == 8
    assert waits == [1, 2]
    common.always[LIST] = 429
    with pytest.raises(WorkFailed, match=rf"{LIST}: gave up after 6 tries: ClientResponseError: 429"):
        crawl([ID], root=common.root)


def read_length(unit: engine.Unit) -> Outcome:
    """Writes how long a file is (`args` = its path, the file to write)."""
    path, target = unit.args
    store.write_bytes(target, str(len(store.read_bytes(path))).encode())
    return Outcome({"in": 1, "kept": 1})


# T19
def test_a_store_that_goes_on_failing_fails_its_file_and_no_other(
    common: stores.Files, waits: list[float], tmp_path: Path
) -> None:
    for n in (2, 4):
        common.put("/" + LINES[n], b"12345")
    common.faults["/" + LINES[2]] = [503] * 4
    common.always["/" + LINES[3]] = 503
    found = crawl([ID], root=common.root)[2:5]
    units = [engine.Unit(s.stem, s.digest, (s.path, str(tmp_path / s.stem))) for s in found]
    with pytest.raises(WorkFailed, match="1 of 3 units failed, 2 done") as told:
        engine.run(Run(str(tmp_path), "reads", 1, {}), units, read_length, engine.Options(workers=0, quiet=True))
    assert f"{base(3)}: {common.root}/{LINES[3]}: gave up after 6 tries: ClientResponseError: 503" in str(told.value)
    assert waits == [1, 2, 1, 2, 4, 8, 16]
    assert {f: (tmp_path / f).read_text() for f in store.list_files(str(tmp_path))} == {base(2): "5", base(4): "5"}


@pytest.mark.parametrize(
    ("path", "name"),
    [
        (f"https://data.commoncrawl.org/{LINES[0]}", ID),
        ("/mirror/CC-MAIN-2009-2010/segments/1.arc.gz", "CC-MAIN-2009-2010"),
        ("s3://commoncrawl/crawl-data/CC-MAIN-2012/segments/1.arc.gz", "CC-MAIN-2012"),
        ("CC-MAIN-2024-22-part.wat.gz", "CC-MAIN-2024-22"),
        ("CC-MAIN-20220924151538-20220924181538-00000.warc.wat.gz", None),
        ("/data/crawl/1.wat", None),
    ],
)
def test_which_crawl_a_path_names(path: str, name: str | None) -> None:
    assert crawl_of(path) == name


# Samples --------------------------------------------------------------------------------------------------------------

MASK = 2**64 - 1


def splitmix(x: int) -> int:
    """splitmix64 in whole numbers, after the reference in C."""
    z = (x + 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def key(stem: str, seed: int) -> int:
    halves = hashlib.md5(stem.encode()).digest()
    state = splitmix(seed & MASK)
    for half in (halves[:8], halves[8:]):
        state = splitmix(state ^ int.from_bytes(half, "big"))
    return state


def made_up(stems: Sequence[str]) -> list[Source]:
    return [Source(f"/p/{stem}.wat", stem, "") for stem in stems]


@pytest.mark.parametrize("seed", [0, 1, 12345])
def test_a_sample_has_the_smallest_hashes(seed: int) -> None:
    stems = [f"f{n}" for n in range(40)]
    expected = sorted(sorted(stems, key=lambda stem: key(stem, seed))[:7])
    assert [s.stem for s in sample(made_up(stems), 7, seed)] == expected


@given(
    stems=st.lists(st.text("abcé/\udcff", min_size=1, max_size=6), min_size=1, max_size=30, unique=True),
    seed=st.integers(0, 2**64 - 1),
    data=st.data(),
)
def test_samples_are_nested_without_repeats_and_independent_of_order(stems: list[str], seed: int, data: st.DataObject) -> None:
    sources = made_up(stems)
    more = data.draw(st.integers(1, len(stems)))
    fewer = data.draw(st.integers(1, more))
    large, small = sample(sources, more, seed), sample(data.draw(st.permutations(sources)), fewer, seed)
    assert (len(set(paths(large))), len(set(paths(small)))) == (more, fewer)
    assert set(small) <= set(large) <= set(sources)
    assert large == sample(data.draw(st.permutations(sources)), more, seed)


def test_another_seed_is_another_sample() -> None:
    sources = made_up([f"f{n}" for n in range(100)])
    assert len({tuple(paths(sample(sources, 10, seed))) for seed in range(20)}) == 20


@pytest.mark.parametrize("count", [0, -1, 4])
def test_a_sample_is_not_of_more_than_there_are(count: int) -> None:
    with pytest.raises(InputError, match="expected a number from 1 to 3, as many as there are"):
        sample(made_up(["a", "b", "c"]), count, 0)
