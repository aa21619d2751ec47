"""Several annotators in one run: one reading, one decoding, and each family as if it had been made alone."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.annotate import unit
from pipeline.annotate.annotator import Annotator, Batch
from pipeline.annotate.answers import Answers
from pipeline.annotate.job import Settings, annotate, dry_run
from pipeline.annotate.pictures import picture
from pipeline.annotate.rows import rows as read_rows
from pipeline.annotate.rows import with_pictures
from pipeline.download.images.decode import Decoded, Reject, decode
from pipeline.engine import Options
from pools import shards
from pools.errors import InputError, WorkFailed
from pools.layout import Pool
from tests.pipeline.annotating import Row, family, jpeg, rows, write
from tests.pipeline.annotators import Brightness, Length, calls

QUIET = Options(quiet=True, workers=0)
SMALL = Settings(batch_size=2)


def run(pool: Path, *annotators: Annotator, options: Options = QUIET, settings: Settings = SMALL) -> dict[str, dict[str, int]]:
    calls.clear()
    chosen = [(type(a).__name__.lower(), a) for a in annotators]
    return {n: f.outcome.counts for n, f in annotate(str(pool), chosen, settings=settings, options=options).items()}


def files(pool: Path, name: str) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in sorted((pool / "annotations" / name).glob("0*"))}


def test_values_features_reasons_and_counts_by_hand(tmp_path: Path) -> None:
    samples = rows(6)
    samples[1] = (samples[1][0], "odd", samples[1][2])
    samples[2] = (samples[2][0], None, b"not a picture")
    samples[3] = (samples[3][0], "x" * 102, None)
    samples[4] = (samples[4][0], "even", samples[4][2])
    write(tmp_path, "00000000", samples, tar_order=[5, 3, 1, 0, 2])
    counts = run(tmp_path, Brightness(), Length())
    assert [(r["brightness_mean"] is None, r["brightness_reason"]) for r in family(tmp_path, "brightness")] == [
        (False, None),
        (False, None),
        (True, "not_an_image"),
        (True, "no_image"),
        (True, "absent_sample"),
        (False, None),
    ]
    with np.load(tmp_path / "annotations/brightness/00000000.npz") as arrays:
        sizes = arrays["brightness_size"]
    assert sizes.dtype == np.float16
    assert sizes.tolist() == [[30, 40], [30, 40], [0, 0], [0, 0], [0, 0], [30, 40]]
    assert [(r["text_length"], r["length_reason"]) for r in family(tmp_path, "length")] == [
        (None, "odd"),  # T53: null, never 0.0
        (None, "odd"),
        (None, "no_text"),
        (None, "not_finite"),
        (4.0, None),
        (None, "odd"),
    ]
    assert counts["brightness"] == {
        "in": 6,
        "kept": 3,
        "failed:absent_sample": 1,
        "failed:no_image": 1,
        "failed:not_an_image": 1,
    }
    assert counts["length"] == {"in": 6, "kept": 1, "failed:no_text": 1, "failed:not_finite": 1, "failed:odd": 3}
    assert not (tmp_path / "annotations/length/00000000.npz").exists()


def test_one_reading_and_one_decoding_for_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "00000000", rows(5))
    counted: Counter[str] = Counter()
    samples = shards.samples

    def read(path: str) -> Iterator[shards.Sample]:
        counted["read"] += 1
        return samples(path)

    def decoded(*args: Any) -> Decoded | Reject:
        counted["decoded"] += 1
        return decode(*args)

    monkeypatch.setattr(shards, "samples", read)
    monkeypatch.setattr(picture, "decode", decoded)
    run(tmp_path, Brightness(), Brightness("twice"), Length())
    assert counted == {"read": 1, "decoded": 5}


def test_no_family_depends_on_who_runs_beside_it(tmp_path: Path) -> None:
    large: list[Row] = [(f"{i:032x}", "even", jpeg(i, (400, 300))) for i in range(5)]
    all_of = (Brightness(), Brightness("small", min_side=70), Length(), Brightness("some", breaks_at="none"))
    for pool in ("together", "alone", "backwards"):
        write(tmp_path / pool, "00000000", large, tar_order=[3, 1, 4, 0, 2])
    run(tmp_path / "together", *all_of)
    run(tmp_path / "backwards", *reversed(all_of), settings=Settings(batch_size=3, threads=4))
    for one in all_of:
        run(tmp_path / "alone", one)
    for one in all_of:
        assert len(files(tmp_path / "alone", one.name)) >= 1
        assert files(tmp_path / "together", one.name) == files(tmp_path / "alone", one.name)
        assert files(tmp_path / "backwards", one.name) == files(tmp_path / "alone", one.name)
    assert (
        family(tmp_path / "alone", "small")[0]["small_mean"] != family(tmp_path / "alone", "brightness")[0]["brightness_mean"]
    )
    with np.load(tmp_path / "alone/annotations/small/00000000.npz") as arrays:
        assert arrays["small_size"].tolist() == [[75, 100]] * 5  # a quarter: an eighth would be 38 high


def test_a_header_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for i in range(3):
        write(tmp_path, f"0000000{i}", rows(2, 2 * i))
    made: list[str] = []

    def header(self: Length) -> dict[str, Any]:
        made.append(self.name)
        return {"version": 1}

    monkeypatch.setattr(Length, "header", header)
    run(tmp_path, Length())
    assert made == ["length"]  # it may hash large files


# T55
def test_only_what_is_missing_is_computed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, "00000000", rows(3))
    run(tmp_path, Brightness())
    write(tmp_path, "00000001", rows(3, 3))
    assert run(tmp_path, Brightness(), Length()) == {
        "brightness": {"in": 6, "kept": 6},
        "length": {"in": 6, "kept": 0, "failed:odd": 6},
    }
    assert calls == {  # the second shard alone, and all texts
        "brightness load": 1,
        "brightness prepare": 3,
        "brightness annotate": 3,
        "length load": 1,
        "length annotate": 6,
    }
    capsys.readouterr()
    run(tmp_path, Length(), Brightness(), options=replace(QUIET, quiet=False))
    assert not calls
    assert capsys.readouterr().err.count("nothing to do") == 2
    (tmp_path / "annotations/length/.winnow/done/00000001.json").unlink()
    (tmp_path / "annotations/length/_manifest.json").unlink()
    run(tmp_path, Brightness(), Length())
    assert calls == {"length load": 1, "length annotate": 3}


def test_a_changed_shard_is_done_again_where_pictures_are_looked_at(tmp_path: Path) -> None:
    write(tmp_path, "00000000", rows(3))
    run(tmp_path, Brightness(), Length())
    with shards.write(str(tmp_path / "shards/00000000.tar")) as tar:
        tar.add("00000", {"jpg": jpeg(9), "json": json.dumps({"uid": rows(1)[0][0]}).encode()})
    assert run(tmp_path, Brightness(), Length())["brightness"] == {"in": 3, "kept": 1, "failed:absent_sample": 2}
    assert calls["length annotate"] == 0


def test_one_that_breaks_leaves_the_others_done(tmp_path: Path) -> None:
    for i in range(3):
        write(tmp_path, f"0000000{i}", rows(3, 3 * i))
    broken = Brightness("broken", breaks_at=f"{4:032x}")
    with pytest.raises(WorkFailed, match=r"00000001: RuntimeError: broken on purpose") as e:
        run(tmp_path, Brightness(), broken, Length())
    assert "1 of 3 units failed" in str(e.value)
    done = {p.parent.name for p in tmp_path.glob("annotations/*/_manifest.json")}
    assert done == {"brightness", "length"}
    assert sorted(files(tmp_path, "broken")) == ["00000000.npz", "00000000.parquet", "00000002.npz", "00000002.parquet"]
    with pytest.raises(WorkFailed):
        run(tmp_path, Brightness(), broken, Length())
    assert calls["brightness load"] == 0
    assert calls["broken prepare"] <= 3
    two = (Brightness("one", breaks_at=f"{4:032x}"), Brightness("two", breaks_at=f"{5:032x}"))
    with pytest.raises(WorkFailed, match=r"one: RuntimeError.*; two: RuntimeError"):
        run(tmp_path, *two)


def test_a_damaged_shard_does_not_keep_those_who_read_texts_from_it(tmp_path: Path) -> None:
    write(tmp_path, "00000000", rows(3))
    tar = tmp_path / "shards/00000000.tar"
    tar.write_bytes(tar.read_bytes()[:3000])
    with pytest.raises(WorkFailed, match=r"00000000\.tar: cut"):
        run(tmp_path, Brightness(), Length())
    assert (tmp_path / "annotations/length/_manifest.json").exists()
    assert not list((tmp_path / "annotations/brightness").glob("*.parquet"))


def test_texts_need_no_shards(tmp_path: Path) -> None:
    pq.write_table(pa.table({"uid": ["a", "b"], "text": ["even", None]}), tmp_path / "bare.parquet")
    assert run(tmp_path, Length())["length"] == {"in": 2, "kept": 1, "failed:no_text": 1}
    with pytest.raises(InputError, match=r"no shard for bare\.parquet"):
        run(tmp_path, Brightness())


def test_columns_of_other_families_are_read_arrays_as_rows(tmp_path: Path) -> None:
    write(tmp_path, "00000000", rows(3))
    run(tmp_path, Brightness())
    seen: list[Any] = []

    class Reader(LengthLike):
        reads = ("brightness_size", "brightness_mean")

        def prepare(self, sample: Any) -> Any:
            seen.append((sample.text, sample.columns["brightness_size"].tolist(), sample.columns["brightness_mean"]))
            return sample

    run(tmp_path, Reader())
    assert seen == [(None, [30, 40], r["brightness_mean"]) for r in family(tmp_path, "brightness")]
    write(tmp_path / "other", "00000000", rows(1))
    with pytest.raises(InputError, match="no column 'brightness_size', which reader reads"):
        run(tmp_path / "other", Reader())
    run(tmp_path, Brightness(version=2), options=replace(QUIET, overwrite=True))
    assert run(tmp_path, Reader())  # made of another file now, so it is made again
    assert len(seen) == 6


class LengthLike:
    """An annotator and its model in one."""

    name, wants_image, fields = "like", False, (pa.field("like", pa.int16()),)
    reads: tuple[str, ...] = ("text",)
    arrays: dict[str, int] = {}  # noqa: RUF012

    def header(self) -> dict[str, Any]:
        return {}

    def load(self, device: str, threads: int) -> Any:
        return self

    def prepare(self, sample: Any) -> Any:
        return sample

    def annotate(self, inputs: Any) -> Batch:
        return Batch({"like": [1] * len(inputs)})


def test_what_cannot_be_is_refused_before_any_work(tmp_path: Path) -> None:
    write(tmp_path, "00000000", rows(2), length=[1, 2])

    def refused(*annotators: Annotator, pool: Path = tmp_path, options: Options = QUIET, **settings: Any) -> str:
        with pytest.raises(InputError) as e:
            run(pool, *annotators, options=options, settings=Settings(**settings))
        assert not (tmp_path / "annotations").exists()
        return str(e.value)

    assert "column 'length' exists already" in refused(Length(column="length"))
    assert "column 'x' of both" in refused(Length("a", column="x"), Length("b", column="x"))
    assert "two families 'length'" in refused(Length(), Length())
    assert "lower-case" in refused(Length("Länge"))
    assert "no column 'likes'" in refused(Length(reads=("likes",)))
    assert "batch size 0" in refused(Length(), batch_size=0)
    assert "unknown device 'gpu'" in refused(Length(), device="gpu", options=replace(QUIET, engine="spark"))
    # T54: parquet where a pool, or a tar, is expected
    assert "a file, where a pool is expected" in refused(Length(), pool=tmp_path / "metadata/00000000.parquet")
    tar = tmp_path / "shards/00000000.tar"
    tar.unlink()
    (tmp_path / "shards/00000000.parquet").write_bytes((tmp_path / "metadata/00000000.parquet").read_bytes())
    assert "00000000.parquet is there, and is no shard" in refused(Brightness())


# T54
def test_a_parquet_file_by_the_name_of_a_tar_is_named(tmp_path: Path) -> None:
    write(tmp_path, "00000000", rows(2))
    (tmp_path / "shards/00000000.tar").write_bytes((tmp_path / "metadata/00000000.parquet").read_bytes())
    with pytest.raises(InputError, match=r"00000000\.tar: not a tar(.|\n)*expected an uncompressed tar"):
        run(tmp_path, Brightness())
    assert not files(tmp_path, "brightness")


# T60
def test_a_device_that_is_missing_is_an_error_on_the_worker_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "00000000", rows(1))
    monkeypatch.setattr(unit, "has_cuda", lambda: False)
    monkeypatch.setattr("pipeline.annotate.job.has_cuda", lambda: True)
    with pytest.raises(InputError, match="no CUDA device"):
        run(tmp_path, Brightness(), settings=Settings(device="cuda"))
    run(tmp_path, Brightness(), settings=Settings(device="cpu"))
    header = json.loads(pq.read_schema(tmp_path / "annotations/brightness/00000000.parquet").metadata[b"winnow"])
    assert header["device"] == "cpu"


# T50
def test_a_pool_of_which_nothing_can_be_judged_is_a_problem(tmp_path: Path) -> None:
    write(tmp_path, "00000000", [(uid, None, image) for uid, _, image in rows(3)])
    found = annotate(str(tmp_path), [("length", Length())], options=QUIET)["length"]
    assert found.outcome.problems == ("none of 3 rows could be judged: no_text",)


# T51
def test_no_rows_give_empty_files_and_load_nothing(tmp_path: Path) -> None:
    write(tmp_path, "00000000", [])
    calls.clear()
    assert run(tmp_path, Brightness(), Length()) == {"brightness": {"in": 0, "kept": 0}, "length": {"in": 0, "kept": 0}}
    schema = pq.read_schema(tmp_path / "annotations/brightness/00000000.parquet")
    assert [(f.name, f.type) for f in schema] == [
        ("uid", pa.string()),
        ("brightness_mean", pa.float64()),
        ("brightness_reason", pa.string()),
    ]
    with np.load(tmp_path / "annotations/brightness/00000000.npz") as arrays:
        assert arrays["brightness_size"].shape == (0, 2)


def test_parts_make_the_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for i in range(3):
        write(tmp_path, f"0000000{i}", rows(2, 2 * i))
    loud = replace(QUIET, quiet=False)
    run(tmp_path, Brightness(), Length(), options=replace(loud, part=(0, 2)))
    assert "part 0/2 is done, other parts are not yet" in capsys.readouterr().err
    assert len(files(tmp_path, "length")) == 2
    assert not list(tmp_path.glob("annotations/*/_manifest.json"))
    assert run(tmp_path, Brightness(), Length(), options=replace(loud, part=(1, 2)))["brightness"] == {"in": 6, "kept": 6}
    assert len(list(tmp_path.glob("annotations/*/_manifest.json"))) == 2


def test_the_manifest_says_how_long_each_took(tmp_path: Path) -> None:
    write(tmp_path, "00000000", rows(3))
    found = annotate(str(tmp_path), [("brightness", Brightness())], options=QUIET)["brightness"]
    manifest = json.loads((tmp_path / "annotations/brightness/_manifest.json").read_text())
    assert manifest["stage"] == "annotate brightness"
    assert set(manifest["speed"]) == {
        *("rows", "rows_per_second"),
        *(f"{what}_seconds" for what in ("decode", "prepare", "annotate", "elapsed")),
    }
    assert manifest["speed"]["rows"] == 3
    assert found.speed is not None
    assert 0 < found.speed.decode < found.speed.elapsed
    assert manifest["counts"] == {"in": 3, "kept": 3}
    mark = json.loads((tmp_path / "annotations/brightness/.winnow/done/00000000.json").read_text())
    assert mark["counts"] == {"in": 3, "kept": 3}  # no times: marks are the same each time


def test_a_dry_run_says_what_is_to_do_and_writes_nothing(tmp_path: Path) -> None:
    for i in range(2):
        write(tmp_path, f"0000000{i}", rows(2, 2 * i))
    chosen: list[tuple[str, Annotator]] = [("brightness", Brightness()), ("length", Length())]
    lines = "\n".join(dry_run(str(tmp_path), chosen, QUIET))
    assert not (tmp_path / "annotations").exists()
    assert "annotate brightness: 2 of 2 files to do, 4 rows" in lines
    assert "reads the pictures" in lines
    assert "writes text_length, length_reason" in lines
    assert "version: 1" in lines
    run(tmp_path, Brightness())
    write(tmp_path, "00000002", rows(5, 4))
    lines = "\n".join(dry_run(str(tmp_path), chosen, QUIET))
    assert "annotate brightness: 1 of 3 files to do, 5 rows" in lines
    assert "annotate length: 3 of 3 files to do, 9 rows" in lines


def test_answers_of_another_shape_are_told(tmp_path: Path) -> None:
    answers = Answers(Brightness(), 3)
    good = {"brightness_mean": [1.0, 2.0]}, {"brightness_size": np.ones((2, 2))}
    answers.fill([0, 2], Batch(*good))
    for wrong in (
        Batch({}, good[1]),
        Batch({"brightness_mean": [1.0]}, good[1]),
        Batch(good[0], {}),
        Batch(good[0], {"brightness_size": np.ones((2, 3))}),
        Batch(*good, reasons=[None]),
    ):
        with pytest.raises(ValueError, match="brightness was asked about 2 rows"):
            answers.fill([0, 2], wrong)
    answers.fill([1], Batch({"brightness_mean": [1.0]}, {"brightness_size": np.array([[1, np.inf]])}))
    assert answers.counts() == {"in": 3, "kept": 2, "failed:not_finite": 1}


@pytest.mark.slow
@pytest.mark.spark
def test_spark_and_processes_give_the_same_bytes(tmp_path: Path, spark: Any) -> None:
    for pool in ("here", "spark", "processes"):
        for i in range(3):
            write(tmp_path / pool, f"0000000{i}", rows(4, 4 * i))
    run(tmp_path / "here", Brightness(), Length())
    run(tmp_path / "spark", Brightness(), Length(), options=Options(engine="spark", quiet=True))
    run(tmp_path / "processes", Brightness(), Length(), options=Options(workers=2, quiet=True))
    for name in ("brightness", "length"):
        assert len(files(tmp_path / "here", name)) >= 3
        assert files(tmp_path / "spark", name) == files(tmp_path / "here", name)
        assert files(tmp_path / "processes", name) == files(tmp_path / "here", name)


def test_rows_come_as_the_shard_has_them_then_those_it_has_not(tmp_path: Path) -> None:
    samples = rows(6)
    samples[4] = samples[1]  # of equal uids the first row gets the first sample
    write(tmp_path, "00000000", samples)
    with shards.write(str(tmp_path / "shards/00000000.tar")) as tar:
        for i, number in enumerate((3, 99, 1, 5, 1)):
            tar.add(f"{i}", {"jpg": jpeg(number), "json": json.dumps({"uid": f"{number:032x}"}).encode()})
    part = Pool.open(str(tmp_path)).parts[0]
    found = list(with_pictures(read_rows(part, ["text"]), str(tmp_path / "shards/00000000.tar")))
    assert [row.number for row in found] == [3, 1, 5, 4, 0, 2]
    assert [row.picture == "absent_sample" for row in found] == [False] * 4 + [True] * 2
