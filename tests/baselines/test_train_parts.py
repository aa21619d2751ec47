"""The trainer's parts: marks of checkpoints, models."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest
import torch

from baselines.train.checkpoint import due
from baselines.train.model import MODELS, load_model, new_model
from pools.errors import InputError

# Checkpoints ---------------------------------------------------------------------------------------------------------------


def test_checkpoints_are_evenly_spread_and_end_with_the_run() -> None:
    batches = [10] * 10 + [3]  # 103 samples: marks at 20.6, 41.2, 61.8, 82.4 and 103
    seen, marks = 0, []
    for n in batches:
        seen += n
        if due(seen, n, 103, 5):
            marks.append(seen)
    assert marks == [30, 50, 70, 90, 103]


# Models ---------------------------------------------------------------------------------------------------------------------


def test_nothing_is_fetched_from_a_hub() -> None:
    for name in ("hf-hub:laion/CLIP-ViT-B-32", "local-dir:/nowhere"):
        with pytest.raises(InputError, match="unknown model"):
            new_model(name)
    with pytest.raises(InputError, match="text tower or tokenizer from the network"):
        new_model("roberta-ViT-B-32")
    with pytest.raises(InputError, match="no such file of weights"):
        load_model("ViT-B-32", "openai")
    with pytest.raises(InputError, match="no weights for winnow-tiny"):
        load_model("winnow-tiny")


def test_a_run_loads_by_folder_by_config_and_by_name(trained: Path) -> None:
    latest = trained / "checkpoints" / "latest.pt"
    sources = [(str(trained), None), (str(trained / "model_config.json"), str(latest)), ("winnow-tiny", str(latest))]
    tokens = None
    for source, pretrained in sources:
        loaded = load_model(source, pretrained)
        features = loaded.model.eval().encode_text(loaded.tokenizer(["a red square"]))
        assert tokens is None or torch.equal(features, tokens)
        tokens = features


def test_a_config_file_may_have_any_name(tmp_path: Path) -> None:
    """open_clip takes the tokenizer from the hub, which there is none of here, for names with "siglip" in them."""
    config = json.loads((MODELS / "winnow-vit-tiny.json").read_text())
    files = [tmp_path / name for name in ("my-siglip.json", "ViT-B-32.json", "hf-hub:x.json")]
    for file in files:
        file.write_text(json.dumps(config))
    loaded = [new_model(str(file)) for file in files]
    assert [one.config for one in loaded] == [config] * 3
    assert all(torch.equal(one.tokenizer(["a red square"]), loaded[0].tokenizer(["a red square"])) for one in loaded)


def test_weights_that_are_damaged_foreign_or_hostile_are_refused(tmp_path: Path, trained: Path) -> None:
    class Harm:
        def __reduce__(self) -> tuple[object, ...]:
            return (Path.touch, (tmp_path / "harmed",))

    whole = (trained / "checkpoints" / "step_40.pt").read_bytes()
    (tmp_path / "cut.pt").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "noise.pt").write_bytes(b"not a checkpoint")
    (tmp_path / "harm.pt").write_bytes(pickle.dumps({"state_dict": Harm()}))
    torch.save({"state_dict": Harm()}, tmp_path / "harm2.pt")
    torch.save({"state_dict": {"logit_scale": torch.tensor(1.0)}}, tmp_path / "other.pt")
    for name in ("cut.pt", "noise.pt", "harm.pt", "harm2.pt", "other.pt"):
        with pytest.raises(InputError, match="cannot be read as weights of winnow-tiny"):
            load_model("winnow-tiny", str(tmp_path / name))
    assert not (tmp_path / "harmed").exists()


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"model_config\.json: no such file"):
        load_model(str(tmp_path))
    (tmp_path / "model_config.json").write_text('{"name": "x"}')
    with pytest.raises(InputError, match="no model config"):
        load_model(str(tmp_path), str(tmp_path / "model_config.json"))
