"""Which annotators there are: a name, and where the function is that makes one of its options."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import cast

from pipeline.annotate.annotator import Annotator

Make = Callable[[dict[str, str]], Annotator]

# {name: "module:function"}. A module is imported when its annotator is asked for, and its first docstring line is shown.
ANNOTATORS: Mapping[str, str] = {
    "clip": "pipeline.annotate.clip.clip:make_clip",
    "aesthetics": "pipeline.annotate.clip.aesthetics:make_aesthetics",
    "conse": "pipeline.annotate.pictures.conse:make_conse",
    "language": "pipeline.annotate.text.language:make_language",
    "parts_of_speech": "pipeline.annotate.text.parts_of_speech:make_parts_of_speech",
    "text_in_image": "pipeline.annotate.pictures.text_in_image:make_text_in_image",
    "nsfw_image": "pipeline.annotate.pictures.nsfw_image:make_nsfw_image",
    "toxicity": "pipeline.annotate.text.toxicity:make_toxicity",
    "faces": "pipeline.annotate.faces.faces:make_faces",
    "phash": "pipeline.annotate.duplicates.phash:make_phash",
    "near_duplicate": "pipeline.annotate.duplicates.near_duplicate:make_near_duplicate",
}


def find(name: str) -> Make:
    """The function that makes an annotator of the options on the command line: `weights`, `model`, `pretrained`, `name`, …"""
    module, _, function = ANNOTATORS[name].partition(":")
    return cast(Make, getattr(importlib.import_module(module), function))
