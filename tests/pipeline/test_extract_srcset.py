"""Which image of a srcset attribute is the largest."""

from __future__ import annotations

import pytest

from pipeline.extract import srcset
from pipeline.extract.srcset import Candidate


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a.jpg", "a.jpg"),
        ("a.jpg 320w, b.jpg 1280w, c.jpg 640w", "b.jpg"),
        ("a.jpg, b.jpg 2x, c.jpg 1.5x", "b.jpg"),
        ("a.jpg 1x, b.jpg 1e1x, c.jpg 9x", "b.jpg"),
        ("a.jpg 100w, b.jpg 2x", "a.jpg"),  # a width says more than a density
        ("a.jpg 2x, b.jpg 2x", "a.jpg"),
        (" \n a.jpg\t1x \r\n,\n b.jpg   2x\n", "b.jpg"),
        (",,, a.jpg 1x,,, b.jpg 2x ,", "b.jpg"),
        ("http://e.example/w_100,h_50/a.jpg 1x, http://e.example/w_200,h_100/b.jpg 2x", "http://e.example/w_200,h_100/b.jpg"),
        ("a.jpg,b.jpg 2x", "a.jpg,b.jpg"),  # no space, so the comma is the address's
        ("a.jpg, b.jpg", "a.jpg"),
        ("a.jpg,,, b.jpg 0.5x", "a.jpg"),
        ("data:image/png;base64,AA== 9x, a.jpg 1x", "a.jpg"),
        ("DATA:image/gif,x 1w", None),
        ("a.jpg 100w 50h, b.jpg 50h 200w", "b.jpg"),
        ("a.jpg calc(1,2) 5x, b.jpg 2x", "b.jpg"),  # the comma in parentheses ends nothing; that descriptor is unknown
        ("a.jpg (", None),
        ("", None),
        (" , ,", None),
    ],
)
def test_the_largest_counts(text: str, expected: str | None) -> None:
    assert srcset.largest(text) == expected


@pytest.mark.parametrize(
    "descriptors",
    ["0w", "1w 2w", "1w 1x", "1x 2x", "-1x", "+1x", "1.x", "NaNx", "50h", "50h 1x", "1x 50h", "0w 1h", "1.5w", "x", "big"],
)
def test_descriptors_in_error_cost_their_candidate(descriptors: str) -> None:
    assert srcset.largest(f"bad.jpg {descriptors}, good.jpg 0.1x") == "good.jpg"
    assert srcset.largest(f"bad.jpg {descriptors}") is None


def test_candidates_have_their_sizes_in_order() -> None:
    found = srcset.candidates("a 10w, b .5x, c, d 2e1x")
    assert list(found) == [
        Candidate("a", 10, 1.0),
        Candidate("b", None, 0.5),
        Candidate("c", None, 1.0),
        Candidate("d", None, 20.0),
    ]


def test_several_attributes_are_taken_as_one() -> None:
    assert srcset.largest("a.jpg 100w", "b.jpg 300w, c.jpg 200w") == "b.jpg"
    assert srcset.largest("a.jpg", "b.jpg") == "a.jpg"


@pytest.mark.parametrize("part", [",", "(", " ", "a 1x,", "a (", "1", "a ,"])
@pytest.mark.timeout(20)
def test_long_nonsense_is_read_in_linear_time(part: str) -> None:
    srcset.largest("x " + part * 200_000)
