"""What a scale fixes besides its numbers: schedules and optimisers by hand, models, augmentation."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import open_clip
import pytest
import torch
import yaml
from open_clip.transform import PreprocessCfg
from PIL import Image

from baselines.train.augment import training_transform
from baselines.train.model import new_model
from baselines.train.optimizer import build_optimizer
from baselines.train.schedule import branch_end, branch_starts, learning_rate
from pipeline.clip_models import known_architecture
from pools.scales import Schedule, get_scale, load_scales

# Schedules ------------------------------------------------------------------------------------------------------------------

# schedule: steps, steps of the cooldown, and the rate of five steps, after a warmup of 4 to a peak of 1
BY_HAND: dict[Schedule, tuple[int, int, dict[int, float]]] = {
    "cosine": (12, 0, {0: 0.25, 3: 1.0, 4: 1.0, 8: 0.5, 10: (1 - math.sqrt(0.5)) / 2}),
    "linear": (12, 0, {1: 0.5, 4: 1.0, 6: 0.75, 8: 0.5, 11: 0.125}),
    "inverse_sqrt": (37, 4, {2: 0.75, 8: 2 / 3, 15: 0.5, 24: 0.4, 35: 1 / 6}),  # √(4/36), half-way down the cooldown
    "constant": (10, 2, {0: 0.25, 4: 1.0, 7: 1.0, 8: 1.0, 9: 0.5}),
}


@pytest.mark.parametrize("schedule", BY_HAND)
def test_schedules_by_hand(schedule: Schedule) -> None:
    steps, cooldown, rates = BY_HAND[schedule]
    for peak in (1.0, 2e-3):
        scale = replace(get_scale("tiny"), schedule=schedule, learning_rate=peak, warmup_steps=4, cooldown_steps=cooldown)
        found = {step: learning_rate(step, scale, steps) for step in rates}
        assert found == pytest.approx({step: peak * rate for step, rate in rates.items()})


def test_a_schedule_may_have_no_warmup_or_end_within_it() -> None:
    for schedule in BY_HAND:
        scale = replace(get_scale("tiny"), schedule=schedule, learning_rate=1.0, warmup_steps=0)
        assert learning_rate(0, scale, 3) == 1.0
        assert learning_rate(0, replace(scale, warmup_steps=500), 3) == 1 / 500


def test_a_branch_cools_down_from_the_rates_of_the_training_it_leaves() -> None:
    scale = replace(get_scale("siglip"), warmup_steps=5, cooldown_steps=10)
    assert branch_end(50, scale) == 60
    ours, theirs = ([learning_rate(s, scale, steps) for s in range(60)] for steps in (60, 1000))
    assert ours[:51] == theirs[:51]
    assert [a / b for a, b in zip(ours[50:], theirs[50:], strict=True)] == pytest.approx([1 - i / 10 for i in range(10)])


def test_branches_end_at_their_percents() -> None:
    siglip = get_scale("siglip")  # 3,051,758 steps; a mark lies 6104 steps before 3, 7, 10, … %
    starts = branch_starts(siglip, 3_051_758)
    assert starts[:3] == (85_449, 207_519, 299_072) and len(starts) == 8
    assert [branch_end(s, siglip) * siglip.batch_size / 1e9 for s in starts] == pytest.approx(
        [3, 7, 10, 17, 26, 33, 49, 66], abs=1e-4
    )
    # 3 % of 1000 steps is 30, and a branch to there would begin within the warmup.
    assert branch_starts(replace(siglip, warmup_steps=50, cooldown_steps=10), 1000)[:2] == (60, 90)
    assert branch_starts(get_scale("small"), 3125) == ()


# Optimisers -----------------------------------------------------------------------------------------------------------------


class Named(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor([[3.0, 4.0]]))
        self.vector = torch.nn.Parameter(torch.tensor([3.0, 4.0]))
        self.ln_final = torch.nn.Linear(1, 1, bias=False)
        self.bn_stem = torch.nn.Linear(1, 1, bias=False)
        self.position_bias_table = torch.nn.Parameter(torch.zeros(2, 2))
        self.logit_scale = torch.nn.Parameter(torch.zeros(1, 1))
        self.frozen = torch.nn.Parameter(torch.zeros(2, 2), requires_grad=False)


def names(net: torch.nn.Module, group: dict[str, Any]) -> set[str]:
    known = {id(p): name for name, p in net.named_parameters()}
    return {known[id(p)] for p in group["params"]}


def test_norms_biases_and_the_logit_scale_do_not_decay() -> None:
    net = Named()
    free, decayed = build_optimizer(net, replace(get_scale("small"), eps=1e-5)).param_groups
    assert names(net, decayed) == {"weight"} and decayed["weight_decay"] == 0.2
    assert names(net, free) == {
        "vector", "ln_final.weight", "bn_stem.weight", "position_bias_table", "logit_scale"
    }  # fmt: skip
    assert free["weight_decay"] == 0
    assert decayed["betas"] == free["betas"] == (0.9, 0.98) and decayed["eps"] == 1e-5


def step(scale: str, **changes: Any) -> Named:
    net = Named()
    optimizer = build_optimizer(net, replace(get_scale(scale), learning_rate=0.1, weight_decay=0.5, **changes))
    net.weight.grad, net.vector.grad = torch.tensor([[6.0, 800.0]]), torch.tensor([6.0, 800.0])
    optimizer.step()
    return net


def test_a_first_step_of_lamb_by_hand() -> None:
    net = step("align")
    # The gradient over its own root mean square is [1, 1], whatever its length; with the decay [1 + 0.5·3, 1 + 0.5·4].
    # Its length is √15.25, the weight's 5.
    ratio = 5 / math.sqrt(15.25)
    assert net.weight.tolist()[0] == pytest.approx([3 - 0.1 * ratio * 2.5, 4 - 0.1 * ratio * 3])
    assert net.vector.tolist() == pytest.approx([2.9, 3.9])  # neither decay nor ratio


def test_a_first_step_of_adamw_by_hand() -> None:
    net = step("siglip")
    assert net.weight.tolist()[0] == pytest.approx([3 * 0.95 - 0.1, 4 * 0.95 - 0.1])
    assert net.vector.tolist() == pytest.approx([2.9, 3.9])


# Models and pictures ----------------------------------------------------------------------------------------------------------


def test_every_scale_has_a_model_that_needs_no_network() -> None:
    import timm

    new_model("winnow-vit-tiny")  # makes ours known
    for scale in load_scales().values():
        _, config = known_architecture(scale.model)
        assert config["vision_cfg"].get("timm_model_name", "resnet18") in timm.list_models()
        assert "siglip" not in scale.model.lower()  # for such a name open_clip fetches a tokenizer
    _, align = known_architecture("winnow-align-l2")
    assert (align["embed_dim"], align["vision_cfg"]["image_size"], align["text_cfg"]["context_length"]) == (1376, 289, 64)


def test_aligns_crop_is_a_part_of_the_larger_picture_at_times_mirrored() -> None:
    # 346/289 of 32 is 38: brightness rises from left to right, by the same amount at each pixel of the larger picture.
    ramp = Image.fromarray(np.tile(np.linspace(0, 255, 38).round().astype(np.uint8), (38, 1))).convert("RGB")
    transform = training_transform(PreprocessCfg(size=32, mean=(0.0,) * 3, std=(1.0,) * 3), "crop_flip")
    torch.manual_seed(0)
    firsts = set()
    for _ in range(40):
        rows = transform(ramp)[0] * 255
        assert rows.shape == (32, 32) and torch.equal(rows[0], rows[31])
        row = rows[0] if rows[0, 0] < rows[0, 31] else rows[0].flip(0)
        assert row[31] - row[0] == pytest.approx(31 * 255 / 37, abs=1)
        firsts.add((round(float(row[0]) * 37 / 255), bool(rows[0, 0] < rows[0, 31])))
    assert {left for left, _ in firsts} == set(range(7)) and {mirrored for _, mirrored in firsts} == {True, False}
    plain = training_transform(PreprocessCfg(size=32), "resized_crop")
    assert "RandomResizedCrop" in repr(plain) and "Flip" not in repr(plain)


def test_aligns_towers_are_trained_through_timm_and_open_clip() -> None:
    loaded = new_model("winnow-align-tiny")
    out = loaded.model(torch.zeros(2, 3, 32, 32), loaded.tokenizer(["a dog", "a cat"]))
    assert out["image_features"].shape == out["text_features"].shape == (2, 64)
    # The text's feature is that of the first token, which sees all others.
    assert not torch.allclose(out["text_features"][0], out["text_features"][1])


@pytest.mark.parametrize(
    ("scale", "model"),
    [("siglip", "winnow-vit-tiny"), ("align", "winnow-align-tiny"), ("scaling_laws_13b", "winnow-vit-tiny")],
)
def test_each_recipe_trains_what_open_clip_loads(scale: str, model: str, small_run: Callable[..., Any], tmp_path: Path) -> None:
    small_run(scale=scale, model=model, output=str(tmp_path / scale), samples=8)
    config = yaml.safe_load((tmp_path / scale / "config.yaml").read_text())
    assert config["comparable"] is False and config["changed"] == ["samples_seen", "batch_size", "model"]
    first, last = map(json.loads, (tmp_path / scale / "metrics.jsonl").read_text().splitlines())
    assert first["loss"] > 0 and last["lr"] < 1e-5  # far from the end of the warmup
    open_clip.add_model_config(tmp_path / scale / "model_config.json")
    net = open_clip.create_model("model_config", pretrained=str(tmp_path / scale / "checkpoints" / "latest.pt"))
    scale_and_bias = {"siglip": (math.log(10), -10), "align": (0, None), "scaling_laws_13b": (math.log(1 / 0.07), None)}
    logit_scale, logit_bias = scale_and_bias[scale]
    assert net.logit_scale.item() == pytest.approx(logit_scale, abs=0.01)
    assert (net.logit_bias and net.logit_bias.item()) == (logit_bias and pytest.approx(logit_bias, abs=0.01))
