"""Which samples a shard holds, and where: read from its headers once, kept in a file, and looked up from then on.

A file of the index is `<folder>/<shard, without .tar>.index`, two arrays as `numpy.save` writes them: JSON with the digest of
the shard that it speaks of, and a record for each run of bytes that belongs to a sample. Of a changed shard it is made anew.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from pools import shards, store, tar_scan, uids
from pools.errors import InputError
from pools.uids import Uids
from pools.uids.words import from_digits

VERSION = 1
# A sample is one run, unless its members stand apart; then `part` counts its runs, in the order of its members.
SAMPLES = np.dtype([("uid", uids.UID), ("start", "<i8"), ("length", "<i8"), ("part", "<u4")])
Samples = NDArray[np.void]
LISTED = 1000  # samples without a uid that are named, of each shard
_UID_FIELD = re.compile(rb'"uid"\s*:\s*"([0-9a-fA-F]{32})"')


@dataclass(frozen=True)
class Header:
    """What there is to say of a shard besides its samples."""

    shard: str  # its digest: path below the root, size, time of change
    samples: int = 0  # with a uid
    bytes: int = 0  # of the shard, as far as it was read
    nameless: tuple[str, ...] = ()  # samples without a uid, and why: the first of them
    nameless_count: int = 0
    damage: str = ""  # why reading stopped before the end
    notes: tuple[str, ...] = ()
    regrouped: bool = False
    version: int = VERSION


@dataclass(frozen=True)
class Index:
    """The samples of a shard that have a uid, in its order."""

    header: Header
    samples: Samples

    @property
    def uids(self) -> Uids:
        return np.ascontiguousarray(self.samples["uid"])


def open_index(path: str, root: str, folder: str | None, *, regroup: bool = False) -> Index:
    """The index of a shard, from the folder if it is there, else read from the shard and put there."""
    digest = store.digest(path, root)
    kept = None if folder is None else index_path(path, root, folder)
    if kept is not None and (index := _load(kept, digest, regroup)) is not None:
        return index
    index = read_index(path, digest, regroup=regroup)
    if kept is not None:
        with store.atomic(kept) as f:
            header = json.dumps(asdict(index.header)).encode()
            for array in (np.frombuffer(header, np.uint8), index.samples):
                np.lib.format.write_array(f, array, version=(1, 0), allow_pickle=False)  # type: ignore[no-untyped-call]
    return index


def index_path(path: str, root: str, folder: str) -> str:
    """The file of a shard in a folder of index files."""
    return store.join(folder, store.relative(path, root).removesuffix(".tar") + ".index")


def _load(path: str, digest: str, regroup: bool) -> Index | None:
    if not store.exists(path):
        return None
    try:
        with store.open_input(path) as f:
            header_bytes, samples = (np.lib.format.read_array(f, allow_pickle=False) for _ in range(2))  # type: ignore[no-untyped-call]
        fields = json.loads(header_bytes.tobytes())
    except (ValueError, EOFError):  # cut, or of somebody else
        return None
    if not isinstance(fields, dict) or fields.get("version") != VERSION:
        return None
    header = Header(**fields | {k: tuple(fields[k]) for k in ("nameless", "notes")})
    # Which differ only where members stand apart.
    if header.shard != digest or samples.dtype != SAMPLES or header.regrouped != regroup:
        return None
    return Index(header, samples)


def read_index(path: str, digest: str = "", *, regroup: bool = False) -> Index:
    """The index of a shard as its headers have it.

    The uid is the json's, without one in it the key's if that is one. Raises InputError where members stand twice or apart.
    """
    ending = tar_scan.Ending()
    digits: list[bytes] = []
    runs: list[tuple[int, int, int]] = []
    nameless: list[str] = []
    nameless_count = 0
    batches = tar_scan.scan(path, ending, content=b".json")
    for key, parts in shards.grouped(path, batches, ending, regroup=regroup):
        found = _uid(key, parts)
        if isinstance(found, str):
            nameless_count += 1
            if len(nameless) < LISTED:
                nameless.append(found)
            continue
        pieces = _runs(parts)
        digits += [found] * len(pieces)
        runs += [(start, end - start, part) for part, (start, end) in enumerate(pieces)]
    packed = from_digits(np.frombuffer(b"".join(digits), np.uint8))
    assert packed is not None, "only hex digits were let in"
    samples = np.empty(len(runs), SAMPLES)
    samples["uid"] = packed
    for name, column in zip(("start", "length", "part"), zip(*runs, strict=True), strict=False):
        samples[name] = column
    header = Header(
        digest,
        int((samples["part"] == 0).sum()),
        ending.at,
        tuple(nameless),
        nameless_count,
        "not a tar" if ending.empty else ending.damage,
        tuple(ending.notes[:LISTED]),
        regroup,
    )
    return Index(header, samples)


def _runs(parts: shards.Parts) -> list[tuple[int, int]]:
    """From the first header to the last padding; several where something else stands between."""
    runs: list[tuple[int, int]] = []
    for start, offset, size, _ in parts.values():
        end = offset + (size + 511 & ~511)
        # Between members of a sample stand at most what pax says of the time, or a link: less than a picture.
        if runs and 0 <= start - runs[-1][1] <= _BETWEEN:
            runs[-1] = (runs[-1][0], end)
        else:
            runs.append((start, end))
    return runs


_BETWEEN = 4 * tar_scan.BLOCK


def _uid(key: str, parts: shards.Parts) -> bytes | str:
    """32 hex digits; or in words why a sample has no uid."""
    named = "json" if "json" in parts else next((e for e in parts if e.lower() == "json"), None)
    body = None if named is None else parts[named][3]
    if body is not None and (quick := _quick_uid(body)) is not None:
        return quick
    fields = None if body is None else shards.fields_of(body)
    if (stated := shards.uid_of(key, fields)) is not None:
        return stated.encode()
    dotted = next((extension for extension in parts if "." in extension), None)
    if body is None and dotted is not None:
        return (
            f"{key!r} has no .json with a uid: {key}.{dotted} is its member {dotted!r}, as a key ends at the first dot of a "
            "file's name; rename the file if that is not meant"
        )
    if body is None:
        return f"{key!r} has no .json with a uid"
    if fields is None or fields.get("uid") is None:
        return f"{key!r} has no uid in its .json"
    return f"{key!r}: uid {str(fields['uid'])[:80]!r} is not 32 hex digits"


def _quick_uid(body: bytes) -> bytes | None:
    """The uid of a json that names one once, in the outermost object; None if that takes a parser to say."""
    match = _UID_FIELD.search(body)
    if match is None or body.count(b'"uid"') != 1:
        return None
    return match[1] if body.count(b"{", 0, match.start()) == 1 and body.find(b"}", 0, match.start()) < 0 else None


def check_any(indexes: list[Header], root: str) -> None:
    """Raises InputError if no shard holds a sample with a uid, though there are some without or shards that cannot be read."""
    if any(h.samples for h in indexes):
        return
    if damaged := next((h for h in indexes if h.damage), None):
        where = store.join(root, damaged.shard.split(":")[0])
        if damaged.damage == "not a tar":
            raise shards.no_tar(where)
        raise InputError(damaged.damage, where=where, expected="whole tars")
    if nameless := next((h for h in indexes if h.nameless), None):
        raise InputError(
            f"no sample has a uid: {nameless.nameless[0]}",
            where=store.join(root, nameless.shard.split(":")[0]),
            expected='a .json in each sample: {"uid": "32 hex digits", …}',
            fix="winnow pool import 'tars/*.tar' --output pool gives each sample one",
        )
