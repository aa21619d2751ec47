"""Who owns a folder, what is done, and counts that add up."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pools import manifest
from pools.errors import InputError, WorkFailed
from pools.manifest import Outcome, Run


def make(tmp_path: Path) -> Run:
    return Run(str(tmp_path / "out"), "filter", 1, {"recipe": "a", "sizes": (1, 2)}, ("in:1",))


def test_a_folder_belongs_to_the_run_that_claimed_it(tmp_path: Path) -> None:
    run = make(tmp_path)
    run.claim()
    run.claim()
    others = {
        "stage filter, this is reshard": replace(run, stage="reshard"),
        "stage version 1, this is 2": replace(run, version=2),
        "its recipe is 'a', here 'b'": replace(run, options={"recipe": "b", "sizes": [1, 2]}),
        "input files are others": replace(run, inputs=("in:2",)),
    }
    for message, other in others.items():
        with pytest.raises(InputError, match=f"belongs to another run .*{message}"):
            other.claim()


def test_parts_of_a_run_may_begin_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other part claims the folder and writes between this one's two looks at it."""
    run = make(tmp_path)
    look = manifest.owner_of
    looks = iter([True, False])

    def meanwhile(folder: str) -> dict[str, Any] | None:
        found = look(folder)
        if next(looks, False):
            run.claim()
            (tmp_path / "out" / "0.parquet").write_bytes(b"rows")
        return found

    monkeypatch.setattr(manifest, "owner_of", meanwhile)
    run.claim()
    assert look(run.output) == run.identity


def test_a_folder_with_files_of_somebody_else_is_never_touched(tmp_path: Path) -> None:
    run = make(tmp_path)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("years of work")
    for overwrite in (False, True):
        with pytest.raises(InputError, match="was not made by winnow"):
            run.claim(overwrite=overwrite)
    assert (tmp_path / "out" / "thesis.txt").read_text() == "years of work"


def test_overwriting_replaces_another_run(tmp_path: Path) -> None:
    make(tmp_path).claim()
    (tmp_path / "out" / "uids.npy").write_bytes(b"old")
    replace(make(tmp_path), version=2).claim(overwrite=True)
    assert not (tmp_path / "out" / "uids.npy").exists()


def test_done_means_the_same_run_with_its_manifest(tmp_path: Path) -> None:
    run = make(tmp_path)
    assert run.finished() is None
    run.claim()
    assert run.finished() is None
    run.finish(Outcome({"in": 1, "kept": 1}))
    manifest = run.finished()
    assert manifest is not None
    assert manifest["counts"] == {"in": 1, "kept": 1}
    assert manifest["format_version"] == 1
    assert replace(run, version=2).finished() is None


def test_a_unit_is_done_only_for_the_input_it_was_done_from(tmp_path: Path) -> None:
    run = make(tmp_path)
    run.claim()
    run.mark("a/b", "in:1", Outcome({"in": 2, "kept": 2}, ("cut",)))
    assert run.done("a/b", "in:1") == Outcome({"in": 2, "kept": 2}, ("cut",))
    assert run.done("a/b", "in:2") is None
    assert run.done("a/c", "in:1") is None


def test_a_lost_row_is_a_failure() -> None:
    Outcome({"in": 3, "kept": 1, "dropped:a": 1, "failed:b": 1, "records": 9}).check()
    with pytest.raises(WorkFailed, match="rows were lost: 3 in, 2 out"):
        Outcome({"in": 3, "kept": 1, "dropped:a": 1}).check()
