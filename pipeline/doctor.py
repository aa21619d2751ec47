"""`winnow doctor`: what is installed here, and which command installs what is missing."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import dataclass
from importlib.metadata import distributions, packages_distributions

from pipeline.extras import EXTRAS, install_command
from pools.errors import InputError

OURS = ("pools", "filters", "pipeline", "baselines")


@dataclass(frozen=True)
class Finding:
    """One check: `ok` is None where something optional is missing."""

    ok: bool | None
    what: str
    fix: str = ""


def examine() -> bool:
    """Prints all findings; False if one of them is an error."""
    findings = [_python(), *_extras(), _java(), _language_model(), *_strangers(), *_opencv()]
    marks = {True: "ok     ", None: "missing", False: "ERROR  "}
    for finding in findings:
        print(
            f"{marks[finding.ok]}  {finding.what}" + (f"\n           → {finding.fix}" if finding.fix and not finding.ok else "")
        )
    return all(f.ok is not False for f in findings)


def _python() -> Finding:
    here = ".".join(map(str, sys.version_info[:3]))
    return Finding((3, 11) <= sys.version_info < (3, 13), f"Python {here}", "use Python 3.11 or 3.12")


def _extras() -> list[Finding]:
    found = []
    for extra, modules in EXTRAS.items():
        missing = [m for m in modules if importlib.util.find_spec(m) is None]
        what = f"{extra}: {', '.join(modules)}" if not missing else f"{extra}: no {', '.join(missing)}"
        found.append(Finding(None if missing else True, what, install_command(extra)))
    return found


def _java() -> Finding:
    from pipeline.java import find_java

    try:
        return Finding(True, f"Java for Spark: {find_java()}")
    except InputError as e:
        return Finding(None, e.what, e.fix or "")


def _language_model() -> Finding:
    from filters.models import LID_176_FTZ, packaged

    try:
        return Finding(True, f"language model: {packaged(LID_176_FTZ)}")
    except InputError as e:
        return Finding(None, e.what, e.fix or "")


def _strangers() -> list[Finding]:
    """Distributions that own one of our four package names: the last on the path would win silently."""
    owners = packages_distributions()
    clashes = [(name, d) for name in OURS for d in owners.get(name, []) if d != "winnow"]
    return [Finding(False, f"{d} also installs a package {name!r}", f"pip uninstall {d}") for name, d in clashes]


def _opencv() -> list[Finding]:
    """Two OpenCV builds own the same files; of different versions, which one is imported is a matter of luck."""
    builds = {d.metadata["Name"]: d.version for d in distributions() if d.metadata["Name"].lower().startswith("opencv-")}
    if len(set(builds.values())) < 2:
        return []
    named = ", ".join(f"{name} {version}" for name, version in sorted(builds.items()))
    fix = "keep one: pip uninstall the others, then pip install --force-reinstall --no-deps opencv-python-headless==4.14.0.94"
    return [Finding(False, f"several OpenCV builds of different versions: {named}", fix)]
