"""Runs of the trainer: how they stop, go on, tell, and differ from the recipe."""

from __future__ import annotations

import importlib
import json
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import open_clip
import pytest
import torch
import yaml
from torch import Tensor

from baselines.train.config import TrainConfig, resolve
from baselines.train.loop import train
from baselines.train.metrics import TIMING, Journal
from baselines.train.step import Placed, Stepper
from pipeline.cli import main
from pools import scales, store
from pools.errors import InputError
from pools.scales import Scale, get_scale
from tests.baselines.conftest import sample, uid, write_shard, write_shards

ROOT = Path(__file__).resolve().parent.parent.parent
STEPS = 10


@pytest.fixture(scope="module")
def forty(tmp_path_factory: pytest.TempPathFactory) -> str:
    """40 samples in 2 shards: a pass is over within a run of 10 steps."""
    return write_shards(tmp_path_factory.mktemp("forty") / "shards", list(range(40)))


def config(data: str, output: Path | str, **options: Any) -> TrainConfig:
    """10 steps of 5 samples of the smallest model; the state is saved every third step."""
    settings: dict[str, Any] = {
        **{"scale": "tiny", "model": "winnow-vit-tiny", "batch_size": 5, "steps": STEPS, "warmup_steps": 4},
        **{"checkpoint_every": 3, "quiet": True},
    }
    return TrainConfig(data=data, output=str(output), **{**settings, **options})


