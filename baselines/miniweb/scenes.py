"""What a made-up picture shows, chosen by (seed, index) alone: the same on every machine, in any order of asking."""

from __future__ import annotations

import random
from dataclasses import dataclass

CONCEPTS = ("circle", "square", "triangle", "star", "cross", "ring", "heart", "crescent", "arrow", "lightning bolt")
CULTURAL = ("spiral", "lotus", "drum", "kite")  # only pages in low-resource languages show these
FAMILIES = {"common": CONCEPTS, "cultural": CULTURAL}
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
COUNTS = (1, 2, 3)


@dataclass(frozen=True)
class Scene:
    """One picture in words: what is drawn, and the seed of all the words leave open (place, size, turn, tint, noise)."""

    concept: str
    colour: str
    count: int
    background: str
    width: int  # pixels
    height: int  # pixels
    seed: str
    face: bool = False  # a drawn face in a corner, which stands in for people's faces
    unsafe: bool = False  # a hazard-striped frame, which stands in for content that no model should see

    @property
    def family(self) -> str:
        return "cultural" if self.concept in CULTURAL else "common"


def draw_lots(*parts: object) -> random.Random:
    """A generator of its own for each name; the text is hashed (SHA-512), so neighbouring names have nothing in common."""
    return random.Random("/".join(str(p) for p in parts))


def scene(
    seed: int, index: int, *, family: str = "common", count: int | None = None, size: tuple[int, int] | None = None
) -> Scene:
    """The index-th scene of a seed; `count` and `size` (width, height) are fixed where given.

    The concepts of the family take turns, each once in a row of all in shuffled order. Both sides are 224 to 640 pixels,
    small ones more often, and no side is more than 1.5 times the other.
    """
    lots = draw_lots(seed, index, "scene")
    # Evenly in the logarithm, as sizes on the web are.
    width = round(224 * (640 / 224) ** lots.random())
    height = lots.randint(max(224, -(-2 * width // 3)), min(640, 3 * width // 2))
    drawn = lots.choices(COUNTS, (16, 3, 1))[0]
    return Scene(
        concept=_concept(seed, index, FAMILIES[family]),
        colour=lots.choice(tuple(COLOURS)),
        count=count or drawn,
        background=lots.choice(BACKGROUNDS),
        width=size[0] if size else width,
        height=size[1] if size else height,
        seed=f"{seed}/{index}",
    )


def _concept(seed: int, index: int, concepts: tuple[str, ...]) -> str:
    turn, place = divmod(index, len(concepts))
    return draw_lots(seed, turn, "turn").sample(concepts, len(concepts))[place]
