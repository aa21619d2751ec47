"""The main job on real input: one archived page of a bookshop, from its WAT to a score."""

from __future__ import annotations

import hashlib
import html
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from baselines.score.suite import score
from baselines.train.config import TrainConfig
from baselines.train.loop import train
from pipeline.annotate.clip.clip import make_clip
from pipeline.annotate.job import annotate
from pipeline.archive import Archive
from pipeline.download.fetching.fetch import Policy
from pipeline.download.job import DownloadSettings, download
from pipeline.engine import Options
from pipeline.extract.inputs import find
from pipeline.extract.job import Settings, extract
from pipeline.replay import Proxy
from pipeline.reshard.job import reshard
from pipeline.selection import select
from pools import shards, uids
from pools.schema import CANDIDATES, METADATA, STATUS, VERDICTS

pytestmark = [pytest.mark.shared, pytest.mark.xdist_group("books")]

QUIET = Options(workers=0, quiet=True)


def page(warc: bytes) -> list[tuple[str, str]]:
    """(url, alt) of every <img> of the page, read from its HTML with a regular expression and by eye."""
    start = warc.index(b"<!DOCTYPE html>")
    text = warc[start : warc.index(b"</html>", start)].decode()
    found = re.findall(r'<img src="([^"]+)" alt="([^"]+)" class="thumbnail">', text)
    return [("http://books.toscrape.com/" + src, html.unescape(alt)) for src, alt in found]


def payloads(warc: bytes) -> dict[str, bytes]:
    """{url: body} of the images, cut out of the archive by the lengths that it states."""
    found = {}
    for head in re.finditer(rb"WARC/1\.1\r\nWARC-Type: response\r\n(?:[^\r]+\r\n)+\r\n", warc):
        url = re.search(rb"WARC-Target-URI: (\S+)", head[0])[1].decode()  # type: ignore[index]
        length = int(re.search(rb"Content-Length: (\d+)", head[0])[1])  # type: ignore[index]
        http, _, body = warc[head.end() : head.end() + length].partition(b"\r\n\r\n")
        if b"image/jpeg" in http:
            assert b"chunked" not in http
            found[url] = body
    return found


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory, shared_data: Path) -> dict[str, Any]:
    """Every stage once; the folders, the outcomes, and the archive's bytes."""
    root = tmp_path_factory.mktemp("books")
    warc = shared_data / "warc" / "books.toscrape.warc"
    pool, out = root / "pool", {}
    wat = shared_data / "wat-generated" / "books.toscrape.warc.wat.gz"
    out["extract"] = extract(find([str(wat)]), str(root / "candidates"), Settings(), options=QUIET)
    with Proxy(Archive([str(warc)])) as proxy:
        settings = DownloadSettings(policy=Policy(proxy=proxy.url), shard_size=12)
        out["download"] = download(str(root / "candidates"), str(pool / "shards"), settings=settings, options=QUIET)
    (root / "all.yaml").write_text("keep: []\n")
    select(str(root / "all.yaml"), str(pool), str(root / "all"), options=QUIET)
    reshard(str(pool / "shards"), str(root / "all" / "uids.npy"), str(root / "all-shards"), options=QUIET)
    short: dict[str, Any] = {"scale": "tiny", "batch_size": 8, "quiet": True}
    train(TrainConfig(data=str(root / "all-shards"), output=str(root / "scorer"), steps=3, **short))
    clip = make_clip({"name": "l14", "model": str(root / "scorer")})
    out["annotate"] = annotate(str(pool), [("clip", clip)], options=QUIET)["l14"].outcome
    (root / "half.yaml").write_text(
        "keep:\n  - image_size: {min_side: 90, max_aspect: 3.0}\n  - clip_score: {model: l14, top_fraction: 0.5, of: pool}\n"
    )
    out["filter"] = select(str(root / "half.yaml"), str(pool), str(root / "half"), options=QUIET)
    out["reshard"] = reshard(str(pool / "shards"), str(root / "half" / "uids.npy"), str(root / "half-shards"), options=QUIET)
    out["train"] = train(TrainConfig(data=str(root / "half-shards"), output=str(root / "run"), steps=4, **short))
    write_evaluation(root / "evals", pool)
    score(str(root / "run"), str(root / "evals"), quiet=True)
    return {"root": root, "pool": pool, "out": out, "warc": warc.read_bytes()}


def write_evaluation(folder: Path, pool: Path) -> None:
    """The covers as a task of two classes, in the published form."""
    task = folder / "wds_covers_test"
    (task / "test").mkdir(parents=True)
    (task / "test" / "nshards.txt").write_text("1\n")
    (task / "classnames.txt").write_text("novel\ntextbook\n")
    (task / "zeroshot_classification_templates.txt").write_text("the cover of a {c}.\n")
    with shards.write(str(task / "test" / "0.tar")) as out:
        for i, (_, members) in enumerate(s for p in shards.list_shards(str(pool / "shards")) for s in shards.read_all(p)):
            out.add(f"{i:06d}", {"jpg": members["jpg"], "cls": str(i % 2).encode()})


def rows(folder: Path, pattern: str) -> list[dict[str, Any]]:
    return [r for p in sorted(folder.rglob(pattern)) for r in pq.read_table(p).to_pylist()]


