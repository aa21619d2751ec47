"""How many of a gallery come before a query's own: exact, without ever holding all scores.

A query may own several items, which stand side by side in the gallery (an image's captions); it is found where the best of
them is. Of equal scores the lower index is first, so that a model which scores all alike finds no more than a guess.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from pools.errors import WorkFailed

BLOCK = 1 << 20  # scores held at once, 4 MB, a few times over where they are compared


def ranks(scores: Tensor, first: Tensor, last: Tensor) -> Tensor:
    """How many items come before the best of each row's own: [n, items], [n], [n] → int64 [n].

    A row owns the items from `first` up to, not including, `last`. Raises WorkFailed for scores that are no numbers, which
    would otherwise pass for right answers.
    """
    if not bool(torch.isfinite(scores).all()):
        raise WorkFailed("the model's features are not finite: its weights are broken")
    item = torch.arange(scores.shape[1], device=scores.device)[None, :]
    lower = item < first[:, None]
    best = scores.masked_fill(lower | (item >= last[:, None]), -torch.inf).amax(dim=1, keepdim=True)
    # An own item before the best one scores less, so that equal ones that come before it all lie below `first`.
    return ((scores > best) | ((scores == best) & lower)).sum(dim=1)


def search(queries: Tensor, gallery: Tensor, first: Tensor, last: Tensor, device: str = "cpu", block: int = BLOCK) -> Tensor:
    """`ranks` of the inner products of queries [n, d] and gallery [m, d], a block of whole rows at a time: int64 [n]."""
    rows = max(1, block // max(1, len(gallery)))
    items = gallery.to(device).T
    # One result for all: small ones kept between the freed blocks would keep the allocator from using these again.
    found = torch.empty(len(queries), dtype=torch.int64)
    for at in range(0, len(queries), rows):
        part = slice(at, at + rows)
        # A query's own score is taken from the same product as the others': computed apart it might differ in the last
        # bit, and equal features would no longer be equal.
        found[part] = ranks(queries[part].to(device) @ items, first[part].to(device), last[part].to(device))
    return found


def search_marked(
    queries: Tensor,
    gallery: Tensor,
    own: Callable[[int, int], Tensor],
    hidden: Tensor,
    device: str = "cpu",
    block: int = BLOCK,
) -> Tensor:
    """How many items come before the first that a query owns, wherever in the gallery its own ones are: int64 [n].

    `own(a, b)` are the marks of queries a to b, bool [b - a, m], at least one a query; `hidden` [n] is the item that is
    never found, the query itself say, -1 for none. Raises WorkFailed as `ranks` does.
    """
    rows = max(1, block // max(1, len(gallery)))
    items = gallery.to(device).T
    item = torch.arange(len(gallery), device=device)[None, :]
    found = torch.empty(len(queries), dtype=torch.int64)
    for at in range(0, len(queries), rows):
        scores = queries[at : at + rows].to(device) @ items
        if not bool(torch.isfinite(scores).all()):
            raise WorkFailed("the model's features are not finite: its weights are broken")
        shown = item != hidden[at : at + rows, None].to(device)
        mine = own(at, at + len(scores)).to(device) & shown
        best = scores.masked_fill(~mine, -torch.inf).amax(dim=1, keepdim=True)
        first = (mine & (scores == best)).int().argmax(dim=1, keepdim=True)
        found[at : at + rows] = (((scores > best) | ((scores == best) & (item < first))) & shown).sum(dim=1)
    return found
