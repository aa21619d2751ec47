"""The little Markdown that cards and datasheets are written in, as parts of a page: texts, lists, tables, code."""

from __future__ import annotations

import re

from pipeline.report.page import Table, Text

_SEPARATOR = re.compile(r"\|(\s*:?-+:?\s*\|)+")


def parts(text: str) -> tuple[Text | Table, ...]:
    """Headings name what follows them; a YAML head is left out; everything is text, markup within lines as well."""
    found: list[Text | Table] = []
    paragraphs: list[str] = []
    heading = ""
    lines = _body(text.splitlines())
    place = 0

    def flush() -> None:
        if paragraphs:
            found.append(Text(tuple(paragraphs)))
            paragraphs.clear()

    while place < len(lines):
        line = lines[place]
        if line.startswith("```"):
            end = next((i for i in range(place + 1, len(lines)) if lines[i].startswith("```")), len(lines))
            flush()
            found.append(_code(heading, lines[place + 1 : end]))
            place = end + 1
        elif line.startswith("|"):
            end = next((i for i in range(place, len(lines)) if not lines[i].startswith("|")), len(lines))
            flush()
            found.append(_table(heading, lines[place:end]))
            place = end
        else:
            if line.startswith("#"):
                heading = line.lstrip("#").strip()
            elif line.strip():
                paragraphs.append(line.strip().removeprefix("- "))
            place += 1
    flush()
    return tuple(found)


def _body(lines: list[str]) -> list[str]:
    if lines and lines[0] == "---" and "---" in lines[1:]:
        return lines[lines.index("---", 1) + 1 :]
    return lines


def _table(heading: str, lines: list[str]) -> Table:
    rows = [_cells(line) for line in lines if not _SEPARATOR.fullmatch(line.strip())]
    width = max(map(len, rows))
    padded = [(*row, *[""] * (width - len(row))) for row in rows]
    return Table(heading, padded[0], padded[1:])


def _cells(line: str) -> list[str]:
    return [cell.replace("\\|", "|").strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]


def _code(heading: str, lines: list[str]) -> Table:
    """A line a row, its indentation kept."""
    shown = [line.replace("\t", "    ") for line in lines]
    kept = ["\u00a0" * (len(line) - len(line.lstrip(" "))) + line.lstrip(" ") for line in shown]
    return Table(heading, ("line", "code"), [(i, line) for i, line in enumerate(kept, 1)])
