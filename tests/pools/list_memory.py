"""How much memory a list takes that is checked, hashed and looked things up in: `python -m tests.pools.list_memory LIST`.

What a process holds at its peak in MB, the pages of mapped files among it.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np

from pools import uids
from pools.wanted import Wanted


def main(path: str) -> None:
    listed = uids.read_list(path)
    uids.digest(listed)
    sought = np.random.default_rng(0).integers(0, len(listed), (10_000, 2)).astype(np.uint64)
    places, copies = Wanted(listed).find(sought.view(uids.UID).reshape(-1))
    assert len(places) == len(copies) == 10_000
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found
    print(int(found[1]) / 1024)


if __name__ == "__main__":
    main(*sys.argv[1:])
