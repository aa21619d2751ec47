"""Parts of speech in English captions, and the persons that they name."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from filters import tagging
from pipeline.annotate import options
from pipeline.annotate.annotator import Batch, Sample, Unscored

VERSION = 1
_COUNTS = ("nouns", "proper_nouns", "determiners", "prepositions")


def make_parts_of_speech(given: dict[str, str]) -> PartsOfSpeech:
    """English captions: counts of `nouns`, `proper_nouns`, `determiners`, `prepositions`, `person_spans` (in characters), and
    `parts_of_speech_caption` with `<PERSON>` for each name, null where there is none, for `captions: {from: parts_of_speech}`.

    Option: `name`, with which the counts' names then begin too. The model is spaCy's small English one.
    """
    return PartsOfSpeech(options.known("parts_of_speech", given, "name").get("name", "parts_of_speech"))


@dataclass(frozen=True)
class PartsOfSpeech:
    """Counts of parts of speech and where persons are named, by spaCy's en_core_web_sm, as the filters of that name count.

    `person_spans` are [first, behind the last] in characters. `<name>_caption` has `<PERSON>` in place of each, and is null
    where no person is named: what a recipe's `captions: {from: parts_of_speech}` takes. Under another name than its own, all
    columns begin with it. Of a caption the first 32,767 characters are read; a blank one has no counts.
    """

    name: str = "parts_of_speech"
    reads: tuple[str, ...] = ("text",)
    wants_image: bool = False

    def column(self, what: str) -> str:
        return what if self.name == "parts_of_speech" else f"{self.name}_{what}"

    @property
    def fields(self) -> tuple[pa.Field, ...]:
        return (
            *(pa.field(self.column(part), pa.int16()) for part in _COUNTS),
            pa.field(self.column("person_spans"), pa.list_(pa.list_(pa.int32()))),
            pa.field(f"{self.name}_caption", pa.string()),
        )

    @property
    def arrays(self) -> Mapping[str, int]:
        return {}

    def header(self) -> Mapping[str, Any]:
        spacy = importlib.metadata.version("spacy")
        return {**tagging.identity(), "spacy": spacy, "characters": tagging.LONGEST, "version": VERSION}

    def load(self, device: str, threads: int) -> PartsOfSpeechModel:
        return PartsOfSpeechModel(self)


class PartsOfSpeechModel:
    """spaCy's pipeline, of which a process has one."""

    def __init__(self, annotator: PartsOfSpeech) -> None:
        self._annotator = annotator
        tagging.tag(["a"])  # loads it

    def prepare(self, sample: Sample) -> str:
        if sample.text is None or not sample.text.strip():
            raise Unscored("no_text")
        return sample.text

    def annotate(self, inputs: Sequence[Any]) -> Batch:
        column = self._annotator.column
        found = tagging.tag(inputs)
        columns: dict[str, Any] = {column(part): [getattr(counts, part) for counts, _ in found] for part in _COUNTS}
        columns[column("person_spans")] = [[list(span) for span in spans] for _, spans in found]
        columns[f"{self._annotator.name}_caption"] = [
            tagging.replace_spans(text, spans) if spans else None for text, (_, spans) in zip(inputs, found, strict=True)
        ]
        return Batch(columns)
