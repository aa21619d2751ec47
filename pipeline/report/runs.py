"""Training runs beside each other: loss, learning rate and speed by step, and scores with the noise between seeds."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import yaml

from pipeline.report import figures, words
from pipeline.report.page import Figure, Page, Part, Section, Table, Text
from pools import store
from pools.errors import InputError
from pools.manifest import MANIFEST, digest_of
from pools.outputs import TrainingRun

POINTS = 1000  # of a curve; of longer runs every second, fourth, … step is taken
_ROWS = 24  # of a curve's table
EVAL_MANIFEST = "eval_manifest.json"
# Fields of `metrics.jsonl`: title of the picture, of its axis, and whether that is logarithmic. Runs may lack the later ones.
CURVES = {
    "loss": ("Loss", "loss", False),
    "lr": ("Learning rate", "learning rate", False),
    "scale": ("Logit scale (1 ÷ temperature)", "logit scale", False),
    "bias": ("Logit bias", "logit bias", False),
    "grad_norm": ("Norm of the gradient", "norm", True),
    "samples_per_s": ("Speed", "samples a second", False),
    "data_wait": ("Time spent waiting for data", "share of the step", False),
}


@dataclass(frozen=True)
class Run:
    """A training run as far as it has come."""

    name: str
    folder: str
    curves: Mapping[str, tuple[list[float], list[float]]]  # of each field: samples seen, values
    last: Mapping[str, float]  # the last line
    config: Mapping[str, Any]
    choice: str  # what runs that differ in their seed alone share
    scores: Mapping[str, float]  # {task: main metric}
    chances: Mapping[str, float]
    ended: bool

    @property
    def seed(self) -> Any:
        return self.config.get("seed")


def runs_page(runs: Sequence[str]) -> Page:
    """Of the folders of runs. Raises InputError for a folder that is none."""
    found = read_runs(runs)
    names = ", ".join(run.name for run in found)
    sections = [
        Section("settings", "What was trained", tuple(_settings(found))),
        Section("curves", "How it went", tuple(_curves(found))),
        Section("scores", "Scores", tuple(_scores(found))),
    ]
    lead = f"{len(found)} training runs beside each other." if len(found) > 1 else "A training run."
    title = f"Training: {names}" if len(found) < 5 else f"{len(found)} training runs"
    return Page("runs", title, lead, [s for s in sections if s.parts])


def read_runs(folders: Sequence[str]) -> list[Run]:
    """With names that tell them apart."""
    names = [store.name(f) for f in folders]
    plain = [n if names.count(n) == 1 else "/".join(f.rstrip("/").split("/")[-2:]) for n, f in zip(names, folders, strict=True)]
    parents = [
        n if plain.count(n) == 1 else "/".join(f.rstrip("/").split("/")[-3:]) for n, f in zip(plain, folders, strict=True)
    ]
    return [_read(f, n) for f, n in zip(folders, parents, strict=True)]


def _read(folder: str, name: str) -> Run:
    run = TrainingRun(folder)
    if not store.exists(run.metrics):
        raise InputError("no training run", where=folder, expected="a folder with metrics.jsonl, as `winnow train` leaves it")
    config = yaml.safe_load(store.read_bytes(run.config)) if store.exists(run.config) else {}
    if not isinstance(config, dict):
        raise InputError("not the settings of a run", where=run.config, expected="a map")
    manifest = store.join(folder, MANIFEST)
    ended = store.exists(manifest)
    curves, last = _read_metrics(run.metrics)
    scores, chances = _read_scores(folder)
    choice = _choice(store.read_json(manifest)) if ended else folder
    return Run(name, folder, curves, last, config, choice, scores, chances, ended)


def _choice(manifest: Mapping[str, Any]) -> str:
    options = {name: value for name, value in manifest.get("options", {}).items() if name != "seed"}
    return digest_of([options, manifest.get("inputs")])


def _read_metrics(path: str) -> tuple[dict[str, tuple[list[float], list[float]]], dict[str, float]]:
    """At most `2 * POINTS` evenly spaced lines of each field, and the last; a line that is cut, as of a killed run, ends it."""
    kept: list[tuple[int, dict[str, float]]] = []
    stride, last, number = 1, None, 0
    for number, text in enumerate(store.read_lines(path)):
        try:
            line = {k: float(v) for k, v in json.loads(text).items() if isinstance(v, int | float)}
        except (ValueError, AttributeError) as e:
            if not text.endswith("}") and number:
                break
            raise InputError(f"not a step: {e}", where=f"{path}:{number + 1}", expected="JSON with step, samples, loss") from e
        last = (number, line)
        if number % stride == 0:
            kept.append(last)
            if len(kept) > 2 * POINTS:
                stride *= 2
                kept = [point for point in kept if point[0] % stride == 0]
    if last is not None and kept[-1] != last:
        kept.append(last)
    curves: dict[str, tuple[list[float], list[float]]] = {}
    for _, line in kept:
        for name in CURVES:
            if name in line:
                xs, ys = curves.setdefault(name, ([], []))
                xs.append(line.get("samples", line.get("step", 0.0)))
                ys.append(line[name])
    return curves, last[1] if last is not None else {}


def _read_scores(folder: str) -> tuple[dict[str, float], dict[str, float]]:
    """Main metrics, and what guessing gives; nothing of a run that was not scored."""
    path, manifest = TrainingRun(folder).results, store.join(folder, EVAL_MANIFEST)
    scores, chances = {}, {}
    if store.exists(path):
        scores = read_results(path)
    if store.exists(manifest):
        tasks = store.read_json(manifest).get("tasks", {})
        chances = {key: float(t["chance"]) for key, t in tasks.items() if isinstance(t.get("chance"), int | float)}
    return scores, chances


def read_results(path: str) -> dict[str, float]:
    """{task: main metric} of a file in DataComp's form; tasks without one are left out."""
    scores = {}
    for number, text in enumerate(store.read_lines(path), 1):
        if not text.strip():
            continue
        try:
            line = json.loads(text)
            value = line["metrics"].get("main_metric")
            key = str(line.get("key") or line["dataset"])
        except (ValueError, KeyError, TypeError, AttributeError) as e:
            raise InputError(f"not a result: {e!r}", where=f"{path}:{number}", expected='{"key": …, "metrics": {…}}') from e
        if isinstance(value, int | float) and math.isfinite(value):
            scores[key] = float(value)
    return scores


