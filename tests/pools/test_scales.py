"""The scale table against the numbers of the papers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

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
    assert (s.loss, s.optimizer, s.beta1, s.eps, s.schedule) == ("softmax", "adamw", 0.9, 1e-6, "cosine")
    assert (s.label_smoothing, s.grad_clip, s.cooldown_steps, s.captions) == (0, 0, 0, "alt")


def test_only_scales_of_the_benchmark_are_comparable() -> None:
    others = ["tiny", "siglip", "align", "scaling_laws_3b", "scaling_laws_13b", "scaling_laws_34b"]
    assert list(load_scales()) == [*DATACOMP, *others]
    assert not any(get_scale(name).comparable for name in others)


def test_siglip_is_that_of_webli_100b() -> None:
    s = get_scale("siglip")
    assert (s.loss, s.schedule, s.captions, s.samples_seen) == ("sigmoid", "inverse_sqrt", "both", 100_000_000_000)
    assert (s.batch_size, s.learning_rate, s.weight_decay) == (32_768, 1e-3, 1e-4)
    # 200 million examples each, in whole steps.
    assert s.warmup_steps == s.cooldown_steps == -(-200_000_000 // 32_768)
    assert s.cooled == (3, 7, 10, 17, 26, 33, 49, 66)  # billions of 100 billion


def test_align_is_the_published_one() -> None:
    s = get_scale("align")
    assert (s.loss, s.label_smoothing, s.optimizer, s.schedule, s.augment) == ("align", 0.1, "lamb", "linear", "crop_flip")
    assert (s.batch_size, s.learning_rate, s.warmup_steps, s.weight_decay) == (16_384, 1e-3, 10_000, 1e-5)
    assert s.samples_seen == 1_200_000 * s.batch_size


@pytest.mark.parametrize(("name", "samples"), [("3b", 80_000_415 * 32), ("13b", 407_332_084 * 32), ("34b", 407_332_084 * 84)])
def test_scaling_laws_have_a_cosine_for_each_number_of_samples(name: str, samples: int) -> None:
    s = get_scale(f"scaling_laws_{name}")
    assert (s.samples_seen, s.model, s.batch_size, s.learning_rate) == (samples, "ViT-B-32", 32_768, 5e-4)
    assert (s.warmup_steps, s.beta2, s.weight_decay, s.schedule) == (2000, 0.98, 0.2, "cosine")


def test_unknown_scale_lists_what_is_known() -> None:
    with pytest.raises(InputError, match=r"unknown scale 'huge'.*debug, small, medium, large, xlarge, tiny"):
        get_scale("huge")


def test_a_number_of_the_wrong_kind_is_refused() -> None:
    with pytest.raises(InputError, match="batch_size is '64'"):
        replace(get_scale("tiny"), batch_size="64")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "wrong",
    [
        {"loss": "hinge"},
        {"optimizer": "sgd"},
        {"schedule": "step"},
        {"label_smoothing": 1.0},
        {"grad_clip": -1.0},
        {"eps": -1.0},
        {"cooled": (3,)},
        {"cooled": (0,), "cooldown_steps": 5},
    ],
)
def test_a_recipe_that_is_none_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=f"scale tiny: {next(iter(wrong))} is "):
        replace(get_scale("tiny"), **wrong)
