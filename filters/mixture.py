"""Mixes: how often a recipe's kept rows stand in the list, so that some groups of them weigh more."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from filters import homes
from filters.registry import Registry
from pools.errors import InputError


@dataclass(frozen=True)
class Group:
    """Rows that are drawn from together: those with one of `labels`, which get `entries` entries of the list.

    Of n rows each gets entries // n, and the entries % n rows with the smallest hashes of uid and seed one more (of equal
    hashes those with the smallest uids).
    """

    labels: tuple[str, ...]
    entries: int


class Mix(Protocol):
    """Labels each row by itself; shares out the list's entries once the rows of every label are counted. Picklable, no I/O."""

    @property
    def needs(self) -> tuple[str, ...]:
        """Columns it reads."""
        ...

    @property
    def seed(self) -> int: ...

    @property
    def labels(self) -> tuple[str, ...]:
        """None at all if each row says itself how often it stands in the list."""
        ...

    def label(self, batch: pa.RecordBatch) -> NDArray[np.int32]:
        """(n,) index into `labels` of each row; without labels, how often it stands in the list."""
        ...

    def plan(self, rows: Mapping[str, int]) -> tuple[Group, ...]:
        """The groups, for so many kept rows of each label; every label is in one. Raises ValueError if they do not allow it."""
        ...


MIXES = Registry[Mix]("mix", homes.MIXES)
register_mix = MIXES.register

REST = "rest"
_CODE = re.compile(r"[a-z]{2,3}")
_PRIMARY = re.compile(r"\s*([A-Za-z]+)(?![^\W_])")  # the first subtag: letters up to what is neither letter nor digit
# Codes that newer ones have replaced, as pages and detectors still write them (Unicode CLDR, languageAlias).
_NEWER = {"iw": "he", "in": "id", "ji": "yi", "jw": "jv", "mo": "ro", "tl": "fil"}


@register_mix("languages")
@dataclass(frozen=True, kw_only=True)
class Languages:
    """Raises each language of `of` to `share` of the list; all other rows keep their proportions, and the total stays.

    `share` is a number for all, or a map of language to number in place of `of`. The language of a row is the first subtag
    of `column`, in small letters (`HI-IN` is hi, `en,es` is en), replaced codes by their newer ones (`iw` is he, `tl` is
    fil); rows without one belong to the rest, as does a language that is above its share already. Of N kept rows, a language
    gets share · N entries and the rest what remains, rounded by largest remainder (ties by name, the rest last). A language
    of which no row is kept is an error. WebLI-100B (language rebalancing): Bengali, Filipino, Hindi, Hebrew, Maori, Swahili
    and Telugu at 0.01 each.
    """

    share: float | dict[str, float]
    of: tuple[str, ...] | None = None
    column: str = "content_language"
    seed: int = 0

    def __post_init__(self) -> None:
        if isinstance(self.share, dict) != (self.of is None):
            raise ValueError("takes `share`, a number, with `of`, a list of languages; or `share`, a map of language to number")
        codes = self.of if self.of is not None else tuple(self.share)  # type: ignore[arg-type]
        if not codes:
            raise ValueError("no language given; expected codes, such as bn")
        if wrong := [code for code in codes if not _CODE.fullmatch(code)]:
            raise ValueError(f"language {wrong[0]!r}; expected a code of two or three small letters, such as bn")
        # In a list a code and the one it replaced are simply one language; in a map they would have two shares.
        keys = codes if self.of is not None else tuple(_NEWER.get(code, code) for code in codes)
        if twice := [code for i, code in enumerate(codes) if keys[i] in keys[:i]]:
            raise ValueError(f"language {twice[0]!r} stands twice")
        if wrong := [code for code, share in self._given().items() if not 0 < share <= 1]:
            raise ValueError(f"share {self._given()[wrong[0]]:g} of {wrong[0]} is not in (0, 1]")
        if (total := sum(self._shares().values())) > 1:
            raise ValueError(f"the shares sum to {float(total):g}, which is more than 1")

    @property
    def needs(self) -> tuple[str, ...]:
        return (self.column,)

    @property
    def labels(self) -> tuple[str, ...]:
        return (*self._shares(), REST)

    def label(self, batch: pa.RecordBatch) -> NDArray[np.int32]:
        values = batch[self.column]
        if not (pa.types.is_string(values.type) or pa.types.is_large_string(values.type) or pa.types.is_null(values.type)):
            raise InputError(f"column {self.column!r} holds {values.type}", expected="codes of languages, as text")
        index = {label: i for i, label in enumerate(self.labels)}
        rest = index[REST]
        encoded = values.cast(pa.string()).dictionary_encode()
        known = [index.get(language_of(v), rest) for v in encoded.dictionary.to_pylist()]
        lookup: NDArray[np.int32] = np.array([*known, rest], np.int32)
        labels: NDArray[np.int32] = lookup[encoded.indices.fill_null(len(known)).to_numpy(zero_copy_only=False)]
        return labels

    def plan(self, rows: Mapping[str, int]) -> tuple[Group, ...]:
        total, shares = sum(rows.values()), self._shares()
        if total and (absent := [code for code in shares if not rows[code]]):
            place = "share" if self.of is None else "of"
            named = ", ".join(repr(code) for code in absent)
            raise ValueError(f"no row of language {named} among the {total:,} kept; drop it from `{place}`")
        quotas = {code: shares[code] * total for code in sorted(shares) if rows[code] <= shares[code] * total}
        quotas[REST] = total - sum(quotas.values(), Fraction(0))
        entries = apportion(quotas)
        rest = tuple(code for code in self.labels if code not in quotas or code == REST)
        return tuple(Group((c,) if c != REST else rest, n) for c, n in entries.items())

    def _given(self) -> dict[str, float]:
        return self.share if isinstance(self.share, dict) else dict.fromkeys(self.of or (), self.share)

    def _shares(self) -> dict[str, Fraction]:
        """{language: its share, exactly as the recipe writes it}, in the recipe's order."""
        return {_NEWER.get(code, code): Fraction(str(share)) for code, share in self._given().items()}


def language_of(value: str) -> str:
    """The first subtag of what a page says its language is, in small letters; empty if it begins with none."""
    found = _PRIMARY.match(value)
    code = found[1].lower() if found else ""
    return _NEWER.get(code, code)


def apportion(quotas: Mapping[str, Fraction]) -> dict[str, int]:
    """Whole numbers with the quotas' sum, which is whole: each rounded down, the largest remainders up (ties: the first)."""
    floors = {name: int(quota) for name, quota in quotas.items()}
    missing = int(sum(quotas.values())) - sum(floors.values())
    by_remainder = sorted(quotas, key=lambda name: floors[name] - quotas[name])
    return {name: n + (name in by_remainder[:missing]) for name, n in floors.items()}
