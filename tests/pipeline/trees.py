"""Whole folders as values, for tests that compare runs."""

from __future__ import annotations

from pathlib import Path


def tree(root: Path) -> dict[str, bytes]:
    """{relative path: bytes} of every file below a folder, hidden ones too."""
    return {str(p.relative_to(root)): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}
