"""Training on a CPU against open_clip_train: `python -m tests.benchmarks.train`.

Both train `winnow-tiny` on the same shards of made-up JPEGs, whole processes, data loading included; rounds alternate. A
training of few steps and one of many are timed: their difference is what a sample takes once all has started. The peer's
workers and threads are tried in several numbers, and ours too; the fastest of each side are compared. Only public packages
are needed: open_clip_torch[training].
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from tests.benchmarks.training import Recipe, Timing, ours, peer, write_shards


@dataclass
class Way:
    """One way to train, and its least times so far."""

    name: str
    run: Callable[[Recipe, Path], Timing]
    times: dict[str, Timing] = field(default_factory=dict)  # `few` and `many` steps

    def take(self, kind: str, timing: Timing) -> None:
        before = self.times.get(kind)
        self.times[kind] = timing if before is None or timing.wall < before.wall else before

    def after_start(self, recipe: Recipe, few: int) -> float:
        """Samples a second of wall time, beyond the few steps."""
        return recipe.batch * (recipe.steps - few) / (self.times["many"].wall - self.times["few"].wall)

    def whole(self, recipe: Recipe) -> float:
        return recipe.batch * recipe.steps / self.times["many"].wall

    def cpu(self, recipe: Recipe, few: int) -> float:
        """Milliseconds of CPU a sample, beyond the few steps."""
        return 1000 * (self.times["many"].cpu - self.times["few"].cpu) / (recipe.batch * (recipe.steps - few))


def main(given: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", default="winnow-tiny")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--few", type=int, default=10, help="steps")
    parser.add_argument("--many", type=int, default=60, help="steps")
    parser.add_argument("--shards", type=int, default=8)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--side", type=int, default=64, help="pixels of a picture's longer side; the demo's have 64")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ours", nargs="+", default=["0", "1"], help="numbers of workers")
    parser.add_argument("--peer", nargs="+", default=["1:1", "1:2", "2:2"], help="workers:threads")
    args = parser.parse_args(given)
    ways = [Way(f"winnow, {w} worker(s)", partial(ours, workers=int(w))) for w in args.ours]
    for pair in args.peer:
        workers, threads = map(int, pair.split(":"))
        ways.append(
            Way(f"open_clip_train, {workers} worker(s), {threads} thread(s)", partial(peer, workers=workers, threads=threads))
        )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = write_shards(folder / "shards", args.shards, args.rows, width=args.side, height=args.side * 3 // 4)
        recipe = Recipe(data, args.model, args.batch, args.many, "tiny", "fp32", "cpu")
        measure(recipe, ways, folder, few=args.few, rounds=args.rounds)
        report(recipe, ways, args.few)


def measure(recipe: Recipe, ways: list[Way], folder: Path, *, few: int, rounds: int) -> None:
    for r in range(rounds):
        for w, way in enumerate(ways):
            for kind, steps in (("few", few), ("many", recipe.steps)):
                way.take(kind, way.run(replace(recipe, steps=steps), folder / f"run-{r}-{w}-{kind}"))


def report(recipe: Recipe, ways: list[Way], few: int) -> None:
    print(f"{recipe.model}, batches of {recipe.batch}, {recipe.steps} steps, the first {few} of them start-up")
    for way in ways:
        rates = f"{way.after_start(recipe, few):7.1f} samples/s after start-up, {way.whole(recipe):7.1f} of the whole process"
        print(f"  {way.name:44} {rates}, {way.cpu(recipe, few):6.3f} CPU ms a sample, last loss {way.times['many'].loss:.3f}")
    sides = [[w for w in ways if w.name.startswith(who)] for who in ("winnow", "open_clip_train")]
    for title, rate in (
        ("after start-up", lambda w: w.after_start(recipe, few)),
        ("the whole process", lambda w: w.whole(recipe)),
    ):
        best = [max(map(rate, side)) for side in sides]
        print(f"{title}: {best[0] / best[1]:.2f} times as fast, the best of each")


if __name__ == "__main__":
    main()
