"""Which columns of a unit are counted how, and the counting of a batch."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from filters import arrays
from filters.mixture import language_of
from pipeline.report import domains
from pipeline.report.counts import MOST_CLUSTERS, MOST_LABELS, by_group
from pipeline.report.regions import region_of
from pipeline.report.thresholds import CHARACTERS, RATIO, SIDE, WORDS
from pools import hashes
from pools.part import Part

if TYPE_CHECKING:
    from pipeline.report.reading import Counted

Weights = NDArray[np.int64]
CAPTION, URL, SHA256, PHASH, DOMAIN = "text", "url", "sha256", "phash", "domain"
LANGUAGE, STATED, REGION, TOP_LEVEL, CLUSTER = "language", "content_language", "region", "top-level domain", "cluster"
# Text that says something of one row alone, or that has a section of its own.
_NO_LABELS = frozenset(
    [
        "uid",
        "url",
        "text",
        "alt",
        "caption",
        "page_title",
        "page_url",
        "sha256",
        "phash",
        "key",
        "error_message",
        "final_url",
        "original_caption",
        "md5",
        "name",
        "file_name",
        "language",
        "content_language",
    ]
)
_CAPTIONS = re.compile(r"\w+_caption")
UNKNOWN = "not known"


@dataclass(frozen=True)
class Columns:
    """The columns of a unit by how they are counted."""

    texts: tuple[str, ...]  # of CAPTION, URL, SHA256, PHASH those that are there
    scores: tuple[str, ...]
    sizes: tuple[str, str] | None
    language: bool
    stated: bool
    clusters: tuple[str, ...]
    labels: tuple[str, ...]

    @classmethod
    def of(cls, part: Part, wanted: tuple[str, ...] = ()) -> Columns:
        """`wanted`: columns of whole numbers that are scores too."""
        types = part.types(list(part.columns()))
        words = {name for name, kind in types.items() if _is_text(kind)}
        whole = {name for name, kind in types.items() if pa.types.is_integer(kind)}
        sizes = next((p for p in _SIZES if set(p) <= types.keys() and all(_is_number(types[n]) for n in p)), None)
        scores = [n for n, kind in types.items() if pa.types.is_floating(kind) and n not in (sizes or ())]
        scores += [n for n in wanted if n in whole and n not in (sizes or ()) and n not in scores]
        clusters = [n for n in whole if n == CLUSTER or n.endswith("_" + CLUSTER)]
        return cls(
            tuple(n for n in (CAPTION, URL, SHA256, PHASH) if n in words or (n == PHASH and n in whole)),
            tuple(sorted(scores)),
            sizes,
            LANGUAGE in words,
            STATED in words,
            tuple(sorted(clusters)),
            tuple(sorted(n for n in words if n not in _NO_LABELS and not _CAPTIONS.fullmatch(n))),
        )

    @property
    def words(self) -> tuple[str, ...]:
        """Columns of texts that are looked into."""
        named = ([LANGUAGE] if self.language else []) + ([STATED] if self.stated else [])
        return (*(n for n in self.texts if n in (CAPTION, URL)), *named, *self.labels)

    @property
    def read(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys([*self.texts, *self.words, *self.scores, *(self.sizes or ()), *self.clusters]))


_SIZES = (("original_width", "original_height"), ("width", "height"))


def _is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def count(
    batch: pa.RecordBatch, there: Columns, weights: Weights, found: Counted, edges: Mapping[str, NDArray[np.float64]]
) -> None:
    """Adds a batch to what was found; (groups.all, n) weights."""
    main = weights[: found.groups.main]
    words = {name: domains.repaired(batch[name]) for name in there.words}
    for name in there.scores:
        if name in edges:
            found.histogram(name, edges[name]).add(arrays.floats(batch[name]), main)
    if there.sizes:
        width, height = (arrays.floats(batch[name].cast(pa.float64())) for name in there.sizes)
        short, long = np.minimum(width, height), np.maximum(width, height)
        found.histogram(SIDE, edges[SIDE]).add(short, main)
        with np.errstate(divide="ignore", invalid="ignore"):
            found.histogram(RATIO, edges[RATIO]).add(np.where(short > 0, long / short, np.nan), main)
    for name in there.texts:
        _values(name, words.get(name, batch[name]), main, found)
    if CAPTION in there.texts:
        _lengths(words[CAPTION], main, found, edges)
    if URL in there.texts:
        _places(words[URL], weights, found)
    _languages(words, there, weights, found)
    for name in there.clusters:
        _labels(name, batch[name].cast(pa.string()), weights, found, MOST_CLUSTERS)
    for name in there.labels:
        _labels(name, words[name], weights, found, MOST_LABELS, gives_up=True)


def _encoded(values: pa.Array) -> tuple[NDArray[np.int32], pa.Array, NDArray[np.bool_]]:
    """Places among the different values (of rows that have one), those values, and which rows have one."""
    if not pa.types.is_dictionary(values.type):
        values = values.dictionary_encode()
    valid = arrays.numpy(values.indices.is_valid())
    return arrays.numpy(values.indices)[valid].astype(np.int32), values.dictionary, valid


def _values(name: str, values: pa.Array, weights: Weights, found: Counted) -> None:
    """Rows with equal values."""
    places, different, valid = _encoded(values)
    if len(different):
        found.tally(name).add(hashes.of_column(different, name), by_group(places, len(different), weights[:, valid]))


def _lengths(values: pa.Array, weights: Weights, found: Counted, edges: Mapping[str, NDArray[np.float64]]) -> None:
    characters = arrays.floats(pc.utf8_length(values))
    found.histogram(CHARACTERS, edges[CHARACTERS]).add(characters, weights)
    # As the filter `caption` counts words; Arrow has another notion of white space.
    words = np.fromiter((np.nan if t is None else len(t.split()) for t in domains.texts(values)), np.float64, len(values))
    found.histogram(WORDS, edges[WORDS]).add(words, weights)


def _places(urls: pa.Array, weights: Weights, found: Counted) -> None:
    """Registered domains, top-level domains and regions."""
    places, authorities = domains.encode(urls)
    known = [domains.registered(a) for a in authorities]
    counts = by_group(places, len(authorities), weights)
    main = counts[:, : found.groups.main]
    found.tally(DOMAIN).add(_domain_hashes([domain for domain, _ in known]), main)
    _grouped(TOP_LEVEL, [top for _, top in known], counts, found)
    _grouped(REGION, [region_of(top) for _, top in known], counts, found)


def _grouped(name: str, names: list[str], counts: NDArray[np.int64], found: Counted) -> None:
    """Adds counts of names that may stand several times."""
    places = {n: i for i, n in enumerate(dict.fromkeys(names))}
    total = np.zeros((len(places), counts.shape[1]), np.int64)
    np.add.at(total, [places[n] for n in names], counts)
    found.label(name, MOST_CLUSTERS, gives_up=False).add(list(places), total)


def _languages(words: Mapping[str, pa.Array], there: Columns, weights: Weights, found: Counted) -> None:
    if there.language:
        _named_languages(LANGUAGE, words[LANGUAGE], weights, found)
    elif CAPTION in there.texts and (identify := _identifier()) is not None:
        codes, _ = identify(words[CAPTION])
        _named_languages(LANGUAGE, pa.array(codes.tolist(), pa.string()), weights, found)
        found.identified += len(codes)
    if there.stated:
        _named_languages(STATED, words[STATED], weights, found)


def _named_languages(name: str, values: pa.Array, weights: Weights, found: Counted) -> None:
    """Languages by their first subtag, `he` for `iw`; none is `UNKNOWN`."""
    places, different, valid = _encoded(values)
    names = [language_of(v or "") or UNKNOWN for v in domains.texts(different.cast(pa.string()))]
    counts = by_group(places, len(names), weights[:, valid])
    _grouped(name, [*names, UNKNOWN], np.concatenate([counts, weights[:, ~valid].sum(1)[None]]), found)


@functools.cache
def _identifier() -> Callable[[pa.Array], Any] | None:
    """What finds out languages, if it is installed."""
    try:
        import fasttext  # type: ignore[import-not-found,unused-ignore] # noqa: F401
    except ModuleNotFoundError:
        return None
    from filters import lid, models

    return lambda values: lid.identify(arrays.strings([t or "" for t in domains.texts(values)]), models.LID_176_FTZ)


def _labels(name: str, values: pa.Array, weights: Weights, found: Counted, most: int, *, gives_up: bool = False) -> None:
    labels = found.label(name, most, gives_up=gives_up)
    if labels.given_up:
        return
    places, different, valid = _encoded(values)
    names = [v or "" for v in domains.texts(different.cast(pa.string()))]
    counts = by_group(places, len(names), weights[:, valid])
    missing = weights[:, ~valid].sum(1)[None]
    labels.add([*names, UNKNOWN], np.concatenate([counts, missing])) if missing.any() else labels.add(names, counts)


def _domain_hashes(names: list[str]) -> NDArray[np.uint64]:
    return hashes.of_column(arrays.strings(names))


Named = tuple[NDArray[np.uint64], Callable[[int], str]]


def _by_value(values: pa.Array) -> Named:
    return hashes.of_column(values), lambda i: str(domains.texts(values.slice(i, 1))[0])


def _by_domain(values: pa.Array) -> Named:
    places, authorities = domains.encode(values)
    names = [domains.registered(a)[0] for a in authorities]
    return _domain_hashes(names)[places], lambda i: names[places[i]]


# Of each tally what its hashes are of, and how a row's value is called.
COUNTED: Mapping[str, Callable[[pa.Array], Named]] = {
    **dict.fromkeys((CAPTION, URL, SHA256, PHASH), _by_value),
    DOMAIN: _by_domain,
}
