"""`winnow pool`: sub-commands on pools."""

from __future__ import annotations

from typing import Annotated

import typer

from pipeline.cli_options import Json, Overwrite, Quiet, Workers, conclude, make_options
from pools.errors import InputError

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.callback()
def _pool() -> None:
    """Make pools of what others published."""


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
    from pipeline import pool_tables, pool_tars

    options = make_options(overwrite, quiet, "local", workers)
    if pool_tars.is_tars(source):
        if url_col or text_col or uid_col or no_text or rename:
            raise InputError("tars have no columns", where="--url-col, --text-col, --uid-col, --rename")
        outcome = pool_tars.import_tars(source, output, options=options)
    else:
        pairs = dict(_pair(text) for text in rename or [])
        columns = pool_tables.choose_columns(source, url=url_col, text=text_col, no_text=no_text, uid=uid_col)
        outcome = pool_tables.import_tables(source, output, columns=columns, rename=pairs, options=options)
    conclude("pool import", outcome, output, json, quiet)


def _pair(text: str) -> tuple[str, str]:
    old, equals, new = text.partition("=")
    if not (old and equals and new):
        raise InputError(f"{text!r}", where="--rename", expected="OLD=NEW, for instance similarity=clip_b32_similarity_score")
    return old, new
