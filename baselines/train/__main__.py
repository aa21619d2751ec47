"""`python -m baselines.train --scale S --data SHARDS --output RUN`: `winnow train` as a module, for launchers of modules.

`torchrun --nproc_per_node N -m baselines.train …` trains on N GPUs, or with N processes on a CPU.
"""

from __future__ import annotations

import sys

from baselines.train.distributed import hush
from pipeline.cli import main

if __name__ == "__main__":
    sys.argv[1:1] = ["train"]
    hush()
    main()
