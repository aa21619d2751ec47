"""`winnow study`: what many runs say together."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from pipeline.cli_options import Json, Seed

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)

Table = Annotated[str, typer.Argument(metavar="TABLE.csv", help="A row a run, with a line of column names.")]
Where = Annotated[
    list[str] | None, typer.Option("--where", metavar="CONDITION", help="COLUMN=VALUE, !=, <, <=, >, >=; may be repeated.")
]
Plot = Annotated[str | None, typer.Option("--plot", metavar="FILE.svg", help="Draw it.")]


@app.callback()
def _study() -> None:
    """Find out what many runs say together: scaling laws, significance, ranks.

    Example: winnow study compare run other_run
    """


@app.command()
def compare(
    results: Annotated[list[str], typer.Argument(metavar="RESULTS…", help="Runs, or files in the form of eval_results.jsonl.")],
    allow_missing: Annotated[bool, typer.Option("--allow-missing", help="Tasks may lack: then there is no average.")] = False,
    json: Json = False,
) -> None:
    """Put results side by side, task by task, with DataComp's groups and averages.

    Example: winnow study compare run other/eval_results.jsonl
    """
    from baselines.miniweb.tables import NONE, table
    from baselines.score.aggregate import COLUMNS, read, same_suite
    from baselines.score.tasks import load_tasks

    files = [read(path) for path in results]
    version = same_suite(files)
    totals = [file.aggregate(allow_missing=allow_missing) for file in files]
    if json:
        told = [{"path": f.path, **total.content(), "scores": f.scores} for f, total in zip(files, totals, strict=True)]
        _print({"suite_version": version, "results": told})
        return
    keys = list(dict.fromkeys([*load_tasks(), *(key for f in files for key in f.scores)]))
    shown = [key for key in keys if any(f.scores.get(key) is not None for f in files)]
    cells = [[key, *(_share(f.scores.get(key), NONE) for f in files)] for key in shown]
    cells += [[name, *(_share(total.column(name), NONE) for total in totals)] for name in COLUMNS]
    typer.echo("\n".join(table([["task", *(f"[{i}]" for i in range(1, len(files) + 1))]], cells)))
    for i, (file, total) in enumerate(zip(files, totals, strict=True), 1):
        typer.echo(f"  [{i}] {file.path}: {total.lines()[0]}")


@app.command()
def scaling(
    runs: Table,
    where: Where = None,
    compute: Annotated[str, typer.Option(metavar="COLUMN", help="GMAC a sample × samples seen.")] = "gmacs_total",
    metric: Annotated[str, typer.Option(metavar="COLUMN", help="A score from 0 to 1.")] = "acc1",
    bins: Annotated[int, typer.Option(min=0, help="Bins of the lower envelope; 0 = fit all runs.")] = 5,
    best_of: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="Judge the fit by the best run of each; may be repeated.")
    ] = None,
    extrapolate: Annotated[
        list[str] | None, typer.Option(metavar="NAME=COMPUTE", help="Predict: G/14=532.92*6.8e10; may be repeated.")
    ] = None,
    plot: Plot = None,
    json: Json = False,
) -> None:
    """Fit the line that errors follow over compute, in logarithms of both, and predict from it.

    A column samples_seen_pretty among --best-of takes the nominal samples seen of 3B, 13B, 34B and 68B, and wants gmacs.

    Example: winnow study scaling zeroshot_results.csv --where downstream_dataset=imagenet1k --where upstream_dataset!=CLIP-WIT
    """
    from baselines.studies import scaling as laws

    found = laws.read(runs, where or [], compute=compute, metric=metric, sorts=best_of or [])
    nominal = laws.nominal_compute(runs, where or []) if "samples_seen_pretty" in (best_of or []) else None
    study = laws.study(found, bins=bins or None, nominal=nominal)
    wanted = dict(laws.product(text) for text in extrapolate or [])
    if plot:
        _write(plot, laws.draw(study, list(wanted.values()), metric))
    if json:
        _print(study.content(wanted))
    else:
        typer.echo("\n".join(study.lines(wanted)))


@app.command("power-law")
def power_law(
    runs: Table,
    where: Where = None,
    x: Annotated[str, typer.Option("--x", metavar="COLUMN", help="N: examples, or examples seen.")] = "examples",
    error: Annotated[str, typer.Option(metavar="COLUMN", help="Errors, above 0.")] = "error",
    samples: Annotated[int, typer.Option(min=1, help="Of the bootstrap.")] = 1000,
    level: Annotated[float, typer.Option(min=0.01, max=0.999, help="Of the confidence intervals.")] = 0.95,
    seed: Seed = 0,
    extrapolate: Annotated[list[float] | None, typer.Option(metavar="N", help="Predict; may be repeated.")] = None,
    plot: Plot = None,
    json: Json = False,
) -> None:
    """Fit α·N^(−c) + ε, which errors fall to as N grows, with confidence intervals.

    Example: winnow study power-law checkpoints.csv --x examples_seen --error error
    """
    from baselines.studies import power_law as laws
    from baselines.studies import rows

    chosen = rows.read(runs, where or [])
    points = list(zip(rows.numbers(chosen, x, runs), rows.numbers(chosen, error, runs), strict=True))
    fitted = laws.fit_with_intervals(*zip(*points, strict=True), samples=samples, level=level, seed=seed)
    if plot:
        _write(plot, laws.draw(fitted.law, points, x, error))
    if json:
        _print({**fitted.content(), "predictions": {f"{n:g}": fitted.law.error(n) for n in extrapolate or []}})
    else:
        typer.echo("\n".join(fitted.lines(extrapolate or [])))


@app.command()
def significance(
    first: Annotated[list[str], typer.Option(metavar="RESULTS", help="A run of the first family; may be repeated.")],
    second: Annotated[list[str], typer.Option(metavar="RESULTS", help="The run of the second family that it is paired with.")],
    task: Annotated[list[str] | None, typer.Option(help="Only this task, or tasks of this tag; may be repeated.")] = None,
    json: Json = False,
) -> None:
    """Test whether two families of runs differ, over tasks and pairs of runs (Wilcoxon's signed-rank test).

    Example: winnow study significance --first b32_10B --first l14_10B --second b32_100B --second l14_100B
    """
    from baselines.score.aggregate import read
    from baselines.studies.significance import pairs, wilcoxon

    found = wilcoxon(*pairs([read(p) for p in first], [read(p) for p in second], task or []))
    if json:
        _print(found.content())
        return
    typer.echo(
        f"{found.pairs} pairs: the second is better in {found.better}, worse in {found.worse}, equal in {found.equal}\n"
        f"median gain {100 * found.median_gain:+.2f} points, W = {found.statistic:g}, p = {found.p:.3g} (two-sided)"
    )


@app.command()
def ranks(
    results: Table,
    between: Annotated[tuple[str, str], typer.Option(metavar="SCALE SCALE", help="The two scales.")],
    where: Where = None,
    recipe: Annotated[str, typer.Option(metavar="COLUMN", help="Names of the recipes.")] = "method",
    scale: Annotated[str, typer.Option(metavar="COLUMN", help="Names of the scales.")] = "scale",
    pattern: Annotated[
        str | None, typer.Option(metavar="REGEX", help="For the recipe's column: its group `scale`, and what others hold.")
    ] = None,
    score: Annotated[str, typer.Option(metavar="COLUMN", help="What ranks them.")] = "Average",
    json: Json = False,
) -> None:
    """Correlate the ranks of recipes at two scales, ties allowed; rows of one recipe count by their mean.

    Example: winnow leaderboard submissions --csv > board.csv; winnow study ranks board.csv --between small medium
    """
    from baselines.studies.ranks import by_scale, correlate
    from pools.errors import InputError

    found = by_scale(results, where or [], recipe=recipe, scale=scale, score=score, pattern=pattern)
    for name in between:
        if name not in found:
            raise InputError(f"no row of scale {name!r}", where=results, expected=f"one of {', '.join(sorted(found))}")
    said = correlate(found[between[0]], found[between[1]])
    if json:
        _print(said.content())
        return
    typer.echo(f"{len(said.recipes)} recipes at {between[0]} and {between[1]}, ties {said.ties[0]} and {said.ties[1]}")
    typer.echo(f"Spearman {said.spearman:.3f} (p {said.p_spearman:.2g}), Kendall {said.kendall:.3f} (p {said.p_kendall:.2g})")
    for name in said.recipes:
        typer.echo(f"  {name:24} {found[between[0]][name]:.4f}  {found[between[1]][name]:.4f}")


def _share(value: float | None, none: str) -> str:
    return none if value is None else f"{value:.4f}"


def _write(path: str, picture: str) -> None:
    from pools import store

    store.write_bytes(path, picture.encode())


def _print(value: Any) -> None:
    import json

    typer.echo(json.dumps(value, ensure_ascii=False))
