"""`winnow doctor`: what is installed here, and which command installs what is missing."""

from __future__ import annotations

import importlib.util
import shutil
import sys
import tempfile
from collections import defaultdict
from dataclasses import dataclass
from importlib.metadata import distributions, packages_distributions
from pathlib import Path

import typer

from pipeline.cli_options import Json
from pipeline.extras import EXTRAS, install_command
from pools.errors import InputError

OURS = ("pools", "filters", "pipeline", "baselines")
# Modules that several distributions bring, each over the files of the other.
SINGLE = ("fasttext", "onnxruntime")
LITTLE = 2 << 30  # bytes free, below which a disk is told of
STATES = {True: "ok", None: "missing", False: "error"}


@dataclass(frozen=True)
class Finding:
    """One check: `ok` is None where something optional is missing."""

    ok: bool | None
    what: str
    fix: str = ""


def doctor(json: Json = False) -> None:
    """Check what is installed, and say which command installs what is missing.

    Exit status 1 says that something is installed and does not work; what is missing is not wrong.

    Example: winnow doctor
    """
    if not examine(as_json=json):
        raise typer.Exit(1)


def examine(*, as_json: bool = False) -> bool:
    """Prints all findings; False if one of them is an error: something that is installed and does not work."""
    findings = [
        *(_python(), *_extras(), _gpu(), _java(), *_packaged_models(), *_weights(), *_disks()),
        *(*_clashes(), *_opencv()),
    ]
    good = all(f.ok is not False for f in findings)
    if as_json:
        from json import dumps

        rows = [{"state": STATES[f.ok], "what": f.what, "fix": "" if f.ok else f.fix} for f in findings]
        print(dumps({"ok": good, "findings": rows}))
        return good
    marks = {True: "ok     ", None: "missing", False: "ERROR  "}
    for finding in findings:
        print(
            f"{marks[finding.ok]}  {finding.what}" + (f"\n           → {finding.fix}" if finding.fix and not finding.ok else "")
        )
    return good


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


def _gpu() -> Finding:
    """GPUs that torch can compute on; one that it sees and cannot compute on is an error."""
    if importlib.util.find_spec("torch") is None:
        return Finding(None, "GPU: not looked for without torch", install_command("train"))
    import torch

    if torch.version.cuda is None:
        seen = shutil.which("nvidia-smi") is not None
        fix = "install the torch for CUDA: https://pytorch.org/get-started/locally" if seen else ""
        return Finding(None, f"GPU: none for torch {torch.__version__}, which is built without CUDA", fix)
    if not torch.cuda.is_available():
        return Finding(None, f"GPU: none, torch {torch.__version__} for CUDA {torch.version.cuda} finds no device or no driver")
    names = []
    for i in range(torch.cuda.device_count()):
        card = torch.cuda.get_device_properties(i)
        names.append(f"{card.name}, {card.total_memory / 2**30:.0f} GiB")
        try:
            torch.ones(2, device=f"cuda:{i}").sum().item()
        except RuntimeError as e:
            what = f"GPU {i}: {card.name} cannot be computed on: {str(e).splitlines()[0]}"
            return Finding(False, what, "install a torch that is made for it: https://pytorch.org/get-started/locally")
    return Finding(True, f"GPU: {'; '.join(names)} (CUDA {torch.version.cuda})")


def _java() -> Finding:
    from pipeline.java import find_java

    try:
        return Finding(True, f"Java for Spark: {find_java()}")
    except InputError as e:
        return Finding(None, e.what, e.fix or "")


def _packaged_models() -> list[Finding]:
    """The models that come with winnow; one that holds something else than it should is an error."""
    from filters.models import checked, install_command
    from pipeline.models.registry import registry

    entries = [e for e in registry().values() if e.embedded]
    missing = [e.name for e in entries if not e.present]
    found = [Finding(None, f"models that come with winnow: no {', '.join(missing)}", install_command())] if missing else []
    here = [e for e in entries if e.present]
    for entry in here:
        try:
            if not entry.module:
                checked(entry.name)
        except InputError as e:
            found.append(Finding(False, f"{entry.name}: {e.what}: {e.where}", install_command().replace("-r", "--upgrade -r")))
    return [*found, Finding(True, f"models that come with winnow: {', '.join(e.name for e in here)}")]


def _weights() -> list[Finding]:
    """The published weights, by what needs them; packaged models stand in for many."""
    from pipeline.models.registry import Entry, folder, registry

    by_use: defaultdict[str, list[Entry]] = defaultdict(list)
    for entry in registry().values():
        if not entry.embedded:
            by_use[entry.used_by].append(entry)
    found = []
    for use, entries in by_use.items():
        if here := [e.name for e in entries if e.present]:
            found.append(Finding(True, f"weights for {use}: {', '.join(here)}, in {folder()}"))
        if missing := [e for e in entries if not e.present]:
            stands_in = sorted({e.instead for e in missing if e.instead})
            what = f"weights for {use}: no {', '.join(e.name for e in missing)}"
            what += f" ({', '.join(stands_in)} stands in)" if stands_in else ""
            found.append(Finding(None, what, f"winnow models fetch {missing[0].name}" + (", …" if missing[1:] else "")))
    return found


def _disks() -> list[Finding]:
    """Room in the working folder, for temporary files, and for weights; each disk once."""
    from pipeline.models.registry import folder

    places = {"here": Path.cwd(), "for temporary files": Path(tempfile.gettempdir()), "for weights": _existing(folder())}
    disks: dict[int, list[str]] = defaultdict(list)
    free: dict[int, int] = {}
    for what, place in places.items():
        device = place.stat().st_dev
        disks[device].append(what)
        free[device] = shutil.disk_usage(place).free
    return [
        Finding(True if free[d] >= LITTLE else None, f"disk {' and '.join(uses)}: {free[d] / 1e9:,.1f} GB free", "make room")
        for d, uses in disks.items()
    ]


def _existing(path: Path) -> Path:
    """The path, or the nearest folder above it that exists."""
    return next(p for p in (path.absolute(), *path.absolute().parents) if p.exists())


def _clashes() -> list[Finding]:
    """Distributions over the files of another: which of them is imported is a matter of luck."""
    owners = packages_distributions()
    strangers = [(name, d) for name in OURS for d in owners.get(name, []) if d != "winnow"]
    found = [Finding(False, f"{d} also installs a package {name!r}", f"pip uninstall {d}") for name, d in strangers]
    for module in SINGLE:
        if len(names := sorted(set(owners.get(module, [])))) > 1:
            fix = f"keep one: pip uninstall {' '.join(names)}, then {install_command('all')}"
            found.append(Finding(False, f"several packages install {module!r}: {', '.join(names)}", fix))
    return found


def _opencv() -> list[Finding]:
    """Two OpenCV builds own the same files; of different versions, which one is imported is a matter of luck."""
    builds = {d.metadata["Name"]: d.version for d in distributions() if d.metadata["Name"].lower().startswith("opencv-")}
    if len(set(builds.values())) < 2:
        return []
    named = ", ".join(f"{name} {version}" for name, version in sorted(builds.items()))
    fix = "keep one: pip uninstall the others, then pip install --force-reinstall --no-deps opencv-python-headless==4.14.0.94"
    return [Finding(False, f"several OpenCV builds of different versions: {named}", fix)]
