"""Several processes that train one model, over gloo on this machine: the same losses, no sample twice, one message, no hang."""

from __future__ import annotations

import json
import multiprocessing
import os
import runpy
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

import pytest
import torch

from baselines.train.config import resolve
from baselines.train.distributed import World, joined
from baselines.train.feed import Batch, Feed
from baselines.train.loop import train
from pools.errors import InputError
from tests.baselines.conftest import write_shards
from tests.baselines.test_train_runs import ROOT, assert_same, config, lines, state

LIMIT = 60  # seconds that a run may take
SLOW_LIMIT = 250  # where workers load PyTorch, on a busy machine


def _nothing(rank: int) -> None:
    pass


@dataclass(frozen=True)
class Ended:
    status: int
    out: str
    err: str


def together(
    folder: Path, *arguments: str, size: int = 2, before: Callable[[int], None] = _nothing, limit: int = LIMIT
) -> list[Ended]:
    """`python -m baselines.train ARGUMENTS` in so many processes, as `torchrun` starts them; `before` may spoil one.

    They are forked, since each would need seconds to load PyTorch.
    """
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    said = folder / f"said-{port}"
    said.mkdir(parents=True)

    def work(rank: int) -> None:
        sys.stdout = sys.__stdout__ = (said / f"{rank}.out").open("w")  # type: ignore[misc]
        sys.stderr = sys.__stderr__ = (said / f"{rank}.err").open("w")  # type: ignore[misc]
        here = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": size, "LOCAL_WORLD_SIZE": size}
        os.environ |= {k: str(v) for k, v in here.items()} | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        signal.signal(signal.SIGINT, signal.default_int_handler)
        # A fork server that another test has started is no child of this process, which would wait for it in vain.
        forkserver.ensure_running.__self__.__init__()  # type: ignore[attr-defined]
        before(rank)
        sys.argv = ["train", *arguments]
        try:
            runpy.run_module("baselines.train", run_name="__main__")
        finally:
            sys.__stdout__.flush()
            sys.__stderr__.flush()

    processes = [multiprocessing.get_context("fork").Process(target=work, args=(r,)) for r in range(size)]
    for p in processes:
        p.start()
    last = time.monotonic() + limit
    for p in processes:
        p.join(max(0.0, last - time.monotonic()))
    hung = [p for p in processes if p.is_alive()]
    for p in hung:
        p.kill()
        p.join()
    assert not hung, [(said / f"{r}.err").read_text() for r in range(size)]
    texts = [[(said / f"{r}.{kind}").read_text() for kind in ("out", "err")] for r in range(size)]
    return [Ended(int(p.exitcode or 0), *text) for p, text in zip(processes, texts, strict=True)]


def command(data: str, output: Path, **options: Any) -> list[str]:
    """That of `config` in the tests of single runs, with batches that divide by two."""
    settings = {"scale": "tiny", "model": "winnow-vit-tiny", "batch-size": 6, "steps": 4, "warmup-steps": 2, **options}
    words = [w for k, v in settings.items() for w in (f"--{k}", str(v))]
    return ["--data", data, "--output", str(output), *words]


def alone(data: str, output: Path, **options: Any) -> Path:
    train(config(data, output, **{"batch_size": 6, "steps": 4, "warmup_steps": 2, **options}))
    return output


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    """20 samples in 5 shards, of which two make less than a batch."""
    return write_shards(tmp_path_factory.mktemp("five") / "shards", list(range(20)), size=4)


def kept_names(folder: Path) -> Callable[[int], None]:
    """Writes down which samples each rank takes."""

    def before(rank: int) -> None:
        take = Feed.take

        def taken(self: Feed, n: int) -> Batch:
            batch = take(self, n)
            with (folder / f"{rank}.uids").open("a") as f:
                f.write("".join(uid + "\n" for uid in batch.uids))
            return batch

        Feed.take = taken  # type: ignore[method-assign]

    return before


@pytest.fixture(scope="module")
def pair(data: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Ended]]:
    """A run of two processes, in whose folder's folder stands what each took."""
    folder = tmp_path_factory.mktemp("pair")
    return folder / "run", together(folder, *command(data, folder / "run"), before=kept_names(folder))


