"""`winnow uids`: samples, what is said of a list, what is wrong with it, and lists of two kinds."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pools import uid_files, uids
from tests.pipeline.test_cli import call

SPREAD = [f"{i * 0x9E3779B97F4A7C15 % 2**64:016x}{i:016x}" for i in range(100)]


Sample = Callable[..., tuple[int, list[str], str, str]]


@pytest.fixture
def winnow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Sample:
    """`winnow uids sample ARGS` in a folder with `all.npy`: exit status, uids of `out.npy`, standard output, standard error."""
    monkeypatch.chdir(tmp_path)
    uids.write_list("all.npy", uids.pack(SPREAD))

    def run(*args: str) -> tuple[int, list[str], str, str]:
        Path("out.npy").unlink(missing_ok=True)
        status, out, err = call(monkeypatch, capsys, "uids", "sample", "all.npy", "--output", "out.npy", *args)
        found = uids.unpack(uid_files.read("out.npy")).to_pylist() if Path("out.npy").exists() else []
        return status, found, out, err

    return run


def by_hash(seed: int) -> list[str]:
    return sorted(SPREAD, key=lambda u: int(uids.hash64(uids.pack([u]), seed)[0]))


def test_a_sample_is_the_uids_with_the_smallest_hashes(winnow: Sample) -> None:
    assert winnow("--count", "7")[1:3] == (sorted(by_hash(0)[:7]), "out.npy: 7 of 100 uids\n")
    assert winnow("--fraction", "0.29", "--seed", "4")[1] == sorted(by_hash(4)[:29])  # 0.29 · 100 is 28.999… with doubles
    assert winnow("--fraction", "0.299")[1] == sorted(by_hash(0)[:29])
    assert winnow("--fraction", "1")[1] == winnow("--count", "100")[1] == sorted(SPREAD)
    assert winnow("--fraction", "0")[1] == winnow("--count", "0")[1] == []
    assert uids.read_info("out.npy") == uids.ListInfo("keep", 0, None)


def test_repeats_are_entries_of_their_own(winnow: Sample) -> None:
    first, second, third = by_hash(0)[:3]
    uids.write_list("all.npy", uids.pack([first, second, second, second, third]))
    assert winnow("--count", "1")[1] == [first]
    assert winnow("--count", "3")[1] == sorted([first, second, second])
    assert winnow("--count", "5")[1] == sorted([first, second, second, second, third])


def test_a_list_to_remove_stays_one(winnow: Sample) -> None:
    uid_files.write("all.npy", uids.pack(SPREAD), kind="remove")
    winnow("--count", "5")
    assert uids.read_info("out.npy").kind == "remove"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((), "--count, --fraction: one of the two says how many; expected exactly one of them"),
        (("--count", "5", "--fraction", "0.5"), "expected exactly one of them"),
        (("--count", "101"), "--count: 101; expected 0 to 100, which is what all.npy has"),
        (("--count", "-1"), "--count: -1; expected 0 to 100"),
        (("--fraction", "1.5"), "--fraction: 1.5; expected a number from 0 to 1"),
        (("--fraction", "nan"), "--fraction: nan; expected a number from 0 to 1"),
    ],
)
def test_a_number_that_cannot_be_is_refused(winnow: Sample, args: tuple[str, ...], message: str) -> None:
    status, found, _, err = winnow(*args)
    assert (status, found) == (2, [])
    assert message in err


Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """`winnow uids ARGS` in an empty folder: exit status, standard output, standard error."""
    monkeypatch.chdir(tmp_path)
    return lambda *args: call(monkeypatch, capsys, "uids", *args)


def small(*numbers: int) -> uids.Uids:
    return uids.pack([f"{n:032x}" for n in numbers])


def numbers(path: str) -> list[int]:
    return [int(u, 16) for u in uids.unpack(uid_files.read(path)).to_pylist()]


def test_what_a_list_holds_is_said(lists: Command) -> None:
    np.save("a.npy", small(5, 1, 1, 1, 7, 7))
    status, said, _ = lists("info", "a.npy")
    assert status == 0
    assert "uids      6\n" in said
    assert "distinct  3 (2 uids stand there more than once, up to 3 times)" in said
    assert "sorted    no: row 1 is smaller" in said
    told = json.loads(lists("info", "a.npy", "--json")[1])
    assert told == {
        **{"path": "a.npy", "kind": "keep", "uids": 6, "distinct": 3, "repeated": 2, "most_repeats": 3, "sorted": False},
        **{"bytes": 128 + 6 * 16, "smallest": f"{1:032x}", "greatest": f"{7:032x}", "recipe": None},
    }
    np.save("empty.npy", small())
    assert json.loads(lists("info", "empty.npy", "--json")[1])["distinct"] == 0


def test_the_head_is_in_the_order_of_the_file(lists: Command) -> None:
    np.save("a.npy", small(5, 1, 1, 7))
    assert lists("head", "a.npy", "-n", "3")[1] == f"{5:032x}\n{1:032x}\n{1:032x}\n"
    Path("a.csv").write_text(f"md5\n{3:032X}\n{2:032X}\n")
    assert lists("head", "a.csv", "--column", "md5")[1] == f"{3:032x}\n{2:032x}\n"


def test_what_is_wrong_with_a_list_is_said_with_the_way_to_mend_it(lists: Command) -> None:
    np.save("a.npy", small(5, 1, 7, 6, 2))
    Path("a.npy.json").write_text('{"kind": "keep", "count": 4}')
    status, _, said = lists("verify", "a.npy")
    assert status == 2
    assert "row 1 is smaller than row 0, and 2 more rows likewise; expected uids in sorted order" in said
    assert "winnow uids convert a.npy --output SORTED.npy" in said
    assert "a.npy: 5 uids; expected 4, as its sidecar says" in said
    assert lists("convert", "a.npy", "--output", "sorted.npy")[0] == 0
    assert lists("verify", "sorted.npy")[:2] == (0, "sorted.npy: 5 uids of dtype u8,u8, sorted\n")
    np.save("text.npy", np.array([f"{3:032x}", f"{4:032x}"]))
    status, _, said = lists("verify", "text.npy")
    assert (status, "uids as text, or as other words" in said, "SORTED.npy" in said) == (2, True, True)
    Path("a.txt").write_text(f"{3:032x}\n{2:032x}\n")
    assert lists("verify", "a.txt")[:2] == (0, "a.txt: 2 uids, not sorted, which only .npy need be\n")
    Path("a.txt").write_text(f"{3:032x}\n{2:031x}\n")
    assert "line 2" in lists("verify", "a.txt")[2]


def test_lists_are_compared(lists: Command) -> None:
    np.save("a.npy", small(1, 2, 2, 3, 4, 4))
    np.save("b.npy", small(4, 4, 3, 3, 2, 2, 9, 8))
    status, said, _ = lists("diff", "a.npy", "b.npy")
    assert status == 1
    assert f"only in a.npy  1: {1:032x}\n" in said
    assert f"only in b.npy  2: {8:032x}, {9:032x}\n" in said
    assert "in both  3\n" in said
    assert "not equally often  1\n" in said
    told = {"only_in_first": 1, "only_in_second": 2, "in_both": 3, "unequally_often": 1, "same": False}
    assert json.loads(lists("diff", "a.npy", "b.npy", "--json")[1]) == told
    lists("convert", "b.npy", "--output", "b.csv")
    assert lists("diff", "b.npy", "b.csv")[0] == 0
    np.save("many.npy", small(*range(10, 17)))
    assert f"{14:032x}, …\n" in lists("diff", "many.npy", "a.npy")[1]


# T71
def test_repeats_are_counted_on_request_and_added_up(lists: Command) -> None:
    np.save("a.npy", small(1, 2, 2, 2, 3))
    np.save("b.npy", small(2, 2, 3, 3, 5))  # unsorted lists are sorted first
    np.save("c.npy", small(5, 2))
    for command, expected in {
        "union a.npy b.npy": [1, 2, 3, 5],
        "union a.npy b.npy --counted": [1, 2, 2, 2, 3, 3, 5],
        "intersect a.npy b.npy --counted": [2, 2, 3],
        "intersect a.npy b.npy c.npy": [2],
        "minus a.npy b.npy": [1],
        "minus a.npy b.npy --counted": [1, 2],
        "minus a.npy c.npy b.npy --counted": [1],
        "add a.npy c.npy c.npy": [1, 2, 2, 2, 2, 2, 3, 5, 5],
        "union a.npy": [1, 2, 3],
    }.items():
        assert lists(*command.split(), "--output", "out.parquet")[0] == 0
        assert numbers("out.parquet") == expected, command
    assert sorted(p.name for p in Path().iterdir()) == ["a.npy", "b.npy", "c.npy", "out.parquet"]


def test_lists_in_a_store_are_combined(lists: Command) -> None:
    uids.write_list("memory://combined/a.npy", small(1, 2))
    np.save("b.npy", small(3, 2))
    assert lists("union", "memory://combined/a.npy", "b.npy", "--output", "memory://combined/out.csv")[0] == 0
    assert numbers("memory://combined/out.csv") == [1, 2, 3]


# T77
def test_lists_to_keep_and_to_remove_are_not_mixed_up(lists: Command) -> None:
    uids.write_list("keep.npy", small(1, 2, 3))
    uids.write_list("gone.npy", small(2), kind="remove")
    for operation in ("union", "intersect", "add"):
        status, _, said = lists(operation, "keep.npy", "gone.npy", "--output", "out.npy")
        assert (status, "gone.npy: lists of two kinds" in said, "winnow uids minus KEEP REMOVE" in said) == (2, True, True)
    assert lists("minus", "keep.npy", "gone.npy", "--output", "out.npy")[0] == 0
    assert (numbers("out.npy"), uids.read_info("out.npy").kind) == ([1, 3], "keep")
    assert lists("add", "gone.npy", "gone.npy", "--output", "out.npy")[0] == 0
    assert uids.read_info("out.npy") == uids.ListInfo("remove", 2)
    assert lists("convert", "keep.npy", "--kind", "remove", "--output", "out.txt")[0] == 0
    assert uids.read_info("out.txt").kind == "remove"


def test_a_recipe_s_list_still_says_so_when_it_was_converted(lists: Command) -> None:
    uids.write_list("a.npy", small(1), recipe="abc")
    lists("convert", "a.npy", "--output", "b.npy")
    assert uids.read_info("b.npy") == uids.ListInfo("keep", 1, "abc")


# Says how much memory this very process took at most, which `resource` does not: there the parent's counts as well.
WATCHED = """
import atexit, sys
from pipeline.cli import main
atexit.register(lambda: print(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")), file=sys.stderr))
main()
"""


@pytest.mark.slow
def test_long_lists_take_no_more_memory_than_short_ones(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for name in "ab":
        np.save(tmp_path / f"{name}.npy", rng.integers(0, 2**64, (12_000_000, 2), np.uint64).view(uids.UID).reshape(-1))
    for command in ("convert a.npy", "union a.npy b.npy --counted", "info b.npy", "sample a.npy --count 7000000"):
        arguments = ["uids", *command.split(), *([] if "info" in command else ["--output", "out.npy"])]
        program = [sys.executable, "-c", WATCHED, *arguments]
        done = subprocess.run(program, cwd=tmp_path, check=True, capture_output=True, text=True)
        megabytes = int(done.stderr.split()[-2]) >> 10
        assert megabytes < 250, command  # the lists are 192 MB each
