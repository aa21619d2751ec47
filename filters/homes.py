"""Where filters and mixes are defined, so that a recipe imports those that it names and no others.

All of them together take a tenth of a second, as long as a small recipe.
"""

from __future__ import annotations

import importlib

FILTERS = {
    name: home
    for home, names in {
        "cluster": "nearest_cluster",
        "duplicates": "exact_duplicates phash_duplicates",
        "entity": "text_entity",
        "frequency": "images_per_text rare_tokens texts_per_image",
        "image": "image_format image_size",
        "labels": "label_overlap",
        "language": "language stated_language",
        "lists": "domain_list uid_list url_list",
        "neardup": "eval_phash eval_similarity",
        "safety": "nsfw opt_out toxicity",
        "sampling": "random",
        "score": "clip_score score",
        "similar": "feature_duplicates",
        "speech": "determiners nouns prepositions",
        "text": "caption",
        "wording": "boilerplate capitals file_name hashtags known_words token_repetition",
    }.items()
    for name in names.split()
}
MIXES = {"balanced_clusters": "balance", "balanced_synsets": "balance", "languages": "mixture", "weights": "balance"}


def visit(homes: dict[str, str], name: str, caller: str | None = None) -> None:
    """Imports the module that registers `name`, if there is one and it is not the caller."""
    if name in homes and caller != (module := f"filters.{homes[name]}"):
        importlib.import_module(module)


def visit_all(homes: dict[str, str]) -> None:
    for name in homes:
        visit(homes, name)