def test_two_processes_give_the_losses_of_one(data: str, pair: tuple[Path, list[Ended]], tmp_path: Path) -> None:  # T109, T110
    run, ended = pair
    assert [e.status for e in ended] == [0, 0], ended
    one = alone(data, tmp_path / "one")
    for a, b in zip(lines(one), lines(run), strict=True):
        assert a == pytest.approx({**b, "grad_norm": a["grad_norm"]}, rel=1e-6, abs=1e-6)
        assert a["grad_norm"] == pytest.approx(b["grad_norm"], rel=1e-5)
    a, b = state(one), state(run)
    assert all(torch.allclose(a["state_dict"][k], b["state_dict"][k], atol=1e-4) for k in a["state_dict"])
    assert len(b["ranks"]) == 2
    # One speaks, one is silent, and says how the batches were split.
    assert "kept                    24  100.0 %" in ended[0].out and "2 processes" in ended[0].err and "3 each" in ended[0].err
    assert (ended[1].out, ended[1].err) == ("", "")
    manifest = json.loads((run / "_manifest.json").read_text())
    assert (manifest["processes"], manifest["counts"]["kept"], manifest["counts"]["unique"]) == (2, 24, 20)
    # In the first pass of 20 no sample on both; the second began with 4.
    names = [(run.parent / f"{r}.uids").read_text().split() for r in (0, 1)]
    assert [len(n) for n in names] == [12, 12] and not set(names[0][:10]) & set(names[1][:10])
    assert sorted(Counter(names[0] + names[1]).values()) == [1] * 16 + [2] * 4


def test_two_processes_go_on_to_the_bit(data: str, pair: tuple[Path, list[Ended]], tmp_path: Path) -> None:  # T102
    def interrupted(rank: int) -> None:
        take, taken = Feed.take, []

        def asked(self: Feed, n: int) -> Batch:
            taken.append(n)
            if rank == 1 and len(taken) == 2:  # one of them is enough
                signal.raise_signal(signal.SIGINT)
            return take(self, n)

        Feed.take = asked  # type: ignore[method-assign]

    run = tmp_path / "run"
    ended = together(tmp_path, *command(data, run), before=interrupted)
    assert [e.status for e in ended] == [130, 130], ended
    assert "interrupted and saved after step 2 of 4" in ended[0].err and ended[1].err == ""
    with pytest.raises(InputError, match=r"latest\.pt: of a run with 2 processes, here 1"):
        alone(data, run)
    assert [e.status for e in together(tmp_path, *command(data, run))] == [0, 0]
    assert_same(run, pair[0])


@pytest.mark.parametrize("workers", [0, pytest.param(4, marks=pytest.mark.slow)])
def test_fewer_shards_and_samples_than_workers_and_processes(tmp_path: Path, workers: int) -> None:  # T99
    seven = write_shards(tmp_path / "seven", list(range(7)))
    words = command(seven, tmp_path / "run", workers=workers, **{"batch-size": 5, "steps": 3})
    ended = together(tmp_path, *words, limit=SLOW_LIMIT if workers else LIMIT)
    assert [e.status for e in ended] == [0, 0], ended
    assert [line["samples"] for line in lines(tmp_path / "run")] == [5, 10, 15]
    assert [r["feed"]["kept"] for r in state(tmp_path / "run")["ranks"]] == [9, 6]
    assert "3 in the first 1, 2 in the others" in ended[0].err


def test_a_batch_must_have_a_sample_for_each_process(data: str) -> None:
    plan = resolve(config(data, "run", batch_size=4, steps=None, samples=10), cuda=False)  # 4, 4, 2
    plan.check(2)
    with pytest.raises(InputError, match="a batch of 2 samples for 3 processes"):
        plan.check(3)
    assert [replace(plan, accumulate=9).parts(step, 2) for step in range(3)] == [2, 2, 1]


