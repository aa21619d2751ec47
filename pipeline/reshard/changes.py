"""What is changed in a sample on its way: captions, boxes in its json, faces."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from pipeline.reshard import faces
from pools import shards

Members = dict[str, bytes]


@dataclass(frozen=True)
class Change:
    """What a run changes; `blur` is the format and quality that images with faces get."""

    captions: bool = False
    inject: bool = False
    blur: tuple[str, int] | None = None

    @property
    def any(self) -> bool:
        return self.captions or self.inject or self.blur is not None

    def __call__(self, uid: str, members: Members, caption: bytes | None, boxes: bytes | None) -> Members | faces.Failure:
        """The members as they are to be written. `boxes` None: nobody has looked for faces; empty: there is none."""
        fields: dict[str, Any] = {}
        if caption is not None:
            members, fields = _recaptioned(members, caption)
        found = None if boxes is None else faces.unpacked(boxes)
        if self.inject and found is not None:
            fields[faces.BOXES] = found
        if fields:
            members = _with_fields(uid, members, fields)
        if self.blur is None:
            return members
        return faces.blurred(members, found, *self.blur)


def _recaptioned(members: Members, caption: bytes) -> tuple[Members, dict[str, Any]]:
    """The members with another caption, and what the json has to say of it: the caption that it had first stays known."""
    key = _named(members, "txt") or "txt"
    known = shards.fields_of(members[json_key]) if (json_key := _named(members, "json")) else None
    had = (known or {}).get("original_caption") or (known or {}).get("caption")
    if not isinstance(had, str):
        had = members[key].decode("utf-8", "replace") if key in members else None
    return {**members, key: caption}, {"caption": caption.decode(), "original_caption": had}


def _with_fields(uid: str, members: Members, fields: dict[str, Any]) -> Members:
    key = _named(members, "json") or "json"
    known = shards.fields_of(members[key]) if key in members else None
    return {**members, key: json.dumps({**(known or {"uid": uid}), **fields}, ensure_ascii=False).encode("utf-8", "replace")}


def _named(members: Members, extension: str) -> str | None:
    return next((e for e in members if e.lower() == extension), None)
