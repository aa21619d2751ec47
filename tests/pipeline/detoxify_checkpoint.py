"""Small checkpoints of Detoxify's form, of random weights, with the config and the tokenizer of their base."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

WIDTH, WIDE, LAYERS, HEADS, OUTPUTS, PLACES = 32, 48, 2, 2, 5, 520
WORDS = ["you", "are", "a", "kind", "stupid", "person", "dog", "beach"]
CLASSES = {"bert": ["toxic", "severe_toxic", "obscene"], "roberta": ["toxicity", "severe_toxicity", "sexual_explicit"]}
NAMES = {"bert": "BertForSequenceClassification", "roberta": "XLMRobertaForSequenceClassification"}
SPECIALS = {"bert": ["[PAD]", "[UNK]", "[CLS]", "[SEP]"], "roberta": ["<s>", "<pad>", "</s>", "<unk>"]}


def config(kind: str) -> dict[str, Any]:
    return {
        "model_type": "bert" if kind == "bert" else "xlm-roberta", "hidden_size": WIDTH, "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS, "intermediate_size": WIDE, "hidden_act": "gelu", "layer_norm_eps": 1e-5,
        "max_position_embeddings": PLACES, "vocab_size": len(WORDS) + 4, "type_vocab_size": 2, "num_labels": OUTPUTS,
        "pad_token_id": SPECIALS[kind].index("[PAD]" if kind == "bert" else "<pad>"),
    }  # fmt: skip


def state(kind: str, seed: int = 0) -> dict[str, torch.Tensor]:
    """Weights under Hugging Face's names, with the buffer of positions that old checkpoints hold."""
    inner = {
        "embeddings.word_embeddings.weight": (len(WORDS) + 4, WIDTH), "embeddings.position_embeddings.weight": (PLACES, WIDTH),
        "embeddings.token_type_embeddings.weight": (2, WIDTH), **norm("embeddings.LayerNorm"),
    }  # fmt: skip
    for i in range(LAYERS):
        layer = f"encoder.layer.{i}."
        for part in ("query", "key", "value"):
            inner |= linear(f"{layer}attention.self.{part}", WIDTH, WIDTH)
        inner |= linear(f"{layer}attention.output.dense", WIDTH, WIDTH) | norm(f"{layer}attention.output.LayerNorm")
        inner |= linear(f"{layer}intermediate.dense", WIDTH, WIDE) | linear(f"{layer}output.dense", WIDE, WIDTH)
        inner |= norm(f"{layer}output.LayerNorm")
    if kind == "bert":
        inner |= linear("pooler.dense", WIDTH, WIDTH)
    shapes = {f"{kind}.{k}": v for k, v in inner.items()}
    if kind == "bert":
        shapes |= linear("classifier", WIDTH, OUTPUTS)
    else:
        shapes |= linear("classifier.dense", WIDTH, WIDTH) | linear("classifier.out_proj", WIDTH, OUTPUTS)
    rng = np.random.default_rng(seed)
    weights = {k: torch.from_numpy(rng.normal(0, 0.3, shapes[k]).astype(np.float32)) for k in sorted(shapes)}
    return {**weights, f"{kind}.embeddings.position_ids": torch.arange(PLACES)[None]}


def linear(name: str, inside: int, outside: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (outside, inside), f"{name}.bias": (outside,)}


def norm(name: str) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (WIDTH,), f"{name}.bias": (WIDTH,)}


def write(folder: Path, kind: str) -> tuple[str, str]:
    """The paths of the checkpoint, and of the folder of its base."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    base = folder / "base"
    base.mkdir()
    (base / "config.json").write_text(json.dumps(config(kind)))
    vocabulary = {w: i for i, w in enumerate([*SPECIALS[kind], *WORDS])}
    unknown = "[UNK]" if kind == "bert" else "<unk>"
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=unknown))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    first, last = ("[CLS]", "[SEP]") if kind == "bert" else ("<s>", "</s>")
    ends = [(t, vocabulary[t]) for t in (first, last)]
    tokenizer.post_processor = processors.TemplateProcessing(single=f"{first} $A {last}", special_tokens=ends)
    tokenizer.save(str(base / "tokenizer.json"))
    arguments = {"num_classes": OUTPUTS, "model_type": f"{kind}-base", "model_name": NAMES[kind], "tokenizer_name": "T"}
    told = {"arch": {"type": "X", "args": arguments}, "dataset": {"args": {"classes": CLASSES[kind]}}}
    torch.save({"config": told, "state_dict": state(kind)}, folder / f"{kind}.ckpt")
    return str(folder / f"{kind}.ckpt"), str(base)
