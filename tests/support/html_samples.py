"""Pages for tests of the HTML writer: the committed results', made once, and small ones."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from allocmark.report.page import Page, Part, page
from allocmark.report.plots import catalog
from allocmark.report.webpage.writer import render
from allocmark.store.frame import Store, load

RESULTS = Path(__file__).parents[2] / "results"


@dataclass(frozen=True)
class Made:
    """A page with all that it was made of."""

    store: Store
    page: Page
    part: Part
    html: str


def made(results: Path, drawn: bool = True) -> Made:
    """Return the page of the first part of a results folder, its pictures only if `drawn`."""
    store = load(results)
    shown = page(store)
    part = shown.parts[0]
    pictures = catalog.pictures(part.panel) if drawn else []
    return Made(store, shown, part, render(shown, part, pictures))


@cache
def published() -> Made:
    """Return the page of the committed results."""
    return made(RESULTS)
