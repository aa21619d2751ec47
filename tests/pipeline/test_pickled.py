"""Arrays out of pickles: what PyTorch wrote comes out as it is, and nothing in a file is ever run."""

from __future__ import annotations

import io
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from pipeline.cli import app
from pipeline.pickled import convert, read_array
from pools.errors import InputError

ROWS = np.arange(12, dtype=np.float32).reshape(3, 4) / 7


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("kind", ["f2", "f4", "f8"])
def test_arrays_come_out_as_they_were(tmp_path: Path, protocol: int, kind: str) -> None:
    rows = ROWS.astype(kind)
    for name, value in (("array", rows), ("map", {"centroids": rows}), ("columns", np.asfortranarray(rows))):
        path = str(tmp_path / f"{name}.pt")
        torch.save(value, path, pickle_protocol=protocol)
        found = read_array(path)
        assert found.dtype == rows.dtype
        assert found.tolist() == rows.tolist()


@pytest.mark.parametrize("kind", [torch.float16, torch.float32, torch.float64])
def test_tensors_come_out_as_they_were(tmp_path: Path, kind: torch.dtype) -> None:
    whole = torch.from_numpy(ROWS).to(kind)
    for name, value in (("tensor", whole), ("map", {"image_features": whole}), ("part", whole[1:])):
        path = str(tmp_path / f"{name}.pt")
        torch.save(value, path)
        assert read_array(path).tolist() == (whole[1:] if name == "part" else whole).tolist()


def test_a_bare_pickle_of_an_array_comes_out(tmp_path: Path) -> None:
    (tmp_path / "a.pkl").write_bytes(pickle.dumps(ROWS, 4))
    assert read_array(str(tmp_path / "a.pkl")).tolist() == ROWS.tolist()


class Exploit:
    """Makes a file where it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


class Ndarray:
    """An array of objects at addresses that the bytes give: merely to look at it ends the process."""

    def __reduce__(self) -> tuple[Any, ...]:
        return np.ndarray, ((1,), np.dtype("O"), b"\x01" * 8)


def archive(code: bytes, **files: bytes) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as file:
        file.writestr("archive/data.pkl", code)
        for name, octets in files.items():
            file.writestr(f"archive/data/{name}", octets)
    return content.getvalue()


@pytest.mark.parametrize("wrapped", [lambda v: v, lambda v: {"image_features": v}, lambda v: [ROWS, v], lambda v: (v, ROWS)])
@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_hostile_pickles_are_refused_and_not_run(tmp_path: Path, wrapped: Any, zipped: bool, protocol: int) -> None:
    trace = tmp_path / "trace"
    code = pickle.dumps(wrapped(Exploit(trace)), protocol)
    path = tmp_path / "bad.pt"
    path.write_bytes(archive(code) if zipped else code)
    with pytest.raises(InputError, match=r"bad\.pt: not a file of numbers alone"):
        read_array(str(path))
    assert not trace.exists()
    pickle.loads(code)  # noqa: S301  (the file is one that would have done it)
    assert trace.exists()


def test_an_exploit_within_an_array_is_refused(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    objects = np.array([[1.0, Exploit(trace)]], object)
    for name, value in (("objects", objects), ("address", Ndarray()), ("state", {"a": ROWS, "b": Exploit(trace)})):
        (tmp_path / name).write_bytes(pickle.dumps(value, 4))
        with pytest.raises(InputError, match=f"{name}: not a file of numbers alone"):
            read_array(str(tmp_path / name))
    assert not trace.exists()


def test_what_is_not_numbers_is_refused(tmp_path: Path) -> None:
    cases: dict[str, Any] = {"text": "centroids", "whole": np.arange(4), "two": {"a": ROWS, "b": ROWS}, "list": [ROWS]}
    for name, value in cases.items():
        torch.save(value, tmp_path / name, pickle_protocol=4)
        with pytest.raises(InputError, match=f"{name}: not a file of numbers alone"):
            read_array(str(tmp_path / name))
    torch.save(torch.arange(6).reshape(2, 3), tmp_path / "long")
    torch.save(torch.from_numpy(ROWS).T, tmp_path / "turned")
    (tmp_path / "cut").write_bytes(pickle.dumps(ROWS, 4)[:-9])
    (tmp_path / "nothing").write_bytes(b"")
    (tmp_path / "noise").write_bytes(bytes(range(256)))
    for name in ("long", "turned", "cut", "nothing", "noise"):
        with pytest.raises(InputError, match=f"{name}: not a file of numbers alone"):
            read_array(str(tmp_path / name))


def test_a_tensor_cannot_reach_beyond_its_storage(tmp_path: Path) -> None:
    torch.save(torch.from_numpy(ROWS), tmp_path / "t.pt")
    with zipfile.ZipFile(tmp_path / "t.pt") as file:
        names = file.namelist()
        code = file.read(next(n for n in names if n.endswith("data.pkl")))
    (tmp_path / "short.pt").write_bytes(archive(code, **{"0": ROWS.tobytes()[:-4]}))
    with pytest.raises(InputError, match="of 11 numbers"):
        read_array(str(tmp_path / "short.pt"))


def test_files_are_put_one_behind_the_other(tmp_path: Path) -> None:
    for i in (0, 1):
        torch.save({"image_features": torch.from_numpy(ROWS + i)}, tmp_path / f"{i}.pt")
    sources, output = [str(tmp_path / "0.pt"), str(tmp_path / "1.pt")], str(tmp_path / "all.npy")
    result = CliRunner().invoke(app, ["cluster", "convert", *sources, output])
    assert result.exit_code == 0, result.output
    assert "all.npy: 6 x 4 numbers, float32" in result.stdout
    assert np.load(output).tolist() == [*ROWS.tolist(), *(ROWS + 1).tolist()]
    torch.save(ROWS[:, :2], tmp_path / "narrow.pt")
    with pytest.raises(InputError, match=r"narrow\.pt: shape \(3, 2\), of .*0\.pt \(3, 4\)"):
        convert([sources[0], str(tmp_path / "narrow.pt")], output)
    torch.save(ROWS * np.float32("nan"), tmp_path / "nan.pt")
    with pytest.raises(InputError, match=r"nan\.pt: numbers that are not finite"):
        convert([str(tmp_path / "nan.pt")], output)
    with pytest.raises(InputError, match="as the last of the files"):
        convert(sources, sources[1])
