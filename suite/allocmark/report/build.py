"""From a results folder to report files: pages as HTML and Markdown, tables as CSV, pictures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path

from allocmark import store
from allocmark.documents import write_whole
from allocmark.errors import UnknownNameError
from allocmark.report import csvs, figures, html, markdown_page
from allocmark.report.claims.text import LANGUAGES
from allocmark.report.markdown_page import Files
from allocmark.report.page import Part, page, slugged, unique
from allocmark.report.pictures import Picture
from allocmark.report.stacks import stacks

FORMATS = ("md",)
_MANY = 4
"""Parts from which it pays to start other processes, which takes a second or two."""
_WORKERS = 2
MARKDOWN_NAME = "README.md"
"""So that a folder of reports shows its page where it is browsed."""


def render_markdown(results: Path) -> str:
    """Return the page of a results folder as Markdown, without pictures.

    Raises `AllocmarkError` where there are no usable results.
    """
    return markdown_page.render(page(store.load(results)))


def write_report(
    results: Path,
    out: Path,
    language: str = "en",
    warn: Callable[[str], None] | None = None,
) -> Path:
    """Write the pages with their CSV and SVG files into `out` and return the first page's path.

    ``<out>/index.html`` is the page of the stack that was measured last, and
    ``<out>/<part>/index.html`` that of each other one; ``<out>/README.md`` shows all of them. Each
    table is ``<out>/<part>/<table>.csv``, each picture ``<out>/<part>/<figure>.svg`` and ``.csv``.
    `language` is the one that pages open in; `warn` is told what of the results could not be used,
    in one sentence. The same results give the same bytes. Raises
    `AllocmarkError` where there are no usable results, or for a language that does not exist.
    """
    if language not in LANGUAGES:
        raise UnknownNameError("language", language, list(LANGUAGES))
    loaded = store.load(results, readers=_WORKERS)
    if warn and loaded.left_out:
        warn(_left_out(loaded.left_out))
    made = page(loaded)
    files = Files({}, {})
    first = made.parts[0]
    with _drawing(made.parts) as drawn:
        beside = stacks(first, made.parts)
        for part, pictures in zip(made.parts, drawn, strict=True):
            _write_data(part, pictures, out, files)
            others = beside if part is first else None
            shown = html.render(made, part, pictures, language, beside=others)
            write_whole(out / html.place(made, part), shown.encode())
    write_whole(out / MARKDOWN_NAME, markdown_page.render(made, files).encode())
    return out / html.place(made, first)


def _left_out(found: Sequence[store.LeftOut]) -> str:
    files = len({one.path for one in found})
    what = "1 file" if files == 1 else f"{files} files"
    first = found[0].reason if files == 1 else f"the first: {found[0].reason}"
    return f"left out, {what} in whole or in part: {first} (each is named on the page)"


@contextmanager
def _drawing(parts: Sequence[Part]) -> Iterator[Iterator[list[Picture]]]:
    """Give the pictures of each part; of many, they are drawn while tables are written."""
    if len(parts) < _MANY and len(parts[0].panel.store.sources) < store.MANY:
        yield (figures.pictures(part.panel) for part in parts)
        return
    # Forking would copy threads of libraries.
    with ProcessPoolExecutor(_WORKERS, mp_context=get_context("forkserver")) as pool:
        yield pool.map(figures.pictures, [part.panel.alone() for part in parts])


def _write_data(part: Part, pictures: Sequence[Picture], out: Path, files: Files) -> None:
    """Write a part's tables and pictures, and note in `files` where they lie."""
    taken: set[str] = set()
    for section in part.sections:
        for table in section.tables:
            name = f"{part.slug}/{unique(slugged(table.id), taken)}.csv"
            write_whole(out / name, csvs.table(table).encode())
            files.tables[part.slug, table.id] = name
    for picture in pictures:
        stem = f"{part.slug}/{unique(slugged(f'figure-{picture.id}'), taken)}"
        write_whole(out / f"{stem}.svg", picture.svg.encode())
        write_whole(out / f"{stem}.csv", picture.csv.encode())
        files.pictures.setdefault(part.slug, []).append((stem, picture.title, picture.about))
