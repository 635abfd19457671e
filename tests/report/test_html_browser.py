"""The page in a real browser: language, theme, sorting, anchors, downloads, phone, print, axe."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from allocmark.report.webpage import layout
from allocmark.store import csv_text
from tests.support import budgets
from tests.support.browser import NO_BROWSER, browser_path
from tests.support.html_samples import published

pytestmark = pytest.mark.skipif(browser_path() is None, reason=NO_BROWSER)

PHONE = {"width": 360, "height": 720}
DESK = {"width": 1280, "height": 800}
LAID_OUT = ".part { content-visibility: visible !important }"
"""What is far from the window is laid out too, which a reader's browser leaves for later."""
HITS = "#latency-hit-allocator"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    api = pytest.importorskip("playwright.sync_api")
    with api.sync_playwright() as playwright:
        # In a container of root there is no sandbox to be had.
        started = playwright.chromium.launch(
            executable_path=browser_path(), args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        yield started
        started.close()


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    path: Path = tmp_path_factory.mktemp("report") / "index.html"
    path.write_text(published().html)
    return path.as_uri()


@contextmanager
def _opened(browser: Any, address: str, **options: Any) -> Iterator[Any]:
    """Yield the page; fails if it asks for anything, or its script does."""
    context = browser.new_context(**{"viewport": DESK, **options})
    page = context.new_page()
    asked: list[str] = []
    errors: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda said: errors.append(said.text) if said.type == "error" else None)
    page.goto(address)
    yield page
    context.close()
    assert errors == []
    assert {url.partition("#")[0] for url in asked if not url.startswith(("data:", "blob:"))} == {
        address.partition("#")[0]
    }


def test_both_languages_are_on_the_page_and_one_is_seen(browser: Any, address: str) -> None:
    with _opened(browser, address) as page:
        heading = page.locator("h1")
        assert heading.inner_text().startswith("How GPU memory")
        page.get_by_role("button", name="中文").click()
        assert page.evaluate("document.documentElement.lang") == "zh"
        assert heading.inner_text().startswith("GPU 显存")
        assert page.title().startswith("GPU 显存")
        assert page.locator("#conditions h2 [lang=en]").is_hidden()
        page.reload()
        assert heading.inner_text().startswith("GPU 显存"), "the choice is kept"
        page.get_by_role("button", name="EN", exact=True).click()
        assert heading.inner_text().startswith("How GPU memory")


def test_the_theme_follows_the_system_until_it_is_chosen(browser: Any, address: str) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    with _opened(browser, address, color_scheme="light") as page:
        light = page.evaluate(ground)
        page.locator("#theme").click()
        dark = page.evaluate(ground)
        assert dark != light
        assert page.locator("#theme").get_attribute("aria-pressed") == "true"
    with _opened(browser, address, color_scheme="dark") as page:
        assert page.evaluate(ground) == dark
        page.locator("#theme").click()
        assert page.evaluate(ground) == light


def test_a_heading_sorts_by_the_value_and_back(browser: Any, address: str) -> None:
    values = (
        f"[...document.querySelectorAll('{HITS} tbody tr')].map(r => r.cells[3].dataset.v ?? null)"
    )
    with _opened(browser, address) as page:
        before = page.evaluate(values)
        button = page.locator(f"{HITS} thead th:nth-child(4) button")
        for direction in ("ascending", "descending"):
            button.click()
            assert page.locator(f"{HITS} thead th:nth-child(4)").get_attribute("aria-sort") == (
                direction
            )
            known = [float(value) for value in page.evaluate(values) if value is not None]
            assert known == sorted(known, reverse=direction == "descending")
        button.press("Enter")
        assert page.evaluate(values) == before


def test_an_address_of_a_folded_table_opens_it(browser: Any, address: str) -> None:
    with _opened(browser, f"{address}#latency-cross-check") as page:
        table = page.locator("#latency-cross-check")
        assert table.is_visible()
        assert table.bounding_box()["y"] < DESK["height"]
        page.evaluate("location.hash = 'claim-pt-empty-cache'")
        page.locator("#claim-pt-empty-cache .why").wait_for(state="visible")


def test_columns_of_a_wide_table_come_when_they_are_asked_for(browser: Any, address: str) -> None:
    with _opened(browser, address) as page:
        last_but_one = page.locator(f"{HITS} thead th:nth-child(5)")
        assert last_but_one.is_hidden()
        page.locator(f"{HITS} input.all").check()
        assert last_but_one.is_visible()


def test_a_table_is_downloaded_as_it_is_written(browser: Any, address: str) -> None:
    made = published()
    anchors = layout.anchors(made.part)
    tables = [table for section in made.part.sections for table in section.tables]
    wanted = next(table for table in tables if f"#{anchors[table.id]}" == HITS)
    with _opened(browser, address) as page:
        with page.expect_download() as started:
            page.locator(f"{HITS} .csv").click()
        assert started.value.suggested_filename == f"{HITS[1:]}.csv"
        assert Path(started.value.path()).read_text() == csv_text.table(wanted)


def test_no_table_scrolls_sideways_on_a_desk(browser: Any, address: str) -> None:
    with _opened(browser, address) as page:
        page.add_style_tag(content=LAID_OUT)
        page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
        for language in ("EN", "中文"):
            page.get_by_role("button", name=language, exact=True).click()
            wider = page.evaluate(
                "[...document.querySelectorAll('.box')]"
                ".filter(box => box.scrollWidth > box.clientWidth).map(box => box.parentElement.id)"
            )
            assert wider == [], language


