"""Shared fixtures: the real input beside the checkout, and one Spark session for all tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.demos import Demo

# One thread a process: the numeric libraries get many times slower when several processes want all cores.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

SHARED = Path(__file__).resolve().parent.parent.parent / "shared"


def pytest_make_parametrize_id(config: pytest.Config, val: object, argname: str) -> str | None:
    """Long bytes are named by their argument: gzip writes the time into them, and two workers must collect equal names."""
    return argname if isinstance(val, bytes) and len(val) > 16 else None


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """`../shared/data`; the test is skipped, by name, where it is absent."""
    if not (SHARED / "data").is_dir():
        pytest.skip(f"no real input: {SHARED / 'data'} is absent")
    return SHARED / "data"


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """The one local Spark session of a test run."""
    from pipeline.spark import session

    built = session(2)
    yield built
    built.stop()


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    """A finished demo, to be looked at; a test that changes it takes a copy. Its tests are in the xdist group "demo"."""
    return Demo.run(tmp_path_factory.mktemp("demo"))
