"""What the tests of downloads have in common."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pipeline.server import Server, serve


@pytest.fixture
def server() -> Iterator[Server]:
    """A server on loopback that answers what a test tells it to."""
    with serve() as s:
        yield s


@pytest.fixture
def pool(tmp_path: Path) -> Path:
    return tmp_path / "pool"
