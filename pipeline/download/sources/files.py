"""The files that a source names, and the form of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from pools import store
from pools.errors import InputError
from pools.layout import Pool

Form = Literal["parquet", "txt", "csv", "tsv", "json", "jsonl"]
FORMS: tuple[Form, ...] = get_args(Form)
_OTHER_NAMES: dict[str, Form] = {"ndjson": "jsonl", "pq": "parquet", "tab": "tsv"}
_ARCHIVES = (".warc", ".warc.gz", ".arc", ".arc.gz", ".wat", ".wat.gz")
_EXPECTED = "a file, a folder or a pattern of parquet, .txt, .csv, .tsv, .json or .jsonl (these also with .gz)"


@dataclass(frozen=True)
class Named:
    """One file of a source. `stem` is its path below the folder that was named, or its name, without the extension."""

    path: str
    form: Form
    gzip: bool
    stem: str
    digest: str


def find(source: str) -> list[Named]:
    """The files of a source in order: a pool's metadata, else the parquet files of a folder, else its texts.

    Raises InputError if there are none, or if a file's form is not known.
    """
    root: str | None = None
    if store.is_dir(source):
        root = source.rstrip("/") or source
        paths = _folder(root)
    elif store.exists(source):
        paths = [source]
    else:
        paths = [path for path in store.find_glob(source) if not store.is_dir(path)] if any(c in source for c in "*?[") else []
        root = _common_folder(paths)
    if not paths:
        raise InputError("no such file or folder", where=source, expected=_EXPECTED)
    named = []
    for path in paths:
        form, packed = form_of(path)
        below = path[len(root) :].strip("/") if root is not None else store.name(path)
        named.append(Named(path, form, packed, _stem(below), store.digest(path, root)))
    return named


def form_of(path: str) -> tuple[Form, bool]:
    """What a file's name says that it is, and whether it is packed by gzip. A name without an extension means parquet."""
    name = store.name(path).lower()
    if name.endswith(_ARCHIVES):
        raise InputError(
            "an archive of a crawl has no rows to download",
            where=path,
            expected=_EXPECTED,
            fix="winnow extract … --output candidates, then winnow download candidates --archives …",
        )
    packed = name.endswith(".gz")
    base, dot, extension = name.removesuffix(".gz").rpartition(".")
    form = _form(extension) if dot and base else "parquet"
    if form is None or (packed and form == "parquet"):
        raise InputError(f"unknown kind of file {name!r}", where=path, expected=_EXPECTED)
    return form, packed


def _form(extension: str) -> Form | None:
    extension = _OTHER_NAMES.get(extension, extension)
    return next((form for form in FORMS if form == extension), None)


def _folder(root: str) -> list[str]:
    """A folder's parquet files (a pool's metadata); where it has none, the files of any other form."""
    names = store.list_files(root)
    if any(name.endswith(".parquet") for name in names):
        return [part.parquet for part in Pool.open(root).parts]
    return [store.join(root, name) for name in names if _is_text(name)]


def _is_text(name: str) -> bool:
    base, dot, extension = name.lower().removesuffix(".gz").rpartition(".")
    return bool(dot and base) and _form(extension) not in (None, "parquet")


def _common_folder(paths: list[str]) -> str | None:
    if not paths:
        return None
    folders = [path.split("/")[:-1] for path in paths]
    common = []
    for names in zip(*folders, strict=False):
        if len(set(names)) > 1:
            break
        common.append(names[0])
    return "/".join(common) or "/"


def _stem(below: str) -> str:
    folder, slash, name = below.rpartition("/")
    name = name.removesuffix(".gz")
    return folder + slash + (name.rpartition(".")[0] or name)
