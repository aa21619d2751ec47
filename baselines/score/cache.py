"""What a model made of images and prompts, on disk: `features.sqlite`, which may be deleted at any time.

An entry is known by the hash of all that it depends on (weights, architecture, preprocessing, versions of the libraries, kind
of device; then the image's bytes or the prompts), and holds a checksum: a damaged entry counts as absent, a damaged file is
made anew. Beyond `limit` bytes the oldest entries give way.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

import numpy as np
import torch
from torch import Tensor

from baselines.train.model import Loaded
from pipeline.progress import Progress
from pools.errors import InputError
from pools.manifest import digest_of

T = TypeVar("T")
FILE = "features.sqlite"
FORMAT = 1  # raised when entries mean something else
GIB = 1 << 30
_LIBRARIES = ("torch", "torchvision", "open_clip_torch", "pillow")
_KEY = 32  # bytes
_AT_ONCE = 500  # entries that go
_PATIENCE = 60.0  # seconds for somebody else's writing
_SLACK = 0.9  # of the limit, to which is made room
_TABLE = """
CREATE TABLE IF NOT EXISTS entries
(seq INTEGER PRIMARY KEY, key BLOB UNIQUE NOT NULL, value BLOB NOT NULL, sum INTEGER NOT NULL)
"""


def identity(loaded: Loaded, device: str) -> str:
    """The hash of all that features depend on but the data."""
    from open_clip.transform import PreprocessCfg

    return digest_of({
        "format": FORMAT,
        "weights": loaded.weights_sha256,
        "config": loaded.config,
        "transform": asdict(PreprocessCfg(**loaded.model.visual.preprocess_cfg)),
        "device": device.partition(":")[0],
        "libraries": {name: version(name) for name in _LIBRARIES},
    })  # fmt: skip


@dataclass(frozen=True)
class Known:
    """A set of images that was gone through before: `failed` are those that cannot be read, by place, with the reason."""

    features: Tensor  # [m, d], of those that can be
    failed: dict[int, tuple[str, str]]


class DiskCache:
    """The entries of one model. Nothing is lost with it but time: where it cannot be written any more it is left alone."""

    def __init__(self, folder: str, model: str, *, limit: int = 4 * GIB, quiet: bool = False) -> None:
        """Raises InputError if there can be no file in that folder."""
        self._path, self._model, self._limit, self._quiet = Path(folder) / FILE, model, limit, quiet
        self._db: sqlite3.Connection | None = None
        self._waiting: dict[bytes, bytes] = {}  # written at once, so that no lock is held while a model computes
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            try:
                self._db = _opened(self._path)
            except sqlite3.OperationalError:  # no place for it, or a lock of somebody else's that does not end
                raise
            except sqlite3.DatabaseError as e:
                self._anew(e)
        except (OSError, sqlite3.Error) as e:
            raise InputError(f"no cache here: {e}", where=self._path, expected="a folder to write to", fix="--cache DIR") from e

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.save()
        if self._db is not None:
            self._db.close()
            self._db = None

    def get(self, kind: str, key: str) -> Tensor | None:
        """A vector."""
        value = self._value(self._key(kind, key))
        return None if value is None else torch.from_numpy(np.frombuffer(value, np.float32).copy())

    def put(self, kind: str, key: str, vector: Tensor) -> None:
        self._waiting[self._key(kind, key)] = vector.numpy().tobytes()

    def known(self, digest: str, most: int = GIB) -> Known | None:
        """What became of a whole set of images, if all of it is here and is no more than `most` bytes."""
        value = self._value(self._key("set", digest))
        if value is None:
            return None
        head, _, keys = value.partition(b"\n")
        told = json.loads(head)
        count = len(keys) // _KEY
        if told["width"] * 4 * count > most:
            return None
        features = np.empty((count, told["width"]), np.float32)
        for i in range(count):
            found = self._value(keys[_KEY * i : _KEY * (i + 1)])
            if found is None or len(found) != 4 * told["width"]:
                return None
            features[i] = np.frombuffer(found, np.float32)
        return Known(torch.from_numpy(features), {int(i): (why, detail) for i, why, detail in told["failed"]})

    def remember(self, digest: str, keys: Sequence[str], failed: Mapping[int, tuple[str, str]], width: int) -> None:
        """Notes the images of a set in order: `keys` of those that could be read, as `put` had them."""
        head = json.dumps({"width": width, "failed": [[i, *why] for i, why in failed.items()]}).encode()
        self._waiting[self._key("set", digest)] = head + b"\n" + b"".join(self._key("image", key) for key in keys)

    def save(self) -> None:
        """Brings what was put to the file, and makes room."""
        entries, self._waiting = self._waiting, {}
        rows = [(key, value, zlib.crc32(key + value)) for key, value in entries.items()]

        def write(db: sqlite3.Connection) -> None:
            with db:
                db.executemany("INSERT OR REPLACE INTO entries (key, value, sum) VALUES (?, ?, ?)", rows)
                self._make_room(db)

        if rows:
            self._ask(write, None)

    def _key(self, kind: str, key: str) -> bytes:
        return hashlib.sha256(f"{self._model}\n{kind}\n{key}".encode()).digest()

    def _value(self, key: bytes) -> bytes | None:
        if (waiting := self._waiting.get(key)) is not None:
            return waiting
        row = self._ask(lambda db: db.execute("SELECT value, sum FROM entries WHERE key = ?", (key,)).fetchone(), None)
        whole = row is not None and isinstance(row[0], bytes) and zlib.crc32(key + row[0]) == row[1]
        return row[0] if whole else None

    def _make_room(self, db: sqlite3.Connection) -> None:
        """Pages of entries that go are used again, so that the file does not grow."""
        if _size(db) <= self._limit:
            return
        while _size(db) > _SLACK * self._limit:
            oldest = "SELECT seq FROM entries ORDER BY seq LIMIT ?"
            if db.execute(f"DELETE FROM entries WHERE seq IN ({oldest})", (_AT_ONCE,)).rowcount <= 0:
                return

    def _ask(self, question: Callable[[sqlite3.Connection], T], otherwise: T) -> T:
        """The answer of the file; a damaged one is made anew, one that cannot be written is left alone."""
        if self._db is None:
            return otherwise
        try:
            return question(self._db)
        except sqlite3.OperationalError as e:  # a full disk, a lock that does not end
            self._leave(e)
        except sqlite3.DatabaseError as e:
            try:
                self._anew(e)
            except (OSError, sqlite3.Error) as again:
                self._leave(again)
        return otherwise

    def _leave(self, error: Exception) -> None:
        self._db = None
        Progress.note(f"score: the cache is left alone ({self._path}: {error})", quiet=self._quiet)

    def _anew(self, error: sqlite3.DatabaseError) -> None:
        Progress.note(f"score: the cache is damaged and made anew ({self._path}: {error})", quiet=self._quiet)
        if self._db is not None:
            self._db.close()
        self._db = None
        for path in (self._path, self._path.with_name(FILE + "-journal")):
            path.unlink(missing_ok=True)
        self._db = _opened(self._path)


def _size(db: sqlite3.Connection) -> int:
    """Bytes of entries, without what is free in the file."""
    pages, free, size = (db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size"))
    return int((pages - free) * size)


def _opened(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path, timeout=_PATIENCE)
    # What is lost with the power is made again; what a kill interrupts is rolled back all the same.
    db.execute("PRAGMA synchronous = OFF")
    with db:
        db.execute(_TABLE)
    return db
