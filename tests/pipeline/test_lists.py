"""`winnow uids sample`: which entries of a list, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

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
