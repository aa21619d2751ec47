"""The scale table against the numbers of the DataComp paper."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pools.errors import InputError
from pools.scales import get_scale, load_scales

# name: pool = samples seen, model, batch, learning rate, warmup steps, β2
DATACOMP = {
    "debug": (128_000, "ViT-B-32", 1024, 1e-4, 500, 0.98),
    "small": (12_800_000, "ViT-B-32", 4096, 5e-4, 500, 0.98),
    "medium": (128_000_000, "ViT-B-32", 4096, 5e-4, 500, 0.98),
    "large": (1_280_000_000, "ViT-B-16", 8192, 5e-4, 500, 0.98),
    "xlarge": (12_800_000_000, "ViT-L-14", 90112, 1e-3, 10_000, 0.95),
}


@pytest.mark.parametrize("name", DATACOMP)
def test_datacomp_scales_are_the_published_ones(name: str) -> None:
    s = get_scale(name)
    assert (s.samples_seen, s.model, s.batch_size, s.learning_rate, s.warmup_steps, s.beta2) == DATACOMP[name]
    assert s.pool_size == s.samples_seen
    assert (s.weight_decay, s.checkpoints, s.precision, s.comparable) == (0.2, 5, "amp", True)


def test_our_own_scale_ranks_nothing() -> None:
    assert list(load_scales()) == [*DATACOMP, "tiny"]
    assert not get_scale("tiny").comparable


def test_unknown_scale_lists_what_is_known() -> None:
    with pytest.raises(InputError, match=r"unknown scale 'huge'.*debug, small, medium, large, xlarge, tiny"):
        get_scale("huge")


def test_a_number_of_the_wrong_kind_is_refused() -> None:
    with pytest.raises(InputError, match="batch_size is '64'"):
        replace(get_scale("tiny"), batch_size="64")  # type: ignore[arg-type]
