"""Damaged images through `prepare`, in a process of its own: `python -m tests.pipeline.fuzz_images FOLDER SEED ROUNDS SECONDS`.

Every file of the folder is cut and has bits turned over, ROUNDS times each. A crash ends the process, memory is limited,
and one that takes longer than SECONDS is printed, as is what prepare raises. The last line counts images and reasons.
"""

from __future__ import annotations

import collections
import json
import random
import resource
import sys
import time
from pathlib import Path

from pipeline.download.images.prepare import ImageRules, Reject, prepare

MEMORY = 4 << 30  # bytes of address space
RULES = ImageRules(image_size=64)


def damaged(body: bytes, lots: random.Random) -> bytes:
    """Cut, or with up to 20 bits turned over, most of them near the beginning, where the headers are."""
    if lots.random() < 0.3:
        return body[: lots.randrange(len(body))]
    changed = bytearray(body)
    for _ in range(lots.choice((1, 3, 20))):
        reach = lots.choice((32, 256, len(body)))
        changed[lots.randrange(min(reach, len(body)))] ^= 1 << lots.randrange(8)
    return bytes(changed)


def main(folder: str, seed: int, rounds: int, seconds: float) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    found: collections.Counter[str] = collections.Counter()
    for path in sorted(p for p in Path(folder).iterdir() if p.suffix != ".txt"):
        lots = random.Random(f"{seed} {path.name}")
        for number in range(rounds):
            body = damaged(path.read_bytes(), lots)
            start = time.process_time()
            result = prepare(body, RULES)
            if (spent := time.process_time() - start) > seconds:
                print(f"slow: {path.name} {number} {spent:.1f} s", flush=True)
            found[str(result.reason) if isinstance(result, Reject) else "image"] += 1
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))
