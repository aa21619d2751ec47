"""The command line: one verb a stage. Each parses, imports its job, calls it and prints a summary that reconciles."""

from __future__ import annotations

import sys
from typing import Annotated, Literal

import typer

from pipeline import cluster_command, lists, pools_command
from pipeline.cli_options import (
    Device,
    Json,
    Output,
    Overwrite,
    Quiet,
    Seed,
    Workers,
    conclude,
    make_options,
)
from pipeline.download.command import download
from pipeline.extract.command import extract
from pipeline.extras import missing
from pipeline.help_panels import Panels
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


@app.command()
def annotate(
    pool: Annotated[str, typer.Argument(help="A pool with metadata/ and shards/.")],
    with_: Annotated[Literal["clip"], typer.Option("--with", help="The annotator.")],
    model: Annotated[str, typer.Option(help="A training run, or the name or config file of an open_clip model.")],
    name: Annotated[str, typer.Option(help="Names the columns: clip_<name>_similarity_score, <name>_img, <name>_txt.")],
    pretrained: Annotated[str | None, typer.Option(metavar="PATH", help="The checkpoint, unless the model is a run.")] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Samples at once.")] = 64,
    device: Device = "auto",
    workers: Workers = 0,
    overwrite: Overwrite = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Add scores and features to a pool, beside its metadata; nothing that is there changes.

    Example: winnow annotate pool --with clip --model ViT-B-32 --pretrained open_clip.pt --name b32
    """
    from pipeline.annotate.job import annotate_clip

    outcome = annotate_clip(
        pool,
        name=name,
        model=model,
        pretrained=pretrained,
        batch_size=batch_size,
        device=device,
        options=make_options(overwrite, quiet, "local", workers),
    )
    conclude(f"annotate {with_}", outcome, f"{pool}/annotations/{name}", json, quiet)


app.command("filter")(filter_)
app.command()(explain)
app.command()(recipes)


@app.command()
def reshard(
    shards: Annotated[str, typer.Argument(help="A folder of webdataset shards.")],
    uids: Annotated[str, typer.Argument(help="A sorted uid list (.npy); a uid may stand several times.")],
    output: Output,
    shard_size: Annotated[int, typer.Option(min=1, help="Samples a shard.")] = 10_000,
    strict: Annotated[bool, typer.Option(help="A uid that is in no shard is a failure (exit 1).")] = False,
    workers: Workers = None,
    overwrite: Overwrite = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write new shards of just the samples in a list; nothing is decoded.

    Example: winnow reshard pool/shards selection/uids.npy --output training
    """
    from pipeline.reshard import reshard as job

    options = make_options(overwrite, quiet, "local", workers)
    outcome = job(shards, uids, output, shard_size=shard_size, strict=strict, options=options)
    # Missing uids are listed; whether they are a failure is for --strict to say.
    from pipeline.summary import report

    report("reshard", outcome, output, as_json=json, quiet=quiet)


@app.command()
def train(
    data: Annotated[str, typer.Option(help="A folder of webdataset shards, or patterns: a/{000..127}.tar::b/{0..2}.tar.")],
    output: Output,
    scale: Annotated[str, typer.Option(help="tiny (CPU, not comparable), debug, small, medium, large or xlarge.")] = "tiny",
    uids: Annotated[str | None, typer.Option(metavar="LIST", help="Train on these samples only.")] = None,
    samples: Annotated[int | None, typer.Option(min=1, help="Samples to see, instead of the scale's: not comparable.")] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="The same in optimiser steps.")] = None,
    batch_size: Annotated[int | None, typer.Option(min=1, help="Instead of the scale's: not comparable.")] = None,
    learning_rate: Annotated[float | None, typer.Option(help="Instead of the scale's: not comparable.")] = None,
    warmup_steps: Annotated[int | None, typer.Option(min=0, help="Instead of the scale's: not comparable.")] = None,
    precision: Annotated[
        Literal["amp", "amp_bf16", "fp32"] | None, typer.Option(help="Instead of the scale's; a CPU computes in fp32.")
    ] = None,
    max_failed: Annotated[float, typer.Option(min=0, max=1, help="Share of unusable samples that is put up with.")] = 0.1,
    seed: Seed = 0,
    workers: Workers = None,
    device: Device = "auto",
    overwrite: Overwrite = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train a CLIP model by the fixed recipe of a scale.

    Example: winnow train --scale tiny --data training --output run
    """
    from baselines.train.config import TrainConfig
    from baselines.train.loop import train as job

    config = TrainConfig(
        data=data,
        output=output,
        scale=scale,
        uids=uids,
        samples=samples,
        steps=steps,
        batch_size=batch_size,
        learning_rate=learning_rate,
        warmup_steps=warmup_steps,
        precision=precision,
        max_failed=max_failed,
        seed=seed,
        workers=workers,
        device=device,
        overwrite=overwrite,
        quiet=quiet,
    )
    conclude("train", job(config), output, json, quiet)


@app.command()
def score(
    evals: Annotated[str, typer.Option(help="A folder of evaluation sets in DataComp's form (wds_<task>_test/).")],
    run: Annotated[str | None, typer.Argument(help="A training run.")] = None,
    model: Annotated[str | None, typer.Option(metavar="ARCH", help="Instead of a run: an open_clip model …")] = None,
    pretrained: Annotated[str | None, typer.Option(metavar="PATH", help="… and its checkpoint.")] = None,
    task: Annotated[list[str] | None, typer.Option(help="Only these tasks; may be given several times.")] = None,
    output: Annotated[
        str | None, typer.Option("--output", "-o", help="Folder for eval_results.jsonl; default: the run.")
    ] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Images, or texts, at once.")] = 256,
    unreadable: Annotated[
        Literal["error", "wrong", "exclude"], typer.Option(help="What an image counts for that cannot be read.")
    ] = "error",
    device: Device = "auto",
    workers: Workers = None,
    overwrite: Overwrite = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Score a model on evaluation sets, zero-shot classification and retrieval, into eval_results.jsonl.

    Example: winnow score run --evals evals
    """
    from json import dumps

    from baselines.score.suite import score as job

    scores = job(
        run,
        evals,
        model=model,
        pretrained=pretrained,
        tasks=task,
        output=output,
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


@app.command()
def doctor() -> None:
    """Check what is installed, and say which command installs what is missing.

    Example: winnow doctor
    """
    from pipeline.doctor import examine

    if not examine():
        raise typer.Exit(1)


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
