"""Real archives: beside the WATs that Common Crawl's extractor makes of them, and damaged ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pipeline.extract import markup, warc, wat
from pipeline.extract.page import DOCUMENTS, Documents, Page, Wanted


def pages(path: Path, wanted: Wanted, which: Any) -> Iterator[Page]:
    with path.open("rb") as file:
        for found in warc.read(file):
            if isinstance(found, warc.Record) and (page := which(found, wanted)) is not None:
                yield page


def of_wat(record: warc.Record, wanted: Wanted) -> Page | None:
    return wat.parse(record.content, record.target, wanted) if record.type == "metadata" else None


COMMON_CRAWL = "wat/CC-MAIN-20140820021334-00006-ip-10-180-136-8.ec2.internal.warc"
ARCHIVES = {
    "warc/archive-org-2008.warc.gz": "wat-generated/archive-org-2008.warc.wat.gz",
    "warc/books.toscrape.warc": "wat-generated/books.toscrape.warc.wat.gz",
    "warc/wikipedia-mona-lisa.warc.gz": "wat-generated/wikipedia-mona-lisa.warc.wat.gz",
    COMMON_CRAWL: "wat-generated/CC-MAIN-20140820021334-00006.warc.wat.gz",
    "wat/whirlwind.warc.gz": "wat-generated/whirlwind.warc.wat.gz",
    **{
        f"warc/warcio/{name}": f"wat-generated/warcio-{name.removesuffix('.gz')}.wat.gz"
        for name in (
            *("bad.arc", "example.arc", "example-space-in-url.arc", "example-bad-non-chunked.warc.gz", "example-digest.warc"),
            *("example-iana.org-chunked.warc", "example-resource.warc.gz", "example-space-in-target-uri.warc.gz"),
            *("example-trunc.warc", "example-wget-bad-target-uri.warc.gz", "example-wrong-chunks.warc.gz", "example.warc.gz"),
            "post-test.warc.gz",
        )
    },
}
# (rows of the WAT, of the archive) for each kind; where not named, as many of both.
ROWS = {
    ("warc/archive-org-2008.warc.gz", "image"): (377, 377),
    # Seven images behind `<!-- /ARCHIVE-IT ---- -->`, which ends there, though not for the extractor.
    ("warc/archive-org-2008.warc.gz", "image_only"): (408, 415),
    ("warc/archive-org-2008.warc.gz", "audio"): (136, 136),
    ("warc/archive-org-2008.warc.gz", "video"): (12, 12),
    ("warc/archive-org-2008.warc.gz", "text"): (17, 17),
    ("warc/books.toscrape.warc", "image"): (20, 20),
    # The others of these two are of `srcset`.
    ("warc/wikipedia-mona-lisa.warc.gz", "image"): (7, 11),
    ("warc/wikipedia-mona-lisa.warc.gz", "image_only"): (18, 32),
    ("wat/whirlwind.warc.gz", "image"): (7, 12),
    ("wat/whirlwind.warc.gz", "image_only"): (13, 22),
    (COMMON_CRAWL, "image"): (861, 861),
    ("warc/warcio/example-iana.org-chunked.warc", "text"): (1, 1),
}
# An `<a name>` that is never closed swallows the extractor's texts of the links behind it, once it holds 128 characters.
MISSING = {
    ("warc/archive-org-2008.warc.gz", "text"): {
        ("http://www.archive.org/about/faqs.php", "http://www.loc.gov/copyright/circs/circ15a.pdf", "")
    }
}


@pytest.mark.shared
@pytest.mark.parametrize("documents", DOCUMENTS)
@pytest.mark.parametrize("archive", ARCHIVES)
def test_the_rows_of_a_wat_are_among_those_of_its_archive(shared_data: Path, archive: str, documents: Documents) -> None:
    wanted = Wanted(documents, opted_out=True)
    told, found = (
        {page.url: page for page in pages(shared_data / path, wanted, which)}
        for path, which in ((ARCHIVES[archive], of_wat), (archive, markup.parse))
    )
    said, seen = ({(p.url, c.url, c.alt) for p in side.values() for c in p.candidates} for side in (told, found))
    assert said - seen == MISSING.get((archive, documents), set())
    assert (len(said), len(seen)) == ROWS.get((archive, documents), (len(said), len(said)))
    for url, page in told.items():
        of_page = found[url]
        assert (of_page.title, of_page.language, of_page.opt_out, of_page.base.url) == (
            page.title,
            page.language,
            page.opt_out,
            page.base.url,
        )


@pytest.mark.shared
def test_published_wats_of_the_time_say_the_same(shared_data: Path) -> None:
    told = list(pages(shared_data / f"{COMMON_CRAWL}.wat", Wanted(), of_wat))  # it is cut: two of four pages
    found = {page.url: page for page in pages(shared_data / COMMON_CRAWL, Wanted(), markup.parse)}
    assert [len(page.candidates) for page in told] == [4]
    assert all(page.candidates == found[page.url].candidates for page in told)
    # That of `whirlwind` was made of the request alone.
    assert list(pages(shared_data / "wat/whirlwind.warc.wat.gz", Wanted(), of_wat)) == []


@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "records", "damages"),
    [
        ("badexample.arc.gz", 3, ["record", "record", "cut"]),
        ("block-sized-records.warc.gz", 3, []),
        ("clipped.warc.gz", 0, ["cut"]),
        ("warcio/bad.arc", 1, ["record", "record", "record"]),
        ("warcio/example-bad-non-chunked.warc.gz", 6, []),
        ("warcio/example-bad.warc.gz.bad", 6, []),
        ("warcio/example-space-in-target-uri.warc.gz", 2, []),
        ("warcio/example-space-in-url.arc", 1, ["cut"]),
        ("warcio/example-trunc.warc", 3, ["record"]),
        ("warcio/example-wget-bad-target-uri.warc.gz", 6, []),
        ("warcio/example-wrong-chunks.warc.gz", 2, []),
        ("warcio/post-test.warc.gz", 6, []),
    ],
)
@pytest.mark.parametrize("documents", DOCUMENTS)
def test_odd_and_damaged_files_are_read_as_far_as_they_go(
    shared_data: Path, name: str, records: int, damages: list[str], documents: Documents
) -> None:
    with (shared_data / "warc" / name).open("rb") as file:
        found = list(warc.read(file))
    whole = [r for r in found if isinstance(r, warc.Record)]
    assert (len(whole), [r.kind for r in found if isinstance(r, warc.Damage)]) == (records, damages)
    for record in whole:
        markup.parse(record, Wanted(documents))
