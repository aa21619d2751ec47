"""The whole experiment on a made-up web: from its crawl to the scores of one model a recipe, without the network.

Every step is a public `winnow` command, shown as it runs. What is wrong with the web is read at the end alone, for the
report: no stage sees it.
"""

from __future__ import annotations

import functools
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from baselines.miniweb import leaderboard, report
from baselines.miniweb.verbs import Verbs
from baselines.miniweb.web import MiniWeb
from filters.recipe import Recipe
from pipeline.cli import recipe_path
from pipeline.engine import default_workers
from pools import store
from pools.errors import InputError
from pools.manifest import Outcome, owner_of
from pools.outputs import Selection
from pools.scales import get_scale
from pools.schema import score_column

RECIPES = Path(__file__).with_name("recipes")
DEFAULT = ("no_filter", "random", "basic", "clip_score", "intersection")
SCORER = "no_filter"  # the recipe whose model gives the pool its scores
OF_EQUAL_SIZE = "clip_score"  # `random` keeps as many rows as this recipe
NAME = "tiny"  # of the scores: clip_tiny_similarity_score
SCALE = "tiny"
IMAGE_SIZE = 64  # pixels of the longest side in the shards: the model sees 32
SHARD_SIZE = 1000  # candidates


@dataclass(frozen=True)
class Settings:
    """One demo. `recipes` are names of the demo's own or of the packaged ones, or files."""

    pictures: int = 12_000
    seed: int = 0
    recipes: tuple[str, ...] = DEFAULT
    port: int = 0  # of the proxy; 0 = any free one
    overwrite: bool = False
    quiet: bool = False

    @property
    def samples(self) -> int | None:
        """Samples each model sees; None = those of the scale, which fit its pool. A smaller web gets fewer."""
        scale = get_scale(SCALE)
        return None if self.pictures >= scale.pool_size else scale.samples_seen * self.pictures // scale.pool_size


def demo(folder: str, settings: Settings) -> list[leaderboard.Row]:
    """Runs every stage in `folder`, prints funnel, report and leaderboard, and returns the leaderboard.

    A rerun does only what is missing, and anew what belongs to a recipe that has changed. Raises InputError if the folder
    holds another demo, or for an unknown recipe.
    """
    start = time.monotonic()
    verbs = Verbs(overwrite=settings.overwrite, quiet=settings.quiet)
    run = _Demo(folder, settings, verbs)
    recipes = run.find_recipes()
    run.build()
    run.gather()
    run.select(SCORER, recipes[SCORER])
    run.train(SCORER)
    if run.needs_scores(recipes):
        run.annotate()
    rest = [name for name in recipes if name != SCORER]
    for name in sorted(rest, key="random".__eq__):  # last: it follows the size of another
        run.select(name, recipes[name])
    verbs.say(f"\n== train and score, side by side: {', '.join(recipes)}")
    chains = [functools.partial(run.try_out, name) for name in rest]
    verbs.together("train and score", [*chains, functools.partial(run.score, SCORER)])
    rows = leaderboard.read(folder, list(recipes))
    store.write_json(store.join(folder, "leaderboard.json"), leaderboard.content(rows))
    if not settings.quiet:
        print("\n".join(["", *report.lines(folder, run.outcomes, list(recipes)), "", *leaderboard.lines(rows), ""]))
        print("\n".join([_times(verbs.seconds, time.monotonic() - start), "", *_places(folder)]), flush=True)
    return rows


