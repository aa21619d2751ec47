"""The training itself, told in order: what is trained on, where it begins, the steps, what is left behind.

A run folder holds `config.yaml` (every number settled), `model_config.json`, `metrics.jsonl` (a line a step), `tensorboard/`,
`checkpoints/step_<n>.pt` (weights) and `latest.pt` (all that the run needs to go on), and `_manifest.json`, which comes last.
The same command after an end of whatever kind goes on behind `latest.pt`, and leaves what it would have left without that end.
"""

from __future__ import annotations

import contextlib
import threading
import time
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

from baselines.train import checkpoint, model, run_files
from baselines.train.around import interrupts, threads
from baselines.train.batches import Batches, Taken
from baselines.train.checkpoint import State
from baselines.train.config import Plan, TrainConfig, resolve
from baselines.train.data import Survey, read_uids, survey, weigh_shards
from baselines.train.decode import Decoder
from baselines.train.distributed import World, joined
from baselines.train.feed import Feed, FeedState, open_feed
from baselines.train.loss import initial_logits
from baselines.train.metrics import Journal, Pace, finite, require_wandb
from baselines.train.schedule import branch_end, branch_starts, learning_rate
from baselines.train.step import Measured, Stepper
from pipeline import engine
from pipeline.progress import Progress
from pools import store, uids
from pools.errors import InputError, WorkFailed
from pools.manifest import Outcome, Run, digest_of
from pools.outputs import TrainingRun

VERSION = 3


def train(config: TrainConfig) -> Outcome:
    """Trains one model, alone or with the processes that `torchrun` has started, and returns the account of the samples.

    Raises InputError before anything is written if the data, the list or the device cannot be used; WorkFailed if too many
    samples are broken or the loss is no number; KeyboardInterrupt after Ctrl-C, when the state is saved. The same
    configuration gives the same weights on a CPU.
    """
    with joined(config.device, cuda=torch.cuda.is_available()) as world:
        return _train(config if world.first else replace(config, quiet=True), world)


@dataclass(frozen=True)
class _Begin:
    """What the steps need: settled, looked at and, where the run goes on, read."""

    config: TrainConfig
    plan: Plan
    world: World
    found: Survey
    data: str  # digest of the shards
    listed: uids.Uids | None
    loaded: model.Loaded
    state: State | None  # None = from the start


def _train(config: TrainConfig, world: World) -> Outcome:
    if config.wandb is not None:
        require_wandb()
    plan = resolve(config, cuda=torch.cuda.is_available())
    state = checkpoint.load(config.cooldown_from) if config.cooldown_from else None
    plan = plan if state is None else _branch(plan, state.step)
    plan.check(world.size)
    listed = read_uids(config.uids) if config.uids else None
    # Rank 0 looks at the files, the others are told: a run may have a million shards.
    shards, digest = world.told(_shards(config) if world.first else ({}, ""))
    if state is not None:
        state.check(world.size, digest, str(config.cooldown_from))
    run = Run(config.output, "train", VERSION, run_files.identity(config, plan, listed), (digest,))
    options = engine.Options(overwrite=config.overwrite, quiet=config.quiet)
    if (before := world.told(engine.recall(run, options) if world.first else None)) is not None:
        return before
    found = world.told(survey(shards, listed=listed, captions=plan.scale.captions) if world.first else Survey((), ()))
    start, scale = initial_logits(plan.scale), plan.scale
    loaded = model.new_model(scale.model, device=plan.device, seed=plan.seed, augment=scale.augment, **start)
    if world.first:
        run.claim(overwrite=config.overwrite)
    latest = TrainingRun(config.output).checkpoint
    if world.told(store.exists(latest)):
        state = checkpoint.load(latest)
        state.check(world.size, digest, latest)
    if world.first:
        run_files.announce(config, plan, world, found, listed)
        if state is not None:
            Progress.note(f"train: goes on after step {state.step}", quiet=config.quiet)
        run_files.write_config(config, plan, world, loaded)
    outcome = _Training(_Begin(config, plan, world, found, digest, listed, loaded, state)).run()
    if world.first:
        name = run_files.device_name(plan)
        run.finish(outcome.check(), comparable=plan.comparable, device=name, processes=world.size, torch=torch.__version__)
        run_files.conclude(config, plan, outcome)
    return outcome


