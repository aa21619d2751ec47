"""The run of a scoring: what is asked for, what is kept on disk and used again, and what each suite comes to."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from typer.testing import CliRunner

from baselines.score.aggregate import read
from baselines.score.cache import DiskCache
from baselines.score.encode import Encoder, FeatureCache
from baselines.score.evals.tars import Pictures
from baselines.score.results import Scores
from baselines.score.suite import Caching, score
from baselines.train.model import load_model
from pipeline.cli import app
from pools import shards
from pools.errors import InputError, WorkFailed
from tests.baselines.conftest import square, write_shard, write_task


class Count:
    """How many images and texts a model has encoded, as its own methods see them."""

    images = texts = 0

    def take(self) -> tuple[int, int]:
        found = (self.images, self.texts)
        self.images = self.texts = 0
        return found


@pytest.fixture
def count(monkeypatch: pytest.MonkeyPatch) -> Count:
    counted = Count()
    pixels, texts = Encoder._pixels, Encoder._texts

    def images_of(self: Encoder, batch: Tensor) -> Tensor:
        counted.images += len(batch)
        return pixels(self, batch)

    def texts_of(self: Encoder, batch: list[str]) -> Tensor:
        counted.texts += len(batch)
        return texts(self, batch)

    monkeypatch.setattr(Encoder, "_pixels", images_of)
    monkeypatch.setattr(Encoder, "_texts", texts_of)
    return counted


def quick(run: Path, evals: Path, **options: Any) -> Scores:
    return score(str(run), str(evals), quiet=True, **options)


def results(run: Path) -> bytes:
    return (run / "eval_results.jsonl").read_bytes()


def write_retrieval(folder: Path, like: Path) -> Path:
    """A task of retrieval on the pictures of a task of classification."""
    for tar in sorted((like / "test").glob("*.tar")):
        pictures = {key: members["png"] for key, members in shards.read_all(str(tar))}
        pairs = {key: {"png": png, "txt": f"picture {key}\n".encode()} for key, png in pictures.items()}
        write_shard(folder / "test" / tar.name, pairs)
    shutil.copy(like / "test" / "nshards.txt", folder / "test")
    (folder / "dataset_type.txt").write_text("retrieval\n")
    return folder


# Kept on disk -----------------------------------------------------------------------------------------------------------


def test_what_was_encoded_is_encoded_once(run: Path, tmp_path: Path, count: Count) -> None:
    evals = tmp_path / "e"
    task = write_task(evals / "wds_squares_test", [i % 3 for i in range(9)])
    first = quick(run, evals).results[0]
    assert count.take() == (9, 6)  # two prompts a class
    # Other templates: texts alone, and no picture is looked at.
    (task / "zeroshot_classification_templates.txt").write_text("one {c}\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Pictures, "__iter__", lambda self: pytest.fail("a picture is read"))
        again = quick(run, evals).results[0]
    assert count.take() == (0, 3)
    assert again.record["templates_sha256"] != first.record["templates_sha256"]
    # One class more: its prompt alone.
    (task / "classnames.txt").write_text("red\ngreen\nblue\npurple\n")
    quick(run, evals)
    assert count.take() == (0, 1)
    # Another task with the same pictures, and one with the same classes.
    write_retrieval(evals / "wds_own_test", task)
    quick(run, evals)
    assert count.take() == (0, 9)
    other = write_task(evals / "wds_other_test", [0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1])
    shutil.copy(task / "zeroshot_classification_templates.txt", other)
    quick(run, evals)
    assert count.take() == (2, 0)  # the first nine are those of the squares
    # The scores are those that there are without a cache.
    found = results(run)
    quick(run, evals, caching=Caching(gib=0), overwrite=True)
    assert results(run) == found
    assert count.take() == (9 + 9 + 11 - 18, 9 + 4)  # within one run memory serves


def test_a_picture_that_changed_is_encoded_again(run: Path, tmp_path: Path, count: Count) -> None:
    evals = tmp_path / "e"
    task = write_task(evals / "wds_squares_test", [0] * 6, tars=1)
    assert quick(run, evals).results[0].main_metric == 1.0
    tar = task / "test" / "0.tar"
    members = dict(shards.read_all(str(tar)))
    assert len(square("blue", 1)) <= len(members["s0000003"]["png"]) + 512
    members["s0000003"] = {**members["s0000003"], "png": square("blue", 1)}
    write_shard(tar, members)
    count.take()
    assert quick(run, evals).results[0].main_metric == pytest.approx(5 / 6)
    assert count.take() == (1, 0)


def test_what_cannot_be_read_is_remembered_as_such(run: Path, tmp_path: Path, count: Count) -> None:  # T119
    evals = tmp_path / "e"
    task = write_task(evals / "wds_squares_test", [0, 1, 2, 0], tars=1)
    members = dict(shards.read_all(str(task / "test" / "0.tar")))
    members["s0000001"] = {**members["s0000001"], "png": b"no picture"}
    write_shard(task / "test" / "0.tar", members)
    quick(run, evals, unreadable="wrong")
    first = (results(run), json.loads((run / "eval_manifest.json").read_text())["tasks"])
    assert first[1]["squares"]["unreadable"] == 1
    count.take()
    quick(run, evals, unreadable="wrong", overwrite=True)
    assert count.take() == (0, 0)
    assert (results(run), json.loads((run / "eval_manifest.json").read_text())["tasks"]) == first
    with pytest.raises(WorkFailed, match="s0000001 cannot be read"):
        quick(run, evals, overwrite=True)


def test_other_weights_share_nothing(run: Path, tmp_path: Path, count: Count) -> None:
    evals, cache = tmp_path / "e", tmp_path / "cache"
    write_task(evals / "wds_squares_test", [0, 1, 2])
    quick(run, evals, caching=Caching(str(cache)))
    assert count.take() == (3, 6) and not (run / "features.sqlite").exists()
    weights = load_model(str(run)).model.state_dict()
    weights["logit_scale"] += 0.1
    torch.save({"state_dict": weights}, run / "checkpoints" / "latest.pt")
    quick(run, evals, caching=Caching(str(cache)))
    assert count.take() == (3, 6)
    quick(run, evals, caching=Caching(str(cache)), overwrite=True)
    assert count.take() == (0, 0)


def vector(number: int) -> Tensor:
    return torch.full((256,), float(number))


@pytest.mark.parametrize("harm", ["head", "middle", "cut", "entry", "text"])
def test_a_damaged_cache_is_made_anew(tmp_path: Path, capsys: pytest.CaptureFixture[str], harm: str) -> None:
    path = tmp_path / "features.sqlite"
    with DiskCache(str(tmp_path), "model") as cache:
        for i in range(100):
            cache.put("image", str(i), vector(i))
        cache.remember("set", [str(i) for i in range(100)], {}, 256)
    data = bytearray(path.read_bytes())
    match harm:
        case "head":
            data[:100] = bytes(100)
        case "middle":
            data[4096:] = bytes(255 - b for b in data[4096:])
        case "cut":
            del data[len(data) // 2 :]
    path.write_bytes(data)
    if harm in ("entry", "text"):
        with sqlite3.connect(path) as db:
            db.execute("UPDATE entries SET value = ?", (bytes(1024) if harm == "entry" else "x" * 1024,))
        db.close()
    with DiskCache(str(tmp_path), "model") as cache:
        assert cache.known("set") is None
        for i in range(100):  # what there is of it is right
            found = cache.get("image", str(i))
            assert found is None or torch.equal(found, vector(i))
            cache.put("image", str(i), vector(i))
    with DiskCache(str(tmp_path), "model") as cache:
        assert all((v := cache.get("image", str(i))) is not None and torch.equal(v, vector(i)) for i in range(100))
    assert ("damaged and made anew" in capsys.readouterr().err) == (harm in ("head", "middle", "cut"))


def test_a_damaged_cache_changes_no_score(run: Path, tmp_path: Path, count: Count) -> None:
    evals = tmp_path / "e"
    write_task(evals / "wds_squares_test", [0, 1, 2])
    quick(run, evals)
    expected = results(run)
    (run / "features.sqlite").write_bytes(b"SQLite format 3\0" + bytes(5000))
    count.take()
    quick(run, evals, overwrite=True)
    assert results(run) == expected and count.take() == (3, 6)


def test_the_oldest_give_way(tmp_path: Path) -> None:
    limit = 2_000_000
    with DiskCache(str(tmp_path), "model", limit=limit) as cache:
        for i in range(4000):  # four megabytes
            cache.put("image", str(i), vector(i))
            if i % 500 == 499:
                cache.save()
        held = [i for i in range(4000) if cache.get("image", str(i)) is not None]
    assert 500 <= len(held) < 1500 and held == list(range(4000 - len(held), 4000))
    assert (tmp_path / "features.sqlite").stat().st_size < 1.5 * limit
    with DiskCache(str(tmp_path), "other", limit=limit) as cache:
        assert cache.get("image", "3999") is None


def test_a_set_is_known_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    failed = {1: ("undecodable", "not_an_image: none")}
    with DiskCache(str(tmp_path), "model") as cache:
        for key in "abc":
            cache.put("image", key, vector(ord(key)))
        cache.remember("set", ["c", "a", "c"], failed, 256)
        cache.remember("more", ["c", "d"], {}, 256)
        cache.save()
        known = cache.known("set")
        assert known is not None and known.failed == failed
        assert torch.equal(known.features, torch.stack([vector(ord(k)) for k in "cac"]))
        assert cache.known("more") is None and cache.known("none") is None
        assert cache.known("set", most=3 * 1024 - 1) is None


def test_two_at_once_and_a_cache_that_goes_away(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with DiskCache(str(tmp_path), "model") as one, DiskCache(str(tmp_path), "model") as other:
        one.put("image", "a", vector(1))
        other.put("image", "a", vector(1))
        other.put("image", "b", vector(2))
        one.save()
        other.save()
        assert one.get("image", "b") is not None and other.get("image", "a") is not None
        shutil.rmtree(tmp_path)
        one.put("image", "c", vector(3))
        one.save()
        assert one.get("image", "d") is None  # and nothing is raised
    (tmp_path / "file").parent.mkdir(exist_ok=True)
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="no cache here"):
        DiskCache(str(tmp_path / "file"), "model")


def test_what_is_kept_in_memory_has_a_bound_without_a_file(run: Path, evals: Path) -> None:
    quick(run, evals, caching=Caching(gib=0))
    assert not (run / "features.sqlite").exists()
    with pytest.raises(InputError, match="--cache-gib"):
        quick(run, evals, caching=Caching(gib=-1))
    with pytest.raises(InputError, match="a folder of this machine for --cache"):
        quick(run, evals, caching=Caching("s3://bucket/x"), overwrite=True)


def test_features_of_a_set_are_got_at_once(run: Path, evals: Path, tmp_path: Path, count: Count) -> None:
    from baselines.score.evals import data as evaldata

    loaded = load_model(str(run))
    tars = evaldata.open_tars(str(evals / "wds_squares_test" / "test"))
    with DiskCache(str(tmp_path), "model") as disk:
        make: Callable[[], Encoder] = lambda: Encoder(loaded, cache=FeatureCache(0), disk=disk, batch_size=8)  # noqa: E731
        items, features = make().features(evaldata.images(tars, range(30)), "squares")
        assert [i.target for i in items] == list(range(30)) and features.shape == (30, 128)
        assert count.take()[0] == 30
        again, same = make().features(evaldata.images(tars, range(30)), "squares")
        assert torch.equal(same, features) and again == items and count.take()[0] == 0
        # Images of any other kind have a digest if somebody gives them one.
        raws = list(evaldata.images(tars, range(30)))
        _, same = make().features(iter(raws), "squares", "mine")
        assert torch.equal(same, features)
        bare, same = make().features((replace(raw, image=b"") for raw in raws), "squares", "mine")
        assert torch.equal(same, features) and bare == items


def test_tars_are_looked_through_once(run: Path, evals: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    shutil.copytree(evals, tmp_path / "e")  # a folder that no other test has opened
    opened: list[str] = []
    samples = shards.samples

    def opening(path: str) -> Iterator[shards.Sample]:
        opened.append(Path(path).name)
        return samples(path)

    monkeypatch.setattr(shards, "samples", opening)
    quick(run, tmp_path / "e")
    assert opened == ["0.tar", "1.tar"]


# Suites -----------------------------------------------------------------------------------------------------------------


def test_a_suite_is_asked_for_as_a_whole(run: Path, tmp_path: Path) -> None:  # T114, T115
    evals = tmp_path / "e"
    write_task(evals / "wds_vtab-pets_test", [0, 1, 2])
    write_task(evals / "wds_mine_test", [0, 1, 2])
    with pytest.raises(
        InputError, match=r"no data for 37 of the 38 tasks of suite datacomp: .*mnist, .*(\n.*)*--allow-missing"
    ):
        quick(run, evals, suites=["datacomp"])
    assert not (run / "eval_results.jsonl").exists()
    scored = quick(run, evals, suites=["datacomp"], allow_missing=True)
    assert [r.task.key for r in scored.results] == ["vtab/pets"]  # and not what belongs to none
    told = scored.summary("o")["aggregate"]
    assert (told["average"], told["scored"], told["of"], len(told["missing"])) == (None, 1, 38, 37)
    assert told["partial_mean"] == scored.results[0].main_metric
    shown = scored.table()
    assert "1 of the 38 tasks that count: no average, partial mean" in shown and "missing: vtab/caltech101, cifar10, " in shown
    # A folder that simply holds some tasks is scored as it is, as are tasks that are named.
    assert len(quick(run, evals).results) == 2
    assert [r.task.key for r in quick(run, evals, suites=["datacomp"], tasks=["vtab/pets"]).results] == ["vtab/pets"]
    with pytest.raises(InputError, match="no suite 'eastern'"):
        quick(run, evals, suites=["eastern"])


def test_suites_have_means_of_their_own(run: Path, tmp_path: Path) -> None:
    evals = tmp_path / "e"
    write_task(evals / "wds_vtab-pets_test", [0, 1, 2, 0, 1, 2])
    arguments = ["score", str(run), "--evals", str(evals), "--suite", "datacomp,within", "--allow-missing", "--json", "--quiet"]
    said = CliRunner().invoke(app, arguments)
    told = json.loads(said.stdout)
    assert told["aggregate"]["scored"] == 1 and told["aggregate"]["average"] is None
    assert told["results"].keys() == {"vtab/pets", "image_to_image/pets"}
    (within,) = told["suites"].values()
    assert (within["mean"], within["scored"], within["of"], len(within["missing"])) == (None, 1, 5, 4)
    assert within["values"] == {"image_to_image/pets": told["results"]["image_to_image/pets"]["main_metric"]}
    shown = quick(run, evals, suites=["within"], allow_missing=True).table()
    assert "suite within: 1 of 5 scores: no mean\nmissing: text_to_text/mscoco_2014_5k_test, " in shown
    assert "tasks that count" not in shown  # which are DataComp's
    # DataComp's average is of its own tasks, whatever else stands in the file.
    assert [json.loads(line)["key"] for line in results(run).splitlines()] == ["vtab/pets", "image_to_image/pets"]
    assert read(str(run)).aggregate(allow_missing=True).scored == 1
