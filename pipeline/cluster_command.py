"""`winnow cluster`: centroids of a pool, and those that others published."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from pipeline.cli_options import Engine, Json, Output, Overwrite, Quiet, Seed, Workers, conclude, make_options


class TrainByDefault(TyperGroup):
    """What is not the name of a sub-command is the pool of `train`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in (*self.commands, "-h", "--help"):
            args = ["train", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=TrainByDefault,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Find the clusters of a pool's features: `winnow cluster POOL …` is `winnow cluster train POOL …`.",
)


@app.command()
def train(
    pool: Annotated[str, typer.Argument(help="A pool with features (.npz).")],
    features: Annotated[str, typer.Option(metavar="COLUMN", help="The features, l14_img say.")],
    k: Annotated[int, typer.Option("--k", min=1, help="Clusters.")],
    output: Output,
    recipe: Annotated[str | None, typer.Option(help="Use only rows that this recipe keeps.")] = None,
    iterations: Annotated[int, typer.Option(min=1, help="Of k-means.")] = 20,
    max_per_centroid: Annotated[int, typer.Option(min=1, help="Rows for each cluster: of more, a sample is used.")] = 256,
    all_rows: Annotated[bool, typer.Option("--all-rows", help="No sample, however many rows there are.")] = False,
    clip: Annotated[bool, typer.Option("--clip", help="Of fewer rows than clusters, each is its own centroid.")] = False,
    seed: Seed = 0,
    engine: Engine = "local",
    workers: Workers = None,
    overwrite: Overwrite = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train centroids with k-means: a .npy of k rows, and beside it, as .json, what they were made of.

    DataComp took 20 iterations over all English captions of some length (--recipe, --all-rows).

    Example: winnow cluster pool --features l14_img --k 1000 --seed 0 --output centroids.npy
    """
    from pipeline.cli import recipe_path
    from pipeline.cluster import Settings, cluster

    settings = Settings(features, k, seed, iterations, None if all_rows else max_per_centroid, clip)
    options = make_options(overwrite, quiet, engine, workers)
    outcome = cluster(pool, output, settings, recipe=recipe_path(recipe) if recipe else None, options=options)
    conclude("cluster", outcome, output, json, quiet)


@app.command()
def convert(
    sources: Annotated[list[str], typer.Argument(metavar="FILE.pt…", help="Published centroids or features, pickled.")],
    output: Annotated[str, typer.Argument(metavar="OUTPUT.npy")],
) -> None:
    """Turn arrays that PyTorch pickled into one .npy, rows of several files one after the other. No pickle is run.

    Example: winnow cluster convert small_centroids.pt centroids.npy
    """
    from pipeline.pickled import convert as job

    shape, kind = job(sources, output)
    typer.echo(f"{output}: {' x '.join(f'{n:,}' for n in shape)} numbers, {kind}")


@app.command()
def targets(
    features: Annotated[str, typer.Argument(metavar="FEATURES.npy", help="Features of the images that are aimed at.")],
    centroids: Annotated[str, typer.Option(metavar="CENTROIDS.npy", help="The centroids.")],
    output: Output,
) -> None:
    """Write the numbers of the clusters that features fall into, once, for the recipes that name them as targets.

    Example: winnow cluster targets imagenet.npy --centroids centroids.npy --output targets.npy
    """
    from filters.vectors import load_centroids, load_clusters, save_array

    found = load_clusters(features, centroids)
    save_array(output, found)
    typer.echo(f"{output}: {len(found):,} of {len(load_centroids(centroids).centroids):,} clusters")
