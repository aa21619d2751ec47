"""The trainer's parts: order of the samples, loss, schedule, models."""

from __future__ import annotations

import json
import math
import pickle
from collections import Counter
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from baselines.train.checkpoint import due
from baselines.train.data import Source, list_shards, survey
from baselines.train.decode import Decoder
from baselines.train.feed import Feed, open_feed
from baselines.train.loss import contrastive_loss
from baselines.train.model import load_model, new_model
from baselines.train.schedule import learning_rate
from pools import shards, uids
from pools.errors import InputError
from tests.baselines.conftest import uid, write_shard, write_shards


def brightness(image: object) -> Tensor:
    """A transform that draws from the global generator, as random crops do."""
    return torch.from_numpy(np.asarray(image).copy()).float().mean().reshape(1, 1, 1) + torch.rand(1)


def lengths(captions: list[str]) -> Tensor:
    return torch.tensor([len(c) for c in captions])


def feed(data: str, *, workers: int = 0, listed: uids.Uids | None = None, seed: int = 0) -> Feed:
    found = survey(list_shards(data), need_uid=listed is not None)
    return open_feed(found, listed, seed=seed, decoder=Decoder(brightness, lengths), workers=workers, max_failed=0.1)


# Which samples, in which order --------------------------------------------------------------------------------------------


def test_workers_change_nothing(tmp_path: Path) -> None:  # T99, T100
    data = write_shards(tmp_path / "seven", list(range(7)))  # one shard, fewer samples than a worker's share
    alone, shared = (feed(data, workers=w) for w in (0, 2))
    for _ in range(40):
        a, b = alone.take(20), shared.take(20)
        assert a.uids == b.uids
        assert torch.equal(a.images, b.images) and torch.equal(a.tokens, b.tokens)
    assert alone.kept == shared.kept == 800
    shared.chunks.close()  # type: ignore[attr-defined]


def test_each_pass_has_every_sample_once_in_another_order(squares: str) -> None:  # T110
    order = [r.uid for r in islice(Source(list_shards(squares), 0), 180)]
    passes = [order[:60], order[60:120], order[120:]]
    assert all(sorted(p) == [uid(i) for i in range(60)] for p in passes)
    assert passes[0] != passes[1] != passes[2] and passes[0] != sorted(passes[0])
    assert order == [r.uid for r in islice(Source(list_shards(squares), 0), 180)]
    assert order != [r.uid for r in islice(Source(list_shards(squares), 1), 180)]


def test_augmentation_differs_between_passes_and_leaves_the_global_generator_alone(tmp_path: Path) -> None:
    one = feed(write_shards(tmp_path / "one", [0]))
    torch.manual_seed(7)
    before = torch.get_rng_state()
    batch = one.take(3)
    assert torch.equal(torch.get_rng_state(), before)
    assert len(set(batch.images.flatten().tolist())) == 3


def test_training_on_a_list_sees_what_resharding_by_it_writes(tmp_path: Path) -> None:  # T96
    rng = np.random.default_rng(0)
    wanted = [uid(int(i)) for i in rng.integers(0, 60, 40)]  # some several times
    data = write_shards(tmp_path / "pool", list(range(60)))
    # A row whose uid stood before: its copies are not written again.
    twin = {"png": b"", "txt": b"t", "json": json.dumps({"uid": uid(59)}).encode()}
    write_shard(tmp_path / "pool" / "99.tar", {uid(59) + "x": twin})
    listed = uids.sort(uids.pack([*wanted, uid(59)]))
    seen = [r.uid for r in islice(Source(list_shards(data), 0, listed), 82)]
    assert Counter(seen[:41]) == Counter(seen[41:]) == Counter([*wanted, uid(59)])


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


# Loss and schedule ----------------------------------------------------------------------------------------------------------


def naive_loss(image: Tensor, text: Tensor, scale: float, same: list[tuple[int, int]]) -> float:
    """The mean over rows and columns of −log softmax at the diagonal, one number at a time."""
    n, total = len(image), 0.0
    for i in range(n):
        for a, b in ((image, text), (text, image)):
            sims = {j: math.exp(scale * float(a[i] @ b[j])) for j in range(n) if (i, j) not in same}
            total -= math.log(sims[i] / sum(sims.values()))
    return total / (2 * n)


