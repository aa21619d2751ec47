"""What the made-up web answers when it is asked for a picture."""

from __future__ import annotations

import random

import numpy as np

from baselines.miniweb import draw
from baselines.miniweb.flaws import Flaw
from baselines.miniweb.plan import Picture
from baselines.miniweb.scenes import draw_lots

HTML = b"<!DOCTYPE html><title>Sorry</title><p>This picture has moved."
WRONG_TYPES = ("text/plain", "application/octet-stream", "image/gif")
MIN_SIDE = 224  # pixels; a near copy is told by its likeness, not by its size


def answer(picture: Picture) -> tuple[list[tuple[str, str]], bytes] | None:
    """(headers, body) of the answer with status 200; None if there is none at this link."""
    if picture.flaw is Flaw.DEAD_LINK or picture.again:
        return None
    if picture.flaw is Flaw.HTML_ANSWER:
        return [("Content-Type", "text/html; charset=UTF-8")], HTML
    lots = draw_lots(picture.uid, "answer")
    kind, headers, body = "image/jpeg", [], b""
    match picture.flaw:
        case Flaw.NEAR_COPY:
            body = _near_copy(draw.draw(picture.scene), lots)
        case Flaw.EVAL_COPY if lots.random() < 0.5:
            body = _enlarged(draw.draw(picture.scene), lots)
        case Flaw.WRONG_TYPE if lots.random() < 0.3:
            body = _png(draw.draw(picture.scene))
        case Flaw.WRONG_TYPE:
            kind, body = lots.choice(WRONG_TYPES), draw.jpeg(picture.scene)
        case Flaw.TRUNCATED:
            whole = draw.jpeg(picture.scene)
            body = whole[: round(len(whole) * lots.uniform(0.4, 0.8))]
        case Flaw.OPT_OUT:
            headers, body = [("X-Robots-Tag", lots.choice(("noai", "noimageai")))], draw.jpeg(picture.scene)
        case _:
            body = draw.jpeg(picture.scene)
    return [("Content-Type", kind), *headers], body


def _near_copy(picture: draw.Picture, lots: random.Random) -> bytes:
    """1 to 3 % cut off each edge, 0.8 to 1.2 times as large, in another quality."""
    height, width = picture.shape[:2]
    left, right = (round(width * lots.uniform(0.01, 0.03)) for _ in range(2))
    top, bottom = (round(height * lots.uniform(0.01, 0.03)) for _ in range(2))
    cut = picture[top : height - bottom, left : width - right]
    scale = max(lots.uniform(0.8, 1.2), MIN_SIDE / min(cut.shape[:2]))
    return _resized(cut, scale, lots.choice((60, 70, 78, 92)))


def _enlarged(picture: draw.Picture, lots: random.Random) -> bytes:
    """At least as large as a filter on size lets through."""
    return _resized(picture, MIN_SIDE * lots.uniform(1, 1.5) / min(picture.shape[:2]), lots.choice((70, 78, 92)))


def _resized(picture: draw.Picture, scale: float, quality: int) -> bytes:
    import cv2

    height, width = picture.shape[:2]
    size = (round(width * scale), round(height * scale))
    way = cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC
    return draw.encode(np.asarray(cv2.resize(picture, size, interpolation=way), np.uint8), quality=quality)


def _png(picture: draw.Picture) -> bytes:
    import cv2

    ok, data = cv2.imencode(".png", cv2.cvtColor(picture, cv2.COLOR_RGB2BGR))
    assert ok
    return bytes(data)
