"""Training on the shards as they are, with a list, beside training on what resharding makes of them."""

from __future__ import annotations

import json
from collections import Counter
from itertools import islice
from pathlib import Path

import pytest

from pipeline.reshard.cost import Cost, estimate
from pipeline.reshard.job import reshard
from pipeline.reshard.settings import Settings
from pools import shards, uids
from pools.wanted import Taken, Wanted
from tests.pipeline.resharding import QUIET, uid, write_list, write_source
from tests.pipeline.test_cli import call


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """30 samples, with a second one for a uid, one whose key alone is a uid, and one without any."""
    folder = write_source(tmp_path / "shards", (10, 20))
    with shards.write(str(folder / "x.tar")) as out:
        out.add("again", {"jpg": b"2", "txt": b"t", "json": json.dumps({"uid": uid(3)}).encode()})
        out.add(uid(40), {"jpg": b"3", "txt": b"t"})
        out.add("nobody", {"jpg": b"4", "txt": b"t"})
    return folder


WANTED = (1, 3, 3, 11, 12, 12, 12, 40, 500)


# T96
def test_a_list_on_the_old_shards_gives_the_samples_that_resharding_writes(tmp_path: Path, source: Path) -> None:
    listed = write_list(tmp_path, *WANTED)
    reshard(str(source), listed, str(tmp_path / "out"), settings=Settings(shard_size=3), options=QUIET)
    wanted = Wanted.open(listed)
    taken = Taken(len(wanted))
    direct: list[bytes] = []
    for path in shards.list_shards(str(source)):
        with Path(path).open("rb") as f:
            for sample, copies in shards.listed(f, shards.samples(path), wanted, taken):
                direct += [shards.read(f, sample, "jpg")] * copies
    copied = [parts["jpg"] for path in shards.list_shards(str(tmp_path / "out")) for _, parts in shards.read_all(path)]
    assert Counter(direct) == Counter(copied)
    assert len(direct) == 8


# T96
def test_the_trainer_sees_the_same_samples_either_way(tmp_path: Path, source: Path) -> None:
    data = pytest.importorskip("baselines.train.data")
    listed = write_list(tmp_path, *WANTED)
    out = tmp_path / "out"
    reshard(str(source), listed, str(out), options=QUIET)
    order, reading = (pytest.importorskip(f"baselines.train.{name}") for name in ("order", "reading"))
    direct = data.survey(data.list_shards(str(source)), listed=uids.read_list(listed))
    copied = data.survey(data.list_shards(str(out)))
    plans = [reading.Plan(found, order.Order(found.shards, 0), 0, 1) for found in (direct, copied)]
    seen = [Counter(reading.Reader().read(item).uid for item in islice(plan, 16)) for plan in plans]
    assert seen[0] == seen[1] == Counter({uid(n): 2 * WANTED.count(n) for n in (1, 3, 11, 12, 40)})


def test_the_plan_says_from_when_on_a_copy_pays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = write_source(tmp_path / "shards", (10, 20))
    listed = write_list(tmp_path, 1, 2, 2)
    cost = estimate(str(source), listed, Settings(), QUIET)
    # 30 samples of 3,072 bytes, a header's page of 8,192 looked at for each; two are wanted, three entries.
    assert cost.kept == pytest.approx(2 / 30)
    assert (cost.pass_on_list, cost.disk) == (30 * 8192 + 2 * 3072, 3 * 3072)
    assert (cost.pass_on_copy, cost.copying) == (3 * 3072 + 3 * 8192, 30 * 8192 + 2 * 3072 + 3 * 3072)
    assert cost.even == pytest.approx(cost.copying / (cost.pass_on_list - cost.pass_on_copy))
    assert not cost.copy_pays
    command = ("reshard", str(source), listed, "--plan", "--samples-seen")
    status, said, _ = call(monkeypatch, capsys, *command, "3")
    assert status == 0
    assert "3 entries, 6.7 % of the samples" in said
    assert "→ train on the shards as they are: winnow train --uids LIST" in said
    assert "→ reshard, then train on the copy" in call(monkeypatch, capsys, *command, "30")[1]
    told = json.loads(call(monkeypatch, capsys, *command, "30", "--json")[1])
    assert (told["passes"], told["copy_pays"]) == (10.0, True)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["list.npy", "list.npy.json", "shards"]


def test_where_nothing_is_saved_a_copy_never_pays() -> None:
    cost = Cost(1, 1, 100, 1, 1.0, 100, 100, 120, 200, 1000.0)
    assert cost.even is None
    assert not cost.copy_pays
    assert "in no number of passes" in cost.told(json=False)


def test_a_plan_for_many_shards_looks_at_some(tmp_path: Path) -> None:
    source = write_source(tmp_path / "shards", (2,) * 40)
    cost = estimate(str(source), write_list(tmp_path, *range(1, 41)), Settings(), QUIET)
    assert (cost.shards, cost.looked_at) == (40, 16)
    assert 0 < cost.kept < 1
    assert "(from 16 of 40 shards)" in cost.told(json=False)
