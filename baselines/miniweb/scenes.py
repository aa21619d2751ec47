"""What a made-up picture shows, chosen by (seed, index) alone: the same on every machine, in any order of asking."""

from __future__ import annotations

import random
from dataclasses import dataclass

CONCEPTS = ("circle", "square", "triangle", "star", "cross", "ring", "heart", "crescent", "arrow", "lightning bolt")
# RGB, 0 to 255. All are darker than the backgrounds, so that a few hundred pictures are enough to learn shapes from.
COLOURS = {
    "red": (214, 40, 40),
    "blue": (38, 84, 214),
    "green": (34, 150, 66),
    "orange": (245, 130, 32),
    "purple": (128, 46, 164),
    "pink": (232, 84, 152),
    "brown": (122, 74, 40),
    "black": (24, 24, 26),
}
BACKGROUNDS = ("plain", "fading", "striped", "dotted", "checked", "grainy")


@dataclass(frozen=True)
class Scene:
    """One picture in words: what is drawn, and the seed of everything the words leave open (place, turn, tint, noise)."""

    concept: str
    colour: str
    count: int
    background: str
    width: int  # pixels
    height: int  # pixels
    seed: str


def draw_lots(*parts: object) -> random.Random:
    """A generator of its own for each name; the text is hashed (SHA-512), so neighbouring names have nothing in common."""
    return random.Random("/".join(str(p) for p in parts))


def scene(seed: int, index: int, *, count: int | None = None, size: tuple[int, int] | None = None) -> Scene:
    """The index-th scene of a seed; `count` and `size` (width, height) are fixed where given.

    Concepts take turns, ten in a row being one of each in shuffled order. Both sides are 224 to 640 pixels, and no side is
    more than 1.5 times the other.
    """
    lots = draw_lots(seed, index, "scene")
    width = lots.randint(224, 640)
    height = lots.randint(max(224, -(-2 * width // 3)), min(640, 3 * width // 2))
    drawn = lots.choices((1, 2, 3), (17, 2, 1))[0]
    return Scene(
        concept=concept(seed, index),
        colour=lots.choice(tuple(COLOURS)),
        count=count or drawn,
        background=lots.choice(BACKGROUNDS),
        width=size[0] if size else width,
        height=size[1] if size else height,
        seed=f"{seed}/{index}",
    )


def concept(seed: int, index: int) -> str:
    turn, place = divmod(index, len(CONCEPTS))
    return draw_lots(seed, turn, "turn").sample(CONCEPTS, len(CONCEPTS))[place]
