"""Help for tests of made-up webs on disk."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from baselines.miniweb import evals


@contextlib.contextmanager
def few() -> Iterator[None]:
    """Small evaluation sets, where a test is not about them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evals, "PER_CLASS", 1)
        patch.setattr(evals, "RETRIEVAL", 20)
        patch.setattr(os, "fsync", lambda fd: None)  # the disk's time is most of a build's
        _forget()
        yield
    _forget()


def _forget() -> None:
    evals.classification.cache_clear()
    evals.retrieval.cache_clear()


def files(folder: str) -> dict[str, str]:
    root = Path(folder)
    found = sorted(p for p in root.rglob("*") if p.is_file())
    return {str(p.relative_to(root)): hashlib.sha256(p.read_bytes()).hexdigest() for p in found}
