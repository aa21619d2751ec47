"""Writes a made-up web: WATs of its pages, WARCs of all it serves, the truth about it, and held-out pictures to score on."""

from __future__ import annotations

from dataclasses import dataclass

from baselines.miniweb.evals import write_evals
from baselines.miniweb.part import part_count, write_part
from baselines.miniweb.space import need, room_for
from baselines.miniweb.truth import write_tables
from pipeline import engine
from pools import store
from pools.errors import InputError
from pools.manifest import Outcome, Run

VERSION = 2
MIN_PICTURES = 50  # fewer have not room for every flaw
_DEFAULT = engine.Options()


@dataclass(frozen=True)
class MiniWeb:
    """A made-up web on disk."""

    folder: str

    @property
    def wats(self) -> str:
        """The folder of `miniweb-0000N.warc.wat.gz`."""
        return store.join(self.folder, "wat")

    @property
    def warcs(self) -> list[str]:
        """`miniweb-0000N.warc.gz`: each page and picture that is served, for `winnow replay`."""
        folder = store.join(self.folder, "warc")
        return [store.join(folder, name) for name in store.list_files(folder, ".warc.gz")]

    @property
    def truth(self) -> str:
        """One row a picture link, in the order of the pages (columns: `truth.TRUTH`). For reports alone."""
        return store.join(self.folder, "truth.parquet")

    @property
    def stand_ins(self) -> str:
        """The same rows with what detectors would say of the pictures (columns: `truth.STAND_INS`)."""
        return store.join(self.folder, "stand_ins.parquet")

    @property
    def evals(self) -> str:
        """The folder with `wds_miniweb-{objects,cultural,retrieval}-<language>_test/`."""
        return store.join(self.folder, "evals")


def build(folder: str, *, pictures: int = 12000, seed: int = 0, options: engine.Options = _DEFAULT) -> Outcome:
    """Writes the web (`MiniWeb(folder)`) unless it is there; the same (pictures, seed) give the same bytes.

    Every picture is an image link with an alt text on a page. Counts: in = kept links, how many have each flaw, held-out
    pictures. Raises InputError if `folder` holds anything else, or if the disk has no room for the web.
    """
    if pictures < MIN_PICTURES:
        raise InputError(f"{pictures} pictures", where="--pictures", expected=f"{MIN_PICTURES} or more")
    run, web = Run(folder, "miniweb", VERSION, {"pictures": pictures, "seed": seed}), MiniWeb(folder)
    units = [engine.Unit(f"part-{i:05d}", "", (folder, pictures, seed, i)) for i in range(part_count(pictures))]
    units.append(engine.Unit("evals", "", (folder, pictures)))

    def finish(total: Outcome) -> Outcome:
        write_tables(web.truth, web.stand_ins, pictures, seed)
        return total

    if run.finished() is None or options.overwrite:
        need(folder, pictures)
    with room_for(folder, pictures):
        return engine.run(run, units, _make, options, finish)


def _make(unit: engine.Unit) -> Outcome:
    folder, pictures = unit.args[:2]
    with room_for(folder, pictures):
        if unit.name == "evals":
            return Outcome({"held_out": write_evals(MiniWeb(folder).evals)})
        return write_part(*unit.args)
