"""The demo's funnel, in which no row may be lost, and the tables it prints."""

from __future__ import annotations

from typing import Any

import pytest

from baselines.miniweb.funnel import funnel_lines
from baselines.miniweb.tables import table
from pools.errors import WorkFailed

STAGES = {
    "extract": {"in": 2200, "kept": 2000, "dropped:no_text": 190, "dropped:scheme": 0, "dropped:duplicate": 10, "pages": 80},
    "download": {"in": 2000, "kept": 1900, "failed:http_status": 60, "failed:not_an_image": 40},
    "annotate": {"in": 1900, "kept": 1899, "failed:truncated_image": 1},
}
RECIPES = {
    "no_filter": {"in": 1900, "kept": 1900},
    "clip_score": {"in": 1900, "kept": 569, "dropped:0-clip_score": 1331, "unscored:0-clip_score": 1},
    "rebalanced": {"in": 1900, "kept": 1900, "listed": 1850},
}


def test_funnel() -> None:
    assert [" ".join(line.split()) for line in funnel_lines(STAGES, RECIPES)] == [
        "From the web to the training sets",
        "image links on the pages 2,200",
        "dropped no_text -190",
        "dropped duplicate -10",
        "candidates 2,000",
        "failed http_status -60",
        "failed not_an_image -40",
        "downloaded 1,900",
        "failed truncated_image -1",
        "scored 1,899",
        "Of what was downloaded, each recipe keeps",
        "no_filter 1,900",
        "clip_score 569",
        "dropped by filter 0-clip_score (1 unscored) -1,331",
        "rebalanced 1,900",
        "rebalanced, entries of its list 1,850",
    ]
    without = {name: counts for name, counts in STAGES.items() if name != "annotate"}
    assert not any("scored" in line for line in funnel_lines(without, {}))


@pytest.mark.parametrize(
    ("stages", "recipes", "said"),
    [
        ({"download": {"in": 2000, "kept": 1900, "failed:timeout_total": 99}}, {}, "2000 in, 1999 out"),
        ({"download": {"in": 1990, "kept": 1900, "failed:timeout_total": 90}}, {}, "before download: 1,990 in, where 2,000"),
        ({"annotate": {"in": 1899, "kept": 1899}}, {}, "before annotate: 1,899 in, where 1,900"),
        ({}, {"basic": {"in": 1899, "kept": 1899}}, "before filter basic: 1,899 in, where 1,900"),
        ({}, {"basic": {"in": 1900, "kept": 1899}}, "1900 in, 1899 out"),
    ],
)
def test_rows_that_are_lost_on_the_way_are_an_error(stages: Any, recipes: Any, said: str) -> None:
    with pytest.raises(WorkFailed, match=said):
        funnel_lines({**STAGES, **stages}, recipes)


def test_tables_are_cut_into_blocks_that_fit() -> None:
    found = table([["name", "a", "bbbb"]], [["x", "1", "2"], ["long\x1b[1m", "30", "–"]], width=16)
    assert found == [
        *("  name       a", "  x          1", "  long?[1m  30", ""),
        *("  name      bbbb", "  x            2", "  long?[1m     –"),
    ]
    assert max(map(len, found)) <= 16
