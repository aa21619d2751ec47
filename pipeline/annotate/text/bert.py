"""BERT's encoder as BERT, RoBERTa and XLM-RoBERTa have it: tokens to vectors, by the weights of Hugging Face's names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Encoder:
    """`config` is that of config.json; `prefix` stands before the names of the weights; positions count from `first_place`."""

    weights: Mapping[str, torch.Tensor]
    config: Mapping[str, Any]
    prefix: str = ""
    first_place: int = 0

    def __call__(self, texts: Sequence[Sequence[int]]) -> torch.Tensor:
        """n texts of tokens → (n, length of the longest, width). What stands behind a text's end is not seen by it."""
        import torch

        device = self.weights[f"{self.prefix}embeddings.word_embeddings.weight"].device
        longest = max(map(len, texts))
        ids = torch.tensor([[*t, *[0] * (longest - len(t))] for t in texts], device=device)
        real = torch.tensor([[i < len(t) for i in range(longest)] for t in texts], device=device)
        x = self._embedded(ids)
        for layer in range(self.config["num_hidden_layers"]):
            x = self._layer(f"encoder.layer.{layer}.", x, real[:, None, None, :])
        return x

    def linear(self, name: str, x: torch.Tensor) -> torch.Tensor:
        """A layer of any name, which the prefix is not put before."""
        import torch.nn.functional as f

        return f.linear(x, self.weights[f"{name}.weight"], self.weights[f"{name}.bias"])

    def _embedded(self, ids: torch.Tensor) -> torch.Tensor:
        words, places, kinds = (
            self.weights[f"{self.prefix}embeddings.{n}_embeddings.weight"] for n in ("word", "position", "token_type")
        )
        end = self.first_place + ids.shape[1]
        return self._normed("embeddings.LayerNorm", words[ids] + places[self.first_place : end] + kinds[0])

    def _layer(self, name: str, x: torch.Tensor, real: torch.Tensor) -> torch.Tensor:
        import torch.nn.functional as f

        heads = self.config["num_attention_heads"]
        q, k, v = (
            self._inner(f"{name}attention.self.{part}", x).view(*x.shape[:2], heads, -1).transpose(1, 2)
            for part in ("query", "key", "value")
        )
        seen = f.scaled_dot_product_attention(q, k, v, attn_mask=real).transpose(1, 2).flatten(-2)
        x = self._normed(f"{name}attention.output.LayerNorm", x + self._inner(f"{name}attention.output.dense", seen))
        wide = f.gelu(self._inner(f"{name}intermediate.dense", x))
        return self._normed(f"{name}output.LayerNorm", x + self._inner(f"{name}output.dense", wide))

    def _inner(self, name: str, x: torch.Tensor) -> torch.Tensor:
        return self.linear(f"{self.prefix}{name}", x)

    def _normed(self, name: str, x: torch.Tensor) -> torch.Tensor:
        import torch.nn.functional as f

        weight, bias = (self.weights[f"{self.prefix}{name}.{part}"] for part in ("weight", "bias"))
        return f.layer_norm(x, weight.shape, weight, bias, self.config["layer_norm_eps"])
