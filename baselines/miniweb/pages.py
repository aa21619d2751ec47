"""A page of the made-up web: its HTML, its HTTP headers, and what a WAT says about it. All three say the same."""

from __future__ import annotations

import html
import json
from typing import Any

from baselines.miniweb import warc
from baselines.miniweb.places import Stated
from baselines.miniweb.plan import Page

# What every page has besides its pictures: a logo without a text, a spacer in the page itself, and plain links.
LOGO = "/assets/logo.png"
SPACER = "data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"
# ISO 639-3 code and CLD2's name of each language. CLD2 itself has no Maori, and says `tl` for Filipino; here the code is the
# one that pages state everywhere else.
CLD2 = {
    **{"en": ("eng", "ENGLISH"), "es": ("spa", "SPANISH"), "ru": ("rus", "RUSSIAN"), "de": ("deu", "GERMAN")},
    **{"fr": ("fra", "FRENCH"), "hi": ("hin", "HINDI"), "he": ("heb", "HEBREW"), "bn": ("ben", "BENGALI")},
    **{"fil": ("fil", "TAGALOG"), "sw": ("swa", "SWAHILI"), "te": ("tel", "TELUGU"), "mi": ("mri", "MAORI")},
}


def headers(page: Page) -> list[tuple[str, str]]:
    """HTTP headers of the page, without its length."""
    language = [("Content-Language", page.language)] if page.stated is Stated.HEADER else []
    return [("Date", warc.HTTP_DATE), ("Content-Type", "text/html; charset=UTF-8"), *language]


def body(page: Page) -> bytes:
    """The page's HTML."""
    lang = f' lang="{page.language}"' if page.stated is Stated.HTML else ""
    base = f'<base href="{page.base}">' if page.base is not None else ""
    title = html.escape(page.title)
    lines = [
        f'<!DOCTYPE html>\n<html{lang}>\n<head><meta charset="UTF-8">{base}<title>{title}</title>',
        '<meta name="viewport" content="width=device-width">',
        *([f'<meta http-equiv="content-language" content="{page.language}">'] if page.stated is Stated.META else []),
        f'<meta property="og:title" content="{title}"></head>\n<body>',
    ]
    for link in _links(page):
        url = html.escape(link["url"])
        if link["path"] == "A@/href":
            lines.append(f'<a href="{url}">{html.escape(link["text"])}</a>')
        else:
            alt = f' alt="{html.escape(link["alt"])}"' if "alt" in link else ""
            lines.append(f'<img src="{url}"{alt}>')
    return "\n".join([*lines, "</body></html>\n"]).encode()


def html_metadata(page: Page) -> dict[str, Any]:
    """The page as a WAT's HTML-Metadata has it."""
    metas = [
        *([{"name": "HTML@/lang", "content": page.language}] if page.stated is Stated.HTML else []),
        {"name": "viewport", "content": "width=device-width"},
        *([{"http-equiv": "content-language", "content": page.language}] if page.stated is Stated.META else []),
        {"property": "og:title", "content": page.title},
    ]
    head: dict[str, Any] = {"Metas": metas, "Title": page.title}
    if page.base is not None:
        head["Base"] = page.base
    return {"Head": head, "Links": _links(page)}


def crawler_notes(page: Page) -> dict[str, str]:
    """Fields of the metadata record in which a crawler states the language that it found (CLD2)."""
    iso3, name = CLD2[page.language]
    found = {"code": page.language, "code-iso-639-3": iso3, "text-covered": 0.99, "score": 1170.0, "name": name}
    text_bytes = sum(len(p.alt.encode()) for p in page.pictures)
    guess = {"reliable": True, "text-bytes": text_bytes, "languages": [found]}
    return {"charset-detected": "UTF-8", "languages-cld2": json.dumps(guess, separators=(",", ":"))}


def _links(page: Page) -> list[dict[str, str]]:
    """The page's links as a WAT lists them, in the order of the page."""
    links = [
        {"path": "A@/href", "url": "/", "text": "Home"},
        {"path": "IMG@/src", "url": LOGO},
        {"path": "IMG@/src", "url": SPACER, "alt": ""},
    ]
    for p in page.pictures:
        links.append({"path": "IMG@/src", "url": p.src, "alt": p.alt})
        links.append({"path": "A@/href", "url": f"/picture/{p.index}", "text": f"Picture {p.index}"})
    return links
