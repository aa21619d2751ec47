"""The trainer against open_clip's own, and against loops written out for the recipes that open_clip has not, step by step."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.baselines import parity
from tests.baselines.parity import GOLDEN, STEPS, Trained

Trainings = Callable[[str], Trained]


@pytest.fixture(scope="module")
def trainings(tmp_path_factory: pytest.TempPathFactory) -> Trainings:
    """Each recipe's 20 steps, trained once."""
    done: dict[str, Trained] = {}

    def get(name: str) -> Trained:
        if name not in done:
            done[name] = parity.ours(name, tmp_path_factory.mktemp(name))
        return done[name]

    return get


@pytest.mark.parametrize("name", ["softmax", "sigmoid"])
def test_losses_are_those_open_clip_had(name: str, trainings: Trainings) -> None:
    golden = json.loads(GOLDEN.read_text())[name]
    assert len(golden) == STEPS and golden[-1] < golden[0] - 0.3
    assert trainings(name).losses == pytest.approx(golden, abs=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "same_order"), [("softmax", False), ("sigmoid", False), ("convolutions", True)])
def test_losses_are_those_open_clip_has_on_the_same_batches(name: str, same_order: bool, trainings: Trainings) -> None:
    run = trainings(name)
    theirs = parity.open_clip_train(run.recipe, run.batches, same_order=same_order)
    assert run.losses == pytest.approx(theirs, abs=1e-5)


@pytest.mark.parametrize("name", ["siglip", "align"])
def test_other_recipes_are_their_loops_written_out(name: str, trainings: Trainings) -> None:
    run, loop = trainings(name), getattr(parity, name)
    theirs: list[Any] = loop(run.recipe, run.batches)
    assert len(theirs) == STEPS and theirs[-1] < theirs[0]
    assert run.losses == pytest.approx(theirs, abs=1e-5)
