"""Options that most verbs take, and how a verb begins and ends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

if TYPE_CHECKING:
    from pipeline.engine import Options
    from pools.manifest import Outcome

Output = Annotated[str, typer.Option("--output", "-o", help="Where the result goes (local path or fsspec url).")]
Engine = Annotated[Literal["local", "spark"], typer.Option(help="Processes on this machine, or Spark.")]
Workers = Annotated[int | None, typer.Option(min=0, help="Processes; 0 = in this one; default: one a core.")]
Part = Annotated[
    str | None,
    typer.Option(
        metavar="I/N", help="Do only the I-th of N parts (from 0), for job arrays; extract: once more when all are done."
    ),
]
Overwrite = Annotated[
    bool, typer.Option("--overwrite/--resume", help="Replace the output, or go on where a run stopped (default).")
]
Json = Annotated[bool, typer.Option("--json", help="Print the summary as one line of JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no summary.")]
Seed = Annotated[int, typer.Option(help="Decides everything random.")]
Device = Annotated[Literal["auto", "cpu", "cuda"], typer.Option(help="A device that is asked for and missing is an error.")]


def make_options(
    overwrite: bool,
    quiet: bool,
    engine: Literal["local", "spark"] = "local",
    workers: int | None = None,
    part: str | None = None,
) -> Options:
    from pipeline.engine import Options, parse_part

    return Options(engine=engine, workers=workers, overwrite=overwrite, quiet=quiet, part=parse_part(part))


def conclude(
    stage: str, outcome: Outcome, output: str, json: bool, quiet: bool, *, more: Mapping[str, Any] | None = None
) -> None:
    """Prints the summary, in JSON with what the stage has to say besides; work that failed in part exits with 1."""
    from pipeline.summary import report

    report(stage, outcome, output, as_json=json, quiet=quiet, more=more)
    if outcome.problems:
        raise typer.Exit(1)
