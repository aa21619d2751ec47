"""The summary at the end of a job: a funnel in which in = kept + dropped + failed can be seen."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

from pools.manifest import Outcome


def report(
    stage: str,
    outcome: Outcome,
    output: str,
    *,
    as_json: bool = False,
    quiet: bool = False,
    more: Mapping[str, Any] | None = None,
) -> None:
    """Prints an outcome on standard output, for people or as one line of JSON; problems go to standard error.

    `more` is what a stage has to say besides, in the JSON only: people have been told by then.
    """
    if as_json:
        told = {"stage": stage, "output": output, "counts": outcome.counts, "problems": outcome.problems}
        print(json.dumps({**told, **(more or {})}, ensure_ascii=False))
    elif not quiet:
        print("\n".join([*funnel(stage, outcome.counts), f"→ {output}"]))
    for problem in outcome.problems:
        print(f"{stage}: {problem}", file=sys.stderr)


def funnel(stage: str, counts: dict[str, int]) -> list[str]:
    """Lines: rows in, what was dropped or failed and why with its share, rows kept, other counts."""
    total = counts.get("in", 0)
    flows = [n for n in counts if n.startswith(("dropped:", "failed:"))]
    others = [n for n in counts if n not in flows and n not in ("in", "kept")]
    width = max((len(n) for n in counts), default=0) + 2

    def line(name: str, count: int) -> str:
        share = f"{100 * count / total:6.1f} %" if total else ""
        return f"  {name:{width}}{count:>12,} {share}"

    lines = [stage]
    if "in" in counts:
        lines.append(line("in", total))
    lines += [line(n.replace(":", " "), counts[n]) for n in flows if counts[n]]
    if "kept" in counts:
        lines.append(line("kept", counts["kept"]))
    if others:
        lines.append("  also: " + ", ".join(f"{n.replace('_', ' ')} {counts[n]:,}" for n in others))
    return lines
