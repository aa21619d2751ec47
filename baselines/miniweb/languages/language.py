"""What the languages share: how a caption, a prompt and a page title are put together from a language's tables."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from baselines.miniweb.scenes import Scene, draw_lots

# What a caption always names besides the shape is learned instead of the shape, so half of them leave the background out.
GROUND_NAMED = 0.5


@dataclass(frozen=True, kw_only=True)
class Language:
    """One language of the made-up web: its noun phrases, which agree, and the sentences they are set into.

    The places in a sentence: `{c}` is `phrase` for one shape and `counted` for more; `{thing}` is `counted`; `{accusative}`
    is `counted` in that case; `{ground}` is the background. The sentences suit every concept, colour and count as they are.
    """

    code: str
    """ISO 639-1, or 639-2 where there is none: the `lang` of a page."""
    name: str
    """In English."""
    phrase: Callable[[str, str], str]
    """(concept, colour) → the class name, without article: "red star"."""
    counted: Callable[[str, str, int], str]
    """(concept, colour, count of 1 to 3) → nominative, with article or number: "a red star", "two red stars"."""
    accusative: Callable[[str, str, int], str] | None = None
    """As `counted`; None where it reads the same."""
    plurals: Mapping[str, str]
    """Concept → plural: "stars"."""
    grounds: Mapping[str, str]
    """Background → the words, in the form that `grounded` asks for."""
    templates: tuple[str, ...]
    """Prompts for one shape, each with one `{c}`; captions use them too."""
    frames: tuple[str, ...]
    """Captions that leave the background out."""
    grounded: tuple[str, ...]
    """Captions that name it."""
    titles: tuple[str, ...]
    """Page titles, each with one `{plural}`."""

    def caption(self, scene: Scene, lots: random.Random) -> str:
        """A true sentence of 20 characters or more that names shape, colour and count, and every other time the background."""
        if lots.random() < GROUND_NAMED:
            return self.full(scene, lots)
        return self._sentence(self.frames + (self.templates if scene.count == 1 else ()), scene, lots)

    def full(self, scene: Scene, lots: random.Random) -> str:
        """As `caption`, always with the background."""
        return self._sentence(self.grounded, scene, lots)

    def title(self, scene: Scene) -> str:
        """Of the page that shows the scene: names the concept alone, "Drawings of stars – gallery"."""
        return capital(draw_lots(scene.seed, "title").choice(self.titles).format(plural=self.plurals[scene.concept]))

    def _sentence(self, frames: tuple[str, ...], scene: Scene, lots: random.Random) -> str:
        what = (scene.concept, scene.colour, scene.count)
        thing = self.counted(*what)
        return capital(
            lots.choice(frames).format(
                c=self.phrase(scene.concept, scene.colour) if scene.count == 1 else thing,
                thing=thing,
                accusative=self.accusative(*what) if self.accusative else thing,
                ground=self.grounds[scene.background],
            )
        )


def capital(sentence: str) -> str:
    """With a capital at the start; scripts without capitals are left as they are."""
    return sentence[0].upper() + sentence[1:]
