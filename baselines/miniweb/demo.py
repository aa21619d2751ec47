"""The whole experiment on a made-up web: from its crawl to the score of a model, without the network."""

from __future__ import annotations

import contextlib
import os
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pyarrow.parquet as pq

from baselines.miniweb.web import MiniWeb, build
from pipeline.engine import Options
from pools import store, uids
from pools.manifest import Outcome

RECIPE = Path(__file__).with_name("recipe.yaml")
NAME = "demo"  # of the scores, as the recipe calls them
SCALE = "tiny"
DEVICE: Literal["cpu"] = "cpu"  # the models are small, and give the same numbers on every machine of a kind
SHARD_SIZE = 250  # candidates
# The scorer stops early: later it knows mismatched captions by heart, and scores them like the others.
SCORER_SAMPLES = 4000


def demo(folder: str, *, pictures: int = 500, seed: int = 0, overwrite: bool = False, quiet: bool = False) -> float:
    """Builds a web in `folder`, runs every stage on it, and returns the zero-shot accuracy on held-out pictures (0 to 1).

    Two models are trained: a scorer on all that was downloaded, whose scores the recipe reads, and the one that counts on
    what the recipe keeps. A rerun does only what is missing. Raises InputError if `folder` holds another demo.
    """
    chain = _Chain(folder, seed, Options(overwrite=overwrite, quiet=quiet))
    with chain.stage("build", "(draws pictures, and writes the pages that show them as WATs and WARCs)"):
        web = build(chain.path("web"), pictures=pictures, seed=seed, options=chain.options)
    chain.extract(web)
    chain.download(web)
    chain.train("train scorer", chain.path("pool", "shards"), "scorer", SCORER_SAMPLES)
    chain.annotate()
    chain.filter()
    chain.reshard()
    chain.train("train", chain.path("training"), "run")
    accuracy, chance = chain.score(web)
    if not quiet:
        print("\n".join(["", *_funnel(chain.outcomes), "", *_flaws(web, chain.path("selection", "uids.npy")), ""]))
        print(f"zero-shot accuracy {100 * accuracy:.1f} % (guessing: {100 * chance:.1f} %)\n")
        print("\n".join([*_times(chain.seconds), "", *_places(chain)]))
    return accuracy


@dataclass
class _Chain:
    """The stages of one folder: each runs a job as its command would, and notes outcome and seconds."""

    folder: str
    seed: int
    options: Options
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    def path(self, *parts: str) -> str:
        return store.join(self.folder, *parts)

    @contextlib.contextmanager
    def stage(self, name: str, command: str) -> Iterator[None]:
        if not self.options.quiet:
            print(f"\n== {name}: {command}", flush=True)
        start = time.monotonic()
        yield
        self.seconds[name] = time.monotonic() - start

    def extract(self, web: MiniWeb) -> None:
        from pipeline.extract.job import extract

        with self.stage("extract", f"winnow extract {web.wats} --output {self.path('candidates')}"):
            self.outcomes["extract"] = extract([web.wats], self.path("candidates"), options=self.options)

    def download(self, web: MiniWeb) -> None:
        from pipeline.archive import Archive
        from pipeline.download.fetch import Policy
        from pipeline.download.job import DownloadSettings, download
        from pipeline.replay import Proxy

        candidates, shards = self.path("candidates"), self.path("pool", "shards")
        with Proxy(Archive(web.warcs)) as proxy:
            command = f"winnow download {candidates} --output {shards} --shard-size {SHARD_SIZE} --proxy {proxy.url}"
            with self.stage("download", f"{command}   (the proxy: winnow replay {store.join(web.folder, 'warc')})"):
                settings = DownloadSettings(policy=Policy(proxy=proxy.url), shard_size=SHARD_SIZE)
                self.outcomes["download"] = download(candidates, shards, settings=settings, options=self.options)

    def train(self, name: str, data: str, output: str, samples: int | None = None) -> None:
        from baselines.train.config import TrainConfig
        from baselines.train.loop import train

        output = self.path(output)
        shorter = f" --samples {samples}" if samples else ""
        with self.stage(name, f"winnow train --scale {SCALE} --data {data} --output {output}{shorter} --seed {self.seed}"):
            self.outcomes[name] = train(
                TrainConfig(
                    data=data,
                    output=output,
                    scale=SCALE,
                    samples=samples,
                    seed=self.seed,
                    device=DEVICE,
                    overwrite=self.options.overwrite,
                    quiet=self.options.quiet,
                )
            )

    def annotate(self) -> None:
        from pipeline.annotate.job import annotate_clip

        pool, model = self.path("pool"), self.path("scorer")
        with self.stage("annotate", f"winnow annotate {pool} --with clip --model {model} --name {NAME}"):
            self.outcomes["annotate"] = annotate_clip(
                pool, name=NAME, model=model, pretrained=None, device=DEVICE, options=self.options
            )

    def filter(self) -> None:
        from pipeline.selection import select

        pool, output = self.path("pool"), self.path("selection")
        with self.stage("filter", f"winnow filter {os.path.relpath(RECIPE)} {pool} --output {output}"):
            self.outcomes["filter"] = select(str(RECIPE), pool, output, options=self.options)

    def reshard(self) -> None:
        from pipeline.reshard import reshard

        shards, kept, output = self.path("pool", "shards"), self.path("selection", "uids.npy"), self.path("training")
        with self.stage("reshard", f"winnow reshard {shards} {kept} --output {output}"):
            self.outcomes["reshard"] = reshard(shards, kept, output, options=self.options)

    def score(self, web: MiniWeb) -> tuple[float, float]:
        """(accuracy, chance) of the trained model, from 0 to 1."""
        from baselines.score.suite import score

        run, quiet = self.path("run"), self.options.quiet
        with self.stage("score", f"winnow score {run} --evals {web.evals}"):
            scores = score(run, web.evals, device=DEVICE, overwrite=self.options.overwrite, quiet=quiet)
        (result,) = scores.results
        return result.main_metric, float(result.record["chance"])