def test_extraction_gives_exactly_the_twenty_pairs_of_the_page(chain: dict[str, Any]) -> None:
    found = rows(chain["root"] / "candidates", "*.parquet")
    expected = page(chain["warc"])
    assert len(expected) == 20
    assert sorted((r["url"], r["alt"]) for r in found) == sorted(expected)
    assert expected[0][1] == "A Light in the Attic"
    assert all(r["uid"] == hashlib.md5((r["alt"] + r["url"]).encode()).hexdigest() for r in found)
    assert pq.read_schema(next((chain["root"] / "candidates").glob("*.parquet"))).names == CANDIDATES.schema.names
    assert chain["out"]["extract"].counts["kept"] == 20
    assert pq.read_table(chain["root"] / "candidates").num_rows == 20  # the folder as anybody would read it


def test_all_twenty_images_are_fetched_as_the_archive_has_them(chain: dict[str, Any]) -> None:
    assert chain["out"]["download"].counts == {"in": 20, "kept": 20}
    shard_files = sorted(p.name for p in (chain["pool"] / "shards").iterdir() if p.is_file())
    names = [f"{i:08d}{end}" for i in (0, 1) for end in (".parquet", ".tar", "_stats.json")]
    assert shard_files == sorted([*names, "_manifest.json", "_placeholders.jsonl", "_summary.json"])
    status = rows(chain["pool"] / "shards", "0*.parquet")
    assert set(STATUS.schema.names) <= set(status[0])
    assert [r["status"] for r in status] == ["success"] * 20
    served = payloads(chain["warc"])
    samples = dict(s for p in shards.list_shards(str(chain["pool"] / "shards")) for s in shards.read_all(p))
    assert len(samples) == 20
    for row in status:
        members = samples[row["uid"]]
        assert json.loads(members["json"])["uid"] == row["uid"] == row["key"]
        assert members["txt"].decode() == row["caption"]
        # The covers are small, so what is stored is what was served.
        assert members["jpg"] == served[row["url"]]
        assert row["sha256"] == hashlib.sha256(served[row["url"]]).hexdigest()


def test_the_pool_is_readable_as_published_metadata(chain: dict[str, Any]) -> None:
    metadata = rows(chain["pool"] / "metadata", "*.parquet")
    assert len(metadata) == 20
    assert set(METADATA.schema.names) <= set(metadata[0])
    assert {r["page_title"] for r in metadata} == {"All products | Books to Scrape - Sandbox"}
    assert all(r["original_width"] > 90 for r in metadata)


def test_every_row_is_scored(chain: dict[str, Any]) -> None:
    assert chain["out"]["annotate"].counts == {"in": 20, "kept": 20}
    folder = chain["pool"] / "annotations" / "l14"
    scored = rows(folder, "*.parquet")
    arrays = [np.load(p) for p in sorted(folder.glob("*.npz"))]
    images, texts = (np.concatenate([a[f"l14_{kind}"] for a in arrays]).astype(np.float32) for kind in ("img", "txt"))
    cosines = (images * texts).sum(1) / np.linalg.norm(images, axis=1) / np.linalg.norm(texts, axis=1)
    assert [r["uid"] for r in scored] == [r["uid"] for r in rows(chain["pool"] / "metadata", "*.parquet")]
    np.testing.assert_allclose([r["clip_l14_similarity_score"] for r in scored], cosines, atol=2e-3)


def test_the_selection_is_the_better_half(chain: dict[str, Any]) -> None:
    verdicts = rows(chain["root"] / "half" / "verdicts", "*.parquet")
    assert list(verdicts[0]) == VERDICTS.schema.names
    scores = {r["uid"]: r["clip_l14_similarity_score"] for r in rows(chain["pool"] / "annotations", "*.parquet")}
    threshold = sorted(scores.values(), reverse=True)[10]  # int(20 · 0.5)
    expected = sorted(u for u, s in scores.items() if s >= threshold)
    assert uids.unpack(uids.read_list(str(chain["root"] / "half" / "uids.npy"))).to_pylist() == expected
    assert chain["out"]["filter"].counts["kept"] == len(expected) >= 11
    assert chain["out"]["reshard"].counts == {"in": len(expected), "kept": len(expected), "dropped:missing": 0}
    written = [k for p in shards.list_shards(str(chain["root"] / "half-shards")) for k, _ in shards.read_all(p)]
    assert sorted(written) == [f"{u}-0" for u in expected]


def test_the_run_and_its_score_have_the_published_forms(chain: dict[str, Any]) -> None:
    run = chain["root"] / "run"
    names = {str(p.relative_to(run)) for p in run.rglob("*") if p.is_file()}
    assert {"config.yaml", "model_config.json", "metrics.jsonl", "checkpoints/latest.pt", "_manifest.json"} <= names
    steps = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [s["step"] for s in steps] == [1, 2, 3, 4]
    assert all(np.isfinite(s["loss"]) for s in steps)
    (result,) = [json.loads(line) for line in (run / "eval_results.jsonl").read_text().splitlines()]
    assert list(result) == ["key", "dataset", "metrics"]
    assert result["key"] == "covers"
    assert set(result["metrics"]) == {"acc1", "acc5", "mean_per_class_recall", "main_metric"}
    assert 0 <= result["metrics"]["acc1"] <= 1
