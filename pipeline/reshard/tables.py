"""The table of a new shard: what it is made of, entry for entry, in a file that one worker reads.

Arrays of NumPy one after the other, as `numpy.save` writes them: the same table gives the same bytes.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from pipeline.reshard.spool import Records
from pools.uids.words import spell


@dataclass(frozen=True)
class Row:
    """An entry: its key, and the runs of bytes that it is made of."""

    uid: str
    copy: int
    runs: tuple[tuple[str, int, int], ...]  # shard, first byte, number
    caption: bytes | None = None  # to be written in place of its own
    boxes: bytes | None = None  # of faces, as `faces.unpacked` reads them

    @property
    def key(self) -> str:
        return f"{self.uid}-{self.copy}"


@dataclass(frozen=True)
class Table:
    """Records of `layout.ENTRY`, their sources, and what is known of each from beside the shards."""

    sources: list[str]
    records: Records
    captions: Sequence[bytes | None] | None = None
    boxes: Sequence[bytes | None] | None = None

    @classmethod
    def of(cls, records: Records, sources: Sequence[str], **beside: Any) -> Table:
        """With the sources that the records name, under new numbers."""
        numbers, new = np.unique(records["source"], return_inverse=True)
        records = records.copy()
        records["source"] = new
        return cls([sources[n] for n in numbers.tolist()], records, **beside)

    def packed(self) -> bytes:
        out = io.BytesIO()
        about = {"sources": self.sources, "captions": self.captions is not None, "boxes": self.boxes is not None}
        _save(out, np.frombuffer(json.dumps(about).encode(), np.uint8))
        _save(out, self.records)
        for values in (self.captions, self.boxes):
            if values is not None:
                _save(out, np.array([-1 if v is None else len(v) for v in values], np.int64))
                _save(out, np.frombuffer(b"".join(v or b"" for v in values), np.uint8))
        return out.getvalue()

    @classmethod
    def read(cls, f: IO[bytes]) -> Table:
        whole = io.BytesIO(f.read())
        about = json.loads(_load(whole).tobytes())
        records = _load(whole)
        beside = {name: _values(_load(whole), _load(whole)) for name in ("captions", "boxes") if about[name]}
        return cls(about["sources"], records, **beside)

    def rows(self) -> Iterator[Row]:
        digits = np.empty((len(self.records), 32), np.uint8)
        spell(np.ascontiguousarray(self.records["uid"]), digits)
        text = digits.tobytes().decode()
        starts, lengths, copies = (self.records[n].tolist() for n in ("start", "length", "copy"))
        runs = [(self.sources[s], a, n) for s, a, n in zip(self.records["source"].tolist(), starts, lengths, strict=True)]
        heads = np.flatnonzero(self.records["part"] == 0).tolist()
        for head, end in zip(heads, [*heads[1:], len(runs)], strict=True):
            caption = None if self.captions is None else self.captions[head]
            boxes = None if self.boxes is None else self.boxes[head]
            yield Row(text[32 * head : 32 * head + 32], copies[head], tuple(runs[head:end]), caption, boxes)


def _save(f: IO[bytes], array: NDArray[Any]) -> None:
    np.lib.format.write_array(f, array, version=(1, 0), allow_pickle=False)  # type: ignore[no-untyped-call]


def _load(f: IO[bytes]) -> NDArray[Any]:
    array: NDArray[Any] = np.lib.format.read_array(f, allow_pickle=False)  # type: ignore[no-untyped-call]
    return array


def _values(lengths: NDArray[np.int64], data: NDArray[np.uint8]) -> list[bytes | None]:
    whole, ends = data.tobytes(), np.cumsum(np.maximum(lengths, 0)).tolist()
    return [None if n < 0 else whole[end - n : end] for n, end in zip(lengths.tolist(), ends, strict=True)]