@pytest.mark.parametrize("failing", [1, pytest.param(0, marks=pytest.mark.slow)])
def test_what_fails_in_one_process_ends_all_with_one_message(data: str, tmp_path: Path, failing: int) -> None:
    def broken(rank: int) -> None:
        take, taken = Feed.take, []

        def fail(self: Feed, n: int) -> Batch:
            taken.append(n)
            if rank == failing and len(taken) == 3:
                raise InputError("this source is at fault", where="a shard")
            return take(self, n)

        Feed.take = fail  # type: ignore[method-assign]

    ended = together(tmp_path, *command(data, tmp_path / "run"), "--quiet", before=broken)
    assert ended[failing] == Ended(2, "", "winnow: a shard: this source is at fault\n"), ended
    assert ended[1 - failing].status != 0 and ended[1 - failing].err == "", ended
    assert not (tmp_path / "run" / "_manifest.json").exists()


def test_a_process_that_is_killed_ends_the_others(data: str, tmp_path: Path) -> None:
    def dying(rank: int) -> None:
        take, taken = Feed.take, []

        def die(self: Feed, n: int) -> Batch:
            taken.append(n)
            if rank == 1 and len(taken) == 3:
                os.kill(os.getpid(), signal.SIGKILL)
            return take(self, n)

        Feed.take = die  # type: ignore[method-assign]

    ended = together(tmp_path, *command(data, tmp_path / "run"), "--quiet", before=dying)
    assert [e.status for e in ended] == [1, -signal.SIGKILL]
    assert ended[0].err.startswith("winnow: another of the processes has ended without a word")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (("--steps", "many"), "'many' is not a valid"),
        pytest.param(("--scale", "huge"), "unknown scale 'huge'", marks=pytest.mark.slow),
        pytest.param(("--data", "nowhere"), "nowhere: no such folder", marks=pytest.mark.slow),
    ],
)
def test_wrong_arguments_are_said_once(data: str, tmp_path: Path, wrong: tuple[str, str], said: str) -> None:
    ended = together(tmp_path, *command(data, tmp_path / "run"), *wrong)
    assert all(e.status for e in ended)
    assert "".join(e.err for e in ended).count(said) == 1 and "".join(e.out for e in ended) == ""


@pytest.mark.slow
def test_a_loss_that_is_no_number_names_the_samples_of_all(data: str, tmp_path: Path) -> None:  # T107
    options: dict[str, Any] = {"learning-rate": 1e30, "warmup-steps": 0, "batch-size": 4, "steps": 20}
    ended = together(tmp_path, *command(data, tmp_path / "run", **options), "--quiet")
    assert [e.status for e in ended] == [1, 1]
    assert sorted("the loss is nan" in e.err for e in ended) == [False, True], ended
    bad = json.loads((tmp_path / "run" / "bad_batch.json").read_text())
    assert len(set(bad["uids"])) == 4 and int(bad["step"]) == len(lines(tmp_path / "run"))


def test_shares_of_a_batch() -> None:
    assert [World(r, 4).part(10) for r in range(4)] == [3, 3, 2, 2]
    assert World().gather("x") == ["x"] and World().told("x") == "x" and World().sums(1.5, True) == [1.5, 1.0]


def test_an_environment_that_names_no_rank_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.delenv("RANK", raising=False)
    with pytest.raises(InputError, match=r"RANK is ''(.|\n)*torchrun --nproc_per_node"), joined("cpu", cuda=False):
        pass


@pytest.mark.slow
def test_torchrun_starts_ends_and_resumes_it(data: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2", "-m", "baselines.train"]

    def start(*more: str) -> subprocess.Popen[str]:
        arguments = [*launch, *command(data, run, **{"steps": 300, "checkpoint-every": 5}), *more]
        return subprocess.Popen(arguments, cwd=ROOT, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    process = start("--scale", "huge")
    assert process.communicate(timeout=200)[1].count("unknown scale") == 1 and process.returncode
    process = start()
    while not (run / "checkpoints" / "latest.pt").exists():
        assert process.poll() is None
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    assert "the same command goes on" in process.communicate(timeout=200)[1]
    at = state(run)["step"]
    assert 5 <= at < 300 and len(lines(run)) == at
    process = start()
    out, err = process.communicate(timeout=280)
    assert process.returncode == 0, err
    assert f"goes on after step {at}" in err and out.count("1,800") == 2 and len(lines(run)) == 300
