"""What holds the house together: imports go one way, start-up is quick, names are ours, pages are up to date."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
ROOMS = ("pools", "filters", "pipeline", "baselines")  # each may import itself and those before it
SOURCES = [p for room in ROOMS for p in sorted((ROOT / room).rglob("*.py"))]


def imported(path: Path) -> set[str]:
    """First parts of all modules a file imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {a.name.split(".")[0] for a in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found.add((node.module or "").split(".")[0])
    return found


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_go_one_way(path: Path) -> None:
    room = path.relative_to(ROOT).parts[0]
    above = set(ROOMS[ROOMS.index(room) + 1 :])
    if path == ROOT / "pipeline" / "cli.py":
        above -= {"baselines"}
    assert not imported(path) & above
    assert "tests" not in imported(path)


def test_the_command_line_reaches_the_baselines_inside_its_commands_only() -> None:
    tree = ast.parse((ROOT / "pipeline" / "cli.py").read_text())
    at_the_top = {n.module for n in tree.body if isinstance(n, ast.ImportFrom)}
    assert not any((m or "").startswith("baselines") for m in at_the_top)


def test_no_room_imports_what_runs_code_from_data() -> None:
    for path in SOURCES:
        assert not imported(path) & {"marshal", "shelve", "dill"}, path
        # Catching pickle's errors is fine; loading is not, nor is torch.load without its guard.
        text = path.read_text()
        if "def find_class(" in text:  # an Unpickler that names what it lets in
            text = text.replace("(pickle.Unpickler):", "")
        assert not re.search(r"pickle\.(loads?|Unpickler)\b|yaml\.(unsafe_|full_)?load\(", text), path
        for call in re.findall(r"torch\.load\(.*", path.read_text()):
            assert "weights_only=True" in call, path


def test_nobody_else_owns_our_package_names() -> None:
    owners = packages_distributions()
    for name in ROOMS:
        assert set(owners.get(name, ["winnow"])) == {"winnow"}
        module = __import__(name)
        assert Path(str(module.__file__)).is_relative_to(ROOT)


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; sys.argv = ['winnow', '--help']\n"
        "from pipeline.cli import app\n"
        "try: app()\n"
        "except SystemExit as e: assert e.code in (0, None)\n"
        "print('LOADED', *sorted(m for m in sys.modules if '.' not in m))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    loaded = set(done.stdout.rpartition("LOADED")[2].split())
    assert "typer" in loaded
    assert not loaded & {"numpy", "pyarrow", "torch", "pyspark", "pandas", "cv2", "fsspec", "yaml", "filters", "baselines"}


def test_the_page_on_schemas_is_up_to_date() -> None:
    from pools import readme

    assert readme.PATH.read_text() == readme.render(), "run `make docs`"


def test_the_lock_pins_every_dependency_that_the_project_names() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    text = "".join((ROOT / name).read_text() for name in ("requirements.lock", "compiled.lock"))
    locked = dict(re.findall(r"^([A-Za-z0-9._-]+)==(\S+)", text, re.M))
    locked = {name.lower().replace("_", "-"): version for name, version in locked.items()}
    named = project["dependencies"] + [d for extra in project["optional-dependencies"].values() for d in extra]
    for requirement in named:
        name = re.split(r"[\[<>=~! ]", requirement)[0].lower().replace("_", "-")
        assert name == "winnow" or name in locked, f"{requirement} is not in requirements.lock: run `make lock`"
    assert locked["numpy"].startswith("2.3.")


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) < 200


def test_no_path_of_a_machine_and_no_registry_is_named() -> None:
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    pattern = re.compile(r"/(home|root|work)/[a-z]|/tmp/[a-z]|pypi\.org|pythonhosted")
    for name in tracked:
        path = ROOT / name
        if path.suffix in (".py", ".md", ".toml", ".yaml", ".lock", "") and path.is_file() and path != Path(__file__):
            assert not pattern.search(path.read_text()), name
