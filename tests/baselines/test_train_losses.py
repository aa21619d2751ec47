"""The losses against sums written out one number at a time, against open_clip, and over two processes against one."""

from __future__ import annotations

import math
import multiprocessing
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from open_clip.loss import ClipLoss, SigLipLoss
from torch import Tensor, distributed
from torch.nn import functional as F  # noqa: N812

from baselines.train.loss import ContrastiveLoss, build_loss, initial_logits
from pools.scales import Loss, get_scale

KINDS: tuple[Loss, ...] = ("softmax", "sigmoid", "align")


def features(n: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    a, b = (F.normalize(torch.randn(n, 8, generator=generator, dtype=torch.float64), dim=1) for _ in range(2))
    return a, b


def number(value: float) -> Tensor:
    return torch.tensor(value, dtype=torch.float64)


def naive_softmax(rows: Tensor, columns: Tensor, scale: float, uids: Sequence[str], smoothing: float) -> float:
    """The mean over rows of −Σ q · log p, q the smoothed label, pairs of another row with the same uid left out."""
    total = 0.0
    for i in range(len(rows)):
        others = [j for j in range(len(rows)) if j == i or uids[j] != uids[i]]
        weights = {j: math.exp(scale * float(rows[i] @ columns[j])) for j in others}
        for j in others:
            q = (1 - smoothing) * (i == j) + smoothing / len(others)
            total -= q * math.log(weights[j] / sum(weights.values()))
    return total / len(rows)


def naive_sigmoid(image: Tensor, text: Tensor, scale: float, bias: float, uids: Sequence[str]) -> float:
    total = 0.0
    for i in range(len(image)):
        for j in range(len(text)):
            if i == j or uids[i] != uids[j]:
                z = scale * float(image[i] @ text[j]) + bias
                total += math.log(1 + math.exp(-z if i == j else z))
    return total / len(image)


# In one process -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("uids", ["abcde", "abacb", "aaaaa"])
def test_each_loss_is_its_sum_written_out(uids: str) -> None:  # T90: copies are no negatives of each other
    image, text = features(5)
    there = [naive_softmax(a, b, 6.0, uids, smoothing) for smoothing in (0.0, 0.1) for a, b in ((image, text), (text, image))]
    smoothings: dict[Loss, float] = {"softmax": 0.0, "align": 0.1, "sigmoid": 0.0}
    losses = {kind: ContrastiveLoss(kind, smoothing) for kind, smoothing in smoothings.items()}
    ours = {kind: loss(image, text, number(6), number(-2), list(uids)).item() for kind, loss in losses.items()}
    assert ours["softmax"] == pytest.approx((there[0] + there[1]) / 2, abs=1e-12)
    assert ours["align"] == pytest.approx(there[2] + there[3], abs=1e-12)
    assert ours["sigmoid"] == pytest.approx(naive_sigmoid(image, text, 6, -2, uids), abs=1e-12)


def test_equal_logits_give_the_logarithm_of_the_number_of_pairs() -> None:  # T109
    equal = torch.ones(4, 1)
    uids = list("abcd")
    assert ContrastiveLoss("softmax")(equal, equal, torch.tensor(1.0), None, uids).item() == pytest.approx(math.log(4))
    assert ContrastiveLoss("align", 0.1)(equal, equal, torch.tensor(1.0), None, uids).item() == pytest.approx(2 * math.log(4))
    # A logit of 0 is ln 2 for each of the 16 pairs, over 4 images.
    assert ContrastiveLoss("sigmoid")(equal, equal, torch.tensor(0.0), None, uids).item() == pytest.approx(4 * math.log(2))


def test_softmax_and_sigmoid_are_open_clips() -> None:
    image, text = features(6)
    scale, bias, uids = number(14.3), number(-10), list("abcdef")
    assert ContrastiveLoss("softmax")(image, text, scale, None, uids).item() == ClipLoss()(image, text, scale).item()
    theirs = SigLipLoss()(image, text, scale, bias)
    assert ContrastiveLoss("sigmoid")(image, text, scale, bias, uids).item() == pytest.approx(theirs.item(), abs=1e-12)


def test_aligns_loss_is_the_sum_of_two_smoothed_entropies() -> None:
    image, text = features(6)
    logits, labels = 5 * image @ text.T, torch.arange(6)
    there = F.cross_entropy(logits, labels, label_smoothing=0.1) + F.cross_entropy(logits.T, labels, label_smoothing=0.1)
    ours = build_loss(get_scale("align"))(image, text, number(5), None, list("abcdef"))
    assert ours.item() == pytest.approx(there.item(), abs=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_copies_have_finite_gradients_that_match_finite_differences(kind: Loss) -> None:
    loss = ContrastiveLoss(kind, 0.0 if kind == "sigmoid" else 0.1)
    inputs = [t.requires_grad_() for t in (*features(4), number(3), number(-1))]

    def at(image: Tensor, text: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
        return loss(image, text, scale, bias, list("abab"))

    assert torch.autograd.gradcheck(at, inputs)


def test_each_loss_starts_from_its_papers_logits() -> None:
    assert initial_logits(get_scale("small")) == {}
    assert initial_logits(get_scale("siglip")) == {"init_logit_scale": pytest.approx(math.log(10)), "init_logit_bias": -10}
    assert initial_logits(get_scale("align")) == {"init_logit_scale": 0}


# Over processes -------------------------------------------------------------------------------------------------------------

PAIRS = 4
CASES = [
    (kind, sizes, uids)
    for kind in KINDS
    for sizes, uids in (((2, 2), "abcd"), ((3, 1), "abcd"), ((2, 2), "abca"), ((2, 2), "aaba"), ((2, 1), "aba"))
]


class Towers:
    """Two linear towers, the logits' scale and bias: the parameters that all processes have in common."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(3)
        towers = [torch.randn(6, 5, generator=generator) for _ in range(2)]
        self.parameters = [t.requires_grad_() for t in (*towers, torch.tensor(2.0), torch.tensor(-1.0))]
        self.inputs = [torch.randn(PAIRS, 6, generator=generator) for _ in range(2)]

    def step(self, loss: ContrastiveLoss, part: slice, uids: str) -> tuple[Tensor, list[Tensor]]:
        """The loss over a part of the pairs, and the gradients."""
        image, text, scale, bias = self.parameters
        rows = [F.normalize(x[part] @ w, dim=1) for x, w in zip(self.inputs, (image, text), strict=True)]
        value = loss(rows[0], rows[1], scale.exp(), bias, list(uids[part]))
        found = torch.autograd.grad(value, self.parameters, allow_unused=True)
        return value.detach(), [torch.zeros_like(p) if g is None else g for p, g in zip(self.parameters, found, strict=True)]


def process(rank: int, folder: str) -> None:
    """One of two processes: the losses and gradients of all cases, averaged over both as DDP averages them."""
    distributed.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    results = []
    for kind, sizes, uids in CASES:
        part = slice(0, sizes[0]) if rank == 0 else slice(sizes[0], sum(sizes))
        loss = build_loss(replace(get_scale("tiny"), loss=kind, label_smoothing=smoothing(kind)), rank=rank, world=2)
        value, gradients = Towers().step(loss, part, uids)
        for tensor in (value, *gradients):
            distributed.all_reduce(tensor)
            tensor /= 2
        results.append((value, gradients))
    torch.save(results, f"{folder}/{rank}.pt")
    distributed.destroy_process_group()


def smoothing(kind: Loss) -> float:
    return 0.1 if kind == "align" else 0.0


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> list[list[Any]]:
    """What each of two gloo processes found. They are forked: importing torch anew would take longer than all the rest."""
    folder = str(tmp_path_factory.mktemp("two"))
    processes = [multiprocessing.get_context("fork").Process(target=process, args=(r, folder)) for r in range(2)]
    for p in processes:
        p.start()
    for p in processes:
        p.join(60)
        if p.is_alive():
            p.terminate()
    assert [p.exitcode for p in processes] == [0, 0]
    return [torch.load(f"{folder}/{r}.pt", weights_only=True) for r in range(2)]


@pytest.mark.parametrize("case", range(len(CASES)), ids=["-".join(map(str, c)) for c in CASES])
def test_two_processes_have_the_loss_and_gradients_of_one(case: int, both: list[list[Any]]) -> None:  # T109
    kind, sizes, uids = CASES[case]
    value, gradients = Towers().step(ContrastiveLoss(kind, smoothing(kind)), slice(0, sum(sizes)), uids)
    for results in both:
        there, theirs = results[case]
        assert there.item() == pytest.approx(value.item(), abs=1e-6)
        for ours, other in zip(gradients, theirs, strict=True):
            torch.testing.assert_close(other, ours, atol=1e-6, rtol=0)


def test_parts_of_a_batch_give_the_gradient_of_the_whole() -> None:
    """Accumulation as the module describes it: features of the other parts without a gradient, the scale's in one call only."""
    for kind in KINDS:
        loss, uids = ContrastiveLoss(kind, smoothing(kind)), list("abca")
        _, whole = Towers().step(loss, slice(0, PAIRS), "abca")
        towers = Towers()
        image, text, scale, bias = towers.parameters
        rows = [F.normalize(x @ w, dim=1) for x, w in zip(towers.inputs, (image, text), strict=True)]
        total = [torch.zeros_like(p) for p in towers.parameters]
        for k, part in enumerate((slice(0, 2), slice(2, 4))):
            held = []
            for row in rows:
                own = row.detach().clone()
                own[part] = row[part]
                held.append(own)
            logits = [t if k == 0 else t.detach() for t in (scale.exp(), bias)]
            value = loss(held[0], held[1], logits[0], logits[1], uids)
            found = torch.autograd.grad(value, towers.parameters, retain_graph=True, allow_unused=True)
            total = [t if g is None else t + g for t, g in zip(total, found, strict=True)]
        for ours, there in zip(total, whole, strict=True):
            torch.testing.assert_close(ours, there, atol=1e-6, rtol=0)
