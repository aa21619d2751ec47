"""`python -m baselines.train --scale tiny --data SHARDS --output RUN`: the trainer without the rest of the command line."""

from __future__ import annotations

import argparse
import sys
from typing import get_args

from baselines.train.config import Device, TrainConfig
from pools.errors import WinnowError
from pools.scales import Precision, load_scales


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m baselines.train", description=__doc__)
    parser.add_argument("--data", nargs="+", required=True, help="folders of shards, or patterns of tars")
    parser.add_argument("--output", required=True, help="the run folder")
    parser.add_argument("--scale", required=True, help=", ".join(load_scales()))
    parser.add_argument("--uids", help="a uid list: only these samples, each as often as it names them")
    parser.add_argument("--device", choices=get_args(Device), default="auto")
    parser.add_argument("--precision", choices=get_args(Precision))
    for name in ("seed", "workers", "samples", "steps", "batch-size", "warmup-steps"):
        parser.add_argument(f"--{name}", type=int, default=0 if name == "seed" else None)
    parser.add_argument("--learning-rate", type=float)
    parser.add_argument("--max-failed", type=float, default=0.1)
    parser.add_argument("--overwrite", action="store_true")
    parser.add_argument("--quiet", action="store_true")
    return parser


def main(arguments: list[str] | None = None) -> int:
    options = vars(_parser().parse_args(arguments))
    try:
        config = TrainConfig(**options)
        from baselines.train.loop import train

        outcome = train(config)
    except WinnowError as e:
        print(e, file=sys.stderr)
        return e.exit_code
    for problem in outcome.problems:
        print(problem, file=sys.stderr)
    return 1 if outcome.problems else 0


if __name__ == "__main__":
    sys.exit(main())
