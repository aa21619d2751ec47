"""A folder of weights, three made-up models, and the server that has them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.models import fetch as fetching
from pipeline.models import registry
from tests.pipeline.server import Server, serve

BODY = bytes(range(256)) * 4_000  # 1 MB
SHA = hashlib.sha256(BODY).hexdigest()
Registry = dict[str, registry.Entry]


@pytest.fixture(autouse=True)
def weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder of weights; no proxy, no waiting."""
    monkeypatch.setenv("WINNOW_WEIGHTS", str(tmp_path / "weights"))
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setattr(fetching, "WAIT", 0.0)
    return tmp_path / "weights"


@pytest.fixture
def web() -> Iterator[Server]:
    with serve() as server:
        yield server


@pytest.fixture
def known(web: Server, monkeypatch: pytest.MonkeyPatch) -> Registry:
    """`stated` has a hash that a source states, `unstated` has none, `zipped` lies in an archive."""
    stated = registry.Entry(
        name="stated", kind="test", what="a file of bytes", licence="none", cited=("nobody",),
        url=web.root + "/file", sha256=SHA, file="stated.bin", instead="open-nsfw",
    )  # fmt: skip
    table = {
        "stated": stated,
        "unstated": replace(stated, name="unstated", sha256="", file="unstated.bin", instead=""),
        "zipped": replace(stated, name="zipped", url=web.root + "/pack.zip", file="zipped.bin", member="inner.bin"),
    }
    monkeypatch.setattr(registry, "registry", lambda: table)
    return table
