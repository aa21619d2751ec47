"""open_clip's tokenizer of captions, faster: the same tokens, most of them looked up."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

_WORDS = 1 << 17  # whose tokens are remembered
# In which there is nothing to repair or to unescape. That takes two thirds of the time, even to find it out.
_PLAIN = re.compile(r"[ -%'-~]*")


class Tokens:
    """n texts → int64 [n, context length], as the SimpleTokenizer given."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer, self.length = tokenizer, int(tokenizer.context_length)
        self._ends = (tokenizer.sot_token_id, tokenizer.eot_token_id)
        self._known: dict[str, tuple[int, ...]] = {}

    def __call__(self, texts: list[str]) -> Tensor:
        rows = np.zeros((len(texts), self.length), np.int64)
        start, end = self._ends
        for row, text in zip(rows, texts, strict=True):
            ids = [start, *self._encode(text)][: self.length - 1]
            ids.append(end)
            row[: len(ids)] = ids
        return torch.from_numpy(rows)

    def _encode(self, text: str) -> list[int]:
        text = " ".join(text.split()).lower() if _PLAIN.fullmatch(text) else self.tokenizer.clean_fn(text)
        ids: list[int] = []
        for word in self.tokenizer.pat.findall(text):
            known = self._known.get(word)
            ids += self._look_up(word) if known is None else known
        return ids

    def _look_up(self, word: str) -> tuple[int, ...]:
        tokenizer = self.tokenizer
        token = "".join(tokenizer.byte_encoder[b] for b in word.encode())
        ids = tuple(tokenizer.encoder[part] for part in tokenizer.bpe(token).split(" "))
        if len(self._known) >= _WORDS:
            self._known.clear()
            tokenizer.cache = {tokenizer.decoder[i]: tokenizer.decoder[i] for i in tokenizer.all_special_ids}  # grows as well
        self._known[word] = ids
        return ids


def tokens_of(tokenizer: Any) -> Callable[[list[Any]], Any]:
    """A faster one for CLIP's own; any other as it is."""
    from open_clip import tokenizer as known

    clean = getattr(known, "_clean_lower", None)
    own = type(tokenizer) is known.SimpleTokenizer and tokenizer.reduction_fn is None and tokenizer.clean_fn is clean
    return Tokens(tokenizer) if own else tokenizer