def test_loss_is_the_symmetric_cross_entropy() -> None:  # T109
    generator = torch.Generator().manual_seed(0)
    image, text = (F.normalize(torch.randn(5, 8, generator=generator, dtype=torch.float64), dim=1) for _ in range(2))
    scale = torch.tensor(10.0, dtype=torch.float64)
    assert contrastive_loss(image, text, scale, list("abcde")).item() == pytest.approx(naive_loss(image, text, 10, []))
    equal = torch.ones(4, 1)
    assert contrastive_loss(equal, equal, torch.tensor(1.0), list("abcd")).item() == pytest.approx(math.log(4))


def test_copies_of_a_sample_are_no_negatives_of_each_other() -> None:  # T90
    generator = torch.Generator().manual_seed(1)
    image, text = (F.normalize(torch.randn(4, 8, generator=generator, dtype=torch.float64), dim=1) for _ in range(2))
    loss = contrastive_loss(image, text, torch.tensor(5.0, dtype=torch.float64), ["a", "b", "a", "c"])
    assert loss.item() == pytest.approx(naive_loss(image, text, 5, [(0, 2), (2, 0)]))


def test_learning_rate_by_hand() -> None:
    rates = [learning_rate(s, steps=12, peak=1.0, warmup=4) for s in range(12)]
    assert rates[:5] == [0.25, 0.5, 0.75, 1.0, 1.0]
    assert rates[8] == pytest.approx(0.5)  # half of the way down
    assert rates[10] == pytest.approx(0.5 * (1 + math.cos(math.pi * 6 / 8)))
    assert rates[5:] == sorted(rates[5:], reverse=True) and 0 < rates[-1] < 0.05
    assert learning_rate(0, steps=3, peak=1.0, warmup=500) == 1 / 500


def test_checkpoints_are_evenly_spread_and_end_with_the_run() -> None:
    batches = [10] * 10 + [3]  # 103 samples: marks at 20.6, 41.2, 61.8, 82.4 and 103
    seen, marks = 0, []
    for n in batches:
        seen += n
        if due(seen, n, 103, 5):
            marks.append(seen)
    assert marks == [30, 50, 70, 90, 103]


# Models ---------------------------------------------------------------------------------------------------------------------


def test_nothing_is_fetched_from_a_hub() -> None:
    for name in ("hf-hub:laion/CLIP-ViT-B-32", "local-dir:/nowhere"):
        with pytest.raises(InputError, match="unknown model"):
            new_model(name)
    with pytest.raises(InputError, match="text tower or tokenizer from the network"):
        new_model("roberta-ViT-B-32")
    with pytest.raises(InputError, match="no such file of weights"):
        load_model("ViT-B-32", "openai")
    with pytest.raises(InputError, match="no weights for winnow-tiny"):
        load_model("winnow-tiny")


def test_a_run_loads_by_folder_by_config_and_by_name(trained: Path) -> None:
    latest = trained / "checkpoints" / "latest.pt"
    sources = [(str(trained), None), (str(trained / "model_config.json"), str(latest)), ("winnow-tiny", str(latest))]
    tokens = None
    for source, pretrained in sources:
        loaded = load_model(source, pretrained)
        features = loaded.model.eval().encode_text(loaded.tokenizer(["a red square"]))
        assert tokens is None or torch.equal(features, tokens)
        tokens = features


def test_weights_that_are_damaged_foreign_or_hostile_are_refused(tmp_path: Path, trained: Path) -> None:
    class Harm:
        def __reduce__(self) -> tuple[object, ...]:
            return (Path.touch, (tmp_path / "harmed",))

    whole = (trained / "checkpoints" / "step_40.pt").read_bytes()
    (tmp_path / "cut.pt").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "noise.pt").write_bytes(b"not a checkpoint")
    (tmp_path / "harm.pt").write_bytes(pickle.dumps({"state_dict": Harm()}))
    torch.save({"state_dict": Harm()}, tmp_path / "harm2.pt")
    torch.save({"state_dict": {"logit_scale": torch.tensor(1.0)}}, tmp_path / "other.pt")
    for name in ("cut.pt", "noise.pt", "harm.pt", "harm2.pt", "other.pt"):
        with pytest.raises(InputError, match="cannot be read as weights of winnow-tiny"):
            load_model("winnow-tiny", str(tmp_path / name))
    assert not (tmp_path / "harmed").exists()


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"model_config\.json: no such file"):
        load_model(str(tmp_path))
    (tmp_path / "model_config.json").write_text('{"name": "x"}')
    with pytest.raises(InputError, match="no model config"):
        load_model(str(tmp_path), str(tmp_path / "model_config.json"))
