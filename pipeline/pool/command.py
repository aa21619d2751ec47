"""`winnow pool`: sub-commands on pools."""

from __future__ import annotations

import json as json_
from typing import Annotated, Literal

import typer

from pipeline.cli_options import Json, Overwrite, Quiet, Workers, conclude, make_options
from pools.errors import InputError

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.callback()
def _pool() -> None:
    """Make pools, look at them, check them, take part of them, put them together, hand them on."""


@app.command("import")
def import_(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE", help="A table (parquet, .csv, .tsv, .json, .jsonl), a folder of tables or of tars, or a pattern."
        ),
    ],
    output: Annotated[str, typer.Option("--output", "-o", metavar="POOL", help="The pool: a new folder.")],
    url_col: Annotated[
        str | None, typer.Option(metavar="NAME", help="Column with the addresses; default: by its name (URL, image_url, …).")
    ] = None,
    text_col: Annotated[
        str | None, typer.Option(metavar="NAME", help="Column with the captions; default: by its name (TEXT, caption, …).")
    ] = None,
    no_text: Annotated[bool, typer.Option("--no-text", help="The table has no captions.")] = False,
    uid_col: Annotated[
        str | None, typer.Option(metavar="NAME", help="Column with uids; default: uid, else the MD5 of caption + url.")
    ] = None,
    rename: Annotated[
        list[str] | None,
        typer.Option(metavar="OLD=NEW", help="similarity=clip_b32_similarity_score, say; may be repeated."),
    ] = None,
    workers: Workers = None,
    overwrite: Overwrite = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Make a pool of what others published; the source is read only.

    A table becomes metadata, to be filtered and then downloaded: LAION's and CommonPool's parquet, the TSVs of CC3M and
    CC12M as they are, any CSV or JSON. Tars become shards with metadata, each sample with a uid: img2dataset's output, or
    key.jpg + key.txt as webdataset has them.

    Example: winnow pool import laion/ --output pool --rename similarity=clip_b32_similarity_score

    Example: winnow pool import 'tars/*.tar' --output pool
    """
    from pipeline.pool import tables as pool_tables
    from pipeline.pool import tars as pool_tars

    options = make_options(overwrite, quiet, "local", workers)
    if pool_tars.is_tars(source):
        if url_col or text_col or uid_col or no_text or rename:
            raise InputError("tars have no columns", where="--url-col, --text-col, --uid-col, --rename")
        outcome = pool_tars.import_tars(source, output, options=options)
    else:
        pairs = dict(_pair(text, "--rename", "similarity=clip_b32_similarity_score") for text in rename or [])
        columns = pool_tables.choose_columns(source, url=url_col, text=text_col, no_text=no_text, uid=uid_col)
        outcome = pool_tables.import_tables(source, output, columns=columns, rename=pairs, options=options)
    conclude("pool import", outcome, output, json, quiet)


Pool_ = Annotated[str, typer.Argument(metavar="POOL", help="A folder with metadata/, or of parquet files.")]


@app.command()
def info(
    pool: Pool_,
    rows: Annotated[int, typer.Option(min=0, help="Rows whose values are looked at, in whole files; 0 = all.")] = 1 << 20,
    workers: Workers = None,
    json: Json = False,
) -> None:
    """Print what a pool holds: rows, columns and where they come from, models of annotations, bytes, pictures, languages,
    quantiles of scores and sizes.

    Example: winnow pool info pool
    """
    from pipeline.pool import info as pool_info
    from pools.layout import Pool

    found = pool_info.info(Pool.open(pool), rows=rows, options=make_options(False, True, "local", workers))
    typer.echo(json_.dumps(found.as_json(), ensure_ascii=False) if json else "\n".join(pool_info.lines(found)))


@app.command()
def verify(
    pool: Pool_,
    quick: Annotated[bool, typer.Option("--quick", help="Read tables alone; of shards, see that they are there.")] = False,
    write_checksums: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the SHA-256 of each file, in sha256sum's form, instead.")
    ] = None,
    checksums: Annotated[str | None, typer.Option(metavar="FILE", help="Compare the files with such a list instead.")] = None,
    workers: Workers = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Check that a pool is whole; exit 1 names what is damaged.

    Tables are read whole, annotations compared with the metadata row by row, tars read to their end; uids, captions and counts
    must be those of the metadata and of the shards' status. The column sha256 is of the bytes as served, so pictures that were
    resized or encoded anew cannot be held against it: checksums written earlier can.

    Example: winnow pool verify pool

    Example: winnow pool verify pool --write-checksums pool.sha256, and later: winnow pool verify pool --checksums pool.sha256
    """
    from pipeline.pool import verify as pool_verify
    from pools.layout import Pool

    opened, options = Pool.open(pool), make_options(False, quiet, "local", workers)
    if write_checksums is not None:
        number = pool_verify.write_checksums(opened, write_checksums, options)
        typer.echo(f"{write_checksums}: {number:,} files")
        return
    if checksums is not None:
        outcome = pool_verify.check_checksums(opened, checksums, options)
    else:
        outcome = pool_verify.verify(opened, quick=quick, options=options)
    conclude("pool verify", outcome, pool, json, quiet)