_SETTINGS = (
    "samples_seen",
    "model",
    "batch_size",
    "learning_rate",
    "warmup_steps",
    "loss",
    "optimizer",
    "schedule",
    "sampling",
)


def _settings(runs: Sequence[Run]) -> Iterator[Part]:
    rows: list[tuple[str | int | float | None, ...]] = []
    for name in ("scale", *_SETTINGS, "seed", "device", "precision", "steps", "comparable", "changed"):
        values = [_setting(run, name) for run in runs]
        if any(v is not None for v in values):
            rows.append((name.replace("_", " "), *values))
    different = frozenset(i for i, row in enumerate(rows) if len({str(v) for v in row[1:]}) > 1)
    for name, title in (("step", "steps so far"), ("samples", "samples seen"), ("loss", "last loss")):
        rows.append((title, *(_plain(run.last.get(name)) for run in runs)))
    rows.append(("ended", *("yes" if run.ended else "no" for run in runs)))
    yield Table("Settings; marked where runs differ", ("", *(run.name for run in runs)), rows, different)
    if own := [run.name for run in runs if run.config.get("comparable") is False]:
        yield Text((f"Not comparable with other runs of the benchmark: {', '.join(own)}.",))


def _setting(run: Run, name: str) -> str | int | float | None:
    scale = run.config.get("scale")
    inner = scale if isinstance(scale, dict) else {}
    value = inner.get("name") if name == "scale" else inner.get(name) if name in inner else run.config.get(name)
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "nothing"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, int | float) or value is None else words.cut(str(value))


def _plain(value: float | None) -> int | float | None:
    if value is None or not math.isfinite(value):
        return None
    return int(value) if value.is_integer() else round(value, 6)


def _curves(runs: Sequence[Run]) -> Iterator[Part]:
    for name, (title, label, log) in CURVES.items():
        series = [(run.name, *run.curves[name]) for run in runs if name in run.curves]
        finite = [(who, xs, ys) for who, xs, ys in series if any(map(math.isfinite, ys))]
        if not finite or (name in ("scale", "bias") and all(len(set(ys)) < 2 for _, _, ys in finite)):
            continue
        told = "; ".join(
            f"{who} from {ys[0]:.4g} to {ys[-1]:.4g}, least {min(filter(math.isfinite, ys)):.4g}, over {xs[-1]:,.0f} samples"
            for who, xs, ys in finite
        )
        alt = f"{title} by samples seen: {told}."
        log = log and all(y > 0 for _, _, ys in finite for y in ys if math.isfinite(y))
        table = Table(title, ("run", "samples", label), [row for one in finite for row in _sampled(*one)])
        yield figures.curves(f"run-{words.slug(name)}", title, alt, table, finite, x="samples seen", y=label, log=log)


def _sampled(
    who: str, xs: Sequence[float], ys: Sequence[float]
) -> Iterator[tuple[str, int | float | None, int | float | None]]:
    """Some points of a curve, the first and the last among them."""
    last = len(xs) - 1
    number = min(_ROWS, len(xs))
    for i in dict.fromkeys(round(n * last / max(1, number - 1)) for n in range(number)):
        yield who, _plain(xs[i]), _plain(ys[i])


