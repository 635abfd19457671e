"""From a results folder to report files: every table as CSV, every picture as SVG, one page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from allocmark import store
from allocmark.documents import write_whole
from allocmark.errors import UnknownNameError
from allocmark.report import csvs, figures, markdown_page
from allocmark.report.markdown_page import Files
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
    files = Files({}, {})
    for part in made.parts:
        taken: set[str] = set()
        for section in part.sections:
            for table in section.tables:
                name = f"{part.slug}/{unique(slugged(table.id), taken)}.csv"
                write_whole(out / name, csvs.table(table).encode())
                files.tables[part.slug, table.id] = name
        for picture in figures.pictures(part.panel):
            stem = f"{part.slug}/{unique(slugged(f'figure-{picture.id}'), taken)}"
            write_whole(out / f"{stem}.svg", picture.svg.encode())
            write_whole(out / f"{stem}.csv", picture.csv.encode())
            files.pictures.setdefault(part.slug, []).append((stem, picture.title))
    target = out / PAGE_NAME
    write_whole(target, markdown_page.render(made, files).encode())
    return target
