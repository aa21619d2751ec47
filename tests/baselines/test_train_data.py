"""The trainer's data: which samples, in which order, on which rank."""

from __future__ import annotations

import json
from collections import Counter
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from baselines.train import order as orders
from baselines.train import reading
from baselines.train.captions import caption_of
from baselines.train.data import list_shards, read_uids, survey, weigh_shards
from baselines.train.order import Order, Shard
from baselines.train.reading import Plan
from pools import shards, uids
from pools.errors import InputError
from tests.baselines.conftest import sample, uid, write_shard, write_shards
from tests.baselines.feeding import feed, names, reads

# Which samples, in which order --------------------------------------------------------------------------------------------


def test_each_pass_has_every_sample_once_in_another_order(squares: str) -> None:  # T110
    found = survey(list_shards(squares))
    row = names(found, 180)
    passes = [row[:60], row[60:120], row[120:]]
    assert all(sorted(p) == [uid(i) for i in range(60)] for p in passes)
    assert passes[0] != passes[1] != passes[2] and passes[0] != sorted(passes[0])
    assert row == names(found, 180)
    assert row != names(found, 180, seed=1)


@pytest.mark.parametrize("sampling", ["passes", "replacement"])
@pytest.mark.parametrize("world", [2, 3])
def test_ranks_share_what_one_process_sees(tmp_path: Path, sampling: orders.Sampling, world: int) -> None:  # T99, T110
    found = survey(list_shards(write_shards(tmp_path / "d", list(range(22)), size=5)))  # 5 shards
    alone = names(found, 66, sampling=sampling)
    ranks = [names(found, 66 // world, rank=r, world=world, sampling=sampling) for r in range(world)]
    batch = 6 // world
    for at in range(11):
        parts = [r[at * batch : (at + 1) * batch] for r in ranks]
        assert Counter(u for p in parts for u in p) == Counter(alone[at * 6 : at * 6 + 6])
    if sampling == "passes":
        shares = [set(r[: 22 // world]) for r in ranks]
        assert all(not a & b for i, a in enumerate(shares) for b in shares[:i])


def test_a_rank_reads_only_its_own_samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = write_shards(tmp_path / "d", list(range(20)))
    one = feed(data, rank=1, world=2)
    read = reads(monkeypatch)
    assert sorted(one.take(10).uids) == sorted(read[:10])
    assert not set(read[:10]) & set(feed(data, rank=0, world=2).take(10).uids)


def test_only_what_is_needed_soon_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = survey(list_shards(write_shards(tmp_path / "d", list(range(60)), size=5)))
    monkeypatch.setattr(orders, "GROUP", 10)
    monkeypatch.setattr(reading, "HELD", 0)
    plan = Plan(found, Order(found.shards, 0), 0, 1)
    most, seen = 0, []
    for item in islice(plan, 180):
        seen.append(item.key)
        most = max(most, len(plan._held))
    assert sorted(seen) == sorted(3 * [uid(i) for i in range(60)])
    assert most <= 6  # of 12 shards: the groups of 10 samples that are read, come next, and were before


def test_fewer_samples_than_ranks_and_workers_hang_nothing(tmp_path: Path) -> None:  # T99
    data = write_shards(tmp_path / "one", [4])
    write_shard(tmp_path / "one" / "empty.tar", {})
    assert [feed(data, rank=r, world=3).take(2).uids for r in range(3)] == [[uid(4)] * 2] * 3


def test_the_order_depends_on_counts_and_seed_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    first = [Shard(f"a{i}", 10 + i) for i in range(9)]
    others = [Shard(f"elsewhere/{i}", 10 + i) for i in range(9)]
    assert list(islice(Order(first, 3).slots(), 300)) == list(islice(Order(others, 3).slots(), 300))
    monkeypatch.setattr(orders, "GROUP", 30)
    for sampling in ("passes", "replacement"):
        row = list(islice(Order(first, 3, sampling).slots(), 500))
        assert [s.number for s in row] == list(range(500))
        for at in (1, 125, 126, 127, 399):  # a pass has 126
            assert list(islice(Order(first, 3, sampling).slots(at), 50)) == row[at : at + 50]
        if sampling == "passes":
            assert Counter((s.shard, s.sample) for s in row[126:252]) == Counter(
                (i, j) for i in range(9) for j in range(10 + i)
            )
            assert [s.first for s in row].count(True) == 126 == sum(s.first for s in row[:126])
            # A group of 30 samples has some shards whole.
            groups = [g for g, _ in islice(Order(first, 3).groups(0, 1), 4)]
            assert [g.start for g in groups] == [0, *np.cumsum([len(g.shards) for g in groups])[:-1]]
            assert all(len(set(g.shards.tolist())) > 1 for g in groups)


def test_weights_are_copies_in_a_pass_and_the_fraction_goes_round() -> None:
    order = Order([Shard("a", 4, 1.0), Shard("b", 10, 2.5), Shard("c", 8, 0.25)], 0)
    assert order.length == 4 + 25 + 2
    row = list(islice(order.slots(), 8 * 31))
    times = Counter((s.shard, s.sample) for s in row)
    assert [sorted({times[shard, i] for i in range(n)}) for shard, n in enumerate((4, 10, 8))] == [[8], [20], [2]]
    one = Counter((s.shard, s.sample) for s in row if s.round == 1)
    assert Counter(one[1, i] for i in range(10)) == {2: 5, 3: 5}
    seen: set[tuple[int, int]] = set()
    for s in row:
        assert s.first == ((s.shard, s.sample) not in seen)
        seen.add((s.shard, s.sample))


def test_few_samples_of_many_shards_have_their_turn() -> None:
    order = Order([Shard(str(i), 3, 0.1) for i in range(50)], 1)
    row = list(islice(order.slots(), 15 * 30))
    times = Counter((s.shard, s.sample) for s in row)
    assert len(times) == 150 and set(times.values()) <= {2, 3, 4}
    for at in (14, 15, 16, 200, 333):
        assert list(islice(order.slots(at), 40)) == row[at : at + 40]


def test_replacement_draws_shards_in_proportion_to_their_weights() -> None:
    found = [Shard(str(i), 5, w) for i, w in enumerate((1.0, 1.0, 2.0))]
    row = list(islice(Order(found, 0, "replacement").slots(), 30_000))
    drawn = Counter(s.shard for s in row)
    # 6,000 draws of a shard: the standard deviations are 34 and 39 draws.
    assert [drawn[i] / 5 for i in range(3)] == [pytest.approx(n, abs=160) for n in (1500, 1500, 3000)]
    assert sum(s.first for s in row) == 15


def test_the_same_seed_gives_the_same_order_on_every_machine() -> None:
    row = islice(Order([Shard("a", 4), Shard("b", 3)], 7).slots(), 10)
    assert [(s.shard, s.sample) for s in row] == [
        (1, 2),
        (0, 2),
        (1, 0),
        (0, 1),
        (0, 0),
        (0, 3),
        (1, 1),
        (1, 0),
        (0, 1),
        (0, 2),
    ]


def test_a_billion_samples_are_found_their_way_in_at_once() -> None:
    order = Order([Shard(str(i), 10_000) for i in range(20_000)], 0)
    slots = list(islice(order.slots(1_654_321_987, 64), 4000))
    assert [s.number for s in slots[:2]] == [1_654_321_987, 1_654_322_051] and slots[0].round == 8
    assert len({s.shard for s in slots}) >= 13  # a window is some 131,072 samples, of 13 shards


# Lists, captions, sources -------------------------------------------------------------------------------------------------


def test_training_on_a_list_sees_what_resharding_by_it_writes(tmp_path: Path) -> None:  # T96
    rng = np.random.default_rng(0)
    wanted = [uid(int(i)) for i in rng.integers(0, 60, 40)]  # some several times
    data = write_shards(tmp_path / "pool", list(range(60)))
    # A row whose uid stood before: its copies are not written again.
    twin = {"png": b"", "txt": b"t", "json": json.dumps({"uid": uid(59)}).encode()}
    write_shard(tmp_path / "pool" / "99.tar", {uid(59) + "x": twin})
    listed = uids.sort(uids.pack([*wanted, uid(59)]))
    found = survey(list_shards(data), listed=listed)
    seen = names(found, 82)
    assert Counter(seen[:41]) == Counter(seen[41:]) == Counter([*wanted, uid(59)])
    row = list(islice(Order(found.shards, 0).slots(), 82))
    assert sum(s.first for s in row) == len(set(wanted) | {uid(59)}) == sum(s.first for s in row[:41])


def test_captions_are_the_samples_own_or_the_pages_title_or_either() -> None:
    fields = {"caption": "from json", "page_title": " A title ", "text": "t"}
    assert caption_of("alt", b" own \n", fields, 0) == "own"
    assert caption_of("alt", None, fields, 0) == "from json"
    assert caption_of("alt", b" ", fields, 0) == ""
    assert caption_of("title", b"own", fields, 0) == "A title"
    assert caption_of("title", b"own", {"page_title": None, "title": "T"}, 0) == "T"
    assert caption_of("title", b"own", {"page_title": 5}, 0) == ""
    drawn = [caption_of("both", b"own", fields, seed) for seed in range(1000)]
    assert drawn == [caption_of("both", b"own", fields, seed) for seed in range(1000)]
    assert 430 < drawn.count("own") < 570 and set(drawn) == {"own", "A title"}
    assert {caption_of("both", b"own", {}, s) for s in range(9)} == {"own"}
    assert {caption_of("both", b" ", fields, s) for s in range(9)} == {"A title"}


def test_a_feed_shows_the_captions_asked_for(tmp_path: Path) -> None:
    members = {uid(i): sample(i) | {"json": json.dumps({"uid": uid(i), "page_title": "x" * 50}).encode()} for i in range(30)}
    data = write_shard(tmp_path / "d" / "0.tar", members)
    found = {which: feed(data, captions=which).take(60).tokens.tolist() for which in ("alt", "title", "both")}
    assert set(found["title"]) == {50} and 50 not in found["alt"]
    assert 15 < found["both"].count(50) < 45
    assert found["both"] == feed(data, captions="both").take(60).tokens.tolist()
    assert found["both"][:30] != found["both"][30:]
    plain = write_shard(tmp_path / "plain" / "0.tar", {uid(1): sample(1)})
    with pytest.raises(InputError, match="no sample to train on") as refused:
        survey([plain], captions="title")
    assert "`page_title` in .json" in str(refused.value)


def test_sources_have_weights(tmp_path: Path) -> None:
    a = write_shards(tmp_path / "a", list(range(10)), size=5)
    b = write_shards(tmp_path / "b", list(range(100, 110)))
    found = survey(weigh_shards([a, b], [1, 2]))
    assert [(s.count, s.weight) for s in found.shards] == [(5, 1.0), (5, 1.0), (10, 2.0)]
    assert Counter(Counter(names(found, 30)).values()) == {1: 10, 2: 10}
    pattern = f"{a}/{{00000000..00000001}}.tar::{b}/00000000.tar"
    assert weigh_shards(pattern, [1, 2]) == weigh_shards([a, b], [1, 2])
    assert weigh_shards([a, b]) == dict.fromkeys(list_shards([a, b]), 1.0)
    for data, weights in (([a, b], [1]), ([a, b], [1, 0]), ([a, b], [1, float("nan")]), ([a, a], [1, 2])):
        with pytest.raises(InputError, match=r"weights for 2 sources|a weight is|in two sources"):
            weigh_shards(data, weights)


def test_patterns_name_their_product_within_a_part_only(tmp_path: Path) -> None:  # T106
    expected = []
    for folder in "abcd":
        for i in range(3):
            expected.append(write_shard(tmp_path / folder / f"{i}.tar", {}))
    pattern = "::".join(f"{tmp_path}/{folder}/{{0..2}}.tar" for folder in "abcd")
    assert list_shards(pattern) == expected
    assert list_shards([str(tmp_path / "b"), f"{tmp_path}/b/0.tar"]) == expected[3:6]
    with pytest.raises(InputError, match=r"no such shard"):
        list_shards(f"{tmp_path}/a/{{0..3}}.tar")


def test_uppercase_and_other_image_extensions_are_read(tmp_path: Path, squares: str) -> None:  # T95
    picture = next(iter(shards.read_all(list_shards(squares)[0])))[1]["png"]
    members = {f"k{i}": {e: picture, "txt": b"t"} for i, e in enumerate(("JPG", "jpeg", "webp", "png"))}
    write_shard(tmp_path / "data" / "0.tar", members)
    assert feed(str(tmp_path / "data")).take(4).tokens.tolist() == [1, 1, 1, 1]


# Counting and refusing ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_many_shards_are_counted_by_several_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = write_shards(tmp_path / "d", list(range(30)), size=10)
    Path(data, "00000001.tar").write_bytes(Path(data, "00000001.tar").read_bytes()[:2000])
    Path(data, "00000007.tar").write_bytes(b"")
    listed = uids.sort(uids.pack([uid(3), uid(3), uid(25), uid(99)]))
    few = [survey(list_shards(data), listed=want) for want in (None, listed)]
    monkeypatch.setattr("baselines.train.data.MANY", 2)
    for want, before in zip((None, listed), few, strict=True):
        many = survey(list_shards(data), listed=want)
        assert [(s.path, s.count, None if s.picks is None else s.picks.tolist()) for s in many.shards] == [
            (s.path, s.count, None if s.picks is None else s.picks.tolist()) for s in before.shards
        ]
        assert (many.empty, many.problems) == (before.empty, before.problems)
    assert [s.picks.tolist() for s in few[1].shards if s.picks is not None] == [[3, 3], [5]]
    assert len(few[0].empty) == len(few[0].problems) == 1


def test_an_emptied_list_is_refused_with_the_stage_that_emptied_it(tmp_path: Path) -> None:  # T83
    path = str(tmp_path / "uids.npy")
    uids.write_list(path, np.empty(0, uids.UID))
    with pytest.raises(InputError, match="the uid list is empty: nothing to train on; expected") as refused:
        read_uids(path)
    assert "_manifest.json" in str(refused.value)
    counts = {"in": 1200, "kept": 0, "dropped:0-language": 1000, "dropped:1-caption": 200, "unscored:1-caption": 3}
    counts |= {"dropped:2-clip_score": 0}
    Path(tmp_path, "_manifest.json").write_text(json.dumps({"stage": "filter", "counts": counts}))
    expected = r"stage 1-caption dropped the last 200 of 1,200 rows, 3 of them because it could not judge them"
    with pytest.raises(InputError, match=expected):
        read_uids(path)


def test_shards_without_captions_are_refused_by_what_they_hold(tmp_path: Path) -> None:  # T105
    path = write_shard(tmp_path / "0.tar", {uid(i): {"jpg": b"x", "cls": b"0"} for i in range(5)})
    with pytest.raises(InputError, match=r"no sample to train on; the shards hold \.cls, \.jpg"):
        survey([path])
    Path(tmp_path, "0_stats.json").write_text('{"successes": 5}')
    with pytest.raises(InputError, match=r"no sample to train on; the shards hold \.cls, \.jpg"):
        survey([path])
