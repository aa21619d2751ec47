"""Accuracy by group: the WILDS tasks (Koh et al. 2021), Dollar Street and GeoDE.

`<sample>.npy` beside an image holds its fields, whole numbers from 0. Metrics have the names that DataComp's results have:
`<metric>_<field>:<value>` and `count_<field>:<value>` for each group, `<metric>_avg` over all images, and the worst of the
groups that have images. A group without any has null, where DataComp's own files have NaN.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from baselines.score.evals import data as evaldata
from baselines.score.metrics import Ints
from pools.errors import InputError

Values = dict[str, float | None]
Fields = Mapping[str, Ints]  # {name: [n]}
# What `.npy` holds of each task's images, in this order.
FIELDS = {
    "wilds/iwildcam": ("location", "sequence", "year", "month", "day", "hour", "minute", "second", "y"),
    "wilds/camelyon17": ("hospital", "slide", "y"),
    "wilds/fmow": ("region", "year", "y"),
    "fairness/dollar_street": ("income_ds", "income_meta", "region"),
    "fairness/geode": ("region", "country"),
    "fairness/fairface": ("age", "gender", "race", "race_binary"),
    "fairness/utkface": ("age", "gender", "race", "race_binary"),
}
OTHER_REGION = 5  # of FMoW's regions "Other": Asia, Europe, Africa, Americas, Oceania come before it
MOST_GROUPS = 100_000


@dataclass(frozen=True)
class Judged:
    """What a model made of n images: their classes, the rank of each among the scores, the class with the highest score.

    An image that counts as wrong without having been read has the rank and the prediction `classes`.
    """

    labels: Ints
    ranks: Ints
    predictions: Ints
    fields: Fields


def read_fields(tars: Sequence[str], names: Sequence[str]) -> dict[str, Ints]:
    """The fields of all images, in the order of the tars. Raises InputError where an image's are no such numbers."""
    rows = []
    for path, key, data in evaldata.companions(tars, "npy"):
        rows.append(_row(data, f"{path}: {key}.npy", names))
    columns = np.array(rows, np.int64).reshape(len(rows), len(names)).T
    return dict(zip(names, columns, strict=True))


def _row(data: bytes, where: str, names: Sequence[str]) -> NDArray[np.int64]:
    try:
        row: NDArray[Any] = np.load(io.BytesIO(data), allow_pickle=False)
    except (ValueError, EOFError, OSError) as e:
        raise InputError(f"not a .npy: {e}", where=where, expected=f"an array of {', '.join(names)}") from e
    if row.shape != (len(names),) or row.dtype.kind not in "iuf" or not bool(np.all(row == np.floor(row))):
        found = f"{row.dtype} {list(row.shape)}"
        raise InputError(f"{found} is not what was recorded", where=where, expected=f"whole numbers: {', '.join(names)}")
    return row.astype(np.int64)


def metrics(key: str, judged: Judged) -> Values:
    """What a task of FIELDS reports besides accuracies and recall; nothing for other tasks."""
    right = judged.predictions == judged.labels
    match key:
        case "wilds/iwildcam":
            recall, f1 = macro(judged.labels, judged.predictions)
            return {"acc_avg": _mean(right), "recall-macro_all": recall, "F1-macro_all": f1}
        case "wilds/camelyon17":
            return by_group("acc", right, judged.fields, ["slide"])
        case "wilds/fmow":
            years = by_group("acc", right, judged.fields, ["year"])
            years["acc_worst_year"] = years.pop("acc_wg")
            regions = by_group("acc", right, judged.fields, ["region"], worst="acc_worst_region", ignored=[OTHER_REGION])
            return {**years, **{name: value for name, value in regions.items() if name != "acc_avg"}}
        case "fairness/dollar_street":
            return by_group("acc_top5", judged.ranks < 5, judged.fields, ["income_ds"])
        case "fairness/geode":
            return by_group("acc", right, judged.fields, ["region"])
    return {}


def by_group(
    name: str,
    right: NDArray[np.bool_],
    fields: Fields,
    by: Sequence[str],
    *,
    worst: str | None = None,
    ignored: Sequence[int] = (),
) -> Values:
    """Shares of `right` [n] over all images and in each group, the groups' sizes, and the least share as `worst`.

    A group is a value of the field in `by`, or a combination of values of several, the last of which is named first;
    values without images below a field's highest make groups too. `ignored` groups are never the worst, unless no others
    have images. Raises InputError for more than MOST_GROUPS groups.
    """
    sizes = [int(fields[field].max(initial=0)) + 1 for field in by]
    if min(int(fields[field].min(initial=0)) for field in by) < 0 or np.prod(sizes, dtype=np.float64) > MOST_GROUPS:
        raise InputError(f"{sizes} groups of {', '.join(by)}", expected=f"values from 0, {MOST_GROUPS} groups at most")
    group = np.zeros(len(right), np.int64)
    for field, size in zip(reversed(by), reversed(sizes), strict=True):
        group = group * size + fields[field]
    number = int(np.prod(sizes))
    counts = np.bincount(group, minlength=number)
    hits = np.bincount(group[right], minlength=number)
    shares = [None if n == 0 else float(k / n) for k, n in zip(hits, counts, strict=True)]
    found: Values = {f"{name}_avg": _mean(right)}
    for g in range(number):
        label = _label(g, by, sizes)
        found[f"{name}_{label}"] = shares[g]
        found[f"count_{label}"] = float(counts[g])
    present = [g for g in range(number) if shares[g] is not None]
    asked = [g for g in present if g not in ignored] or present
    found[worst or f"{name}_wg"] = min((share for g in asked if (share := shares[g]) is not None), default=None)
    return found


def _label(group: int, by: Sequence[str], sizes: Sequence[int]) -> str:
    """`race:2_gender:0` for the group in which gender, the first of `by`, is 0 and race is 2."""
    values = []
    for size in sizes:
        group, value = divmod(group, size)
        values.append(value)
    return "_".join(f"{field}:{value}" for field, value in zip(reversed(by), reversed(values), strict=True))


def macro(labels: Ints, predictions: Ints) -> tuple[float, float]:
    """Means of recall and of F1 over the classes that have images."""
    present = np.unique(labels)
    size = int(max(labels.max(), predictions.max())) + 1
    true, said = np.bincount(labels, minlength=size), np.bincount(predictions, minlength=size)
    hits = np.bincount(labels[labels == predictions], minlength=size)
    recall = hits[present] / true[present]
    f1 = 2 * hits[present] / (true[present] + said[present])
    return float(recall.mean()), float(f1.mean())


def _mean(right: NDArray[np.bool_]) -> float:
    return float(np.mean(right))
