"""Feeds of made-up shards, for tests."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np
import open_clip
import pytest
import torch
from torch import Tensor

from baselines.train import order as orders
from baselines.train.data import Survey, list_shards, survey
from baselines.train.decode import Decoder
from baselines.train.feed import Feed, open_feed
from baselines.train.order import Order
from baselines.train.reading import Item, Plan, Reader


def brightness(image: object) -> Tensor:
    """A transform that draws from the global generator, as random crops do."""
    return torch.from_numpy(np.asarray(image).copy()).float().mean().reshape(1, 1, 1) + torch.rand(1)


def lengths(captions: list[str]) -> Tensor:
    return torch.tensor([len(c) for c in captions])


def feed(data: str, **options: Any) -> Feed:
    listed = options.pop("listed", None)
    found = survey(list_shards(data), listed=listed)
    settings = {"seed": 0, "decoder": Decoder(brightness, lengths), "workers": 0, "max_failed": 0.1, **options}
    return open_feed(found, listed, **settings)


def names(
    found: Survey, n: int, *, seed: int = 0, rank: int = 0, world: int = 1, sampling: orders.Sampling = "passes"
) -> list[str]:
    """Of the first n samples."""
    plan = Plan(found, Order(found.shards, seed, sampling), rank, world)
    reader = Reader()
    return [reader.read(item).uid for item in islice(plan, n)]


def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The keys of all samples that are read from now on."""
    read: list[str] = []
    whole = Reader.read

    def noted(self: Reader, item: Item) -> Any:
        read.append(item.key)
        return whole(self, item)

    monkeypatch.setattr(Reader, "read", noted)
    return read


def transform(size: int) -> Any:
    cfg = open_clip.transform.PreprocessCfg(size=size)
    return open_clip.transform.image_transform_v2(cfg, is_train=True)
