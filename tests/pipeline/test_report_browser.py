"""Pages of a report in the browser that people have: Chromium, on files, without a network."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from pipeline.engine import Options
from pipeline.report.funnel import read_funnel
from pipeline.report.gallery import Wanted
from pipeline.report.make import Settings, report
from pipeline.report.page import Page, Section, Table
from pipeline.report.write import MAX_BYTES, write
from pools.outputs import Selection
from tests.demos import Demo
from tests.pipeline.made_pools import uid
from tests.pipeline.reporting import ROWS, every_row, make_pool, make_selection, stage_sections

pytestmark = pytest.mark.xdist_group("browser")

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
PAGES = ("index", "mine", "mine-samples", "pool")
PHONE = {"width": 360, "height": 740}


# Not of the session: playwright's event loop goes on as long as it is there, and other tests have loops of their own.
@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """The distribution's Chromium; where there is none, tests are skipped by name, but for CI, which installs it."""
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        assert not os.environ.get("CI"), "CI has no Chromium, which .ci/run installs"
        pytest.skip(f"no browser: none of {', '.join(NAMES)} is installed")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=found, args=FLAGS)
        yield started
        started.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a pool with hostile captions and a selection of it: the funnel, the samples of each stage, and every row."""
    root = tmp_path_factory.mktemp("pages")
    pool, selection = make_pool(root / "pool"), make_selection(root / "pool", root / "mine")
    funnel = read_funnel(Selection(str(selection))).section("mine-funnel")
    wide = Table("wide", tuple("x" * 20 for _ in range(12)), [["y" * 400, *range(11)]], frozenset([0]))
    write(
        str(root / "out"),
        [
            Page("mine", "mine", "What it did.", [funnel, Section("wide", "Wide", [wide])]),
            Page("mine-samples", "mine: samples", "Samples.", stage_sections(pool, selection)),
            Page("pool", "pool", "Every row.", [every_row(pool)]),
        ],
    )
    return root / "out"


class Tab:
    """A page in the browser, and all that it complained about or asked for."""

    def __init__(self, browser: Any, path: Path, fragment: str = "", **options: Any) -> None:
        self.context = browser.new_context(**{"offline": True, **options})
        self.context.set_default_timeout(15_000)
        self.page = self.context.new_page()
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: self.complaints.append(f"dialog {dialog.message}") or dialog.dismiss())  # type: ignore[func-returns-value]
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri() + fragment)

    def __enter__(self) -> Tab:
        return self

    def __exit__(self, *_: object) -> None:
        self.context.close()

    def shown(self) -> int:
        return int(self.page.locator(".card:visible").count())


@pytest.mark.parametrize("name", PAGES)
def test_a_page_loads_in_silence(browser: Any, pages: Path, name: str) -> None:
    with Tab(browser, pages / f"{name}.html", viewport=PHONE) as tab:
        assert tab.page.title() in ("Reports", "mine", "mine: samples", "pool")  # nobody's script has changed it
        sizes = tab.page.evaluate("Promise.all(Array.from(document.images, i => i.decode().then(() => i.naturalWidth)))")
        assert all(size > 0 for size in sizes)
        assert tab.page.evaluate("document.scripts.length") == 1
        assert (
            tab.page.evaluate("Array.from(document.querySelectorAll('a'), a => new URL(a.href).protocol)").count("javascript:")
            == 0
        )
        # Nothing sticks out to the side, on a phone.
        assert tab.page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
        assert [url for url in tab.requests if not url.startswith("data:")] == [(pages / f"{name}.html").as_uri()]
        assert tab.complaints == []


def test_whatever_gets_in_cannot_run(browser: Any, pages: Path) -> None:
    with Tab(browser, pages / "pool.html") as tab:
        tab.page.evaluate(
            """() => {
                const hostile = '<img src="x" onerror="window.owned = 1"><b onclick="window.owned = 2" id="b">b</b>';
                document.body.insertAdjacentHTML("beforeend", hostile);
                const script = document.createElement("script");
                script.textContent = "window.owned = 3";
                document.body.append(script);
                document.getElementById("b").click();
            }"""
        )
        tab.page.wait_for_timeout(50)
        assert tab.page.evaluate("window.owned === undefined")
        assert any("Content Security Policy" in complaint for complaint in tab.complaints)


def test_the_gallery_is_searched_and_filtered(browser: Any, pages: Path) -> None:
    with Tab(browser, pages / "pool.html") as tab:
        find, count = tab.page.get_by_label("Find"), tab.page.locator("#count")
        assert tab.shown() == ROWS and count.inner_text() == "60 of 60 samples"
        find.fill("BIRD Branch 3")
        count.get_by_text("13 of 60 samples").wait_for()  # 23, 30 to 39, 43, 53
        assert tab.shown() == 13
        find.fill(uid(30)[:10])
        count.get_by_text("1 of 60 samples").wait_for()
        find.fill("<script>")  # three captions, an address
        count.get_by_text("4 of 60 samples").wait_for()
        find.fill("כחולה")
        count.get_by_text("1 of 60 samples").wait_for()
        find.fill("nobody says this")
        count.get_by_text("0 of 60 samples").wait_for()
        assert tab.page.get_by_text("No sample here is what you look for.").is_visible()
        tab.page.get_by_role("button", name="Show all").click()
        count.get_by_text("60 of 60 samples").wait_for()
        tab.page.get_by_label("Language").select_option("he")
        assert tab.shown() == 1
        tab.page.get_by_label("Language").select_option("")
        tab.page.get_by_label("Picture").select_option("none")
        assert tab.shown() == 7
        find.press("Enter")  # sends nothing anywhere
        assert tab.page.url.endswith("pool.html")
    with Tab(browser, pages / "mine-samples.html") as tab:
        tab.page.get_by_label("Which").select_option("nearly kept")
        assert tab.shown() == 12 + 5
        assert tab.page.get_by_label("Kept: 23").locator("~ .nothing").is_visible()


def test_unsafe_pictures_are_blurred_until_asked_for(browser: Any, pages: Path) -> None:
    with Tab(browser, pages / "mine-samples.html", reduced_motion="reduce") as tab:
        card = tab.page.locator(".card", has_text="a blue bird on branch 43").first
        picture, button = card.locator("img"), card.get_by_role("button")
        blur = "element => getComputedStyle(element).filter"
        assert picture.evaluate(blur).startswith("blur(")
        assert button.get_attribute("aria-pressed") == "false" and button.inner_text() == "Show the picture"
        button.focus()
        tab.page.keyboard.press("Enter")
        assert picture.evaluate(blur) == "none" and button.get_attribute("aria-pressed") == "true"
        tab.page.keyboard.press("Space")
        assert picture.evaluate(blur).startswith("blur(") and button.get_attribute("aria-pressed") == "false"
        safe = tab.page.locator(".card", has_text="a blue bird on branch 30").first
        assert safe.locator("img").evaluate(blur) == "none" and safe.get_by_role("button").count() == 0
        others = tab.page.locator(".unsafe img").all()
        assert len(others) == 6 and all(image.evaluate(blur).startswith("blur(") for image in others)


def test_without_scripts_it_is_a_plain_list(browser: Any, pages: Path) -> None:
    with Tab(browser, pages / "pool.html", java_script_enabled=False) as tab:
        assert tab.shown() == ROWS
        assert not tab.page.locator("#filter").is_visible()
        assert tab.page.locator("button.reveal:visible").count() == 0
        assert tab.page.locator(".why:visible").count() == 9


def test_the_keyboard_reaches_what_there_is(browser: Any, pages: Path) -> None:
    with Tab(browser, pages / "mine-samples.html") as tab:
        tab.page.keyboard.press("Tab")
        link = tab.page.locator(":focus")
        assert link.inner_text() == "Skip to the content" and link.bounding_box()["x"] >= 0
        assert link.evaluate("element => getComputedStyle(element).outlineStyle") == "solid"
        tab.page.keyboard.press("Enter")
        assert tab.page.evaluate("document.activeElement.id") == "main"


def ground(tab: Tab) -> tuple[int, int]:
    """Brightness, 0 to 765, of the page and of what is written on it."""
    colours = tab.page.evaluate("[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]")
    paper, ink = (sum(int(part) for part in colour.strip("rgb()").split(",")[:3]) for colour in colours)
    return paper, ink


def test_light_and_dark_and_print(browser: Any, pages: Path) -> None:
    with Tab(browser, pages / "mine-samples.html", color_scheme="light") as tab:
        paper, ink = ground(tab)
        assert paper > 700 and ink < 120
        tab.page.emulate_media(color_scheme="dark")
        paper, ink = ground(tab)
        assert paper < 120 and ink > 600
        tab.page.emulate_media(media="print", color_scheme="dark")
        assert ground(tab) == (765, 0)
        assert not tab.page.locator("#filter").is_visible() and tab.shown() > 0


def take(browser: Any, pages: Path, shots: Mapping[str, tuple[str, str, dict[str, int]]], folder: Path) -> None:
    """Pictures of pages: {file: (page and fragment, light or dark, its window)}."""
    folder.mkdir(parents=True, exist_ok=True)
    for file, (name, scheme, size) in shots.items():
        name, hash_, fragment = name.partition("#")
        with Tab(browser, pages / name, hash_ + fragment, viewport=size, color_scheme=scheme) as tab:
            tab.page.screenshot(path=folder / file)


def test_screenshots_of_the_pages(browser: Any, pages: Path, tmp_path: Path) -> None:
    shots = {
        "funnel.png": ("mine.html", "light", {"width": 1100, "height": 800}),
        "samples.png": ("mine-samples.html#stage-1", "dark", PHONE),
    }
    folder = Path(os.environ.get("WINNOW_SCREENSHOTS") or tmp_path)
    take(browser, pages, shots, folder)
    for name, (_, scheme, size) in shots.items():
        with Image.open(folder / name) as picture:
            assert picture.size == (size["width"], size["height"])
            assert sum(common(picture)) > 700 if scheme == "light" else sum(common(picture)) < 120


def common(picture: Image.Image) -> tuple[int, int, int]:
    """The colour of most of a picture."""
    parts = np.asarray(picture.convert("RGB")).reshape(-1, 3).astype(np.uint32)
    colours, counts = np.unique(parts[:, 0] << 16 | parts[:, 1] << 8 | parts[:, 2], return_counts=True)
    most = int(colours[counts.argmax()])
    return most >> 16, most >> 8 & 255, most & 255


@pytest.mark.slow
@pytest.mark.xdist_group("demo")
def test_the_whole_report_on_a_demo_in_the_browser(browser: Any, demo: Demo, tmp_path: Path) -> None:
    recipes = [str(demo.folder / "selections" / name) for name in ("basic", "intersection")]
    runs = [str(demo.folder / "runs" / name) for name in ("basic", "intersection")]
    paths = [*recipes, str(demo.folder / "pool"), str(demo.folder / "pool" / "shards"), *runs]
    report(paths, str(tmp_path / "out"), Settings(Wanted(), MAX_BYTES, Options(workers=0, quiet=True)))
    names = sorted(p.stem for p in (tmp_path / "out").glob("*.html"))
    assert {"index", "pool", "basic", "basic-samples", "intersection", "intersection-samples"} < set(names)
    for name in names:
        path = tmp_path / "out" / f"{name}.html"
        assert path.stat().st_size < MAX_BYTES
        for size in (PHONE, {"width": 1280, "height": 900}):
            with Tab(browser, path, viewport=size) as tab:
                assert tab.page.evaluate("document.documentElement.scrollWidth") <= size["width"], name
                assert tab.complaints == [] and tab.requests[0] == path.as_uri()
                assert all(url.startswith("data:") for url in tab.requests[1:])
                drawn = tab.page.locator(".drawing")
                assert all(
                    len(alt or "") > 40 for alt in drawn.evaluate_all("all => all.map(e => e.getAttribute('aria-label'))")
                )
