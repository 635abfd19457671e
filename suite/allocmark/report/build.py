"""From a results folder to report files: pages as HTML and Markdown, tables as CSV, pictures."""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

from allocmark.report import markdown_files, markdown_page, webpage
from allocmark.report.markdown_files import Files
from allocmark.report.page import Page, Part, filled, outline, page, slugged, unique
from allocmark.report.plots import catalog
from allocmark.report.plots.drawing import Picture
from allocmark.report.stacks import Stacks, stacks
from allocmark.report.translation import named
from allocmark.schema.documents import write_whole
from allocmark.store import csv_text, frame
from allocmark.system.errors import UnknownNameError
from allocmark.system.message import LANGUAGES, Language

FORMATS = ("md",)
Texts = Mapping[Language, str]
"""The Markdown of a part's first screen in each language."""
_ALWAYS: Language = "en"
_MANY = 4
"""Parts from which it pays to start other processes, which takes a second or two."""
_WORKERS = 2


def render_markdown(results: Path, language: str = "en") -> str:
    """Return the page of a results folder as Markdown, without pictures or links to files.

    Raises `AllocmarkError` where there are no usable results, or for a language that does not
    exist.
    """
    known = _known(language)
    shown = page(frame.load(results))
    texts = [markdown_page.part_text(part, known) for part in shown.parts]
    return markdown_page.whole(shown, texts, known)


def write_report(
    results: Path,
    out: Path,
    language: str = "en",
    warn: Callable[[str], None] | None = None,
    for_site: bool = False,
) -> Path:
    """Write the pages with their CSV and SVG files into `out` and return the first page's path.

    ``<out>/index.html`` is the page of the stack that was measured last, or that a site begins with
    (`for_site`, see `outline`), and
    ``<out>/<part>/index.html`` that of each other one that has a page, see `paging`;
    ``<out>/README.md`` has the first screen of each, with links to ``<out>/<part>/<section>.md``.
    Each table is ``<out>/<part>/<table>.csv``, each picture
    ``<out>/<part>/<figure>.svg`` and ``.csv``. What an earlier report left in `out` stays.
    All of these are the same in every `language`: pages open in English and hold both. Another
    `language` adds ``index.zh.html`` beside each of them, which opens in it, and ``.zh.md`` files;
    the path returned is that of the page which opens in `language`. `warn` is told what of the
    results could not be used, in one sentence. The same results give the same bytes. Raises
    `AllocmarkError` where there are no usable results, or for a language that does not exist.
    """
    return write_pages(results, out, language, warn, for_site)[0]


def write_pages(
    results: Path,
    out: Path,
    language: str = "en",
    warn: Callable[[str], None] | None = None,
    for_site: bool = False,
) -> tuple[Path, Part]:
    """Do what `write_report` does; return the first page's path, and what it is about, unfilled."""
    wanted = dict.fromkeys((_ALWAYS, _known(language)))
    loaded = frame.load(results, readers=_WORKERS)
    if warn and loaded.left_out:
        warn(_left_out(loaded.left_out))
    shown = outline(loaded, for_site)
    texts = (_few if len(shown.parts) < _MANY else _many)(shown, out, tuple(wanted))
    for each in wanted:
        text = markdown_page.whole(shown, [one[each] for one in texts], each)
        write_whole(out / named(markdown_files.INDEX, each), text.encode())
    return out / webpage.place(shown, shown.parts[0], tuple(wanted)[-1]), shown.parts[0]


def _known(language: str) -> Language:
    for each in LANGUAGES:
        if each == language:
            return each
    raise UnknownNameError("language", language, list(LANGUAGES))


def _left_out(found: Sequence[frame.LeftOut]) -> str:
    files = len({one.path for one in found})
    what = "1 file" if files == 1 else f"{files} files"
    first = found[0].reason if files == 1 else f"the first: {found[0].reason}"
    return f"left out, {what} in whole or in part: {first} (each is named on the page)"


def _few(shown: Page, out: Path, languages: Sequence[Language]) -> list[Texts]:
    """Write each part and return the Markdown of its first screen."""
    first, *rest = shown.parts
    front = _written(shown, first, out, languages, stacks(first, shown.everything))
    return [front, *(_written(shown, part, out, languages) for part in rest)]


def _many(shown: Page, out: Path, languages: Sequence[Language]) -> list[Texts]:
    """Write each part in a process that is given no more than that part's rows."""
    bare = replace(
        shown, parts=tuple(map(_bare, shown.parts)), older=tuple(map(_bare, shown.older))
    )
    alone = (replace(part, panel=part.panel.alone()) for part in shown.parts)
    # Forking would copy threads of libraries. A process makes a few pages: its garbage may stay.
    context = get_context("forkserver")
    with ProcessPoolExecutor(_WORKERS, mp_context=context, initializer=gc.disable) as pool:
        first = next(alone)
        rest = [pool.submit(_written, bare, part, out, languages) for part in alone]
        beside = stacks(shown.parts[0], shown.everything)
        front = pool.submit(_written, bare, first, out, languages, beside)
        return [one.result() for one in (front, *rest)]


def _bare(part: Part) -> Part:
    return replace(part, panel=part.panel.bare())


def _written(
    shown: Page, part: Part, out: Path, languages: Sequence[Language], beside: Stacks | None = None
) -> Texts:
    """Write all of a part that is still empty; return the Markdown of its first screen."""
    made = filled(part)
    pictures = catalog.pictures(made.panel)
    files = _write_data(made, pictures, out)
    for language in languages:
        text = webpage.render(shown, made, pictures, language, beside=beside)
        write_whole(out / webpage.place(shown, made, language), text.encode())
    return {language: markdown_files.write(made, files, out, language) for language in languages}


def _write_data(part: Part, pictures: Sequence[Picture], out: Path) -> Files:
    """Write a part's tables and pictures; return their names."""
    tables: dict[str, str] = {}
    drawn: list[tuple[Picture, str]] = []
    taken: set[str] = set()
    folder = out / part.slug
    for section in part.sections:
        for table in section.tables:
            tables[table.id] = f"{unique(slugged(table.id), taken)}.csv"
            write_whole(folder / tables[table.id], csv_text.table(table).encode())
    for picture in pictures:
        stem = unique(slugged(f"figure-{picture.id}"), taken)
        write_whole(folder / f"{stem}.svg", picture.svg.encode())
        write_whole(folder / f"{stem}.csv", picture.csv.encode())
        drawn.append((picture, stem))
    return Files(tables, drawn)