def test_a_phone_scrolls_tables_and_not_the_page(browser: Any, address: str) -> None:
    for language in ("EN", "中文"):
        with _opened(browser, address, viewport=PHONE) as page:
            page.get_by_role("button", name=language, exact=True).click()
            page.add_style_tag(content=LAID_OUT)
            page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
            assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
            assert page.evaluate(f"document.querySelector('{HITS} .box').scrollWidth") > 360


@pytest.mark.parametrize("width", [390, 1440])
def test_the_contents_show_every_section(browser: Any, address: str, width: int) -> None:
    with _opened(browser, address, viewport={"width": width, "height": 800}) as page:
        sections = page.locator(".part").evaluate_all("all => all.map(one => '#' + one.id)")
        for place in (".contents a", ".menu a"):
            links = page.locator(place)
            assert links.evaluate_all("all => all.map(one => one.hash)") == sections
        page.locator(".menu > summary").click()
        for link in page.locator(".menu a").all():
            box = link.bounding_box()
            assert box["x"] >= 0 and box["x"] + box["width"] <= width
        page.locator(".menu a").last.click()
        assert page.locator(".menu nav").is_hidden()
        assert page.locator(sections[-1]).is_visible()


def test_a_row_of_the_verdicts_shows_that_it_opens(browser: Any, address: str) -> None:
    with _opened(browser, address) as page:
        row = page.locator("#claim-pt-empty-cache > summary")
        assert row.evaluate("row => getComputedStyle(row).cursor") == "pointer"
        marker = "row => getComputedStyle(row, '::before').content"
        assert row.evaluate(marker) == '"▸"'
        row.click()
        assert row.evaluate(marker) == '"▾"'


def test_a_card_says_on_hover_on_how_little_it_rests(browser: Any, address: str) -> None:
    with _opened(browser, address) as page:
        card = page.locator(".cards a[title]").first
        assert "reading" in card.get_attribute("title")
        page.get_by_role("button", name="中文").click()
        assert "读" in card.get_attribute("title")


def test_a_phone_says_which_tables_scroll_and_stacks_those_of_the_document(
    browser: Any, address: str
) -> None:
    with _opened(browser, address, viewport={"width": 390, "height": 844}) as page:
        page.add_style_tag(content=LAID_OUT)
        for table in page.locator(".part > .tb:has(.box)").all():
            box = table.locator(".box")
            over = box.evaluate("box => box.scrollWidth > box.clientWidth")
            hint = table.locator(".hint")
            shown = hint.is_visible() if hint.count() else False
            assert shown == over, table.get_attribute("id")
        assert page.locator(".quotes").count() == 6
        assert page.locator("#document-traits .col").first.is_visible()
    with _opened(browser, address) as page:
        assert page.locator("#document-traits .col").first.is_hidden()
        assert page.locator("#advice .hint").is_hidden()


def test_a_phone_shows_every_picture_whole(browser: Any, address: str) -> None:
    with _opened(browser, address, viewport={"width": 390, "height": 844}) as page:
        page.add_style_tag(content=LAID_OUT)
        for box in page.locator(".fig .box").all():
            assert box.evaluate("box => box.scrollWidth <= box.clientWidth")
            texts = box.locator("svg.phone text").evaluate_all(
                "all => all.map(t => t.getBoundingClientRect()).filter(r => r.width)"
                ".map(r => [r.left, r.right, r.height])"
            )
            assert texts
            for left, right, height in texts:
                assert left >= 0 and right <= 390 and height >= 7


@pytest.mark.parametrize(
    ("scheme", "language", "viewport"),
    [
        *(("light", "EN", DESK), ("dark", "中文", DESK)),
        *(("light", "中文", PHONE), ("dark", "EN", PHONE)),
    ],
)
def test_axe_finds_nothing(
    browser: Any, address: str, scheme: str, language: str, viewport: dict[str, int]
) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    with _opened(browser, address, color_scheme=scheme, viewport=viewport) as page:
        page.get_by_role("button", name=language, exact=True).click()
        page.locator("#claim-pt-no-lock").evaluate("claim => claim.open = true")
        page.add_style_tag(content=LAID_OUT)
        # Three rows of a table are as good as a hundred, and looked at in a tenth of the time.
        page.evaluate(
            "document.querySelectorAll('tbody')"
            ".forEach(body => [...body.rows].slice(3).forEach(row => row.remove()))"
        )
        found = axe.Axe().run(page).response["violations"]
        faults = [
            (fault["id"], fault["nodes"][0]["html"][:200], len(fault["nodes"])) for fault in found
        ]
        assert faults == []


def test_everything_is_reached_by_the_keyboard(browser: Any, address: str) -> None:
    with _opened(browser, address) as page:
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        seen = set()
        for _ in range(40):
            page.keyboard.press("Tab")
            seen.add(page.evaluate("document.activeElement.id || document.activeElement.lang"))
        assert {"theme", "zh"} <= seen


def test_it_prints(browser: Any, address: str) -> None:
    with _opened(browser, address) as page:
        printed = page.pdf(format="A4")
        assert printed.startswith(b"%PDF")
        assert len(printed) > 50_000


@budgets.budget
def test_it_opens_at_once(browser: Any, address: str) -> None:
    """In less than a second: the best of three."""
    times = []
    for _ in range(3):
        with _opened(browser, address) as page:
            times.append(
                page.evaluate(
                    "(([n]) => n.domContentLoadedEventEnd)"
                    "(performance.getEntriesByType('navigation'))"
                )
            )
    budgets.note("page opens", min(times) / 1000, 1)
