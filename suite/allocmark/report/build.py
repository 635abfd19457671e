"""From a results folder to report files: pages as HTML and Markdown, tables as CSV, pictures."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

from allocmark import store
from allocmark.documents import write_whole
from allocmark.errors import UnknownNameError
from allocmark.report import csvs, figures, html, markdown_page
from allocmark.report.claims.text import LANGUAGES, Language
from allocmark.report.markdown_page import Files
from allocmark.report.page import Page, Part, filled, outline, page, slugged, unique
from allocmark.report.pictures import Picture
from allocmark.report.stacks import Stacks, stacks

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
    ``<out>/<part>/index.html`` that of each other one that has a page, see `paging`;
    ``<out>/README.md`` shows all of these. Each table is ``<out>/<part>/<table>.csv``, each picture
    ``<out>/<part>/<figure>.svg`` and ``.csv``. What an earlier report left in `out` stays.
    `language` is the one that pages open in; `warn` is told what of the results could not be used,
    in one sentence. The same results give the same bytes. Raises
    `AllocmarkError` where there are no usable results, or for a language that does not exist.
    """
    if language not in LANGUAGES:
        raise UnknownNameError("language", language, list(LANGUAGES))
    loaded = store.load(results, readers=_WORKERS)
    if warn and loaded.left_out:
        warn(_left_out(loaded.left_out))
    shown = outline(loaded)
    texts = (_few if len(shown.parts) < _MANY else _many)(shown, out, language)
    write_whole(out / MARKDOWN_NAME, markdown_page.whole(shown, texts).encode())
    return out / html.place(shown, shown.parts[0])


def _left_out(found: Sequence[store.LeftOut]) -> str:
    files = len({one.path for one in found})
    what = "1 file" if files == 1 else f"{files} files"
    first = found[0].reason if files == 1 else f"the first: {found[0].reason}"
    return f"left out, {what} in whole or in part: {first} (each is named on the page)"


def _few(shown: Page, out: Path, language: Language) -> list[str]:
    """Write each part and return its Markdown."""
    first, *rest = shown.parts
    front = _written(shown, first, out, language, stacks(first, shown.everything))
    return [front, *(_written(shown, part, out, language) for part in rest)]


def _many(shown: Page, out: Path, language: Language) -> list[str]:
    """Write each part in a process that is given no more than that part's rows."""
    bare = replace(
        shown, parts=tuple(map(_bare, shown.parts)), older=tuple(map(_bare, shown.older))
    )
    alone = (replace(part, panel=part.panel.alone()) for part in shown.parts)
    # Forking would copy threads of libraries. A process makes a few pages: its garbage may stay.
    context = get_context("forkserver")
    with ProcessPoolExecutor(_WORKERS, mp_context=context, initializer=gc.disable) as pool:
        first = next(alone)
        rest = [pool.submit(_written, bare, part, out, language) for part in alone]
        beside = stacks(shown.parts[0], shown.everything)
        front = pool.submit(_written, bare, first, out, language, beside)
        return [one.result() for one in (front, *rest)]


def _bare(part: Part) -> Part:
    return replace(part, panel=part.panel.bare())


def _written(
    shown: Page, part: Part, out: Path, language: Language, beside: Stacks | None = None
) -> str:
    """Write the tables, pictures and page of a part that is still empty; return its Markdown."""
    made = filled(part)
    pictures = figures.pictures(made.panel)
    files = _write_data(made, pictures, out)
    text = html.render(shown, made, pictures, language, beside=beside)
    write_whole(out / html.place(shown, made), text.encode())
    return markdown_page.part_text(made, files)


def _write_data(part: Part, pictures: Sequence[Picture], out: Path) -> Files:
    """Write a part's tables and pictures; return where they lie."""
    files = Files({}, [])
    taken: set[str] = set()
    for section in part.sections:
        for table in section.tables:
            name = f"{part.slug}/{unique(slugged(table.id), taken)}.csv"
            write_whole(out / name, csvs.table(table).encode())
            files.tables[table.id] = name
    for picture in pictures:
        stem = f"{part.slug}/{unique(slugged(f'figure-{picture.id}'), taken)}"
        write_whole(out / f"{stem}.svg", picture.svg.encode())
        write_whole(out / f"{stem}.csv", picture.csv.encode())
        files.pictures.append((stem, picture.title, picture.about))
    return files
