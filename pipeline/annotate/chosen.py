"""What `--with` and the options beside it mean: annotators by name, each with the options that are its own."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Iterator, Mapping, Sequence

from pipeline.annotate.annotator import Annotator
from pipeline.annotate.catalogue import ANNOTATORS, find
from pools.errors import InputError


def choose(names: Sequence[str], settings: Sequence[str], flags: Mapping[str, str | None]) -> list[tuple[str, Annotator]]:
    """(kind, annotator) of each of `names`: an annotator, or annotator:label, which names its columns too.

    settings: `label.key=value`, or `key=value` where there is one annotator. flags: the same for options with a flag of their
    own (`--model`), which belong to the one annotator, or to the clip where there is one among several.
    Raises InputError for what is not known.
    """
    labels: dict[str, str] = {}
    options: dict[str, dict[str, str]] = {}
    for name in (part.strip() for item in names for part in item.split(",") if part.strip()):
        kind, colon, label = name.partition(":")
        _check_known(kind)
        label = label if colon else kind
        if label in labels:
            raise InputError(
                f"{label!r} is named twice", where="--with", expected="each by a label of its own: clip:b32,clip:l14"
            )
        labels[label], options[label] = kind, {"name": label} if colon else {}
    if not labels:
        raise InputError("no annotator", where="--with", expected=f"some of {', '.join(sorted(ANNOTATORS))}")
    for key, value in flags.items():
        if value is not None:
            options[_owner(labels, f"--{key}", key)][key] = value
    for setting in settings:
        owner, key, value = _split(setting, labels)
        options[owner][key] = value
    return [(kind, find(kind)(options[label])) for label, kind in labels.items()]


def _check_known(kind: str) -> None:
    if kind not in ANNOTATORS:
        close = difflib.get_close_matches(kind, ANNOTATORS, 2)
        raise InputError(
            f"unknown annotator {kind!r}",
            where="--with",
            expected=f"one of {', '.join(sorted(ANNOTATORS))}",
            fix=f"did you mean {' or '.join(close)}?" if close else "winnow annotate --list says what each writes",
        )


def _owner(labels: Mapping[str, str], where: str, key: str) -> str:
    if len(labels) == 1:
        return next(iter(labels))
    clips = [label for label, kind in labels.items() if kind == "clip"]
    if len(clips) == 1 and key in ("model", "pretrained", "name", "precision"):
        return clips[0]
    examples = " ".join(f"--set {label}.{key}=…" for label in labels)
    raise InputError("whose option is that?", where=where, expected="an option of one annotator", fix=f"say {examples}")


def _split(setting: str, labels: Mapping[str, str]) -> tuple[str, str, str]:
    name, equals, value = setting.partition("=")
    label, dot, key = name.rpartition(".")
    if not equals or (dot and label not in labels):
        raise InputError(
            f"{setting!r}", where="--set", expected=f"NAME.KEY=VALUE with one of {', '.join(labels)}, or KEY=VALUE"
        )
    return (label if dot else _owner(labels, f"--set {setting}", key)), key, value


def described() -> Iterator[str]:
    """What there is, and the options of each, for people."""
    for kind in sorted(ANNOTATORS):
        lines = (inspect.getdoc(find(kind)) or "").splitlines()
        yield f"{kind}:"
        yield from (f"    {line}" if line else "" for line in lines)
