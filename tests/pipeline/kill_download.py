"""Downloads, retries, extends and cleans a pool, killed (SIGKILL) at some file, and goes on with the command that was killed.

`python -m tests.pipeline.kill_download FOLDER SEED NUMBER` leaves FOLDER/whole (never killed) and FOLDER/<n> for so many n,
drawn by the seed: killed at the n-th file that was written, renamed or removed. Prints the n, and how many there are.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import sys
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path

from pipeline.download.fetching.fetch import Policy
from pipeline.download.images.prepare import ImageRules, prepare
from pipeline.download.job import DownloadSettings, download
from pipeline.download.shards import rewrite
from pools import store
from tests.pipeline.downloading import HERE, candidates, picture, web
from tests.pipeline.kill import Killer
from tests.pipeline.server import Answer, serve


def servers(folder: Path, tell: Connection) -> None:
    """Two, of which the first lacks some pictures; serves until it is ended. Several urls have one picture."""
    with serve() as sick, serve() as well:
        for server in (sick, well):
            rows = web(server, 14)
            for i in (0, 4, 8, 11):
                server.on(rows[i]["url"], Answer(picture(99)))
        for i in (1, 5, 6, 7):
            del sick.routes[rows[i]["url"]]
        candidates(folder / "first.parquet", rows[:9])
        candidates(folder / "second.parquet", rows[7:])
        tell.send((sick.root, well.root))
        signal.pause()


def commands(folder: Path, pool: str, proxies: tuple[str, str], start: int, fatal: int) -> int:
    """The commands from the `start`-th on, the number of each left in `<pool>.at`; how many files that were."""
    killer = Killer(fatal)
    store.atomic, store.remove_tree = killer.atomic, killer.remove_tree
    vars(rewrite)["move"] = killer.before(rewrite.move)
    sick, well = (DownloadSettings(shard_size=3, threads=4, policy=Policy(proxy=p, retries=0, deadline=10.0)) for p in proxies)
    first, second = (str(folder / f"{name}.parquet") for name in ("first", "second"))
    everything = [
        (first, sick),
        (first, replace(well, retry_failed=True)),
        (second, replace(well, extend=True)),
        (first, replace(well, drop_placeholders=True)),
    ]
    for number, (source, chosen) in list(enumerate(everything))[start:]:
        Path(f"{pool}.at").write_text(str(number))
        download(source, f"{pool}/shards", settings=chosen, options=HERE)
    return killer.written


def main(folder: str, seed: str, number: str) -> None:
    here, there = multiprocessing.Pipe()
    context = multiprocessing.get_context("fork")
    web_ = context.Process(target=servers, args=(Path(folder), there), daemon=True)
    web_.start()
    proxies = here.recv()

    prepare(picture(0), ImageRules())  # what it imports is there for all that are forked

    def child(name: str, start: int = 0, fatal: int = 0) -> int:
        """In a process of its own, with connections of its own."""
        if (pid := os.fork()) == 0:
            written = commands(Path(folder), f"{folder}/{name}", proxies, start, fatal)
            Path(f"{folder}/files").write_text(str(written))
            os._exit(0)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    assert child("whole") == 0
    files = int(Path(f"{folder}/files").read_text())
    chosen = random.Random(int(seed)).sample(range(1, files + 1), min(int(number), files))
    for n in chosen:
        assert child(str(n), fatal=n) == -signal.SIGKILL
        assert child(str(n), start=int(Path(f"{folder}/{n}.at").read_text())) == 0
    web_.terminate()
    print(*chosen, files)


if __name__ == "__main__":
    main(*sys.argv[1:])
