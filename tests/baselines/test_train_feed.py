"""The trainer's batches: where a feed stands, who decodes, what cannot be used."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch

from baselines.train import order as orders
from baselines.train.data import list_shards, survey
from baselines.train.decode import Decoder
from baselines.train.feed import Feed, FeedState, beside
from baselines.train.order import Order, Shard
from baselines.train.reading import Plan, Reader
from pools.errors import InputError, WorkFailed
from tests.baselines.conftest import sample, uid, write_shard, write_shards
from tests.baselines.feeding import brightness, feed, lengths, reads, transform

# Where a feed stands ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sampling", ["passes", "replacement"])
def test_a_feed_goes_on_with_the_very_next_sample(tmp_path: Path, sampling: orders.Sampling) -> None:  # T102
    members = {uid(i): sample(i) for i in range(50)}
    members[uid(7)]["png"] = b"broken"
    members[uid(8)]["txt"] = b""
    data = write_shard(tmp_path / "d" / "0.tar", members)

    def opened(start: FeedState | None = None) -> Feed:
        return feed(data, seed=3, max_failed=0.5, sampling=sampling, rank=1, world=2, start=start)

    straight, first = opened(), opened()
    for _ in range(5):
        straight.take(13)
        first.take(13)
    kept = json.loads(json.dumps(asdict(first.state())))
    again = opened(FeedState(**kept))
    for _ in range(5):
        a, b = straight.take(13), again.take(13)
        assert a.uids == b.uids and torch.equal(a.images, b.images) and torch.equal(a.tokens, b.tokens)
    assert straight.state() == again.state() and straight.failed == again.failed
    assert (straight.kept, straight.unique, straight.rounds) == (again.kept, again.unique, again.rounds)
    assert again.kept == 130 and again.failed.total() > 1 and 20 < again.unique < 49
    with pytest.raises(InputError, match="begun by 2 processes, here are 1"):
        feed(data, start=FeedState(**kept))


def test_what_came_before_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = write_shards(tmp_path / "d", list(range(30)))
    one = feed(data)
    one.take(21)
    state = one.state()
    read = reads(monkeypatch)
    assert feed(data, start=state).take(3).uids == read[1:4]  # the first is looked at before the training


@pytest.mark.slow
def test_workers_change_nothing(tmp_path: Path) -> None:  # T99, T100
    data = write_shards(tmp_path / "seven", list(range(7)))  # one shard, fewer samples than a worker's share
    feeds = [feed(data, workers=w, rank=1, world=2, ahead=100) for w in (0, 2, 4)]
    for _ in range(40):
        a, *others = (f.take(20) for f in feeds)
        for b in others:
            assert a.uids == b.uids
            assert torch.equal(a.images, b.images) and torch.equal(a.tokens, b.tokens)
    assert [f.kept for f in feeds] == [800] * 3
    for f in feeds:
        f.close()


def test_augmentation_differs_between_passes_and_leaves_the_global_generator_alone(tmp_path: Path) -> None:
    data = write_shards(tmp_path / "one", [0])
    for decoder in (Decoder(brightness, lengths), Decoder(transform(8), lengths, uint8=True)):
        one = feed(data, decoder=decoder)
        torch.manual_seed(7)
        before = torch.get_rng_state()
        batch = one.take(3)
        assert torch.equal(torch.get_rng_state(), before)
        assert len({tuple(i.flatten().tolist()) for i in batch.images}) == 3


def test_a_thread_beside_changes_nothing_and_hands_on_what_goes_wrong(tmp_path: Path) -> None:
    data = write_shards(tmp_path / "d", list(range(40)))
    alone, ahead = (feed(data, decoder=Decoder(transform(8), lengths, uint8=True), ahead=n) for n in (0, 64))
    for n in (1, 50, 33):
        a, b = alone.take(n), ahead.take(n)
        assert a.uids == b.uids and torch.equal(a.images, b.images)
    ahead.close()

    def failing() -> Iterator[Any]:
        yield "a chunk"
        raise WorkFailed("no more")

    chunks: Iterator[Any] = beside(failing(), 1)
    assert next(chunks) == "a chunk"
    with pytest.raises(WorkFailed, match="no more"):
        next(chunks)


# Counting -----------------------------------------------------------------------------------------------------------------


def test_counts_come_from_the_statistics_where_there_are_some(tmp_path: Path) -> None:
    data = write_shards(tmp_path / "d", list(range(30)), size=10)
    for i, told in enumerate(({"successes": 10}, {"successes": 12}, {"count": 5})):
        Path(data, f"{i:08d}_stats.json").write_text(json.dumps(told))
    found = survey(list_shards(data))
    assert [s.count for s in found.shards] == [10, 12, 10]
    one = feed(data, max_failed=0.5)
    assert sorted(one.take(30).uids) == [uid(i) for i in range(30)]
    one.take(30)
    assert one.failed == {"missing_sample": 4} or one.failed == {"missing_sample": 3}
    assert list(one.problems) == [list_shards(data)[1]]
    assert "holds 10 samples, and not 12 as its _stats.json says" in one.problems[list_shards(data)[1]]


def test_a_shard_that_was_cut_after_it_was_counted_is_counted_by_its_samples(tmp_path: Path) -> None:
    data = write_shards(tmp_path / "d", list(range(20)))
    one = feed(data, max_failed=0.9)
    path = Path(list_shards(data)[0])
    item = next(iter(Plan(survey([str(path)]), Order([Shard("", 20)], 0), 0, 1)))
    path.write_bytes(path.read_bytes()[: item.parts[0][0] + 5])
    assert Reader().read(item).failed == "cut_shard"
    one.take(1)
    assert set(one.failed) <= {"missing_sample", "cut_shard"} and one.failed and one.problems


def test_corrupt_samples_are_counted_up_to_a_budget_on_every_rank(tmp_path: Path) -> None:  # T104
    def data(name: str, broken: int) -> str:
        members = {uid(i): sample(i) for i in range(20)}
        for i in range(broken):
            members[uid(i)]["png"] = members[uid(i)]["png"][:60]
        return write_shard(tmp_path / name / "0.tar", members)

    two = [feed(data("two", 2), rank=r, world=2, max_failed=0.25) for r in range(2)]
    for f in two:
        f.take(100)
    assert all(f.kept == 100 and f.failed["undecodable"] >= 1 for f in two)
    assert sum(f.unique for f in two) == 18
    for rank in range(2):
        with pytest.raises(WorkFailed, match=r"\d+ of \d+ samples cannot be used, more than the 10% allowed: undecodable"):
            feed(data("fifteen", 15), rank=rank, world=2).take(50)
        with pytest.raises(WorkFailed, match="no sample can be used"):
            feed(data("all", 20), rank=rank, world=2, max_failed=1.0).take(1)
