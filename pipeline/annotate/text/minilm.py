"""all-MiniLM-L6-v2: a text to a vector that lies near those of texts that say the same. (Reimers and Gurevych 2019)"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipeline.annotate.text.bert import Encoder
from pools.errors import InputError

WIDTH = 384
MAX_TOKENS = 256
_CHUNK = 32  # texts of about one length at a time


class MiniLM:
    """A sentence transformer from a folder of Hugging Face's form: config.json, tokenizer.json, model.safetensors."""

    def __init__(self, folder: str, device: str) -> None:
        from safetensors import SafetensorError
        from safetensors.torch import load_file
        from tokenizers import Tokenizer

        try:
            config = json.loads(Path(folder, "config.json").read_text())
            self._tokenizer = Tokenizer.from_file(str(Path(folder, "tokenizer.json")))
            self._encoder = Encoder(load_file(Path(folder, "model.safetensors"), device=device), config)
        except (OSError, ValueError, SafetensorError) as e:
            raise InputError(f"unreadable: {e}", where=folder, expected="the files of all-MiniLM-L6-v2") from e
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(MAX_TOKENS)

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """L2-normalised vectors (n, 384): the means of their tokens'. Of a long text the first 256 tokens count."""
        import torch

        different = {text: i for i, text in enumerate(dict.fromkeys(texts))}
        found = np.zeros((len(different), WIDTH), np.float32)
        tokens = [e.ids for e in self._tokenizer.encode_batch(list(different))]
        order = sorted(range(len(tokens)), key=lambda i: len(tokens[i]))
        with torch.inference_mode():
            for start in range(0, len(order), _CHUNK):
                some = order[start : start + _CHUNK]
                vectors = self._encoder([tokens[i] for i in some])
                means = [v[: len(tokens[i])].mean(0) for i, v in zip(some, vectors, strict=True)]
                found[some] = torch.nn.functional.normalize(torch.stack(means)).cpu().numpy()
        return found[[different[text] for text in texts]]
