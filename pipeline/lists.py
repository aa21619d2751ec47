"""`winnow uids`: sub-commands on uid lists."""

from __future__ import annotations

import functools
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False)

Files = Annotated[list[str], typer.Argument(metavar="LIST…", help="Lists: .npy, .u16 (raw records), .txt, .csv or .parquet.")]
One = Annotated[str, typer.Argument(metavar="LIST")]
Output = Annotated[str, typer.Option("--output", "-o", help="The result; its extension says the form.")]


@app.command()
def info(path: One) -> None:
    """Print what a list holds: kind, uids, distinct uids.

    Example: winnow uids info selection/uids.npy
    """
    from pools import uid_files, uids

    values, side = uid_files.read(path), uids.read_info(path)
    typer.echo(f"{path}\n  kind      {side.kind}\n  uids      {len(values):,}\n  distinct  {len(uids.unique(values)):,}")
    if side.recipe:
        typer.echo(f"  recipe    {side.recipe}")


@app.command()
def verify(path: One) -> None:
    """Check dtype, order and count of a list as the field's tools expect them; exit 2 says what is wrong.

    Example: winnow uids verify selection/uids.npy
    """
    from pools import uids
    from pools.errors import InputError

    side = uids.read_info(path)
    values = uids.read_list(path, kind=side.kind)
    if side.count not in (None, len(values)):
        raise InputError(f"{len(values)} uids", where=path, expected=f"{side.count}, as its sidecar says")
    typer.echo(f"{path}: {len(values):,} uids of dtype u8,u8, sorted")


@app.command()
def union(files: Files, output: Output) -> None:
    """Uids in any of the lists, each once, sorted.

    Example: winnow uids union a.npy b.npy --output either.npy
    """
    _combine("union", files, output)


@app.command()
def intersect(files: Files, output: Output) -> None:
    """Uids in all of the lists, each once, sorted.

    Example: winnow uids intersect a.npy b.npy --output both.npy
    """
    _combine("intersect", files, output)


@app.command()
def minus(files: Files, output: Output) -> None:
    """Uids of the first list that are in none of the others, each once, sorted.

    Example: winnow uids minus a.npy b.npy --output rest.npy
    """
    _combine("minus", files, output)


def _combine(operation: str, files: list[str], output: str) -> None:
    from pools import uid_files, uids

    lists = (uid_files.read(f) for f in files)
    result = functools.reduce(getattr(uids, operation), lists) if len(files) > 1 else uids.unique(next(lists))
    uid_files.write(output, result)
    typer.echo(f"{output}: {len(result):,} uids")


@app.command()
def convert(path: One, output: Output) -> None:
    """Sort a list and write it in another form, repeats kept.

    Example: winnow uids convert wanted.csv --output wanted.npy
    """
    from pools import uid_files, uids

    values = uid_files.read(path)
    uid_files.write(output, values, kind=uids.read_info(path).kind)
    typer.echo(f"{output}: {len(values):,} uids, sorted")


@app.command()
def sample(
    path: One,
    output: Output,
    count: Annotated[int | None, typer.Option("--count", help="Entries of the result.")] = None,
    fraction: Annotated[float | None, typer.Option("--fraction", help="Share of the entries, rounded down.")] = None,
    seed: Annotated[int, typer.Option("--seed", help="Samples of one seed are nested: smaller in larger.")] = 0,
) -> None:
    """Take a random sample of a list's entries, decided by the hash of each uid and the seed, repeats kept.

    Example: winnow uids sample selection/uids.npy --count 100000 --output some.npy
    """
    from fractions import Fraction

    from pools import uid_files, uids
    from pools.errors import InputError

    values = uid_files.read(path)
    if (count is None) == (fraction is None):
        raise InputError("one of the two says how many", where="--count, --fraction", expected="exactly one of them")
    if fraction is not None and not 0 <= fraction <= 1:
        raise InputError(f"{fraction:g}", where="--fraction", expected="a number from 0 to 1")
    number = count if count is not None else int(len(values) * Fraction(str(fraction)))
    if not 0 <= number <= len(values):
        raise InputError(f"{number}", where="--count", expected=f"0 to {len(values)}, which is what {path} has")
    uid_files.write(output, uids.sample(values, number, seed), kind=uids.read_info(path).kind)
    typer.echo(f"{output}: {number:,} of {len(values):,} uids")