class _Training:
    """Model, data and files of a run, and how far it is."""

    def __init__(self, begin: _Begin) -> None:
        self.config, self.plan, self.world, self.found = begin.config, begin.plan, begin.world, begin.found
        self.data = begin.data
        state, net = begin.state, begin.loaded.model
        self.step, self.samples = (0, 0) if state is None else (state.step, state.samples)
        if state is not None:
            state.restore(net, self.config.cooldown_from or self.config.output)
        torch.manual_seed(self.plan.seed + self.world.rank)  # dropout differs between processes
        decoder = Decoder(begin.loaded.train_transform, begin.loaded.tokenizer, uint8=True)
        self.stepper = Stepper(net, self.plan, self.world, decoder.normalise)
        self.feed = _feed(begin, decoder)
        if state is not None:
            state.restore_rest(self.stepper.optimizer, self.stepper.scaler, self.world.rank)
        self.batches = Batches(self.feed, lambda step: self.world.part(self.plan.batch(step)), self.plan.device)
        self.whole = branch_starts(self.plan.scale, self.plan.steps)  # steps whose checkpoints keep the whole state
        self.journal: Journal | None = None
        self.pace = Pace()

    def run(self) -> Outcome:
        """All steps that are left. Returns the account of the samples of all processes."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(threads(self.plan.scale.cpu_threads if self.plan.device == "cpu" else 0))
            if self.world.first:
                self.journal = stack.enter_context(contextlib.closing(self._open_journal()))
            stack.enter_context(contextlib.closing(self.feed))
            asked = stack.enter_context(interrupts())
            progress = stack.enter_context(Progress("train", self.plan.steps, quiet=self.config.quiet, unit="steps"))
            progress.advance(self.step)
            while self.step < self.plan.steps:
                loss, stop = self._step(asked)
                progress.advance(detail=f"loss {loss:.3f}, {self.pace}")
                if stop and self.step < self.plan.steps:
                    self._interrupted()
        return run_files.account(self.plan, self.found, self.world.gather(run_files.told_by(self.feed)))

    def _step(self, asked: threading.Event) -> tuple[float, bool]:
        """One step. Returns the batch's loss, and whether someone wants the training to stop."""
        begin = time.perf_counter()
        taken = self.batches.get(self.step)
        got = time.perf_counter()
        values = self.stepper.gradients(taken.batch, self.plan.parts(self.step, self.world.size))
        if self.step + 1 < self.plan.steps:
            self.batches.fetch_ahead(self.step + 1)
        fetched = time.perf_counter()
        measured = self.stepper.read(values)
        total, stops = self.world.sums(measured.loss, asked.is_set())
        rate = learning_rate(self.step, self.plan.scale, self.plan.steps)
        line = self._line(measured, total / self.world.size, rate)
        if not self._usable(line):
            self._stop(line, taken)
        self.stepper.update(rate)
        self.step, self.samples = line["step"], line["samples"]
        # Beside a GPU, what fetching takes longer than computing; else all of it.
        waited = got - begin + (max(0.0, fetched - got - measured.busy) if measured.busy else 0.0)
        timing = self.pace.add(self.plan.batch(self.step - 1), time.perf_counter() - begin, waited)
        if self.journal is not None:
            self.journal.write({**line, **timing})
        self._save_if_due(taken, stop=bool(stops))
        return total / self.world.size, bool(stops)

    def _line(self, measured: Measured, loss: float, rate: float) -> dict[str, Any]:
        line = {
            "step": self.step + 1,
            "samples": self.samples + self.plan.batch(self.step),
            "loss": loss,
            "lr": rate,
            "scale": measured.scale,
        }
        if measured.bias is not None:
            line["bias"] = measured.bias
        return {**line, "grad_norm": measured.grad_norm}

    def _usable(self, line: dict[str, Any]) -> bool:
        # fp16 overflows now and then; the scaler then leaves the step out, and lowers its factor.
        if self.plan.precision == "amp":
            line["grad_norm"] = finite(line["grad_norm"])
        return all(finite(line[name]) is not None for name in ("loss", "grad_norm") if line[name] is not None)

    def _stop(self, line: dict[str, Any], taken: Taken) -> None:
        named = [uid for part in self.world.gather(list(taken.batch.uids)) for uid in part]
        where = TrainingRun(self.config.output).bad_batch
        if self.journal is not None:
            self.journal.write({k: finite(v) for k, v in line.items()})
            store.write_json(where, {**{k: str(v) for k, v in line.items()}, "uids": named})
        self.world.told(None)  # that the file is there
        what = "loss" if finite(line["loss"]) is None else "grad_norm"
        raise WorkFailed(
            f"the {what.replace('grad_norm', 'gradient')} is {line[what]} at step {line['step']} (logit scale "
            f"{line['scale']:.4g}, learning rate {line['lr']:.4g}); the batch's uids are in {where}\n"
            "  → try a lower --learning-rate or another --precision"
        )

    def _save_if_due(self, taken: Taken, *, stop: bool) -> None:
        every, scale, step = self.config.checkpoint_every, self.plan.scale, self.step
        mark = checkpoint.due(self.samples, self.plan.batch(step - 1), scale.samples_seen, scale.checkpoints)
        whole = step in self.whole
        if not (mark or whole or stop or (every and step % every == 0)):
            return
        ranks = self.world.gather(checkpoint.of_process(taken.feed))
        if self.journal is None:
            return
        out, held = TrainingRun(self.config.output), self.stepper
        weights, optimizer = held.net.state_dict(), held.optimizer.state_dict()
        state = State(step, self.samples, self.data, weights, optimizer, held.scaler.state_dict(), ranks)
        if mark or whole:
            checkpoint.save(out.checkpoint_at(step), state, whole=whole)
        self.journal.flush()
        checkpoint.save(out.checkpoint, state, whole=True)

    def _interrupted(self) -> None:
        self.world.told(None)  # that rank 0 has saved
        said = f"train: interrupted and saved after step {self.step} of {self.plan.steps}; the same command goes on"
        Progress.note(said, quiet=self.config.quiet)
        raise KeyboardInterrupt

    def _open_journal(self) -> Journal:
        settings = {**asdict(self.plan.scale), "seed": self.plan.seed, "processes": self.world.size}
        run = digest_of([self.config.output, settings])[:16]
        return Journal(self.config.output, self.step, wandb=self.config.wandb, config=settings, run=run)


