"""What a resharding may be told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

from pools.errors import InputError

Shuffle = Literal["none", "buffer", "all"]
Format = Literal["jpg", "webp"]
SHARD_SIZE = 10_000
BUFFER = 100_000
QUALITY = {"jpg": 95, "webp": 100}


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How the samples are laid out, and what is changed in them. At most one of the first three says how large a shard is."""

    shard_size: int | None = None  # samples; default: 10,000
    shard_bytes: int | None = None
    shards: int | None = None  # so many, as even as can be
    shuffle: Shuffle = "none"  # the order of the sources; within a buffer of entries; over all of them
    buffer: int = BUFFER
    seed: int = 0
    captions: str | None = None  # parquet, or a folder of it, with uid and caption; `FILE:column`
    blur: str | None = None  # a pool, a folder of annotations or a parquet file with `face_bboxes`: faces are blurred
    inject: str | None = None  # the same: boxes are written into the json
    format: Format = "jpg"  # of images with faces, which are encoded anew
    quality: int | None = None  # 1 to 100; default: 95 for jpg, 100 for webp
    regroup: bool = False  # whether members that stand apart are brought together
    strict: bool = False  # whether an entry that cannot be written is a failure
    index: str | None = None  # folder of index files; default: `.winnow-index` beside the output

    def __post_init__(self) -> None:
        sizes = {"--shard-size": self.shard_size, "--shard-bytes": self.shard_bytes, "--shards": self.shards}
        given = [name for name, value in sizes.items() if value is not None]
        if len(given) > 1:
            raise InputError("each says how large a shard is", where=", ".join(given), expected="one of them")
        for name, value in (*sizes.items(), ("--buffer", self.buffer)):
            if value is not None and value < 1:
                raise InputError(f"{value}", where=name, expected="1 or more")
        if self.quality is not None and not 1 <= self.quality <= 100:
            raise InputError(f"{self.quality}", where="--quality", expected="1 to 100")
        for name, chosen, known in (("--shuffle", self.shuffle, Shuffle), ("--format", self.format, Format)):
            if chosen not in get_args(known):
                raise InputError(f"{chosen}", where=name, expected=", ".join(get_args(known)))
        if self.blur and self.inject and self.blur != self.inject:
            raise InputError("two sources of boxes", where="--blur-faces, --inject-boxes", expected="the same, or one of them")

    @property
    def boxes(self) -> str | None:
        return self.blur or self.inject

    @property
    def encoding(self) -> tuple[Format, int]:
        return self.format, self.quality or QUALITY[self.format]

    def identity(self) -> dict[str, Any]:
        """All that the result depends on and that is not the default, besides what captions and boxes hold."""
        size = self.shard_size or (None if self.shard_bytes or self.shards else SHARD_SIZE)
        said: dict[str, Any] = {"shard_size": size, "shard_bytes": self.shard_bytes, "shards": self.shards}
        if self.shuffle != "none":
            said |= {"shuffle": self.shuffle, "seed": self.seed}
            said |= {"buffer": self.buffer} if self.shuffle == "buffer" else {}
        if self.blur:
            said |= {"blur": self.encoding}
        said |= {"inject_boxes": True} if self.inject else {}
        said |= {"regroup": True} if self.regroup else {}
        return {name: value for name, value in said.items() if value is not None}