@dataclass(frozen=True)
class Choice:
    """Runs that differ in their seed alone."""

    name: str
    runs: tuple[Run, ...]

    def values(self, task: str) -> list[float]:
        return [run.scores[task] for run in self.runs if task in run.scores]


def choices(runs: Sequence[Run]) -> list[Choice]:
    """Runs whose manifests say the same but for the seed, or whose folders have the same name and other seeds, are one."""
    found: list[list[Run]] = []
    for run in runs:
        for group in found:
            seeds = [other.seed for other in group]
            same = run.choice == group[0].choice or store.name(run.folder) == store.name(group[0].folder)
            if same and run.seed is not None and run.seed not in seeds:
                group.append(run)
                break
        else:
            found.append([run])
    return [Choice(g[0].name if len(g) == 1 else f"{store.name(g[0].folder)} ({len(g)} seeds)", tuple(g)) for g in found]


def _scores(runs: Sequence[Run]) -> Iterator[Part]:
    scored = [run for run in runs if run.scores]
    if not scored:
        yield Text(("Not scored yet: `winnow score RUN --evals DIR` does that.",))
        return
    every = choices(scored)
    tasks = list(dict.fromkeys(task for run in scored for task in run.scores))
    common = [t for t in tasks if all(t in run.scores for run in scored)]
    bands = {task: band(every, task) for task in tasks}
    seeds = any(len(c.runs) > 1 for c in every)
    yield Text((_noise(every, seeds),))
    if common:
        yield _means(every, common)
    yield _by_task(every, tasks, bands, scored)


def band(every: Sequence[Choice], task: str) -> float | None:
    """The widest range of a task's score over the seeds of one choice; None where no choice has two."""
    spans = [max(values) - min(values) for c in every if len(values := c.values(task)) > 1]
    return max(spans) if spans else None


def _noise(every: Sequence[Choice], seeds: bool) -> str:
    if len(every) == 1 and not seeds:
        return "One run: what its scores are worth is seen beside others. Upright strokes are what guessing gives."
    if seeds:
        return (
            "The noise of a task is the widest range of its scores over the seeds of one choice, of those shown here; whiskers "
            "are the range of each. Two choices that differ by less than the noise are not told apart."
        )
    return "One seed each: how much of a difference is noise cannot be told from these runs."


def _means(every: Sequence[Choice], common: Sequence[str]) -> Table:
    rows = []
    for choice in every:
        means = [fmean(run.scores[t] for t in common) for run in choice.runs]
        rows.append((choice.name, len(means), round(fmean(means), 6), round(min(means), 6), round(max(means), 6)))
    rows.sort(key=lambda row: (-row[2], row[0]))
    caption = f"Mean of the main metrics of the {len(common)} tasks that all runs have"
    return Table(caption, ("", "seeds", "mean", "least", "greatest"), rows)


def _by_task(every: Sequence[Choice], tasks: Sequence[str], bands: Mapping[str, float | None], runs: Sequence[Run]) -> Figure:
    chances = {task: chance for run in runs for task, chance in run.chances.items()}
    rows, marks = [], set()
    for i, task in enumerate(tasks):
        means = [fmean(values) if (values := c.values(task)) else None for c in every]
        there = sorted((m for m in means if m is not None), reverse=True)
        noise = bands[task]
        if noise is not None and len(there) > 1 and there[0] - there[1] <= noise:
            marks.add(i)
        shown = [None if m is None else round(m, 6) for m in means]
        chance = chances.get(task)
        rows.append((task, *shown, None if chance is None else round(chance, 6), None if noise is None else round(noise, 6)))
    caption = "Main metric of each task" + ("; marked where the best is within the noise of the next" if marks else "")
    table = Table(caption, ("task", *(c.name for c in every), "guessing", "noise"), rows, frozenset(marks))
    series, errors = [], []
    for c in every:
        found = [c.values(task) for task in tasks]
        heights = [fmean(v) if v else 0.0 for v in found]
        series.append((c.name, heights))
        reach = [(m - min(v), max(v) - m) if v else (0.0, 0.0) for m, v in zip(heights, found, strict=True)]
        errors.append(reach if len(c.runs) > 1 else [])
    best = ", ".join(f"{c.name} {fmean(scores):.4f} on average" for c, (_, scores) in zip(every, series, strict=True))
    alt = f"Bars of {len(tasks)} scores of {len(every)} choices: {best}."
    return figures.bars(
        "run-scores",
        "Scores by task",
        alt,
        table,
        tasks,
        series,
        label="main metric",
        errors=errors,
        strokes=[chances.get(task) for task in tasks],
        compared=False,
    )
