"""What is wrong with pictures of a made-up web, seen from outside: asked over HTTP and compared with the truth table."""

from __future__ import annotations

import hashlib
import http.client
import io
import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray
from PIL import Image

from baselines.miniweb.web import MiniWeb
from pipeline.archive import Archive
from pipeline.replay import Proxy
from pools import shards

Row = dict[str, Any]
Answer = tuple[int, dict[str, str], bytes]


@pytest.fixture(scope="module")
def truth(small_web: MiniWeb) -> list[Row]:
    rows: list[Row] = pq.read_table(small_web.truth).to_pylist()
    return rows


@pytest.fixture(scope="module")
def answers(small_web: MiniWeb, truth: list[Row]) -> dict[str, Answer]:
    """Address → (status, headers, body), asked over HTTP through the replaying proxy."""
    found = {}
    with Proxy(Archive(small_web.warcs)) as proxy:
        connection = http.client.HTTPConnection("127.0.0.1", proxy.port)
        for row in truth:
            connection.request("GET", row["url"])
            response = connection.getresponse()
            found[row["url"]] = response.status, dict(response.getheaders()), response.read()
        connection.close()
    return found


def opened(body: bytes) -> Image.Image:
    """The picture, decoded whole. Raises OSError for one that is cut."""
    image = Image.open(io.BytesIO(body))
    image.load()
    return image


def small(body: bytes) -> NDArray[np.float64]:
    """16 × 16 greys, for likeness."""
    return np.asarray(opened(body).convert("L").resize((16, 16), Image.Resampling.BOX), np.float64)


def of(flaw: str | None, truth: list[Row]) -> list[Row]:
    found = [r for r in truth if r["flaw"] == flaw]
    assert len(found) >= 5
    return found


def test_answers_are_whole_jpegs_unless_the_truth_says_otherwise(truth: list[Row], answers: dict[str, Answer]) -> None:
    odd = {"dead_link", "html_answer", "wrong_type", "truncated", "opt_out", "eval_copy", "too_small", "banner"}
    for row in truth:
        if row["flaw"] in odd:
            continue
        status, headers, body = answers[row["url"]]
        assert (status, headers["Content-Type"]) == (200, "image/jpeg") and "X-Robots-Tag" not in headers
        image = opened(body)
        short, long = sorted(image.size)
        # A near copy may be a little larger than any picture that it is made of.
        assert image.format == "JPEG" and 224 <= short <= long <= 640 * 1.2 and long / short <= 1.6


def test_sizes_that_are_flaws(truth: list[Row], answers: dict[str, Answer]) -> None:
    for row in of("too_small", truth):
        assert all(96 <= side <= 180 for side in opened(answers[row["url"]][2]).size)
    for row in of("banner", truth):
        width, height = opened(answers[row["url"]][2]).size
        assert height >= 200 and width / height > 3.2


def test_links_without_an_image(truth: list[Row], answers: dict[str, Answer]) -> None:
    assert {answers[r["url"]][0] for r in of("dead_link", truth)} == {404}
    for row in of("html_answer", truth):
        status, headers, body = answers[row["url"]]
        assert (status, headers["Content-Type"]) == (200, "text/html; charset=UTF-8")
        assert body.startswith(b"<!DOCTYPE html>") and row["url"].endswith(".jpg")


def test_wrong_types_are_good_images(truth: list[Row], answers: dict[str, Answer]) -> None:
    for row in of("wrong_type", truth):
        _, headers, body = answers[row["url"]]
        said, is_a = headers["Content-Type"], opened(body).format
        assert row["url"].endswith(".jpg")
        assert (is_a == "JPEG" and said != "image/jpeg") or (is_a == "PNG" and said == "image/jpeg")


def test_truncated_pictures_cannot_be_decoded(truth: list[Row], answers: dict[str, Answer]) -> None:
    for row in of("truncated", truth):
        _, headers, body = answers[row["url"]]
        assert body.startswith(b"\xff\xd8") and b"\xff\xd9" not in body[-2:] and headers["Content-Length"] == str(len(body))
        with pytest.raises(OSError, match="truncated"):
            opened(body)