@dataclass
class _Demo:
    """The stages of one folder, and what those said that the report needs."""

    folder: str
    settings: Settings
    verbs: Verbs
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    changed: set[str] = field(default_factory=set)  # recipes that are not what they were when their rows were selected

    def path(self, *parts: str) -> str:
        return store.join(self.folder, *parts)

    def find_recipes(self) -> dict[str, str]:
        """Recipe files by name, the scorer's first; that of `random` is written when it is known how many rows to keep."""
        found = {SCORER: find_recipe(SCORER)}
        for given in self.settings.recipes:
            name = Path(given).name.removesuffix(".yaml")
            if name in found and given != SCORER:
                raise InputError(f"two recipes named {name!r}", where="--recipe", expected="a name of its own for each")
            found[name] = self.path("random.yaml") if given == "random" else find_recipe(given)
        return found

    def needs_scores(self, recipes: dict[str, str]) -> bool:
        files = [find_recipe(OF_EQUAL_SIZE) if name == "random" else path for name, path in recipes.items()]
        return any(score_column(NAME) in Recipe.load(recipe_path(path)).needs for path in files)

    def build(self) -> None:
        number, seed = str(self.settings.pictures), str(self.settings.seed)
        self.verbs.run("miniweb", "miniweb", self.path("web"), "--pictures", number, "--seed", seed)

    def gather(self) -> None:
        web, candidates, shards = MiniWeb(self.path("web")), self.path("candidates"), self.path("pool", "shards")
        self._note("extract", web.wats, "--output", candidates)
        with self.verbs.proxy("replay", self.path("web", "warc"), "--port", str(self.settings.port)) as proxy:
            sizes = ("--image-size", str(IMAGE_SIZE), "--shard-size", str(SHARD_SIZE))
            self._note("download", candidates, "--output", shards, *sizes, "--proxy", proxy)

    def annotate(self) -> None:
        model = ("--with", "clip", "--model", self.path("runs", SCORER), "--name", NAME, "--device", "cpu")
        self._note("annotate", self.path("pool"), *model, "--workers", str(default_workers()))

    def select(self, name: str, recipe: str) -> None:
        if name == "random":
            self._write_random(recipe)
        self._filter(name, recipe)
        shards, listed = self.path("pool", "shards"), Selection(self.path("selections", name)).uids
        self._run(name, "reshard", shards, listed, "--output", self.path("shards", name))

    def _filter(self, name: str, recipe: str) -> None:
        selection = self.path("selections", name)
        before = owner_of(selection)
        if before is not None and before["options"].get("recipe_digest") != Recipe.load(recipe_path(recipe)).digest:
            self.changed.add(name)
        said = self._run(name, "filter", recipe, self.path("pool"), "--output", selection)
        self.outcomes[f"filter {name}"] = _outcome(said)

    def _write_random(self, path: str) -> None:
        """The recipe of as many random rows as `clip_score` keeps."""
        if f"filter {OF_EQUAL_SIZE}" not in self.outcomes:
            self._filter(OF_EQUAL_SIZE, find_recipe(OF_EQUAL_SIZE))
        rule = {
            "random": {
                "count": self.outcomes[f"filter {OF_EQUAL_SIZE}"].counts["kept"],
                "of": "pool",
                "seed": self.settings.seed,
            }
        }
        text = {"name": "random", "description": f"As many random rows as {OF_EQUAL_SIZE} keeps.", "keep": [rule]}
        store.write_bytes(path, yaml.safe_dump(text, sort_keys=False).encode())

    def train(self, name: str, *, alone: bool = True) -> None:
        fewer = [] if self.settings.samples is None else ["--samples", str(self.settings.samples)]
        # A process beside decodes for the one that works alone; the model is the same.
        workers = ["--workers", "1" if alone else "0"]
        where = ("--data", self.path("shards", name), "--output", self.path("runs", name))
        what = ("--scale", SCALE, *fewer, "--seed", str(self.settings.seed), "--device", "cpu", *workers)
        self._run(name, "train", *where, *what, alone=alone)

    def score(self, name: str) -> None:
        evals = MiniWeb(self.path("web")).evals
        self._run(name, "score", self.path("runs", name), "--evals", evals, "--device", "cpu", alone=False)
        spent = ", ".join(f"{verb} {self.verbs.seconds[f'{verb} {name}']:.0f} s" for verb in ("train", "score"))
        self.verbs.say(f"  {name}: {spent}")

    def try_out(self, name: str) -> None:
        self.train(name, alone=False)
        self.score(name)

    def _run(self, recipe: str, verb: str, *arguments: str, alone: bool = True) -> dict[str, Any]:
        return self.verbs.run(f"{verb} {recipe}", verb, *arguments, alone=alone, anew=recipe in self.changed)

    def _note(self, verb: str, *arguments: str) -> None:
        self.outcomes[verb] = _outcome(self.verbs.run(verb, verb, *arguments))


def _outcome(said: dict[str, Any]) -> Outcome:
    return Outcome(said["counts"], tuple(said["problems"]))


def find_recipe(given: str) -> str:
    """What `winnow filter` takes for a recipe of the demo's, of winnow's, or a file. Raises InputError if it is none."""
    own = RECIPES / f"{given}.yaml"
    path = _shortest(own) if own.parent == RECIPES and own.is_file() else given
    Recipe.load(recipe_path(path))
    return path


def _shortest(path: Path) -> str:
    """From here, if it lies below."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def demo_seeds(folder: str, settings: Settings, seeds: int) -> leaderboard.Boards:
    """The same demo under several seeds, each in a folder of its own, and how far their results lie apart (`spread.json`)."""
    boards = {}
    for seed in range(settings.seed, settings.seed + seeds):
        boards[seed] = demo(store.join(folder, f"seed-{seed}"), replace(settings, seed=seed))
    store.write_json(store.join(folder, "spread.json"), leaderboard.spread_content(boards))
    if not settings.quiet:
        print("\n".join(["", *leaderboard.spread_lines(boards)]))
    return boards


def _times(seconds: dict[str, float], whole: float) -> str:
    slowest = sorted(seconds.items(), key=lambda kv: -kv[1])[:6]
    parts = ", ".join(f"{name} {spent:.0f}" for name, spent in slowest)
    return f"{whole:.0f} seconds in all; the longest commands: {parts}"


def _places(folder: str) -> list[str]:
    places = {
        "the web, and the truth about it": "web/truth.parquet",
        "a status and a reason for every candidate": "pool/shards/*.parquet",
        "a verdict for every row, the uid list": "selections/<recipe>/",
        "loss by step, weights, scores": "runs/<recipe>/",
        "the leaderboard": "leaderboard.json",
    }
    return ["Where to look", *(f"  {what:44}{store.join(folder, place)}" for what, place in places.items())]
