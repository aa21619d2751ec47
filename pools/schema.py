"""The columns of every table that passes between two stages, each with its meaning and unit."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import pyarrow as pa


@dataclass(frozen=True)
class Column:
    name: str
    type: pa.DataType
    comment: str


@dataclass(frozen=True)
class Table:
    """A documented table: where it lies, what a row is, its columns."""

    title: str
    place: str
    row: str
    columns: tuple[Column, ...]

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([pa.field(c.name, c.type) for c in self.columns])


class Status(StrEnum):
    """img2dataset's three statuses of a row that was to be downloaded."""

    SUCCESS = "success"
    FAILED_TO_DOWNLOAD = "failed_to_download"
    FAILED_TO_RESIZE = "failed_to_resize"


class Reason(StrEnum):
    """Why a row has no image: the closed list behind the column `reason`."""

    BAD_URL = "bad_url"
    NOT_IN_ARCHIVE = "not_in_archive"
    PRIVATE_ADDRESS = "private_address"
    NAME_RESOLUTION = "name_resolution"
    CONNECTION = "connection"
    TIMEOUT_CONNECT = "timeout_connect"
    TIMEOUT_TOTAL = "timeout_total"
    TOO_MANY_REDIRECTS = "too_many_redirects"
    TOO_LARGE = "too_large"
    TOO_FEW_BYTES = "too_few_bytes"
    HTTP_STATUS = "http_status"
    OPT_OUT = "opt_out"
    ROBOTS_DISALLOW = "robots_disallow"
    EMPTY = "empty"
    NOT_AN_IMAGE = "not_an_image"
    TRUNCATED_IMAGE = "truncated_image"
    TOO_MANY_PIXELS = "too_many_pixels"
    TOO_SMALL = "too_small"
    ASPECT_RATIO = "aspect_ratio"
    HASH_MISMATCH = "hash_mismatch"
    PLACEHOLDER = "placeholder"


_UID = Column("uid", pa.string(), "32 hex digits; of a new candidate the MD5 of alt + url")
_URL = Column("url", pa.string(), "address of the image, absolute")
_TEXT = Column("text", pa.string(), "caption, white space collapsed and ends trimmed")
_CARRIED = (
    Column(
        "alt",
        pa.string(),
        "alt text as the page has it (NULs and lone surrogates replaced); of links to other documents their text",
    ),
    Column("page_title", pa.string(), "title of the page, null if it has none"),
    Column("page_url", pa.string(), "address of the page"),
    Column("content_language", pa.string(), "language as the page states it, else as the crawler detected it; null if neither"),
    Column("opt_out", pa.string(), "directives against use (noai, noimageai, …), comma-separated; null if none"),
    Column("crawl", pa.string(), "name of the crawl, null if not known"),
    Column("source_file", pa.string(), "name of the WAT, WARC or ARC file the row was read from"),
)

CANDIDATES = Table(
    "Candidates",
    "`CANDIDATES/<number>.parquet`",
    "one (url, alt text), each once, in order of a hash of its uid",
    (_UID, _URL, _TEXT, *_CARRIED),
)

METADATA = Table(
    "Metadata",
    "`POOL/metadata/<stem>.parquet`",
    "one sample of the pool; every column of the download's input stands there as well",
    (
        _UID,
        _URL,
        _TEXT,
        Column("original_width", pa.int32(), "pixels, of the image as served, upright"),
        Column("original_height", pa.int32(), "pixels, of the image as served, upright"),
        Column("sha256", pa.string(), "SHA-256 of the bytes as served, 64 hex digits"),
    ),
)

# What published pools have besides; read where it is there.
COMMONPOOL_EXTRA = (
    Column("clip_b32_similarity_score", pa.float32(), "cosine of OpenAI CLIP ViT-B/32 image and text features"),
    Column("clip_l14_similarity_score", pa.float32(), "cosine of OpenAI CLIP ViT-L/14 image and text features"),
    Column("face_bboxes", pa.list_(pa.list_(pa.float32())), "faces as [x0, y0, x1, y1], each in 0..1"),
)

STATUS = Table(
    "Status",
    "`POOL/shards/<shard>.parquet`",
    "one row of the download's input, whatever became of it; the input's columns stand there as well",
    (
        _UID,
        _URL,
        Column("caption", pa.string(), "the caption (`text`) under img2dataset's name"),
        Column("key", pa.string(), "name of the sample in the tar: its uid, `<uid>-<n>` for the n-th repeat in the shard"),
        Column("status", pa.string(), "success, failed_to_download or failed_to_resize"),
        Column("reason", pa.string(), "why not a success, from `pools.schema.Reason`; null for a success"),
        Column("error_message", pa.string(), "the failure in the words of whoever raised it"),
        Column("width", pa.int32(), "pixels, of the stored image"),
        Column("height", pa.int32(), "pixels, of the stored image"),
        Column("original_width", pa.int32(), "pixels, of the image as served, upright"),
        Column("original_height", pa.int32(), "pixels, of the image as served, upright"),
        Column("sha256", pa.string(), "SHA-256 of the bytes as served, 64 hex digits"),
        Column("frames", pa.int32(), "pictures in the file as served, of which the first is stored"),
        Column("final_url", pa.string(), "address that the bytes came from, behind all redirects; null if none came"),
        Column("sha256_expected", pa.bool_(), "whether the bytes have the hash the input states; null if none"),
    ),
)

VERDICTS = Table(
    "Verdicts",
    "`SELECTION/verdicts/<stem>.parquet`",
    "one row of the pool, in the pool's order",
    (
        _UID,
        Column("dropped_by", pa.int16(), "index of the stage of `keep` that dropped the row; null = kept"),
        Column("reason", pa.string(), "name of the rule that dropped it; null = kept"),
        Column("value", pa.string(), "what the rule compared; null = the row could not be judged (unscored), or was kept"),
    ),
)

CAPTIONS = Table(
    "Captions",
    "`SELECTION/captions/<stem>.parquet`, if the recipe has the key `captions`",
    "one kept row of the pool, in the pool's order, that is given another caption; the others keep theirs",
    (_UID, Column("caption", pa.string(), "what `winnow reshard` writes in place of the pool's caption")),
)

TABLES = (CANDIDATES, STATUS, METADATA, VERDICTS, CAPTIONS)


def score_column(model: str) -> str:
    """Name of the column with a model's image-text similarity: `l14` → `clip_l14_similarity_score`."""
    return f"clip_{model}_similarity_score"


def check_columns(table: Table, schema: pa.Schema) -> list[str]:
    """Names of the table's columns that `schema` lacks, in order."""
    return [c.name for c in table.columns if c.name not in schema.names]