# What is printed at the end -------------------------------------------------------------------------------------------


def _funnel(outcomes: dict[str, Outcome]) -> list[str]:
    """From the links on the pages to the samples for training: what came in, what each stage dropped and why, what was left."""
    lines = ["From the web to the training set", _row("image links on the pages", outcomes["extract"].counts["in"])]
    stages = [("extract", "candidates"), ("download", "downloaded"), ("annotate", "scored"), ("filter", "kept")]
    for stage, name in [*stages, ("reshard", "in the training shards")]:
        counts = outcomes[stage].counts
        for why, count in counts.items():
            if why.startswith(("dropped:", "failed:")) and count:
                lines.append(_row(f"  {stage}: {why.replace(':', ' ').replace('_', ' ')}", -count))
        lines.append(_row(name, counts.get("kept", 0)))
    return lines


def _flaws(web: MiniWeb, kept_list: str) -> list[str]:
    """Of the pictures with each flaw, and with each language that was not wanted, how many the recipe let through."""
    table = pq.read_table(web.truth).to_pylist()
    kept = set(uids.unpack(uids.read_list(kept_list)).to_pylist())
    total, through = Counter[str](), Counter[str]()
    for row in table:
        foreign = row["language"] not in (None, "en")
        what = row["flaw"] or ("not in English" if foreign else "nothing")
        total[what] += 1
        through[what] += row["uid"] in kept
    lines = ["What is wrong with the pictures, and how many of them were kept"]
    return lines + [f"  {what.replace('_', ' '):30}{through[what]:>6} of {total[what]:>6}" for what in sorted(total)]


def _times(seconds: dict[str, float]) -> list[str]:
    parts = ", ".join(f"{name} {spent:.1f}" for name, spent in seconds.items())
    return [f"{sum(seconds.values()):.0f} seconds in all: {parts}"]


def _places(chain: _Chain) -> list[str]:
    places = {
        "the web, and the truth about it": ("web", "truth.parquet"),
        "a status and a reason for every candidate": ("pool", "shards"),
        "a verdict for every row, the uid list": ("selection",),
        "the training set": ("training",),
        "loss by step, weights, scores": ("run",),
    }
    return ["Where to look", *(f"  {what:44}{chain.path(*parts)}" for what, parts in places.items())]


def _row(name: str, count: int) -> str:
    return f"  {name:44}{count:>8,}"
