"""Means over areas are OpenCV's to the bit, whatever the sizes."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

pytest.importorskip("cv2")
import cv2

from pipeline.download.images import area, resize

SIDES = st.integers(1, 400)


def noise(height: int, width: int, channels: int, seed: int) -> Any:
    shape = (height, width) if channels == 1 else (height, width, channels)
    return np.random.default_rng(seed).integers(0, 256, shape, np.uint8)


@settings(max_examples=250, deadline=None)
@given(SIDES, SIDES, st.integers(1, 400), st.integers(1, 400), st.sampled_from([1, 3]), st.integers(0, 9))
@example(976, 656, 512, 344, 3, 0)
@example(399, 7, 398, 7, 3, 0)  # one side stays
@example(258, 400, 43, 89, 3, 0)  # one side shrinks by a whole number
@example(400, 3, 1, 2, 1, 0)
def test_every_size(width: int, height: int, new_width: int, new_height: int, channels: int, seed: int) -> None:
    pixels = noise(height, width, channels, seed)
    if area.serves(width, height, new_width, new_height):
        expected = cv2.resize(pixels, (new_width, new_height), interpolation=cv2.INTER_AREA)
        np.testing.assert_array_equal(area.resized(pixels, (new_width, new_height)), expected)


def test_what_opencv_does_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    assert area.serves(976, 656, 512, 344)
    assert not area.serves(1024, 512, 512, 256)  # in integers
    assert not area.serves(100, 100, 99, 101)  # grows
    assert not area.serves(4000, 2000, 512, 256)  # large
    monkeypatch.setattr(area, "resized", lambda *_: pytest.fail("not for this"))
    assert resize.scaled(noise(512, 1024, 3, 0), (512, 256)).shape == (256, 512, 3)


def test_threads_do_not_share_memory() -> None:
    images = [noise(200 + 31 * n, 300 + 17 * n, 3, n) for n in range(8)]
    wrong: list[int] = []

    def work(n: int) -> None:
        for _ in range(20):
            image, size = images[n], (101 + n, 67 + n)
            if not np.array_equal(area.resized(image, size), cv2.resize(image, size, interpolation=cv2.INTER_AREA)):
                wrong.append(n)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert 1 <= len(area._spare) <= 16
