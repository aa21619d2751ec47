"""Which of similar rows stay, in words that leave nothing open: a rule, and the order in which rows are visited.

- `compare-with-kept`: a row goes if it is similar to one that was visited before and stays.
- `component`: rows that a chain of similar ones connects are one group, of which the first visited stays.
- `any-earlier`: a row goes if it is similar to one visited before, be that kept or not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

VisitRule = Literal["compare-with-kept", "component", "any-earlier"]
RULES: tuple[VisitRule, ...] = get_args(VisitRule)
Similar = Callable[[NDArray[np.intp], NDArray[np.intp]], NDArray[np.bool_]]  # places (a,), (b,) → (a, b)
_BLOCK = 512


def kept_of_pairs(number: int, pairs: NDArray[np.int64], rule: VisitRule) -> NDArray[np.bool_]:
    """(number,) whether each of the rows, which are numbered as visited, stays; `pairs` (m, 2) are all similar i < j."""
    kept = np.ones(number, bool)
    if rule == "any-earlier":
        kept[pairs[:, 1]] = False
    elif rule == "component":
        kept = _first_of_component(number, pairs) == np.arange(number)
    else:
        # Rows without an undecided earlier neighbour stay, their neighbours go: again, until all pairs are decided.
        while len(pairs):
            waiting = np.zeros(number, bool)
            waiting[pairs[:, 1]] = True
            settled = pairs[~waiting[pairs[:, 0]]]
            kept[settled[:, 1]] = False
            pairs = pairs[waiting[pairs[:, 0]] & kept[pairs].all(axis=1)]
    return kept


def condensed(number: int, pairs: NDArray[np.int64], rule: Literal["component", "any-earlier"]) -> NDArray[np.int64]:
    """Fewer pairs that decide the same, `number` at most, also with others that are found later."""
    later = np.arange(number)
    first = later.copy()
    if rule == "component":
        first = _first_of_component(number, pairs)
    else:
        first[pairs[:, 1]] = pairs[:, 0]
    fewer: NDArray[np.int64] = np.stack([first, later], axis=1)[first != later]
    return fewer


def _first_of_component(number: int, pairs: NDArray[np.int64]) -> NDArray[np.int64]:
    """(number,) the smallest number in each row's component: labels sink along the pairs and along themselves."""
    label = np.arange(number)
    while True:
        lowest = np.minimum(label[pairs[:, 0]], label[pairs[:, 1]])
        sunk = label.copy()
        for end in (0, 1):
            np.minimum.at(sunk, pairs[:, end], lowest)
            np.minimum.at(sunk, label[pairs[:, end]], lowest)
        sunk = sunk[sunk]
        if (sunk == label).all():
            return label
        label = sunk


def kept_of_group(number: int, similar: Similar, rule: VisitRule) -> NDArray[np.bool_]:
    """The same for rows of which most may be similar: `similar` is asked for blocks of them, each pair once or twice."""
    if rule == "component":
        return _kept_of_components(number, similar)
    kept = np.ones(number, bool)
    for start in range(0, number, _BLOCK):
        block = np.arange(start, min(start + _BLOCK, number))
        for first in range(0, start, _BLOCK):
            earlier = np.arange(first, first + _BLOCK)
            if rule == "compare-with-kept":
                earlier, asked = earlier[kept[earlier]], block[kept[block]]
            else:
                asked = block[kept[block]]
            kept[asked] &= ~similar(earlier, asked).any(axis=0)
        within = np.triu(similar(block, block), 1)
        if rule == "any-earlier":
            kept[block] &= ~within.any(axis=0)
        else:
            for i, row in enumerate(within):
                if kept[block[i]]:
                    kept[block[row]] = False
    return kept


def _kept_of_components(number: int, similar: Similar) -> NDArray[np.bool_]:
    """From the first row that no component holds yet, along the similar ones, until there are no more."""
    kept, unseen = np.zeros(number, bool), np.ones(number, bool)
    for first in range(number):
        if not unseen[first]:
            continue
        kept[first], unseen[first] = True, False
        frontier = np.array([first])
        while len(frontier):
            asked, rest = frontier[:_BLOCK], frontier[_BLOCK:]
            others = np.flatnonzero(unseen)
            reached = [others[i : i + _BLOCK] for i in range(0, len(others), _BLOCK)]
            new = [found[similar(asked, found).any(axis=0)] for found in reached]
            frontier = np.concatenate([rest, *new])
            unseen[frontier] = False
    return kept
