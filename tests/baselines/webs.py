"""Help for tests of made-up webs on disk."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastwarc.warc import ArchiveIterator, WarcRecordType

from baselines.miniweb import evals
from baselines.miniweb.web import MiniWeb


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


def described(web: MiniWeb) -> Iterator[tuple[str, dict[str, Any]]]:
    """(target address, JSON) of each metadata record of the WATs."""
    for path in sorted(Path(web.wats).iterdir()):
        with path.open("rb") as f:
            for record in ArchiveIterator(f, record_types=WarcRecordType.metadata):
                yield record.headers["WARC-Target-URI"], json.loads(record.reader.read())


def page_links(web: MiniWeb) -> Iterator[tuple[str, dict[str, Any]]]:
    for uri, about in described(web):
        response = about["Envelope"]["Payload-Metadata"].get("HTTP-Response-Metadata")
        if response is not None:
            yield uri, response["HTML-Metadata"]
