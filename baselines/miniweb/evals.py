"""Held-out pictures as a zero-shot task in the folder form that DataComp publishes its evaluation sets in."""

from __future__ import annotations

from baselines.miniweb import draw
from baselines.miniweb.scenes import CONCEPTS, scene
from pools import shards, store

TASK = "miniweb-shapes"
PICTURES = 250
SIZE = (224, 224)  # width, height in pixels
# A seed that no web has: pictures for scoring are never pictures of the web, and are the same whatever the web's seed.
SEED = -1
TEMPLATES = (
    "a picture of a {c}",
    "one {c} on a plain background",
    "drawing of a single {c}",
    "the {c} in the middle of the picture",
)


def write_evals(folder: str) -> int:
    """Writes `folder/wds_miniweb-shapes_test/`; returns the number of its pictures, each of one shape, equally many a class."""
    root = store.join(folder, f"wds_{TASK}_test")
    with shards.write(store.join(root, "test", "0.tar")) as tar:
        for i in range(PICTURES):
            shown = scene(SEED, i, count=1, size=SIZE)
            label = CONCEPTS.index(shown.concept)
            tar.add(f"s{i:07d}", {"jpg": draw.jpeg(shown), "cls": str(label).encode()})
    texts = {
        "test/nshards.txt": ["1"],
        "classnames.txt": CONCEPTS,
        "zeroshot_classification_templates.txt": TEMPLATES,
        "dataset_type.txt": ["classification"],
    }
    for name, lines in texts.items():
        store.write_bytes(store.join(root, name), "".join(f"{line}\n" for line in lines).encode())
    return PICTURES
