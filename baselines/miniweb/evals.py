"""Held-out pictures as a zero-shot task in the folder form that DataComp publishes its evaluation sets in."""

from __future__ import annotations

from baselines.miniweb import draw
from baselines.miniweb.scenes import COLOURS, CONCEPTS, scene
from pools import shards, store

TASK = "miniweb-shapes"
PICTURES = 250
SIZE = (224, 224)  # width, height in pixels
# A seed that no web has: pictures for scoring are never pictures of the web, and are the same whatever the web's seed.
SEED = -1
# As captions of the web are worded, once in each colour: the mean over the colours is about the shape alone.
TEMPLATES = tuple(
    text.format(a="an" if colour[0] in "aeiou" else "a", colour=colour, c="{c}")
    for text in ("A picture of {a} {colour} {c}", "Drawing of a single {colour} {c}", "This is {a} {colour} {c} that I drew")
    for colour in COLOURS
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