@pytest.fixture(scope="module")
def straight(forty: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("straight") / "run"
    train(config(forty, output))
    return output


def lines(run: Path, *, timing: bool = False) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return found if timing else [{k: v for k, v in line.items() if k not in TIMING} for line in found]


def state(run: Path, name: str = "latest.pt") -> dict[str, Any]:
    held: dict[str, Any] = torch.load(run / "checkpoints" / name, weights_only=True)
    return held


def assert_same(one: Path, other: Path) -> None:
    """To the bit: the lines, the weights, the state behind them, and the account."""
    assert lines(one) == lines(other)
    a, b = state(one), state(other)
    assert a.keys() == b.keys() and (a["step"], a["samples"]) == (b["step"], b["samples"])
    assert all(torch.equal(a["state_dict"][k], b["state_dict"][k]) for k in a["state_dict"])
    assert repr(a["optimizer"]) == repr(b["optimizer"]) and repr(a["ranks"]) == repr(b["ranks"])
    assert json.loads((one / "_manifest.json").read_text()) == json.loads((other / "_manifest.json").read_text())


def assert_shown_once(run: Path) -> None:
    """TensorBoard shows the figures of the lines."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    shown = EventAccumulator(str(run / "tensorboard")).Reload()
    for name in ("loss", "lr", "scale", "grad_norm"):
        events = shown.Scalars(f"train/{name}")
        assert [e.step for e in events] == list(range(1, STEPS + 1))
        assert [e.value for e in events] == pytest.approx([line[name] for line in lines(run)], rel=1e-6)
    assert shown.Tags()["scalars"].count("train/data_wait") == 1


# Stopping and going on --------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _heard() -> Iterator[None]:
    """Ctrl-C is heard, also where the tests run in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupt_at(monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    """Ctrl-C while a step is computed."""
    gradients, done = Stepper.gradients, []

    def interrupted(self: Stepper, batch: Placed, parts: int) -> Tensor:
        done.append(parts)
        if len(done) == step:
            signal.raise_signal(signal.SIGINT)
        return gradients(self, batch, parts)

    monkeypatch.setattr(Stepper, "gradients", interrupted)


def test_ctrl_c_saves_and_the_same_command_goes_on(
    forty: str, straight: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:  # T102
    with monkeypatch.context() as patch:
        interrupt_at(patch, 5)
        with pytest.raises(KeyboardInterrupt):
            train(config(forty, tmp_path / "run", quiet=False))
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert "interrupted and saved after step 5 of 10; the same command goes on" in capsys.readouterr().err
    assert state(tmp_path / "run")["step"] == len(lines(tmp_path / "run")) == 5
    assert not (tmp_path / "run" / "_manifest.json").exists()
    train(config(forty, tmp_path / "run", quiet=False))
    assert "goes on after step 5" in capsys.readouterr().err
    assert_same(tmp_path / "run", straight)
    assert [line["lr"] for line in lines(straight)][:4] == pytest.approx([2.5e-4, 5e-4, 7.5e-4, 1e-3])


def killed(data: str, output: Path, moment: Callable[[], None]) -> None:
    """A run in a process of its own that `moment` has taught when to kill itself."""

    def begin() -> None:
        moment()
        train(config(data, output))

    process = multiprocessing.get_context("fork").Process(target=begin)
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL


def _before_rename(name: str, count: int) -> None:
    """… when a file of that name is written for the n-th time, and is not yet in its place."""
    rename, seen = os.replace, []

    def replaced(source: str, target: str) -> None:
        seen.append(target.endswith(name))
        if sum(seen) == count and seen[-1]:
            os.kill(os.getpid(), signal.SIGKILL)
        rename(source, target)

    os.replace = replaced  # type: ignore[assignment]


def _after_line(count: int) -> None:
    """… when it has written so many lines of figures."""
    write, seen = Journal.write, []

    def written(self: Journal, line: dict[str, Any]) -> None:
        write(self, line)
        seen.append(line)
        if len(seen) == count:
            os.kill(os.getpid(), signal.SIGKILL)

    Journal.write = written  # type: ignore[method-assign, assignment]


@pytest.mark.parametrize(
    ("moment", "saved", "written"),
    [
        (lambda: _before_rename("latest.pt", 1), None, 3),  # it begins anew
        (lambda: _before_rename("latest.pt", 3), 6, 9),
        (lambda: _after_line(8), 6, 8),
        (lambda: _before_rename("_manifest.json", 1), 10, 10),  # only the account is missing
    ],
    ids=["first save", "third save", "between two", "at the end"],
)
def test_killed_at_any_moment_it_goes_on_as_if_nothing_had_been(
    forty: str, straight: Path, tmp_path: Path, moment: Callable[[], None], saved: int | None, written: int
) -> None:  # T102
    run = tmp_path / "run"
    killed(forty, run, moment)
    latest = run / "checkpoints" / "latest.pt"
    assert (state(run)["step"] if latest.exists() else None) == saved
    assert len(lines(run)) == written
    train(config(forty, run))
    assert_same(run, straight)
    assert not list(run.rglob("*.partial"))
    assert_shown_once(run)  # of steps that were taken twice too


def test_figures_of_a_run_that_goes_on_within_a_second_follow_those_before(tmp_path: Path) -> None:
    """Names of TensorBoard's files say the second, then the host and the process: these hosts would turn the order round."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    board, known = tmp_path / "tensorboard", set[Path]()
    for step, host in ((0, "~"), (2, "a")):
        journal = Journal(str(tmp_path), step, config={}, run="r")
        for s in range(step + 1, step + 4):
            journal.write({"step": s, "loss": 10 * step + s})
        journal.close()
        (made,) = set(board.iterdir()) - known
        known.add(made.rename(board / f"{made.name[: len('events.out.tfevents.0000000000')]}.{host}"))
    shown = EventAccumulator(str(board)).Reload().Scalars("train/loss")
    assert [(e.step, e.value) for e in shown] == [(1, 1), (2, 2), (3, 23), (4, 24), (5, 25)]


def test_a_folder_of_another_configuration_is_refused_or_replaced(forty: str, straight: Path, tmp_path: Path) -> None:
    killed(forty, tmp_path / "run", lambda: _after_line(4))
    for other, said in (
        ({"batch_size": 4}, "its batch_size is 5, here 4"),
        ({"sampling": "replacement"}, "its sampling is 'passes', here 'replacement'"),
        ({"weights": [2.0]}, r"its weights is None, here \[2.0\]"),
    ):
        with pytest.raises(InputError, match=said):
            train(config(forty, tmp_path / "run", **other))
    assert state(tmp_path / "run")["step"] == 3 and len(lines(tmp_path / "run")) == 4
    latest = tmp_path / "run" / "checkpoints" / "latest.pt"
    latest.write_bytes(latest.read_bytes()[:5000])
    with pytest.raises(InputError, match=r"latest\.pt: cannot be read as a checkpoint(.|\n)*--overwrite"):
        train(config(forty, tmp_path / "run"))
    train(config(forty, tmp_path / "run", overwrite=True))
    assert_same(tmp_path / "run", straight)


def test_a_store_that_cannot_append_gets_the_lines_with_the_checkpoints(forty: str, straight: Path) -> None:
    train(config(forty, "memory://winnow-runs/run"))
    written = [json.loads(line) for line in store.read_lines("memory://winnow-runs/run/metrics.jsonl")]
    assert [{k: v for k, v in line.items() if k not in TIMING} for line in written] == lines(straight)
    assert not store.exists("memory://winnow-runs/run/tensorboard")


# What is told -----------------------------------------------------------------------------------------------------------


def test_a_line_a_step_says_what_the_training_does(straight: Path) -> None:
    found = lines(straight, timing=True)
    assert [line["step"] for line in found] == list(range(1, STEPS + 1))
    keys = ["step", "samples", "loss", "lr", "scale", "grad_norm", "samples_per_s", "data_wait"]
    assert all(list(line) == keys for line in found)
    assert found[0]["scale"] == pytest.approx(1 / 0.07) and found[0]["loss"] == pytest.approx(1.609, abs=0.3)  # ln 5
    assert all(line["grad_norm"] > 0 and line["samples_per_s"] > 0 and 0 <= line["data_wait"] <= 1 for line in found)
    assert sorted(p.name for p in (straight / "checkpoints").iterdir()) == ["latest.pt", "step_10.pt"]
    assert state(straight, "step_10.pt").keys() == {"step", "samples", "state_dict"}


WANDB = """
import json
class Run:
    def log(self, values, step): note("log", step, sorted(values))
    def finish(self): note("finish")
def note(*what):
    with open({path!r}, "a") as f: f.write(json.dumps(what) + "\\n")
def init(**options):
    note("init", options["project"], options["id"], options["resume"], options["config"]["batch_size"])
    return Run()
"""


def test_weights_and_biases_are_told_if_asked_for(forty: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = tmp_path / "said.jsonl"
    (tmp_path / "wandb.py").write_text(WANDB.format(path=str(said)))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "wandb", raising=False)
    with monkeypatch.context() as patch:
        interrupt_at(patch, 2)
        with pytest.raises(KeyboardInterrupt):
            train(config(forty, tmp_path / "run", wandb="winnow", steps=3))
    train(config(forty, tmp_path / "run", wandb="winnow", steps=3))
    monkeypatch.delitem(sys.modules, "wandb")
    told = [json.loads(line) for line in said.read_text().splitlines()]
    assert [t[0] for t in told] == ["init", "log", "log", "finish", "init", "log", "finish"]
    assert told[0] == told[4] and told[0][1] == "winnow" and told[0][3:] == ["allow", 5]
    assert [t[1] for t in told if t[0] == "log"] == [1, 2, 3] and "train/loss" in told[1][2]


def test_without_weights_and_biases_one_message_and_nothing_written(
    forty: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(InputError, match=r"--wandb: wandb is not installed(.|\n)*pip install wandb"):
        train(config(forty, tmp_path / "run", wandb="winnow"))
    assert not (tmp_path / "run").exists()


# How it is computed -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["softmax", "sigmoid"])
def test_parts_of_a_batch_give_what_the_whole_gives(forty: str, tmp_path: Path, loss: Any) -> None:
    for parts in (1, 3):  # of 8 samples: 3, 3, 2
        options: dict[str, Any] = {"loss": loss, "batch_size": 8, "steps": 3, "grad_clip": 1.0}
        train(config(forty, tmp_path / str(parts), accumulate=parts, **options))
    whole, parted = lines(tmp_path / "1"), lines(tmp_path / "3")
    assert ("bias" in whole[0]) == (loss == "sigmoid")
    for a, b in zip(whole, parted, strict=True):
        assert a == pytest.approx({**b, "grad_norm": a["grad_norm"]}, rel=1e-6, abs=1e-6)
        assert a["grad_norm"] == pytest.approx(b["grad_norm"], rel=1e-5)
    a, b = state(tmp_path / "1")["state_dict"], state(tmp_path / "3")["state_dict"]
    # Adam divides by how large gradients were: where they are next to nothing, rounding shows.
    assert all(torch.allclose(a[k], b[k], atol=1e-4) for k in a)
    assert torch.allclose(a["logit_scale"], b["logit_scale"], atol=1e-6)


def test_the_norm_of_the_gradient_is_told_before_it_is_clipped(forty: str, straight: Path, tmp_path: Path) -> None:
    train(config(forty, tmp_path / "run", grad_clip=1e-6, steps=2))  # eps of Adam is as large
    free, clipped = lines(straight), lines(tmp_path / "run")
    assert clipped[0] == free[0] and clipped[0]["grad_norm"] > 1
    assert abs(clipped[1]["scale"] - clipped[0]["scale"]) < abs(free[1]["scale"] - free[0]["scale"]) / 2


def test_a_run_with_a_bias_is_open_clips_as_well(forty: str, tmp_path: Path) -> None:  # T103
    train(config(forty, tmp_path / "run", loss="sigmoid", steps=2))
    open_clip.add_model_config(tmp_path / "run" / "model_config.json")
    model, _, _ = open_clip.create_model_and_transforms(
        "model_config", pretrained=str(tmp_path / "run" / "checkpoints" / "latest.pt")
    )
    held = state(tmp_path / "run")["state_dict"]
    assert all(torch.equal(value, held[key]) for key, value in model.state_dict().items())
    assert lines(tmp_path / "run")[0]["bias"] == -10 and held["logit_bias"] != -10


@pytest.mark.slow
@pytest.mark.timeout(1200)  # a C++ compiler works for minutes
def test_a_compiled_model_learns_the_same(forty: str, straight: Path, tmp_path: Path) -> None:
    train(config(forty, tmp_path / "run", compile=True))
    for a, b in zip(lines(straight), lines(tmp_path / "run"), strict=True):
        assert a["loss"] == pytest.approx(b["loss"], rel=1e-3)
    assert state(tmp_path / "run")["state_dict"].keys() == state(straight)["state_dict"].keys()


# What departs from the recipe -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("own", "name"),
    [
        ({"loss": "sigmoid"}, "loss"),
        ({"optimizer": "lamb"}, "optimizer"),
        ({"grad_clip": 1.0}, "grad_clip"),
        ({"captions": "title"}, "captions"),
        ({"model": "ViT-B-16"}, "model"),
        ({"batch_size": 8192}, "batch_size"),
        ({"learning_rate": 1e-3}, "learning_rate"),
    ],
)
def test_own_choices_make_a_run_not_comparable(own: dict[str, Any], name: str) -> None:
    plan = resolve(TrainConfig(data="d", output="o", scale="small", **own), cuda=True)
    assert plan.changed == (name,) and not plan.comparable


def test_what_a_scale_says_itself_and_how_it_is_computed_change_nothing() -> None:
    base = get_scale("small")
    sampling: Any = "replacement" if base.sampling == "passes" else "passes"
    assert resolve(TrainConfig(data="d", output="o", scale="small", sampling=sampling), cuda=True).changed == ("sampling",)
    same: dict[str, Any] = {"loss": base.loss, "sampling": base.sampling, "batch_size": 4096, "model": "ViT-B-32"}
    how: dict[str, Any] = {"accumulate": 4, "compile": True, "precision": "amp_bf16", "workers": 3, "checkpoint_every": 7}
    data: dict[str, Any] = {"data": ["a", "b"], "weights": [1, 2.5], "uids": "list.npy"}  # BYOD: the data are free
    plan = resolve(TrainConfig(output="o", scale="small", **data, **same, **how), cuda=True)
    assert plan.comparable and plan.precision == "amp_bf16"


@pytest.mark.parametrize("wrong", [{"accumulate": 0}, {"checkpoint_every": -1}, {"grad_clip": -1.0}, {"loss": "triplet"}])
def test_bad_choices_are_refused_where_they_are_given(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=f"--{next(iter(wrong)).replace('_', '-')}(.|\n)*expected"):
        TrainConfig(data="d", output="o", scale="tiny", **wrong)


@pytest.fixture
def cooling(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scale]:
    """A small scale of siglip's kind: 8 steps, a state kept after step 3, from which three steps cool down."""
    small: dict[str, Any] = {"samples_seen": 40, "batch_size": 5, "warmup_steps": 2, "cooldown_steps": 3, "cooled": (75,)}
    scale = replace(get_scale("siglip"), name="cooling", model="winnow-vit-tiny", checkpoints=2, captions="alt", **small)
    known = {**scales.load_scales(), "cooling": scale}
    monkeypatch.setattr(scales, "load_scales", lambda: known)
    yield scale


def test_a_branch_leaves_a_run_and_cools_down(cooling: Scale, forty: str, tmp_path: Path) -> None:
    main_run = TrainConfig(data=forty, output=str(tmp_path / "run"), scale="cooling", quiet=True)
    train(main_run)
    kept = tmp_path / "run" / "checkpoints" / "step_3.pt"
    assert sorted(p.name for p in kept.parent.iterdir()) == ["latest.pt", "step_3.pt", "step_4.pt", "step_8.pt"]
    branch = replace(main_run, output=str(tmp_path / "branch"), cooldown_from=str(kept))
    train(branch)
    told, before = lines(tmp_path / "branch"), lines(tmp_path / "run")
    assert [line["step"] for line in told] == [4, 5, 6] and told[-1]["samples"] == 30
    assert told[0]["loss"] == before[3]["loss"]  # the very next batch, with the very weights
    peak = 1e-3 * 2**0.5  # falls with the root of the step from the end of the warmup
    assert [line["lr"] for line in told] == pytest.approx([peak / 4**0.5, peak / 5**0.5 * 2 / 3, peak / 6**0.5 / 3])
    config_ = yaml.safe_load((tmp_path / "branch" / "config.yaml").read_text())
    assert config_["cooldown_from"] == str(kept) and "samples_seen" in config_["changed"]
    with pytest.raises(InputError, match=r"step_4\.pt: not the whole state of a training"):
        train(replace(branch, output=str(tmp_path / "no"), cooldown_from=str(kept.with_name("step_4.pt"))))
    other = write_shards(tmp_path / "other", list(range(40)))
    with pytest.raises(InputError, match=r"step_3\.pt: of a run on other shards"):
        train(replace(branch, data=other, output=str(tmp_path / "no")))
    with pytest.raises(InputError, match="scale tiny has no cooldown"):
        train(config(forty, tmp_path / "no", cooldown_from=str(kept)))
    assert not (tmp_path / "no").exists()


# The command ------------------------------------------------------------------------------------------------------------


def winnow(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["winnow", *arguments])
    with pytest.raises(SystemExit) as stop:
        main()
    return int(stop.value.code or 0)


def test_every_option_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    for name, numbers in (("a", range(20)), ("b", range(20, 30))):
        members = {uid(i): sample(i) for i in numbers}
        for i in numbers:
            members[uid(i)]["json"] = json.dumps({"uid": uid(i), "page_title": "a title"}).encode()
        write_shard(tmp_path / name / "0.tar", members)
    command = "train --data a --data b --weights 1,2.5 --sampling passes --captions both --loss sigmoid --optimizer lamb"
    command += " --model winnow-vit-tiny --scale tiny --batch-size 10 --steps 9 --warmup-steps 2 --learning-rate 1e-3"
    command += " --accumulate 2 --grad-clip 1 --checkpoint-every 4 --max-failed 0.2 --seed 3 --workers 0 --device cpu"
    command += " --precision amp --output run"
    assert winnow(monkeypatch, *command.split(), "--json") == 0
    said = capsys.readouterr()
    told = json.loads(said.out)
    assert told["counts"]["kept"] == 90 and told["counts"]["unique"] == 30  # two passes of 20 + 25
    settled = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())
    assert settled["data"] == ["a", "b"] and settled["weights"] == [1.0, 2.5] and settled["accumulate"] == 2
    own = ["samples_seen", "batch_size", "learning_rate", "warmup_steps", "model", "loss", "optimizer", "grad_clip", "captions"]
    assert sorted(settled["changed"]) == sorted(set(own) - {"learning_rate"})  # 1e-3 is the scale's own
    manifest = json.loads((tmp_path / "run" / "_manifest.json").read_text())
    assert manifest["comparable"] is False and manifest["processes"] == 1
    assert manifest["options"]["weights"] == [1.0, 2.5] and manifest["options"]["captions"] == "both"
    assert "computed in 2 parts" in said.err and "not comparable with other runs of scale tiny: own" in said.err
    assert winnow(monkeypatch, *command.split(), "--weights", "1;2") == 2
    assert "--weights: '1;2'; expected numbers with commas between them" in capsys.readouterr().err


def test_a_model_of_ones_own_is_a_config_file(forty: str, tmp_path: Path) -> None:
    own = json.loads((ROOT / "baselines/train/models/winnow-vit-tiny.json").read_text())
    own["embed_dim"] = 24
    (tmp_path / "mine.json").write_text(json.dumps(own))
    train(config(forty, tmp_path / "run", model=str(tmp_path / "mine.json"), steps=1))
    assert state(tmp_path / "run")["state_dict"]["text_projection"].shape == (32, 24)
    (tmp_path / "mine.json").write_text(json.dumps({**own, "embed_dim": 16}))
    with pytest.raises(InputError, match="its model is"):
        train(config(forty, tmp_path / "run", model=str(tmp_path / "mine.json"), steps=1))
    with pytest.raises(InputError, match=r"none\.json: no such file"):
        train(config(forty, tmp_path / "run", model=str(tmp_path / "none.json"), steps=1))


def test_training_needs_neither_img2dataset_nor_pyspark(forty: str, tmp_path: Path) -> None:
    ours = ("baselines", "filters", "pipeline", "pools")

    def begin() -> None:
        for name in list(sys.modules):  # nothing of ours has been imported, and nothing finds these
            if name.split(".")[0] in ours:
                del sys.modules[name]
            elif name.split(".")[0] in ("img2dataset", "pyspark", "wandb"):
                sys.modules[name] = None  # type: ignore[assignment]
        sys.modules |= dict.fromkeys(("img2dataset", "pyspark", "wandb"))  # type: ignore[arg-type]
        options = ["--model", "winnow-vit-tiny", "--samples", "4", "--batch-size", "4", "--quiet"]
        sys.argv = ["winnow", "train", "--data", forty, "--output", str(tmp_path / "run"), *options]
        importlib.import_module("pipeline.cli").main()

    process = multiprocessing.get_context("fork").Process(target=begin)
    process.start()
    process.join(60)
    assert process.exitcode == 0 and (tmp_path / "run" / "_manifest.json").exists()


@pytest.mark.slow
def test_a_fresh_process_trains_without_a_word(forty: str, tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "for name in ('img2dataset', 'pyspark', 'wandb'): sys.modules[name] = None\n"
        f"sys.argv = ['winnow', 'train', '--data', {forty!r}, '--output', {str(tmp_path / 'run')!r}, '--quiet',\n"
        "    '--model', 'winnow-vit-tiny', '--samples', '4', '--batch-size', '4']\n"
        "from pipeline.cli import main\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, timeout=200)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
