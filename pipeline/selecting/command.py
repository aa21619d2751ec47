"""`winnow filter`, `winnow explain` and `winnow recipes`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from pipeline.cli_options import Engine, Json, Overwrite, Part, Quiet, Workers, make_options

RECIPES = Path(__file__).resolve().parent.parent.parent / "baselines" / "recipes"


def recipe_path(recipe: str) -> str:
    """The file of a recipe given by path or by name."""
    named = RECIPES / f"{recipe}.yaml"
    return str(named) if named.parent == RECIPES and named.is_file() and not Path(recipe).exists() else recipe


def filter_(
    recipe: Annotated[str, typer.Argument(help="A recipe file, or a name that `winnow recipes` lists.")],
    pool: Annotated[str, typer.Argument(help="A pool, or a folder of metadata parquet.")],
    output: Annotated[
        str | None, typer.Option("--output", "-o", help="Where the result goes (local path or fsspec url).")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be done and kept, from a sample; write nothing.")
    ] = False,
    plugin: Annotated[str | None, typer.Option(metavar="FILE.py", help="Filters of your own, which the recipe names.")] = None,
    verdicts: Annotated[bool, typer.Option(help="Write a verdict for each row; without, only the list and counts.")] = True,
    missing: Annotated[
        Literal["error", "null"], typer.Option(help="A column that some files lack: an error, or null there.")
    ] = "error",
    reuse: Annotated[
        bool, typer.Option(help="Take over verdicts of selections beside the output, where the same stages come first.")
    ] = True,
    engine: Engine = "local",
    workers: Workers = None,
    part: Part = None,
    overwrite: Overwrite = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Judge every row of a pool by a recipe: verdicts with reasons, and the list of uids to keep.

    Example: winnow filter basic pool --output selection; first winnow filter basic pool --dry-run
    """
    from pipeline.selection import Settings, emptied_by, select
    from pools.errors import InputError

    options = make_options(overwrite, quiet, engine, workers, part)
    settings = Settings(verdicts=verdicts, fill=missing == "null", plugin=plugin, reuse=reuse)
    if dry_run:
        from pipeline.selecting.plan import plan

        typer.echo("\n".join(plan(recipe_path(recipe), pool, options, settings)))
        return
    if output is None:
        raise InputError("no place for the result", where="--output", expected="a folder, or --dry-run")
    outcome = select(recipe_path(recipe), pool, output, options=options, settings=settings)
    from pipeline.summary import report

    emptied = emptied_by(outcome)
    report("filter", outcome, output, as_json=json, quiet=quiet, more={"emptied_by": emptied} if emptied else None)
    if outcome.problems:
        raise typer.Exit(1)


def explain(
    uid: Annotated[str, typer.Argument(help="32 hex digits.")],
    places: Annotated[list[str], typer.Argument(metavar="SELECTION|POOL…", help="Selections; with their pool, more is said.")],
    plugin: Annotated[str | None, typer.Option(metavar="FILE.py", help="The plugin that the recipe was run with.")] = None,
) -> None:
    """Say stage by stage what became of a sample, and what each stage compared.

    Example: winnow explain 0123456789abcdef0123456789abcdef selection; with all values: … selection pool
    """
    from pipeline.selecting.explain import explain as job
    from pipeline.selecting.plugin import load

    if plugin:
        load(plugin)
    typer.echo("\n".join(job(uid, places)))


def recipes(
    pool: Annotated[str | None, typer.Argument(help="Say of each whether this pool has what it needs.")] = None,
) -> None:
    """List the recipes that come with winnow, what they need, and whether a pool has it.

    Example: winnow recipes pool
    """
    from filters.recipe import Recipe
    from pipeline.selecting import needs
    from pools.layout import Pool

    opened = Pool.open(pool) if pool else None
    have = [set(part.columns()) for part in opened.parts] if opened else []
    for path in sorted(RECIPES.glob("*.yaml")):
        recipe = Recipe.load(str(path))
        typer.echo(f"{path.stem:24} {recipe.description}")
        typer.echo(f"{'':24} needs {', '.join(recipe.needs) or 'nothing but uids'}")
        if opened:
            lacking = [c for c in recipe.needs if not all(c in columns for columns in have)]
            typer.echo(
                f"{'':24} "
                + (
                    "the pool has it"
                    if not lacking
                    else "the pool lacks " + "; ".join(f"{c}: {needs.maker(c)}" for c in lacking)
                )
            )
