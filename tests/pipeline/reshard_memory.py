"""How much memory resharding takes: `python -m tests.pipeline.reshard_memory SHARDS LIST OUTPUT` prints it, in MB.

What a process holds at its peak, the pages of mapped files among it.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from pipeline.reshard.job import reshard
from pipeline.reshard.settings import Settings
from tests.pipeline.resharding import QUIET


def main(source: str, listed: str, output: str) -> None:
    reshard(source, listed, output, settings=Settings(shuffle="all"), options=QUIET)
    # Not `ru_maxrss`, into which the memory of the parent counts.
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found
    print(int(found[1]) / 1024)


if __name__ == "__main__":
    main(*sys.argv[1:])