def _shards(config: TrainConfig) -> tuple[dict[str, float], str]:
    found = weigh_shards(config.data, config.weights)
    return found, digest_of([store.digest(path) for path in found])


def _branch(plan: Plan, start: int) -> Plan:
    """The plan of a run that leaves another after `start` steps, to cool down."""
    if not plan.scale.cooldown_steps:
        what = f"scale {plan.scale.name} has no cooldown"
        raise InputError(what, where="--cooldown-from", expected="a scale with one, such as siglip")
    samples = branch_end(start, plan.scale) * plan.scale.batch_size
    return replace(plan, scale=replace(plan.scale, samples_seen=samples), changed=tuple({*plan.changed, "samples_seen"}))


def _feed(begin: _Begin, decoder: Decoder) -> Feed:
    config, plan, world = begin.config, begin.plan, begin.world
    workers = config.workers
    if workers is None:
        workers = 0 if plan.device == "cpu" else min(8, engine.default_workers())
    return open_feed(
        begin.found,
        begin.listed,
        seed=plan.seed,
        decoder=decoder,
        workers=workers,
        max_failed=config.max_failed,
        sampling=plan.scale.sampling,
        captions=plan.scale.captions,
        rank=world.rank,
        world=world.size,
        start=None if begin.state is None else FeedState(**begin.state.ranks[world.rank]["feed"]),
        ahead=world.part(plan.batch(0)),
        pin=plan.device == "cuda",
    )
