"""`winnow pool subset`: lists and pools of some of a pool's rows."""

from __future__ import annotations

import json
import shutil
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from pipeline.engine import Options
from pipeline.pool.subset import choose, list_subset, materialise
from pipeline.pool.verify import verify
from pools import uids
from pools.layout import Pool
from pools.subsets import Within
from tests.pipeline.made_pools import features, make_pool, picture, samples, uid
from tests.pipeline.test_cli import call

HERE = Options(workers=0, quiet=True)


def inside(numbers: list[int], fraction: Fraction) -> list[int]:
    kept = Within(fraction).keep(uids.pack([uid(i) for i in numbers]))
    return [i for i, k in zip(numbers, kept.tolist(), strict=True) if k]


def test_a_list_holds_the_rows_of_the_subset(tmp_path: Path) -> None:
    root = make_pool(tmp_path / "pool", {"a": list(range(50)), "b": [*range(50, 90), 3, 3]}, tars=False)
    pool, half = Pool.open(str(root)), Within(Fraction(1, 2))
    path = str(tmp_path / "half.npy")
    outcome = list_subset(pool, half, path, HERE)
    expected = sorted(uid(i) for i in inside([*range(90), 3, 3], Fraction(1, 2)))
    assert uids.unpack(uids.read_list(path)).to_pylist() == expected
    assert outcome.counts == {"in": 92, "kept": len(expected), "dropped:not_in_subset": 92 - len(expected)}
    assert sorted(p.name for p in tmp_path.iterdir()) == ["half.npy", "half.npy.json", "pool"]


def test_the_pool_s_files_and_the_workers_make_no_difference(tmp_path: Path) -> None:
    one = make_pool(tmp_path / "one", {"a": list(range(60))}, tars=False)
    two = make_pool(tmp_path / "two", {"x": list(range(30, 60)), "y": list(range(30))}, tars=False)
    found = []
    for root, workers in ((one, 0), (two, 2)):
        path = tmp_path / f"{root.name}.npy"
        list_subset(Pool.open(str(root)), Within(Fraction(1, 3)), str(path), Options(workers=workers, quiet=True))
        found.append(path.read_bytes())
    assert found[0] == found[1]


def test_a_pool_of_the_subset(tmp_path: Path) -> None:
    root = make_pool(tmp_path / "pool", {"a": list(range(20)), "sub/b": list(range(20, 30))})
    half = Within(Fraction(1, 2))
    out = tmp_path / "half"
    outcome = materialise(Pool.open(str(root)), half, str(out), HERE)
    a, b = inside(list(range(20)), half.fraction), inside(list(range(20, 30)), half.fraction)
    assert 0 < len(a) < 20
    assert outcome.counts["kept"] == outcome.counts["samples_kept"] == len(a + b)
    assert samples(out / "shards") == {
        "a.tar": [(uid(i), picture(i)) for i in a],
        "sub/b.tar": [(uid(i), picture(i)) for i in b],
    }
    for stem, kept in (("a", a), ("sub/b", b)):
        assert pq.read_table(out / "metadata" / f"{stem}.parquet")["text"].to_pylist() == [f"text {i}" for i in kept]
        assert (np.load(out / "annotations/b32" / f"{stem}.npz")["b32_img"] == features(kept)).all()
        old, new = (pq.read_schema(p / "annotations/b32" / f"{stem}.parquet") for p in (root, out))
        assert old.equals(new, check_metadata=True)  # the model is still named
    assert verify(Pool.open(str(out)), options=HERE).problems == ()
    assert materialise(Pool.open(str(root)), half, str(out), HERE) == outcome
    everything = tmp_path / "all"
    materialise(Pool.open(str(root)), Within(Fraction(1)), str(everything), HERE)
    assert (everything / "shards/a.tar").samefile(root / "shards/a.tar")


@pytest.mark.parametrize(
    ("given", "fraction"),
    [
        ({"fraction": 0.1}, Fraction(1, 10)),
        ({"scale": "small", "of": "xlarge"}, Fraction(1, 1000)),
        ({"scale": "medium", "of": "xlarge"}, Fraction(1, 100)),
        ({"scale": "tiny"}, Fraction(12_000, 24_000)),
    ],
)
def test_how_much_is_asked_for(tmp_path: Path, given: dict[str, object], fraction: Fraction) -> None:
    (tmp_path / "p").mkdir()
    shutil.copy(
        make_pool(tmp_path / "one", {"a": list(range(240))}, annotation=None, tars=False) / "metadata/a.parquet",
        tmp_path / "p/0.parquet",
    )
    for i in range(1, 100):
        (tmp_path / f"p/{i}.parquet").symlink_to(tmp_path / "p/0.parquet")
    asked = {"fraction": None, "scale": None, "of": None, **given}
    assert choose(Pool.open(str(tmp_path / "p")), **asked).fraction == fraction  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ("", "--fraction, --scale: one of the two"),
        ("--fraction 0.1 --scale small", "exactly one of them"),
        ("--fraction 0", "--fraction: 0"),
        ("--fraction 0.1 --of small", "--of: a fraction is of every pool"),
        ("--scale small", "small has 12,800,000 rows; expected a smaller scale"),
        ("--scale large --of small", "small has 12,800,000"),
        ("--scale huge", "unknown scale 'huge'"),
        ("--fraction 0.5 --output out.txt", "out.txt; expected a list, .npy; or --materialise"),
    ],
)
def test_mistakes(
    args: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = make_pool(tmp_path / "pool", {"a": [1, 2]}, tars=False)
    given = ["--output", "out.npy", *args.split()]
    status, _, said = call(monkeypatch, capsys, "pool", "subset", str(root), "--workers", "0", *given)
    assert (status, message in said) == (2, True), said


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    root = str(make_pool(tmp_path / "pool", {"a": list(range(20))}))
    given = ("pool", "subset", root, "--workers", "0", "--fraction", "0.5", "--json")
    kept = len(inside(list(range(20)), Fraction(1, 2)))
    for more in (["--output", str(tmp_path / "l.npy")], ["--materialise", "--output", str(tmp_path / "half")]):
        status, said, _ = call(monkeypatch, capsys, *given, *more)
        assert (status, json.loads(said)["counts"]["kept"]) == (0, kept)
