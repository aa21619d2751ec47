"""The command line: one verb a stage. Each parses, imports its job, calls it and prints a summary that reconciles."""

from __future__ import annotations

import sys
from typing import Annotated, Literal

import typer

from pipeline import cluster_command, decontaminate_command, lists, models_command
from pipeline.annotate.command import annotate
from pipeline.cli_options import (
    Device,
    Json,
    Overwrite,
    Quiet,
    Seed,
    Workers,
    conclude,
    make_options,
)
from pipeline.doctor import doctor
from pipeline.download.command import download
from pipeline.extract.command import extract
from pipeline.extras import missing
from pipeline.help_panels import Panels
from pipeline.pool import command as pools_command
from pipeline.report.command import report
from pipeline.reshard.command import reshard
from pipeline.selecting.command import RECIPES as RECIPES
from pipeline.selecting.command import explain, filter_, recipes
from pipeline.selecting.command import recipe_path as recipe_path
from pools.errors import WinnowError

app = typer.Typer(
    help="Turn raw web crawls into image-text training sets, and find out whether the choice of data was any good.\n\n"
    "A run goes: extract → download → annotate → filter → reshard → train → score. Everything between two stages is a file "
    "that the field's other tools can read. Try `winnow demo` first.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)
app.add_typer(lists.app, name="uids", help="Look at uid lists, combine and convert them.")
app.add_typer(pools_command.app, name="pool", help="Make pools of what others published.")
app.add_typer(cluster_command.app, name="cluster", help="Find the clusters of a pool's features.")
app.add_typer(models_command.app, name="models", help="List the weights that winnow knows, get them, find them.")
app.add_typer(decontaminate_command.app, name="decontaminate", help="Keep evaluation images out of training data.")
evals_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
app.add_typer(evals_app, name="evals", help="Look at evaluation data before anything is scored.")


def _version(asked: bool) -> None:
    if asked:
        from pools.manifest import winnow_version

        print(f"winnow {winnow_version()}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say which winnow this is.")
    ] = False,
) -> None: ...


app.command()(extract)
app.command(cls=Panels)(download)


@app.command()
def replay(
    archives: Annotated[list[str], typer.Argument(metavar="WARC…", help="Web archives (.warc, .warc.gz), or folders of them.")],
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on 127.0.0.1; 0 takes a free one.")] = 0,
) -> None:
    """Serve the responses of web archives through a proxy on this machine, until Ctrl-C.

    Example: winnow replay books.warc --port 8099, and elsewhere: winnow download candidates --proxy http://127.0.0.1:8099 …
    """
    from pipeline.replay import replay as job

    job(archives, port=port)


app.command(cls=Panels)(annotate)
app.command("filter")(filter_)
app.command()(explain)
app.command()(recipes)


app.command(cls=Panels)(reshard)


# The baselines parse these themselves: nothing of theirs may be imported before it is used.
_parsed_there = app.command(
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True, "allow_interspersed_args": False},
)


@_parsed_there
def train(ctx: typer.Context) -> None:
    """Train a CLIP model by the fixed recipe of a scale."""
    from baselines.train.command import training

    _hand_over(training, ctx)


@app.command()
def score(
    evals: Annotated[str, typer.Option(help="A folder of evaluation sets in DataComp's form (wds_<task>_test/).")],
    run: Annotated[str | None, typer.Argument(help="A training run.")] = None,
    model: Annotated[str | None, typer.Option(metavar="ARCH", help="Instead of a run: an open_clip model …")] = None,
    pretrained: Annotated[str | None, typer.Option(metavar="PATH", help="… and its checkpoint.")] = None,
    suite: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME[,NAME…]", help="All tasks of these suites (docs/SCORE.md); default: what is in the folder."),
    ] = None,
    task: Annotated[list[str] | None, typer.Option(help="Only these tasks; may be given several times.")] = None,
    allow_missing: Annotated[bool, typer.Option(help="Score a suite though some of its tasks have no data.")] = False,
    output: Annotated[
        str | None, typer.Option("--output", "-o", help="Folder for eval_results.jsonl; default: the run.")
    ] = None,
    cache: Annotated[str | None, typer.Option(metavar="DIR", help="Keep features there; default: the results' folder.")] = None,
    cache_gib: Annotated[float, typer.Option(min=0, help="How much of them, in GiB; 0 keeps none.")] = 4.0,
    batch_size: Annotated[
        int | None, typer.Option(min=1, help="Images, or texts, at once; default: 64 on a CPU, 256 on a GPU.")
    ] = None,
    unreadable: Annotated[
        Literal["error", "wrong", "exclude"], typer.Option(help="What an image counts for that cannot be read.")
    ] = "error",
    device: Device = "auto",
    workers: Workers = None,
    overwrite: Overwrite = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Score a model on evaluation sets, into eval_results.jsonl.

    Example: winnow score run --evals evals --suite datacomp
    """
    from json import dumps

    from baselines.score.suite import Caching
    from baselines.score.suite import score as job

    scores = job(
        run,
        evals,
        model=model,
        pretrained=pretrained,
        suites=[name for given in suite or () for name in given.split(",")],
        tasks=task,
        allow_missing=allow_missing,
        output=output,
        caching=Caching(cache, cache_gib),
        device=device,
        batch_size=batch_size,
        unreadable=unreadable,
        workers=workers,
        overwrite=overwrite,
        quiet=quiet,
        table=not json,
    )
    if json:
        print(dumps(scores.summary(output or run or "")))
    if scores.unsupported:  # they are named
        raise typer.Exit(1)


@evals_app.command()
def check(
    evals: Annotated[str, typer.Argument(help="A folder of evaluation sets in DataComp's form (wds_<task>_test/).")],
    suite: Annotated[str, typer.Option(metavar="NAME", help="Whose tasks (docs/SCORE.md).")] = "datacomp",
    json: Json = False,
) -> None:
    """Say which tasks have complete data, and what is wrong with the others. No model is needed.

    Example: winnow evals check evals
    """
    from json import dumps

    from baselines.score.evals.check import check as job

    found = list(job(evals, suite))
    counted = [c for c in found if c.counted]
    lacking = [c.task.key for c in counted if c.missing]
    if json:
        tasks = {c.task.key: {"images": c.images, "obstacle": c.obstacle or None, "note": c.note or None} for c in found}
        print(dumps({"stage": "evals check", "tasks": tasks, "missing": lacking}))
    else:
        width = max(len(c.task.key) for c in found)
        for c in found:
            print(c.line(width))
        print(f"{len(counted) - len(lacking)} of the {len(counted)} tasks that count are complete")
    if lacking:
        raise typer.Exit(1)


@evals_app.command()
def fetch(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="Where the wds_<task>_test/ folders go.")],
    suite: Annotated[
        list[str] | None, typer.Option(metavar="NAME[,NAME…]", help="The data of these suites; default: datacomp.")
    ] = None,
    dry_run: Annotated[bool, typer.Option(help="Only write the list of sources.")] = False,
    endpoint: Annotated[str | None, typer.Option(metavar="URL", help="A mirror of the hub, to fetch from instead.")] = None,
    at_once: Annotated[int, typer.Option(min=1, help="Files at a time.")] = 4,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write the list of sources of evaluation data to DIR/sources.yaml, and fetch them; run again to go on.

    Example: winnow evals fetch evals --dry-run
    """
    from json import dumps

    from baselines.score.evals.fetch import fetch as job

    names = [name for given in suite or ["datacomp"] for name in given.split(",")]
    done = job(folder, suites=names, endpoint=endpoint, dry_run=dry_run, at_once=at_once, quiet=quiet)
    if json:
        print(dumps(done.summary()))
    elif dry_run:
        print(done.sources)
    else:
        print(f"{done.files} files are here, {done.new} of them new ({done.size:,} bytes); their sources: {done.sources}")
    if not json:
        for what, where in done.by_hand.items():
            print(f"not fetched: {what} ({where})")
        for line in done.failed:
            print(f"failed: {line}")
    if done.failed:
        raise typer.Exit(1)


