"""`winnow reshard`."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from pipeline.cli_options import Engine, Json, Overwrite, Quiet, Seed, Workers, conclude, make_options
from pools.errors import InputError

LAYOUT, CHANGES, RUN = "The new shards", "What is changed in samples", "The run"


def reshard(
    shards: Annotated[str, typer.Argument(help="A folder of webdataset shards, or a pool's shards/.")],
    uids: Annotated[str, typer.Argument(help="A sorted uid list (.npy) where a uid may stand several times; or a selection.")],
    output: Annotated[
        str | None, typer.Option("--output", "-o", help="Where the new shards go (local path or fsspec url).")
    ] = None,
    shard_size: Annotated[
        int | None, typer.Option(min=1, help="Samples a shard; default: 10,000.", rich_help_panel=LAYOUT)
    ] = None,
    shard_bytes: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Or so many bytes: 500M, 1G.", rich_help_panel=LAYOUT)
    ] = None,
    number: Annotated[
        int | None,
        typer.Option("--shards", min=1, metavar="N", help="Or so many shards, even in size.", rich_help_panel=LAYOUT),
    ] = None,
    shuffle: Annotated[
        Literal["none", "buffer", "all"],
        typer.Option(help="none: the order of the sources; buffer: within some samples of it; all.", rich_help_panel=LAYOUT),
    ] = "none",
    buffer: Annotated[int, typer.Option(min=1, help="Samples of the buffer to shuffle in.", rich_help_panel=LAYOUT)] = 100_000,
    seed: Seed = 0,
    captions: Annotated[
        str | None,
        typer.Option(
            metavar="FILE[:COLUMN]",
            help="Parquet with uid and caption, or a folder of it; the first caption stays in the json, as original_caption.",
            rich_help_panel=CHANGES,
        ),
    ] = None,
    blur_faces: Annotated[
        str | None,
        typer.Option(
            metavar="SOURCE",
            help="Blur faces: a pool, its annotations or a parquet file with face_bboxes. What was not looked at is left out.",
            rich_help_panel=CHANGES,
        ),
    ] = None,
    inject_boxes: Annotated[
        str | None,
        typer.Option(metavar="SOURCE", help="Write the boxes of faces into the json.", rich_help_panel=CHANGES),
    ] = None,
    format_: Annotated[
        Literal["jpg", "webp"],
        typer.Option("--format", help="Of images with faces; the others stay as they are.", rich_help_panel=CHANGES),
    ] = "jpg",
    quality: Annotated[
        int | None, typer.Option(min=1, max=100, help="Of those; default: 95, of webp 100.", rich_help_panel=CHANGES)
    ] = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Say what it would cost, and whether to train on the list instead; write nothing.")
    ] = False,
    samples_seen: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="For --plan: samples that the training will see.")
    ] = None,
    index: Annotated[
        str | None,
        typer.Option(
            metavar="FOLDER",
            help="Where it is kept which sample lies where, for the next list; default: .winnow-index beside the output.",
            rich_help_panel=RUN,
        ),
    ] = None,
    regroup: Annotated[
        bool, typer.Option("--regroup", help="Bring members of a sample together that stand apart.", rich_help_panel=RUN)
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="An entry of the list that is not written is a failure (exit 1).")
    ] = False,
    engine: Engine = "local",
    workers: Workers = None,
    overwrite: Overwrite = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write new shards of just the samples in a list; bytes are copied, nothing is decoded unless faces are to be blurred.

    Example: winnow reshard pool/shards selection --output training --shuffle all

    Example: winnow reshard pool/shards selection/uids.npy --blur-faces pool --output training

    Example: winnow reshard pool/shards selection --plan --samples-seen 12_800_000
    """
    from pipeline.reshard.settings import Settings

    settings = Settings(
        shard_size=shard_size,
        shard_bytes=parse_size(shard_bytes) if shard_bytes else None,
        shards=number,
        shuffle=shuffle,
        buffer=buffer,
        seed=seed,
        captions=captions,
        blur=blur_faces,
        inject=inject_boxes,
        format=format_,
        quality=quality,
        regroup=regroup,
        strict=strict,
        index=index,
    )
    options = make_options(overwrite, quiet, engine, workers)
    if plan:
        from pipeline.reshard.cost import estimate

        typer.echo(estimate(shards, uids, settings, options, samples_seen=samples_seen).told(json=json))
        return
    if output is None:
        raise InputError("no output", where="--output", expected="a folder for the new shards, or --plan")
    from pipeline.reshard.job import reshard as job

    conclude("reshard", job(shards, uids, output, settings=settings, options=options), output, json, quiet)


def parse_size(text: str) -> int:
    """`500M` → 500,000,000; K, M, G and T count by the thousand, KiB and its kin by 1024."""
    units = {"": 1} | {u: 1000**i for i, u in enumerate("KMGT", 1)} | {u + "IB": 1024**i for i, u in enumerate("KMGT", 1)}
    digits = text.upper().removesuffix("B") if not text.upper().endswith("IB") else text.upper()
    number = digits.rstrip("KMGTIB")
    try:
        size = int(float(number) * units[digits[len(number) :]])
    except (ValueError, KeyError) as e:
        raise InputError(text, where="--shard-bytes", expected="a size such as 500M or 1G") from e
    return size