@app.command()
def subset(
    pool: Pool_,
    output: Annotated[str, typer.Option("--output", "-o", metavar="LIST", help="The uid list (.npy), or the pool.")],
    fraction: Annotated[float | None, typer.Option(help="Share of all rows.")] = None,
    scale: Annotated[str | None, typer.Option(help="So many rows as a scale's pool has: small, medium, large, …")] = None,
    of: Annotated[
        str | None, typer.Option(metavar="SCALE", help="With --scale: what the pool stands for, if not for its own rows.")
    ] = None,
    materialise: Annotated[
        bool, typer.Option("--materialise", help="Write a pool of just these rows, with annotations and shards.")
    ] = False,
    workers: Workers = None,
    overwrite: Overwrite = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Take a random subset of a pool, decided by each uid alone: small is part of medium, medium of large.

    A row is in it if the hash of its uid is below the fraction, so the number of rows is near to that share. The same uid is in
    or out in every pool.

    Example: winnow pool subset pool --fraction 0.1 --output tenth.npy
    """
    from pipeline.pool import subset as pool_subset
    from pools.layout import Pool

    options, opened = make_options(overwrite, quiet, "local", workers), Pool.open(pool)
    chosen = pool_subset.choose(opened, fraction=fraction, scale=scale, of=of)
    if materialise:
        outcome = pool_subset.materialise(opened, chosen, output, options)
    elif not output.endswith(".npy"):
        raise InputError(f"{output}", where="--output", expected="a list, .npy; or --materialise for a pool")
    else:
        outcome = pool_subset.list_subset(opened, chosen, output, options)
    conclude("pool subset", outcome, output, json, quiet)


@app.command()
def merge(
    pools: Annotated[
        list[str], typer.Argument(metavar="[NAME=]POOL…", help="Two or more; without a name, that of its folder.")
    ],
    output: Annotated[str, typer.Option("--output", "-o", metavar="POOL", help="The pool: a new folder.")],
    on_collision: Annotated[
        Literal["first", "keep", "error"],
        typer.Option(help="Of a uid in several pools, the rows of the first that has it; all of its rows; or neither."),
    ] = "first",
    weight: Annotated[
        list[str] | None, typer.Option(metavar="NAME=W", help="What a row of this pool weighs, 1 if not said; may be repeated.")
    ] = None,
    workers: Workers = None,
    overwrite: Overwrite = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Put pools together: a web pool and data of your own, say. The sources are read only.

    Files stand under each pool's name, as hard links where that can be. The column source_pool says where a row comes from,
    source_weight what it weighs, for a recipe's `mix: [weights: {column: source_weight}]`. collisions.parquet lists the uids
    that stood in several pools.

    Example: winnow pool merge web=commonpool books --weight books=2 --output mixed
    """
    from pipeline.pool import merge as pool_merge
    from pipeline.progress import Progress

    pairs = dict(_pair(text, "--weight", "books=2") for text in weight or [])
    try:
        weights = {name: float(value) for name, value in pairs.items()}
    except ValueError as e:
        raise InputError(str(e), where="--weight", expected="NAME=W with a number W") from e
    sources = pool_merge.open_sources(pools, weights)
    options = make_options(overwrite, quiet, "local", workers)
    outcome = pool_merge.merge(sources, output, on_collision=on_collision, options=options)
    for line in pool_merge.uneven(sources):
        Progress.note(f"pool merge: {line}: recipes that read it refuse the pool", quiet=quiet)
    conclude("pool merge", outcome, output, json, quiet)


@app.command()
def export(
    pool: Pool_,
    output: Annotated[str, typer.Option("--output", "-o", metavar="FOLDER", help="A new folder.")],
    layout: Annotated[Literal["commonpool"], typer.Option(help="Whose layout.")] = "commonpool",
    only_published: Annotated[
        bool, typer.Option("--only-published", help="Leave out columns that CommonPool's metadata has not.")
    ] = False,
    workers: Workers = None,
    overwrite: Overwrite = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write a pool's metadata, annotations and features as CommonPool is published: parquet and npz in one folder.

    Example: winnow pool export pool --layout commonpool --output metadata
    """
    from pipeline.pool import export as pool_export
    from pools.layout import Pool

    options = make_options(overwrite, quiet, "local", workers)
    outcome = pool_export.export(Pool.open(pool), output, only_published=only_published, options=options)
    conclude(f"pool export {layout}", outcome, output, json, quiet)


def _pair(text: str, where: str, example: str) -> tuple[str, str]:
    old, equals, new = text.partition("=")
    if not (old and equals and new):
        raise InputError(f"{text!r}", where=where, expected=f"A=B, for instance {example}")
    return old, new
