"""`winnow uids`: sub-commands on uid lists."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from pipeline.cli_options import Json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pools.uids import Uids
    from pools.uids.streams import Reader

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False)

Files = Annotated[
    list[str], typer.Argument(metavar="LIST…", help="Lists: .npy, .u16 (raw records), .txt (one a line), .csv, .tsv, .parquet.")
]
One = Annotated[str, typer.Argument(metavar="LIST")]
Output = Annotated[str, typer.Option("--output", "-o", help="The result; its extension says the form.")]
Column = Annotated[str | None, typer.Option(metavar="NAME", help="Of a table the column with the uids; default: uid.")]
Counted = Annotated[bool, typer.Option("--counted", help="Count repeats, instead of each uid once.")]


@app.command()
def info(path: One, column: Column = None, as_json: Json = False) -> None:
    """Print what a list holds: kind, uids, distinct uids, repeats, order, size.

    Example: winnow uids info selection/uids.npy
    """
    from pools import uid_reports

    found = uid_reports.info(path, column=column)
    if as_json:
        typer.echo(json.dumps(found.as_json()))
        return
    tally, row = found.tally, found.first_unsorted
    repeats = f" ({tally.repeated:,} uids stand there more than once, up to {tally.most:,} times)" if tally.repeated else ""
    lines = [
        f"kind      {found.kind}",
        f"uids      {tally.entries:,}",
        f"distinct  {tally.distinct:,}{repeats}",
        f"sorted    {'yes' if row is None else f'no: row {row} is smaller than the one before it'}",
        f"bytes     {found.bytes:,}",
        *([f"from      {found.ends[0]}", f"to        {found.ends[-1]}"] if found.ends else []),
        *([f"recipe    {found.recipe}"] if found.recipe else []),
    ]
    typer.echo("\n  ".join([path, *lines]))


@app.command()
def head(
    path: One, number: Annotated[int, typer.Option("--number", "-n", min=0, help="Rows.")] = 10, column: Column = None
) -> None:
    """Print the first uids of a list, in the order that the file has them.

    Example: winnow uids head selection/uids.npy -n 3
    """
    from pools import uid_files
    from pools.uids import unpack

    for block in uid_files.blocks(path, column=column):
        for uid in unpack(block[:number]).to_pylist():
            typer.echo(uid)
        number -= len(block[:number])
        if not number:
            return


@app.command()
def verify(path: One, column: Column = None) -> None:
    """Check that a list is as the field's tools expect it: dtype, order, length, sidecar. Exit 2 says what is wrong and how to
    mend it.

    Example: winnow uids verify selection/uids.npy
    """
    from pools import uid_files, uid_reports

    found = uid_reports.verify(path, column=column)
    for problem in found.problems:
        typer.echo(f"winnow: {problem}", err=True)
    if found.problems:
        raise typer.Exit(2)
    dtype = " of dtype u8,u8" if uid_files.form_of(path) in ("npy", "u16") else ""
    order = "sorted" if found.is_sorted else "not sorted, which only .npy need be"
    typer.echo(f"{path}: {found.entries:,} uids{dtype}, {order}")


@app.command()
def diff(first: One, second: One, as_json: Json = False) -> None:
    """Say how two lists differ. Exit 0 if they hold the same uids equally often, 1 if not.

    Example: winnow uids diff ours.npy theirs.npy
    """
    from pools import uid_reports

    found = uid_reports.difference(first, second)
    if as_json:
        told = {"only_in_first": found.only[0], "only_in_second": found.only[1], "in_both": found.both}
        typer.echo(json.dumps({**told, "unequally_often": found.unequally_often, "same": found.same}))
    else:
        for path, alone, examples in zip((first, second), found.only, found.examples, strict=True):
            shown = f": {', '.join(examples)}{', …' if alone > len(examples) else ''}" if alone else ""
            typer.echo(f"only in {path}  {alone:,}{shown}")
        typer.echo(f"in both  {found.both:,}")
        if found.unequally_often:
            typer.echo(f"in both, but not equally often  {found.unequally_often:,}")
    if not found.same:
        raise typer.Exit(1)


@app.command()
def union(files: Files, output: Output, counted: Counted = False) -> None:
    """Uids in any of the lists, sorted: each once, or with --counted as often as in the list that has it most.

    Example: winnow uids union a.npy b.npy --output either.npy
    """
    _combine("union", files, output, counted)


@app.command()
def intersect(files: Files, output: Output, counted: Counted = False) -> None:
    """Uids in all of the lists, sorted: each once, or with --counted as often as in the list that has it least.

    Example: winnow uids intersect a.npy b.npy --output both.npy
    """
    _combine("intersect", files, output, counted)


@app.command()
def minus(files: Files, output: Output, counted: Counted = False) -> None:
    """Uids of the first list that are in none of the others, sorted: each once. With --counted, a uid stands as often as in the
    first less as often as in the others.

    Example: winnow uids minus a.npy b.npy --output rest.npy
    """
    _combine("minus", files, output, counted)


@app.command()
def add(files: Files, output: Output) -> None:
    """All entries of the lists, sorted: a uid stands as often as in all of them together. A list given twice weighs double.

    Example: winnow uids add web.npy books.npy books.npy --output mixed.npy
    """
    from pools.uids.streams import added

    _combine_by(added, files, output)


def _combine(operation: Literal["union", "intersect", "minus"], files: list[str], output: str, counted: bool) -> None:
    from pools.uids.streams import combined

    _combine_by(lambda readers: combined(operation, readers, counted=counted), files, output, mixed=operation == "minus")


def _combine_by(make: Callable[[list[Reader]], Iterator[Uids]], files: list[str], output: str, *, mixed: bool = False) -> None:
    """Lists to keep and lists to remove go together only where `mixed` says so: the result is of the first list's kind."""
    from pools import store, uid_files, uids
    from pools.errors import InputError
    from pools.uids.runs import scratch_beside

    uid_files.form_of(output)
    kinds = [uids.read_info(path).kind for path in files]
    if not mixed and (other := next((p for p, k in zip(files, kinds, strict=True) if k != kinds[0]), None)) is not None:
        raise InputError(
            f"lists of two kinds: {files[0]} says what to {kinds[0]}, this one what to {uids.read_info(other).kind}",
            where=other,
            expected="lists of one kind",
            fix="what is to be removed is taken from what is to be kept by `winnow uids minus KEEP REMOVE`",
        )
    with scratch_beside(output) as scratch:
        lists = [uid_files.open_sorted(path, store.join(scratch, f"{i}")) for i, path in enumerate(files)]
        total = uid_files.write_stream(output, make([given.reader() for given in lists]), kind=kinds[0])
    typer.echo(f"{output}: {total:,} uids")


