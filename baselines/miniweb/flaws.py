"""What can be wrong with a picture or its alt text, how often it is, and how things are dealt out in fixed shares."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeVar

from baselines.miniweb.scenes import draw_lots

T = TypeVar("T")


class Flaw(StrEnum):
    """What is wrong with a picture or its alt text. A picture has one flaw or none."""

    MISMATCHED = "mismatched"  # the caption is of another scene of the same family: other concept, other colour
    FILE_NAME = "file_name"  # the alt is a camera's file name
    ONE_WORD = "one_word"  # the alt is one word that describes nothing
    BOILERPLATE = "boilerplate"  # the alt is one of a few phrases that stand under many images
    RARE_TOKEN = "rare_token"  # a true caption with a product code that occurs once in the web
    TOO_SMALL = "too_small"  # both sides 96 to 180 pixels
    BANNER = "banner"  # at least 3.2 times as wide as high; the height is 200 pixels or more
    EXACT_COPY = "exact_copy"  # the bytes of an unflawed picture of the web under an address of its own
    NEAR_COPY = "near_copy"  # an unflawed picture of the web, cropped a little, resized and encoded anew
    EVAL_COPY = "eval_copy"  # a held-out picture of the evaluation sets: its bytes, or enlarged and encoded anew
    FACE = "face"  # a drawn face in a corner
    UNSAFE = "unsafe"  # the hazard frame that stands for unsafe content
    DEAD_LINK = "dead_link"  # nothing is served at the address (404)
    HTML_ANSWER = "html_answer"  # an HTML page is served at the address, which ends in .jpg
    WRONG_TYPE = "wrong_type"  # a good image under a wrong Content-Type, or a PNG at an address that ends in .jpg
    TRUNCATED = "truncated"  # the JPEG ends after 40 to 80 % of its bytes
    OPT_OUT = "opt_out"  # the image's answer says X-Robots-Tag: noai, or noimageai
    MANY_ALTS = "many_alts"  # one of a few addresses, each linked under up to 40 alts, of which none describes the picture


# How many of 100 pictures have the flaw: whole numbers.
SHARES = {
    Flaw.MISMATCHED: 50,
    Flaw.FILE_NAME: 2,
    Flaw.ONE_WORD: 1,
    Flaw.BOILERPLATE: 3,
    Flaw.RARE_TOKEN: 2,
    Flaw.TOO_SMALL: 2,
    Flaw.BANNER: 1,
    Flaw.EXACT_COPY: 1,
    Flaw.NEAR_COPY: 1,
    Flaw.EVAL_COPY: 1,
    Flaw.FACE: 1,
    Flaw.UNSAFE: 1,
    Flaw.DEAD_LINK: 2,
    Flaw.HTML_ANSWER: 1,
    Flaw.WRONG_TYPE: 1,
    Flaw.TRUNCATED: 1,
    Flaw.OPT_OUT: 1,
    Flaw.MANY_ALTS: 1,
}
BLOCK = 100

# Their alts say nothing true of the picture, or no whole picture is served.
NOT_DESCRIBED = frozenset(
    {
        *(Flaw.MISMATCHED, Flaw.FILE_NAME, Flaw.ONE_WORD, Flaw.BOILERPLATE, Flaw.MANY_ALTS),
        *(Flaw.DEAD_LINK, Flaw.HTML_ANSWER, Flaw.TRUNCATED),
    }
)


def deal_flaws(pictures: int, seed: int) -> list[Flaw | None]:
    """The flaw of each picture: dealt out in shuffled blocks of 100, so that the shares hold at any size."""
    table = dict[Flaw | None, int](SHARES.items())
    table[None] = BLOCK - sum(SHARES.values())
    dealt: list[Flaw | None] = []
    for block, first in enumerate(range(0, pictures, BLOCK)):
        some = deal(table, min(BLOCK, pictures - first))
        draw_lots(seed, block, "flaws").shuffle(some)
        dealt += some
    return dealt


def deal(shares: Mapping[T, float], count: int) -> list[T]:
    """`count` names in the proportions of their shares (largest remainder), in the table's order.

    Each comes at least once; with fewer than there are names, those with the largest shares come once.
    """
    if count < len(shares):
        chosen = sorted(shares, key=lambda name: -shares[name])[:count]
        return [name for name in shares if name in chosen]
    whole = sum(shares.values())
    exact = {name: count * share / whole for name, share in shares.items()}
    number = {name: int(part) for name, part in exact.items()}
    # Sorting is stable: of equal remainders the earlier name of the table is served first.
    by_remainder = sorted(shares, key=lambda name: number[name] - exact[name])
    for name in by_remainder[: count - sum(number.values())]:
        number[name] += 1
    while (poor := next((name for name, n in number.items() if n == 0), None)) is not None:
        number[max(number, key=lambda name: number[name])] -= 1
        number[poor] = 1
    return [name for name in shares for _ in range(number[name])]
