"""`winnow models`: sub-commands on the weights that winnow knows by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipeline.cli_options import Quiet

if TYPE_CHECKING:
    from pipeline.models.registry import Entry

app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)

Name = Annotated[str, typer.Argument(metavar="NAME", help="As `winnow models list` has it.")]
Json = Annotated[bool, typer.Option("--json", help="Print one line of JSON.")]


@app.callback(invoke_without_command=True)
def models(context: typer.Context) -> None:
    """List the weights that winnow knows, get them, find them."""
    if context.invoked_subcommand is None:
        list_()


@app.command("list")
def list_(json: Json = False) -> None:
    """List all models: which are here, which come with winnow, which can be fetched.

    Example: winnow models list
    """
    from json import dumps

    from pipeline.models.registry import folder, registry

    entries = list(registry().values())
    if json:
        typer.echo(dumps([_facts(entry) for entry in entries]))
        return
    width = max(len(entry.name) for entry in entries)
    for entry in entries:
        typer.echo(f"{entry.name:{width}}  {_state(entry):13}  {_size(entry):>9}  {entry.used_by:15}  {entry.what}")
    typer.echo(f"\nFetched ones lie in {folder()} (WINNOW_WEIGHTS).")


@app.command()
def show(name: Name, json: Json = False) -> None:
    """Show what is known of one model: source, hash, licence, where it lies, and what stands in for it.

    Example: winnow models show lid.176.bin
    """
    from json import dumps

    from pipeline.models.registry import find

    facts = _facts(find(name))
    if json:
        typer.echo(dumps(facts))
        return
    for key, value in facts.items():
        said = "; ".join(value) if isinstance(value, tuple) else value
        typer.echo(f"{key:9} {'not stated' if said in ('', None) else said}")


@app.command()
def fetch(
    name: Name,
    from_: Annotated[str | None, typer.Option("--from", metavar="URL", help="A mirror to get it from instead.")] = None,
    allow_private: Annotated[bool, typer.Option(help="Private and loopback addresses may be fetched from.")] = False,
    quiet: Quiet = False,
) -> None:
    """Get a model from where it is published, check it, and go on where an earlier try stopped.

    Example: winnow models fetch clip-vit-l14
    """
    from pipeline.models.fetch import fetch as job

    done = job(name, source=from_, allow_private=allow_private, quiet=quiet)
    _say(done, quiet)


@app.command()
def add(name: Name, file: Annotated[str, typer.Argument(metavar="FILE", help="A file of weights on this machine.")]) -> None:
    """Take a copy of a file that you have, if it holds what it should.

    Example: winnow models add clip-vit-l14 ~/Downloads/ViT-L-14.pt
    """
    from pipeline.models.fetch import add as job

    _say(job(name, file), False)


@app.command()
def path(name: Name) -> None:
    """Print where a model lies, once it is found to hold what it should; exit 2 says what is missing.

    Example: winnow models path lid.176.ftz
    """
    from pipeline.models.registry import locate

    typer.echo(locate(name).path)


def _say(done: Any, quiet: bool) -> None:
    if not quiet:
        weights = done.weights
        typer.echo(f"{weights.path}: {weights.name} {'is here' if done.new else 'was here already'}, SHA-256 {weights.sha256}")


def _facts(entry: Entry) -> dict[str, Any]:
    from pipeline.models.registry import recorded

    return {
        "name": entry.name,
        "state": _state(entry),
        "kind": entry.kind,
        "what": entry.what,
        "used_by": entry.used_by,
        "url": entry.url,
        "package": entry.package,
        "sha256": recorded(entry),
        "size": _bytes(entry),
        "licence": entry.licence,
        "cited": entry.cited,
        "path": "" if entry.module else str(entry.path),
        "instead": entry.instead,
    }


def _state(entry: Entry) -> str:
    if entry.embedded:
        return "installed" if entry.present else "not installed"
    return "here" if entry.present else "to fetch" if entry.url else "to add"


def _bytes(entry: Entry) -> int | None:
    """What it takes on disk, if it is here."""
    if entry.module or not entry.present:
        return entry.size
    return sum(file.stat().st_size for file in entry.files)


def _size(entry: Entry) -> str:
    size = _bytes(entry)
    return "" if size is None else f"{size / 1e6:,.1f} MB"
