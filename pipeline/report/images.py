"""Small pictures of samples, out of the shards beside a pool. Their bytes are hostile: they are decoded with limits, and never
reach a page; what does is encoded here."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import IO

from pipeline import engine
from pipeline.download.images import orientation, resize
from pipeline.download.images.decode import Reject, decode, is_jpeg, open_image, room
from pools import shards, store, tar_scan
from pools.errors import WinnowError, WorkFailed
from pools.layout import Pool

SIDE = 256  # pixels of the longest
QUALITY = 60  # of WebP
MAX_BYTES = 1 << 26
MAX_PIXELS = 1 << 25  # 100 MB once decoded
_UID = re.compile(rb'"uid"\s*:\s*"([0-9a-fA-F]{32})"')
_REDUCED = (8, 4, 2)  # at these a JPEG decoder does less work


@dataclass(frozen=True)
class Thumbnail:
    """A small picture as WebP, without anything of the file it was made from."""

    data: bytes
    width: int  # pixels
    height: int


def thumbnail(body: bytes, side: int = SIDE) -> Thumbnail | str:
    """A picture no longer than `side`, or why there is none."""
    if not body:
        return "empty: no bytes"
    opened = open_image(body, MAX_PIXELS)
    if isinstance(opened, Reject):
        return _why(opened)
    reduced = next((k for k in _REDUCED if max(opened.size) // k >= side), 1) if is_jpeg(opened) else 1
    with room(opened):
        decoded = decode(body, opened, reduced)
        if isinstance(decoded, Reject):
            return _why(decoded)
        cv2 = resize.opencv()
        pixels = decoded.pixels
        height, width = pixels.shape[:2]
        if (size := resize.target(width, height, side, "keep_ratio_largest", True)) is not None:
            pixels = cv2.resize(pixels, size, interpolation=cv2.INTER_AREA)
    pixels = orientation.upright(pixels, decoded.orientation)
    bgr = cv2.cvtColor(pixels, cv2.COLOR_GRAY2BGR if pixels.ndim == 2 else cv2.COLOR_RGB2BGR)
    good, data = cv2.imencode(".webp", bgr, [cv2.IMWRITE_WEBP_QUALITY, QUALITY])
    assert good, "OpenCV could not encode an image of bounded size"
    return Thumbnail(bytes(data.tobytes()), pixels.shape[1], pixels.shape[0])


def _why(reject: Reject) -> str:
    return f"{reject.reason.value}: {reject.message}"


class Pictures:
    """Small pictures of a pool's samples; each shard is read once for all that are asked for together."""

    def __init__(self, pool: Pool | None, options: engine.Options) -> None:
        self._pool, self._options = pool, options
        self._found: dict[tuple[str, str], Thumbnail | str] = {}

    def look_up(self, wanted: Iterable[tuple[str, str]]) -> None:
        """(stem, uid) of samples; those that are known already are not looked for again. Raises WorkFailed as engines do."""
        if self._pool is None:
            return
        by_stem: dict[str, list[str]] = {}
        for stem, uid in wanted:
            if (stem, uid) not in self._found:
                by_stem.setdefault(stem, []).append(uid)
        tasks = [(store.join(self._pool.shards, stem + ".tar"), tuple(uids)) for stem, uids in by_stem.items()]
        stems = list(by_stem)
        for i, found in engine.make_engine("local", self._options.workers).map(of_shard, tasks):
            if isinstance(found, engine.Failed):
                raise found.input_error or WorkFailed(f"{tasks[i][0]}: {found.message}")
            self._found |= {(stems[i], uid): picture for uid, picture in found.items()}

    def get(self, stem: str, uid: str) -> Thumbnail | str:
        """A picture that was looked up, or why there is none."""
        return self._found.get((stem, uid), "the pool was not given" if self._pool is None else "not asked for")


def of_shard(task: tuple[str, Sequence[str]]) -> dict[str, Thumbnail | str]:
    """{uid: the picture, or why there is none} for a shard's path and some uids.

    Headers are read up to the last sample that is wanted. Of samples that share a uid the first counts.
    """
    path, uids = task
    if not store.exists(path):
        return dict.fromkeys(uids, "no shard beside the pool holds it")
    found: dict[str, Thumbnail | str] = {}
    left = set(uids)
    why = "the shard has no sample with this uid"
    try:
        with store.open_input(path) as f:
            for uid, sample in _samples(path, left):
                found[uid] = _of_sample(f, sample)
    except WinnowError as e:
        why = f"the shard is damaged: {str(e).splitlines()[0].removeprefix(f'{path}: ')}"
    return dict.fromkeys(uids, why) | found


def _samples(path: str, left: set[str]) -> Iterator[tuple[str, shards.Sample]]:
    """The samples whose uids are in `left`, which are taken out of it."""
    ending = tar_scan.Ending()
    for key, parts in shards.grouped(path, tar_scan.scan(path, ending, content=b".json"), ending):
        if (uid := _uid(key, parts.get("json"), left)) is None:
            continue
        left.remove(uid)
        yield uid, shards.Sample(path, key, {extension: (offset, size) for extension, (_, offset, size, _) in parts.items()})
        if not left:
            return
    if ending.empty or ending.damage:
        raise WorkFailed(ending.damage or "not a tar")


def _uid(key: str, member: tuple[int, int, int, bytes | None] | None, left: set[str]) -> str | None:
    """A sample's uid if it is wanted."""
    body = member[3] if member else None
    # Most samples are not wanted, and say so without being parsed.
    match = _UID.search(body) if body is not None and body.count(b'"uid"') == 1 else None
    if match and match[1].decode().lower() not in left:
        return None
    uid = shards.uid_of(key, shards.fields_of(body) if body is not None else None)
    return uid if uid in left else None


def _of_sample(f: IO[bytes], sample: shards.Sample) -> Thumbnail | str:
    if (extension := sample.image_extension) is None:
        return "the sample has no picture"
    if (size := sample.members[extension][1]) > MAX_BYTES:
        return f"too_large: {size:,} bytes"
    return thumbnail(shards.read(f, sample, extension))
