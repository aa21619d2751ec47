"""`winnow report`."""

from __future__ import annotations

from typing import Annotated

import typer

from pipeline.cli_options import Json, Output, Overwrite, Quiet, Seed, Workers, conclude, make_options
from pipeline.report.page import SAMPLES


def report(
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="PATH…",
            help="Pools, selections (with their pool, more is shown), shards of a download, training runs, submissions.",
        ),
    ],
    output: Output,
    samples: Annotated[
        int | None,
        typer.Option(
            min=0, help=f"Samples a stage and kind; default {SAMPLES}. If given, pages may grow as large as they must."
        ),
    ] = None,
    max_size: Annotated[
        float | None, typer.Option(metavar="MB", min=0.02, help="Of a page; it shows fewer samples to stay below. Default 5.")
    ] = None,
    images: Annotated[bool, typer.Option(help="Show small pictures, from the shards beside the pool.")] = True,
    seed: Seed = 0,
    workers: Workers = None,
    overwrite: Overwrite = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Make pages to look at: what a filter threw away and why, how a pool is made up, how runs went.

    Pages are files of their own that any browser opens, without a server or a network. Several selections of a pool are
    compared, several runs stand beside each other.

    Example: winnow report selection pool --output pages, then open pages/index.html
    """
    from pipeline.report.gallery import Wanted
    from pipeline.report.make import Settings
    from pipeline.report.make import report as job
    from pipeline.report.write import MAX_BYTES

    limit = round(max_size * 1_000_000) if max_size is not None else MAX_BYTES if samples is None else None
    wanted = Wanted(SAMPLES if samples is None else samples, seed, images)
    settings = Settings(wanted, limit, make_options(overwrite, quiet, "local", workers))
    outcome = job(paths, output, settings)
    conclude("report", outcome, output, json, quiet)