@_parsed_there
def submit(ctx: typer.Context) -> None:
    """Check that a run's list, pool, recipe, weights and results belong together, and write a submission of them."""
    from baselines.submission.command import submitting

    _hand_over(submitting, ctx)


@_parsed_there
def leaderboard(ctx: typer.Context) -> None:
    """Rank submissions, for each scale and track."""
    from baselines.submission.command import ranking

    _hand_over(ranking, ctx)


@_parsed_there
def study(ctx: typer.Context) -> None:
    """Find out what many runs say together: scaling laws, significance, ranks."""
    from baselines.studies.command import app as studies

    _hand_over(studies, ctx)


def _hand_over(command: typer.Typer, ctx: typer.Context) -> None:
    if status := command(ctx.args, prog_name=ctx.command_path, standalone_mode=False):
        raise typer.Exit(status)


app.command()(report)


@app.command()
def miniweb(
    folder: Annotated[str, typer.Argument(help="Where the web goes.")],
    pictures: Annotated[int, typer.Option(min=50, help="Image links on its pages.")] = 12_000,
    seed: Seed = 0,
    workers: Workers = None,
    overwrite: Overwrite = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write a made-up web: WATs and WARCs of its pages and pictures, evaluation sets, and the truth about its flaws.

    Example: winnow miniweb web --pictures 500
    """
    from baselines.miniweb.web import build

    options = make_options(overwrite, quiet, "local", workers)
    conclude("miniweb", build(folder, pictures=pictures, seed=seed, options=options), folder, json, quiet)


@app.command()
def demo(
    folder: Annotated[str, typer.Argument(help="Where everything goes.")] = "demo",
    pictures: Annotated[
        int, typer.Option(min=50, help="Pictures of the made-up web; below some thousand nothing is learnt.")
    ] = 12_000,
    seed: Seed = 0,
    seeds: Annotated[int, typer.Option(min=1, help="Run so many seeds, and say how far the results lie apart.")] = 1,
    recipe: Annotated[
        list[str] | None,
        typer.Option(
            help="Instead of the five: a recipe of the demo's, of winnow's or of your own; may be given several times."
        ),
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Of the proxy that serves the web; 0 takes a free one.")] = 0,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
) -> None:
    """Run the whole experiment on a made-up web whose flaws are known, in minutes and without the network.

    Example: winnow demo demo; with a recipe of your own: winnow demo demo --recipe no_filter --recipe mine.yaml
    """
    from baselines.miniweb.demo import DEFAULT, Settings, demo_seeds
    from baselines.miniweb.demo import demo as job

    recipes = tuple(recipe) if recipe else DEFAULT
    settings = Settings(pictures=pictures, seed=seed, recipes=recipes, port=port, overwrite=overwrite, quiet=quiet)
    if seeds == 1:
        job(folder, settings)
    else:
        demo_seeds(folder, settings, seeds)


app.command()(doctor)


def main() -> None:
    """Entry point: 0 done, 1 work failed (part of it counts), 2 wrong input, 130 interrupted."""
    try:
        app(prog_name="winnow")
    except WinnowError as e:
        sys.exit(_fail(e))
    except ModuleNotFoundError as e:
        if (error := missing(e)) is None:
            raise
        sys.exit(_fail(error))


def _fail(error: WinnowError) -> int:
    print(f"winnow: {error}", file=sys.stderr)
    return error.exit_code


if __name__ == "__main__":
    main()
