"""`winnow decontaminate`: what a pool must not share with the evaluation sets."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from pipeline.cli_options import Device, Engine, Json, Output, Overwrite, Quiet, Workers, conclude, make_options

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Keep evaluation images out of training data.",
)


@app.callback()
def _group() -> None:
    """Keep evaluation images out of training data."""


@app.command()
def index(
    evals: Annotated[
        list[str], typer.Argument(metavar="EVALS…", help="Folders of evaluation sets (wds_<task>_test/), shards or pictures.")
    ],
    output: Output,
    model: Annotated[
        Literal["perceptual", "sscd-disc-mixup", "isc-ft-v107"],
        typer.Option(help="What pictures are compared by: hashes that come with winnow, or a copy-detection model."),
    ] = "perceptual",
    weights: Annotated[
        str | None, typer.Option(metavar="PATH", help="The model's file, ONNX or TorchScript; default: the registry's.")
    ] = None,
    size: Annotated[int, typer.Option(min=0, help="Side of what the model is shown, in pixels; 0: the usual one.")] = 0,
    device: Device = "auto",
    engine: Engine = "local",
    workers: Workers = None,
    overwrite: Overwrite = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Describe all evaluation images, once, for `winnow annotate --with near_duplicate`.

    docs/NEAR_DUPLICATES.md has which edits of a picture are found by what.

    Example: winnow decontaminate index evals --output evals-index, then
    winnow annotate pool --with near_duplicate --set index=evals-index
    """
    from pipeline.decontaminate import index as job

    options = make_options(overwrite, quiet, engine, workers)
    outcome = job(evals, output, model=model, weights=weights, size=size, device=device, options=options)
    conclude("decontaminate index", outcome, output, json, quiet)