@app.command()
def convert(
    path: One,
    output: Output,
    column: Column = None,
    kind: Annotated[
        Literal["keep", "remove"] | None, typer.Option(help="What the list is for; default: as its sidecar says.")
    ] = None,
) -> None:
    """Sort a list and write it in another form, repeats kept.

    Example: winnow uids convert wanted.csv --output wanted.npy
    """
    from pools import uid_files, uids
    from pools.uids.runs import scratch_beside

    uid_files.form_of(output)
    side = uids.read_info(path)
    with scratch_beside(output) as scratch:
        pieces = uid_files.sorted_blocks(path, scratch, column=column)
        total = uid_files.write_stream(output, pieces, kind=kind or side.kind, recipe=side.recipe)
    typer.echo(f"{output}: {total:,} uids, sorted")


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

    from pools import store, uid_files, uids
    from pools.errors import InputError
    from pools.uids.runs import scratch_beside
    from pools.uids.streams import sampled

    uid_files.form_of(output)
    if (count is None) == (fraction is None):
        raise InputError("one of the two says how many", where="--count, --fraction", expected="exactly one of them")
    if fraction is not None and not 0 <= fraction <= 1:
        raise InputError(f"{fraction:g}", where="--fraction", expected="a number from 0 to 1")
    with scratch_beside(output) as scratch:
        given = uid_files.open_sorted(path, store.join(scratch, "sorted"))
        number = count if count is not None else int(given.rows * Fraction(str(fraction)))
        if not 0 <= number <= given.rows:
            raise InputError(f"{number}", where="--count", expected=f"0 to {given.rows}, which is what {path} has")
        uid_files.write_stream(output, sampled(given, number, seed), kind=uids.read_info(path).kind)
    typer.echo(f"{output}: {number:,} of {given.rows:,} uids")
