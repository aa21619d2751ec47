"""`python -m baselines.train --scale S --data SHARDS --output RUN`: `winnow train` as a module, for launchers of modules."""

from __future__ import annotations

import sys

from pipeline.cli import main

if __name__ == "__main__":
    sys.argv[1:1] = ["train"]
    main()
