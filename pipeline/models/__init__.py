"""Weights by name: where they come from, where they lie, and that they are what they should be."""

from __future__ import annotations

from pipeline.models.registry import Weights, locate

__all__ = ["Weights", "locate"]
