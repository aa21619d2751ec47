"""What a training tells while it runs: `metrics.jsonl`, TensorBoard's events, Weights & Biases, how fast it is."""

from __future__ import annotations

import json
import math
import os
import re
import time
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pools import store
from pools.errors import InputError
from pools.outputs import TrainingRun

TIMING = ("samples_per_s", "data_wait")  # what differs between two runs of one configuration
_EVENTS = re.compile(r"events\.out\.tfevents\.([0-9]{10})\.")
WINDOW = 20  # steps that the progress line speaks of


class Lines:
    """`metrics.jsonl`, a line a step: on this machine as they come, in a store whenever `flush` is called.

    A run that goes on keeps the lines of the steps up to `step`; those of steps that are taken once more are replaced.
    """

    def __init__(self, output: str, step: int) -> None:
        self.path = TrainingRun(output).metrics
        self._lines = _before(self.path, step)
        store.write_bytes(self.path, "".join(self._lines).encode())
        self._file = Path(store.local_path(self.path)).open("a", encoding="utf-8") if store.is_local(self.path) else None

    def write(self, line: Mapping[str, Any]) -> None:
        text = json.dumps(line) + "\n"
        if self._file is None:
            self._lines.append(text)
        else:
            self._file.write(text)
            self._file.flush()

    def flush(self) -> None:
        """What was written is there from now on, whatever happens to the process or the machine."""
        if self._file is None:
            store.write_bytes(self.path, "".join(self._lines).encode())
        else:
            os.fsync(self._file.fileno())

    def close(self) -> None:
        self.flush()
        if self._file is not None:
            self._file.close()


def _before(path: str, step: int) -> list[str]:
    lines = store.read_bytes(path).decode().splitlines(keepends=True) if step and store.exists(path) else []
    return lines[:step]


class Journal:
    """All that rank 0 writes about the steps of a run."""

    def __init__(self, output: str, step: int, *, wandb: str | None = None, config: Mapping[str, Any], run: str) -> None:
        self._lines = Lines(output, step)
        self._board = _tensorboard(output, step)
        self._wandb = None
        if wandb is not None:
            # A run that goes on is the same run there.
            self._wandb = require_wandb().init(project=wandb, id=run, resume="allow", config=dict(config))

    def write(self, line: Mapping[str, Any]) -> None:
        self._lines.write(line)
        step = line["step"]
        values = {f"train/{k}": v for k, v in line.items() if k != "step" and v is not None}
        if self._board is not None:
            for name, value in values.items():
                self._board.add_scalar(name, value, step)
        if self._wandb is not None:
            self._wandb.log(values, step=step)

    def flush(self) -> None:
        """To be called before a checkpoint is written, which speaks of what lies before it."""
        self._lines.flush()
        if self._board is not None:
            self._board.flush()

    def close(self) -> None:
        self._lines.close()
        if self._board is not None:
            self._board.close()
        if self._wandb is not None:
            self._wandb.finish()


def _tensorboard(output: str, step: int) -> Any:
    """A writer into RUN/tensorboard, whose events after `step` are shown no longer; None where the run is in a store."""
    if not store.is_local(output):
        return None
    from torch.utils.tensorboard import SummaryWriter

    # Files of events are read in the order of their names, which begin with the second that they were made in.
    names = (_EVENTS.match(file.name) for file in Path(TrainingRun(output).tensorboard).glob("*"))
    latest = max((int(name[1]) for name in names if name), default=0)
    time.sleep(min(1.0, max(0.0, latest + 1 - time.time())))
    return SummaryWriter(TrainingRun(output).tensorboard, purge_step=step + 1)


def require_wandb() -> Any:
    """The module. Raises InputError if it is not installed."""
    try:
        import wandb
    except ModuleNotFoundError as e:
        raise InputError("wandb is not installed", where="--wandb", fix="pip install wandb, or leave the option out") from e
    return wandb


def finite(value: float) -> float | None:
    """The number, or None for what JSON has no number for."""
    return value if math.isfinite(value) else None


class Pace:
    """How fast the last steps were, and which share of the time went by waiting for data."""

    def __init__(self) -> None:
        self._steps: deque[tuple[int, float, float]] = deque(maxlen=WINDOW)

    def add(self, samples: int, seconds: float, waited: float) -> dict[str, float]:
        """The figures of one step, by the names in `TIMING`."""
        self._steps.append((samples, seconds, waited))
        return dict(zip(TIMING, _rates(samples, seconds, waited), strict=True))

    def __str__(self) -> str:
        speed, share = _rates(*(sum(column) for column in zip(*self._steps, strict=True)))
        return f"{speed:,.0f} samples/s, {share:.0%} of the time waiting for data"


def _rates(samples: float, seconds: float, waited: float) -> tuple[float, float]:
    seconds = max(seconds, 1e-9)
    return round(samples / seconds, 2), round(min(waited / seconds, 1.0), 4)
