"""`winnow extract`, which `spark-submit pipeline/extract/job.py` runs too."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from pipeline.cli_options import Engine, Json, Output, Overwrite, Part, Quiet, Seed, Workers, conclude, make_options
from pools.errors import InputError


def extract(
    output: Output,
    inputs: Annotated[
        list[str] | None,
        typer.Argument(metavar="INPUT…", help="WAT, WARC or ARC files, folders, patterns, lists of paths (*.paths.gz, *.txt)."),
    ] = None,
    crawl: Annotated[list[str] | None, typer.Option(metavar="ID", help="A crawl of Common Crawl; may be repeated.")] = None,
    wats: Annotated[int | None, typer.Option(min=1, metavar="N", help="Only N files, chosen by the seed.")] = None,
    warcs: Annotated[int | None, typer.Option(min=1, metavar="N", help="The same, of WARC files: --from warc.")] = None,
    source: Annotated[
        Literal["wat", "warc"] | None,
        typer.Option("--from", help="What to take from folders and crawls: WATs (default), or WARC and ARC files, as HTML."),
    ] = None,
    root: Annotated[
        str | None, typer.Option(metavar="URL", help="Where crawl-data/ lies: s3://commoncrawl/, a mirror.")
    ] = None,
    seed: Seed = 0,
    documents: Annotated[
        Literal["image", "image_only", "audio", "video", "text"],
        typer.Option(
            help="image: with an alt text; image_only: with or without; the others: links by the ends of their names."
        ),
    ] = "image",
    text: Annotated[
        Literal["alt", "title", "both"], typer.Option(help="What becomes the text; alt and page_title stay as columns.")
    ] = "alt",
    keep_opted_out: Annotated[
        bool, typer.Option(help="Keep links of pages that say noai, noimageai, noindex …; the column opt_out tells.")
    ] = False,
    parts: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Work in N parts, one after the other, so that a scratch disk holds one at a time."
        ),
    ] = None,
    scratch: Annotated[
        str | None, typer.Option(metavar="DIR", help="Where rows lie in between; default: in the output.")
    ] = None,
    engine: Engine = "local",
    workers: Workers = None,
    part: Part = None,
    overwrite: Overwrite = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Read Common Crawl and write candidates: image urls with their alt texts, each pair once, in an order of chance.

    Example: winnow extract --crawl CC-MAIN-2025-33 --wats 100 --seed 0 --output candidates

    Example: winnow extract 'segments/*.wat.gz' --output candidates
    """
    from pipeline.extract import crawls, job
    from pipeline.extract import inputs as named

    kind: named.Kind = source or ("warc" if warcs is not None else "wat")
    if (wats if kind == "warc" else warcs) is not None:
        raise InputError(f"--{'wats' if kind == 'warc' else 'warcs'} with --from {kind}", expected=f"--{kind}s")
    count = warcs if kind == "warc" else wats
    if crawl and inputs:
        raise InputError("both are given", where="INPUT and --crawl", expected="one of the two")
    if not crawl and not inputs:
        raise InputError(
            "nothing to read",
            expected="INPUT… or --crawl ID",
            fix="winnow extract --crawl CC-MAIN-2025-33 --wats 100 --output …",
        )
    if root is not None and not crawl:
        raise InputError("there is no --crawl that it could be of", where="--root")
    if crawl:
        sources = crawls.crawl(crawl, kind, count, seed, root or crawls.ROOT)
    else:
        sources = named.find(inputs or [], kind)
        sources = sources if count is None else named.sample(sources, count, seed)
    settings = job.Settings(documents, text, keep_opted_out, parts, scratch)
    outcome = job.extract(sources, output, settings, options=make_options(overwrite, quiet, engine, workers, part))
    conclude("extract", outcome, output, json, quiet)
