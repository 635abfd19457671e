"""The page in a real browser: what decides is seen, and a phone scrolls in one direction."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from allocmark.replays import page
from tests.support.answers import answer, whole
from tests.support.browser import NO_BROWSER, browser_path

pytestmark = pytest.mark.skipif(browser_path() is None, reason=NO_BROWSER)

_DECIDE = ("this card", "smallest card", "without retry")


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    pytest.importorskip("jinja2")
    api = pytest.importorskip("playwright.sync_api")
    names = ("torch-native*", "torch-expandable-roundup4", "torch-expandable-split64")
    found = whole(*(answer(name, 3, 1, True, 1) for name in names))
    source = f"torch snapshot {'snapshot_of_a_long_run_' * 4}.pickle"
    found = replace(found, recording=replace(found.recording, source=source))
    path: Path = tmp_path_factory.mktemp("page") / "page.html"
    page.write(path, found)
    with api.sync_playwright() as playwright:
        # In a container of root there is no sandbox to be had.
        started = playwright.chromium.launch(
            executable_path=browser_path(), args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        sheet = started.new_page()
        sheet.goto(path.as_uri())
        yield sheet
        started.close()


def test_a_phone_scrolls_down_only(opened: Any) -> None:
    opened.set_viewport_size({"width": 360, "height": 720})
    assert opened.evaluate("document.documentElement.scrollWidth") <= 360
    assert opened.locator("h1").bounding_box()["width"] <= 360


@pytest.mark.parametrize("width", [800, 1280])
def test_what_decides_is_seen_without_scrolling(opened: Any, width: int) -> None:
    opened.set_viewport_size({"width": width, "height": 800})
    room = opened.locator(".wide").first.bounding_box()
    for name in _DECIDE:
        seen = opened.get_by_role("columnheader", name=name, exact=True).bounding_box()
        assert seen["x"] + seen["width"] <= room["x"] + room["width"], name


def test_a_desk_shows_the_whole_table_and_a_sentence_above_it(opened: Any) -> None:
    opened.set_viewport_size({"width": 1280, "height": 800})
    assert opened.evaluate("(e => e.scrollWidth <= e.clientWidth)(document.querySelector('.wide'))")
    assert opened.locator("p strong").first.inner_text() == (
        "The recorded torch-native fits this card with 1 retry: none of the others is better."
    )
