"""Texts to features by their real length: captions are short, and most of a CLIP's context is padding.

Where attention looks back only and the feature is taken at the end of the text, what stands behind the end changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch

Tokens = NDArray[np.int64]
_STEP = 8  # texts are cut to a multiple of it, and those of one length go together


class TextTower:
    """The text side of an open_clip model."""

    def __init__(self, model: Any) -> None:
        self._model = model
        tower = getattr(model, "text", model)  # `CustomTextCLIP` has it as a part, `CLIP` is it
        pool = getattr(tower, "text_pool_type", getattr(tower, "pool_type", None))
        parts = ("token_embedding", "positional_embedding", "transformer", "ln_final", "text_projection")
        looks_back = getattr(tower, "attn_mask", None) is not None
        special = getattr(tower, "cls_emb", None) is not None or getattr(tower, "use_pad_mask", False)
        shortens = all(hasattr(tower, p) for p in parts) and looks_back and not special and pool in ("argmax", "eos")
        self._tower = tower if shortens else None
        self._end = getattr(tower, "text_eos_id", getattr(tower, "eos_id", None)) if pool == "eos" else None

    def encode(self, tokens: Tokens, device: str) -> torch.Tensor:
        """(n, context) tokens to (n, d) float32 features, L2-normalised."""
        import torch
        from torch.nn.functional import normalize

        if self._tower is None:
            return normalize(self._model.encode_text(torch.from_numpy(tokens).to(device)).float(), dim=-1)
        ends = (tokens.argmax(1) if self._end is None else (tokens == self._end).argmax(1)).astype(np.int64)
        lengths = np.minimum(-(-(ends + 1) // _STEP) * _STEP, tokens.shape[1])
        order = np.argsort(lengths, kind="stable")
        done = []
        for few in np.split(order, np.flatnonzero(np.diff(lengths[order])) + 1):
            short = torch.from_numpy(np.ascontiguousarray(tokens[few, : lengths[few[0]]])).to(device)
            done.append(self._features(short, torch.from_numpy(ends[few]).to(device)))
        back = torch.from_numpy(np.argsort(order, kind="stable")).to(device)
        return normalize(torch.cat(done)[back].float(), dim=-1)

    def _features(self, tokens: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
        """open_clip's `encode_text` on the first (n, length) of the context."""
        import torch

        tower, length = self._tower, tokens.shape[1]
        assert tower is not None
        kind = tower.transformer.get_cast_dtype()
        x = tower.token_embedding(tokens).to(kind) + tower.positional_embedding[:length].to(kind)
        x = tower.transformer(x, attn_mask=tower.attn_mask[:length, :length])
        x = tower.ln_final(x[torch.arange(len(x), device=x.device), ends])
        if tower.text_projection is None:
            return x  # type: ignore[no-any-return]
        if isinstance(tower.text_projection, torch.nn.Linear):
            return tower.text_projection(x)  # type: ignore[no-any-return]
        return x @ tower.text_projection  # type: ignore[no-any-return]
