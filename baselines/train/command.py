"""`winnow train`, and `python -m baselines.train`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import typer

from pipeline.cli_options import Device, Json, Output, Overwrite, Quiet, Seed, conclude
from pipeline.help_panels import Panels
from pools.errors import InputError

DATA, RECIPE, COMPUTING, RUN = "What to train on", "The recipe", "How it is computed", "The run"
_NOT = "Instead of the scale's: not comparable."

_STYLE = {"help_option_names": ["-h", "--help"], "max_content_width": 120}
training = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False, context_settings=_STYLE)


def _in(panel: str, *names: str, **more: Any) -> Any:
    return typer.Option(*names, rich_help_panel=panel, **more)


@training.command(cls=Panels)
def train(
    data: Annotated[
        list[str],
        _in(DATA, help="A folder of webdataset shards, or patterns: a/{000..127}.tar::b/{0..2}.tar; once for each source."),
    ],
    output: Output,
    weights: Annotated[
        str | None, _in(DATA, metavar="W,W…", help="How often a pass takes each source, in their order; default: once each.")
    ] = None,
    uids: Annotated[str | None, _in(DATA, metavar="LIST", help="Train on these samples only.")] = None,
    max_failed: Annotated[float, _in(DATA, min=0, max=1, help="Share of unusable samples that is put up with.")] = 0.1,
    scale: Annotated[
        str,
        _in(RECIPE, help="tiny (CPU, not comparable), debug, small, medium, large or xlarge; see docs/TRAIN.md for others."),
    ] = "tiny",
    samples: Annotated[int | None, _in(RECIPE, min=1, help=f"Samples to see. {_NOT}")] = None,
    steps: Annotated[int | None, _in(RECIPE, min=1, help="The same in optimiser steps.")] = None,
    batch_size: Annotated[int | None, _in(RECIPE, min=1, help=f"Over all processes. {_NOT}")] = None,
    learning_rate: Annotated[float | None, _in(RECIPE, help=_NOT)] = None,
    warmup_steps: Annotated[int | None, _in(RECIPE, min=0, help=_NOT)] = None,
    model: Annotated[
        str | None, _in(RECIPE, metavar="ARCH", help=f"A name of open_clip's, or a config file (.json). {_NOT}")
    ] = None,
    loss: Annotated[Literal["softmax", "sigmoid", "align"] | None, _in(RECIPE, help=_NOT)] = None,
    optimizer: Annotated[Literal["adamw", "lamb"] | None, _in(RECIPE, help=_NOT)] = None,
    grad_clip: Annotated[float | None, _in(RECIPE, min=0, help=f"Largest norm of the gradient; 0: any. {_NOT}")] = None,
    sampling: Annotated[
        Literal["passes", "replacement"] | None,
        _in(RECIPE, help=f"Exact passes, or shards drawn with replacement as DataComp's code does. {_NOT}"),
    ] = None,
    captions: Annotated[
        Literal["alt", "title", "both"] | None, _in(RECIPE, help=f"The caption, the page's title, or one of both. {_NOT}")
    ] = None,
    cooldown_from: Annotated[
        str | None,
        _in(RECIPE, metavar="CHECKPOINT", help="Leave that run there and cool down, by a scale with a cooldown (siglip)."),
    ] = None,
    seed: Seed = 0,
    device: Device = "auto",
    precision: Annotated[
        Literal["amp", "amp_bf16", "fp32"] | None, _in(COMPUTING, help="Instead of the scale's; a CPU computes in fp32.")
    ] = None,
    accumulate: Annotated[
        int, _in(COMPUTING, min=1, metavar="N", help="Compute a process's share of a batch in N parts; the loss sees it whole.")
    ] = 1,
    compile_: Annotated[
        bool, _in(COMPUTING, "--compile", help="Compile the model; for GPUs, and not measured: try it on some steps first.")
    ] = False,
    workers: Annotated[
        int | None, _in(COMPUTING, min=0, help="Decoding processes; 0: none; default: none on a CPU, up to 8 beside a GPU.")
    ] = None,
    checkpoint_every: Annotated[
        int, _in(RUN, min=0, metavar="STEPS", help="Save the state to go on from; 0: with the scale's checkpoints only.")
    ] = 500,
    wandb: Annotated[str | None, _in(RUN, metavar="PROJECT", help="Tell Weights & Biases as well, if it is installed.")] = None,
    overwrite: Overwrite = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train a CLIP model by the fixed recipe of a scale. The same command goes on where a run stopped.

    Example: winnow train --scale tiny --data training --output run

    On 8 GPUs: torchrun --nproc_per_node 8 -m baselines.train --scale small --data training --output run
    """
    from baselines.train.config import TrainConfig
    from baselines.train.distributed import rank
    from baselines.train.loop import train as job

    config = TrainConfig(
        data=data[0] if len(data) == 1 else data,
        output=output,
        scale=scale,
        uids=uids,
        weights=_numbers(weights),
        seed=seed,
        workers=workers,
        samples=samples,
        steps=steps,
        batch_size=batch_size,
        learning_rate=learning_rate,
        warmup_steps=warmup_steps,
        model=model,
        loss=loss,
        optimizer=optimizer,
        grad_clip=grad_clip,
        sampling=sampling,
        captions=captions,
        precision=precision,
        device=device,
        accumulate=accumulate,
        compile=compile_,
        checkpoint_every=checkpoint_every,
        cooldown_from=cooldown_from,
        wandb=wandb,
        max_failed=max_failed,
        overwrite=overwrite,
        quiet=quiet,
    )
    outcome = job(config)
    if rank() == 0:
        conclude("train", outcome, output, json, quiet)


def _numbers(text: str | None) -> list[float] | None:
    try:
        return None if text is None else [float(part) for part in text.split(",")]
    except ValueError:
        raise InputError(repr(text), where="--weights", expected="numbers with commas between them, such as 1,2.5") from None
