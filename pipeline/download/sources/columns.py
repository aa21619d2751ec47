"""Which columns of somebody's table hold the address, the caption, the uid; and under which names the rows come out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from pools.errors import InputError

# Names that tables in circulation use, the likelier first.
LIKELY = {
    "url": ("url", "image_url", "img_url", "image_link", "imageurl", "img", "src", "link", "photo_image_url", "image", "href"),
    "text": ("text", "caption", "alt", "alt_text", "caption_reference_description", "description", "title", "label", "prompt"),
}
_EXPECTED_HASH, _BOXES = "sha256", "face_bboxes"
_ROLES = {"url": "--url-col", "text": "--text-col", "uid": "--uid-col", _EXPECTED_HASH: "--sha256-col", _BOXES: "--boxes-col"}


@dataclass(frozen=True, kw_only=True)
class Columns:
    """The columns of a source that mean something to a download; all others are carried along.

    A row comes out under the names url, text, uid, sha256 and face_bboxes. The last three need not be there: named here
    they must be, else a column of that very name is taken where there is one.
    """

    url: str = "url"
    text: str | None = "text"  # None: the source has no captions
    uid: str | None = None
    sha256: str | None = None  # the hash that the served bytes should have
    boxes: str | None = None  # faces to blur, each [x0, y0, x1, y1] in 0..1

    def __post_init__(self) -> None:
        named = [name for name in self._asked().values() if name]
        if len(set(named)) < len(named):
            raise InputError(f"one column has two meanings: {', '.join(named)}", where="--url-col, --text-col, …")

    def _asked(self) -> dict[str, str | None]:
        return {"url": self.url, "text": self.text, "uid": self.uid, _EXPECTED_HASH: self.sha256, _BOXES: self.boxes}

    def names(self, there: Sequence[str], *, where: str) -> dict[str, str]:
        """{name in the source: name it comes out under}, for all columns. Raises InputError where a named one is absent.

        A column whose name one of the chosen ones takes comes out as `input_<name>`.
        """
        chosen: dict[str, str] = {}
        for role, name in self._asked().items():
            if name is None:
                if role != "text" and role in there and role not in chosen:
                    chosen[role] = role
            elif name in there:
                chosen[name] = role
            else:
                raise _absent(name, role, there, where)
        found: dict[str, str] = {}
        used = {*chosen.values(), *there}
        for name in there:
            out = chosen.get(name, name)
            if name not in chosen and name in chosen.values():
                while out in used:
                    out = f"input_{out}"
                used.add(out)
            found[name] = out
        return found

    def check(self, schema: pa.Schema, *, where: str) -> None:
        """Raises InputError if a column that has to be text is something else."""
        for name, out in self.names(schema.names, where=where).items():
            kind = schema.field(name).type
            text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_null(kind)
            if out in ("url", "text", "uid", _EXPECTED_HASH) and not text:
                raise InputError(f"column {name!r} is {kind}", where=where, expected="strings")

    def identity(self) -> list[str]:
        """For digests: which column is which."""
        return [f"{role}={name}" for role, name in self._asked().items()]


def likely(role: str, there: Iterable[str]) -> str | None:
    """The column of a table that most probably holds addresses (`url`) or captions (`text`)."""
    by_name = {name.lower(): name for name in reversed(list(there))}
    return next((by_name[name] for name in LIKELY[role] if name in by_name), None)


def _absent(name: str, role: str, there: Sequence[str], where: str) -> InputError:
    proposal = likely(role, there) if role in LIKELY else None
    if proposal is not None:
        fix: str | None = f"{_ROLES[role]} {proposal}"
    elif role == "text":
        fix = "--text-col NAME, or --no-text if it has no captions"
    else:
        fix = f"{_ROLES[role]} NAME" if role == "url" else None
    return InputError(f"no column {name!r}", where=where, expected=f"one of its columns: {', '.join(there)}", fix=fix)
