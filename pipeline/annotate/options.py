"""What the command line says of an annotator: words under names that it knows."""

from __future__ import annotations

from collections.abc import Mapping

from pools.errors import InputError


def known(annotator: str, options: Mapping[str, str], *names: str) -> Mapping[str, str]:
    """The options, if all are among `names`. Raises InputError for one that is not."""
    if unknown := [n for n in options if n not in names]:
        raise InputError(f"{annotator} knows no option {unknown[0]!r}", expected=f"{', '.join(names)}")
    return options


def truth(annotator: str, options: Mapping[str, str], name: str, default: bool) -> bool:
    """An option that is `true` or `false`. Raises InputError."""
    value = options.get(name)
    if value not in (None, "true", "false"):
        raise InputError(f"{name} of {annotator} is {value!r}", expected="true or false")
    return default if value is None else value == "true"
