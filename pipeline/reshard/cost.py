"""What resharding costs beside training on the list with the shards as they are, in bytes that move."""

from __future__ import annotations

import json as jsonlib
from dataclasses import asdict, dataclass

import numpy as np

from pipeline.engine import Failed, Options, make_engine
from pipeline.reshard.job import opened
from pipeline.reshard.locate import Locate
from pipeline.reshard.settings import Settings
from pools import shards, store, tar_scan, uids
from pools.errors import WorkFailed
from pools.wanted import Wanted

SHARDS = 16  # that are looked at


@dataclass(frozen=True)
class Cost:
    """Bytes, estimated from `looked_at` of the shards; a pass takes every entry of the list once."""

    shards: int
    looked_at: int
    size: int  # of all shards
    entries: int
    kept: float  # share of the samples that the list names
    disk: int  # of the new shards
    pass_on_list: int  # read in a pass over the shards as they are
    pass_on_copy: int  # read in a pass over new shards
    copying: int  # read and written once, to make them
    passes: float

    @property
    def even(self) -> float | None:
        """The number of passes from which on copying pays; None if it never does."""
        saved = self.pass_on_list - self.pass_on_copy
        return self.copying / saved if saved > 0 else None

    @property
    def copy_pays(self) -> bool:
        return self.even is not None and self.passes > self.even

    def told(self, *, json: bool) -> str:
        if json:
            return jsonlib.dumps({**asdict(self), "even": self.even, "copy_pays": self.copy_pays})
        of = "" if self.looked_at == self.shards else f" (from {self.looked_at} of {self.shards} shards)"
        even = "in no number of passes" if self.even is None else f"from {self.even:.1f} passes on"
        best = (
            "reshard, then train on the copy" if self.copy_pays else "train on the shards as they are: winnow train --uids LIST"
        )
        return "\n".join(
            [
                f"{self.entries:,} entries, {100 * self.kept:.1f} % of the samples in {_gb(self.size)}{of}",
                f"  a pass on the shards as they are reads {_gb(self.pass_on_list)}",
                f"  resharding reads and writes {_gb(self.copying)} once and takes {_gb(self.disk)} of disk; "
                f"a pass then reads {_gb(self.pass_on_copy)}",
                f"  it pays {even}; this is for {self.passes:.3g}",
                f"→ {best}",
            ]
        )


def estimate(root: str, list_path: str, settings: Settings, options: Options, *, samples_seen: int | None = None) -> Cost:
    """Looks at some shards, chosen by a hash of their names. Nothing is written, but what is learnt into `settings.index`.

    A tar on this machine is skipped through, from header to header; from elsewhere all of it comes over.
    """
    list_path, settings = opened(list_path, settings)
    wanted = Wanted.open(list_path)
    sources = shards.list_shards(root)
    sizes = np.array([store.size(s) for s in sources])
    hashes = uids.hash64(uids.pack([uids.new(store.relative(s, root), "") for s in sources]), 0)
    chosen = np.sort(np.argsort(hashes, kind="stable")[:SHARDS])
    work = Locate(list_path, root, settings.index, settings.regroup)
    samples, there, entries, once, all_copies = 0, 0, 0, 0, 0
    for _, located in make_engine(options.engine, 0 if options.engine == "local" else options.workers).map(
        work, [sources[i] for i in chosen]
    ):
        if isinstance(located, Failed):
            raise located.input_error or WorkFailed(located.message)
        heads = located.found["part"] == 0
        samples += located.header.samples + located.header.nameless_count
        there += int(heads.sum())
        entries += int(located.found["copies"][heads].sum())
        once += int(located.found["length"].sum())
        all_copies += int((located.found["length"] * located.found["copies"]).sum())
    scale = float(sizes.sum()) / max(1.0, float(sizes[chosen].sum()))
    local = store.is_local(root)
    look = int(sizes.sum()) if not local else int(samples * scale * tar_scan.WINDOW)
    copied, single = int(all_copies * scale), int(once * scale)
    heads_of_copy = int(entries * scale * tar_scan.WINDOW) if local else 0
    return Cost(
        shards=len(sources),
        looked_at=len(chosen),
        size=int(sizes.sum()),
        entries=len(wanted),
        kept=there / max(1, samples),
        disk=copied,
        pass_on_list=look + single,
        pass_on_copy=copied + heads_of_copy,
        copying=look + single + copied,
        passes=(samples_seen or len(wanted)) / max(1, len(wanted)),
    )


def _gb(size: int) -> str:
    return f"{size / 1e9:,.1f} GB" if size >= 1e9 else f"{size / 1e6:,.1f} MB"
