"""Alt texts that describe nothing: what much of the real web writes where a caption should be."""

from __future__ import annotations

import random

ONE_WORDS = ("image", "photo", "picture", "thumbnail", "logo", "banner")
# Long enough for the filters on length, the same on thousands of pages.
BOILERPLATE = (
    "Click here to enlarge the picture",
    "Image may be subject to copyright",
    "No description available for this photo",
    "Sign up for our newsletter today",
    "Haga clic aquí para ampliar la imagen",
    "Нажмите, чтобы увеличить изображение",
    "Zum Vergrößern bitte auf das Bild klicken",
    "Cliquez ici pour agrandir la photo",
)
_CODE = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"


def file_name(lots: random.Random) -> str:
    """What a camera or a phone calls a picture."""
    number = lots.randint(1000, 9999)
    return lots.choice(("IMG_{}.JPG", "DSC0{}.jpg", "P100{}.JPG", "Screenshot_2023-{}.png")).format(number)


def one_word(lots: random.Random) -> str:
    """One of ONE_WORDS."""
    return lots.choice(ONE_WORDS)


def boilerplate(lots: random.Random) -> str:
    """One of BOILERPLATE: three words or more."""
    return lots.choice(BOILERPLATE)


def product_code(lots: random.Random) -> str:
    """A token that occurs once on the whole web, "SKU-7QX2-K9HD": one of 32⁸, about 10¹²."""
    return f"SKU-{''.join(lots.choices(_CODE, k=4))}-{''.join(lots.choices(_CODE, k=4))}"