def test_objections_are_headers_of_good_images(truth: list[Row], answers: dict[str, Answer]) -> None:
    for row in of("opt_out", truth):
        _, headers, body = answers[row["url"]]
        assert headers["X-Robots-Tag"] in ("noai", "noimageai")
        opened(body)


def test_exact_copies_are_equal_bytes_and_nothing_else_is(truth: list[Row], answers: dict[str, Answer]) -> None:
    by_uid = {r["uid"]: r for r in truth}
    for row in of("exact_copy", truth):
        source = by_uid[row["copy_of"]]
        assert source["flaw"] is None and source["url"] != row["url"]
        assert answers[row["url"]][2] == answers[source["url"]][2]
    apart = ("exact_copy", "many_alts", "html_answer", "dead_link", "eval_copy")
    others = [hashlib.sha256(answers[r["url"]][2]).hexdigest() for r in truth if r["flaw"] not in apart]
    assert len(set(others)) == len(others)


def test_near_copies_look_like_their_sources(truth: list[Row], answers: dict[str, Answer]) -> None:
    by_uid = {r["uid"]: r for r in truth}
    plain = [small(answers[r["url"]][2]) for r in truth if r["flaw"] is None]
    for row in of("near_copy", truth):
        source, copy = answers[by_uid[row["copy_of"]]["url"]][2], answers[row["url"]][2]
        assert source != copy
        distances = sorted(np.abs(small(copy) - other).mean() for other in plain)
        assert distances[0] == np.abs(small(copy) - small(source)).mean() < 8 and distances[1] > 1.5 * distances[0]
        (w, h), (v, g) = opened(source).size, opened(copy).size
        # 94 to 98 % of the source, 0.8 to 1.2 times as large, or a short side of 224.
        assert 0.75 < v / w < 1.2 and 0.75 < g / h < 1.2 and math.isclose(v / w, g / h, rel_tol=0.05)
        assert min(v, g) >= 224


def test_copies_of_held_out_pictures(small_web: MiniWeb, truth: list[Row], answers: dict[str, Answer]) -> None:
    held: dict[str, dict[str, bytes]] = {}
    for task in ("objects-en", "cultural-hi", "retrieval-en"):
        held.update(shards.read_all(str(Path(small_web.evals) / f"wds_miniweb-{task}_test" / "test" / "0.tar")))
    pictures = {members["jpg"] for _, members in held.items()}
    ways = Counter[bool]()
    for row in of("eval_copy", truth):
        original, copy = held[row["copy_of"]]["jpg"], answers[row["url"]][2]
        ways[copy == original] += 1
        if copy != original:
            assert min(opened(copy).size) >= 224
            assert np.abs(small(copy) - small(original)).mean() < 4
    assert set(ways) == {True, False}
    # No other picture of the web is held out.
    assert not any(answers[r["url"]][2] in pictures for r in truth if r["flaw"] != "eval_copy")


def test_many_alts_share_an_address(truth: list[Row]) -> None:
    links = Counter(r["url"] for r in truth)
    assert {u for u, n in links.items() if n > 1} <= {r["url"] for r in of("many_alts", truth)}
    assert max(links.values()) > 3
    # Equal addresses show one picture.
    shown = {(r["url"], r["concept"], r["colour"], r["count"], r["background"]) for r in truth}
    assert len(shown) == len(links)


def test_hazard_frames_and_faces_are_drawn(truth: list[Row], answers: dict[str, Answer]) -> None:
    def framed(row: Row) -> float:
        edge = np.asarray(opened(answers[row["url"]][2]).convert("RGB"), np.int16)[3]
        yellow, black = np.array((250, 210, 0)), np.array((20, 20, 20))
        return float(np.mean(np.minimum(np.abs(edge - yellow).max(1), np.abs(edge - black).max(1)) < 60))

    assert min(map(framed, of("unsafe", truth))) > 0.8
    assert max(map(framed, of(None, truth))) < 0.4
