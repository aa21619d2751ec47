"""`winnow annotate`."""

from __future__ import annotations

import json as json_
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipeline.cli_options import Engine, Json, Overwrite, Part, Quiet, conclude, make_options

if TYPE_CHECKING:
    from pipeline.annotate.job import Annotated as Family

_OWN, _RUN = "Options of the annotators", "How to run"


def _list(asked: bool) -> None:
    if asked:
        from pipeline.annotate.chosen import described

        typer.echo("\n".join(described()))
        raise typer.Exit


def annotate(
    pool: Annotated[str, typer.Argument(help="A pool with metadata/ and, for pictures, shards/.")],
    with_: Annotated[
        list[str] | None,
        typer.Option(
            "--with", metavar="NAME[,NAME…]", help="The annotators; NAME:LABEL to have one twice (clip:b32,clip:l14)."
        ),
    ] = None,
    from_: Annotated[
        str | None, typer.Option("--from", metavar="FILE", help="Scores of your own instead: parquet, csv or npz with a uid.")
    ] = None,
    list_: Annotated[
        bool, typer.Option("--list", is_eager=True, callback=_list, help="Say what annotators there are, and their options.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be computed, and by what; write nothing.")] = False,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="[NAME.]KEY=VALUE", help="An option that --list names.", rich_help_panel=_OWN),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Of the columns: annotations/<name>/; default: the annotator's.", rich_help_panel=_OWN)
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(help="clip: a training run, or the name or config file of an open_clip model.", rich_help_panel=_OWN),
    ] = None,
    pretrained: Annotated[
        str | None, typer.Option(metavar="PATH", help="clip: the checkpoint, unless the model is a run.", rich_help_panel=_OWN)
    ] = None,
    weights: Annotated[
        str | None, typer.Option(metavar="PATH", help="The model's file; default: the registry's.", rich_help_panel=_OWN)
    ] = None,
    precision: Annotated[
        str | None, typer.Option(metavar="fp32|bf16|fp16", help="clip: stands in the header.", rich_help_panel=_OWN)
    ] = None,
    device: Annotated[
        str,
        typer.Option(help="auto, cpu, cuda or cuda:N; one that is asked for and missing is an error.", rich_help_panel=_RUN),
    ] = "auto",
    batch_size: Annotated[
        int | None, typer.Option(min=1, help="Samples at once; default: 64, on a GPU 256.", rich_help_panel=_RUN)
    ] = None,
    engine: Engine = "local",
    workers: Annotated[
        int | None, typer.Option(min=0, help="Processes, each with the models; default: none but this one.")
    ] = None,
    part: Part = None,
    overwrite: Overwrite = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Add columns to a pool, beside its metadata; nothing that is there changes.

    Several annotators read the shards and decode the pictures once. Each family of columns is a folder, annotations/<name>/,
    with the metadata's files and rows. A row that could not be judged has null and says why in <name>_reason.

    Example: winnow annotate pool --with clip --model ViT-B-32 --pretrained open_clip.pt --name b32;
    several: winnow annotate pool --with clip:b32,clip:l14,faces --set b32.model=ViT-B-32 --set b32.pretrained=b32.pt …;
    scores of your own: winnow annotate pool --from scores.parquet --name mine; what there is: winnow annotate --list
    """
    from pools.errors import InputError

    options = make_options(overwrite, quiet, engine, workers, part)
    if (from_ is None) == (not with_):
        raise InputError("what to add?", where="--with, --from", expected="one of the two", fix="winnow annotate --list")
    flags = {"name": name, "model": model, "pretrained": pretrained, "weights": weights, "precision": precision}
    if from_ is not None:
        from pipeline.annotate.own_scores import join

        if unfit := [f"--{key}" for key, value in flags.items() if value is not None and key != "name"] + ["--set"] * bool(
            set_
        ):
            raise InputError(
                f"{unfit[0]} says nothing of scores that are there already", where="--from", expected="--name alone"
            )
        if name is None:
            raise InputError("no name for the columns' folder", where="--name", expected="a name: annotations/<name>/")
        outcome = join(pool, from_, name, options=options)
        conclude("annotate --from", outcome, f"{pool}/annotations/{name}", json, quiet)
        return
    from pipeline.annotate import job
    from pipeline.annotate.chosen import choose

    annotators = choose(with_ or [], set_ or [], flags)
    if dry_run:
        typer.echo("\n".join(job.dry_run(pool, annotators, options)))
        return
    found = job.annotate(pool, annotators, settings=job.Settings(device, batch_size), options=options)
    _told(found, json, quiet)


def _told(found: dict[str, Family], as_json: bool, quiet: bool) -> None:
    """The summary of each family; in JSON one line, of several families a list under `families`."""
    from pipeline.summary import report

    told: list[dict[str, Any]] = [
        {"stage": f"annotate {f.kind}", "output": f.output, "counts": f.outcome.counts} for f in found.values()
    ]
    for item, family in zip(told, found.values(), strict=True):
        speed = family.speed.as_json() if family.speed else None
        report(f"annotate {family.kind}", family.outcome, family.output, quiet=quiet or as_json)
        if speed and not (quiet or as_json):
            typer.echo(
                f"  this run: {speed['rows_per_second']:g} rows/s; seconds: {speed['decode_seconds']:g} to decode, "
                f"{speed['prepare_seconds']:g} to prepare, {speed['annotate_seconds']:g} to annotate"
            )
        item |= {"problems": family.outcome.problems, "speed": speed}
    if as_json:
        line = told[0] if len(told) == 1 else {"stage": "annotate", "families": told}
        typer.echo(json_.dumps(line, ensure_ascii=False))
    if any(f.outcome.problems for f in found.values()):
        raise typer.Exit(1)
