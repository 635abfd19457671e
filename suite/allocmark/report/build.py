"""From a results folder to report files: every table as CSV, every picture as SVG, one page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from allocmark import store
from allocmark.documents import write_whole
from allocmark.errors import UnknownNameError
from allocmark.report import csvs, figures, markdown_page
from allocmark.report.page import page, slugged, unique

FORMATS = ("md",)
PAGE_NAME = "README.md"
"""So that a folder of reports shows its page where it is browsed."""


def render_markdown(results: Path) -> str:
    """Return the page of a results folder as Markdown, without pictures.

    Raises `AllocmarkError` where there are no usable results.
    """
    return markdown_page.render(page(store.load(results)))


def write_report(results: Path, out: Path, formats: Sequence[str] = FORMATS) -> Path:
    """Write the page with its CSV and SVG files into `out` and return the page's path.

    ``<out>/README.md``, ``<out>/<part>/<table>.csv``, ``<out>/<part>/<figure>.svg`` and ``.csv``.
    The same results give the same bytes. Raises `AllocmarkError` where there are no usable
    results, or for a format that does not exist.
    """
    for name in formats:
        if name not in FORMATS:
            raise UnknownNameError("format", name, list(FORMATS))
    made = page(store.load(results))
    pictures: dict[str, list[tuple[str, str]]] = {}
    for part in made.parts:
        folder = out / part.slug
        taken: set[str] = set()
        for section in part.sections:
            for table in section.tables:
                name = unique(slugged(table.id), taken)
                write_whole(folder / f"{name}.csv", csvs.table(table).encode())
        for picture in figures.pictures(part.panel):
            name = unique(slugged(f"figure-{picture.id}"), taken)
            write_whole(folder / f"{name}.svg", picture.svg.encode())
            write_whole(folder / f"{name}.csv", picture.csv.encode())
            pictures.setdefault(part.slug, []).append((f"{part.slug}/{name}.svg", picture.title))
    target = out / PAGE_NAME
    write_whole(target, markdown_page.render(made, pictures).encode())
    return target
