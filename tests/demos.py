"""A small demo, run once for all tests that look at one, and the command as a user types it."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from pools import uids

WINNOW = [sys.executable, "-m", "pipeline.cli"]
ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": str(ROOT),
    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
}


def winnow(*arguments: str, cwd: Path, timeout: float = 240, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*WINNOW, *arguments], cwd=cwd, env=ENVIRONMENT, capture_output=True, text=True, timeout=timeout, **options
    )


@dataclass(frozen=True)
class Demo:
    """What a demo has left and said."""

    folder: Path
    printed: str
    told: str  # on standard error

    @classmethod
    def run(cls, where: Path) -> Demo:
        """500 pictures, the five recipes."""
        ran = winnow("demo", "d", "--pictures", "500", cwd=where)
        assert ran.returncode == 0, ran.stderr
        return cls(where / "d", ran.stdout, ran.stderr)

    def section(self, title: str) -> list[str]:
        return self.printed.split(title)[1].split("\n\n")[0].splitlines()[1:]

    def truth(self) -> dict[str, dict[str, Any]]:
        return {r["uid"]: r for r in pq.read_table(self.folder / "web" / "truth.parquet").to_pylist()}

    def kept(self, recipe: str) -> list[str]:
        listed: list[str] = uids.unpack(uids.read_list(str(self.folder / "selections" / recipe / "uids.npy"))).to_pylist()
        return listed
