"""Linear classifiers on features that stay as they are: softmax regression, and least squares for a few images a class."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from baselines.score.metrics import Ints
from baselines.score.ranking import ranks

BATCH = 256
ROWS = 4096  # whose scores are held at once
# Tried on the held-out images. The rate stays constant, so that one training of the most epochs tries all numbers of them.
RATES = (1e-4, 1e-3, 1e-2, 1e-1)
EPOCHS = (10, 20, 40)
DECAYS = (0.0, 1e-4, 1e-2)
L2 = 1024.0  # of least squares: Big Vision's, for standardised features (few-shot evaluation of Wang et al. 2025)


@dataclass(frozen=True)
class Scaling:
    """What brings features to mean 0 and standard deviation 1."""

    mean: Tensor
    deviation: Tensor

    @classmethod
    def of(cls, features: Tensor) -> Scaling:
        """A feature that never varies is left at 0."""
        return cls(features.mean(dim=0), features.std(dim=0, correction=0) + 1e-5)

    def __call__(self, features: Tensor) -> Tensor:
        return (features - self.mean) / self.deviation


@dataclass(frozen=True)
class Setting:
    """How a softmax regression is trained; `decay` times half the squared weights is added to the mean loss."""

    rate: float
    epochs: int
    decay: float


@dataclass(frozen=True)
class Tried:
    setting: Setting
    accuracy: float
    loss: float


@dataclass(frozen=True)
class Linear:
    """`weight` [d, classes], `bias` [classes] on scaled features."""

    scaling: Scaling
    weight: Tensor
    bias: Tensor

    def scores(self, features: Tensor) -> Tensor:
        """[n, classes] for features [n, d], on the features' device."""
        place = features.device
        scaled = (features - self.scaling.mean.to(place)) / self.scaling.deviation.to(place)
        return scaled @ self.weight.to(place) + self.bias.to(place)


def least_squares(features: Tensor, labels: Tensor, classes: int, l2: float = L2) -> Linear:
    """Ridge regression to 1 for the own class and -1 for others, its bias free: features [n, d], labels [n].

    In closed form and in double precision, by way of whichever of n and d is smaller.
    """
    scaling = Scaling.of(features.double())
    x = scaling(features.double())
    y = 2 * F.one_hot(labels, classes).double() - 1
    bias = y.mean(dim=0)
    n, d = x.shape
    if n < d:
        weight = x.T @ torch.linalg.solve(x @ x.T + l2 * torch.eye(n, dtype=x.dtype), y - bias)
    else:
        weight = torch.linalg.solve(x.T @ x + l2 * torch.eye(d, dtype=x.dtype), x.T @ (y - bias))
    return Linear(Scaling(scaling.mean.float(), scaling.deviation.float()), weight.float(), bias.float())


def softmax(features: Tensor, labels: Tensor, classes: int, setting: Setting, *, device: str = "cpu", seed: int = 0) -> Linear:
    """Softmax regression by Adam in batches of BATCH (Cherti et al. 2023, §4.3), from weights of zero."""
    for found in epochs(features, labels, classes, [setting], setting.epochs, device=device, seed=seed):
        last = found
    return last[0]


def epochs(
    features: Tensor,
    labels: Tensor,
    classes: int,
    settings: Sequence[Setting],
    number: int,
    *,
    device: str = "cpu",
    seed: int = 0,
) -> Iterator[list[Linear]]:
    """The classifier of each setting after each epoch, all trained side by side on the same batches.

    The tensors go on being trained. The rule is Adam's (Kingma and Ba 2015) with its published constants.
    """
    features, labels = features.to(device), labels.to(device)
    scaling = Scaling.of(features)
    n, d = features.shape
    rate = torch.tensor([s.rate for s in settings], device=device)[:, None, None]
    decay = torch.tensor([s.decay for s in settings], device=device)[:, None, None].repeat(1, d + 1, 1)
    decay[:, d] = 0  # the bias's
    weight = torch.zeros(len(settings), d + 1, classes, device=device)
    mean, square = torch.zeros_like(weight), torch.zeros_like(weight)
    order, step = torch.Generator().manual_seed(seed), 0
    for _ in range(number):
        for batch in torch.split(torch.randperm(n, generator=order).to(device), BATCH):
            x = F.pad(scaling(features[batch]), (0, 1), value=1)
            wrong = torch.softmax(x @ weight, dim=-1)
            wrong[:, torch.arange(len(batch), device=device), labels[batch]] -= 1
            gradient = x.T @ wrong / len(batch) + decay * weight
            step += 1
            mean.lerp_(gradient, 0.1)
            square.lerp_(gradient.square(), 0.001)
            weight -= rate * (mean / (1 - 0.9**step)) / ((square / (1 - 0.999**step)).sqrt() + 1e-8)
        yield [Linear(scaling, w[:d], w[d]) for w in weight]


def choose(
    features: Tensor,
    labels: Tensor,
    classes: int,
    held_out: Tensor,
    *,
    device: str = "cpu",
    rates: Sequence[float] = RATES,
    numbers: Sequence[int] = EPOCHS,
    decays: Sequence[float] = DECAYS,
) -> tuple[Setting, list[Tried]]:
    """The best setting by accuracy on the held-out images, of equal ones by loss, and all that were tried.

    `held_out` [n] says which of the images are not trained on.
    """
    features, labels, held_out = features.to(device), labels.to(device), held_out.to(device)
    train, rest = (features[~held_out], labels[~held_out]), (features[held_out], labels[held_out])
    grid = [Setting(rate, max(numbers), decay) for rate, decay in itertools.product(rates, decays)]
    tried = []
    for number, found in enumerate(epochs(*train, classes, grid, max(numbers), device=device), 1):
        if number in numbers:
            tried += [Tried(replace(s, epochs=number), *_judge(f, *rest)) for s, f in zip(grid, found, strict=True)]
    return max(tried, key=lambda t: (t.accuracy, -t.loss)).setting, tried


def ranks_of(linear: Linear, features: Tensor, labels: Ints) -> Ints:
    """Of n images the number of classes that score higher than the own one, as `ranking.ranks`."""
    found = [np.empty(0, np.int64)]
    for part, own in zip(torch.split(features, ROWS), torch.split(torch.from_numpy(labels), ROWS), strict=True):
        found.append(ranks(linear.scores(part), own, own + 1).numpy())
    return np.concatenate(found)


def _judge(linear: Linear, features: Tensor, labels: Tensor) -> tuple[float, float]:
    """Accuracy and mean loss."""
    scores = linear.scores(features)
    return float((scores.argmax(dim=1) == labels).float().mean()), float(F.cross_entropy(scores, labels))
